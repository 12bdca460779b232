"""The engine's calls on the emulator give an H200's bits, which outputs.json has the hashes of."""

from __future__ import annotations

import os
import subprocess
import sys

from .conftest import ROOT, SUBMISSION


def test_outputs_are_an_h200s():
    command = [sys.executable, "-m", "tools.emulator.conformance.outputs", "--submission", SUBMISSION, "compare",
               ROOT / "tests" / "emulator" / "vectors" / "outputs.json"]  # fmt: skip
    environment = {**os.environ, "STRATUM_EMULATOR_CC": "9.0"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout == "80 of 80 arrays are equal\n"
