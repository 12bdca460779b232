"""The bench's Triton engine: a peer that were wrong would be no peer."""

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

from tools.bench.assembled import REPOSITORY


def test_every_kernel_against_float64():
    """In a process of its own, since it fixes the tiles. Without --quick it takes each of them."""
    command = [sys.executable, "-m", "tools.bench.check_peer", "--quick"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
