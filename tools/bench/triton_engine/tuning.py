"""Tiles to try, and compiling them several at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import triton

INTERPRETED = triton.knobs.runtime.interpret  # kernels run as Python on the CPU, where nothing can be timed
WARM_UP_MS, REPEAT_MS = 5, 20  # of the timing of one tile


def tiles(*choices: tuple[int, int, int, int]) -> list[triton.Config]:
    """From (rows BM, columns BN, warps, stages)."""
    return [triton.Config({"BM": m, "BN": n}, num_warps=w, num_stages=s) for m, n, w, s in choices]


def columns(*choices: tuple[int, int, int]) -> list[triton.Config]:
    """From (columns BN, warps, stages), for kernels whose rows are given."""
    return [triton.Config({"BN": n}, num_warps=w, num_stages=s) for n, w, s in choices]


def autotune(configs: list[triton.Config], key: list[str]) -> Callable:
    """triton.autotune with short timings; the interpreter gets the first tile."""
    return triton.autotune(configs[:1] if INTERPRETED else configs, key=key, do_bench=_milliseconds)


def _milliseconds(call: Callable[[], object], quantiles: tuple[float, ...]) -> list[float]:
    return triton.testing.do_bench(call, warmup=WARM_UP_MS, rep=REPEAT_MS, quantiles=quantiles)


def compile_all(launches: Iterable[tuple[Callable, tuple]]) -> None:
    """Compiles every tile of the kernels for (kernel, arguments); the first launches would do it one by one."""
    if INTERPRETED:
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool, triton.AsyncCompileMode(pool, ignore_errors=True):
        for kernel, arguments in launches:
            kernel.warmup(*arguments, grid=(1,))
