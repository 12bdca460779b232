"""README.md is true: its commands run, its C program compiles and runs, its tables agree with the code."""

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text()

# Commands that are not run here, and why. Every other command of a ```sh block is.
NOT_RUN = {
    "make test": "is what runs this test",
    "make test-gpu": "needs a GPU",
    "make bench": "needs a GPU",
    "make verify": "compiles every kernel again, minutes; tests/generator verifies a small pack",
}


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]


def test_reasons_are_for_commands_that_the_readme_has():
    assert COMMANDS, "README.md has no ```sh block"
    assert set(NOT_RUN) <= set(COMMANDS)


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_command(command):
    if command in NOT_RUN:
        pytest.skip(f"{command}: {NOT_RUN[command]}")
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
