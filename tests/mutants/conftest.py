"""The assembled folder, the emulator, and one kernel's text to work on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.emulator.mutants.pack import kernels
from tools.emulator.mutants.worker import Stratum, Worker

ROOT = Path(__file__).resolve().parents[2]
STRATUM = Stratum("8.0", 64, 32, "bfloat16")


def _built(path: str, target: str) -> Path:
    product = ROOT / path
    if not product.exists():
        pytest.fail(f"{path} is missing; `make {target}` makes it")
    return product


@pytest.fixture(scope="session")
def submission() -> Path:
    return _built("build/submission", "submission")


@pytest.fixture(scope="session")
def emulator() -> Path:
    return _built("build/release/tools/emulator/libstratum_emulator.so", "build")


@pytest.fixture(scope="session")
def names(submission) -> dict[str, str]:
    """Operation → kernel of the stratum."""
    return kernels(submission, STRATUM)


@pytest.fixture(scope="session")
def worker(submission, emulator, names) -> Worker:
    """The one Worker of this process."""
    return Worker(submission, emulator, STRATUM, names)
