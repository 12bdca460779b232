"""Prefill and decode: room for the new tokens, one list of integers to the device, then the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton

from .pages import PAGE, Pages
from .parts import score_scales
from .serving_kernels import (
    APPEND_TOKENS,
    PREFILL_ROWS,
    SPLITS_AT_ONCE,
    append_kernel,
    decode_kernel,
    merge_kernel,
    prefill_kernel,
)
from .tuning import INTERPRETED

SPLIT_BYTES = 128 * 1024  # of k, v and kg that a program of decode streams, about
MOST_ROWS = 64  # queries of a program of decode
MOST_DECODED = 8  # tokens of a sequence in a decode call
ALIGNMENT = 16  # of the lists in the plan, in int32

Arrays = tuple[torch.Tensor, ...]


class Plan:
    """Lists of int32 that a call's kernels read, sent to the device in one copy."""

    def __init__(self, device: torch.device, **lists: np.ndarray) -> None:
        starts, size = {}, 0
        for name, values in lists.items():
            starts[name] = size
            size += -(-values.size // ALIGNMENT) * ALIGNMENT
        staged = torch.empty(size, dtype=torch.int32, pin_memory=not INTERPRETED)
        numbers = staged.numpy()
        for name, values in lists.items():
            numbers[starts[name] : starts[name] + values.size] = values.reshape(-1)
        # torch keeps the pinned block out of use until the copy has happened.
        sent = staged.to(device, non_blocking=True)
        self._lists = {name: sent[starts[name] : starts[name] + values.size] for name, values in lists.items()}

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._lists[name]


class Serving:
    """The paged cache of an engine, and its two calls."""

    def __init__(self, config: dict, dtype: torch.dtype, device: torch.device) -> None:
        self.q_heads, self.kv_heads = config["q_heads"], config["kv_heads"]
        self.head_dim, self.gate_dim = config["head_dim"], config["gate_dim"]
        self.max_seq_len, self.device = config["max_seq_len"], device
        # Every sequence may end inside a page that it has to itself.
        count = config["max_cached_tokens"] // PAGE + config["max_sequences"]
        self.pages = Pages(count, config["max_sequences"], self.max_seq_len)
        dims = self.head_dim, self.head_dim, self.gate_dim
        shapes = ((count, self.kv_heads, PAGE, dim) for dim in dims)
        self.caches = tuple(torch.empty(shape, dtype=dtype, device=device) for shape in shapes)
        self.group = self.q_heads // self.kv_heads
        self.split = max(PAGE, 1 << (SPLIT_BYTES // (2 * sum(dims))).bit_length() - 1)
        self.scales = score_scales(self.head_dim, self.gate_dim)

    def prefill(self, ids: Sequence[int], inputs: Arrays, counts: np.ndarray, o: torch.Tensor) -> None:
        """Queues o [T,Hq,D] of packed inputs."""
        rows, cached = self._room(ids, counts)
        if not o.numel():
            return
        entries = np.array(
            [(i, first) for i, count in enumerate(counts.tolist()) for first in range(0, count, PREFILL_ROWS)], np.int32
        )
        work = cached[entries[:, 0]] + entries[:, 1]
        entries = entries[np.argsort(-work, kind="stable")]  # the longest first
        plan = self._plan(rows, counts, cached, np.zeros_like(counts), tiles=entries)
        self._append(inputs, plan)
        prefill_kernel[lambda tile: (self.q_heads, len(entries) * PREFILL_ROWS // tile["BM"])](
            *self._prefill_arguments(inputs, o, plan, len(entries))
        )

    def decode(self, ids: Sequence[int], inputs: Arrays, counts: np.ndarray, o: torch.Tensor) -> None:
        """The same for 1 to 8 tokens of each sequence."""
        rows, cached = self._room(ids, counts)
        if not o.numel():
            return
        splits = -(-(cached + counts) // self.split)
        first_tiles = np.cumsum(splits) - splits
        owners = np.repeat(np.arange(len(rows)), splits)
        tiles = np.stack((owners, np.arange(len(owners)) - first_tiles[owners]), axis=1)
        tokens = np.repeat(np.arange(len(rows)), counts)
        plan = self._plan(rows, counts, cached, first_tiles, tiles=tiles, owners=tokens)
        self._append(inputs, plan)
        most_rows = int(counts.max()) * self.group
        partials = len(tiles) * self.kv_heads * most_rows
        partial = torch.empty((partials, self.head_dim), dtype=torch.float32, device=self.device)
        statistics = torch.empty((partials, 2), dtype=torch.float32, device=self.device)
        arguments = self._decode_arguments(inputs, partial, statistics, plan, most_rows, len(tiles))
        decode_kernel[(len(tiles), self.kv_heads, triton.cdiv(most_rows, arguments[-1]))](*arguments)
        merge_kernel[(len(o), self.q_heads)](
            partial, statistics, o, plan["owners"], plan["sequences"], _strides(o), self.kv_heads, most_rows,
            self.head_dim, self.group, self.split, SPLITS_AT_ONCE,
        )  # fmt: skip

    def launches(self, inputs: Arrays, modes: Sequence[str]) -> list[tuple]:
        """(kernel, arguments) of what is tuned for these modes, for inputs like these."""
        zeros = np.zeros(1, np.int64)
        plan = self._plan(zeros, zeros + 1, zeros, zeros, tiles=np.zeros((1, 2)), owners=zeros)
        found = []
        if "prefill" in modes:
            found.append((prefill_kernel, self._prefill_arguments(inputs, inputs[0], plan, 1)))
        if "decode" in modes:
            partial = torch.empty((1, self.head_dim), dtype=torch.float32, device=self.device)
            found.append((decode_kernel, self._decode_arguments(inputs, partial, partial, plan, self.group, 1)))
        return found

    def _room(self, ids: Sequence[int], counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sequences' rows and the tokens they held before; pages that are written no other sequence holds."""
        rows = np.array([self.pages.row(i) for i in ids], np.int64)
        if len(set(ids)) != len(ids):
            raise ValueError("ids: each may appear once")
        cached = self.pages.lengths[rows]
        if (cached + counts > self.max_seq_len).any():
            raise ValueError(f"lengths: a sequence would pass max_seq_len, {self.max_seq_len}")
        copies = self.pages.append(rows, counts)
        if copies:
            to, of = Plan(self.device, copies=np.array(copies, np.int32).T)["copies"].long().view(2, -1)
            for cache in self.caches:
                cache[to] = cache[of]
        return rows, cached

    def _plan(self, rows, counts, cached, first_tiles, **lists: np.ndarray) -> Plan:
        starts = np.cumsum(counts) - counts
        owners = np.repeat(np.arange(len(rows)), counts)
        positions = cached[owners] + np.arange(len(owners)) - starts[owners]
        slots = self.pages.table[rows[owners], positions // PAGE] * PAGE + positions % PAGE
        table = self.pages.table[rows, : -(-int((cached + counts).max()) // PAGE)]
        sequences = np.stack((starts, counts, cached, first_tiles), axis=1)
        plan = Plan(self.device, sequences=sequences, slots=slots, table=table, **lists)
        plan.width = table.shape[1]
        return plan

    def _append(self, inputs: Arrays, plan: Plan) -> None:
        _, k, v, _, kg = inputs
        append_kernel[(triton.cdiv(len(k), APPEND_TOKENS), self.kv_heads)](
            k, v, kg, *self.caches, plan["slots"], _strides(k), _strides(v), _strides(kg), len(k), self.kv_heads,
            self.head_dim, self.gate_dim, APPEND_TOKENS,
        )  # fmt: skip

    def _prefill_arguments(self, inputs: Arrays, o: torch.Tensor, plan: Plan, entries: int) -> tuple:
        q, _, _, qg, _ = inputs
        return (
            q, qg, o, *self.caches, plan["tiles"], plan["sequences"], plan["table"],
            _strides(q), _strides(qg), _strides(o), *self.scales,
            plan.width, self.q_heads, self.kv_heads, _magnitude(entries), self.head_dim, self.gate_dim, PREFILL_ROWS,
        )  # fmt: skip

    def _decode_arguments(self, inputs, partial, statistics, plan: Plan, most_rows: int, tiles: int) -> tuple:
        q, _, _, qg, _ = inputs
        block = min(MOST_ROWS, max(16, triton.next_power_of_2(most_rows)))
        return (
            q, qg, *self.caches, partial, statistics, plan["tiles"], plan["sequences"], plan["table"],
            _strides(q), _strides(qg), *self.scales, plan.width, self.kv_heads, most_rows, _magnitude(tiles),
            self.head_dim, self.gate_dim, self.group, self.split, block,
        )  # fmt: skip


def _strides(x: torch.Tensor) -> tuple[int, int]:
    return x.stride(0), x.stride(1)


def _magnitude(work: int) -> int:
    """Tiles are tuned once for each power of 4."""
    return work.bit_length() // 2
