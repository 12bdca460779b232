"""The CPythons of this machine."""

import os
import shutil
import subprocess
from pathlib import Path

from tools.assemble.backend import PYTHONS


def interpreters() -> dict[str, Path]:
    """Supported CPythons of this machine, version → interpreter: those on PATH, and those that pyenv keeps."""
    found = {}
    candidates = [shutil.which(f"python{version}") for version in PYTHONS] + ["/usr/bin/python3"]
    candidates += sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin/python3"))
    # A candidate may be a script that picks an interpreter, so each is asked where the interpreter itself is.
    question = "import sys; print('{}.{}'.format(*sys.version_info), sys.implementation.name, sys.executable)"
    for candidate in filter(None, candidates):
        try:
            answer = subprocess.run([candidate, "-c", question], capture_output=True, text=True, timeout=30)
        except OSError:
            continue
        if answer.returncode != 0:
            continue
        version, name, executable = answer.stdout.strip().split(" ", 2)
        if name == "cpython" and version in PYTHONS:
            found.setdefault(version, Path(executable))
    return found
