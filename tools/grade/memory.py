"""Memory that an engine's process holds, as measured from outside it.

On a GPU: what the device has given out, less what the harness itself has reserved, beyond the moment before the engine
was built; that counts whatever any part of the process allocates. On the host, for engines whose device memory is host
memory: the process's anonymous and shared memory, less the caller's arrays. A reader thread takes the peak while calls
run.
"""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType

INTERVAL = 0.0005  # seconds between readings
# Context, code and what a runtime keeps beside data, beyond what the device or the heap held before build_engine.
ALLOWANCE = 8 << 20


def host_bytes(pid: int, shared: int) -> int:
    """Memory of a process that no file backs and that is resident now, beyond `shared` bytes that others gave it."""
    found = {"RssAnon": 0, "RssShmem": 0}
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/status") as status:
        for line in status:
            name, _, rest = line.partition(":")
            if name in found:
                found[name] = int(rest.split()[0]) << 10
    return found["RssAnon"] + max(0, found["RssShmem"] - shared)


def device_bytes() -> int:
    """Memory of the current GPU that is given out, to all processes but this one."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return total - free - cupy.get_default_memory_pool().total_bytes()


class Meter:
    """Bytes held beyond `mark`, and the most since `start`. A context manager around calls."""

    def __init__(self, kind: str, pid: int, shared: int) -> None:
        """kind: "cuda" or "host". shared: bytes of the caller's arrays, which the process has mapped."""
        self._read = device_bytes if kind == "cuda" else lambda: host_bytes(pid, shared)
        self._base = self._read()
        self._held = self.peak = 0

    def mark(self) -> None:
        """What is held from now on counts."""
        self._base = self._read()

    def read(self) -> None:
        """Takes one reading, for work that nobody measured while it ran."""
        self.peak = 0
        self._take()

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
