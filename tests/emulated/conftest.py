"""The assembled folder on the emulator: every test starts clean and ends with no fault and nothing left.

Inputs are other ones in each run; its header names the seed, and STRATUM_TEST_SEED in the environment repeats it.
"""

from __future__ import annotations

import gc
import os
import secrets
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.python.emulator import Emulator
from tools.assemble.without import copy_without

from .engines import DEVICES

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "build" / "submission"
# At 9.0 too the portable kernels are tested here, as they ship; the chip's own are in tests/packaging.
SUBMISSION = ROOT / "build" / "portable" / "submission"
EMULATOR = ROOT / "build" / "release" / "tools" / "emulator" / "libstratum_emulator.so"
SEED = "STRATUM_TEST_SEED"


def pytest_configure(config) -> None:
    for path in (SHIPPED / "__init__.py", EMULATOR):
        if not path.is_file():
            raise pytest.UsageError(f"{path} is missing: run `make submission` first")
    if not hasattr(config, "workerinput"):  # the workers of a parallel run start after this
        copy_without("sm_90a", SHIPPED, SUBMISSION)
    sys.path.insert(0, str(SUBMISSION.parent))
    os.environ["STRATUM_DRIVER"] = str(EMULATOR)
    os.environ["STRATUM_EMULATOR_CC"] = ",".join(DEVICES)
    os.environ.setdefault(SEED, str(secrets.randbelow(10**6)))  # the workers of a parallel run inherit it


def pytest_report_header(config) -> str:
    return f"{SEED}={os.environ[SEED]}"


@pytest.fixture
def rng(request) -> np.random.Generator:
    """Random numbers of the test's own, from the run's seed."""
    return np.random.default_rng([int(os.environ[SEED]), zlib.crc32(request.node.name.encode())])


@pytest.fixture(autouse=True)
def emulator():
    """The emulator, its records empty; at the end the test must have left no fault, and no object alive.

    lost: how many objects do stay, since the test made the call fail that frees them.
    """
    emulator = Emulator()
    emulator.lost = 0
    gc.collect()
    emulator.reset()
    emulator.library.emulator_exact_mma(0)  # quicker; test_bits_of_a_gpu has the exact ones
    before = emulator.live()
    yield emulator
    gc.collect()
    assert emulator.faults() == []
    assert sum(emulator.live().values()) == sum(before.values()) + emulator.lost
