"""A copy of an assembled folder whose pack lacks an arch's kernels: an engine takes the next ones in their place.

    python -m tools.assemble.without sm_90a build/submission build/portable/submission

It is how the portable kernels are tested at 9.0, on the emulator and on a Hopper GPU.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from tools.sweep.pack import read_manifest, write_manifest

from .publish import publish


def copy_pack_without(arch: str, pack: Path, out: Path) -> None:
    """Fills an empty folder with the pack's kernels but those of `arch`, of which there may be none."""
    manifest = read_manifest(pack)
    kept = [row for row in manifest["kernels"] if row["key"]["arch"] != arch]
    for row in kept:
        for form in ("cubin", "ptx"):
            shutil.copyfile(pack / row[form]["file"], out / row[form]["file"])
    write_manifest(out, manifest["toolchain"], kept)


def copy_without(arch: str, submission: Path, out: Path) -> None:
    """Copies an assembled folder to `out`, whole or not at all, without the kernels of `arch`."""
    with publish(out) as folder:
        shutil.copytree(submission, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("cubins", "__pycache__"))
        (folder / "cubins").mkdir()
        copy_pack_without(arch, submission / "cubins", folder / "cubins")


def main() -> int:
    """0 when the copy is in place."""
    parser = argparse.ArgumentParser(prog="tools.assemble.without", description=__doc__.split("\n\n")[0])
    parser.add_argument("arch", help="sm_90a, say")
    parser.add_argument("submission", type=Path, help="the assembled folder")
    parser.add_argument("out", type=Path, help="the folder to make")
    arguments = parser.parse_args()
    copy_without(arguments.arch, arguments.submission, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
