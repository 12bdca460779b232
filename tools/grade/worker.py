"""The engine's process: makes the calls it is told to, and says what came of each. Runs alone, from this text.

Nothing here knows what is right, and nothing names who asks: an engine that looks around finds an ordinary program. It
talks JSON lines over the socket whose number is its argument:

    prepare     imports what a caller would have: torch on a GPU, numpy where device memory is host memory
    map         sets the device up as torch does for anyone, maps the caller's arrays
    watch       has the kernel ask before whatever the process asks of the system from here on
    listener    hands over the descriptor that is asked
    load        a list of calls to keep: [kind, ...] with arrays as [offset, shape, strides] in elements
    import      imports the engine's folder as a package
    build       calls its build_engine
    start       begins to count memory anew
    count       answers with the most memory that was held since
    run         makes the loaded calls first ... last - 1; answers with one result for each
    quit        closes the engine and ends the process
"""

import atexit
import ctypes
import importlib.util
import json
import mmap
import os
import socket
import struct
import sys

# System calls by which a process reaches outside itself (x86-64), for the filter of `watch`.
WATCHED = {
    "open": 2, "openat": 257, "openat2": 437, "open_by_handle_at": 304, "creat": 85, "truncate": 76, "mkdir": 83,
    "mkdirat": 258, "rmdir": 84, "unlink": 87, "unlinkat": 263, "rename": 82, "renameat": 264, "renameat2": 316,
    "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266, "mknod": 133, "mknodat": 259, "chmod": 90,
    "fchmodat": 268, "fchmodat2": 452, "chown": 92, "lchown": 94, "fchownat": 260, "utime": 132, "utimes": 235,
    "utimensat": 280, "setxattr": 188, "lsetxattr": 189, "mount": 165, "chroot": 161, "pivot_root": 155, "unshare": 272,
    "setns": 308, "execve": 59, "execveat": 322, "fork": 57, "vfork": 58, "clone": 56, "clone3": 435, "socket": 41,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438, "io_uring_setup": 425,
    "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240, "add_key": 248, "keyctl": 250,
}  # fmt: skip
X86_64, X32_BIT = 0xC000003E, 0x40000000
SECCOMP, SET_FILTER, FILTER_FLAGS = 317, 1, 1 | 8 | 16  # all threads, a new listener, errors as such
NOTIFY, ALLOW, KILL = 0x7FC00000, 0x7FFF0000, 0x80000000


LANDLOCK_RULESET, LANDLOCK_RULE, LANDLOCK_RESTRICT = 444, 445, 446
CHANGES = 0x7FF2 & ~0xC  # of files: write, remove, make, link, truncate; reading isn't restricted
WRITE_FILE, SIGNALS_AND_SOCKETS = 2, 3


def confine(scratch: str) -> None:
    """Has the kernel refuse changes outside `scratch`, and ways to processes and abstract sockets outside this one."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    rules = libc.syscall(LANDLOCK_RULESET, struct.pack("QQQ", CHANGES, 0, SIGNALS_AND_SOCKETS), 24, 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "landlock of Linux 6.12 or newer: a set of rules was refused")
    for path, allowed in ((scratch, CHANGES), ("/dev", WRITE_FILE), (f"/proc/{os.getpid()}", WRITE_FILE)):
        folder = os.open(path, os.O_PATH)
        if libc.syscall(LANDLOCK_RULE, rules, 1, struct.pack("=Qi", allowed, folder), 0):
            raise OSError(ctypes.get_errno(), f"landlock: the rule for {path} was refused")
        os.close(folder)
    if libc.syscall(LANDLOCK_RESTRICT, rules, 0):
        raise OSError(ctypes.get_errno(), "landlock: the restriction was refused")
    os.close(rules)


def install_filter() -> int:
    """Has the kernel ask a listener before each watched system call of this process; returns the listener."""
    numbers = sorted(WATCHED.values())
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, X86_64), (0x06, 0, 0, KILL)]
    program += [(0x20, 0, 0, 0), (0x35, 0, 1, X32_BIT), (0x06, 0, 0, KILL)]
    for i, number in enumerate(numbers):
        program.append((0x15, len(numbers) - i, 0, number))
    program += [(0x06, 0, 0, ALLOW), (0x06, 0, 0, NOTIFY)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    listener = libc.syscall(SECCOMP, SET_FILTER, FILTER_FLAGS, ctypes.c_char_p(header))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp: a filter with a listener was refused")
    return listener


class HostMemory:
    """The caller's arrays in host memory: numpy, raw bits."""

    needs_output = True

    def __init__(self, share: dict) -> None:
        import numpy

        self._numpy = numpy
        descriptor = os.open(share["path"], os.O_RDWR)
        self._words = numpy.frombuffer(mmap.mmap(descriptor, share["bytes"]), numpy.uint16)
        os.close(descriptor)

    def array(self, place: list):
        offset, shape, strides = place
        as_strided = self._numpy.lib.stride_tricks.as_strided
        return as_strided(self._words[offset:], shape, [2 * each for each in strides])

    def wait(self) -> None:
        """Host memory is there when the call returns."""

    def start_count(self) -> None:
        """Counting is the other side's affair."""

    def count(self) -> dict:
        """Nothing that this side knows."""
        return {}


