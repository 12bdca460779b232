"""A run of the bench that nobody measured, with plausible figures: what tests and a look at the page need."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tools.bench import page
from tools.bench.bars import bars
from tools.bench.floors import datasheet
from tools.bench.report import write_json
from tools.bench.rows import row
from tools.bench.shapes import SHAPES, Serving

GPU = "NVIDIA H200"
# Times as multiples of the floor: by contender, for operations that products bound; sustained is slower.
OF_FLOOR = {"ours": 1.4, "triton": 3.1, "cudnn": 1.35, "eager": 25.0, "read": 1.06}
FIXED_MS = {"ours": 0.006, "triton": 0.018, "cudnn": 0.006, "eager": 0.3, "read": 0.004}
NO_EAGER = "its matrices would take about 137 GB, more than 38"
NO_CUDNN = "torch's cuDNN attention has no causal mask for queries that follow a cache"


def made_up_run(**changes: object) -> dict:
    """The facts of a run in which every bar is reached; `changes` replaces keys before the bars are judged."""
    rows = [row for shape in SHAPES for operation in shape.operations for row in _rows(shape, operation)]
    startup = [
        {"head_dim": d, "gate_dim": r, "import": 16.2, "build": 21.6 + d / 10, "build again": 17.0}
        for d in (64, 128)
        for r in (32, 64)
    ]
    host = [{"call": "bare launch", "contender": "driver", "calls": 200, "return_us": 2.9, "wall_us": 8.0}]
    for call, ours in (("decode, 1 sequence", 12.5), ("decode, 64 sequences", 17.0)):
        host.append({"call": call, "contender": "ours", "calls": 200, "return_us": ours, "wall_us": ours + 30})
        host.append({"call": call, "contender": "triton", "missing": "out of luck"})
    facts = {
        "commit": "0123456789abcdef+",
        "date": "2000-01-01",
        "gpu": GPU,
        "driver": "1.2.3",
        "torch": "2.0",
        "triton": "3.0",
        "datasheet": {"tflops": 989, "tbps": 4.8},
        "startup": startup,
        "pack_bytes": 4_500_000,
        "host": host,
        "idle_seconds": 0.2,
        "sustained_seconds": 0.6,
        "rows": rows,
        "failures": [],
        "seconds": 250,
        **changes,
    }
    held = bars(facts)
    facts["bars"] = [{"bar": str(bar), "value": bar.value, "goal": bar.goal, "reached": bar.reached} for bar in held]
    return facts


def _rows(shape, operation: str) -> list[dict]:
    sheet = datasheet(GPU)
    floor = sheet.floor_ms(shape.flops(operation), shape.bytes(operation))
    names, missing = ["ours", "triton", "eager"], {}
    if operation == "decode":
        names.append("read")
    elif isinstance(shape, Serving) and (shape.prefix or len(shape.calls) > 1):
        missing["cudnn"] = NO_CUDNN
    else:
        names.append("cudnn")
    if shape.flops(operation) > 1e12:
        names.remove("eager")
        missing["eager"] = NO_EAGER
    found = []
    for regime, slower, clock in (("burst", 1.0, 1980.0), ("sustained", 1.1, 1755.0)):
        there = [name for name in names if regime == "burst" or name != "eager"]
        times = {name: OF_FLOOR[name] * slower * floor + FIXED_MS[name] for name in there}
        if operation == "decode":
            times |= {name: (1.2 if name == "ours" else 1.5) * floor + FIXED_MS[name] for name in ("ours", "triton")}
        timings = {name: {"milliseconds": ms, "calls": 30, "sm_mhz": clock} for name, ms in times.items()}
        flops = {name: shape.flops(operation) for name in there}
        if "cudnn" in there:
            flops["cudnn"] = (10 if operation == "backward" else 4) * shape.heads.head_dim * shape.pairs
        found.append(row(shape, operation, regime, timings, flops, sheet, missing))
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_json(folder / "results.json", made_up_run())
    print(page.render_if_possible(made_up_run(), folder))
