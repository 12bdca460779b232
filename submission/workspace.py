"""Device memory that a training call needs, from the caller's allocator (torch's; the driver's where torch isn't used).

It counts against the engine's memory limit from before it is allocated until it is freed. A workspace is anything with
`data_ptr()`.
"""

from __future__ import annotations

import weakref

from .arrays import is_tensor
from .library import check, load
from .streams import new_floats

_FLOAT_BYTES = 4


def allocate(engine: int, nbytes: int, like, stream, handle: int):
    """A workspace of `nbytes` for one stream: a flat float32 tensor if `like` is a torch tensor, else a DeviceMemory.

    engine: the handle. stream, handle: what the caller passed, and what stream_handle made of it. Errors:
    MemoryLimitError, the allocator's.
    """
    _, lib = load()
    if not is_tensor(like):
        return DeviceMemory(engine, nbytes, handle)
    check(lib.stratum_training_reserve(engine, nbytes))
    try:
        tensor = new_floats(like, nbytes // _FLOAT_BYTES, stream, handle)
    except BaseException:
        lib.stratum_training_release(engine, nbytes)
        raise
    # Autograd keeps the memory through tensors of its own, so the count follows the storage.
    weakref.finalize(tensor.untyped_storage(), lib.stratum_training_release, engine, nbytes).atexit = False
    return tensor


class DeviceMemory:
    """Device memory from the driver, counted and freed with the object, in the order of the stream that used it last.

    stream: that stream's handle. Errors: MemoryLimitError, DriverError.
    """

    def __init__(self, engine: int, nbytes: int, stream: int):
        ffi, lib = load()
        self._lib, self._engine, self._nbytes, self._data, self.stream = lib, engine, 0, 0, stream
        check(lib.stratum_training_reserve(engine, nbytes))
        self._nbytes = nbytes
        try:
            data = ffi.new("uint64_t*")
            check(lib.stratum_device_allocate(engine, nbytes, stream, data))
            self._data = data[0]
        except BaseException:
            self.free()  # now, not when the traceback goes
            raise

    def data_ptr(self) -> int:
        """The address, 0 for no bytes."""
        return self._data

    def free(self) -> None:
        """Frees the memory; again is harmless."""
        data, nbytes = self._data, self._nbytes
        self._data = self._nbytes = 0
        if data:
            self._lib.stratum_device_free(self._engine, data, self.stream)
        if nbytes:
            self._lib.stratum_training_release(self._engine, nbytes)

    def record_use(self, stream: int) -> None:
        """Has the memory outlive what is queued on `stream`."""
        self.stream = stream

    __del__ = free
