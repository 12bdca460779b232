"""Runs the modules of this folder that want a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE_ROOT = Path(__file__).resolve().parents[len(__package__.split("."))]


def start(module: str, *arguments: object, **environment: str | None) -> subprocess.Popen:
    """Starts `module` of this folder; `environment` replaces variables, None takes one away."""
    settings = {**os.environ, "PYTHONPATH": f"{PACKAGE_ROOT}{os.pathsep}{REPOSITORY}", **environment}
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.{module}", *map(str, arguments)],
        env={name: value for name, value in settings.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen, seconds: float = 180) -> str:
    """Waits for the process and returns what it printed; fails with its errors if it failed."""
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"{process.args}: not done after {seconds} s\n{output}{errors}") from None
    assert process.returncode == 0, f"{process.args}: exit code {process.returncode}\n{output}{errors}"
    return output
