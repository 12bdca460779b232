"""Describes arrays to the library: torch tensors, `__cuda_array_interface__`, `__array_interface__`, DLPack.

A description is the tuple of a `stratum_array`'s fields in order (data, shape[4], stride[4], rank, dtype, device,
reserved, dtype_name). Nothing is copied; whether it suits is for the library to judge, since it has to do so for C
callers anyway.

Work that is still queued on an array is ordered before ours by the exporter, if it speaks DLPack. An array that only
has `__cuda_array_interface__` may name the stream of such work; it is taken on that stream alone.
"""

from __future__ import annotations

import sys

from .errors import DeviceError, DtypeError, ShapeError, StrideError, brief
from .library import load

FIELDS = "Q4q4qiiiiP"  # a stratum_array in struct's notation
FIELD_COUNT = 14

BFLOAT16, FLOAT16, RAW16, OTHER = 1, 2, 3, 4  # stratum_dtype
HOST_MEMORY = -1

_LEGACY_STREAM = 1  # CU_STREAM_LEGACY, which is what a stream of 0 means to the library

_LEGACY_STREAM = 1  # CU_STREAM_LEGACY, which is what a stream of 0 means to the library

_EXPECTED = "a torch tensor or an array with __cuda_array_interface__, __array_interface__ or DLPack"
_TYPESTRS = {"<f2": FLOAT16, "<u2": RAW16}
_DLPACK_DTYPES = {"bfloat16": BFLOAT16, "float16": FLOAT16, "uint16": RAW16}

_tensor_types = {}  # types of torch tensors met so far
_tensor_dtypes = {}  # torch.dtype → (stratum_dtype, name)
_dtype_names = {}  # name → C string; kept for ever, since a description holds its bare address


def is_tensor(array) -> bool:
    """Whether an array is a torch tensor. Imports nothing: who has a tensor has torch."""
    if type(array) in _tensor_types:
        return True
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, getattr(torch, "Tensor", ())):
        return False
    _tensor_types[type(array)] = True
    return True


def describe(array, name: str, device: int, stream: int, keep: list, writable: bool = False) -> tuple:
    """The description of any supported array.

    name: the argument, for messages. device: the engine's, taken where an array can't say its own. stream: the CUDA
    stream that will use it. keep: gets what must live until the work is queued. writable: refuse a read-only array.
    Errors: DtypeError for no array, a masked or a read-only one; DeviceError for one in use on another stream;
    StrideError, DeviceError for what has no description.
    """
    if type(array) in _tensor_types and array.is_cuda:  # the usual case, kept short
        shape, dtype = array.shape, _tensor_dtypes.get(array.dtype)
        if len(shape) == 3 and dtype is not None:
            return (array.data_ptr(), *shape, 0, *array.stride(), 0, 3, dtype[0], array.get_device(), 0, dtype[1])
    if is_tensor(array):
        return _describe_tensor(array, name)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        in_use_on = _other_stream(interface, name, stream)
        if in_use_on is None:
            return _describe_interface(interface, name, _device_of(array, device), writable)
        if not _speaks_dlpack(array):
            raise DeviceError(
                f"{name}: expected an array in use on the stream of this call, {stream:#x}, got one in use on stream "
                f"{in_use_on:#x}; pass stream={in_use_on:#x}, or synchronise the two and pass an array that names none",
                name,
            )
    elif (interface := getattr(array, "__array_interface__", None)) is not None:
        return _describe_interface(interface, name, HOST_MEMORY, writable)
    if _speaks_dlpack(array):
        return _describe_dlpack(array, name, stream, keep, writable)
    raise DtypeError(f"{name}: expected {_EXPECTED}, got {type(array).__name__}", name)


def _describe_tensor(tensor, name: str) -> tuple:
    if not (tensor.is_cuda or tensor.is_cpu):
        raise DeviceError(f"{name}: expected a CUDA tensor, got one on device {tensor.device}", name)
    code, dtype_name = _tensor_dtypes.get(tensor.dtype) or _learn_dtype(tensor.dtype)
    try:
        data, strides = tensor.data_ptr(), tensor.stride()
    except RuntimeError as error:  # a layout without strides, a tensor without storage
        raise StrideError(f"{name}: expected a strided tensor in memory, got one without ({error})", name) from None
    device = tensor.get_device() if tensor.is_cuda else HOST_MEMORY
    return _description(data, tensor.shape, strides, code, device, dtype_name)


def _learn_dtype(dtype) -> tuple[int, int]:
    torch = sys.modules["torch"]
    codes = {torch.bfloat16: BFLOAT16, torch.float16: FLOAT16, getattr(torch, "uint16", None): RAW16}
    code = codes.get(dtype, OTHER)
    known = code, _dtype_name(str(dtype).removeprefix("torch.")) if code == OTHER else 0
    _tensor_dtypes[dtype] = known
    return known


def _speaks_dlpack(array) -> bool:
    return hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__")


