"""The cache: each sequence is a list of immutable chunks, and a fork shares its parent's.

A chunk's memory goes with the last sequence that uses it. Where all that remain use only its beginning, it is replaced
by a copy of that, so that memory follows the unique tokens.
"""

from __future__ import annotations

import torch

from .config import Config
from .errors import LengthError, PagesExhausted, UnknownSequence
from .memory import ALLOCATION, MIB

CHUNK_BYTES = MIB  # at most: torch's allocator gives larger requests up to 1 MiB too much


class Chunk:
    """Consecutive tokens. data: [tokens, Hkv, 2 D + R], k, v and kg side by side. users: sequence id to tokens used,
    all of them by at least one."""

    def __init__(self, data: torch.Tensor):
        self.data = data
        self.users: dict[int, int] = {}

    @property
    def bytes(self) -> int:
        """Bytes that its memory takes."""
        size = self.data.numel() * self.data.element_size()
        return (size + ALLOCATION - 1) // ALLOCATION * ALLOCATION


class Sequences:
    """All sequences of an engine. tokens: unique tokens cached; bytes: what they take."""

    def __init__(self, config: Config):
        self.config = config
        self.tokens = 0
        self.bytes = 0
        self._chunks: dict[int, list[Chunk]] = {}  # of each sequence
        self._next = 1

    def __len__(self) -> int:
        return len(self._chunks)

    def create(self) -> int:
        """A new, empty sequence. Errors: PagesExhausted beyond max_sequences."""
        if len(self._chunks) >= self.config.max_sequences:
            raise PagesExhausted(
                f"max_sequences: needed 1 more sequence, 0 free of {self.config.max_sequences}: release one first",
                "max_sequences",
            )
        made, self._next = self._next, self._next + 1
        self._chunks[made] = []
        return made

    def fork(self, parent: int) -> int:
        """A new sequence with the chunks of `parent`. Errors: UnknownSequence; PagesExhausted beyond max_sequences."""
        chunks = self.chunks(parent)
        child = self.create()
        for chunk in chunks:
            chunk.users[child] = chunk.users[parent]
        self._chunks[child] = list(chunks)
        return child

    def release(self, id: int) -> None:
        """Ends a sequence. Errors: UnknownSequence."""
        for chunk in self.chunks(id):
            self._use(chunk, id, 0)
        del self._chunks[id]

    def truncate(self, id: int, length: int) -> None:
        """Keeps the oldest `length` tokens. Errors: UnknownSequence, LengthError."""
        held = self.length(id)
        if not 0 <= length <= held:
            raise LengthError(f"length: expected 0 to {held}, the tokens of sequence {id}, got {length}", "length")
        kept = []
        for chunk in self._chunks[id]:
            used = min(chunk.users[id], length)
            length -= used
            self._use(chunk, id, used)
            if used > 0:
                kept.append(chunk)
        self._chunks[id] = kept

    def length(self, id: int) -> int:
        """Tokens of a sequence. Errors: UnknownSequence."""
        return sum(chunk.users[id] for chunk in self.chunks(id))

    def chunks(self, id: int) -> list[Chunk]:
        """The chunks of a sequence, oldest first. Errors: UnknownSequence."""
        if id not in self._chunks:
            existed = 0 < id < self._next
            raise UnknownSequence(f"id: sequence {id} was {'released' if existed else 'never created'}", "id")
        return self._chunks[id]

    def shared(self) -> int:
        """Unique tokens that more than one sequence uses."""
        chunks = {chunk for chunks in self._chunks.values() for chunk in chunks}
        return sum(sorted(chunk.users.values())[-2] for chunk in chunks if len(chunk.users) > 1)

    def check_append(self, ids: list[int], lengths: list[int]) -> None:
        """Whether `lengths` tokens can be appended. Errors: UnknownSequence, LengthError, PagesExhausted."""
        longest = self.config.max_seq_len
        for index, (id, added) in enumerate(zip(ids, lengths)):
            held = self.length(id)
            if id in ids[:index]:
                raise LengthError(f"ids: sequence {id} is given twice; an id may appear once in a call", "ids")
            if added > longest - held:
                raise LengthError(
                    f"lengths: expected 0 to {longest - held} new tokens for sequence {id} (max_seq_len {longest}, "
                    f"{held} cached), got {added}",
                    "lengths",
                )
        needed, free = sum(lengths), self.config.max_cached_tokens - self.tokens
        if needed > free:
            raise PagesExhausted(
                f"needed {needed} tokens, {free} free of {self.config.max_cached_tokens}: release or truncate first"
            )

    def make(self, k: torch.Tensor, v: torch.Tensor, kg: torch.Tensor) -> list[Chunk]:
        """Chunks of new tokens, [n, Hkv, dim] each; no sequence has them until `append`."""
        tokens = max(1, CHUNK_BYTES // self.config.token_bytes)
        parts = zip(*(x.split(tokens) for x in (k, v, kg)))
        return [Chunk(torch.cat(part, dim=2)) for part in parts if len(part[0]) > 0]

    def append(self, id: int, chunks: list[Chunk]) -> None:
        """Gives a sequence the chunks that `make` made."""
        for chunk in chunks:
            chunk.users[id] = len(chunk.data)
            self._chunks[id].append(chunk)
            self.tokens += len(chunk.data)
            self.bytes += chunk.bytes

    def _use(self, chunk: Chunk, id: int, used: int) -> None:
        """Notes that a sequence uses the first `used` tokens of a chunk from now on, and drops what nobody uses."""
        left = {**chunk.users, id: used}
        most = max(left.values())
        if most < len(chunk.data):
            data = chunk.data[:most].clone()
            self.tokens -= len(chunk.data) - most
            self.bytes -= chunk.bytes
            chunk.data = data
            self.bytes += chunk.bytes
        if used == 0:
            del left[id]
        chunk.users = left


def gather(held: list[tuple[Chunk, int]], heads: slice, head_dim: int) -> tuple[torch.Tensor, ...]:
    """k, v [H,tokens,D] and kg [H,tokens,R] of some key/value heads of (chunk, tokens used), oldest first: views of one
    concatenation."""
    rows = torch.cat([chunk.data[:used, heads] for chunk, used in held]).transpose(0, 1)
    return rows[..., :head_dim], rows[..., head_dim : 2 * head_dim], rows[..., 2 * head_dim :]
