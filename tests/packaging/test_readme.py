"""README.md is true: its commands run, its programs are the examples, its tables agree with the package."""

import ast
import builtins
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text()

# Commands of ```sh blocks that are not run here, and why. All others are.
NOT_RUN = {
    "make test": "is what runs this test",
    "make test-gpu": "needs a GPU",
    "make bench": "needs a GPU",
    "make grade": "needs a GPU; tests/grade runs the harness without one",
    "make sweep": "compiles a hundred kernels; tests/sweep compiles and sweeps a few",
    "make cubins": "would write cubins/; test_strata.py builds a pack elsewhere",
    "make mutants": "runs every mutant, for long; tests/mutants runs a sample",
    "make verify": "compiles every kernel again, for minutes; a small pack is verified by tests/generator",
}
NEEDS_DRIVER = {"build/embed build/submission/cubins"}  # runs on the emulator, which executes nothing


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def table(heading: str) -> list[list[str]]:
    """Cells of the rows of the first table below a heading, its header left out."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


COMMANDS = list(dict.fromkeys(line for block in blocks("sh") for line in block.splitlines()))


@pytest.fixture(scope="module")
def package(submission):
    """The assembled package, imported."""
    sys.path.insert(0, str(submission.parent))
    try:
        yield importlib.import_module(submission.name)
    finally:
        sys.path.remove(str(submission.parent))


def test_the_reasons_are_for_commands_that_the_readme_has():
    assert COMMANDS[:2] == ["make run", "make test"]
    assert set(NOT_RUN) | NEEDS_DRIVER <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command, submission, emulator):
    if command in NOT_RUN:
        pytest.skip(f"{command}: {NOT_RUN[command]}")
    # As from a shell of its own; folders are assembled beside the one that the other tests look at.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment["SUBMISSION"] = "build/readme-submission"
    if command in NEEDS_DRIVER:
        environment |= {"STRATUM_DRIVER": str(emulator), "STRATUM_EMULATOR_EXECUTE": "0"}
    shell = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(shell, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_c_program_is_the_example_and_compiles_without_a_warning(submission, tmp_path):
    assert blocks("c") == [(REPOSITORY / "examples" / "embed.c").read_text()]
    strict = ["cc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I", "runtime/include", "examples/embed.c"]
    subprocess.run(
        [*strict, "-L", submission, "-lstratum", "-o", tmp_path / "embed"], cwd=REPOSITORY, check=True
    )  # fmt: skip


def test_the_files_named_are_there():
    named = set(re.findall(r"`((?:docs|examples|runtime|templates)/[\w./]+)`", README))
    assert len(named) > 4
    assert [name for name in sorted(named) if not (REPOSITORY / name).exists()] == []


def test_the_python_program_calls_what_there_is(package):
    (program,) = blocks("python")
    calls = {
        node.attr
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "engine"
    }
    assert {"attention", "prefill", "decode", "fork"} <= calls
    assert [name for name in calls if not callable(getattr(package.Engine, name, None))] == []


def test_the_configuration_table_has_every_key(submission, emulator):
    exercise = Path(__file__).parent / "exercise.py"
    config = {
        "head_dim": 64, "gate_dim": 32, "q_heads": 2, "kv_heads": 1,
        "max_sequences": 4, "max_seq_len": 1024, "max_cached_tokens": 2048,
    }  # fmt: skip
    command = [sys.executable, exercise, submission, json.dumps(config), emulator]
    engine = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["engine"]
    keys = {key for row in table("Configuration") for key in re.findall(r"`(\w+)`", row[0])}
    assert keys == set(engine["config"])


def test_the_errors_table_has_every_exception_with_its_base(package):
    listed = set()
    for names, bases, _ in table("Errors"):
        names, bases = re.findall(r"`(\w+)`", names), re.findall(r"`(\w+)`", bases)
        bases = bases * len(names) if len(bases) == 1 else bases
        for name, base in zip(names, bases, strict=True):
            assert issubclass(getattr(package, name), (package.EngineError,)), name
            assert issubclass(getattr(package, name), getattr(builtins, base)), f"{name} is no {base}"
            listed.add(name)
    exceptions = {
        name for name in package.__all__ if name.endswith("Error") or name in ("UnknownSequence", "PagesExhausted")
    }
    assert listed == exceptions - {"EngineError"}


def test_the_folders_listed_are_there():
    for folder, _ in table("Where things are"):
        assert (REPOSITORY / folder.strip("`")).is_dir(), folder
