"""Forward and backward over a dense batch."""

from __future__ import annotations

from .arrays import describe, is_tensor
from .errors import DeviceError, DtypeError
from .library import check
from .streams import new_like, record_use, stream_handle
from .workspace import allocate

INPUTS = ("q", "k", "v", "qg", "kg")
GRADIENTS = ("dq", "dk", "dv", "dqg", "dkg")


class Saved:
    """What `backward` needs of a `forward`: inputs, output, and two float32 of softmax statistics a row.

    Holds the caller's arrays themselves, not copies: they must not change before backward. Good for any number of
    backward calls of the engine that made it. Its own memory is freed with it.
    """

    __slots__ = ("engine", "inputs", "output", "stats", "stream")

    def __init__(self, engine: int, inputs: tuple, output, stats, stream: int | None):
        self.engine = engine  # its handle
        self.inputs = inputs
        self.output = output
        self.stats = stats  # a workspace
        self.stream = stream  # the one that stats was allocated for; None if that is taken care of


def forward(native, inputs: tuple, out, stream) -> Saved:
    """Queues a forward; the output is in the result. native: the engine; the rest as in Engine.forward."""
    lib = native.lib
    keep = []
    handle = stream_handle(stream, inputs, native.device)
    fields = []
    for array, name in zip(inputs, INPUTS):
        fields += describe(array, name, native.device, handle, keep)
    stats_bytes, _ = _workspace_bytes(native, fields)
    if out is None:
        out = new_like(inputs[0], stream, handle)
    fields += describe(out, "out", native.device, handle, keep, writable=True)
    stats = allocate(native.handle, stats_bytes, inputs[0], stream, handle)
    try:
        arguments = native.arguments
        arguments.set_arrays(fields)
        check(lib.stratum_forward(native.handle, *arguments.arrays[:6], stats.data_ptr(), handle))
    except BaseException:
        del stats  # now, not when the traceback goes
        raise
    return Saved(native.handle, inputs, out, stats, handle)


def backward(native, saved: Saved, do, out, stream) -> tuple:
    """Queues a backward and returns the five gradients. native: the engine; the rest as in Engine.backward."""
    _check_saved(native, saved)
    lib = native.lib
    keep = []
    handle = stream_handle(stream, (do, *saved.inputs), native.device)
    fields = []
    for array, name in (*zip(saved.inputs, INPUTS), (saved.output, "o"), (do, "do")):
        fields += describe(array, name, native.device, handle, keep)
    if out is None:
        out = tuple(new_like(array, stream, handle) for array in saved.inputs)
    else:
        out = _five_outputs(out)
    for array, name in zip(out, GRADIENTS):
        fields += describe(array, name, native.device, handle, keep, writable=True)
    _, delta_bytes = _workspace_bytes(native, fields)
    delta = allocate(native.handle, delta_bytes, saved.inputs[0], stream, handle)
    try:
        arguments = native.arguments
        arguments.set_arrays(fields)
        arrays, pointers = arguments.arrays, (saved.stats.data_ptr(), delta.data_ptr())
        check(lib.stratum_backward(native.handle, *arrays[:7], *pointers, *arrays[7:12], handle))
    finally:
        del delta  # now, not when a traceback goes; its memory is reused in the order of the stream
    _keep_stats(saved, handle)
    return out


def _check_saved(native, saved) -> None:
    if not isinstance(saved, Saved):
        raise DtypeError(f"saved: expected the second value that forward returned, got {type(saved).__name__}", "saved")
    if saved.engine != native.handle:
        raise DeviceError("saved: expected one from a forward of this engine, got another engine's", "saved")


def _five_outputs(out) -> tuple:
    if isinstance(out, (tuple, list)) and len(out) == len(GRADIENTS):
        return tuple(out)
    got = f"{len(out)} of them" if isinstance(out, (tuple, list)) else type(out).__name__
    raise DtypeError(f"out: expected a tuple of the 5 arrays {', '.join(GRADIENTS)}, got {got}", "out")


def _workspace_bytes(native, fields: list) -> tuple[int, int]:
    """Bytes of stats and of delta for the batch and length of q, whose fields come first; of nothing if q isn't
    [B,S,Hq,D], which the call itself will refuse."""
    ffi, lib = native.ffi, native.lib
    _, batch, seq_len, *_, rank = fields[:10]
    if rank != 4:
        return 0, 0
    stats, delta = ffi.new("int64_t*"), ffi.new("int64_t*")
    check(lib.stratum_training_bytes(native.handle, batch, seq_len, stats, delta))
    return stats[0], delta[0]


def _keep_stats(saved: Saved, handle: int) -> None:
    """Has the statistics outlive a backward that was queued on another stream than theirs."""
    if saved.stream is None or saved.stream == handle:
        return
    if is_tensor(saved.stats):
        record_use(saved.stats, handle)
    else:
        saved.stats.record_use(handle)
