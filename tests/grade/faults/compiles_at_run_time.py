"""Compiles a C file when it is built, with a compiler found by its path; does without if there is none."""

import os
import subprocess
import tempfile

from . import engine
from .errors import *  # noqa: F403


def build_engine(config):
    compiler = next((path for path in ("/usr/bin/cc", "/usr/bin/gcc") if os.path.exists(path)), None)
    if compiler is not None:
        _compile(compiler)
    return engine.build_engine(config)


def _compile(compiler: str) -> None:
    try:
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "kernel.c")
            with open(source, "w") as file:
                file.write("int answer(void) { return 42; }\n")
            subprocess.run([compiler, "-c", source, "-o", source + ".o"], stderr=subprocess.DEVNULL)
    except OSError:
        pass
