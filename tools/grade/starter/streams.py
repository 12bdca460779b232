"""The CUDA streams of a call; without CUDA there are none."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext

import torch

from .errors import DeviceError, DtypeError


class Streams:
    """Orders the serving calls of one engine.

    They all run on one stream, the one that was current when the engine was built, whatever streams they name: it waits
    for the caller's before the work, and the caller's for it after. So they happen in the order they are made, and a
    chunk's memory never goes from one stream to another.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._cuda = device.type == "cuda"
        self._home = torch.cuda.current_stream(device) if self._cuda else None

    def caller(self, stream):
        """A context in which a call's stream is current. stream: None for torch's current one, a handle as an int, or
        an object with `cuda_stream`. Errors: DtypeError."""
        if not self._cuda:
            return nullcontext()
        if stream is None:
            return torch.cuda.stream(torch.cuda.current_stream(self._device))
        handle = getattr(stream, "cuda_stream", stream)
        if type(handle) is not int:
            raise DtypeError(f"stream: expected a CUDA stream or its handle as an int, got {stream!r:.100}", "stream")
        known = torch.cuda.ExternalStream(handle, self._device) if handle else torch.cuda.default_stream(self._device)
        return torch.cuda.stream(known)

    @contextmanager
    def home(self):
        """A context in which the engine's own stream is current, ordered after and before the call's, which is current.
        Errors: DeviceError if that one is being captured into a graph."""
        if not self._cuda:
            yield
            return
        if torch.cuda.is_current_stream_capturing():
            raise DeviceError("stream: is being captured into a graph; prefill and decode can't be", "stream")
        caller = torch.cuda.current_stream(self._device)
        if caller == self._home:
            yield
            return
        self._home.wait_stream(caller)
        try:
            with torch.cuda.stream(self._home):
                yield
        finally:
            caller.wait_stream(self._home)
