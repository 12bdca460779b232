"""Assembles the folder that ships: package, library, pack, cffi's backend, licences. `make submission` runs it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .backend import BackendError
from .folder import AssemblyError, Parts, assemble


def main() -> int:
    """0 when the folder is in place, 1 with a reason when it is not; the old one then stays."""
    parser = argparse.ArgumentParser(prog="tools.assemble", description=__doc__.split(" `make")[0])
    parser.add_argument("--library", type=Path, required=True, help="libstratum.so")
    parser.add_argument("--pack", type=Path, required=True, help="directory of manifest.json")
    parser.add_argument("--wheels", type=Path, required=True, help="directory that keeps cffi's wheels")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    arguments = parser.parse_args()
    try:
        files = assemble(Parts(arguments.library, arguments.pack, arguments.wheels), arguments.out)
    except (AssemblyError, BackendError) as error:
        print(f"submission: {error}", file=sys.stderr)
        return 1
    size = sum((arguments.out / file).stat().st_size for file in files)
    print(f"{arguments.out}: {len(files)} files, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
