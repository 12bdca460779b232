"""The caller's arrays of a trace, in memory of the harness that the engine's process maps.

Every array is a view of one block of 16-bit elements, with a guard around each and everything that isn't an input full
of NaN: outputs start so, and the gaps between rows and arrays are so. After a call the block must be as before, except
inside the call's outputs. On the host the block is an anonymous file; on a GPU, device memory shared by an IPC handle.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

POISON = 0xFFFF  # a NaN in bfloat16 and in float16
GUARD = 256  # elements between arrays
ALIGNMENT = 128  # elements: 256 bytes
DEVICE_PAGE = 2 << 20  # bytes
ROW_GAP = 8  # elements, the `padded` layout's: 16 bytes keep a row aligned


@dataclass(frozen=True)
class View:
    """An array's place in the block; offset and strides in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def contains(self, element: int) -> bool:
        """Whether an element of the block is the array's."""
        left = element - self.offset
        if left < 0 or 0 in self.shape:
            return False
        for stride, extent in sorted(zip(self.strides, self.shape), reverse=True):
            left -= min(left // stride, extent - 1) * stride
        return left == 0

    def describe(self) -> list:
        """What the engine's process needs to make it, as JSON."""
        return [self.offset, list(self.shape), list(self.strides)]


class Layout:
    """Hands out places, one after the other."""

    def __init__(self) -> None:
        self._end = GUARD

    @property
    def elements(self) -> int:
        """Size of a block that holds everything placed so far, the guards included."""
        return self._end

    def _place(self, elements: int) -> int:
        start = -(-self._end // ALIGNMENT) * ALIGNMENT
        self._end = start + elements + GUARD
        return start

    def array(self, shape: tuple[int, ...], layout: str) -> View:
        """Room for one array [..., rows, heads, dim]: `contiguous`, `padded` or `heads_first` ([..., heads,
        rows, dim])."""
        *lead, rows, heads, dim = shape
        if layout == "heads_first":
            inner, size = (dim, rows * dim, 1), heads * rows * dim
        else:
            row = heads * dim + (ROW_GAP if layout == "padded" else 0)
            inner, size = (row, dim, 1), rows * row
        outer = tuple(size * int(np.prod(lead[i + 1 :], dtype=int)) for i in range(len(lead)))
        return View(self._place(size * int(np.prod(lead, dtype=int))), tuple(shape), (*outer, *inner))

    def packed(self, shapes: list[tuple[int, ...]]) -> list[View]:
        """Arrays of the same rows and dim, side by side in one [..., rows, sum of heads, dim]."""
        *lead, rows, _, dim = shapes[0]
        whole = self.array((*lead, rows, sum(shape[-2] for shape in shapes), dim), "contiguous")
        starts = np.cumsum([0, *(shape[-2] * dim for shape in shapes[:-1])])
        return [View(whole.offset + int(s), tuple(shape), whole.strides) for s, shape in zip(starts, shapes)]


class _HostBlock:
    """Memory of an anonymous file."""

    xp = np

    def __init__(self, elements: int) -> None:
        self._fd = os.memfd_create("arrays")
        os.ftruncate(self._fd, 2 * elements)
        self._map = mmap.mmap(self._fd, 2 * elements)
        self.words = np.frombuffer(self._map, np.uint16)

    def share(self) -> dict:
        """How the engine's process maps it."""
        return {"memory": "host", "path": f"/proc/{os.getpid()}/fd/{self._fd}", "bytes": self.words.nbytes}

    def close(self) -> None:
        self.words = self._map = None  # unmapped with the last array that shows it
        os.close(self._fd)


class _CudaBlock:
    """Device memory of its own allocation: whole pages of the device, so that its IPC handle covers nothing else."""

    def __init__(self, elements: int) -> None:
        import cupy

        self.xp = cupy
        self._pointer = cupy.cuda.runtime.malloc(-(-2 * elements // DEVICE_PAGE) * DEVICE_PAGE)
        memory = cupy.cuda.UnownedMemory(self._pointer, 2 * elements, self)
        self.words = cupy.ndarray((elements,), cupy.uint16, cupy.cuda.MemoryPointer(memory, 0))

    def share(self) -> dict:
        """How the engine's process maps it."""
        handle = self.xp.cuda.runtime.ipcGetMemHandle(self._pointer)
        return {"memory": "cuda", "handle": handle.hex(), "bytes": self.words.nbytes}

    def close(self) -> None:
        self.words = None
        self.xp.cuda.runtime.deviceSynchronize()
        self.xp.cuda.runtime.free(self._pointer)


class Arena:
    """A block of `elements` elements in the memory `kind`, "host" or "cuda". A context manager."""

    def __init__(self, kind: str, elements: int) -> None:
        self._block = {"host": _HostBlock, "cuda": _CudaBlock}[kind](elements)
        self._sealed: np.ndarray | None = None
        self._expected: np.ndarray | None = None

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self._sealed = self._expected = None
        self._block.close()

    @property
    def xp(self) -> ModuleType:
        """numpy or CuPy, whichever makes this memory's arrays."""
        return self._block.xp

    def share(self) -> dict:
        """What the engine's process needs to map the block, as JSON."""
        return self._block.share()

    def array(self, view: View) -> np.ndarray:
        """The array at a place: uint16, writable."""
        return self._array(self._block.words, view)

    def _array(self, words: np.ndarray, view: View) -> np.ndarray:
        strides = tuple(2 * stride for stride in view.strides)
        return self.xp.lib.stride_tricks.as_strided(words[view.offset :], view.shape, strides)

    def poison(self) -> None:
        """Fills the block with NaN."""
        self._block.words[:] = POISON

    def seal(self) -> None:
        """Remembers every element; the inputs are filled, the engine's turn comes."""
        self._sealed = self._block.words.copy()
        self._expected = self._sealed.copy()
        self.settle()

    def accept(self, outputs: Iterable[View]) -> list[np.ndarray]:
        """Copies of outputs that were to be written; from now on they shall stay as they are."""
        accepted = []
        for view in outputs:
            array = self.array(view).copy()
            self._array(self._expected, view)[...] = array
            accepted.append(array)
        return accepted

    def changed(self) -> int | None:
        """The first element that is neither as it was when sealed nor as it was accepted; None if there is none."""
        different = self._block.words != self._expected
        return int(different.argmax()) if bool(different.any()) else None

    def restore(self) -> None:
        """Puts everything back as it was when sealed."""
        self._block.words[:] = self._sealed
        self._expected[:] = self._sealed
        self.settle()

    def hide(self) -> None:
        """Leaves nothing but NaN in the block, until it is revealed or restored."""
        self._block.words[:] = POISON
        self._expected[:] = POISON
        self.settle()

    def reveal(self, inputs: Iterable[View]) -> None:
        """Puts these arrays back as they were when sealed."""
        for view in inputs:
            for words in (self._block.words, self._expected):
                self._array(words, view)[...] = self._array(self._sealed, view)
        self.settle()

    def settle(self) -> None:
        """Waits until what was written here is there for the other process."""
        if self.xp is not np:
            self.xp.cuda.runtime.deviceSynchronize()
