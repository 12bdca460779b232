"""Launches of the serving kernels: steps on cached sequences, whose pages and partials hold NaNs before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tools.demo.device_memory import DeviceArray

from .base import Parts, Scenario

SERVING = {"modes": ["prefill", "decode"], "max_sequences": 8}
PAGE_TOKENS = 64


class Serving(Scenario):
    """Sequences by name; a step appends to some of them and gives the output."""

    def step(self, call: str, ids: list[int], arrays: tuple[DeviceArray, ...], lengths: list[int]) -> np.ndarray:
        """prefill or decode."""
        o = self.output(*arrays[0].shape)
        getattr(self.engine, call)(ids, *arrays, lengths, out=o)
        return o.numpy()

    def spoil(self) -> None:
        """Writes NaNs to all free pages."""
        tokens = self.engine.memory()["pages_free"] * PAGE_TOKENS
        most = self.config["max_seq_len"]
        lengths = [min(most, tokens - start) for start in range(0, tokens, most)][: self.config["max_sequences"]]
        for each in self.fill(lengths, self.nans(sum(lengths))):
            self.engine.release(each)

    def fill(self, lengths: list[int], arrays: tuple[DeviceArray, ...]) -> list[int]:
        """Sequences that have so many tokens cached; no attention is computed for them."""
        ids = [self.engine.create() for _ in lengths]
        self.extend(ids, lengths, arrays)
        return ids

    def extend(self, ids: list[int], lengths: list[int], arrays: tuple[DeviceArray, ...]) -> None:
        """Caches tokens more, as `fill` does."""
        self.skip("prefill")
        self.step("prefill", ids, arrays, lengths)
        self.bring_back("prefill")
        self.inspection.reset()  # an output that isn't written is a fault


class Append(Serving):
    """Ragged prompts of less than a block's tokens and more, then more tokens, across pages; attention reads them.

    The last step is one of two sequences only, the fewest that are searched.
    """

    CONFIG = {**SERVING, "q_heads": 2, "kv_heads": 2, "max_seq_len": 256, "max_cached_tokens": 1024}
    STEPS = ([1, 21, 3, 16, 2], [5, 60, 0, 1, 9], [2, 3])

    def prepare(self) -> None:
        self.arrays = [self.inputs(sum(each)) for each in self.STEPS]

    def run(self) -> Iterator[np.ndarray]:
        ids = [self.engine.create() for _ in self.STEPS[0]]
        try:
            for arrays, lengths in zip(self.arrays, self.STEPS):
                yield self.step("prefill", ids[: len(lengths)], arrays, lengths)
        finally:
            for each in ids:
                self.engine.release(each)


class Cached(Serving):
    """Runs a step on sequences that have tokens cached, and takes the new ones away again."""

    CACHED: list[int] = []
    LENGTHS: list[int] = []
    CALL = ""

    def prepare(self) -> None:
        self.cached = self.inputs(sum(self.CACHED))
        self.ids = self.fill(self.CACHED, self.cached)
        self.arrays = self.inputs(sum(self.LENGTHS))

    def spoil(self) -> None:
        """Lets the step leave NaNs in the partials, and in the pages behind the cached tokens."""
        self.step(self.CALL, self.ids, self.nans(sum(self.LENGTHS)), self.LENGTHS)
        self.take_back()

    def renew(self) -> None:
        """Fills the sequences again; nothing is behind their tokens then."""
        for each in self.ids:
            self.engine.release(each)
        (other,) = self.fill([1], self.inputs(1))  # a call in which all other pages are free forgets what they held
        self.ids = self.fill(self.CACHED, self.cached)
        self.engine.release(other)

    def take_back(self) -> None:
        """Removes the tokens of the last step."""
        for each, length in zip(self.ids, self.CACHED):
            self.engine.truncate(each, length)

    def run(self) -> Iterator[np.ndarray]:
        try:
            yield self.step(self.CALL, self.ids, self.arrays, self.LENGTHS)
        finally:
            self.take_back()


class Prefill(Cached):
    """A ragged step of chunks of less than a tile and more, from anywhere in a page; then prompts alone.

    An instruction copies or writes 2, 4, 8 or 16 rows of a tile: for each of them a prompt ends among its rows, behind
    which the arrays end. All of a page behind its sequence's end holds NaNs. Chunks that begin 1 to 16 tokens behind
    the first of 32 keys have a warp that skips such a tile before the last one: for each 8 rows of that one a sequence
    ends among them.
    """

    CONFIG = {
        **SERVING, "q_heads": 4, "kv_heads": 2, "max_sequences": 20, "max_seq_len": 256, "max_cached_tokens": 2048,
    }  # fmt: skip
    LENGTHS = [1, 70, 64, 20, 64, 51, 49, 63, 76, 77]
    ALONE = (1, 9, 19, 27, 37, 45, 55, 63)  # among each 8 of 64 rows, each 2 of 16
    CACHED = [0, 100, 0, 49, 30, 64, 16, 10, 5, 12, *[0] * len(ALONE)]
    CALL = "prefill"

    def prepare(self) -> None:
        self.cached = self.inputs(sum(self.CACHED))
        self.ids = self.fill(self.CACHED, self.cached)
        q, k, v, qg, kg = self.values(sum(self.LENGTHS))
        # Hidden from a whole warp, which gets NaNs if it takes the tile in that it should leave out.
        v[self._token(4, 70)] = np.inf
        # Copied by a warp that skips a tile, hidden from every row of its block, which gets NaNs of the values that
        # copies of 16 bytes end with.
        v[self._token(9, 80), 1, 7] = np.inf
        v[self._token(9, 88), 1, 15] = np.inf
        kg[self._token(9, 80), 0, 7] = np.nan
        self.steps = [(slice(len(self.LENGTHS)), [self.upload(each) for each in (q, k, v, qg, kg)], self.LENGTHS)]
        for place, length in enumerate(self.ALONE, len(self.LENGTHS)):
            self.steps.append((slice(place, place + 1), self.inputs(length), [length]))

    def spoil(self) -> None:
        """Lets all pages have NaNs but for the cached tokens."""
        for each in self.ids:
            self.engine.release(each)
        Serving.spoil(self)
        self.ids = self.fill(self.CACHED, self.cached)

    def run(self) -> Iterator[np.ndarray]:
        try:
            for which, arrays, lengths in self.steps:
                yield self.step(self.CALL, self.ids[which], arrays, lengths)
        finally:
            self.take_back()

    def _token(self, sequence: int, position: int) -> int:
        """Where the ragged step's arrays have a sequence's token."""
        return sum(self.LENGTHS[:sequence]) + position - self.CACHED[sequence]


class ManyHeads(Serving):
    """A sequence and two forks of it write the last token of the page that they share, and then read all of it.

    A page of so many heads has more vectors than a launch moves at once.
    """

    CONFIG = {
        **SERVING, "q_heads": 96, "kv_heads": 96, "max_sequences": 3, "max_seq_len": 256, "max_cached_tokens": 192,
    }  # fmt: skip
    CACHED = [63]

    def prepare(self) -> None:
        self.prompts, self.arrays = self.inputs(*self.CACHED), self.inputs(3)

    def run(self) -> Iterator[np.ndarray]:
        ids = self.fill(self.CACHED, self.prompts)  # each time, since a copy to the wrong page would be there to stay
        ids += [self.engine.fork(*ids) for _ in range(2)]
        try:
            yield self.step("decode", ids, self.arrays, [1, 1, 1])
        finally:
            for each in ids:
                self.engine.release(each)


class SomeHeads(ManyHeads):
    """The same with pages of which the batches leave one vector for some threads and none for the others."""

    CONFIG = {**ManyHeads.CONFIG, "q_heads": 52, "kv_heads": 52}


class FewHeads(ManyHeads):
    """The same with pages that have less vectors than a launch moves at once."""

    CONFIG = {**ManyHeads.CONFIG, "q_heads": 3, "kv_heads": 3}


class PageCopy(Parts):
    """Pages of all three sizes."""

    PARTS = (FewHeads, SomeHeads, ManyHeads)
