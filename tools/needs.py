"""Says which Python modules a tool lacks, and in which Python, before an import ends in a traceback."""

from __future__ import annotations

import importlib.util
import sys


def missing(*modules: str) -> str | None:
    """What is missing, "torch is missing in PYTHON", or None. modules: top-level names; none is imported."""
    names = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} missing in {sys.executable}" if names else None


def need(*modules: str) -> None:
    """Ends the program, `python -m TOOL`, with exit code 2 unless all modules are there. Call it before importing."""
    if lack := missing(*modules):
        print(f"{sys.modules['__main__'].__spec__.parent}: {lack}; PYTHON=... names another", file=sys.stderr)
        sys.exit(2)
