"""`python -m tools.sweep`: stages, exit codes, what is printed."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from made_up import INCUMBENT, ROOT, FakeBench

from tools.sweep.timing import time_points

NO_TORCH = """
import runpy, sys
sys.modules.update(torch=None, triton=None)
sys.argv[0] = "sweep"
runpy.run_module("tools.sweep", run_name="__main__")
"""
LACK = f"torch, triton are missing in {sys.executable}"
NEXT = "next, where there is PyTorch and a GPU: python3 -m tools.sweep"


def run(*arguments: object) -> subprocess.CompletedProcess:
    """The program where there is no PyTorch, whatever this machine has."""
    command = [sys.executable, "-c", NO_TORCH, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_all_that_this_machine_can(tmp_path, sweep_file, program, cache):
    shape = {"batch": 1, "length": 1, "cached": 64, "q_heads": 4, "kv_heads": 2}
    sweep = sweep_file(operation="decode_merge", tile={"warps": [4, 64]}, shapes=[shape])
    folder = tmp_path / "state"
    done = run(sweep, "--state", folder, "--generator", program, "--cache", cache, "--jobs", 1)
    assert done.returncode == 0, done.stderr
    first, refused, where, compiled = done.stdout.splitlines()
    assert first == "2 points, 1 dropped, for reasons such as:"
    assert refused.startswith("  1 refused: kernels.decode_merge.tile.warps: expected")
    assert refused.endswith(" got 64 (warps64)")
    assert where == f"all reasons: {folder}/points.json"
    assert compiled == f"1 compiled, in {folder}"  # no word of what comes next: the stage after it says that
    assert "2 points: 1 to compile, 1 refused" in done.stderr.splitlines()
    assert f"sweep: {LACK}; {NEXT} {folder}\n" in done.stderr
    # Where there is no compiler either, the folder is enough.
    again = run(folder, "--generator", tmp_path / "none")
    assert (again.returncode, again.stdout) == (0, "")


def test_compiling_says_where_the_state_is_and_what_comes_next(tmp_path, sweep_file, program, cache):
    shape = {"batch": 1, "length": 1, "cached": 64, "q_heads": 4, "kv_heads": 2}
    sweep = sweep_file(operation="decode_merge", tile={"warps": [4]}, shapes=[shape])
    folder = tmp_path / "state"
    done = run("compile", sweep, "--state", folder, "--generator", program, "--cache", cache, "--jobs", 1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1 points, none dropped", f"1 compiled, in {folder}; {NEXT} {folder}"]


def test_rounds_without_confirming_ones_are_timed_further(compiled, tmp_path):
    time_points(compiled, FakeBench(lambda point, case, turn: 2.0 if point == INCUMBENT else 1.0))
    shutil.rmtree(compiled.folder / "confirming")
    done = run(compiled.folder, "--generator", tmp_path / "none")
    assert done.returncode == 0 and f"{LACK}; {NEXT}" in done.stderr
    assert "in 0 of 30 confirming rounds: not confirmed yet" in done.stdout
    refused = run("apply", compiled.folder)
    assert refused.returncode == 1 and "30 of 30 confirming rounds are still to be timed" in refused.stderr


def test_report_and_a_refused_winner(compiled):
    time_points(compiled, FakeBench())
    done = run("report", compiled.folder)
    assert done.returncode == 0, done.stderr
    assert INCUMBENT in done.stdout and f"written: {compiled.folder}/result.json" in done.stdout
    assert (compiled.folder / "result.csv").is_file()
    refused = run("apply", compiled.folder)
    assert refused.returncode == 4
    assert refused.stderr == f"not applied: no point is faster than the incumbent, {INCUMBENT}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["compile", "nowhere.json"], 1, "nowhere.json: can't be read"),
        (["compile"], 1, "compile: can't be read"),
        (["tme", "x.json"], 2, "invalid choice: 'tme'"),
        ([], 2, "required: SWEEP.json|FOLDER"),
    ],
)
def test_usage_and_missing_files(arguments, code, message):
    done = run(*arguments)
    assert done.returncode == code and message in done.stderr


def test_what_this_machine_lacks(compiled, tmp_path):
    timing = run("time", compiled.folder)
    assert timing.returncode == 3 and f"{LACK}; {NEXT} {compiled.folder}" in timing.stderr
    compiling = run("compile", compiled.folder, "--generator", tmp_path / "none")
    assert compiling.returncode == 3 and "no stratum-gen there; `make build` makes it" in compiling.stderr


def test_a_report_without_rounds(compiled):
    done = run("report", compiled.folder)
    assert done.returncode == 1 and "no round is measured yet" in done.stderr
