"""Times of GPU work, with the SM clock under which they were taken.

The card moves by several percent with heat, so contenders are only compared when they took turns in one run. Two
regimes: *burst*, single calls with the GPU idle before each, and *sustained*, continuous launches.
"""

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

SPIN_CYCLES = 400_000  # about 0.2 ms: the work is queued while the GPU spins, so launch time stays out
WARM_UP_CALLS = 3
CLOCK_INTERVAL = 0.01  # seconds between readings of the clock


@dataclass(frozen=True)
class Timing:
    """Median of `calls` calls, and the median SM clock meanwhile (None if it can't be read)."""

    milliseconds: float
    calls: int
    sm_mhz: float | None


class Clock:
    """Readings of the SM clock of GPU 0 by NVML."""

    def __init__(self) -> None:
        self._readings: list[int] = []
        try:
            import pynvml

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            self._query = lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
        except Exception:  # no NVML, or none that answers: the clock is a remark beside the time
            self._query = None

    def read(self) -> None:
        """Takes one reading."""
        if self._query:
            self._readings.append(self._query())

    @contextlib.contextmanager
    def readings(self) -> Iterator[None]:
        """Takes readings in the background."""
        stop = threading.Event()

        def sample() -> None:
            while not stop.wait(CLOCK_INTERVAL):
                self.read()

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def median(self) -> float | None:
        """Median of the readings so far, in MHz."""
        return statistics.median(self._readings) if self._readings else None


def _time_calls(call: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each of `count` consecutive calls, queued behind a short spin."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda._sleep(SPIN_CYCLES)
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in zip(marks, marks[1:])]


def burst(contenders: Mapping[str, Callable[[], object]], idle: float, calls: int = 10) -> dict[str, Timing]:
    """Contenders take turns, one call each, `idle` seconds of idle GPU before every call."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    clocks = {name: Clock() for name in contenders}
    for call in contenders.values():
        _time_calls(call, WARM_UP_CALLS)
    for _ in range(calls):
        for name, call in contenders.items():
            time.sleep(idle)
            times[name] += _time_calls(call, 1)
            clocks[name].read()
    return {name: Timing(statistics.median(times[name]), calls, clocks[name].median()) for name in contenders}


def sustained(contenders: Mapping[str, Callable[[], object]], seconds: float, turns: int = 3) -> dict[str, Timing]:
    """Contenders take turns of continuous launches, `seconds` in all for each of them."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    clocks = {name: Clock() for name in contenders}
    once = {name: min(_time_calls(call, WARM_UP_CALLS)) for name, call in contenders.items()}
    for _ in range(turns):
        for name, call in contenders.items():
            with clocks[name].readings():
                times[name] += _time_calls(call, max(3, round(1e3 * seconds / turns / once[name])))
    return {name: Timing(statistics.median(t), len(t), clocks[name].median()) for name, t in times.items()}
