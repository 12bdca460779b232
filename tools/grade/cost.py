"""How much work the timed calls of a script are at least: floating-point operations and bytes moved.

FLOPs are the operation's own, two a multiply-add, whatever a kernel recomputes. Bytes: inputs read and outputs written
once; of the cache, every unique token that a call's queries see read once a call, and new tokens written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.bench.floors import Datasheet
from tools.bench.shapes import Heads

from .script import Script, Step
from .trace import Cache


@dataclass(frozen=True)
class Cost:
    """FLOPs and bytes of each timed call that has any."""

    calls: tuple[tuple[int, int], ...]

    @property
    def flops(self) -> int:
        """Of all calls."""
        return sum(flops for flops, _ in self.calls)

    @property
    def bytes(self) -> int:
        """Of all calls."""
        return sum(moved for _, moved in self.calls)

    def floor_ms(self, sheet: Datasheet) -> float:
        """The least time: call by call the larger of FLOPs over the rate and bytes over the bandwidth."""
        return sum(sheet.floor_ms(flops, moved) for flops, moved in self.calls)


def cost(script: Script) -> Cost:
    """The cost of a script's timed calls; its set-up only tells what the cache holds before them."""
    c = script.trace.config
    heads = Heads(c["q_heads"], c["kv_heads"], c["head_dim"], c["gate_dim"])
    cache, found = Cache(), []
    for number, step in enumerate(script.steps):
        before = cache.lengths()
        cache.apply(step.call)
        if number < len(script.setup) or step.call.fails or not step.outputs:
            continue
        arrays = sum(2 * int(np.prod(view.shape)) for view in (*step.inputs.values(), *step.outputs.values()))
        if step.call.sequences:
            pairs = c["q_heads"] * sum(
                n * before[s] + n * (n + 1) // 2 for s, n in zip(step.call.sequences, step.call.counts)
            )
            reading = [name for name, count in zip(step.call.sequences, step.call.counts) if count]
            unique = len(set().union(*(cache.held[name] for name in reading)))
            found.append((heads.forward_flops(pairs), arrays + unique * heads.kv_bytes))
        else:
            found.append(_training(step, heads, arrays))
    return Cost(tuple(found))


def _training(step: Step, heads: Heads, arrays: int) -> tuple[int, int]:
    call = (step.forward or step).call
    pairs = heads.q_heads * call.batch * call.length * (call.length + 1) // 2
    forward, backward = heads.forward_flops(pairs), heads.backward_flops(pairs)
    if step.forward:  # which reads the forward's inputs again
        return backward, arrays + sum(2 * int(np.prod(view.shape)) for view in step.forward.inputs.values())
    return (forward if call.call == "forward" else forward + backward), arrays
