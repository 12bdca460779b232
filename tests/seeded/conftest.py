"""Needs the built emulator, runtime and generator, and the toolchain that `make toolchain` installs."""

from __future__ import annotations

import os

import pytest

from .variant import GENERATOR, LIBRARY, RELEASE

EMULATOR = RELEASE / "tools" / "emulator" / "libstratum_emulator.so"


def pytest_configure(config) -> None:
    for path in (GENERATOR, LIBRARY, EMULATOR):
        if not path.is_file():
            raise pytest.UsageError(f"{path} is missing: run `make build` first")
    os.environ["STRATUM_DRIVER"] = str(EMULATOR)  # of the processes that run a scenario
    os.environ["STRATUM_EMULATOR_CC"] = "8.0"
