"""Timed workloads: starter and engine back to back in alternation, on fresh data, with the results looked at.

For each workload every contender has a process of its own that stays for all rounds. A round is two passes over the
contenders, the second in reverse, each pass with data of its own: A B, B A. In a pass each contender runs the set-up,
then the timed calls in one go, timed from here until the device is idle; the others' processes stand still, and inputs
appear in the shared memory when they are needed. When the clock stops its outputs are taken: every element must have
been written, some rows, picked by the operating system's randomness, are held to float64, and nearly all rows must lie
near the starter's of the same pass. Before the first round and after the last one each contender runs everything once
untimed, on data of its own, so that what is loaded or compiled late is; memory is looked at throughout. A contender
that fails once has no time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from .arena import Arena
from .check import accept
from .cost import Cost, cost
from .data import Source
from .process import EngineFailure, EngineProcess, Host
from .recheck import compare_rows, recheck
from .script import Script, Step
from .trace import Cache, Trace


@dataclass
class Contender:
    """An engine folder in a bench, and what is known of it on one workload."""

    name: str
    folder: Path
    watched: bool = True  # a peer may compile
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass
class Result:
    """One workload's."""

    workload: Trace
    cost: Cost
    contenders: dict[str, Contender]

    def latency(self, name: str) -> float | None:
        """Median seconds of a contender; None if it failed or isn't there."""
        contender = self.contenders.get(name)
        return median(contender.seconds) if contender and not contender.failures and contender.seconds else None


def bench_workload(workload: Trace, contenders: list[Contender], salt: str, host: Host, rounds: int) -> Result:
    """Times all contenders on one workload."""
    script = Script(workload, host.memory)
    with ExitStack() as stack:
        arena = stack.enter_context(Arena(host.memory, script.elements))
        runners = [stack.enter_context(_Runner(each, script, arena, host)) for each in contenders]

        def fresh_data(name: object) -> Source:
            source = Source(f"{salt}/{workload.name}/{name}", workload.dtype, arena.xp)
            script.fill(arena, source)
            return source

        fresh_data("first")
        for runner in runners:
            runner.attempt(runner.start)
        for number in range(2 * rounds):
            source = fresh_data(number)
            arena.hide()
            for runner in runners if number % 2 == 0 else reversed(runners):
                runner.attempt(lambda: runner.run(source))
            _compare(runners, script)
        fresh_data("last")
        for runner in runners:
            runner.attempt(runner.end)
    return Result(workload, cost(script), {each.name: each for each in contenders})


class _Runner:
    """A contender's process on one workload. A context manager."""

    def __init__(self, contender: Contender, script: Script, arena: Arena, host: Host) -> None:
        self.contender, self.script, self.arena = contender, script, arena
        self.process = EngineProcess(replace(host, watched=contender.watched))
        self.outputs: list[dict[str, np.ndarray]] = []
        self.setup, self.end_of_calls = len(script.setup), len(script.steps)

    def __enter__(self) -> _Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__()
        self.contender.failures += [f"the engine {finding}" for finding in self.process.report.findings]

    def attempt(self, step: Callable[[], None]) -> None:
        """Does a step while the others' processes stand still, unless one has failed before; notes a failure."""
        if not self.contender.failures:
            self.process.go_on()
            try:
                step()
            except EngineFailure as failure:
                self.contender.failures.append(str(failure))
            self.process.pause()

    def start(self) -> None:
        """Builds the engine, hands over the calls and those that take all sequences away again, runs them once."""
        cache = Cache()
        for step in self.script.steps:
            cache.apply(step.call)
        releases = [["release", name] for name in cache.held]
        self.everything = self.end_of_calls + len(releases)
        self.process.open(self.arena.share(), self.script.trace.dtype, self.script.trace.stream)
        self.process.build(self.contender.folder, self.script.config)
        self.process.load(self.script.orders() + releases)
        self._measure()

    def _measure(self) -> None:
        """Everything once, untimed, with an eye on the memory."""
        self.arena.restore()
        self.process.share_device()
        _require(self.process.run(0, self.everything))
        accept(self.script, self.arena, self.script.steps)
        self.arena.hide()

    def run(self, source: Source) -> None:
        """One pass: set-up, timed calls, a look at the results, tidying up; inputs are there when they are needed."""
        self.process.share_device()
        self._reveal(self.script.setup)
        _require(self.process.time(0, self.setup)[1])
        self._reveal(self.script.calls)
        seconds, results = self.process.time(self.setup, self.end_of_calls)
        self.outputs = accept(self.script, self.arena, self.script.steps)
        _require(results)
        _require(self.process.time(self.end_of_calls, self.everything)[1])
        self.arena.hide()
        recheck(self.script, source, self.outputs)
        self.contender.seconds.append(seconds)

    def _reveal(self, steps: list[Step]) -> None:
        self.arena.reveal(view for step in steps for view in step.inputs.values())

    def end(self) -> None:
        """Measures the memory once more, has the process end by itself, judges the memory it held."""
        self._measure()
        self.process.end()
        limit = self.script.trace.limit()
        if self.contender.watched and self.process.report.peak_bytes > limit:
            raise EngineFailure(f"held {self.process.report.peak_bytes} bytes, more than memory_limit_bytes, {limit}")


def _require(results: list[dict]) -> None:
    for result in results:
        if "error" in result:
            raise EngineFailure(f"a call raised {result['error'][0]}: {result['message']}")


def _compare(runners: list[_Runner], script: Script) -> None:
    """Holds every row of every contender's results to the first of the others that is a starter: a loose bound, but
    for all of them."""
    starter = next((r for r in runners if r.contender.name == "starter" and not r.contender.failures), None)
    for runner in runners if starter else []:
        if runner is not starter and not runner.contender.failures:
            runner.attempt(lambda: compare_rows(script, runner.outputs, starter.outputs))


def bench(
    workloads: list[Trace],
    folders: dict[str, tuple[Path, bool]],
    salt: str,
    host: Host,
    rounds: int,
    done: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Times the engines in `folders`, {name: (folder, watched)}, on all workloads; `done` is told of each."""
    results = []
    for workload in workloads:
        contenders = [Contender(name, folder, watched) for name, (folder, watched) in folders.items()]
        results.append(bench_workload(workload, contenders, salt, host, rounds))
        done(results[-1])
    return results
