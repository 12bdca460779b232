"""Launches of decode and of its merge: splits of cached sequences, and rows of one split and of hundreds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .base import NAMES, Parts
from .serving import SERVING, Cached, Serving

SPLIT_TOKENS = 512


class DecodeChunks(Cached):
    """Splits that end before, in and after the new tokens; more rows than a tile, and a tile that ends before a split.

    A lane copies every second, fourth or eighth row of a chunk of 16, and for each of them a sequence ends among its
    rows: in a split's first chunks, one a warp, and behind them, which different copies are for.
    """

    CONFIG = {
        **SERVING, "q_heads": 6, "kv_heads": 2, "max_sequences": 24, "max_seq_len": 1024, "max_cached_tokens": 4096,
    }  # fmt: skip
    TOTALS = (1, 19, 5, 23, 9, 27, 13, 31, 65, 83, 69, 87, 73, 91, 77, 95)  # keys of the last chunk: 1, 3, 5, ... 15
    ENDS = [min(total, 1 + total % 8) for total in TOTALS]  # new tokens of them
    CACHED = [530, 0, 505, *(total - new for total, new in zip(TOTALS, ENDS)), 15]
    LENGTHS = [1, 8, 8, *ENDS, 1]
    CALL = "decode"

    def prepare(self) -> None:
        """Each sequence's last query weighs all keys alike, so that none can be missing.

        The very last one's gates are infinite: whoever weighs a chunk behind its first, which is full, gets NaNs.
        """
        super().prepare()
        q, k, v, qg, kg = self.values(sum(self.LENGTHS))
        last = np.cumsum(self.LENGTHS) - 1
        q[last] = self.rng.standard_normal(q[last].shape)
        qg[-1, :, 0] = np.inf
        self.arrays = tuple(self.upload(each) for each in (q, k, v, qg, kg))


class DecodeFull(Serving):
    """A sequence and three forks of it fill their last page with a token each, then with two.

    That takes all that the engine has for metadata and for the rows of a block: whoever reads or writes one more, reads
    behind the metadata or writes the next block's. There is a query head for each kv head, so that rows are tokens.
    """

    CONFIG = {
        **SERVING, "q_heads": 2, "kv_heads": 2, "max_sequences": 4, "max_seq_len": 64, "max_cached_tokens": 256,
    }  # fmt: skip
    STEPS = (1, 2)  # new tokens

    def prepare(self) -> None:
        sequences, most = self.config["max_sequences"], self.config["max_seq_len"]
        self.steps = [(most - new, self.inputs(most - new), [new] * sequences, self.inputs(new * sequences))
                      for new in self.STEPS]  # fmt: skip

    def spoil(self) -> None:
        """Leaves NaNs in the partials."""
        for cached, prompt, lengths, _ in self.steps:
            self.decode(cached, prompt, lengths, self.nans(sum(lengths)))

    def run(self) -> Iterator[np.ndarray]:
        for each in self.steps:
            yield self.decode(*each)

    def decode(self, cached: int, prompt: tuple, lengths: list[int], arrays: tuple) -> np.ndarray:
        """The output of a step on new sequences."""
        ids = self.fill([cached], prompt)
        ids += [self.engine.fork(*ids) for _ in lengths[1:]]
        try:
            return self.step("decode", ids, arrays, lengths)
        finally:
            for each in ids:
                self.engine.release(each)


class Decode(Parts):
    """Chunks of keys and rows in all numbers, and arrays that are used to their ends."""

    PARTS = (DecodeChunks, DecodeFull)


class Merged(Cached):
    """Runs without checks take the partials that the last one with them left: decode itself is skipped."""

    CALL = "decode"

    def spoil(self) -> None:
        """As said above; no merge writes to the partials."""
        self.skip("dec")

    def renew(self) -> None:
        """Decode runs again, since a call forgets the partials."""
        self.bring_back("dec")

    def close(self) -> None:
        self.bring_back("dec")
        super().close()

    def values(self, *leading: int) -> tuple[np.ndarray, ...]:
        """Random q, k, v, qg, kg as they come: every split has its part in the output."""
        return tuple(self.rng.standard_normal((*leading, *self._tail(each))) for each in NAMES)


class MergeOfTwo(Merged):
    """Two sequences, the fewest that are searched."""

    CONFIG = {**SERVING, "q_heads": 3, "kv_heads": 1, "max_seq_len": 1024, "max_cached_tokens": 1024}
    CACHED = [700, 10]
    LENGTHS = [1, 2]


class MergeOfMany(Merged):
    """Rows of one split to seven, and of 99 and 225: three and seven times as many as a warp has lanes, and some.

    All sequences are forks of one, cut off in different splits.
    """

    CONFIG = {
        **SERVING, "q_heads": 3, "kv_heads": 1, "max_sequences": 9, "max_seq_len": 131072, "max_cached_tokens": 131072,
    }  # fmt: skip
    SPLITS = (225, 99, 1, 2, 3, 4, 5, 6, 7)
    CACHED = [SPLIT_TOKENS * (splits - 1) + 300 for splits in SPLITS]
    LENGTHS = [2, 2, 1, 1, 1, 1, 1, 1, 1]
    LARGEST = (40, 66, 128)  # splits with the largest score of a head of the two long sequences' first tokens
    CHUNK = 4000  # tokens cached at once, again and again

    def prepare(self) -> None:
        """A value of the short sequences' last keys is infinite: a split that is taken once more, 0 times, makes NaNs.

        Whoever overlooks the split with a row's largest score gets exponentials that overflow: it is one of LARGEST for
        the long sequences' first tokens, and its own for the last token.
        """
        q, k, v, qg, kg = self.values(sum(self.LENGTHS))
        for head in range(len(self.LARGEST)):
            q[[0, 2], head, head] = 200
        q[-1, :, 0], k[-1, :, 0] = 200, 24
        v[4:, :, 0] = np.inf
        self.arrays = tuple(self.upload(each) for each in (q, k, v, qg, kg))
        self.ids = [self.engine.create()]
        self.cache_longest()
        self.ids += [self.engine.fork(*self.ids) for _ in self.CACHED[1:]]
        self.take_back()

    def cache_longest(self) -> None:
        """Fills the first sequence."""
        q, k, *others = self.values(self.CHUNK)
        for start in range(0, self.CACHED[0], self.CHUNK):
            length = min(self.CHUNK, self.CACHED[0] - start)
            keys = k.copy()
            for head, split in enumerate(self.LARGEST):
                key = split * SPLIT_TOKENS - start
                if 0 <= key < length:
                    keys[key] = 0
                    keys[key, :, head] = 24
            self.extend(self.ids, [length], tuple(self.upload(each[:length]) for each in (q, keys, *others)))


class DecodeMerge(Parts):
    """Rows of all numbers of splits, and a search for the sequence that ends at once."""

    PARTS = (MergeOfTwo, MergeOfMany)
