"""Timed workloads: starter and engine back to back in alternation, on fresh data, with the results looked at.

For each workload every contender has a process of its own that stays for all rounds. A round is two passes over the
contenders, the second in reverse, each pass with data of its own: A B, B A. In a pass each contender runs the set-up,
then the timed calls in one go, timed from here until the device is idle; the others' processes stand still, and inputs
appear in the shared memory when they are needed. At that moment its outputs are taken: every
element must have been written, some rows, picked by the operating system's randomness, are held to float64, and each
row must lie near the starter's of the same pass. Before the first round and after the last one each contender runs
everything once untimed, on data of their own: its memory is measured then, and what is loaded or compiled late is. A
contender that fails once has no time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from tools.reference.accuracy import Verdict
from tools.reference.attention import Inputs
from tools.reference.bits import from_bits

from .arena import POISON, Arena
from .check import accept
from .cost import Cost, cost
from .data import Source
from .judge import Model, judge_batch, judge_rows, training_inputs
from .process import EngineFailure, EngineProcess, Host
from .script import Script, Step
from .trace import Cache, Trace

FAR = 0.1  # of a row's length and the typical one's together: some twenty times eager code's own error
FEW = 1e-3  # of the rows may be far: those whose terms cancel, where eager code is wrong itself
PICKED_QUERIES = 64  # neighbouring queries of one sequence


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
        _recheck(self.script, source, self.outputs)
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
            runner.attempt(lambda: _compare_rows(script, runner.outputs, starter.outputs))


def _compare_rows(script: Script, outputs: list, right: list) -> None:
    dtype = script.trace.dtype
    for number, (results, others) in enumerate(zip(outputs, right)):
        for name, bits in results.items():
            ours, theirs = from_bits(bits, dtype), from_bits(others[name], dtype)
            distance, size = (np.sqrt((x * x).sum(axis=-1)) for x in (ours - theirs, theirs))
            typical = np.sqrt((size * size).mean())
            far = int((distance > FAR * (size + typical)).sum())
            if far > distance.size * FEW:
                raise EngineFailure(
                    f"call {number}: {far} of {distance.size} rows of {name} lie far from the starter's"
                )


def _recheck(script: Script, source: Source, outputs: list[dict[str, np.ndarray]]) -> None:
    """Looks at every output of the timed calls for values not written, and at some rows by the accuracy rule."""
    timed = [i for i in range(len(script.setup), len(script.steps)) if script.steps[i].outputs]
    for i in timed:
        for name, bits in outputs[i].items():
            if bool((bits == POISON).any()):
                raise EngineFailure(f"call {i}: {int((bits == POISON).sum())} values of {name} were not written")
    picked = secrets.choice([i for i in timed if any(bits.size for bits in outputs[i].values())])
    model = Model(script, source)
    for step in script.steps[:picked]:
        model.apply(step)
    step = script.steps[picked]
    judged = _some_rows if step.call.sequences else _one_head
    for verdict in judged(step, outputs[picked], model):
        if not verdict.ok:
            raise EngineFailure(f"call {picked}: {verdict}")


def _some_rows(step: Step, outputs: dict[str, np.ndarray], model: Model) -> Iterator[Verdict]:
    """Neighbouring queries of one sequence of a prefill or decode."""
    attended = model.apply(step)
    chosen = secrets.choice([i for i, (_, bits) in enumerate(attended) if len(bits.q)])
    name, bits = attended[chosen]
    start = sum(len(each.q) for _, each in attended[:chosen])
    first = secrets.randbelow(max(1, len(bits.q) - PICKED_QUERIES + 1))
    last = min(first + PICKED_QUERIES, len(bits.q))
    keys = len(bits.k) - len(bits.q) + last
    rows = Inputs(bits.q[first:last], bits.k[:keys], bits.v[:keys], bits.qg[first:last], bits.kg[:keys])
    label = f"o of sequence {name}, tokens {first} to {last - 1} of the call"
    yield judge_rows(label, outputs["o"][start + first : start + last], rows, model.source.dtype)


def _one_head(step: Step, outputs: dict[str, np.ndarray], model: Model) -> Iterator[Verdict]:
    """All tokens of one key/value head, with its query heads, of one batch element."""
    batch, upstream = training_inputs(step, model)
    b, c = secrets.randbelow(len(batch)), secrets.randbelow(batch[0].k.shape[1])
    group = batch[0].q.shape[1] // batch[0].k.shape[1]
    queries, keys = slice(c * group, (c + 1) * group), slice(c, c + 1)
    heads = dict(zip(Inputs._fields, (queries, keys, keys, queries, keys)))
    x = Inputs(*(rows[:, heads[name]] for name, rows in zip(Inputs._fields, batch[b])))
    do = None if upstream[b] is None else upstream[b][:, queries]
    results = {name: bits[b : b + 1, :, heads.get(name[1:], queries)] for name, bits in outputs.items()}
    label = f" of batch element {b}, key/value head {c}"
    yield from judge_batch(label, results, [x], [do], model.source.dtype)


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