def _other_stream(interface: dict, name: str, stream: int) -> int | None:
    """The stream other than `stream` on which an array with `__cuda_array_interface__` is in use, if there is one.

    The interface's values: None for no work queued, 1 for the legacy default stream, 2 for the thread's, else a handle;
    0 is ruled out, since it could mean either default.
    """
    told = interface.get("stream")
    if told is None:
        return None
    if not isinstance(told, int) or told < 1:
        raise DeviceError(
            f"{name}: expected a stream of None, 1, 2 or a handle in __cuda_array_interface__, got {brief(told)}", name
        )
    return None if told == (stream or _LEGACY_STREAM) else told


def _describe_interface(interface: dict, name: str, device: int, writable: bool) -> tuple:
    """From the dict of `__cuda_array_interface__` (version 3) or `__array_interface__`; strides count bytes there."""
    data, typestr, shape = (interface.get(key) for key in ("data", "typestr", "shape"))
    strides = interface.get("strides")
    if interface.get("mask") is not None:
        raise DtypeError(f"{name}: expected an array without a mask, got a masked one", name)
    if not isinstance(data, tuple):
        raise StrideError(f"{name}: expected an array that tells its address, got one without", name)
    if len(data) != 2 or not _are_integers(data[:1], 0, 2**64):
        raise StrideError(f"{name}: expected an address and a read-only flag, got data {data!r}", name)
    if not isinstance(typestr, str):
        raise DtypeError(f"{name}: expected a type string, got {typestr!r}", name)
    if not _are_integers(shape, 0, 2**63):
        raise ShapeError(f"{name}: expected a shape of integers from 0, got {shape!r}", name)
    if strides is not None and (not _are_integers(strides, -(2**63), 2**63) or len(strides) != len(shape)):
        raise StrideError(f"{name}: expected {len(shape)} integers as strides, got {strides!r}", name)
    if writable and data[1]:
        raise DtypeError(f"{name}: expected an array that can be written, got a read-only one", name)
    code = _TYPESTRS.get(typestr, OTHER)
    if strides is not None and code != OTHER:
        if any(stride % 2 for stride in strides):
            raise StrideError(f"{name}: expected strides of whole elements of 2 bytes, got {strides} bytes", name)
        strides = [stride // 2 for stride in strides]
    elif strides is not None:
        strides = [0] * len(strides)  # the dtype will be refused first
    dtype_name = _dtype_name(typestr) if code == OTHER else 0
    return _description(data[0], shape, strides, code, device, dtype_name)


def _are_integers(values, low: int, high: int) -> bool:
    """Whether values are a tuple or list of integers low ... high - 1."""
    return isinstance(values, (tuple, list)) and all(
        hasattr(value, "__index__") and low <= value < high for value in values
    )


def _describe_dlpack(array, name: str, stream: int, keep: list, writable: bool) -> tuple:
    from . import dlpack

    try:
        view = dlpack.View(array, stream)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise DtypeError(f"{name}: expected {_EXPECTED}, got a DLPack export that failed: {error}", name) from error
    if writable and view.read_only:
        raise DtypeError(f"{name}: expected an array that can be written, got a read-only one", name)
    keep.append(view)
    code = _DLPACK_DTYPES.get(view.dtype, OTHER)
    device = _dlpack_ordinal(view.device_type, view.device_id)
    if device is None:
        raise DeviceError(f"{name}: expected a CUDA array, got one on DLPack device type {view.device_type}", name)
    dtype_name = _dtype_name(view.dtype) if code == OTHER else 0
    return _description(view.data, view.shape, view.strides, code, device, dtype_name)


def _description(data: int, shape, strides, dtype: int, device: int, dtype_name: int) -> tuple:
    """The tuple for any rank; strides None are those of a contiguous array. Of a fifth axis only the rank tells."""
    rank = len(shape)
    if strides is None:
        strides, step = [0] * rank, 1
        for axis in reversed(range(rank)):
            strides[axis] = step
            step *= max(shape[axis], 1)
    shape4 = (*shape, 0, 0, 0, 0)[:4]
    strides4 = (*strides, 0, 0, 0, 0)[:4]
    return (data, *shape4, *strides4, rank, dtype, device, 0, dtype_name)


def _device_of(array, device: int) -> int:
    """Ordinal of an array with `__cuda_array_interface__`, which has no field for it; DLPack's has."""
    told = _dlpack_ordinal(*array.__dlpack_device__()) if hasattr(array, "__dlpack_device__") else None
    return device if told is None else told


def _dlpack_ordinal(device_type: int, device_id: int) -> int | None:
    from . import dlpack

    if device_type in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        return int(device_id)
    if device_type in (dlpack.CPU, dlpack.CUDA_HOST):
        return HOST_MEMORY
    return None


def _dtype_name(name: str) -> int:
    """Address of a dtype's name as a C string."""
    ffi, _ = load()
    if name not in _dtype_names:
        _dtype_names[name] = ffi.new("char[]", name.encode("ascii", "replace"))
    return int(ffi.cast("uintptr_t", _dtype_names[name]))
