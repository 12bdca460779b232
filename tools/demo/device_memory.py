"""Device memory without torch: a few calls of the CUDA driver through ctypes.

Arrays made here carry `__cuda_array_interface__`, which is all that an engine asks of an array.
"""

from __future__ import annotations

import ctypes
import math
import os

import numpy as np

NAME_BYTES = 256
COMPUTE_CAPABILITY_MAJOR = 75  # CUdevice_attribute
COMPUTE_CAPABILITY_MINOR = 76


class NoDevice(RuntimeError):
    """There is no driver, or it has no GPU; the text says which."""


class DeviceArray:
    """A C-contiguous array in device memory, freed with the object.

    shape: extents. dtype: a numpy dtype; uint16 holds the raw bits of a 16-bit float.
    """

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: np.dtype):
        self.device = device
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.pointer = device.allocate(self.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False), "version": 3}

    def numpy(self) -> np.ndarray:
        """A copy in host memory, taken after all queued work is done."""
        host = np.empty(self.shape, self.dtype)
        self.device.call("cuCtxSynchronize")
        self.device.call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(host.ctypes.data),
            ctypes.c_uint64(self.pointer),
            ctypes.c_size_t(self.nbytes),
        )
        return host

    def __del__(self):
        self.device.free(self.pointer)


class Device:
    """GPU 0 with its primary context current on this thread. Errors: NoDevice.

    name: the GPU's name. capability: (major, minor). The environment's STRATUM_DRIVER names another driver library.
    """

    def __init__(self):
        library = os.environ.get("STRATUM_DRIVER") or "libcuda.so.1"
        try:
            self.driver = ctypes.CDLL(library)
        except OSError as error:
            raise NoDevice(f"{library} can't be opened ({error}): no NVIDIA driver is installed") from None
        status = self.driver.cuInit(0)
        if status != 0:
            raise NoDevice(f"{library} found no GPU: cuInit failed with {self.error_name(status)}")
        handle = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(handle), 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), handle)
        self.call("cuCtxSetCurrent", self.context)

        text = ctypes.create_string_buffer(NAME_BYTES)
        self.call("cuDeviceGetName", text, NAME_BYTES, handle)
        self.name = text.value.decode()
        self.capability = tuple(
            self.attribute(handle, which) for which in (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR)
        )

    def attribute(self, handle: ctypes.c_int, which: int) -> int:
        """One of the driver's device attributes, by number."""
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), which, handle)
        return value.value

    def call(self, function: str, *arguments) -> None:
        """Calls the driver. Errors: RuntimeError with the function and the error's name."""
        status = getattr(self.driver, function)(*arguments)
        if status != 0:
            raise RuntimeError(f"{function} failed: {self.error_name(status)}")

    def error_name(self, status: int) -> str:
        """The driver's name for a status, such as CUDA_ERROR_NO_DEVICE."""
        text = ctypes.c_char_p()
        if self.driver.cuGetErrorName(status, ctypes.byref(text)) != 0 or text.value is None:
            return f"error {status}"
        return text.value.decode()

    def allocate(self, nbytes: int) -> int:
        """Device memory, as an address."""
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(nbytes, 1)))
        return pointer.value

    def free(self, pointer: int) -> None:
        """Frees what `allocate` returned."""
        self.call("cuMemFree_v2", ctypes.c_uint64(pointer))

    def upload(self, host: np.ndarray) -> DeviceArray:
        """A copy of a numpy array in device memory."""
        host = np.ascontiguousarray(host)
        array = DeviceArray(self, host.shape, host.dtype)
        self.call(
            "cuMemcpyHtoD_v2",
            ctypes.c_uint64(array.pointer),
            ctypes.c_void_p(host.ctypes.data),
            ctypes.c_size_t(array.nbytes),
        )
        return array

    def empty(self, shape: tuple[int, ...], dtype=np.uint16) -> DeviceArray:
        """Uninitialised device memory."""
        return DeviceArray(self, shape, dtype)
