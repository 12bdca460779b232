"""The GPU's bench where there is no GPU: what it does with errors and engines, and what a turn is."""

from __future__ import annotations

import importlib
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
from made_up import INCUMBENT, TIMED, compiled_state

from tools.sweep.generator import MachineError
from tools.sweep.sweep import Case

POINT = TIMED[1]


class OutOfMemoryError(RuntimeError):
    """Stands for torch's."""


class EngineError(Exception):
    """Stands for the package's, as do the next two."""


class PagesExhausted(EngineError, MemoryError):
    pass


class DriverError(EngineError, RuntimeError):
    pass


class Engine:
    def __init__(self, kernels) -> None:
        self.point, self.closed = kernels.name, False

    def close(self) -> None:
        self.closed = True


class Contender:
    """Stands for the bench's: its calls take 1, 2, 3 ... milliseconds."""

    made: list[Contender] = []

    def __init__(self, call, before) -> None:
        self.before = before
        self.made.append(self)

    def run(self, count: int) -> list[float]:
        return [float(number) for number in range(1, count + 1)]


@pytest.fixture
def gpu(monkeypatch):
    """tools.sweep.gpu without torch; `engines` are those it built."""
    fakes = {
        "torch": {"cuda": SimpleNamespace(OutOfMemoryError=OutOfMemoryError, synchronize=lambda: None)},
        "tools.bench.measure": {"CACHE_BYTES": 1 << 27},
        "tools.bench.peers": {"PlainRead": lambda size: SimpleNamespace(read=f"reads {size} bytes")},
        "tools.bench.timing": {"WARM_UP_CALLS": 3, "Contender": Contender},
        "tools.sweep.workload": {"make_workload": lambda *_: SimpleNamespace(attach=lambda engine: engine)},
    }
    for name, members in fakes.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "tools.sweep.gpu", raising=False)
    module = importlib.import_module("tools.sweep.gpu")
    module.engines = []

    def build_engine(package, kernels, config) -> Engine:
        module.engines.append(Engine(kernels))
        return module.engines[-1]

    monkeypatch.setattr(module, "build_engine", build_engine)
    monkeypatch.setattr(Contender, "made", [])
    yield module
    sys.modules.pop("tools.sweep.gpu")  # the next import is of the real modules again


def bench_that(gpu, compiled, result):
    """A bench whose checks build the point's engine, and then give a reason or raise an error."""

    class Checks(gpu.Gpu):
        def _check(self, point: str, case: Case) -> str | None:
            self._call(point, case)
            if isinstance(result, Exception):
                raise result
            return result

    return Checks(compiled, SimpleNamespace(EngineError=EngineError))


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        PagesExhausted("needed 9, free 3"),
        DriverError("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"),
        MemoryError(),
    ],
)
def test_running_out_of_memory_is_no_points_fault(gpu, compiled, error):
    with pytest.raises(MachineError, match="out of memory .*: sweep fewer points or smaller shapes"):
        bench_that(gpu, compiled, error).check(POINT)


def test_an_engine_with_other_kernels_is_no_points_fault(gpu, compiled):
    with pytest.raises(MachineError, match="the engine has other kernels"):
        bench_that(gpu, compiled, MachineError("the engine has other kernels")).check(POINT)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("o: largest error 1", "o: largest error 1"),
        (DriverError("cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS\nmore"), "DriverError: cuLaunchKernel: .*ADDRESS$"),
        (RuntimeError(), "RuntimeError: RuntimeError"),
    ],
)
def test_a_wrong_points_engines_are_closed_and_the_incumbents_stay(gpu, compiled, result, reason):
    bench = bench_that(gpu, compiled, result)
    assert re.match(reason, bench.check(POINT))
    assert {(engine.point, engine.closed) for engine in gpu.engines} == {(INCUMBENT, False), (POINT, True)}


def test_a_right_points_engines_stay_open(gpu, compiled):
    assert bench_that(gpu, compiled, None).check(POINT) is None
    assert [(engine.point, engine.closed) for engine in gpu.engines] == [(INCUMBENT, False)] * 2 + [(POINT, False)] * 2


def test_a_turn_is_the_median_of_5_calls_after_3_that_warm_up(gpu, compiled):
    bench = bench_that(gpu, compiled, None)
    case = compiled.sweep.cases[0]
    assert [bench.milliseconds(POINT, case) for _ in range(4)] == [6.0] * 4
    assert [contender.before for contender in Contender.made] == [None]  # one for all turns


def test_a_decode_step_finds_its_cache_outside_the_l2(gpu, tmp_path, sweep_file, project):
    shape = {"batch": 1, "length": 1, "cached": 64, "q_heads": 4, "kv_heads": 2}
    ranges = {"tile_m": [16], "tile_n": [16, 32]}
    state = compiled_state(tmp_path / "state", sweep_file(operation="decode", tile=ranges, shapes=[shape]), project)
    bench_that(gpu, state, None).milliseconds(state.incumbent, state.sweep.cases[0])
    assert [contender.before for contender in Contender.made] == ["reads 134217728 bytes"]
