"""Callers' arrays as torch tensors of the configured dtype: nothing is copied, everything is checked."""

from __future__ import annotations

import warnings

import numpy as np
import torch

from .config import Config
from .errors import DeviceError, DtypeError, ShapeError, StrideError

ALIGNMENT = 8  # elements: rows start at multiples of 16 bytes
ANY = -1  # an extent that the array itself decides

_RAW = getattr(torch, "uint16", None)  # raw bits of the configured dtype; torch before 2.3 lacks it


def as_tensor(array, name: str, shape: tuple[int, ...], config: Config, written: bool = False) -> torch.Tensor:
    """A tensor over the memory of a caller's array.

    array: a torch tensor, or a numpy array where the engine's device is the CPU; of the configured dtype, or unsigned
    16-bit integers that hold its raw bits. name: the argument, for messages. shape: expected; ANY takes any extent.
    written: an output, whose elements must not lie on one another.
    Errors: DtypeError, DeviceError, ShapeError, StrideError.
    """
    tensor = _wrap(array, name, config, written)
    if tensor.device != config.device:
        raise DeviceError(f"{name}: expected an array on {config.device}, got one on {tensor.device}", name)
    given = tuple(tensor.shape)
    if len(given) != len(shape) or any(want not in (ANY, got) for want, got in zip(shape, given)):
        text = ", ".join("any" if want == ANY else str(want) for want in shape)
        raise ShapeError(f"{name}: expected shape [{text}], got {list(given)}", name)
    if tensor.numel() > 0:
        _check_strides(tensor, name, written)
    return tensor


def new_like(array, name: str) -> torch.Tensor:
    """A new contiguous tensor like a caller's. Errors: DtypeError if the caller's isn't torch's."""
    if not isinstance(array, torch.Tensor):
        raise DtypeError(f"{name}: expected an array, since only torch's outputs are allocated here, got None", name)
    return torch.empty_like(array, requires_grad=False, memory_format=torch.contiguous_format)


def check_apart(outputs: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor]) -> None:
    """Errors: StrideError if an output starts where an input or another output does."""
    owners = {tensor.data_ptr(): name for name, tensor in inputs.items() if tensor.numel() > 0}
    for name, tensor in outputs.items():
        if tensor.numel() == 0:
            continue
        other = owners.setdefault(tensor.data_ptr(), name)
        if other != name:
            raise StrideError(f"{name}: expected memory of its own, got that of {other}", name)


def _wrap(array, name: str, config: Config, written: bool) -> torch.Tensor:
    dtype = str(config.dtype).removeprefix("torch.")
    if isinstance(array, torch.Tensor):
        tensor = array.detach()
    elif isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):
        if written and not array.flags.writeable:
            raise DtypeError(f"{name}: expected an array that can be written, got a read-only one", name)
        if array.dtype == np.uint16:
            return _from_numpy(array.view(np.int16), name).view(config.dtype)
        if array.dtype != np.float16:
            raise DtypeError(f"{name}: expected {dtype} (or uint16, its raw bits), got {array.dtype}", name)
        tensor = _from_numpy(array, name)
    else:
        raise DtypeError(f"{name}: expected a torch tensor or a numpy array, got {type(array).__name__}", name)
    if tensor.dtype == _RAW:
        tensor = tensor.view(config.dtype)
    if tensor.dtype != config.dtype:
        raise DtypeError(f"{name}: expected {dtype} (or uint16, its raw bits), got {tensor.dtype}", name)
    return tensor


def _from_numpy(array: np.ndarray, name: str) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an input is read-only: it is only read
        try:
            return torch.from_numpy(array)
        except ValueError as error:
            raise StrideError(
                f"{name}: expected strides of whole elements from 0, got others ({error})", name
            ) from None


def _check_strides(tensor: torch.Tensor, name: str, written: bool) -> None:
    *rows, last = tensor.stride()
    if tensor.data_ptr() % (2 * ALIGNMENT):
        raise StrideError(f"{name}: expected an address aligned to 16 bytes, got {tensor.data_ptr():#x}", name)
    if last != 1 and tensor.shape[-1] > 1:
        raise StrideError(f"{name}: expected a contiguous last axis (stride 1), got stride {last}", name)
    axes = [(stride, extent) for stride, extent in zip(rows, tensor.shape) if extent > 1]
    for stride, _ in axes:
        if stride % ALIGNMENT:
            raise StrideError(f"{name}: expected rows aligned to 16 bytes, got a stride of {stride} elements", name)
    span = tensor.shape[-1]
    for stride, extent in sorted(axes) if written else ():
        if stride < span:
            raise StrideError(f"{name}: expected elements that do not lie on one another, got stride {stride}", name)
        span += stride * (extent - 1)
