"""The main job of `make run`, numpy and the driver alone, on shipped strata and on those added by examples/plans."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench.assembled import REPOSITORY, submission_folder


def extended_folder() -> Path:
    """The folder assembled with examples/plans; the test fails with the command that makes it."""
    folder = Path(os.environ.get("STRATUM_EXTENDED") or REPOSITORY / "build" / "extended").resolve()
    if not folder.is_dir():
        pytest.fail(f"{folder} is missing; `make submission PLANS=examples/plans SUBMISSION={folder}` makes it")
    return folder


@pytest.mark.parametrize(
    "find_folder, head_dim, gate_dim",
    [(submission_folder, 64, 32), (submission_folder, 128, 64), (extended_folder, 96, 32), (extended_folder, 128, 16)],
)
def test_main_job(find_folder, head_dim: int, gate_dim: int):
    options = ["--submission", find_folder(), "--head-dim", str(head_dim), "--gate-dim", str(gate_dim)]
    command = [sys.executable, "-m", "tools.demo", *options]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=180)
    print(done.stdout)  # the table of errors, for who runs pytest -s
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every result is within its bound of float64." in done.stdout
