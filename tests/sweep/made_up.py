"""What a sweep's stages hand on, made up: packs without kernels in them, and a bench that needs no GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.sweep.pack import write_manifest
from tools.sweep.state import COMPILED, FAILED, REFUSED, State
from tools.sweep.sweep import Case

ROOT = Path(__file__).resolve().parents[2]

SWEEP = {
    "name": "made-up",
    "plan": "tests/sweep/gated_d64_r32_sm90.json",  # not one that ships: those change
    "operation": "forward",
    "tile": {"tile_m": [64, 128], "tile_n": [32, 64, 256]},
    "dtypes": ["bfloat16"],
    "shapes": [
        {"batch": 1, "length": 256, "q_heads": 4, "kv_heads": 2},
        {"batch": 2, "length": 128, "q_heads": 4, "kv_heads": 4},
    ],
    "rounds": 8,
}
INCUMBENT = "tile_m64-tile_n64"
TIMED = [INCUMBENT, "tile_m64-tile_n32", "tile_m128-tile_n32", "tile_m128-tile_n64"]
CASES = ["bfloat16 b1-h4/2-s256", "bfloat16 b2-h4/4-s128"]


def compiled_state(folder: Path, sweep: Path, project: Path) -> State:
    """The state of SWEEP after its compile stage: tile_n 256 was refused or failed, the rest has packs."""
    state = State.create(folder, sweep, project, commit="0123456789abcdef")
    for number, point in enumerate(state.points):
        if state.points[point]["tile_n"] == 256:
            why = (REFUSED, 'needs about 300 registers a thread ("…")', FAILED, "8 bytes of spills; accepted: none")
            state.decide(point, *(why[:2] if state.points[point]["tile_m"] == 64 else why[2:]))
        else:
            write_pack(state.pack(point), registers=100 + number)
            state.decide(point, COMPILED)
    return state


def write_pack(folder: Path, registers: int) -> None:
    """A pack of one row, as far as a sweep reads it."""
    folder.mkdir(parents=True)
    row = {"name": "made_up", "registers": registers, "shared_bytes": 1000, "static_shared_bytes": 24}
    write_manifest(folder, {"nvrtc": "1", "ptxas": "1"}, [row])


class FakeBench:
    """A Bench with made-up times. time: (point, case, turn) -> milliseconds.

    wrong: point -> what is wrong with it, or an error to raise.
    """

    def __init__(
        self, time: Callable[[str, str, int], float] = lambda point, case, turn: 1.0, wrong: dict | None = None
    ) -> None:
        self.time, self.wrong = time, wrong or {}
        self.checked: list[str] = []
        self.turns: list[tuple[str, str]] = []
        self.gpu = "made-up GPU"

    def machine(self) -> dict[str, str]:
        return {"gpu": self.gpu, "driver": "1.2.3"}

    def check(self, point: str) -> str | None:
        self.checked.append(point)
        reason = self.wrong.get(point)
        if isinstance(reason, BaseException):
            raise reason
        return reason

    def require_usable(self) -> None:
        pass

    def milliseconds(self, point: str, case: Case) -> float:
        self.turns.append((point, case.name))
        return self.time(point, case.name, len(self.turns))
