"""The bench's Triton engine against float64 under Triton's interpreter, on a CPU. A GPU runs every tile: check_peer."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
from conftest import ROOT

MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
def test_every_kernel_with_its_first_tile():
    # float16 only: the interpreter truncates to bfloat16 instead of rounding.
    command = [sys.executable, "-m", "tools.bench.check_peer", "--quick", "--dtypes", "float16"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" 0 wrong\n")