class CudaMemory:
    """The caller's arrays in device memory: torch tensors of the engine's dtype."""

    needs_output = False

    def __init__(self, share: dict, dtype: str, stream: str) -> None:
        import torch

        self._torch = torch
        self._dtype = getattr(torch, dtype)
        self._stream = torch.cuda.Stream() if stream == "side" else torch.cuda.current_stream()
        torch.cuda.set_stream(self._stream)
        self._touch_device()
        handle = (ctypes.c_char * 64).from_buffer_copy(bytes.fromhex(share["handle"]))
        pointer = ctypes.c_uint64()
        libcuda = ctypes.CDLL("libcuda.so.1")

        class Handle(ctypes.Structure):
            _fields_ = [("reserved", ctypes.c_char * 64)]

        status = libcuda.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), Handle.from_buffer_copy(handle), 1)
        if status:
            raise RuntimeError(f"cuIpcOpenMemHandle: error {status}")
        self._pointer = pointer.value
        self._base = torch.cuda.memory_allocated()

    def _touch_device(self) -> None:
        """Has torch set up what any program that uses it on this stream has: a context, a cuBLAS workspace."""
        for dtype in (self._torch.bfloat16, self._torch.float16, self._torch.float32):
            x = self._torch.ones((256, 256), device="cuda", dtype=dtype)
            self._torch.softmax((x @ x).float(), -1).to(dtype).sum().item()

    def array(self, place: list):
        offset, shape, strides = place

        class Words:
            __cuda_array_interface__ = {
                "shape": tuple(shape),
                "typestr": "<i2",
                "strides": tuple(2 * each for each in strides),
                "data": (self._pointer + 2 * offset, False),
                "version": 3,
            }

        if 0 in shape:
            return self._torch.empty(shape, dtype=self._dtype, device="cuda")
        return self._torch.as_tensor(Words(), device="cuda").view(self._dtype)

    def wait(self) -> None:
        self._torch.cuda.synchronize()

    def start_count(self) -> None:
        self._torch.cuda.reset_peak_memory_stats()

    def count(self) -> dict:
        """Bytes since start_count: the most that torch had given out, and the most it had reserved."""
        cuda = self._torch.cuda
        return {"torch": cuda.max_memory_allocated() - self._base, "reserved": cuda.max_memory_reserved()}


def describe(error: Exception) -> dict:
    return {"error": [each.__name__ for each in type(error).__mro__], "message": f"{error}"[:1000]}


