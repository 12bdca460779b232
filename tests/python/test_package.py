"""The package as a folder: light to import, complete or clearly not, at home under any name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from conftest import HEADER, binding
from workloads import CONFIG

# A step of every mode in a process of its own; the package's name is the first argument.
USE = """
import importlib, json, sys
sys.path.insert(0, sys.argv[2])
package = importlib.import_module(sys.argv[1])
with package.build_engine(json.loads(sys.argv[3])) as engine:
    sequence = engine.create()
    engine.release(engine.fork(sequence))
    print(engine.length(sequence), engine.describe()["config"]["head_dim"], package.__name__)
"""


def run_python(code: str, *arguments, flags=(), check: bool = True, **environment) -> subprocess.CompletedProcess:
    """Runs code in a new interpreter. `flags` go to the interpreter, `environment` on top of this one's."""
    command = [sys.executable, *flags, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)
    assert not check or done.returncode == 0, done.stderr
    return done


def import_seconds(folder: Path) -> float:
    code = """
import sys, time
sys.path.insert(0, sys.argv[1])
start = time.perf_counter()
import renamed_package
print(time.perf_counter() - start)
"""
    return float(run_python(code, folder).stdout)


def test_import_is_quick(package):
    assert min(import_seconds(package.parent) for _ in range(5)) < 0.15


def test_import_loads_neither_torch_nor_numpy_nor_cuda(package):
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import renamed_package
print([name for name in ("torch", "numpy", "ctypes", "cffi", "_cffi_backend") if name in sys.modules])
print(sum("cuda" in line or "stratum.so" in line for line in open("/proc/self/maps")))
"""
    assert run_python(code, package.parent).stdout.split("\n")[:2] == ["[]", "0"]


def test_works_under_another_name_and_in_another_folder(package):
    done = run_python(USE, "renamed_package", package.parent, json.dumps(CONFIG))
    assert done.stdout.split() == ["0", "64", "renamed_package"]


def test_two_copies_in_one_process(package):
    code = """
import json, sys
sys.path.insert(0, sys.argv[1])
import renamed_package as a, second_package as b
assert a.EngineError is not b.EngineError
for package in (a, b):
    engine = package.build_engine(json.loads(sys.argv[2]))
    engine.create()
    try:
        engine.release(99)
    except package.UnknownSequence:
        print("right")
"""
    (package.parent / "second_package").mkdir()
    for item in package.iterdir():
        if item.is_file():
            (package.parent / "second_package" / item.name).write_bytes(item.read_bytes())
    (package.parent / "second_package" / "cubins").symlink_to(package / "cubins")
    assert run_python(code, package.parent, json.dumps(CONFIG)).stdout.split() == ["right", "right"]


def test_bundled_backend_is_used_without_an_installed_cffi(package):
    import _cffi_backend

    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    vendor = package / "_vendor"
    vendor.mkdir()
    (vendor / f"_cffi_backend{suffix}").write_bytes(Path(_cffi_backend.__file__).read_bytes())
    (vendor / "_cffi_backend.cpython-39-x86_64-linux-gnu.so").write_bytes(b"another interpreter's")
    # -S: no site-packages, so no installed cffi.
    done = run_python(USE + 'print(sys.modules["_cffi_backend"].__file__)', "renamed_package", package.parent,
                      json.dumps(CONFIG), flags=["-S"])  # fmt: skip
    assert done.stdout.split()[:2] == ["0", "64"]
    assert done.stdout.split()[-1].startswith(str(vendor))


def test_installed_backend_comes_first(package):
    vendor = package / "_vendor"
    vendor.mkdir()
    (vendor / f"_cffi_backend{sysconfig.get_config_var('EXT_SUFFIX')}").write_bytes(b"not a library")
    assert run_python(USE, "renamed_package", package.parent, json.dumps(CONFIG)).stdout.startswith("0 64")


FAULTS = {
    "no backend": ("cffi isn't installed", ["-S"], lambda package: None),
    "no library": ("libstratum.so is missing", [], lambda package: (package / "libstratum.so").unlink()),
    "no binding": ("make submission", [], lambda package: (package / "_stratum_binding.py").unlink()),
    "no manifest": ("manifest.json", [], lambda package: (package / "cubins" / "manifest.json").unlink()),
    "another library": ("libstratum.so can't be loaded", [], lambda package: spoil(package / "libstratum.so")),
    "another interface": ("interface version 1, its binding 2", [], lambda package: raise_version(package)),
}


def spoil(library: Path) -> None:
    library.unlink()
    library.write_bytes(b"not a library")


def raise_version(package: Path) -> None:
    header = HEADER.read_text().replace("STRATUM_ABI_VERSION 1", "STRATUM_ABI_VERSION 2")
    (package / "_stratum_binding.py").write_text(binding(header))


@pytest.mark.parametrize("fault", FAULTS)
def test_an_incomplete_package_says_what_is_missing(package, fault):
    words, flags, damage = FAULTS[fault]
    damage(package)
    code = """
import json, sys
sys.path.insert(0, sys.argv[1])
import renamed_package as package
try:
    package.build_engine(json.loads(sys.argv[2]))
except package.PackError as error:
    assert isinstance(error, OSError)
    print(error)
"""
    assert words in run_python(code, package.parent, json.dumps(CONFIG), flags=flags).stdout


def test_works_from_a_read_only_folder(package):
    for path in (package, *package.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        assert run_python(USE, "renamed_package", package.parent, json.dumps(CONFIG)).stdout.startswith("0 64")
    finally:
        for path in (package, *package.rglob("*")):
            path.chmod(path.stat().st_mode | 0o700)


def test_does_not_import_from_a_zip_silently(package):
    """The library is a file of its own: an import from an archive must say so, not crash."""
    archive = package.parent / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for source in package.glob("*.py"):
            file.write(source, f"renamed_package/{source.name}")
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import renamed_package as package
try:
    package.build_engine({})
except package.PackError as error:
    print(error)
"""
    assert "libstratum.so is missing" in run_python(code, archive).stdout
