"""An engine on the emulator, random inputs for its calls, and the judging of what comes out."""

from __future__ import annotations

import math
import mmap

import numpy as np

from tools.demo.training import expected
from tools.reference.accuracy import floors, judge
from tools.reference.attention import EXACT, GRADIENTS, Inputs, eager, forward
from tools.reference.bits import from_bits, to_bits

DTYPE = "bfloat16"
HEADS = {"q": 4, "k": 2, "v": 2, "qg": 4, "kg": 2}
DIMS = {"q": 64, "k": 64, "v": 64, "qg": 32, "kg": 32}
CONFIG = {"head_dim": 64, "gate_dim": 32, "q_heads": 4, "kv_heads": 2, "dtype": DTYPE, "device": 0}
CAPACITY = {"max_sequences": 4, "max_seq_len": 1024, "max_cached_tokens": 1024}  # of the serving modes
NAN_BITS = 0x7FFF
GUARD = 4096  # elements after an array
MAP_NORESERVE = 0x4000  # Linux's, which Python 3.10's mmap lacks
FAR = 1 << 25  # elements between tokens: from token 64 on, offsets are beyond 32 bits


def aligned(shape: tuple[int, ...]) -> np.ndarray:
    """A contiguous array of NaNs at a multiple of 16 bytes, far from the next one."""
    size = math.prod(shape)
    memory = np.full(size + 8 + GUARD, NAN_BITS, np.uint16)
    start = -memory.ctypes.data % 16 // 2
    return memory[start : start + size].reshape(shape)


def far_apart(values: np.ndarray) -> np.ndarray:
    """A copy of [1,S,heads,dim] with FAR elements from one token to the next; the memory between them isn't used."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    memory = np.frombuffer(mmap.mmap(-1, values.shape[1] * FAR * values.itemsize, flags), values.dtype)
    strides = (memory.nbytes, FAR * values.itemsize, *values.strides[2:])
    copy = np.lib.stride_tricks.as_strided(memory, values.shape, strides)
    copy[...] = values
    return copy


class Session:
    """An engine for some modes, and what is wrong with its results so far."""

    def __init__(self, package, modes: list[str]) -> None:
        self.engine = package.build_engine({**CONFIG, **({} if modes == ["training"] else CAPACITY), "modes": modes})
        self.rng = np.random.default_rng(0)
        self.wrong: list[str] = []
        self.held: dict[int, Inputs] = {}  # what each sequence caches, raw bits

    def inputs(self, *rows: int) -> Inputs:
        """Raw bits of standard normal values; `rows` are the axes before the heads."""
        arrays = [aligned((*rows, HEADS[name], DIMS[name])) for name in Inputs._fields]
        for array in arrays:
            array[...] = to_bits(self.rng.standard_normal(array.shape), DTYPE)
        return Inputs(*arrays)

    def judge(self, name: str, result: np.ndarray, yardstick: np.ndarray, reference: np.ndarray, floor: float) -> None:
        """Notes a result that breaks the accuracy rule."""
        verdict = judge(name, from_bits(result, DTYPE), yardstick, reference, floor)
        if not verdict.ok:
            self.wrong.append(str(verdict))

    def train(self, batch: int, length: int, far: bool = False) -> None:
        """Forward and backward; `far` spreads k over more memory than 32 bits address."""
        inputs = self.inputs(batch, length)
        do = self.inputs(batch, length).q
        results = {name: aligned(x.shape) for name, x in zip(("o", *GRADIENTS), (inputs.q, *inputs))}
        o, *gradients = results.values()
        _, saved = self.engine.forward(*inputs._replace(k=far_apart(inputs.k) if far else inputs.k), out=o)
        self.engine.backward(saved, do, out=tuple(gradients))
        values, upstream = Inputs(*(from_bits(x, DTYPE) for x in inputs)), from_bits(do, DTYPE)
        right, yardstick = expected(values, upstream, EXACT), expected(values, upstream, eager(DTYPE))
        floor = floors(DTYPE, values, upstream)
        for name, result in results.items():
            self.judge(name, result, yardstick[name], right[name], floor[name])

    def create(self) -> int:
        """An empty sequence."""
        sequence = self.engine.create()
        self.held[sequence] = self.inputs(0)
        return sequence

    def fork(self, parent: int) -> int:
        """A sequence that shares the parent's pages."""
        sequence = self.engine.fork(parent)
        self.held[sequence] = self.held[parent]
        return sequence

    def append(self, call: str, lengths: dict[int, int]) -> None:
        """One prefill or decode call: a number of new tokens for each sequence."""
        total = sum(lengths.values())
        new, out = self.inputs(total), aligned((total, HEADS["q"], DIMS["q"]))
        getattr(self.engine, call)(list(lengths), *new, list(lengths.values()), out=out)
        start = 0
        for sequence, length in lengths.items():
            part = Inputs(*(x[start : start + length] for x in new))
            held = Inputs(*(np.concatenate(both) for both in zip(self.held[sequence], part)))
            self.held[sequence] = held
            row = Inputs(*(from_bits(x, DTYPE) for x in (part.q, held.k, held.v, part.qg, held.kg)))
            result = out[start : start + length]
            self.judge(f"o of {call}", result, forward(row, eager(DTYPE)), forward(row), floors(DTYPE, row)["o"])
            start += length
