"""Timed workloads: starter and engine back to back in alternation, on fresh data, with rows of the results re-checked.

For each workload every contender has a process of its own that stays for all rounds. A round is two passes over the
contenders, the second in reverse, each pass with data of its own: A B, B A. In a pass each contender runs the set-up,
then the timed calls in one go, timed from here; then all outputs are looked at for gaps and some rows, picked by the
operating system's randomness, are held to float64. A contender that fails once has no time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tools.reference.accuracy import Verdict, floors, judge
from tools.reference.attention import EXACT, Inputs, backward, eager, forward
from tools.reference.bits import from_bits

from .arena import POISON, Arena
from .cost import Cost, cost
from .data import Source
from .judge import Model, training_inputs
from .process import EngineFailure, EngineProcess, Host
from .score import median_of
from .script import GRADIENTS, Script, Step
from .trace import Trace

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
        return median_of(contender.seconds) if contender and not contender.failures and contender.seconds else None


def bench_workload(workload: Trace, contenders: list[Contender], salt: str, host: Host, rounds: int) -> Result:
    """Times all contenders on one workload."""
    script = Script(workload, host.memory)
    with ExitStack() as stack:
        arena = stack.enter_context(Arena(host.memory, script.elements))
        runners = [stack.enter_context(_Runner(each, script, arena, host)) for each in contenders]
        for runner in runners:
            runner.attempt(runner.start)
        for number in range(2 * rounds):
            source = Source(f"{salt}/{workload.name}/{number}", workload.dtype, arena.xp)
            script.fill(arena, source)
            for runner in runners if number % 2 == 0 else reversed(runners):
                runner.attempt(lambda: runner.run(source))
        for runner in runners:
            runner.attempt(runner.end)
    return Result(workload, cost(script), {each.name: each for each in contenders})


class _Runner:
    """A contender's process on one workload. A context manager."""

    def __init__(self, contender: Contender, script: Script, arena: Arena, host: Host) -> None:
        self.contender, self.script, self.arena = contender, script, arena
        self.process = EngineProcess(replace(host, watched=contender.watched))
        self.live: list[str] = []

    def __enter__(self) -> _Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__()
        self.contender.failures += [f"the engine {finding}" for finding in self.process.report.findings]

    def attempt(self, step: Callable[[], None]) -> None:
        """Does a step unless one has failed before; notes a failure."""
        if not self.contender.failures:
            try:
                step()
            except EngineFailure as failure:
                self.contender.failures.append(str(failure))

    def start(self) -> None:
        """Builds the engine and hands over the calls, those that take all sequences away again at the end."""
        self.process.open(self.arena.share(), self.script.trace.dtype)
        self.process.build(self.contender.folder, self.script.config)
        live: dict[str, None] = {}
        for step in self.script.steps:
            if step.call.name and step.call.call in ("create", "fork"):
                live[step.call.name] = None
            elif step.call.call == "release":
                del live[step.call.of]
        self.live = list(live)
        self.process.load(self.script.orders() + [["release", name] for name in self.live])

    def run(self, source: Source) -> None:
        """One pass: set-up, timed calls, tidying up, a look at the results.

        Before the first pass everything once untimed, for lazy loading and what peers compile; memory is measured then.
        """
        self.arena.restore()
        setup, end = len(self.script.setup), len(self.script.steps)
        if not self.contender.seconds:
            self.process.share_device()
            _require(self.process.run(0, end + len(self.live)))
            self._accept()
            self.arena.restore()
        _require(self.process.time(0, setup)[1])
        seconds, results = self.process.time(setup, end)
        _require(results)
        _require(self.process.time(end, end + len(self.live))[1])
        _recheck(self.script, source, self._accept())
        self.contender.seconds.append(seconds)

    def _accept(self) -> list[dict[str, np.ndarray]]:
        """Every step's outputs. EngineFailure if anything else was written."""
        outputs = [dict(zip(step.outputs, self.arena.accept(step.outputs.values()))) for step in self.script.steps]
        changed = self.arena.changed()
        if changed is not None:
            raise EngineFailure(self.script.place(changed))
        return outputs

    def end(self) -> None:
        """Has the process end by itself; judges the memory it held."""
        self.process.end()
        limit = self.script.trace.limit()
        if self.contender.watched and self.process.report.peak_bytes > limit:
            raise EngineFailure(f"held {self.process.report.peak_bytes} bytes, more than memory_limit_bytes, {limit}")


