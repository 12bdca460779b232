"""What the engine's process asks of the system: programs to start, connections, files to open or change.

The process has a seccomp filter (installed by the worker, once torch and the device are set up) by which the kernel
holds each such system call until this side has seen it, native code's like Python's. Programs, connections and changes
outside the scratch folder are refused with EACCES and noted; a compiler library that is opened is noted. Needs Linux
5.7 and x86-64.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import socket
import struct
import threading
from pathlib import Path

from .worker import WATCHED

RECEIVE, SEND = 0xC0502100, 0xC0182101  # ioctls of the listener
NOTIFICATION, RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
CONTINUE = 1
NAMES = {number: name for name, number in WATCHED.items()}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
AT_CWD = -100
COMPILERS = re.compile(
    r"nvrtc|nvptxcompiler|ptxjitcompiler|nvjitlink|nvvm|libllvm|libclang|libtriton|libtvm", re.IGNORECASE
)
DEVICES = re.compile(r"/dev/(nvidia.*|null|zero|urandom|random|tty)|/proc/(self|\d+)/.*")

# Position of the path, and of the directory that it is relative to, among a call's arguments. Two for calls with two.
PATHS = {
    "open": [(0, None)], "openat": [(1, 0)], "openat2": [(1, 0)], "creat": [(0, None)], "truncate": [(0, None)],
    "mkdir": [(0, None)], "mkdirat": [(1, 0)], "rmdir": [(0, None)], "unlink": [(0, None)], "unlinkat": [(1, 0)],
    "rename": [(0, None), (1, None)], "renameat": [(1, 0), (3, 2)], "renameat2": [(1, 0), (3, 2)],
    "link": [(1, None)], "linkat": [(3, 2)], "symlink": [(1, None)], "symlinkat": [(2, 1)],
    "mknod": [(0, None)], "mknodat": [(1, 0)], "execve": [(0, None)], "execveat": [(1, 0)],
}  # fmt: skip


class Watch:
    """Answers the kernel's questions about one process in a thread; `findings` holds what it must not do."""

    def __init__(self, listener: int, scratch: Path, known: set[str]) -> None:
        """listener: the filter's. scratch: where the process may write. known: files that it had mapped before."""
        self.findings: list[str] = []
        self._listener, self._scratch, self._known = listener, os.path.realpath(scratch), known
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            (_, event), *_ = poll.poll()
            if not event & select.POLLIN:
                break  # no process has the filter any more
            buffer = bytearray(NOTIFICATION.size)
            try:
                fcntl.ioctl(self._listener, RECEIVE, buffer)
                identity, pid, _, number, _, _, *arguments = NOTIFICATION.unpack(buffer)
                refused = self._judge(pid, NAMES[number], arguments)
                answer = RESPONSE.pack(identity, 0, -errno.EACCES if refused else 0, 0 if refused else CONTINUE)
                fcntl.ioctl(self._listener, SEND, bytearray(answer))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EINTR):  # the thread that asked has gone
                    raise
        os.close(self._listener)

    def end(self) -> None:
        """Waits until the process, which has ended, can ask no more."""
        self._thread.join()

    def _judge(self, pid: int, name: str, arguments: list[int]) -> bool:
        """Notes what is wrong with a call; returns whether it shall be refused."""
        if name == "socket":
            domain = arguments[0] & 0xFFFFFFFF
            if domain != socket.AF_UNIX:
                self._note(f"asked for a network socket, of address family {domain}")
            return domain != socket.AF_UNIX
        paths = [_path(pid, arguments, *places) for places in PATHS.get(name, [])]
        if name in ("execve", "execveat"):
            self._note(f"started a program: {paths[0]}")
            return True
        if name in ("io_uring_setup", "ptrace"):
            self._note(f"called {name}")
            return True
        if name.startswith("open"):
            if COMPILERS.search(os.path.basename(paths[0])) and os.path.realpath(paths[0]) not in self._known:
                self._note(f"opened a compiler's library: {paths[0]}")
            if not _opens_for_writing(pid, name, arguments):
                return False
        outside = [path for path in paths if not self._allowed(path)]
        if outside:
            self._note(f"changed a file outside its scratch folder: {name} {outside[0]}")
        return bool(outside)

    def _allowed(self, path: str) -> bool:
        path = os.path.realpath(path)
        return path.startswith(self._scratch + os.sep) or path == self._scratch or bool(DEVICES.fullmatch(path))

    def _note(self, finding: str) -> None:
        if finding not in self.findings:
            self.findings.append(finding)


def _opens_for_writing(pid: int, name: str, arguments: list[int]) -> bool:
    flags = {"open": arguments[1], "openat": arguments[2], "creat": WRITING}.get(name)
    if flags is None:  # openat2 has them in memory
        flags = struct.unpack("=Q", _read(pid, arguments[2], 8))[0]
    return bool(flags & WRITING)


def _read(pid: int, address: int, count: int) -> bytes:
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(count)


def _path(pid: int, arguments: list[int], position: int, directory: int | None) -> str:
    """The absolute path that a call names."""
    text, address = b"", arguments[position]
    while b"\0" not in text and len(text) < 4096:
        piece = _read(pid, address + len(text), 4096 - (address + len(text)) % 4096)
        if not piece:
            break
        text += piece
    path = os.fsdecode(text.partition(b"\0")[0])
    base = (
        struct.unpack("=i", struct.pack("=I", arguments[directory] & 0xFFFFFFFF))[0]
        if directory is not None
        else AT_CWD
    )
    root = f"/proc/{pid}/cwd" if base == AT_CWD else f"/proc/{pid}/fd/{base}"
    if os.path.isabs(path):
        return os.path.normpath(path)
    return os.path.normpath(os.path.join(os.path.realpath(root), path))


def mapped_files(pid: int) -> set[str]:
    """Files that a process has mapped now."""
    with open(f"/proc/{pid}/maps") as maps:
        return {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}


def mapped_compilers(pid: int, known: set[str]) -> list[str]:
    """Compilers' libraries among them that aren't known."""
    return sorted(f for f in mapped_files(pid) - known if COMPILERS.search(os.path.basename(f)))
