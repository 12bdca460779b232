"""The `_cffi_backend` extension modules that travel in the submission folder, taken from cffi's own wheels.

Which release, and the hash of each wheel, stand in requirements/cffi.txt. Wheels are kept in a folder, so that only the
first assembly needs the network.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64")


class BackendError(RuntimeError):
    """A wheel could not be had, or holds something other than expected."""


def backend_file(python: str) -> str:
    """File name of the extension module for a CPython such as "3.11"."""
    return f"_cffi_backend.cpython-{python.replace('.', '')}-x86_64-linux-gnu.so"


def pinned_hashes(requirements: Path) -> set[str]:
    """The sha256 digests that `requirements` accepts, in hex."""
    return set(re.findall(r"--hash=sha256:([0-9a-f]{64})", requirements.read_text()))


def find_wheel(folder: Path, python: str, hashes: set[str]) -> Path | None:
    """The wheel for a CPython in `folder` whose hash is pinned, or None."""
    tag = f"cp{python.replace('.', '')}"
    for wheel in sorted(folder.glob(f"cffi-*-{tag}-{tag}-*x86_64.whl")):
        if hashlib.sha256(wheel.read_bytes()).hexdigest() in hashes:
            return wheel
    return None


def download_wheel(requirements: Path, folder: Path, python: str) -> None:
    """Has pip put the pinned wheel for a CPython into `folder`; pip checks the hash."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "--requirement",
        str(requirements),
        "--implementation",
        "cp",
        "--python-version",
        python,
        "--abi",
        f"cp{python.replace('.', '')}",
        "--dest",
        str(folder),
    ]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BackendError(f"pip could not download cffi for CPython {python} ({requirements}):\n{done.stderr.strip()}")


def collect_wheels(requirements: Path, folder: Path) -> dict[str, Path]:
    """CPython version → pinned cffi wheel, downloading those that `folder` lacks. Errors: BackendError."""
    hashes = pinned_hashes(requirements)
    folder.mkdir(parents=True, exist_ok=True)
    wheels = {}
    for python in PYTHONS:
        wheel = find_wheel(folder, python, hashes)
        if wheel is None:
            download_wheel(requirements, folder, python)
            wheel = find_wheel(folder, python, hashes)
        if wheel is None:
            raise BackendError(f"cffi for CPython {python}: pip fetched no wheel whose hash {requirements} lists")
        wheels[python] = wheel
    return wheels


def unpack_backends(wheels: dict[str, Path], folder: Path) -> None:
    """Writes each wheel's extension module into `folder` under its own name. Errors: BackendError."""
    for python, wheel in wheels.items():
        name = backend_file(python)
        with zipfile.ZipFile(wheel) as archive:
            if name not in archive.namelist():
                raise BackendError(f"{wheel.name}: holds no {name}")
            (folder / name).write_bytes(archive.read(name))


def read_license(wheel: Path) -> str:
    """cffi's licence as the wheel states it. Errors: BackendError."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/LICENSE"):
                return archive.read(name).decode("utf-8")
    raise BackendError(f"{wheel.name}: holds no LICENSE")
