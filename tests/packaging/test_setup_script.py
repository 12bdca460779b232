"""tools/setup/packages.sh: installs what is missing and nothing else, or says what to install.

The script runs with a PATH of small stand-ins, so nothing is installed.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "setup" / "packages.sh"
ALL_BUT_COMMANDS = ["catch2", "libcli11-dev", "libfmt-dev", "libmd-dev", "libzstd-dev", "nlohmann-json3-dev"]


class Machine:
    """A PATH with the commands that a test wants, and a record of what apt-get was asked."""

    def __init__(self, folder: Path):
        self.bin = folder / "bin"
        self.log = folder / "apt.log"
        self.bin.mkdir()
        for command in ("bash", "env", "cat"):
            (self.bin / command).symlink_to(shutil.which(command))
        for command in ("cmake", "ninja", "g++", "python3"):
            self.add(command, "exit 0")
        self.add("id", "echo 0")

    def add(self, command: str, body: str) -> None:
        path = self.bin / command
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def remove(self, command: str) -> None:
        (self.bin / command).unlink()

    def add_apt(self) -> None:
        self.add("apt-get", f'echo "$@" >> {self.log}')

    def run(self) -> subprocess.CompletedProcess:
        return subprocess.run(
            [shutil.which("bash"), SCRIPT, "python3"], env={"PATH": str(self.bin)}, capture_output=True, text=True
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_nothing_missing_asks_nobody(machine):
    done = machine.run()  # not even an apt-get on the PATH
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_installs_exactly_what_is_missing(machine):
    machine.add_apt()
    machine.remove("ninja")
    machine.add("g++", 'read -r line; case "$line" in *zstd.h*|*fmt/*) exit 1;; esac')
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert done.stdout == "setup: installing ninja-build libfmt-dev libzstd-dev\n"
    update, install = machine.log.read_text().splitlines()
    assert update.startswith("update")
    assert install.split()[0] == "install"
    assert [word for word in install.split()[1:] if not word.startswith("-")] == [
        "ninja-build",
        "libfmt-dev",
        "libzstd-dev",
    ]


def test_either_generation_of_catch2_will_do(machine):
    machine.add("g++", 'read -r line; case "$line" in *catch2/catch.hpp*) exit 1;; esac')
    assert machine.run().returncode == 0


def test_python_without_venv(machine):
    machine.add_apt()
    machine.add("python3", "exit 1")
    assert machine.run().stdout == "setup: installing python3-venv\n"


def test_sudo_is_used_by_other_users(machine):
    machine.add("id", "echo 1000")
    machine.add_apt()
    machine.add("sudo", f'echo sudo "$@" >> {machine.log}')
    machine.remove("cmake")
    assert machine.run().returncode == 0
    asked = [line.split() for line in machine.log.read_text().splitlines()]
    assert len(asked) == 2 and all(words[0] == "sudo" and "apt-get" in words for words in asked)


@pytest.mark.parametrize("why", ["no apt-get", "no sudo"])
def test_lists_what_to_install_by_hand(machine, why):
    machine.add("g++", "exit 1")
    if why == "no sudo":
        machine.add("id", "echo 1000")
        machine.add_apt()
    done = machine.run()
    assert done.returncode == 1 and done.stdout == ""
    listed = [line.strip() for line in done.stderr.splitlines() if line.startswith("    ")]
    assert sorted(listed) == ALL_BUT_COMMANDS
    assert not machine.log.exists()
    assert done.stderr.startswith("These packages are missing") and "run make again" in done.stderr
