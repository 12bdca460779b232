"""A progress bar with the time left: rich's on a terminal that has it, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import Any

SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Counts `total` steps of one kind of work on stderr; a context manager. lines: seconds between plain lines."""

    def __init__(self, title: str, total: int, lines: float = SECONDS_BETWEEN_LINES) -> None:
        self._title, self._total, self._lines = title, total, lines
        self._done = 0
        self._start = self._printed = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._bar = _rich_bar()
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, what: str) -> None:
        """One step is done; `what` it was."""
        self._done += 1
        if self._bar:
            self._bar.update(self._task, advance=1, description=f"{self._title} {what}")
            return
        now = time.monotonic()
        if now - self._printed < self._lines and self._done < self._total:
            return
        self._printed = now
        left = (now - self._start) / self._done * (self._total - self._done)
        print(f"{self._title} {self._done}/{self._total}, {left:.0f} s left: {what}", file=sys.stderr, flush=True)


def _rich_bar() -> Any:
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    left = progress.TimeRemainingColumn(elapsed_when_finished=True)
    columns = progress.BarColumn(), progress.MofNCompleteColumn(), left, progress.TextColumn("{task.description}")
    return progress.Progress(*columns, console=Console(stderr=True))
