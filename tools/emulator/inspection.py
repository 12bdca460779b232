"""What the emulator tells and changes of a kernel's instructions (driver/inspect.h), through ctypes."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path


class Inspection:
    """emulator: the library; where STRATUM_DRIVER names it too, it is the same copy that libstratum.so opens."""

    def __init__(self, emulator: Path):
        self._library = ctypes.CDLL(str(emulator.resolve()))
        for name in ("emulator_ptx", "emulator_override", "emulator_fault", "emulator_counters"):
            getattr(self._library, name).restype = ctypes.c_char_p
        for name in ("emulator_fault_count", "emulator_coverage"):
            getattr(self._library, name).restype = ctypes.c_int64

    def ptx(self, kernel: str) -> str:
        """The pack's PTX of a kernel. Errors: LookupError if the pack has none of that name."""
        text = self._library.emulator_ptx(kernel.encode())
        if text is None:
            raise LookupError(f"kernel: expected one of the pack's, got {kernel}")
        return text.decode()

    def override(self, kernel: str, ptx: str | None) -> None:
        """Launches of the kernel run `ptx`; None: the pack's again. Errors: ValueError for a text that can't be run."""
        problem = self._library.emulator_override(kernel.encode(), ptx and ptx.encode())
        if problem is not None:
            raise ValueError(f"ptx: expected a text that the emulator runs, got one it refuses: {problem.decode()}")

    def checks(self, on: bool) -> None:
        """Whether launches are checked and counted, which they are at first."""
        self._library.emulator_checks(int(on))

    def exact_mma(self, on: bool) -> None:
        """Whether MMAs are rounded as the hardware's, or sum in float32, which is faster."""
        self._library.emulator_exact_mma(int(on))

    def limit(self, instructions: int) -> None:
        """The instructions that the warps of a block may execute, more being a fault; 0: any number."""
        self._library.emulator_limit(ctypes.c_int64(instructions))

    def coverage(self, kernel: str) -> dict[int, int]:
        """PTX line → how often warps executed its instruction in all checked launches so far; {} if there was none."""
        lines = self._library.emulator_coverage(kernel.encode(), None, ctypes.c_int64(0))
        counts = (ctypes.c_int64 * lines)()
        self._library.emulator_coverage(kernel.encode(), counts, ctypes.c_int64(lines))
        return {line: count for line, count in enumerate(counts) if count >= 0}

    def counters(self, kernel: str) -> dict | None:
        """What a kernel did in all checked launches so far, as emulator_counters says; None if there was none."""
        text = self._library.emulator_counters(kernel.encode())
        return text and json.loads(text)

    def forget_counts(self) -> None:
        """Begins counting anew."""
        self._library.emulator_forget_counts()

    def faults(self) -> list[str]:
        """What went wrong since the last reset."""
        count = self._library.emulator_fault_count()
        return [self._library.emulator_fault(ctypes.c_int64(i)).decode() for i in range(count)]

    def reset(self) -> None:
        """Forgets faults and whatever they left behind; live objects stay."""
        self._library.emulator_reset()
