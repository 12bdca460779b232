"""Assembles the package with the built library and a pack of made-up kernels, and runs it on the emulator.

The build is build/release, or the folder that the environment's STRATUM_BUILD names.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STRATUM_BUILD", ROOT / "build" / "release")).resolve()
LIBRARY = BUILD / "runtime" / "libstratum.so"
HEADER = ROOT / "runtime" / "include" / "stratum.h"
DRIVER = BUILD / "tools" / "emulator" / "libstratum_emulator.so"

_temporary = None


def pytest_configure(config) -> None:
    global _temporary
    for file in (LIBRARY, DRIVER):
        if not file.is_file():
            raise pytest.UsageError(f"{file} is missing: run `make build` first")
    _temporary = Path(tempfile.mkdtemp(prefix="stratum-python-"))
    assemble(_temporary / "submission")
    sys.path.insert(0, str(_temporary))
    os.environ["STRATUM_DRIVER"] = str(DRIVER)
    os.environ |= {
        "STRATUM_EMULATOR_CC": "9.0,8.0,7.5",
        "STRATUM_EMULATOR_EXECUTE": "0",
        "STRATUM_EMULATOR_LEAKS": "ignore",
    }


def pytest_unconfigure(config) -> None:
    if _temporary is not None:
        shutil.rmtree(_temporary)


def assemble(folder: Path) -> Path:
    """Makes a complete package in `folder`: sources, binding, library, made-up pack."""
    import packs

    folder.mkdir(parents=True)
    for source in (ROOT / "submission").glob("*.py"):
        shutil.copy(source, folder)
    (folder / "_stratum_binding.py").write_text(binding(HEADER.read_text()))
    (folder / "libstratum.so").symlink_to(LIBRARY)
    packs.write_pack(folder / "cubins")
    return folder


def binding(header: str) -> str:
    """The package's binding module for the text of a C header."""
    return runpy.run_path(str(ROOT / "submission" / "_build_binding.py"))["binding"](header)


@pytest.fixture
def driver():
    """The emulator, its records empty; at the end the test must have left no object alive and no fault."""
    import gc

    from emulator import Emulator

    driver = Emulator()
    gc.collect()
    driver.reset()
    before = driver.live()
    yield driver
    gc.collect()
    assert driver.faults() == []
    assert driver.live() == before


@pytest.fixture
def package(tmp_path) -> Path:
    """A complete package of the test's own, under a name of its own."""
    return assemble(tmp_path / "renamed_package")
