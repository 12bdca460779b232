"""What becomes of a mutant: the scenario of its kernel is run with it and with the true kernel, in this process."""

from __future__ import annotations

import importlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.demo.device_memory import Device

from ..inspection import Inspection
from .scenarios import SCENARIOS, Scenario, operation_of

_RUNS_BETWEEN_PROOFS = 32
_LIMIT = 1_000_000  # instructions of a block: ten times what any scenario needs
_CHECK = re.compile(r"PTX line \d+: ([a-z]+):")


@dataclass(frozen=True)
class Outcome:
    """killed: by what, "" for a survivor: "result", a check's name, "refused" for a text that isn't run, "crash".

    detail: the fault's text, or which result differs.
    """

    killed: str
    detail: str = ""


@dataclass(frozen=True)
class Stratum:
    """The kernels to run: a compute capability such as "8.0", and the plan's dims and dtype ("bfloat16", "float16")."""

    capability: str
    head_dim: int
    gate_dim: int
    dtype: str

    @property
    def config(self) -> dict:
        """What the engine is told of it."""
        return {"head_dim": self.head_dim, "gate_dim": self.gate_dim, "dtype": self.dtype}


class Worker:
    """Runs mutants of a stratum's kernels.

    submission: the assembled folder; emulator: the driver library. Both are for good: a process has one Worker.
    """

    def __init__(self, submission: Path, emulator: Path, stratum: Stratum, kernels: dict[str, str]):
        os.environ["STRATUM_DRIVER"] = str(emulator.resolve())
        os.environ["STRATUM_EMULATOR_CC"] = stratum.capability
        os.environ["STRATUM_EMULATOR_PACK"] = str(submission.resolve() / "cubins")
        sys.path.insert(0, str(submission.resolve().parent))
        self._package = importlib.import_module(submission.name)
        self._device, self._inspection = Device(), Inspection(emulator)
        self._inspection.limit(_LIMIT)
        self._stratum, self._kernels = stratum, kernels
        self._scenario: Scenario | None = None
        self._operation, self._expected = "", []
        self._runs = 0

    def run(self, kernel: str, ptx: str) -> Outcome:
        """What becomes of the text in the kernel's place. RuntimeError if the true kernel no longer does as it did."""
        self._choose(operation_of(kernel))
        self._runs += 1
        if self._runs % _RUNS_BETWEEN_PROOFS == 0:
            self._prove()
        # Most are found without the emulator's checks, which take several times as long.
        outcome = self._try(kernel, ptx, checks=False)
        return outcome if outcome.killed else self._try(kernel, ptx, checks=True)

    def _try(self, kernel: str, ptx: str, checks: bool) -> Outcome:
        self._spoil()
        self._inspection.checks(checks)
        if checks:
            self._scenario.renew()
        try:
            self._inspection.override(kernel, ptx)
        except ValueError as error:
            return Outcome("refused", str(error))
        try:
            return self._compare()
        finally:
            self._inspection.override(kernel, None)
            self._inspection.reset()
            self._device.call("cuCtxSynchronize")  # a failed call's copies may still be queued

    def _spoil(self) -> None:
        self._inspection.checks(False)
        self._scenario.spoil()

    def coverage(self, kernel: str) -> dict[int, int]:
        """PTX line → how often its instruction was executed by the scenario of the kernel."""
        self._choose(operation_of(kernel))
        return self._inspection.coverage(kernel)

    def _choose(self, operation: str) -> None:
        if operation == self._operation:
            return
        if self._scenario:
            self._prove()
            self._scenario.close()
        self._operation = operation
        self._inspection.reset()
        self._inspection.checks(False)
        self._scenario = SCENARIOS[operation](
            self._package, self._device, self._inspection, self._stratum.config, self._kernels
        )
        self._spoil()
        self._inspection.checks(True)
        self._scenario.renew()
        self._expected = list(self._scenario.run())
        if self._inspection.faults():
            raise RuntimeError(f"{operation}: the true kernel has faults: {self._inspection.faults()}")

    def _prove(self) -> None:
        """Mutants must have left nothing behind that changes what the true kernel does."""
        self._spoil()
        outcome = self._compare()
        if outcome.killed:
            raise RuntimeError(f"{self._operation}: the true kernel is killed by {outcome.killed}: {outcome.detail}")

    def _compare(self) -> Outcome:
        try:
            for number, (found, expected) in enumerate(zip(self._scenario.run(), self._expected)):
                if faults := self._inspection.faults():
                    break
                if not np.array_equal(found, expected):
                    count = np.count_nonzero(found != expected)
                    return Outcome("result", f"{count} of {found.size} elements of result {number} differ")
        except (RuntimeError, self._package.errors.EngineError):
            faults = self._inspection.faults()
            if not faults:
                raise
        if not faults:
            return Outcome("")
        named = _CHECK.search(faults[0])
        return Outcome(named[1] if named else "fault", faults[0])
