"""A look at what timed calls returned: all of it loosely, some of it by the accuracy rule."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import numpy as np

from tools.reference.accuracy import Verdict
from tools.reference.attention import Inputs
from tools.reference.bits import from_bits

from .arena import POISON
from .data import Source
from .judge import Model, judge_batch, judge_rows, training_inputs
from .process import EngineFailure
from .script import Script, Step

FAR = 0.1  # of a row's length and the typical one's together: some twenty times eager code's own error
FEW = 1e-3  # of the rows may be far: those whose terms cancel, where eager code is wrong itself
PICKED_QUERIES = 64  # neighbouring queries of one sequence


def compare_rows(script: Script, outputs: list[dict[str, np.ndarray]], right: list[dict[str, np.ndarray]]) -> None:
    """Holds every row of every result to another engine's on the same data. EngineFailure if too many are far."""
    dtype = script.trace.dtype
    for number, (results, others) in enumerate(zip(outputs, right)):
        for name, bits in results.items():
            ours, theirs = from_bits(bits, dtype), from_bits(others[name], dtype)
            distance, size = (np.sqrt((x * x).sum(axis=-1)) for x in (ours - theirs, theirs))
            typical = np.sqrt((size * size).mean())
            far = int((~(distance <= FAR * (size + typical))).sum())  # a NaN is far
            if far > distance.size * FEW:
                raise EngineFailure(
                    f"call {number}: {far} of {distance.size} rows of {name} lie far from the starter's"
                )


def recheck(script: Script, source: Source, outputs: list[dict[str, np.ndarray]]) -> None:
    """Looks at every output of the timed calls for values not written, and at some rows by the accuracy rule.

    EngineFailure if any isn't right. outputs: of every step, raw bits by name.
    """
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