class Caller:
    """An engine and the names that a script has for its sequences and saved forwards."""

    def __init__(self, memory) -> None:
        self.memory = memory
        self.package = self.engine = None
        self.ids, self.saved = {}, {}
        self.calls = []

    def import_folder(self, folder: str) -> None:
        name = os.path.basename(folder.rstrip("/"))
        spec = importlib.util.spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
        )
        self.package = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.package)

    def build(self, config: dict) -> None:
        self.engine = self.package.build_engine(config)
        self.memory.wait()

    def load(self, calls: list) -> None:
        """Makes the arrays of the calls."""
        self.calls = [[self._operand(each) for each in call] for call in calls]

    def _operand(self, value):
        if isinstance(value, dict):  # arrays by name
            return [self.memory.array(place) for place in value.values()]
        return value

    def run(self, first: int, last: int) -> list:
        results = []
        for kind, *operands in self.calls[first:last]:
            try:
                value = getattr(self, kind)(*operands)
                results.append({"value": value if isinstance(value, int) else None})
            except Exception as error:
                results.append(describe(error))
        self.memory.wait()
        return results

    def create(self, name: str) -> None:
        self.name(name, self.engine.create())

    def fork(self, parent: str, name: str) -> None:
        self.name(name, self.engine.fork(self.ids[parent]))

    def name(self, name: str, identity) -> None:
        if identity in self.ids.values():
            raise ValueError(f"id {identity!r} was given before; ids are never reused")
        self.ids[name] = identity

    def release(self, name: str) -> None:
        self.engine.release(self.ids[name])

    def truncate(self, name: str, length: int) -> None:
        self.engine.truncate(self.ids[name], length)

    def length(self, name: str) -> int:
        return int(self.engine.length(self.ids[name]))

    def append(self, mode: str, names: list, lengths: list, inputs: list, outputs: list, given: bool) -> None:
        ids = [self.ids[name] for name in names]
        method = getattr(self.engine, mode)
        if given or self.memory.needs_output:
            method(ids, *inputs, lengths, out=outputs[0])
        else:
            outputs[0].copy_(method(ids, *inputs, lengths))

    def forward(self, name: str, inputs: list, outputs: list, given: bool) -> None:
        if given or self.memory.needs_output:
            self.saved[name] = self.engine.forward(*inputs, out=outputs[0])[1]
        else:
            o, self.saved[name] = self.engine.forward(*inputs)
            outputs[0].copy_(o)

    def backward(self, name: str, inputs: list, outputs: list, given: bool) -> None:
        saved = self.saved.pop(name)
        if given or self.memory.needs_output:
            self.engine.backward(saved, inputs[0], out=tuple(outputs))
        else:
            for target, gradient in zip(outputs, self.engine.backward(saved, inputs[0])):
                target.copy_(gradient)

    def attention(self, inputs: list, outputs: list, given: bool) -> None:
        *leaves, do = (each.detach().requires_grad_() for each in inputs)
        o = self.engine.attention(*leaves)
        o.backward(do.detach())
        for target, result in zip(outputs, (o.detach(), *(leaf.grad for leaf in leaves))):
            target.copy_(result)


def main() -> None:
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # dies with the process that started it
    channel = socket.socket(fileno=int(sys.argv[1]))
    lines = channel.makefile("rw", encoding="utf-8")
    # Registered before the engine can register anything, so run last: the process came to its end by itself.
    atexit.register(lambda: (lines.write('{"end": true}\n'), lines.flush()))
    caller = listener = None
    for line in lines:
        order = json.loads(line)
        kind, reply = order.pop("do"), {}
        try:
            if kind == "prepare":
                importlib.import_module({"host": "numpy", "cuda": "torch"}[order["memory"]])
            elif kind == "watch":
                confine(os.getcwd())
                listener = install_filter()
            elif kind == "listener":
                socket.send_fds(channel, [b"."], [listener])
                os.close(listener)
                continue
            elif kind == "map":
                share = order["share"]
                host = share["memory"] == "host"
                caller = Caller(HostMemory(share) if host else CudaMemory(share, order["dtype"], order["stream"]))
                reply = caller.memory.count()
            elif kind == "load":
                caller.load(order["calls"])
            elif kind == "import":
                caller.import_folder(order["folder"])
            elif kind == "build":
                caller.build(order["config"])
            elif kind == "start":
                caller.memory.start_count()
            elif kind == "count":
                reply = caller.memory.count()
            elif kind == "run":
                reply = {"results": caller.run(order["first"], order["last"])}
            elif kind == "quit":
                caller.engine.close()
        except Exception as error:
            reply = describe(error)
        lines.write(json.dumps(reply) + "\n")
        lines.flush()
        if kind == "quit" and not reply:
            return


if __name__ == "__main__":
    main()
