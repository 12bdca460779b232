"""Which pages hold which sequence: reference counts and block tables, on the host.

A fork shares every page of its parent. A sequence that appends to a page which others hold too gets a copy of it first.
"""

from __future__ import annotations

import itertools

import numpy as np

PAGE = 64  # tokens


class Pages:
    """Up to `sequences` sequences of up to `longest` tokens in `pages` pages."""

    def __init__(self, pages: int, sequences: int, longest: int) -> None:
        self.total = pages
        self.table = np.zeros((sequences, -(-longest // PAGE)), np.int32)  # of each row, its pages in order
        self.lengths = np.zeros(sequences, np.int64)  # of each row, its tokens
        self._holders = np.zeros(pages, np.int32)  # of each page
        self._free = list(range(pages - 1, -1, -1))
        self._free_rows = list(range(sequences - 1, -1, -1))
        self._row_of: dict[int, int] = {}  # by id
        self._ids = itertools.count()

    @property
    def free(self) -> int:
        """Pages that no sequence holds."""
        return len(self._free)

    @property
    def shared(self) -> int:
        """Pages that several sequences hold."""
        return int((self._holders > 1).sum())

    def row(self, sequence: int) -> int:
        """The row of the tables that a sequence has. KeyError if there is no such sequence."""
        return self._row_of[sequence]

    def create(self) -> int:
        """An empty sequence's id. ValueError if max_sequences exist."""
        if not self._free_rows:
            raise ValueError(f"max_sequences: {len(self.table)} sequences exist already")
        sequence, row = next(self._ids), self._free_rows.pop()
        self._row_of[sequence], self.lengths[row] = row, 0
        return sequence

    def fork(self, parent: int) -> int:
        """A sequence with the parent's tokens, in the same pages."""
        source = self.row(parent)
        sequence = self.create()
        row = self.row(sequence)
        self.lengths[row], self.table[row] = self.lengths[source], self.table[source]
        self._holders[self._held(row)] += 1
        return sequence

    def release(self, sequence: int) -> None:
        """Ends a sequence."""
        self.truncate(sequence, 0)
        self._free_rows.append(self._row_of.pop(sequence))

    def truncate(self, sequence: int, length: int) -> None:
        """Keeps the oldest `length` tokens. ValueError if it has fewer."""
        row = self.row(sequence)
        if not 0 <= length <= self.lengths[row]:
            raise ValueError(f"length: expected 0 to {self.lengths[row]}, got {length}")
        dropped = self._held(row)[-(-length // PAGE) :]
        self._holders[dropped] -= 1
        self._free.extend(dropped[self._holders[dropped] == 0].tolist())
        self.lengths[row] = length

    def append(self, rows: np.ndarray, counts: np.ndarray) -> list[tuple[int, int]]:
        """Makes room for `counts` more tokens of distinct `rows`. Returns (copy, original) of the pages to copy first.

        MemoryError, with nothing changed, if there are too few pages.
        """
        held, needed = -(-self.lengths[rows] // PAGE), -(-(self.lengths[rows] + counts) // PAGE)
        split = self._to_copy(rows, counts)
        wanted = int((needed - held).sum()) + len(split)
        if wanted > self.free:
            raise MemoryError(f"{wanted} pages needed, {self.free} free")
        copies = []
        for row in split:
            at = self.lengths[row] // PAGE
            original, copy = int(self.table[row, at]), self._free.pop()
            self._holders[original] -= 1
            self._holders[copy], self.table[row, at] = 1, copy
            copies.append((copy, original))
        for i in np.flatnonzero(needed > held):
            for at in range(held[i], needed[i]):
                page = self._free.pop()
                self._holders[page], self.table[rows[i], at] = 1, page
        self.lengths[rows] += counts
        return copies

    def _held(self, row: int) -> np.ndarray:
        return self.table[row, : -(-self.lengths[row] // PAGE)]

    def _to_copy(self, rows: np.ndarray, counts: np.ndarray) -> list[int]:
        """The rows that would write into a page which another one still holds. The last holder writes in place."""
        partial = rows[(counts > 0) & (self.lengths[rows] % PAGE > 0)]
        last = self.table[partial, self.lengths[partial] // PAGE]
        shared = self._holders[last] > 1
        leaving: dict[int, int] = {}
        split = []
        for row, page in zip(partial[shared].tolist(), last[shared].tolist()):
            leaving[page] = leaving.get(page, 0) + 1
            if leaving[page] < self._holders[page]:
                split.append(row)
        return split
