"""Small runs of the engine that launch a kernel: every way through it, on as few tokens as that takes.

A scenario is made once by an engine with the true kernels, and then run with each mutant of the kernel that it is for.
Kernels whose results it doesn't look at are replaced by ones that return at once.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator

import numpy as np

from tools.demo.device_memory import Device, DeviceArray
from tools.reference.bits import to_bits

from ..inspection import Inspection
from .instruction import instructions

NAMES = ("q", "k", "v", "qg", "kg")
_TRAINING = {"q_heads": 4, "kv_heads": 2, "modes": ["training"]}
_SERVING = {"modes": ["prefill", "decode"], "max_sequences": 8}
PAGE_TOKENS = 64
_POISON = 0xFF  # of outputs, a NaN in both dtypes


def operation_of(kernel: str) -> str:
    """The word of a kernel's name that says what it does."""
    return re.match(r"gated_(\w+?)_sm\d", kernel)[1]


def returning(ptx: str) -> str:
    """The PTX of a kernel with its first instruction replaced by a return."""
    lines = ptx.split("\n")
    lines[instructions(lines)[0].line - 1] = "\tret;"
    return "\n".join(lines)


class Scenario:
    """What all scenarios share. CONFIG: the engine's config besides head_dim, gate_dim, dtype.

    package: the assembled package. stratum: head_dim, gate_dim and dtype. kernels: operation → name of the kernel.
    """

    CONFIG: dict = {}

    def __init__(self, package, device: Device, inspection: Inspection, stratum: dict, kernels: dict[str, str]):
        self.device, self.inspection, self.kernels = device, inspection, kernels
        self.config = {**stratum, **self.CONFIG}
        self._kept: dict[tuple, DeviceArray] = {}
        self.rng = np.random.default_rng(0)
        self.engine = package.build_engine(self.config)
        self.prepare()

    def prepare(self) -> None:
        """What needs no mutant and happens once."""

    def spoil(self) -> None:
        """Overwrites what a run left in the engine's memory, so that the next can't take it for a result of its own.

        Is called before each run, with the true kernels.
        """

    def renew(self) -> None:
        """Makes anew what the engine keeps between the calls, so that the emulator knows what nothing has written.

        Is called before each run with checks, with the true kernels and checks: launches without them, as those of
        `spoil`, count all memory as written.
        """

    def run(self) -> Iterator[np.ndarray]:
        """The results, one at a time, as raw bits."""
        raise NotImplementedError

    def close(self) -> None:
        """Frees the engine."""
        self.engine.close()

    def skip(self, *operations: str) -> None:
        """From now on kernels of these operations do nothing."""
        for each in operations:
            name = self.kernels[each]
            self.inspection.override(name, returning(self.inspection.ptx(name)))

    def bring_back(self, *operations: str) -> None:
        """Ends `skip`."""
        for each in operations:
            self.inspection.override(self.kernels[each], None)

    def values(self, *leading: int) -> tuple[np.ndarray, ...]:
        """Random q, k, v, qg, kg of shape [*leading, heads, dim].

        Scores of every third token's query are far above 0, of every third one far below: where the softmax forgets to
        take the largest away, its exponentials overflow or vanish.
        """
        q, k, *others = (self.rng.standard_normal((*leading, *self._tail(each))) for each in NAMES)
        q[..., 1::3, :, :] *= 40
        q[..., 2::3, :, :] -= 16
        return q, k + 1, *others

    def inputs(self, *leading: int) -> tuple[DeviceArray, ...]:
        """`values` in device memory."""
        return tuple(self.upload(each) for each in self.values(*leading))

    def nans(self, *leading: int) -> tuple[DeviceArray, ...]:
        """NaNs instead, in the same shapes."""
        return tuple(self.output(*leading, *self._tail(each), use=each) for each in NAMES)

    def upload(self, values: np.ndarray) -> DeviceArray:
        """Values in device memory, in the stratum's dtype."""
        return self.device.upload(to_bits(values, self.config["dtype"]))

    def output(self, *shape: int, use: str = "o") -> DeviceArray:
        """An array of NaNs in device memory, the same one each time for the same shape and use."""
        key = (use, *shape)
        if key not in self._kept:
            self._kept[key] = self.device.empty(shape)
        array = self._kept[key]
        self.device.call(
            "cuMemsetD8Async",
            ctypes.c_uint64(array.pointer),
            ctypes.c_ubyte(_POISON),
            ctypes.c_size_t(array.nbytes),
            None,
        )
        return array

    def read(self, address: int, shape: tuple[int, ...], dtype) -> np.ndarray:
        """A copy of device memory, taken after all queued work is done."""
        host = np.empty(shape, dtype)
        self.device.call("cuCtxSynchronize")
        self.device.call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(host.ctypes.data),
            ctypes.c_uint64(address),
            ctypes.c_size_t(host.nbytes),
        )
        return host

    def _tail(self, name: str) -> tuple[int, int]:
        heads = "q_heads" if name.startswith("q") else "kv_heads"
        return self.config[heads], self.config["gate_dim" if name.endswith("g") else "head_dim"]


