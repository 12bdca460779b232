"""What all scenarios share: values, arrays that nothing has written, reads and kernels that return at once."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator

import numpy as np

from tools.demo.device_memory import Device, DeviceArray
from tools.reference.bits import to_bits

from ...inspection import Inspection
from ..instruction import instructions

NAMES = ("q", "k", "v", "qg", "kg")
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
