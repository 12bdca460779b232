"""The engine's process, seen from the harness: a fresh one, offline, in an empty home, watched and measured."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from .memory import ALLOWANCE, Meter
from .watch import Watch, mapped_compilers, mapped_files

WORKER = (Path(__file__).parent / "worker.py").read_text()
# What a caller's program would have too; OpenBLAS's, since on some machines it is wrong or crashes without them.
KEPT_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "LANG", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
PATIENCE = 300  # seconds until an order counts as hung
LONGEST_LINE = 64 << 20  # bytes of an answer


def printable(text: str) -> str:
    """A text of the engine's with whatever could move a cursor or end a line spelt out."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class EngineFailure(Exception):
    """What an engine or its process did wrong, in a sentence."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


@dataclass(frozen=True)
class Host:
    """How engine processes are made: their interpreter, the kind of memory ("host" or "cuda"), a stand-in driver."""

    python: str = sys.executable
    memory: str = "host"
    driver: str = ""
    watched: bool = True  # False for peers, which compile


@dataclass
class Report:
    """What a process's whole life showed."""

    findings: list[str] = field(default_factory=list)
    peak_bytes: int = 0


class EngineProcess:
    """A process that runs one engine. A context manager; leaving it kills a process that hasn't ended."""

    def __init__(self, host: Host) -> None:
        """Starts the process, which imports what a caller would have; `open` goes on. The next can be started ahead."""
        self.host = host
        self.report = Report()
        self._root = Path(tempfile.mkdtemp(prefix="engine-"))
        self._scratch = self._root / "scratch"
        for folder in (self._scratch, self._root / "home", self._root / "bin"):
            folder.mkdir()
        self._errors = (self._root / "errors").open("w+b")
        self._watch: Watch | None = None
        self._socket, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [host.python, "-I", "-B", "-c", WORKER, str(other.fileno())],
                pass_fds=[other.fileno()],
                env=self._environment(),
                cwd=self._scratch,
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                start_new_session=True,
            )
        self._received = b""
        self._send({"do": "prepare", "memory": host.memory})

    def _environment(self) -> dict[str, str]:
        if not self.host.watched:
            return dict(os.environ)
        environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        environment |= {"HOME": str(self._root / "home"), "PATH": str(self._root / "bin"), "TMPDIR": str(self._scratch)}
        if self.host.memory == "host":  # memory that is freed goes back at once, so that it doesn't count as held
            environment |= {
                "MALLOC_MMAP_THRESHOLD_": "65536",
                "MALLOC_TRIM_THRESHOLD_": "65536",
                "MALLOC_ARENA_MAX": "1",
            }
        if self.host.driver:
            environment["STRATUM_DRIVER"] = self.host.driver
        return environment

    def open(self, share: dict, dtype: str, stream: str = "current") -> None:
        """Maps the caller's arrays, and from here on watches what the process asks of the system."""
        self._require(self._receive(), "importing numpy or torch")
        facts = self._order({"do": "map", "share": share, "dtype": dtype, "stream": stream})
        self._reserved = self._require(facts, "mapping the caller's memory").get("reserved", 0)
        self._known = mapped_files(self.pid)
        if self.host.watched:
            self._require(self._order({"do": "watch"}), "installing the filter")
            self._send({"do": "listener"})
            _, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
            self._watch = Watch(descriptors[0], self.pid, self._scratch, self._known)
        self._meter = Meter(self.host.memory, self.pid, share["bytes"])

    def build(self, folder: Path, config: dict) -> None:
        """Imports the engine's folder and builds the engine. EngineFailure if either raises."""
        self._require(self._order({"do": "start"}), "counting memory")
        importing = {"do": "import", "folder": str(folder)}
        if self.host.memory == "host":  # a framework that is imported isn't what the engine holds
            self._require(self._order(importing), "importing the folder")
            self._meter.mark()
        with self._meter:
            if self.host.memory == "cuda":
                self._require(self._order(importing), "importing the folder")
            self._require(self._order({"do": "build", "config": config}), "build_engine")
        self._count(0)

    def load(self, calls: list) -> None:
        """Hands over the calls that `run` will make."""
        self._require(self._order({"do": "load", "calls": calls}), "mapping the arrays of the calls")

    def run(self, first: int, last: int, returned_bytes: int = 0) -> list[dict]:
        """Makes the loaded calls first ... last - 1 without a pause; a result for each: {"value"}, or {"error",
        "message"}.

        returned_bytes: of the arrays that the calls return, which don't count as the engine's.
        """
        self._require(self._order({"do": "start"}), "counting memory")
        with self._meter:
            reply = self._require(self._order({"do": "run", "first": first, "last": last}), "calls")
        self._count(returned_bytes)
        return reply["results"]

    def share_device(self) -> None:
        """Other processes have allocated since the last run; from here on their memory doesn't count as this one's."""
        self._meter.resume()

    def time(self, first: int, last: int) -> tuple[float, list[dict]]:
        """The same, timed from here: seconds until all is done, and the results. Memory is looked at afterwards."""
        self._require(self._order({"do": "start"}), "counting memory")
        start = time.perf_counter()
        reply = self._order({"do": "run", "first": first, "last": last})
        seconds = time.perf_counter() - start
        self._meter.read()
        self._count(0)
        return seconds, self._require(reply, "calls")["results"]

    def pause(self) -> None:
        """Stops the process while others have their turn."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Lets it run again."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def end(self) -> None:
        """Has the engine closed and the process end by itself. EngineFailure if it doesn't end well."""
        self._order({"do": "load", "calls": []})  # still there, and done with what it was asked
        compilers = mapped_compilers(self.pid, self._known) if self.host.watched else []
        self.report.findings += [f"mapped a compiler's library: {each}" for each in compilers]
        self._send({"do": "quit"})
        self._require(self._receive(), "close")
        last_word = self._receive(PATIENCE / 10)
        try:
            code = self._process.wait(PATIENCE / 10)
        except subprocess.TimeoutExpired:
            raise EngineFailure("the process doesn't end after the engine was closed") from None
        if code or not last_word.get("end"):
            raise EngineFailure(f"the process ended with {_ending(code)}{self._last_words()}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def _count(self, returned_bytes: int) -> None:
        """Takes the peak since `start` into account: torch's own count, and the device's beyond torch's reserve."""
        facts = self._require(self._order({"do": "count"}), "counting memory")
        beyond = self._meter.peak - (facts.get("reserved", self._reserved) - self._reserved) - ALLOWANCE
        held = facts.get("torch", 0) + (max(0, beyond) if self.host.memory == "cuda" else beyond)
        self.report.peak_bytes = max(self.report.peak_bytes, held - returned_bytes)

    def _order(self, order: dict) -> dict:
        self._send(order)
        return self._receive()

    def _send(self, order: dict) -> None:
        try:
            self._socket.sendall(json.dumps(order).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError):
            self._raise_ended()

    def _receive(self, patience: float = PATIENCE) -> dict:
        """The next line. EngineFailure if none comes, or something else."""
        deadline = time.monotonic() + patience
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise EngineFailure(f"no answer for {patience:.0f} s")
            try:
                piece = self._socket.recv(1 << 16)
            except ConnectionResetError:
                piece = b""
            if not piece or len(self._received) > LONGEST_LINE:
                self._raise_ended()
            self._received += piece
        line, _, self._received = self._received.partition(b"\n")
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise EngineFailure(f"the process answered {line[:80]!r}, which isn't the program's word")
        return reply

    def _raise_ended(self) -> None:
        try:
            code = self._process.wait(PATIENCE / 10)
        except subprocess.TimeoutExpired:
            raise EngineFailure("the process closed its connection") from None
        raise EngineFailure(f"the process ended with {_ending(code)}{self._last_words()}")

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 4096))
        lines = [line for line in self._errors.read().decode(errors="replace").splitlines() if line.strip()]
        return f": {lines[-1]:.300}" if lines else ""

    @staticmethod
    def _require(reply: dict, what: str) -> dict:
        if "error" in reply:
            raise EngineFailure(f"{what} raised {reply['error'][0]}: {reply['message']}")
        return reply

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()
        if self._watch:
            self._watch.end()
            self.report.findings += map(printable, self._watch.findings)
        self._socket.close()
        self._errors.close()
        shutil.rmtree(self._root, ignore_errors=True)


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
