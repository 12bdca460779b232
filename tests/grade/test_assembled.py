"""The folder that ships, on the emulator: its kernels' PTX, run on the CPU, through the whole small audit."""

import subprocess
import sys

import pytest

from .conftest import REPOSITORY, SMALL_PARTS

SUBMISSION = REPOSITORY / "build" / "submission"
EMULATOR = REPOSITORY / "build" / "release" / "tools" / "emulator" / "libstratum_emulator.so"


@pytest.mark.parametrize("names", SMALL_PARTS, ids=" ".join)
def test_the_assembled_folder_passes_every_small_trace(grade, names):
    for path in (SUBMISSION / "__init__.py", EMULATOR):
        assert path.is_file(), f"{path} is missing: run `make submission` first"
    done = grade("check", SUBMISSION, "--only", *names, "--driver", EMULATOR)
    assert done.code == 0, done.output
    assert done.output.endswith(f"{len(names)} of {len(names)} traces passed\n")


def test_without_a_gpu_the_demo_runs_on_the_emulator(monkeypatch):
    monkeypatch.setenv("STRATUM_DRIVER", "libno-such-driver.so")
    command = ["--submission", SUBMISSION, "--emulator", EMULATOR, "--head-dim", "128", "--gate-dim", "64"]
    python = sys.executable
    done = subprocess.run([python, "-m", "tools.demo", *command], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The kernels run on the CPU, by the emulator." in done.stdout
    assert done.stdout.count("the same bytes") == 2
    assert done.stdout.endswith("Every result is within its bound of float64.\n")
