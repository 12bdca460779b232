"""Engines made from the starter, and the harness run on them as a person runs it."""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.grade.trace_file import load_traces

REPOSITORY = Path(__file__).resolve().parents[2]
STARTER = REPOSITORY / "tools" / "grade" / "starter"
FAULTS = Path(__file__).parent / "faults"
DEBIAN_PYTHON = "/usr/bin/python3"
# The traces that run without a GPU, in parts that run side by side: an audit of all of them is the longest test.
SMALL = [trace.name for trace in load_traces(REPOSITORY / "tools" / "grade" / "traces") if trace.small]
SMALL_PARTS = [SMALL[part::4] for part in range(4)]


def pytest_addoption(parser) -> None:
    parser.addoption("--gpu", action="store_true", help="grade with the caller's arrays on the GPU, not on the host")


@functools.cache
def torch_python() -> str:
    """An interpreter that has torch: this one, or Debian's, for which `make setup` installs it."""
    if importlib.util.find_spec("torch"):
        return sys.executable
    done = subprocess.run([DEBIAN_PYTHON, "-c", "import torch"], capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"neither this Python nor {DEBIAN_PYTHON} has torch; `make setup` installs it")
    return DEBIAN_PYTHON


@pytest.fixture
def faulty(tmp_path):
    """Makes an engine folder out of the starter with the fault `name` in it."""

    def make(name: str) -> Path:
        folder = tmp_path / "engine"
        shutil.copytree(STARTER, folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(FAULTS / f"{name}.py", folder / "__init__.py")
        return folder

    return make


@dataclass
class Graded:
    """What a run of the harness said."""

    code: int
    output: str
    facts: dict

    @property
    def failures(self) -> list[str]:
        """All failures of a check."""
        return [failure for trace in self.facts["traces"] for failure in trace["failures"]]


@pytest.fixture
def grade(request, tmp_path):
    """Runs `python -m tools.grade` with arrays in host memory, or with --gpu on the GPU."""
    where = [] if request.config.getoption("--gpu") else ["--host"]

    def run(command: str, folder: Path, *options: object) -> Graded:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "tools.grade", command, folder, *where, "--python", torch_python(), "--json", report]
            + [str(each) for each in options],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
        )
        facts = json.loads(report.read_text()) if report.exists() else {}
        return Graded(done.returncode, done.stdout + done.stderr, facts)

    return run
