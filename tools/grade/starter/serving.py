"""Prefill and decode."""

from __future__ import annotations

import operator

import torch

from . import attention
from .arrays import ANY, as_tensor, check_apart
from .config import Config
from .errors import DtypeError, LengthError
from .memory import Memory
from .sequences import Sequences, gather

MOST_DECODE_TOKENS = 8  # of a sequence in one call


def host_list(values, name: str) -> list[int]:
    """A caller's integers (list, tuple, numpy) as a list. Errors: DtypeError, for device memory too."""
    if isinstance(values, torch.Tensor):
        raise DtypeError(f"{name}: expected host data (list, tuple, numpy), got a tensor", name)
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise DtypeError(f"{name}: expected a list of integers, got {values!r:.100}", name) from None


def checked_lengths(mode: str, ids: list[int], lengths: list[int]) -> None:
    """Errors: LengthError if there isn't one for each id, or one is out of range for the mode."""
    if len(ids) != len(lengths):
        raise LengthError(f"lengths: expected {len(ids)} entries, one for each id, got {len(lengths)}", "lengths")
    for id, length in zip(ids, lengths):
        if mode == "decode" and not 1 <= length <= MOST_DECODE_TOKENS:
            raise LengthError(
                f"lengths: expected 1 to {MOST_DECODE_TOKENS} tokens a sequence in decode, got {length} for {id}",
                "lengths",
            )
        if length < 0:
            raise LengthError(f"lengths: expected 0 or more, got {length} for sequence {id}", "lengths")


def checked_arrays(config: Config, total: int, q, k, v, qg, kg, out) -> list[torch.Tensor]:
    """The six arrays of a call as tensors. total: the sum of the lengths. Errors: those of as_tensor; LengthError if
    `total` isn't the number of rows."""
    d, r = config.head_dim, config.gate_dim
    q = as_tensor(q, "q", (ANY, config.q_heads, d), config)
    tokens = len(q)
    inputs = {
        "q": q,
        "k": as_tensor(k, "k", (tokens, config.kv_heads, d), config),
        "v": as_tensor(v, "v", (tokens, config.kv_heads, d), config),
        "qg": as_tensor(qg, "qg", (tokens, config.q_heads, r), config),
        "kg": as_tensor(kg, "kg", (tokens, config.kv_heads, r), config),
    }
    out = as_tensor(out, "out", tuple(q.shape), config, written=True)
    if total != tokens:
        raise LengthError(f"lengths: expected a sum of {tokens}, the rows of q, got {total}", "lengths")
    check_apart({"out": out}, inputs)
    return [*inputs.values(), out]


def serve(config: Config, memory: Memory, sequences: Sequences, ids, lengths, q, k, v, qg, kg, out) -> None:
    """Appends tokens to sequences and writes their o to `out`, all of it or nothing. Arguments are checked tensors and
    lists, the packed rows in the order of ids."""
    made = [sequences.make(*new) for new in zip(*(x.split(lengths) for x in (k, v, kg)))]
    cached = sequences.bytes + sum(chunk.bytes for chunks in made for chunk in chunks)
    rows = zip(ids, made, lengths, *(x.split(lengths) for x in (q, qg, out)))
    for id, chunks, added, queries, gates, result in rows:
        if added == 0:
            continue
        held = [(chunk, chunk.users[id]) for chunk in sequences.chunks(id)]
        held += [(chunk, len(chunk.data)) for chunk in chunks]
        count = sum(used for _, used in held)
        step = memory.step("serving", added, count, cached)

        def keys(heads: slice, held=held):
            return gather(held, heads, config.head_dim)

        attention.forward(result, queries, gates, keys, count, config.kv_heads, step)
    for id, chunks in zip(ids, made):
        sequences.append(id, chunks)
