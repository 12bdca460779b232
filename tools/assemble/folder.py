"""What the submission folder holds, and how each part comes into it.

__init__.py, *.py          the package, from submission/
_stratum_binding.py        cffi binding, generated from the C header
libstratum.so              the runtime
cubins/                    the pack: manifest.json and the files it names
_vendor/_cffi_backend.*    cffi's extension module, one a CPython
LICENSE, NOTICE, licenses/ ours, and those of what is bundled
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .backend import collect_wheels, read_license, unpack_backends
from .publish import publish

REPOSITORY = Path(__file__).resolve().parents[2]
BINDING_GENERATOR = "_build_binding.py"


@dataclass(frozen=True)
class Parts:
    """Where the parts come from: the built library, the pack's directory, the folder that keeps cffi's wheels."""

    library: Path
    pack: Path
    wheels: Path


class AssemblyError(RuntimeError):
    """A part is missing or unfit; the text says which."""


def copy_package(folder: Path) -> None:
    """The Python sources, without the generator of the binding, which is no part of the package."""
    for source in sorted((REPOSITORY / "submission").rglob("*.py")):
        if source.name != BINDING_GENERATOR:
            target = folder / source.relative_to(REPOSITORY / "submission")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def write_binding(folder: Path) -> None:
    """Has the package's own generator write the binding from the C header."""
    command = [
        sys.executable,
        str(REPOSITORY / "submission" / BINDING_GENERATOR),
        str(REPOSITORY / "runtime" / "include" / "stratum.h"),
        str(folder / "_stratum_binding.py"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssemblyError(f"the cffi binding could not be generated:\n{done.stderr.strip()}")


def pack_files(pack: Path) -> list[str]:
    """Names of the pack's files: the manifest and what it refers to, no leftovers. Errors: AssemblyError."""
    manifest = pack / "manifest.json"
    if not manifest.is_file():
        raise AssemblyError(f"{manifest} is missing; `make cubins` builds the pack")
    kernels = json.loads(manifest.read_text())["kernels"]
    names = ["manifest.json"] + sorted({kernel[form]["file"] for kernel in kernels for form in ("cubin", "ptx")})
    for name in names:
        if not (pack / name).is_file():
            raise AssemblyError(
                f"{pack / name} is missing, but the manifest refers to it; `make cubins` rebuilds the pack"
            )
    return names


def assemble(parts: Parts, out: Path) -> list[Path]:
    """Makes the folder at `out`, whole or not at all; returns its files, relative, sorted. Errors: AssemblyError,
    BackendError."""
    if not parts.library.is_file():
        raise AssemblyError(f"{parts.library} is missing; `make build` makes it")
    wheels = collect_wheels(REPOSITORY / "requirements" / "cffi.txt", parts.wheels)
    with publish(out) as folder:
        copy_package(folder)
        write_binding(folder)
        shutil.copyfile(parts.library, folder / "libstratum.so")
        (folder / "cubins").mkdir()
        for name in pack_files(parts.pack):
            shutil.copyfile(parts.pack / name, folder / "cubins" / name)
        (folder / "_vendor").mkdir()
        unpack_backends(wheels, folder / "_vendor")
        shutil.copyfile(REPOSITORY / "LICENSE", folder / "LICENSE")
        shutil.copyfile(REPOSITORY / "NOTICE", folder / "NOTICE")
        shutil.copytree(Path(__file__).parent / "licenses", folder / "licenses")
        (folder / "licenses" / "cffi.txt").write_text(
            "cffi\n\n" + read_license(next(iter(wheels.values()))).strip() + "\n"
        )
    return sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())
