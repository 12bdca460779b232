"""Sweeps for the tests: the real generator on real plans, or made-up states with made-up times."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from made_up import ROOT, SWEEP, compiled_state

from tools.sweep.generator import Generator

BUILD = Path(os.environ.get("STRATUM_BUILD", ROOT / "build" / "release")).resolve()


@pytest.fixture(scope="session")
def program() -> Path:
    """stratum-gen; fails the test with the command that makes it."""
    program = BUILD / "generator" / "stratum-gen"
    if not program.is_file():
        pytest.fail(f"{program} is missing; `make build` makes it")
    return program


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Path:
    """A build cache of the session's own."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def generator(program, cache) -> Generator:
    """stratum-gen in the project's folder."""
    return Generator(program, ROOT, cache)


@pytest.fixture
def sweep_file(tmp_path):
    """Writes a sweep file: that of made_up.py with changes; a field changed to None is left out."""

    def write(**changes) -> Path:
        fields = {name: value for name, value in {**SWEEP, **changes}.items() if value is not None}
        path = tmp_path / "sweep.json"
        path.write_text(json.dumps(fields))
        return path

    return write


@pytest.fixture
def project(tmp_path) -> Path:
    """A project folder that holds the plan of SWEEP, free to be changed."""
    plan = tmp_path / "project" / SWEEP["plan"]
    plan.parent.mkdir(parents=True)
    shutil.copyfile(ROOT / SWEEP["plan"], plan)
    return tmp_path / "project"


@pytest.fixture
def compiled(tmp_path, project, sweep_file):
    """A state whose points have made-up packs; see made_up.compiled_state."""
    return compiled_state(tmp_path / "state", sweep_file(), project)
