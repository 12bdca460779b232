"""The folder, copied elsewhere under another name, runs with an empty environment on every CPython at hand."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cpythons import interpreters

from tools.assemble.backend import PYTHONS, backend_file

EXERCISE = Path(__file__).parent / "exercise.py"
CONFIG = {
    "head_dim": 64, "gate_dim": 32, "q_heads": 8, "kv_heads": 2,
    "max_sequences": 4, "max_seq_len": 1024, "max_cached_tokens": 2048,
}  # fmt: skip
COMPILERS = ("nvrtc", "nvptxcompiler", "ptxjitcompiler", "nvjitlink", "nvvm", "cudart", "libcuda.so")


@pytest.fixture(scope="module")
def elsewhere(submission, tmp_path_factory) -> Path:
    """A copy of the folder, its name no identifier."""
    return shutil.copytree(submission, tmp_path_factory.mktemp("somewhere") / "renamed-engine 2")


def exercise(python: Path, folder: Path, driver: Path, *flags: str) -> dict:
    """What exercise.py saw, with nothing in the environment, PATH included."""
    done = subprocess.run(
        [python, *flags, EXERCISE, folder, json.dumps(CONFIG), driver], env={}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", PYTHONS)
def test_runs_with_the_bundled_backend(elsewhere, emulator, version):
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"no CPython {version} on this machine; its bundled file is checked by test_bundled_cffi.py")
    seen = exercise(python, elsewhere, emulator, "-I", "-S")  # -S: no site-packages, so no installed cffi
    assert seen["python"] == version
    assert str(elsewhere / "_vendor" / backend_file(version)) in seen["mapped"]
    assert str(elsewhere / "libstratum.so") in seen["mapped"]
    assert [file for file in seen["mapped"] if any(name in file for name in COMPILERS)] == []
    assert seen["lengths"] == [71, 73]
    assert seen["launches"] > 0 and seen["faults"] == []
    assert seen["engine"]["config"]["head_dim"] == 64
    assert {kernel["arch"] for kernel in seen["engine"]["kernels"]} - {"sm_90a"} == {"sm_90"}


def test_importing_it_loads_no_library_and_no_heavy_module(elsewhere, emulator):
    seen = exercise(Path(sys.executable), elsewhere, emulator)
    assert str(elsewhere / "libstratum.so") in seen["mapped"]
    assert [file for file in seen["mapped_by_import"] if file.startswith(str(elsewhere)) or "libcuda" in file] == []
    assert {"torch", "numpy", "cffi", "triton"}.isdisjoint(seen["modules"])


def test_an_installed_cffi_is_used_first(elsewhere, emulator):
    seen = exercise(Path(sys.executable), elsewhere, emulator)
    backends = [file for file in seen["mapped"] if "_cffi_backend" in file]
    assert len(backends) == 1 and not backends[0].startswith(str(elsewhere))


def test_the_folder_stays_as_it_was(elsewhere, submission):
    def contents(folder):
        return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"}

    assert contents(elsewhere) == contents(submission)
