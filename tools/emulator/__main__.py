"""What the emulator knows of kernels: what they do, and how much of what can be wrong in one its runs find."""

from __future__ import annotations

import argparse
import sys

from .mutants import command as mutants
from .profile import command as profile


def main() -> int:
    """The chosen command's exit code."""
    parser = argparse.ArgumentParser(prog="tools.emulator", description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(required=True, metavar="command")
    mutants.add_to(commands)
    profile.add_to(commands)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
