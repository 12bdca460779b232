"""Host time of a call, apart from the GPU's: until it returns, and until call and synchronise are done.

The GPU is idle before every call, so nothing in it waits. Beside them an empty kernel launched by the driver's own call
through ctypes: what launch and synchronise cost at least.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Iterator
from types import ModuleType

import torch

from . import triton_engine
from .contenders import config, make_calls, make_data
from .measure import reason
from .shapes import Heads, Serving, Training
from .timing import Call

WARM_UP_CALLS, CALLS = 20, 200
HEADS = Heads(32, 8, 128, 64)
SHAPES = (
    Serving("decode, 1 sequence", "decode", HEADS, 0, (256,), ((1,),)),
    Serving("decode, 64 sequences", "decode", HEADS, 0, (256,) * 64, ((1,) * 64,)),
    Serving("prefill, 1 prompt of 64", "prefill", HEADS, 0, (0,), ((64,),)),
    Training(HEADS, 1, 128),
)
EMPTY_KERNEL = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty() { ret; }\n\0"


def measure(package: ModuleType) -> list[dict]:
    """{call, contender, calls, return_us, wall_us}: medians in microseconds; or {call, contender, missing}."""
    engines = {"ours": package.build_engine, "triton": triton_engine.build_engine}
    try:
        rows = [_row("bare launch", "driver", bare_launch())]
    except (OSError, RuntimeError) as error:
        rows = [{"call": "bare launch", "contender": "driver", "missing": reason(error)}]
    for shape in SHAPES:
        data = make_data(shape)
        for name, build in engines.items():
            try:
                with build(config(shape)) as engine:
                    calls = make_calls(engine, data, shape)
                    if isinstance(shape, Serving):
                        rows.append(_row(shape.name, name, calls.advance, calls.reset))
                        continue
                    for operation in shape.operations:
                        rows.append(_row(f"{operation} of {shape.name}", name, getattr(calls, operation)))
            except Exception as error:
                rows.append({"call": shape.name, "contender": name, "missing": reason(error)})
    return rows


def _row(title: str, contender: str, call: Call, after: Call = lambda: None) -> dict:
    pairs = list(_times(call, after))[WARM_UP_CALLS:]
    returned, wall = (statistics.median(column) / 1e3 for column in zip(*pairs))
    return {"call": title, "contender": contender, "calls": CALLS, "return_us": returned, "wall_us": wall}


def _times(call: Call, after: Call) -> Iterator[tuple[int, int]]:
    """Nanoseconds until a call returns, and until the GPU is done. after: done between calls, not counted."""
    for _ in range(WARM_UP_CALLS + CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        call()
        returned = time.perf_counter_ns()
        torch.cuda.synchronize()
        done = time.perf_counter_ns()
        after()
        yield returned - start, done - start


def bare_launch() -> Call:
    """A launch of an empty kernel on torch's current stream. RuntimeError if the driver refuses."""
    cuda = ctypes.CDLL("libcuda.so.1")
    torch.cuda.synchronize()  # torch's context is current from here on
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(cuda.cuModuleLoadData(ctypes.byref(module), EMPTY_KERNEL))
    _check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"empty"))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    one, nothing = ctypes.c_uint(1), ctypes.c_uint(0)
    return lambda: _check(cuda.cuLaunchKernel(function, one, one, one, one, one, one, nothing, stream, None, None))


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"the driver's error {code}")
