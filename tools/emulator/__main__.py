"""`python -m tools.emulator mutants`: how much of what can be wrong in a kernel its runs on the emulator find."""

from __future__ import annotations

import argparse
import sys

from .mutants import command as mutants


def main() -> int:
    """The chosen command's exit code."""
    parser = argparse.ArgumentParser(prog="tools.emulator", description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(required=True, metavar="command")
    mutants.add_to(commands)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
