"""Reads address, shape, strides and dtype of an array through the DLPack protocol.

The capsule is only looked at, never consumed: it is kept until the call that uses the array has been queued, then
dropped, and the exporter frees what it holds. Layouts: DLPack 1.1, dlpack.h.
"""

from __future__ import annotations

import ctypes

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType

_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
_DTYPE_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}  # DLDataTypeCode


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _VersionedTensor(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))


class View:
    """What an exporter says of its array. The address is good for as long as the view lives.

    array: an object with `__dlpack__`. stream: the CUDA stream that will read it; the exporter makes it wait for its
    own work. Raises what the exporter raises, and BufferError for a capsule that isn't DLPack's.
    """

    def __init__(self, array, stream: int):
        device_type = array.__dlpack_device__()[0]
        on_gpu = device_type in (CUDA, CUDA_MANAGED)
        # 0 is ambiguous in the protocol; 1 is its legacy default stream.
        arguments = {"stream": stream or 1} if on_gpu else {}
        try:
            self._capsule = array.__dlpack__(max_version=(1, 1), **arguments)
        except TypeError:  # an exporter older than DLPack 1.0
            self._capsule = array.__dlpack__(**arguments)
        if _is_valid(self._capsule, b"dltensor_versioned"):
            managed = _VersionedTensor.from_address(_pointer(self._capsule, b"dltensor_versioned"))
            if managed.major != 1:
                raise BufferError(f"a DLPack {managed.major}.{managed.minor} capsule, expected 1.x")
            tensor = managed.tensor
            self.read_only = bool(managed.flags & _READ_ONLY)
        elif _is_valid(self._capsule, b"dltensor"):
            tensor = _Tensor.from_address(_pointer(self._capsule, b"dltensor"))
            self.read_only = False
        else:
            raise BufferError("a capsule that is not a DLPack tensor")
        self.data = (tensor.data or 0) + tensor.byte_offset
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
        self.device_type, self.device_id = tensor.device_type, tensor.device_id
        lanes = f"x{tensor.lanes}" if tensor.lanes != 1 else ""
        self.dtype = f"{_DTYPE_NAMES.get(tensor.code, f'dtype{tensor.code}_')}{tensor.bits}{lanes}"
