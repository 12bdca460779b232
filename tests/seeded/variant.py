"""An engine folder whose kernel of one operation is built from changed templates; all else is as shipped."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from pathlib import Path

from tools.sweep.pack import read_manifest, write_manifest, write_mixed

from .bugs import Bug

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "build" / "release"
GENERATOR = RELEASE / "generator" / "stratum-gen"
LIBRARY = RELEASE / "runtime" / "libstratum.so"
SHIPPED = ROOT / "cubins"
CACHE = ROOT / "build" / "cache"  # of compiled kernels, by their contents
PLAN = ROOT / "templates" / "plans" / "gated_d64_r32_sm80.json"  # of the kernels that are changed
DTYPE = "bfloat16"


def write_templates(folder: Path, bug: Bug) -> None:
    """Copies the templates and makes the bug's edits. Errors: ValueError if a text doesn't occur exactly once."""
    shutil.copytree(ROOT / "templates", folder)
    for edit in bug.edits:
        file = folder / edit.file
        before = file.read_text()
        if (count := before.count(edit.old)) != 1:
            raise ValueError(f"{bug.name}: {edit.file} has {count} times, expected once:\n{edit.old}")
        file.write_text(before.replace(edit.old, edit.new))


def write_plan(file: Path, bug: Bug) -> None:
    """A plan of the bug's operation alone."""
    plan = json.loads(PLAN.read_text())
    kernel = plan["kernels"][bug.operation]
    plan |= {"dtypes": [DTYPE], "kernels": {bug.operation: {**kernel, "tile": {**kernel["tile"], **bug.tile}}}}
    file.write_text(json.dumps(plan))


def build_pack(folder: Path, bug: Bug) -> dict:
    """Compiles the bug's kernel into a pack of its own; returns its row. Errors: CalledProcessError."""
    write_templates(folder / "templates", bug)
    write_plan(folder / "plan.json", bug)
    options = {"templates": folder / "templates", "plans": folder / "plan.json", "out": folder / "pack", "cache": CACHE}
    command = [GENERATOR, "build", "--jobs", "1", *(f"--{name}={value}" for name, value in options.items())]
    subprocess.run(command, cwd=ROOT, check=True, stderr=subprocess.PIPE, text=True)
    manifest = read_manifest(folder / "pack")
    (row,) = manifest["kernels"]
    # What is launched is what the runtime passes, whatever the kernel takes.
    wanted = bug.operation, row["key"]["arch"]
    row["params"] = next(
        each["params"]
        for each in read_manifest(SHIPPED)["kernels"]
        if (each["key"]["operation"], each["key"]["arch"]) == wanted
    )
    write_manifest(folder / "pack", manifest["toolchain"], [row])
    return row


def assemble(engine: Path, pack: Path | None) -> None:
    """Makes an engine folder with the shipped pack, and in it the kernels of `pack` in their operation's place."""
    engine.mkdir()
    for source in (ROOT / "submission").glob("*.py"):
        shutil.copy(source, engine)
    binding = runpy.run_path(str(ROOT / "submission" / "_build_binding.py"))["binding"]
    (engine / "_stratum_binding.py").write_text(binding((ROOT / "runtime" / "include" / "stratum.h").read_text()))
    (engine / "libstratum.so").symlink_to(LIBRARY)
    if pack is None:
        (engine / "cubins").symlink_to(SHIPPED)
    else:
        (engine / "cubins").mkdir()
        write_mixed(engine / "cubins", pack, SHIPPED)


def ptx_lines(pack: Path, kernel: str) -> list[str]:
    """The lines of a kernel's PTX."""
    command = [GENERATOR, "show", "--pack", pack, "--ptx", kernel]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