def _require(results: list[dict]) -> None:
    for result in results:
        if "error" in result:
            raise EngineFailure(f"a call raised {result['error'][0]}: {result['message']}")


def _recheck(script: Script, source: Source, outputs: list[dict[str, np.ndarray]]) -> None:
    """Looks at every output of the timed calls for values not written, and at some rows by the accuracy rule."""
    timed = [i for i in range(len(script.setup), len(script.steps)) if script.steps[i].outputs]
    for i in timed:
        for name, bits in outputs[i].items():
            if bool((bits == POISON).any()):
                raise EngineFailure(f"call {i}: {int((bits == POISON).sum())} values of {name} were not written")
    picked = secrets.choice(timed)
    model = Model(script, source)
    for step in script.steps[:picked]:
        model.apply(step)
    step = script.steps[picked]
    verdicts = (
        _serving_rows(step, outputs[picked], model) if step.call.sequences else _heads(step, outputs[picked], model)
    )
    for verdict in verdicts:
        if not verdict.ok:
            raise EngineFailure(f"call {picked}: {verdict}")


def _serving_rows(step: Step, outputs: dict[str, np.ndarray], model: Model) -> list[Verdict]:
    """Neighbouring queries of one sequence of a prefill or decode."""
    attended = model.apply(step)
    chosen = secrets.choice([i for i, (_, bits) in enumerate(attended) if len(bits.q)])
    name, bits = attended[chosen]
    start = sum(len(each.q) for _, each in attended[:chosen])
    first = secrets.randbelow(max(1, len(bits.q) - PICKED_QUERIES + 1))
    last = min(first + PICKED_QUERIES, len(bits.q))
    keys = len(bits.k) - len(bits.q) + last
    rows = Inputs(bits.q[first:last], bits.k[:keys], bits.v[:keys], bits.qg[first:last], bits.kg[:keys])
    dtype = model.source.dtype
    x = Inputs(*(from_bits(each, dtype) for each in rows))
    result = from_bits(outputs["o"][start + first : start + last], dtype)
    label = f"o of sequence {name}, tokens {first} to {last - 1} of the call"
    return [judge(label, result, forward(x, eager(dtype)), forward(x), floors(dtype, x)["o"])]


def _heads(step: Step, outputs: dict[str, np.ndarray], model: Model) -> list[Verdict]:
    """All tokens of one key/value head, with its query heads, of one batch element."""
    dtype = model.source.dtype
    batch, do = training_inputs(step, model)
    b, c = secrets.randbelow(len(batch)), secrets.randbelow(batch[0].k.shape[1])
    group = batch[0].q.shape[1] // batch[0].k.shape[1]
    queries, keys = slice(c * group, (c + 1) * group), slice(c, c + 1)
    wanted = dict(zip(("q", "k", "v", "qg", "kg"), (queries, keys, keys, queries, keys)))
    x = Inputs(*(rows[:, wanted[name]] for name, rows in zip(Inputs._fields, batch[b])))
    upstream = None if do is None else do[b][:, queries]
    right, yardstick = ({"o": forward(x, a)} if "o" in outputs else {} for a in (EXACT, eager(dtype)))
    if upstream is not None:
        for found, arithmetic in ((right, EXACT), (yardstick, eager(dtype))):
            found |= dict(zip(GRADIENTS, backward(x, upstream, arithmetic)))
    floor = floors(dtype, x, upstream)
    verdicts = []
    for name, bits in outputs.items():
        result = from_bits(bits[b][:, wanted.get(name[1:], queries)], dtype)
        verdicts.append(
            judge(f"{name} of batch element {b}, key/value head {c}", result, yardstick[name], right[name], floor[name])
        )
    return verdicts


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
