"""Every seeded bug is reported by the right check, with kernel and PTX line; kernels as shipped report nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .bugs import BUGS, Bug
from .scenarios import SCENARIOS
from .variant import ROOT, assemble, build_pack, ptx_lines

TIMEOUT = 60  # seconds; a scenario takes one or two
REPORT = re.compile(r"(?P<where>\w+)(, PTX line (?P<line>\d+))?: (?P<check>\w+): (?P<text>.*)", re.DOTALL)


def run(engine: Path, scenario: str) -> dict:
    """What came of a scenario in a process of its own: tests.seeded.scenarios."""
    command = [sys.executable, "-m", "tests.seeded.scenarios", engine, scenario]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def instruction(engine: Path, kernel: str, line: int) -> str:
    """What stands on a line of a kernel's PTX, without its guard."""
    return re.sub(r"^@!?%p\d+\s+", "", ptx_lines(engine / "cubins", kernel)[line - 1].strip())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_shipped_kernels_report_nothing(tmp_path, scenario):
    assemble(tmp_path / "engine", None)
    assert run(tmp_path / "engine", scenario) == {"faults": [], "error": None, "wrong": []}


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.check], ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_bug_is_reported(tmp_path, bug: Bug):
    kernel = build_pack(tmp_path, bug)["name"]
    engine = tmp_path / "engine"
    assemble(engine, tmp_path / "pack")
    result = run(engine, bug.scenario)
    assert result["faults"], result
    report = REPORT.fullmatch(result["faults"][0])
    assert report and report["check"] == bug.check and bug.says in report["text"], result["faults"]
    assert report["where"].startswith(bug.where) if bug.where else report["where"] == kernel, result["faults"]
    if bug.at:
        assert instruction(engine, report["where"], int(report["line"])).startswith(bug.at), result["faults"]


@pytest.mark.parametrize("bug", [bug for bug in BUGS if not bug.check], ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_bug_makes_the_result_wrong(tmp_path, bug: Bug):
    build_pack(tmp_path, bug)
    assemble(tmp_path / "engine", tmp_path / "pack")
    result = run(tmp_path / "engine", bug.scenario)
    assert not result["faults"] and bug.says in " ".join(result["wrong"]), result
