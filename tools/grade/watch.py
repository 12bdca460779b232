"""What the engine's process asks of the system: processes to start, connections, files to open or change.

The process has a seccomp filter (installed by the worker, once torch and the device are set up) by which the kernel
holds each such system call until this side has seen it, native code's like Python's. Processes, programs, connections,
ways into other processes and changes outside the scratch folder are refused with EACCES and noted; a compiler's library
that is opened is noted. What lies in the process's memory, a path, could be changed between our look and the kernel's:
Landlock stands behind (worker.confine), which refuses without a word. Needs Linux 6.12 and x86-64.
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
AT_CWD = -100 & 0xFFFFFFFF
PAGE = PATH_MAX = 4096
COMPILERS = re.compile(
    r"nvrtc|nvptxcompiler|ptxjitcompiler|nvjitlink|nvvm|libllvm|libclang|libtriton|libtvm", re.IGNORECASE
)
DEVICES = re.compile(r"/dev/(nvidia.*|null|zero|urandom|random|tty)")
COMPILING = b"nvrtcCompileProgram", b"nvPTXCompilerCompile", b"nvvmCompileProgram", b"LLVMContextCreate", b"tcc_compile"
CLONE_THREAD = 0x10000

# Calls that no engine needs, with what is said of them.
FORBIDDEN = {
    "fork": "started a process",
    "vfork": "started a process",
    "io_uring_setup": "asked for an io_uring",
    "open_by_handle_at": "opened a file by its handle",
    "ptrace": "reached for another process, by ptrace",
    "process_vm_readv": "reached for another process, by process_vm_readv",
    "process_vm_writev": "reached for another process, by process_vm_writev",
    "pidfd_getfd": "reached for another process, by pidfd_getfd",
    "shmget": "asked for memory that outlives it, by shmget",
    "msgget": "asked for a queue that outlives it, by msgget",
    "semget": "asked for a semaphore that outlives it, by semget",
    "mq_open": "asked for a queue that outlives it, by mq_open",
    "add_key": "asked for a key that outlives it, by add_key",
    "keyctl": "asked for a key that outlives it, by keyctl",
    "mount": "asked for other file systems, by mount",
    "chroot": "asked for other file systems, by chroot",
    "pivot_root": "asked for other file systems, by pivot_root",
    "unshare": "asked for other namespaces, by unshare",
    "setns": "asked for other namespaces, by setns",
}

# Position of the path, and of the directory that it is relative to, among a call's arguments. Two for calls with two.
PATHS = {
    "open": [(0, None)], "openat": [(1, 0)], "creat": [(0, None)], "truncate": [(0, None)],
    "mkdir": [(0, None)], "mkdirat": [(1, 0)], "rmdir": [(0, None)], "unlink": [(0, None)], "unlinkat": [(1, 0)],
    "rename": [(0, None), (1, None)], "renameat": [(1, 0), (3, 2)], "renameat2": [(1, 0), (3, 2)],
    "link": [(1, None)], "linkat": [(3, 2)], "symlink": [(1, None)], "symlinkat": [(2, 1)],
    "mknod": [(0, None)], "mknodat": [(1, 0)], "chmod": [(0, None)], "fchmodat": [(1, 0)], "fchmodat2": [(1, 0)],
    "chown": [(0, None)], "lchown": [(0, None)], "fchownat": [(1, 0)], "utime": [(0, None)], "utimes": [(0, None)],
    "utimensat": [(1, 0)], "setxattr": [(0, None)], "lsetxattr": [(0, None)],
    "execve": [(0, None)], "execveat": [(1, 0)],
}  # fmt: skip


class Watch:
    """Answers the kernel's questions about one process in a thread; `findings` holds what it must not do."""

    def __init__(self, listener: int, pid: int, scratch: Path, known: set[str]) -> None:
        """listener: the filter's. scratch: where the process may write. known: files that it had mapped before."""
        self.findings: list[str] = []
        self._listener, self._pid, self._scratch, self._known = listener, pid, os.path.realpath(scratch), known
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        poll = select.poll()
        for descriptor in (self._listener, self._woken):
            poll.register(descriptor, select.POLLIN)
        while (self._listener, select.POLLIN) in poll.poll():
            buffer = bytearray(NOTIFICATION.size)
            try:
                fcntl.ioctl(self._listener, RECEIVE, buffer)
                identity, _, _, number, _, _, *arguments = NOTIFICATION.unpack(buffer)
                error = self._error(NAMES[number], arguments)
                answer = RESPONSE.pack(identity, 0, -error, 0 if error else CONTINUE)
                fcntl.ioctl(self._listener, SEND, bytearray(answer))
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.EINTR):  # the thread that asked has gone
                    raise

    def end(self) -> None:
        """Answers no more. What the process still asks fails there."""
        os.write(self._wake, b".")
        self._thread.join()
        for descriptor in (self._listener, self._woken, self._wake):
            os.close(descriptor)

    def _error(self, name: str, arguments: list[int]) -> int:
        """The error that a call shall fail with, 0 if it may go on."""
        if name in (
            "clone3",
            "openat2",
        ):  # their flags lie in memory that may change; programs fall back to clone, openat
            return errno.ENOSYS
        try:
            return errno.EACCES if self._judge(name, arguments) else 0
        except (OSError, OverflowError, ValueError, struct.error):  # a pointer to nowhere, as the kernel would say
            return errno.EFAULT

    def _judge(self, name: str, arguments: list[int]) -> bool:
        """Notes what is wrong with a call; returns whether it shall be refused."""
        if name in FORBIDDEN:
            return self._note(FORBIDDEN[name])
        if name == "clone":
            return not arguments[0] & CLONE_THREAD and self._note("started a process")
        if name == "socket":
            domain = arguments[0] & 0xFFFFFFFF
            return domain != socket.AF_UNIX and self._note(f"asked for a network socket, of address family {domain}")
        paths = [self._path(arguments, *places) for places in PATHS[name]]
        if name in ("execve", "execveat"):
            return self._note(f"started a program: {paths[0]}")
        if name in ("open", "openat"):
            if COMPILERS.search(os.path.basename(paths[0])) and paths[0] not in self._known:
                self._note(f"opened a compiler's library: {paths[0]}")
            if not arguments[1 if name == "open" else 2] & WRITING:
                return False
        outside = [path for path in paths if not self._may_change(path)]
        return bool(outside) and self._note(f"changed a file outside its scratch folder: {name} {outside[0]}")

    def _may_change(self, path: str) -> bool:
        inside = path == self._scratch or path.startswith(self._scratch + os.sep)
        return inside or bool(DEVICES.fullmatch(path) or re.fullmatch(rf"/proc/{self._pid}/(task/\d+/)?comm", path))

    def _read(self, address: int, count: int) -> bytes:
        with open(f"/proc/{self._pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(count)

    def _path(self, arguments: list[int], position: int, directory: int | None) -> str:
        """The path that a call names, absolute and without links; "" stands for the directory argument itself."""
        text, address = b"", arguments[position]
        while address and b"\0" not in text and len(text) < PATH_MAX:
            piece = self._read(address + len(text), PAGE - (address + len(text)) % PAGE)
            if not piece:
                raise ValueError("the process has gone")
            text += piece
        base = AT_CWD if directory is None else arguments[directory] & 0xFFFFFFFF
        root = f"/proc/{self._pid}/cwd" if base == AT_CWD else f"/proc/{self._pid}/fd/{base}"
        path = os.path.join(root, os.fsdecode(text.partition(b"\0")[0]))
        return os.path.realpath(re.sub(r"^/proc/(self|thread-self)(?=/|$)", f"/proc/{self._pid}", path))

    def _note(self, finding: str) -> bool:
        if finding not in self.findings:
            self.findings.append(finding)
        return True


def mapped_files(pid: int) -> set[str]:
    """Files that a process has mapped now."""
    with open(f"/proc/{pid}/maps") as maps:
        return {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}


def mapped_compilers(pid: int, known: set[str]) -> list[str]:
    """Compilers among the files mapped that aren't known, by name or by what they export."""
    return sorted(f for f in mapped_files(pid) - known if COMPILERS.search(os.path.basename(f)) or _compiles(f))


def _compiles(path: str) -> bool:
    try:
        content = Path(path).read_bytes()
    except OSError:
        return False
    return content.startswith(b"\x7fELF") and any(name in content for name in COMPILING)
