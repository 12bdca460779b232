"""Times of GPU work, with the SM clock under which they were taken.

The card moves by several percent with heat, so contenders are only compared when they took turns in one run. Two
regimes: *burst*, a few calls after some idle time, and *sustained*, continuous launches. The work is queued while the
GPU spins, so that launch time stays out; host time is measured apart (host.py).
"""

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

SPINS_A_SECOND = 2e9  # at the highest clock, or a spin would end early
LEAST_SPIN, MOST_SPIN = 2e-4, 0.1  # seconds
WARM_UP_CALLS = 3
SUSTAINED_TURNS, QUEUED_CALLS = 3, 32
CLOCK_INTERVAL = 0.01  # seconds between readings of the clock

Call = Callable[[], object]


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


class Contender:
    """A call to be timed, with what is done before each call and not counted."""

    def __init__(self, call: Call, before: Call | None) -> None:
        self.call, self.before = call, before
        self.times: list[float] = []  # milliseconds of each call
        self.clock = Clock()
        self._host_seconds = 0.0
        for _ in range(WARM_UP_CALLS):  # the last one, with all warm, tells the host's time
            self._host_seconds = self._queue_one()
        torch.cuda.synchronize()
        self.once = min(self.run(WARM_UP_CALLS))

    def _queue_one(self) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        if self.before:
            self.before()
        self.call()
        return time.perf_counter() - start

    def run(self, count: int) -> list[float]:
        """Milliseconds of each of `count` consecutive calls."""
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        spin = min(MOST_SPIN, max(LEAST_SPIN, 1.5 * count * self._host_seconds))
        torch.cuda._sleep(int(spin * SPINS_A_SECOND))
        for start, end in marks:
            if self.before:
                self.before()
            start.record()
            self.call()
            end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end) for start, end in marks]

    def timing(self) -> Timing:
        """Of all that `times` holds."""
        return Timing(statistics.median(self.times), len(self.times), self.clock.median())


def burst(
    contenders: Mapping[str, Call], idle: float, calls: int = 10, turns: int = 3, before: Call | None = None
) -> dict[str, Timing]:
    """Contenders take turns of a few calls, `idle` seconds of idle GPU ahead of each turn.

    before: called ahead of every call and not counted, to take its data out of the cache, say.
    """
    ready = {name: Contender(call, before) for name, call in contenders.items()}
    for _ in range(turns):
        for contender in ready.values():
            time.sleep(idle)
            contender.times += contender.run(calls)
            contender.clock.read()
    return {name: contender.timing() for name, contender in ready.items()}


def sustained(contenders: Mapping[str, Call], seconds: float, before: Call | None = None) -> dict[str, Timing]:
    """Contenders take turns of continuous launches, `seconds` in all for each of them.

    Another one begins each time: whoever is first finds the card cooler, by several percent.
    """
    ready = {name: Contender(call, before) for name, call in contenders.items()}
    order = list(ready.values())
    for _ in range(SUSTAINED_TURNS):
        order = order[1:] + order[:1]
        for contender in order:
            with contender.clock.readings():
                end = time.perf_counter() + seconds / SUSTAINED_TURNS
                while time.perf_counter() < end:
                    fitting = int(1e3 * seconds / SUSTAINED_TURNS / contender.once) + 1
                    contender.times += contender.run(min(QUEUED_CALLS, fitting))
    return {name: contender.timing() for name, contender in ready.items()}
