"""Arrays for the tests: raw 16-bit floats in host memory, which is the device's, between guards of NaN."""

from __future__ import annotations

import ctypes
import math
import os

import numpy as np

from tools.reference.attention import Inputs
from tools.reference.bits import from_bits, to_bits

NAN_BITS = 0x7FFF  # NaN in bfloat16 and in float16
GUARD = 512  # elements before and after every array; a multiple of 16 bytes
ALIGNMENT = 16


class Guarded:
    """A contiguous array full of NaN with NaN before and after it: reads past its ends show, and so do writes.

    array: uint16 of the given shape, 16-byte aligned.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        size = math.prod(shape)
        memory = np.full(size + 2 * GUARD + ALIGNMENT, NAN_BITS, np.uint16)
        start = -memory.ctypes.data % ALIGNMENT // memory.itemsize
        self._all = memory[start : start + size + 2 * GUARD]
        self.array = self._all[GUARD : GUARD + size].reshape(shape)

    def assert_guards_intact(self, name: str) -> None:
        """Fails if anything was written outside the array."""
        written = np.concatenate((self._all[:GUARD], self._all[len(self._all) - GUARD :])) != NAN_BITS
        assert not written.any(), f"{name}: {written.sum()} elements outside the array were written"


def guarded_copy(values: np.ndarray) -> np.ndarray:
    """The same bits in an array between guards of NaN."""
    array = Guarded(values.shape).array
    array[...] = values
    return array


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Standard normal values as raw bits, between guards."""
    return guarded_copy(to_bits(rng.standard_normal(shape), dtype))


def random_inputs(rng: np.random.Generator, settings: dict, *rows: int) -> Inputs:
    """Standard normal inputs for an engine; `rows` are the axes before the heads, (B, S) or (T,)."""
    heads = {"q": "q_heads", "k": "kv_heads", "v": "kv_heads", "qg": "q_heads", "kg": "kv_heads"}
    widths = {name: settings["gate_dim" if name.endswith("g") else "head_dim"] for name in heads}
    return Inputs(*(random_bits(rng, (*rows, settings[heads[x]], widths[x]), settings["dtype"]) for x in heads))


def values_of(inputs: Inputs, dtype: str) -> Inputs:
    """The inputs' values in float32."""
    return Inputs(*(from_bits(x, dtype) for x in inputs))


def synchronize() -> None:
    """Waits until all work that was queued on the emulator's devices is done."""
    driver = ctypes.CDLL(os.environ["STRATUM_DRIVER"])
    count, context = ctypes.c_int(), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    for device in range(count.value):
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert driver.cuCtxPushCurrent_v2(context) == 0
        assert driver.cuCtxSynchronize() == 0
        assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0


def assert_same_bits(name: str, ours: np.ndarray, expected: np.ndarray) -> None:
    """Fails with the number of elements that differ and the first of them."""
    assert ours.shape == expected.shape, f"{name}: shape {ours.shape}, expected {expected.shape}"
    different = np.argwhere(ours != expected)
    if len(different) == 0:
        return
    first = tuple(int(i) for i in different[0])
    raise AssertionError(
        f"{name}: {len(different)} of {ours.size} elements differ in their bits, first at {first}: "
        f"{int(ours[first]):#06x}, expected {int(expected[first]):#06x}"
    )
