"""The bench of the time stage: the assembled engine on this machine's GPU.

There is an engine for each right point and case, all in this one process, so that their calls can take turns.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from tools.bench.measure import CACHE_BYTES
from tools.bench.peers import PlainRead
from tools.bench.report import machine
from tools.bench.timing import WARM_UP_CALLS, Contender

from .check import Expected, first_wrong
from .engine import build_engine, engine_config
from .generator import MachineError
from .state import State
from .sweep import Case, Shape
from .workload import make_workload

CALLS = 5  # timed in a turn, after WARM_UP_CALLS
# The size at which results are held against float64: no multiple of a tile, and more than two tiles of any size.
CHECK_BATCH, CHECK_LENGTH = 2, 517
# Relative L2 distance from the incumbent's results at the timed size; each is about 0.003 from float64.
TOLERANCE = 0.02


class Gpu:
    """A Bench. package: the assembled engine.

    Errors: the package's EngineError if it can't run the incumbent; MachineError if memory runs out, here or later.
    """

    def __init__(self, state: State, package: ModuleType) -> None:
        self._state, self._package = state, package
        self._dims = state.plan["head_dim"], state.plan["gate_dim"]
        step = state.sweep.step
        self._right: dict[Case, list[list[Expected]]] = {}  # at the small size
        self._incumbents: dict[Case, list[torch.Tensor]] = {}  # results at the timed size
        self._engines: dict[tuple[str, Case], Any] = {}
        self._calls: dict[tuple[str, Case], Callable[[], object]] = {}
        self._contenders: dict[tuple[str, Case], Contender] = {}
        with _memory():
            self._work = {case: make_workload(step, case, self._dims) for case in state.sweep.cases}
            self._small = {case: make_workload(step, _small(case), self._dims) for case in state.sweep.cases}
            # As in tools.bench: a decode step finds its cache in memory, not in the L2 that the last call filled.
            self._before = PlainRead(CACHE_BYTES).read if step == "decode" else None
            for case in self._work:  # what fails here is no point's fault, and mustn't be noted as one
                self._engine(state.incumbent, case)

    def machine(self) -> dict[str, str]:
        """GPU, driver, and the versions of torch and triton."""
        return machine()

    def check(self, point: str) -> str | None:
        """Holds a point's results against float64 at a small size, and against the incumbent's at the timed ones."""
        try:
            with _memory():
                reason = next(filter(None, (self._check(point, case) for case in self._work)), None)
        except MachineError:
            raise
        except (self._package.EngineError, RuntimeError) as error:
            reason = f"{type(error).__name__}: {_first_line(error)}"
        if reason:
            self._close(point)
        return reason

    def require_usable(self) -> None:
        """Errors: MachineError if the process has lost the GPU, as by a kernel that read beyond its memory."""
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise MachineError(
                f"the last point's kernels broke this process's use of the GPU ({_first_line(error)}); it is "
                "noted as wrong, and the same command goes on without it"
            ) from None

    def milliseconds(self, point: str, case: Case) -> float:
        """The median of a few calls, each launched while the GPU still spins, so that launch time stays out."""
        with _memory():
            if (point, case) not in self._contenders:
                self._contenders[point, case] = Contender(self._call(point, case), self._before)
            return statistics.median(self._contenders[point, case].run(WARM_UP_CALLS + CALLS)[WARM_UP_CALLS:])

    def _check(self, point: str, case: Case) -> str | None:
        engine, small, work = self._engine(point, case), self._small[case], self._work[case]
        if case not in self._right:
            self._right[case] = small.expected()
        _run(small.attach(engine), small.outputs)
        wrong = first_wrong(self._right[case], small.results())
        small.detach(engine)
        if wrong:
            return f"{case.dtype}: {wrong}"
        if case not in self._incumbents:
            _run(self._call(self._state.incumbent, case), work.outputs)
            self._incumbents[case] = [x.clone() for x in work.outputs]
        _run(self._call(point, case), work.outputs)
        distance = max(_distance(ours, right) for ours, right in zip(work.outputs, self._incumbents[case]))
        return None if distance < TOLERANCE else f"{case.name}: {distance:.2g} from the incumbent's results"

    def _call(self, point: str, case: Case) -> Callable[[], object]:
        if (point, case) not in self._calls:
            self._calls[point, case] = self._work[case].attach(self._engine(point, case))
        return self._calls[point, case]

    def _engine(self, point: str, case: Case) -> Any:
        if (point, case) not in self._engines:
            config = engine_config(self._state.sweep.step, case, self._dims, _small(case).shape)
            self._engines[point, case] = build_engine(self._package, self._state.pack(point), config)
        return self._engines[point, case]

    def _close(self, point: str) -> None:
        """Frees what a wrong point's engines hold."""
        for case in self._work:
            self._calls.pop((point, case), None)
            if engine := self._engines.pop((point, case), None):
                # A process that has lost the GPU can't close either; require_usable tells that.
                with contextlib.suppress(self._package.EngineError, RuntimeError):
                    engine.close()


@contextlib.contextmanager
def _memory() -> Iterator[None]:
    """Makes running out of memory a MachineError, since it says nothing about a point."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        kinds = MemoryError, torch.cuda.OutOfMemoryError
        if not isinstance(error, kinds) and "CUDA_ERROR_OUT_OF_MEMORY" not in str(error):
            raise
        raise MachineError(
            f"out of memory ({_first_line(error)}); every right point has an engine for each case, and these are open "
            "together: sweep fewer points or smaller shapes"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _small(case: Case) -> Case:
    shape = case.shape
    return replace(
        case,
        shape=Shape(
            batch=min(shape.batch, CHECK_BATCH),
            length=min(shape.length, CHECK_LENGTH),
            q_heads=shape.q_heads,
            kv_heads=shape.kv_heads,
            cached=min(shape.cached, CHECK_LENGTH),
        ),
    )


def _run(call: Callable[[], object], outputs: tuple[torch.Tensor, ...]) -> None:
    """Calls with outputs full of NaN, so that what isn't written shows."""
    for output in outputs:
        output.fill_(float("nan"))
    call()
    torch.cuda.synchronize()


def _distance(ours: torch.Tensor, right: torch.Tensor) -> float:
    """Relative L2; infinite if either has a NaN."""
    distance = ((ours.float() - right.float()).norm() / right.float().norm()).item()
    return distance if distance == distance else float("inf")
