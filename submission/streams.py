"""Which CUDA stream a call's work is queued on, and torch memory that belongs to that stream."""

from __future__ import annotations

import operator
import sys

from .arrays import is_tensor
from .errors import DtypeError, brief

_LARGEST_HANDLE = 2**64 - 1


def stream_handle(stream, arrays, device: int) -> int:
    """The CUstream of a call, as an integer.

    stream: what the caller passed: None, an int, or an object with `cuda_stream` (torch) or `__cuda_stream__`. arrays:
    the call's inputs; without `stream`, a CUDA tensor of torch's among them means torch's current stream of `device`,
    the engine's; else it is 0, the default stream. Errors: DtypeError.
    """
    if stream is None:
        for array in arrays:
            if is_tensor(array) and array.is_cuda:
                return _current_stream(device)
        return 0
    handle = getattr(stream, "cuda_stream", None)
    if handle is None and hasattr(stream, "__cuda_stream__"):
        _, handle = stream.__cuda_stream__()
    try:
        handle = operator.index(stream if handle is None else handle)
    except TypeError:
        handle = -1
    if not 0 <= handle <= _LARGEST_HANDLE:
        raise DtypeError(f"stream: expected a CUDA stream or its handle as an int, got {brief(stream)}", "stream")
    return handle


def new_like(array, stream, handle: int, name: str = "out"):
    """A new contiguous torch tensor with the shape, dtype and device of `array`.

    stream, handle: what the caller passed, and what stream_handle made of it; the memory is that stream's. Errors:
    DtypeError naming `name` if `array` isn't torch's, and so has no allocator.
    """
    if not is_tensor(array):
        raise DtypeError(f"{name}: expected an array, since only torch's outputs are allocated here, got None", name)
    torch = sys.modules["torch"]
    if stream is None or not array.is_cuda:
        return torch.empty_like(array, memory_format=torch.contiguous_format)
    with torch.cuda.stream(_stream_object(handle, array.device)):
        return torch.empty_like(array, memory_format=torch.contiguous_format)


def new_floats(array, count: int, stream, handle: int):
    """A new torch tensor of `count` float32 on the device of `array`, a torch tensor; the rest as in new_like."""
    torch = sys.modules["torch"]
    if stream is None or not array.is_cuda:
        return array.new_empty((count,), dtype=torch.float32)
    with torch.cuda.stream(_stream_object(handle, array.device)):
        return array.new_empty((count,), dtype=torch.float32)


def record_use(tensor, handle: int) -> None:
    """Has a torch tensor's memory outlive what is queued on a stream other than the one it was allocated for."""
    if tensor.is_cuda:
        tensor.record_stream(_stream_object(handle, tensor.device))


def _current_stream(device: int) -> int:
    torch = sys.modules["torch"]
    try:
        return torch._C._cuda_getCurrentRawStream(device)
    except AttributeError:
        return torch.cuda.current_stream(device).cuda_stream


def _stream_object(handle: int, device):
    cuda = sys.modules["torch"].cuda
    return cuda.ExternalStream(handle, device) if handle else cuda.default_stream(device)
