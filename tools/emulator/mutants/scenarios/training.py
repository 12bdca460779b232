"""Launches of the training kernels: the forward, and the backward of one done before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .base import NAMES, Parts, Scenario

_TRAINING = {"q_heads": 4, "kv_heads": 2, "modes": ["training"]}


class Training(Scenario):
    """A batch of several sequences; single ones of a tile and of several with a tail; one that ends anywhere in a tile.

    An instruction copies or writes 2, 4, 8 or 16 rows of a tile: for each of them a sequence ends among its rows, where
    a bound that is wrong by one shows as an access behind the array.
    """

    CONFIG = _TRAINING
    GATED = (75,)  # lengths of sequences with infinite gates
    ENDS = (1, 9, 19, 27, 37, 45, 55, 63)  # among each 8 of 64 rows, each 2 of 16
    BATCHES = ((3, 21), (1, 64), (1, 147), *((1, end) for end in ENDS), *((1, 64 + end) for end in ENDS[1::2]))

    def prepare(self) -> None:
        self.batches = [self.inputs(*each) for each in self.BATCHES]
        special = [self.infinite(), *map(self.infinite_gates, self.GATED)]
        self.batches += [tuple(self.upload(each) for each in inputs) for inputs in special]

    def infinite(self) -> tuple[np.ndarray, ...]:
        """`values` of a sequence with infinities: whoever takes a tile in that it should leave out gets NaNs.

        The queries of the first 32 tokens skip the keys of the next 32, and those keys skip these queries. A key of
        each half meets a tile without queries, 0 times infinity, where a block takes one step too many. The queries
        that see an infinite key have a score of -inf with it, so that its gradients are numbers.
        """
        q, k, v, qg, kg = self.values(1, 96)
        q[:, 0] = np.inf
        for key, column in ((31, 1), (63, 0)):
            k[:, key, :, column] = np.inf
            q[:, key:, :, column] = -1
        return q, k, v, qg, kg

    def infinite_gates(self, length: int) -> tuple[np.ndarray, ...]:
        """`values` of a sequence with hidden pairs that are NaN: whoever doesn't hide all of a pair gets it.

        Of every 8 keys two have infinite gates, times 0 for the queries that don't see them, and one is infinite
        itself: each query has a score of -inf with it. Behind the sequence's end all of them are times 0.
        """
        q, k, v, qg, kg = self.values(1, length)
        for key in range(length):
            if key % 8 in (2, 3):
                column = key // 8 * 2 + key % 2
                kg[:, key, :, column] = np.inf
                qg[:, :key, :, column] = 0
        q[..., 0] = 1
        k[:, 5::8, :, 0] = -np.inf
        return q, k, v, qg, kg


class Forward(Training):
    """Looks at the output and the saved statistics."""

    def infinite(self) -> tuple[np.ndarray, ...]:
        """As in Training; a value of those keys, too, since a hidden score is no part of the output."""
        q, k, v, qg, kg = super().infinite()
        v[:, 62] = np.inf
        return q, k, v, qg, kg

    def run(self) -> Iterator[np.ndarray]:
        for inputs in self.batches:
            o = self.output(*inputs[0].shape)
            _, saved = self.engine.forward(*inputs, out=o)
            yield o.numpy()
            yield self.read(saved.stats.data_ptr(), o.shape[:-1] + (2,), np.uint32)


class Backward(Training):
    """Looks at the gradients; the forward is done before.

    Queries behind a sequence's end count: it ends among each 8 of 32, behind an even and an odd number of queries.
    """

    GATED = (33, 34, 41, 42, 51, 52, 59, 60, 75)

    def prepare(self) -> None:
        super().prepare()
        self.saved = []
        for inputs in self.batches:
            o = self.device.empty(inputs[0].shape)
            saved = self.engine.forward(*inputs, out=o)[1]
            self.saved.append((saved, self.upload(self.rng.standard_normal(o.shape))))

    def values(self, *leading: int) -> tuple[np.ndarray, ...]:
        """Random q, k, v, qg, kg as they come: every score has a gradient then.

        The first query's only score is far below 0: its statistics make infinite what another query takes them for.
        """
        q, k, *others = (self.rng.standard_normal((*leading, *self._tail(each))) for each in NAMES)
        q[:, 0] = np.repeat(-30 * k[:, 0], q.shape[-2] // k.shape[-2], axis=-2)
        return q, k, *others

    def run(self) -> Iterator[np.ndarray]:
        for inputs, (saved, do) in zip(self.batches, self.saved):
            out = tuple(self.output(*each.shape, use=name) for name, each in zip(NAMES, inputs))
            self.engine.backward(saved, do, out=out)
            for each in out:
                yield each.numpy()


class SingleStep(Backward):
    """A query head for each kv head and less than a tile: a block of keys has one tile of queries to walk over."""

    CONFIG = {**_TRAINING, "q_heads": 2}
    BATCHES = ((1, 9),)


class BackwardDkv(Parts):
    """Groups of query heads, and a block that is done after its first step."""

    PARTS = (Backward, SingleStep)
