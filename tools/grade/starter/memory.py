"""What an engine may hold, and how large a step over queries and heads fits it.

The cache is reserved when the engine is built; the rest of the limit is for temporaries, at one moment those of one
step: `queries` queries of `heads` key/value heads (and their groups of query heads) against all keys of a sequence.
Every tensor that eager code has alive at the worst moment is counted:

    a score (query head, query, key)    forward 10 bytes: softmax and gate in float32, one of them also in 16 bits;
                                        backward 18: softmax, gate, weight, upstream in float32, one also in 16 bits;
                                        and 1 for the mask
    a row (query head, query)           the operands q, qg, do and the results, with a float32 copy of the largest
    a key (key/value head, key)         serving: k, v, kg, concatenated; backward: their gradients, summed in float32,
                                        and the part of one from this step; and a copy of the largest operand, in
                                        float32 on the CPU, in 16 bits where cuBLAS can't read it as it lies
    on CUDA                             cuBLAS' workspace, and what torch's allocator gives beyond what was asked for
"""

from __future__ import annotations

from typing import NamedTuple

from .config import Config
from .errors import ConfigError, MemoryLimitError

MIB = 1 << 20
UNLIMITED_TEMPORARIES = 1024 * MIB  # for a step, where there is no limit
CUBLAS_WORKSPACE = 32 * MIB  # torch's default on Hopper, the largest
ALLOCATOR_SLACK = 8 * MIB  # torch gives up to 1 MiB beyond a request above 1 MiB; at most 8 of those live at once
ALLOCATION = 512  # bytes: requests up to 1 MiB are rounded up to this


class Step(NamedTuple):
    """How much is done at once: key/value heads, and queries of each of their query heads."""

    heads: int
    queries: int


class Memory:
    """The account of one engine. limit: bytes, None for no limit. peak: the most bytes held at one moment so far.

    Errors: ConfigError if memory_limit_bytes is below the cache and one query of one head over max_seq_len keys.
    """

    def __init__(self, config: Config):
        self.config = config
        self.cache = config.max_cached_tokens * config.token_bytes if config.serving else 0
        self.limit = config.memory_limit_bytes
        self.peak = 0
        smallest = self.temporaries("serving", 1, 1, config.max_seq_len) if config.serving else 0
        if "training" in config.modes:
            smallest = max(smallest, self.temporaries("backward", 1, 1, 1))
        if self.limit is not None and self.limit < self.cache + smallest:
            raise ConfigError(
                f"memory_limit_bytes: expected at least {self.cache + smallest} bytes, {self.cache} for "
                f"max_cached_tokens and {smallest} for temporaries, got {self.limit}",
                "memory_limit_bytes",
            )

    def temporaries(self, kind: str, heads: int, queries: int, keys: int) -> int:
        """Bytes of the temporaries of one step. kind: "serving", "forward" or "backward"."""
        config = self.config
        widest = max(config.head_dim, config.gate_dim)
        rows = heads * config.group * queries
        score_bytes = 19 if kind == "backward" else 11
        row_bytes = 12 * (config.row + widest)
        cuda = config.device.type == "cuda"
        copy_bytes = (2 if cuda else 4) * widest
        key_bytes = copy_bytes + {"serving": 2 * config.row, "forward": 0, "backward": 4 * (config.row + widest)}[kind]
        overhead = CUBLAS_WORKSPACE + ALLOCATOR_SLACK if cuda else 0
        return rows * keys * score_bytes + rows * row_bytes + heads * keys * key_bytes + overhead + 64 * ALLOCATION

    def step(self, kind: str, queries: int, keys: int, cached: int = 0) -> Step:
        """The step with the most rows that fits, of all heads rather than of some; its queries are a power of two.

        kind: as in `temporaries`. queries, keys: of the sequence. cached: bytes of all chunks.
        Errors: MemoryLimitError.
        """
        held = max(self.cache, cached)
        free = UNLIMITED_TEMPORARIES if self.limit is None else self.limit - held
        best = None
        heads = self.config.kv_heads
        while True:
            block = 1 << (queries - 1).bit_length()
            while block > 0 and self.temporaries(kind, heads, block, keys) > free:
                block //= 2
            if block > 0 and (best is None or heads * block > best.heads * best.queries):
                best = Step(heads, block)
            if heads == 1:
                break
            heads = (heads + 1) // 2
        if best is None:
            needed = held + self.temporaries(kind, 1, 1, keys)
            limit = self.limit if self.limit is not None else held + free
            raise MemoryLimitError(
                f"memory_limit_bytes: expected at least {needed} for {keys} keys, got {limit}", "memory_limit_bytes"
            )
        self.peak = max(self.peak, cached + self.temporaries(kind, *best, keys))
        return best
