"""The audit of an engine folder: every trace twice, each time in a fresh process, held to float64 and to each other.

The first run makes one call at a time: its result, the lengths of the sequences and the memory held are looked at after
each. The second makes all calls without a pause, as timed traces do; its bytes must be the first's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


from tools.reference.accuracy import Verdict

from .arena import Arena
from .data import Source
from .judge import Model, judge_step
from .memory import ALLOWANCE
from .process import EngineFailure, EngineProcess, Host
from .script import Script, Step
from .trace import Cache, Trace

STARTED_AHEAD = max(1, (os.cpu_count() or 1) // 4)  # processes; importing torch takes seconds

Spawn = Callable[[], EngineProcess]


@dataclass
class Outcome:
    """What the audit of one trace found. It passes if there are no failures."""

    trace: Trace
    failures: list[str] = field(default_factory=list)
    peak_bytes: int = 0
    worst: float | None = None  # largest error of all results, as a fraction of what is allowed
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the engine passes."""
        return not self.failures


def check_trace(folder: Path, trace: Trace, salt: str, host: Host, spawn: Spawn) -> Outcome:
    """Puts the engine in `folder` through `trace`, with data from `salt`. spawn: makes the engine's processes."""
    outcome, start = Outcome(trace), time.perf_counter()
    script = Script(trace, host.memory)
    with Arena(host.memory, script.elements) as arena:
        source = Source(salt, trace.dtype, arena.xp)
        script.fill(arena, source)
        first = _run(folder, script, arena, spawn, outcome, paced=True)
        if first is not None:
            arena.restore()
            second = _run(folder, script, arena, spawn, outcome, paced=False)
            if second is not None:
                _compare(script, first, second, outcome)
            _judge(script, source, first, outcome)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _run(folder: Path, script: Script, arena: Arena, spawn: Spawn, outcome: Outcome, paced: bool) -> list | None:
    """One process's outputs, {name: bits} for each step; None if it didn't come to its end."""
    outputs = None
    which = "first run" if paced else "second run"
    with spawn() as process:
        try:
            process.open(arena.share(), script.trace.dtype, script.trace.stream)
            process.build(folder, script.config)
            outputs = (_call_by_call if paced else _all_at_once)(script, arena, process)
            process.end()
        except EngineFailure as failure:
            outcome.failures.append(f"{which}: {failure}")
    report, limit = process.report, script.trace.limit()
    outcome.failures += [f"{which}: the engine {finding}" for finding in report.findings]
    outcome.peak_bytes = max(outcome.peak_bytes, report.peak_bytes)
    if report.peak_bytes > limit:
        over = (report.peak_bytes - limit) / 2**20
        beyond = f"beyond the {ALLOWANCE >> 20} MiB left for context and code"
        outcome.failures.append(f"{which}: held {over:.1f} MiB more than memory_limit_bytes, {limit}, {beyond}")
    return outputs


def _call_by_call(script: Script, arena: Arena, process: EngineProcess) -> list:
    """Runs the steps one by one; their outputs. EngineFailure for a result, or a length of a sequence, that isn't the
    right one, and for memory that was written and mustn't be."""
    orders, cache = [], Cache()
    for step, order in zip(script.steps, script.orders()):
        cache.apply(step.call)
        orders.append((step, order, cache.lengths()))
    process.load([each for _, order, after in orders for each in (order, *(["length", name] for name in after))])
    outputs, at = [], 0
    for number, (step, _, after) in enumerate(orders):
        (result,) = process.run(at, at + 1, step.returned_bytes)
        _expect(number, step, result)
        found = process.run(at + 1, at + 1 + len(after)) if after else []
        for (name, length), answer in zip(after.items(), found):
            if answer.get("value") != length:
                raise EngineFailure(
                    f"call {number}, {step.call.call}: length({name}) gave {_shown(answer)}, not {length}"
                )
        outputs += accept(script, arena, [step])
        at += 1 + len(after)
    return outputs


def _all_at_once(script: Script, arena: Arena, process: EngineProcess) -> list:
    """Runs all steps without a pause; their outputs."""
    process.load(script.orders())
    returned = max(step.returned_bytes for step in script.steps)  # a call's are gone before the next one's come
    for number, (step, result) in enumerate(zip(script.steps, process.run(0, len(script.steps), returned))):
        _expect(number, step, result)
    return accept(script, arena, script.steps)


def accept(script: Script, arena: Arena, steps: list[Step]) -> list[dict[str, np.ndarray]]:
    """The outputs of steps that have run, raw bits by name. EngineFailure if anything else was written."""
    outputs = [dict(zip(step.outputs, arena.accept(step.outputs.values()))) for step in steps]
    changed = arena.changed()
    if changed is not None:
        raise EngineFailure(script.place(changed))
    return outputs


def _shown(result: dict) -> str:
    return f"{result['error'][0]} ({result['message']})" if "error" in result else str(result.get("value"))


def _expect(number: int, step: Step, result: dict) -> None:
    fails, place = step.call.fails, f"call {number}, {step.call.call}"
    if fails and "error" not in result:
        raise EngineFailure(f"{place}: should raise {fails}, didn't")
    if fails and fails not in result["error"]:
        raise EngineFailure(f"{place}: should raise {fails}, raised {_shown(result)}")
    if not fails and "error" in result:
        raise EngineFailure(f"{place}: raised {_shown(result)}")


def _compare(script: Script, first: list, second: list, outcome: Outcome) -> None:
    for number, (step, a, b) in enumerate(zip(script.steps, first, second)):
        for name in a:
            different = int((a[name] != b[name]).sum())
            if different:
                what = f"{different} of {a[name].size} values of {name}"
                outcome.failures.append(f"call {number}, {step.call.call}: {what} differ between the two runs")


def _judge(script: Script, source: Source, outputs: list, outcome: Outcome) -> None:
    model = Model(script, source)
    for number, (step, results) in enumerate(zip(script.steps, outputs)):
        for verdict in judge_step(step, results, model):
            if isinstance(verdict, Verdict) and verdict.ok:
                outcome.worst = max(outcome.worst or 0.0, verdict.fraction)
            else:
                outcome.failures.append(f"call {number}, {step.call.call}: {verdict}")


def check(
    folder: Path, traces: list[Trace], salt: str, host: Host, done: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """Audits an engine folder; `done` is told of each trace. The next processes start while one runs."""
    ahead = [EngineProcess(host) for _ in range(STARTED_AHEAD)]

    def spawn() -> EngineProcess:
        ahead.append(EngineProcess(host))
        return ahead.pop(0)

    outcomes = []
    try:
        for trace in traces:
            outcomes.append(check_trace(folder, trace, salt, host, spawn))
            done(outcomes[-1])
    finally:
        for process in ahead:
            process.__exit__()
    return outcomes
