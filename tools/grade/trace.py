"""Traces: lists of calls that an engine is put through. trace_file.py reads them.

A trace names data by seeds and says what should happen; it holds no values and no results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

TIERS = {"serving": {"tight": (1.05, 64), "ample": (1.25, 256)}, "training": {"tight": (0.25, 64), "ample": (1.0, 256)}}
MEBIBYTE = 1 << 20
ELEMENT_BYTES = 2


class Span(NamedTuple):
    """`count` tokens of the endless stream `seed`, from token `start`."""

    seed: str
    start: int
    count: int


@dataclass(frozen=True)
class Call:
    """One call of an engine. Which fields count depends on `call`; docs/grade.md has the table."""

    call: str
    name: str = ""  # what the result is called: a sequence, a forward
    of: str = ""  # the sequence or forward that it goes on from
    sequences: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    batch: int = 0
    length: int = 0
    seed: str = ""
    scale: float = 1.0  # of q and k
    layout: str = "contiguous"
    output: str = "given"
    fails: str = ""  # the exception that must be raised

    @property
    def counts(self) -> tuple[int, ...]:
        """New tokens of each sequence of a prefill or decode."""
        return tuple(span.count for span in self.spans)


@dataclass(frozen=True)
class Trace:
    """A configuration and the calls made of its engine. `setup` comes before what is timed."""

    name: str
    covers: str
    config: Mapping[str, Any]
    tier: str
    calls: tuple[Call, ...]
    setup: tuple[Call, ...] = ()
    small: bool = False
    stream: str = "current"
    stratum: str = ""
    source: Path = field(default=Path(), compare=False)

    @property
    def dtype(self) -> str:
        """`bfloat16` or `float16`."""
        return self.config.get("dtype", "bfloat16")

    @property
    def mode(self) -> str:
        """`training`, or the serving mode that the trace is about."""
        return "training" if "training" in self.config["modes"] else self.config["modes"][-1]

    def limit(self) -> int:
        """memory_limit_bytes of the trace's tier, by the contract's formulas."""
        c = self.config
        pair = c["q_heads"], c["kv_heads"], c["head_dim"], c["gate_dim"]
        if self.mode == "training":
            steps = [call for call in (*self.setup, *self.calls) if call.call in ("forward", "attention")]
            held = max((step_bytes(call.batch * call.length, *pair) for call in steps), default=0)
        else:
            held = c["max_cached_tokens"] * token_bytes(*pair[1:])
        factor, mebibytes = TIERS["training" if self.mode == "training" else "serving"][self.tier]
        return int(held * factor) + mebibytes * MEBIBYTE


def token_bytes(kv_heads: int, head_dim: int, gate_dim: int) -> int:
    """Bytes of a cached token: k, v, kg."""
    return kv_heads * (2 * head_dim + gate_dim) * ELEMENT_BYTES


def step_bytes(rows: int, q_heads: int, kv_heads: int, head_dim: int, gate_dim: int) -> int:
    """Bytes of all inputs and outputs of a training step of `rows` tokens: five inputs, o, do, five gradients."""
    queries = q_heads * (4 * head_dim + 2 * gate_dim)
    return rows * (queries + 2 * kv_heads * (2 * head_dim + gate_dim)) * ELEMENT_BYTES


Tokens = dict[tuple[int, int], None]  # of a sequence, in order: (number of the call that appended it, its row there)


class Cache:
    """What each sequence of a trace holds, told by where its tokens came from; a fork's are its parent's."""

    def __init__(self) -> None:
        self.held: dict[str, Tokens] = {}
        self._calls = 0

    def apply(self, call: Call) -> None:
        """Does what a call does."""
        number, self._calls = self._calls, self._calls + 1
        if call.fails:
            return
        if call.call in ("create", "fork"):
            self.held[call.name] = dict(self.held.get(call.of, {}))
        elif call.call == "release":
            del self.held[call.of]
        elif call.call == "truncate":
            self.held[call.of] = dict(list(self.held[call.of].items())[: call.length])
        row = 0
        for name, count in zip(call.sequences, call.counts):
            self.held[name].update({(number, row + i): None for i in range(count)})
            row += count

    def lengths(self) -> dict[str, int]:
        """Tokens of each sequence."""
        return {name: len(tokens) for name, tokens in self.held.items()}
