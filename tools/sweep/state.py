"""The folder that is a sweep's state. docs/sweep.md lists its files.

Every file is written whole or not at all, and what one says is never changed by a later run: a point that is decided
stays decided, a round that is measured stays measured. Starting over means removing the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from . import pack
from .sweep import Sweep, SweepError, kernel_of, read_json, read_plan, read_sweep

COMPILED, REFUSED, FAILED = "compiled", "refused", "failed"  # what becomes of a point before it is timed
UNFINISHED = "its check began and never ended: a kernel that hangs, or a run that was killed then"


class State:
    """One state folder. sweep, plan: its own copies, as data. points: name -> tile.

    start: the plan's own tile; incumbent: the name of that point. commit: of the sources, None if unknown.
    decided: point -> what became of it before it is timed. checks: point -> what is wrong with its results, or None.
    rounds: of all right points; confirming: of the fastest of them and the incumbent.
    """

    def __init__(self, folder: Path) -> None:
        """Opens an existing folder. Errors: SweepError."""
        self.folder = folder
        self.sweep: Sweep = read_sweep(folder / "sweep.json")
        self.plan: dict = read_plan(folder / "plan.json", self.sweep)
        self.start: dict[str, int] = kernel_of(self.plan, self.sweep)["tile"]
        self.points = self.sweep.points(self.start)
        self.incumbent = self.sweep.point_name(self.start)
        self.commit: str | None = read_json(folder / "commit.json")
        self.decided: dict[str, dict] = self._read("points.json")
        self.checks: dict[str, str | None] = self._read("checks.json")
        self.rounds = Rounds(folder / "rounds", self.sweep.rounds)
        self.confirming = Rounds(folder / "confirming", self.sweep.confirming_rounds)

    @classmethod
    def create(cls, folder: Path, sweep: Path, root: Path, commit: str | None) -> State:
        """The state of a sweep file in `folder`, made if it isn't there. root: the project, where plans are looked for.

        Errors: SweepError, also if the folder is another sweep's.
        """
        if folder.exists():
            state = cls(folder)
            if state.sweep != read_sweep(sweep):
                raise SweepError(f"{folder} is the state of another sweep than {sweep}; remove it, or change the name")
            return state
        wanted = read_sweep(sweep)
        plan = root / wanted.plan
        read_plan(plan, wanted)
        fresh = folder.with_name(folder.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        shutil.copyfile(sweep, fresh / "sweep.json")
        shutil.copyfile(plan, fresh / "plan.json")
        write_json(fresh / "commit.json", commit)
        fresh.rename(folder)
        return cls(folder)

    # ---- Compiling

    def plan_file(self, point: str) -> Path:
        """The plan of a point that the generator didn't refuse."""
        return self.folder / "plans" / f"{point}.json"

    def pack(self, point: str) -> Path:
        """The pack with a compiled point's kernels, one a dtype."""
        return self.folder / "packs" / point

    def decide(self, point: str, state: str, reason: str = "") -> None:
        """Records what became of a point. reason: why it was dropped."""
        self.decided[point] = {"state": state, **({"reason": reason} if reason else {})}
        write_json(self.folder / "points.json", self.decided)

    def with_state(self, state: str) -> list[str]:
        """The points of which this became, in the sweep's order."""
        return [point for point in self.points if self.decided.get(point, {}).get("state") == state]

    @property
    def undecided(self) -> list[str]:
        """The points that are still to be compiled."""
        return [point for point in self.points if point not in self.decided]

    # ---- Timing

    def begin_timing(self, machine: dict[str, str]) -> None:
        """Notes the machine that times. Errors: SweepError if rounds or checks of another GPU, driver or other kernels
        are there."""
        compiled = {point: pack.read_manifest(self.pack(point))["sha256"] for point in self.with_state(COMPILED)}
        kernels = hashlib.sha256(json.dumps(compiled).encode()).hexdigest()
        facts = {**machine, "kernels": kernels}
        path = self.folder / "machine.json"
        if path.exists():
            before = read_json(path)
            for field, value in facts.items():
                if before.get(field) != value:
                    raise SweepError(
                        f"{self.folder}: timing began with {field} {before.get(field)}, now it is {value}; remove "
                        "machine.json, checks.json, rounds/ and confirming/ to time everything again"
                    )
        else:
            write_json(path, facts)

    @property
    def machine(self) -> dict[str, str]:
        """The machine that timed."""
        return self._read("machine.json")

    def begin_check(self, point: str) -> None:
        """Notes that a point is being checked: if nothing else is ever recorded, that is what is wrong with it."""
        self.record_check(point, UNFINISHED)

    def cancel_check(self, point: str) -> None:
        """Takes the note of begin_check back."""
        del self.checks[point]
        write_json(self.folder / "checks.json", self.checks)

    def record_check(self, point: str, reason: str | None) -> None:
        """Records that a point's results are right (None), or what is wrong with them."""
        self.checks[point] = reason
        write_json(self.folder / "checks.json", self.checks)

    @property
    def survivors(self) -> list[str]:
        """The points whose results are right, in the sweep's order."""
        return [point for point in self.points if self.checks.get(point, "not checked") is None]

    def _read(self, name: str) -> dict:
        path = self.folder / name
        return read_json(path) if path.exists() else {}


class Rounds:
    """Measured rounds, each a file: point -> case -> milliseconds. count: how many there will be."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder, self.count = folder, count

    def record(self, number: int, milliseconds: dict[str, dict[str, float]]) -> None:
        """Records a round, counted from 0."""
        write_json(self._file(number), milliseconds)

    @property
    def missing(self) -> list[int]:
        """Those that are still to be measured."""
        return [number for number in range(self.count) if not self._file(number).exists()]

    def measured(self) -> list[dict[str, dict[str, float]]]:
        """Those that were measured."""
        return [read_json(path) for path in map(self._file, range(self.count)) if path.exists()]

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:04}.json"


def write_json(path: Path, content: Any) -> None:
    """Writes a file in one step, making its folder."""
    write_whole(path, json.dumps(content, indent=2) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a text file in one step, making its folder: whoever reads it sees the old content or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    with open(fresh, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
