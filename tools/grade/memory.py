"""Memory that an engine's process holds, as measured from outside it.

On a GPU: what the device has given out beyond the moment before the engine was built, which counts whatever any part of
the process allocates. The harness allocates nothing meanwhile. On the host, for engines whose device memory is host
memory: the process's anonymous memory. A reader thread takes the peak while calls run.
"""

from __future__ import annotations

import threading
from types import TracebackType

INTERVAL = 0.0005  # seconds between readings
# Context, code and what a runtime keeps beside data, beyond what the device or the heap held before build_engine.
ALLOWANCE = 8 << 20


def host_bytes(pid: int) -> int:
    """Anonymous memory of a process that is resident now; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon:")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def device_bytes() -> int:
    """Memory of the current GPU that is given out, to all processes."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return total - free


class Meter:
    """Bytes held beyond `mark`, and the most since `start`. A context manager around calls."""

    def __init__(self, kind: str, pid: int) -> None:
        self._read = device_bytes if kind == "cuda" else lambda: host_bytes(pid)
        self._base = self._read()
        self._held = self.peak = 0

    def mark(self) -> None:
        """What is held from now on counts."""
        self._base = self._read()

    def resume(self) -> None:
        """Leaves out what others have allocated since the last measurement, taking the process to hold what it held."""
        self._base = self._read() - self._held

    def __enter__(self) -> Meter:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._take()
        self._held = self._read() - self._base

    def _take(self) -> None:
        self.peak = max(self.peak, self._read() - self._base)

    def _sample(self) -> None:
        self._take()
        while not self._stop.wait(INTERVAL):
            self._take()
