"""A tool in a Python that lacks modules says which, and in which Python."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT

from tools.needs import missing

# `python -m tools.bench` without these modules, whatever this machine has.
LACKING = """
import runpy, sys
sys.modules.update(numpy=None, torch=None, triton=None)
runpy.run_module("tools.bench", run_name="__main__", alter_sys=True)
"""


def test_what_is_missing_is_named():
    assert missing("json", "nowhere_to_be_found") == f"nowhere_to_be_found is missing in {sys.executable}"
    assert missing("json", "csv") is None


def test_the_bench_ends_before_its_imports():
    done = subprocess.run([sys.executable, "-c", LACKING], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    lack = f"numpy, torch, triton are missing in {sys.executable}"
    assert done.stderr == f"tools.bench: {lack}; PYTHON=... names another\n"
