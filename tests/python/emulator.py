"""What tests ask of libstratum_emulator.so (tools/emulator/driver/emulator.h), through ctypes."""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import contextmanager
from dataclasses import dataclass


class _Launch(ctypes.Structure):
    _fields_ = [
        ("kernel", ctypes.c_char_p),
        ("params", ctypes.c_void_p),
        ("params_bytes", ctypes.c_int64),
        ("stream", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("captured", ctypes.c_int32),
        ("cluster", ctypes.c_uint32 * 3),
        ("cooperative", ctypes.c_int32),
    ]


@dataclass(frozen=True)
class Launch:
    """A recorded launch. operation: the kernel's short word. params: the bytes of its parameter struct."""

    kernel: str
    params: bytes
    stream: int
    grid: tuple[int, int, int]
    device: int
    captured: bool

    @property
    def operation(self) -> str:
        return self.kernel.removeprefix("gated_").split("_sm")[0]

    def array(self, index: int, axes: int) -> tuple[int, ...]:
        """The `index`-th array at the head of the parameters: address and `axes` strides in elements."""
        return struct.unpack_from(f"<Q{axes}q", self.params, index * 8 * (1 + axes))


class Emulator:
    """The library that STRATUM_DRIVER names; the same copy that libstratum.so opens."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["STRATUM_DRIVER"])
        self.library.emulator_calls.restype = ctypes.c_int64
        self.library.emulator_called.restype = ctypes.c_char_p
        self.library.emulator_fault.restype = ctypes.c_char_p
        self.library.emulator_stream_create.restype = ctypes.c_uint64
        for name in (
            "emulator_launch_count",
            "emulator_live",
            "emulator_live_bytes",
            "emulator_fault_count",
            "emulator_context_depth",
        ):
            getattr(self.library, name).restype = ctypes.c_int64

    def reset(self) -> None:
        """Forgets launches, call counts, faults and the call to fail."""
        self.library.emulator_reset()

    def launches(self) -> list[Launch]:
        """The launches since the last reset."""
        found, launches = _Launch(), []
        for index in range(self.library.emulator_launch_count()):
            assert self.library.emulator_launch_get(ctypes.c_int64(index), ctypes.byref(found))
            params = ctypes.string_at(found.params, found.params_bytes)
            launches.append(Launch(found.kernel.decode(), params, found.stream, tuple(found.grid), found.device,
                                   bool(found.captured)))  # fmt: skip
        return launches

    def calls(self) -> dict[str, int]:
        """How often each function was called since the last reset."""
        counts, index = {}, 0
        while (name := self.library.emulator_called(ctypes.c_int64(index))) is not None:
            counts[name.decode()] = self.library.emulator_calls(name)
            index += 1
        return counts

    def fail(self, function: str, nth: int, code: int) -> None:
        """The nth call from now of a function fails with a CUDA error code; nth 0: none does."""
        self.library.emulator_fail(function.encode(), ctypes.c_int64(nth), code)

    @contextmanager
    def not_executing(self):
        """Launches are checked and recorded, but nothing runs."""
        self.library.emulator_execute(0)
        try:
            yield
        finally:
            self.library.emulator_execute(1)

    @contextmanager
    def fast(self):
        """Kernels run without checks, and MMAs sum in float32."""
        self.library.emulator_checks(0)
        self.library.emulator_exact_mma(0)
        try:
            yield
        finally:
            self.library.emulator_exact_mma(1)
            self.library.emulator_checks(1)

    def faults(self) -> list[str]:
        """What the program did wrong since the last reset."""
        return [
            self.library.emulator_fault(ctypes.c_int64(i)).decode() for i in range(self.library.emulator_fault_count())
        ]

    def live(self) -> dict[str, int]:
        """Objects alive that a closed engine must not leave: device and page-locked memory, events."""
        return {kind: self.library.emulator_live(kind.encode()) for kind in ("device", "pinned", "event")}

    def live_bytes(self) -> int:
        """Bytes of device memory allocated."""
        return self.library.emulator_live_bytes()

    @contextmanager
    def stream(self, device: int = 0):
        """A stream's handle, destroyed at the end."""
        handle = self.library.emulator_stream_create(device)
        yield handle
        self.library.emulator_stream_destroy(ctypes.c_uint64(handle))

    @contextmanager
    def capture(self, stream: int):
        """A capture of a stream; fails the test if a call that isn't allowed in one broke it."""
        assert self.library.emulator_stream_capture(ctypes.c_uint64(stream), 1)
        yield
        assert self.library.emulator_stream_capture(ctypes.c_uint64(stream), 0), "the capture was broken"

    def set_current_device(self, device: int) -> None:
        """Makes a device's primary context current on this thread; -1: none."""
        self.library.emulator_set_current_device(device)

    def current(self) -> tuple[int, int]:
        """(device of the current context or -1, contexts on this thread's stack)."""
        return self.library.emulator_current_device(), self.library.emulator_context_depth()
