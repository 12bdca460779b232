"""Shares mutants among processes; one that a mutant ends or stops is replaced."""

from __future__ import annotations

import multiprocessing
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from .rules import Mutant
from .worker import Outcome, Worker

_SECONDS = 60.0  # that a mutant may take, its kernel's scenario included


class Pool:
    """`jobs` processes, each with a Worker that `arguments` make."""

    def __init__(self, jobs: int, *arguments):
        self._jobs, self._arguments = jobs, arguments

    def coverage(self, kernels: Sequence[str]) -> dict[str, dict[int, int]]:
        """Kernel → Worker.coverage of its scenario."""
        process = _Process(self._arguments)
        try:
            return {each: process.call("coverage", each) for each in kernels}
        finally:
            process.end()

    def run(self, work: Sequence[Mutant], texts: dict[str, str]) -> Iterator[tuple[Mutant, Outcome]]:
        """Yields what became of each mutant, in the order they end. texts: kernel → the pack's PTX.

        Errors: RuntimeError for a process that ends or stops without a mutant, or whose true kernel is no longer right.
        """
        left: queue.SimpleQueue[Mutant | None] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[Mutant, Outcome] | Exception] = queue.SimpleQueue()
        for each in (*work, *[None] * self._jobs):
            left.put(each)
        for _ in range(self._jobs):
            threading.Thread(target=self._feed, args=(left.get, texts, done.put), daemon=True).start()
        for _ in work:
            result = done.get()
            if isinstance(result, Exception):
                raise result
            yield result

    def _feed(self, take: Callable, texts: dict[str, str], give: Callable) -> None:
        process = None
        try:
            while mutant := take():
                process = process or _Process(self._arguments)
                outcome = process.outcome(mutant.kernel, mutant.apply(texts[mutant.kernel]))
                if outcome.killed in ("crash", "no end"):
                    process.end()
                    process = None
                give((mutant, outcome))
        except Exception as error:
            give(error)
        finally:
            if process:
                process.end()


class _Process:
    """A Worker in a process of its own."""

    def __init__(self, arguments: tuple):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._answer()  # it is ready

    def call(self, method: str, *arguments):
        """What the Worker's method returns. EOFError if the process ended, TimeoutError without an answer in time."""
        self._connection.send((method, arguments))
        return self._answer()

    def outcome(self, kernel: str, ptx: str) -> Outcome:
        """Worker.run there. "crash" if the process ended, "no end" if it gave no answer in time."""
        try:
            return self.call("run", kernel, ptx)
        except (EOFError, ConnectionResetError):
            self._process.join()
            return Outcome("crash", f"the process ended with {self._process.exitcode}")
        except TimeoutError:
            return Outcome("no end", f"no answer after {_SECONDS:.0f} s")

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._process.join()

    def _answer(self):
        if not self._connection.poll(_SECONDS):
            raise TimeoutError
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(connection, arguments: tuple) -> None:
    """Answers with what the Worker's methods return or, as RuntimeError, raise, until the other end is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # faults are answers, not messages
    try:
        worker = Worker(*arguments)
        connection.send(None)
        while True:
            method, given = connection.recv()
            connection.send(getattr(worker, method)(*given))
    except EOFError:
        pass
    except Exception as error:
        connection.send(RuntimeError(f"{type(error).__name__}: {error}"))