class Parts:
    """Several scenarios after each other, an engine each."""

    PARTS: tuple[type[Scenario], ...] = ()

    def __init__(self, *arguments):
        self.parts = [each(*arguments) for each in self.PARTS]

    def spoil(self) -> None:
        """As in Scenario."""
        for each in self.parts:
            each.spoil()

    def renew(self) -> None:
        """As in Scenario."""
        for each in self.parts:
            each.renew()

    def run(self) -> Iterator[np.ndarray]:
        """As in Scenario."""
        for each in self.parts:
            yield from each.run()

    def close(self) -> None:
        """As in Scenario."""
        for each in self.parts:
            each.close()


class Training(Scenario):
    """A batch of several sequences; single ones of a tile and of several with a tail; one that ends anywhere in a tile.

    An instruction copies or writes 2, 4, 8 or 16 rows of a tile: for each of them a sequence ends among its rows, where
    a bound that is wrong by one shows as an access behind the array.
    """

    CONFIG = _TRAINING
    ENDS = (1, 9, 19, 27, 37, 45, 55, 63)  # among each 8 of 64 rows, each 2 of 16
    BATCHES = ((3, 21), (1, 64), (1, 147), *((1, end) for end in ENDS), *((1, 64 + end) for end in ENDS[1::2]))

    def prepare(self) -> None:
        self.batches = [self.inputs(*each) for each in self.BATCHES]
        self.batches.append(tuple(self.upload(each) for each in self.infinite()))

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
    """Looks at the gradients; the forward is done before."""

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
        self.skip("prefill")
        self.step("prefill", ids, arrays, lengths)
        self.bring_back("prefill")
        self.inspection.reset()  # an output that isn't written is a fault
        return ids


class Append(Serving):
    """Ragged prompts of less than a block's tokens and more, then more tokens, across pages; attention reads them.

    The last step is one of two sequences only, the fewest that are searched.
    """

    CONFIG = {**_SERVING, "q_heads": 2, "kv_heads": 2, "max_seq_len": 256, "max_cached_tokens": 1024}
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
    """Chunks of less than a tile and more, with and without cached tokens before, from inside a page and its end.

    Then the first sequence alone, with each number of 16 rows begun in the tile: behind them the arrays end.
    """

    CONFIG = {**_SERVING, "q_heads": 4, "kv_heads": 2, "max_seq_len": 256, "max_cached_tokens": 1024}
    CACHED = [0, 64, 100, 0]
    LENGTHS = [5, 3, 70, 64]
    ALONE = (10, 20, 40, 60)
    CALL = "prefill"

    def prepare(self) -> None:
        super().prepare()
        self.alone = [self.inputs(each) for each in self.ALONE]

    def run(self) -> Iterator[np.ndarray]:
        yield from super().run()
        for arrays, length in zip(self.alone, self.ALONE):
            try:
                yield self.step(self.CALL, self.ids[:1], arrays, [length])
            finally:
                self.engine.truncate(self.ids[0], self.CACHED[0])


class Decode(Cached):
    """Splits that end before, in and after the new tokens; more rows than a tile; one key and many chunks of them.

    The last chunks have 1 to 4, 5 to 8, 9 to 12 and 13 to 15 keys: a lane copies every fourth row.
    """

    CONFIG = {**_SERVING, "q_heads": 6, "kv_heads": 2, "max_seq_len": 1024, "max_cached_tokens": 2048}
    CACHED = [530, 0, 508, 37, 10, 77]
    LENGTHS = [1, 8, 7, 2, 1, 2]
    CALL = "decode"


class DecodeMerge(Cached):
    """Rows of one split, of a few, and of three times as many as a warp has lanes."""

    CONFIG = {**_SERVING, "q_heads": 3, "kv_heads": 1, "max_seq_len": 65536, "max_cached_tokens": 65536}
    CACHED = [700, 10, 511, 98 * 512 + 5, 4000]
    LENGTHS = [1, 2, 3, 1, 1]
    CALL = "decode"

    def spoil(self) -> None:
        """Nothing: the true decode writes all partials anew."""

    def renew(self) -> None:
        """Nothing: a call forgets the partials."""


class ManyHeads(Serving):
    """A sequence and two forks of it write the last token of the page that they share, and then read all of it.

    A page of so many heads has more vectors than a launch moves at once.
    """

    CONFIG = {
        **_SERVING, "q_heads": 96, "kv_heads": 96, "max_sequences": 3, "max_seq_len": 256, "max_cached_tokens": 192,
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


SCENARIOS = {
    "fwd": Forward,
    "bwd_dq": Backward,
    "bwd_dkv": BackwardDkv,
    "append": Append,
    "prefill": Prefill,
    "dec": Decode,
    "dec_merge": DecodeMerge,
    "page_copy": PageCopy,
}
