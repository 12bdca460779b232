"""What is measured, and how much work each of it is.

A training shape is one dense batch. A serving shape is a cache at its start and the calls that follow; whoever runs it
takes the new tokens away again after the last call. FLOPs count the operation as written, two a multiply-add, whatever
a kernel recomputes. Bytes are the least that must move: every input and output once, and of the cache each unique token
once a call, read or written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ELEMENT = 2  # bytes


@dataclass(frozen=True)
class Heads:
    """What a stratum fixes."""

    q_heads: int
    kv_heads: int
    head_dim: int
    gate_dim: int

    @property
    def q_bytes(self) -> int:
        """Of a token's q, qg and o together."""
        return ELEMENT * self.q_heads * (2 * self.head_dim + self.gate_dim)

    @property
    def kv_bytes(self) -> int:
        """Of a token's k, v and kg."""
        return ELEMENT * self.kv_heads * (2 * self.head_dim + self.gate_dim)

    def forward_flops(self, pairs: int) -> int:
        """For (query head, visible key) pairs: 2D + R multiply-adds each."""
        return 2 * (2 * self.head_dim + self.gate_dim) * pairs

    def backward_flops(self, pairs: int) -> int:
        """Of a fused backward: 5D + 3R multiply-adds a pair."""
        return 2 * (5 * self.head_dim + 3 * self.gate_dim) * pairs


@dataclass(frozen=True)
class Training:
    """One causal training batch."""

    heads: Heads
    batch: int
    length: int
    stratum: str | None = None

    operations = ("forward", "backward")

    @property
    def name(self) -> str:
        """For tables and filters: b2-h16/4-s2048-d128-r64."""
        h = self.heads
        return f"b{self.batch}-h{h.q_heads}/{h.kv_heads}-s{self.length}-d{h.head_dim}-r{h.gate_dim}"

    @property
    def pairs(self) -> int:
        """(query head, visible key) pairs."""
        return self.batch * self.heads.q_heads * self.length * (self.length + 1) // 2

    def flops(self, operation: str) -> int:
        """Of `forward` or `backward`."""
        return getattr(self.heads, f"{operation}_flops")(self.pairs)

    def bytes(self, operation: str) -> int:
        """forward: five inputs and o. backward: five inputs, do and five gradients; o may stay in delta."""
        h, tokens = self.heads, self.batch * self.length
        if operation == "forward":
            return tokens * (h.q_bytes + h.kv_bytes)
        gradients = ELEMENT * h.q_heads * (h.head_dim + h.gate_dim) + h.kv_bytes
        return tokens * (h.q_bytes + h.kv_bytes + gradients)  # q_bytes has do in o's place


@dataclass(frozen=True)
class Serving:
    """Calls on a cache. `prefix` tokens are shared by all sequences; `cached` are each one's own on top, before the
    first call; `calls` has for each call the new tokens of each sequence."""

    name: str
    operation: str
    heads: Heads
    prefix: int
    cached: tuple[int, ...]
    calls: tuple[tuple[int, ...], ...]
    stratum: str | None = None

    @property
    def operations(self) -> tuple[str]:
        """The one, as for Training."""
        return (self.operation,)

    def steps(self) -> Iterator[tuple[list[int], tuple[int, ...]]]:
        """For each call: each sequence's own tokens before it (the prefix not counted), and its new ones."""
        held = list(self.cached)
        for new in self.calls:
            yield list(held), new
            held = [old + count for old, count in zip(held, new)]

    @property
    def pairs(self) -> int:
        """(query head, visible key) pairs of all calls."""
        total = 0
        for held, new in self.steps():
            total += sum(n * (self.prefix + old) + n * (n + 1) // 2 for old, n in zip(held, new))
        return self.heads.q_heads * total

    def flops(self, operation: str) -> int:
        """Of all calls."""
        return self.heads.forward_flops(self.pairs)

    def bytes(self, operation: str) -> int:
        """Of all calls: cache read, and of each new token the inputs, o, and what it adds to the cache."""
        h, total = self.heads, 0
        for held, new in self.steps():
            total += (self.prefix + sum(held)) * h.kv_bytes + sum(new) * (h.q_bytes + 2 * h.kv_bytes)
        return total

    @property
    def unique_tokens(self) -> int:
        """In the cache after the last call."""
        return self.prefix + sum(self.cached) + sum(map(sum, self.calls))

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence after the last call."""
        return self.prefix + max(own + sum(new) for own, *new in zip(self.cached, *self.calls))


def spread(first: int, last: int, count: int) -> tuple[int, ...]:
    """`count` lengths at equal distances; the work then doesn't depend on a seed."""
    return tuple(first + (last - first) * i // (count - 1) for i in range(count))


D64_R32, D64_R64 = Heads(32, 8, 64, 32), Heads(16, 16, 64, 64)
D128_R32, D128_R64 = Heads(16, 2, 128, 32), Heads(32, 8, 128, 64)

TRAINING = (
    Training(Heads(16, 16, 64, 32), 4, 2048, "train-d64-r32"),
    Training(Heads(32, 8, 64, 64), 2, 4096, "train-d64-r64"),
    Training(Heads(32, 8, 128, 32), 1, 8192, "train-d128-r32"),
    Training(Heads(16, 2, 128, 64), 1, 16384, "train-d128-r64"),
    Training(Heads(16, 16, 64, 32), 2, 2048),
    Training(Heads(16, 4, 128, 64), 2, 2048),
    Training(Heads(32, 8, 64, 64), 1, 4096),
    Training(Heads(16, 4, 64, 32), 1, 16384),
)


def _prefill(name: str, heads: Heads, prefix: int, calls: tuple[tuple[int, ...], ...]) -> Serving:
    stratum = f"prefill-d{heads.head_dim}-r{heads.gate_dim}"
    return Serving(f"{stratum}-{name}", "prefill", heads, prefix, (0,) * len(calls[0]), calls, stratum)


def _decode(name: str, heads: Heads, cached: tuple[int, ...], tokens: int = 1, prefix: int = 0) -> Serving:
    stratum = f"decode-d{heads.head_dim}-r{heads.gate_dim}"
    label = f"{stratum}-b{len(cached)}-t{tokens}{name}"
    return Serving(label, "decode", heads, prefix, cached, ((tokens,) * len(cached),), stratum)


PREFILL = (
    _prefill("8-ragged", D64_R32, 0, (spread(512, 4096, 8),)),
    _prefill("4-in-chunks", D64_R64, 0, ((2048,) * 4,) * 4),
    _prefill("one-prompt", D128_R32, 0, ((16384,),)),
    _prefill("4-forks", D128_R64, 4096, (spread(1024, 8192, 4),)),
)

DECODE = (
    _decode("", D64_R32, spread(256, 2048, 64)),
    *(_decode("", D64_R64, spread(8192, 16384, 8), tokens) for tokens in (1, 4, 8)),
    _decode("", D128_R32, (16383,)),
    _decode("", D128_R32, spread(16320, 16383, 4)),
    _decode("", D128_R64, spread(4160, 4608, 32)),
    _decode("-forks", D128_R64, spread(64, 512, 32), prefix=4096),
)

SHAPES = (*TRAINING, *PREFILL, *DECODE)
QUICK = (TRAINING[3], TRAINING[5], PREFILL[0], DECODE[0], DECODE[4])
