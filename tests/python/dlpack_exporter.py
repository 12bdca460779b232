"""An array that speaks DLPack and nothing else, over the memory of a numpy array.

It can say of itself what numpy's can't: another device, dtype or version of the protocol.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import numpy as np

CPU, CUDA, METAL = 1, 2, 8  # DLDeviceType
UINT, FLOAT, BFLOAT = 1, 2, 4  # DLDataTypeCode

_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", _Deleter),
        ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)
# A capsule that is being destroyed must not be touched as an object, so these take its address.
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_exported = {}  # address of a managed tensor → what lives as long as its capsule


@_Destructor
def _destroyed(capsule: int) -> None:
    exporter, *_ = _exported.pop(_capsule_pointer(capsule, _capsule_name(capsule)))
    exporter.alive -= 1


@dataclass
class Exporter:
    """array: the memory, shape and strides. device, code, bits: what it says it is. version: None for an exporter
    from before DLPack 1.0. with_strides: False leaves them out, as an exporter may for a contiguous array.

    streams: the streams it was asked for. alive: capsules not yet destroyed.
    """

    array: np.ndarray
    device: tuple[int, int] = (CUDA, 0)
    code: int = UINT
    bits: int = 16
    version: tuple[int, int] | None = (1, 0)
    read_only: bool = False
    with_strides: bool = True
    byte_offset: int = 0
    streams: list = field(default_factory=list)
    alive: int = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream=None, **newer):
        if newer and self.version is None:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        rank = self.array.ndim
        shape = (ctypes.c_int64 * rank)(*self.array.shape)
        strides = (ctypes.c_int64 * rank)(*(stride // self.array.itemsize for stride in self.array.strides))
        tensor = _Tensor(self.array.ctypes.data - self.byte_offset, *self.device, rank, self.code, self.bits, 1, shape,
                         strides if self.with_strides else None, self.byte_offset)  # fmt: skip
        if self.version is None:
            managed, name = _Managed(tensor), b"dltensor"
        else:
            managed, name = _Versioned(*self.version, flags=int(self.read_only), tensor=tensor), b"dltensor_versioned"
        self.alive += 1
        _exported[ctypes.addressof(managed)] = self, managed, name, shape, strides
        return _new_capsule(ctypes.addressof(managed), name, _destroyed)
