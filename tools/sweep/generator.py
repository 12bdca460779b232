"""stratum-gen, as far as a sweep needs it. Plans are checked by the generator alone: no rule of theirs stands here."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from . import pack

INPUT_WRONG = "input"  # the kind of error that is the plan's fault; the other is the toolchain's


class MachineError(RuntimeError):
    """This machine can't do a stage: something is missing or fails; the text says what."""


class Generator:
    """The program, run in the project's folder. cache: folder of the build cache."""

    def __init__(self, program: Path, root: Path, cache: Path) -> None:
        """Errors: MachineError if the program isn't there."""
        self._program, self._root, self._cache = program.resolve(), root, cache.resolve()
        if not program.is_file():
            raise MachineError(f"{program}: no stratum-gen there; `make build` makes it, --generator names another")

    def refusal(self, plan: Path) -> str | None:
        """Why a plan can't work, or None if nothing speaks against compiling it. Takes milliseconds."""
        with tempfile.TemporaryDirectory(prefix="sweep-") as empty:
            pack.write_manifest(Path(empty), {"nvrtc": "none", "ptxas": "none"}, [])
            error = self._run("verify", "--keys", "--plans", plan.resolve(), "--pack", empty).get("error")
        if error and f"{plan.name}: " not in error["message"].partition("\n")[0]:
            raise MachineError(error["message"])  # it isn't about the plan
        return error and _reason(error["message"])

    def is_current(self, plan: Path, kernels: Path) -> bool:
        """Whether a pack holds just what the plan and the kernels' sources give now."""
        return self._run("verify", "--keys", "--plans", plan.resolve(), "--pack", kernels.resolve())["ok"]

    def build(self, plan: Path, kernels: Path) -> str | None:
        """Compiles a plan's kernels into a pack through the cache; returns why that failed, or None."""
        done = self._run(
            "build", "--jobs", "1", "--plans", plan.resolve(), "--out", kernels.resolve(), "--cache", self._cache
        )
        return None if done["ok"] else _reason(done["error"]["message"])

    def _run(self, *arguments: object) -> dict:
        command = [str(self._program), *map(str, arguments), "--json"]
        done = subprocess.run(command, cwd=self._root, capture_output=True, text=True)
        try:
            result = json.loads(done.stdout)
        except ValueError:
            raise MachineError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}") from None
        if result.get("error", {}).get("kind", INPUT_WRONG) != INPUT_WRONG:
            raise MachineError(result["error"]["message"])
        return result


def _reason(message: str) -> str:
    """The first line of a message without the file or kernel that it begins with."""
    return message.partition("\n")[0].partition(": ")[2]
