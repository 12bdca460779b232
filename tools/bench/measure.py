"""Every operation of every shape, timed beside its peers: the rows that tables and plots are made of.

A contender that fails is left out, and the row says why; the others go on. ours and triton do the same on the same
data, so their results are compared before they are timed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from types import ModuleType

import torch

from . import triton_engine
from .contenders import config, make_calls, make_data
from .floors import datasheet
from .peers import Cudnn, Eager, PlainRead
from .rows import row
from .shapes import Serving, Training
from .timing import burst, sustained

TOLERANCE = 0.02  # relative L2 distance of two results, each about 0.003 from float64
CACHE_BYTES = 128 * 1024 * 1024  # read before each decode call, more than an L2 holds: a step's cache isn't there
SLOW = ("eager",)  # timed in bursts only
TINY_CACHE = {"max_sequences": 1, "max_seq_len": 64, "max_cached_tokens": 64}

Shape = Training | Serving


def compile_peers(shapes: Iterable[Shape]) -> None:
    """Compiles the Triton kernels of all shapes together, since one shape's alone don't fill the cores."""
    configs = {str(chosen): chosen for chosen in ({**config(shape), **TINY_CACHE} for shape in shapes)}
    triton_engine.compile_engines(configs.values())


def measure_all(package: ModuleType, shapes: Iterable[Shape], idle: float, seconds: float) -> tuple[list, list]:
    """Rows of all shapes, and what was wrong with those whose results disagree or whose engine failed.

    idle: seconds of idle GPU before a burst. seconds: of sustained launches for each operation; 0 leaves them out.
    """
    rows: list[dict] = []
    failures: list[str] = []
    for shape in shapes:
        print(f"timing {shape.name}", file=sys.stderr, flush=True)
        try:
            found, wrong = measure(package, shape, idle, seconds)
        except Exception as error:  # a shape that fails as a whole costs no other
            found, wrong = [], [f"{shape.name}: {reason(error)}"]
        rows += found
        failures += wrong
        torch.cuda.empty_cache()
    return rows, failures


class _Field:
    """The contenders of one shape that are there, and the reasons of those that aren't."""

    def __init__(self) -> None:
        self.there: dict[str, object] = {}
        self.missing: dict[str, str] = {}

    def add(self, name: str, make: Callable[[], object], operations: Iterable[str]) -> None:
        """Makes a contender and has it do each operation once."""
        try:
            contender = make()
            for operation in operations:
                getattr(contender, operation)()
            torch.cuda.synchronize()
        except Exception as error:
            self.missing[name] = reason(error)
        else:
            self.there[name] = contender


def measure(package: ModuleType, shape: Shape, idle: float, seconds: float) -> tuple[list[dict], list[str]]:
    """Rows of one shape, one for each operation and regime, and what was wrong with it."""
    data = make_data(shape)
    field, failures = _Field(), []
    engines = {"ours": package.build_engine, "triton": triton_engine.build_engine}
    built = []
    try:
        for name, build in engines.items():

            def make(build: Callable = build) -> object:
                built.append(build(config(shape)))
                return make_calls(built[-1], data, shape)

            field.add(name, make, shape.operations)
        if "ours" in field.missing:
            failures.append(f"{shape.name}: ours: {field.missing['ours']}")
        field.add("eager", lambda: Eager(data, shape), shape.operations)
        if "decode" in shape.operations:
            field.add("read", lambda: PlainRead(shape.bytes("decode")), shape.operations)
        else:
            field.add("cudnn", lambda: Cudnn(data, shape), shape.operations)
        rows = []
        for operation in shape.operations:
            if wrong := _disagreement(field, operation):
                failures.append(f"{shape.name}, {operation}: {wrong}")
                continue
            rows += _time(field, shape, operation, idle, seconds)
        return rows, failures
    finally:
        for engine in built:
            engine.close()


def _disagreement(field: _Field, operation: str) -> str | None:
    """What is wrong with the results of the two engines, if both are there."""
    if not {"ours", "triton"} <= field.there.keys():
        return None
    pairs = zip(*(field.there[name].results(operation) for name in ("ours", "triton")))
    distances = [((a.float() - b.float()).norm() / b.float().norm()).item() for a, b in pairs]
    far = [distance for distance in distances if not distance < TOLERANCE]  # NaN too
    return f"results of ours and triton differ by {far[0]:.3g}, expected less than {TOLERANCE}" if far else None


def _time(field: _Field, shape: Shape, operation: str, idle: float, seconds: float) -> list[dict]:
    calls = {name: getattr(contender, operation) for name, contender in field.there.items()}
    before = PlainRead(CACHE_BYTES).read if operation == "decode" else None
    regimes = {"burst": burst(calls, idle, before=before)} if calls else {}
    quick = {name: call for name, call in calls.items() if name not in SLOW}
    if seconds and quick:
        regimes["sustained"] = sustained(quick, seconds, before)
    flops = {name: _flops(contender, shape, operation) for name, contender in field.there.items()}
    sheet = datasheet(torch.cuda.get_device_name())
    return [
        row(
            shape,
            operation,
            regime,
            {name: asdict(timing) for name, timing in timings.items()},
            flops,
            sheet,
            field.missing,
        )
        for regime, timings in regimes.items()
    ]


def _flops(contender: object, shape: Shape, operation: str) -> int:
    return contender.flops(operation) if isinstance(contender, Cudnn) else shape.flops(operation)


def reason(error: Exception) -> str:
    """The first line of what an error says, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
