"""CUDA graphs by the driver's own calls, as a caller makes them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

GLOBAL_MODE = 0  # CUstreamCaptureMode


class Graph:
    """The work that a stream's capture took."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL(os.environ["STRATUM_DRIVER"])
        self._graph, self._exec = ctypes.c_void_p(), ctypes.c_void_p()

    def _call(self, function: str, *arguments) -> None:
        assert getattr(self._driver, function)(*arguments) == 0, function

    def begin(self, stream: int) -> None:
        self._call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), GLOBAL_MODE)

    def end(self, stream: int) -> None:
        self._call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(self._graph))
        self._call("cuGraphInstantiateWithFlags", ctypes.byref(self._exec), self._graph, ctypes.c_ulonglong(0))

    def launch(self, stream: int) -> None:
        """Queues the work once more."""
        self._call("cuGraphLaunch", self._exec, ctypes.c_void_p(stream))

    def destroy(self) -> None:
        self._call("cuGraphExecDestroy", self._exec)
        self._call("cuGraphDestroy", self._graph)


@contextmanager
def captured(stream: int) -> Iterator[Graph]:
    """Captures what the block queues on a stream; a current context is needed. The graph is the caller's to destroy."""
    graph = Graph()
    graph.begin(stream)
    yield graph
    graph.end(stream)
