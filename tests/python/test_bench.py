"""What the bench makes of its measurements: bars, and the page of results. The measuring needs a GPU."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from conftest import ROOT

from tools.bench import results
from tools.bench.bars import bars
from tools.bench.shapes import SHAPES


def timing(milliseconds: float) -> dict:
    return {"milliseconds": milliseconds, "calls": 10, "sm_mhz": None, "tflops": 100 / milliseconds}


def facts(**changes) -> dict:
    """A run in which every bar is reached."""
    rows = [
        {"name": shape.name, "step": step, "regime": regime, "ours": timing(1), "peer": timing(ratio), "ratio": ratio}
        for shape in SHAPES[:2]
        for step in ("forward", "backward")
        for regime, ratio in (("burst", 0.9), ("sustained", 0.8))
    ]
    startup = [{"head_dim": 64, "gate_dim": 32, "import": 40.0, "build": 120.0, "build again": 90.0}]
    run = {
        "commit": "0123456789abcdef",
        "gpu": "some GPU",
        "driver": "1.2.3",
        "torch": "2.0",
        "triton": "3.0",
        "startup": startup,
        "pack_bytes": 4_500_000,
        "decode_host": [{"batch": 1, "calls": 200, "microseconds": 21.5}],
        "idle_seconds": 0.3,
        "sustained_seconds": 1.2,
        "rows": rows,
        "failures": [],
        **changes,
    }
    run["bars"] = [{"bar": str(bar), "value": bar.value, "goal": bar.goal, "reached": bar.reached} for bar in bars(run)]
    return run


def test_a_bar_for_each_step_and_shape_and_for_each_fact():
    held = bars(facts())
    names = [f"{step} of {shape.name}" for shape in SHAPES[:2] for step in ("forward", "backward")]
    assert [bar.name for bar in held] == [*names, "import", "build_engine", "pack"]
    assert all(bar.reached for bar in held)
    assert str(held[0]) == f"reached  forward of {SHAPES[0].name}: 0.80 of the peer's speed, at least 0.75"
    assert [str(bar) for bar in held[4:]] == [
        "reached  import: 40.00 ms, under 150",
        "reached  build_engine: 120.00 ms, under 400",
        "reached  pack: 4.50 MB, under 15",
    ]


@pytest.mark.parametrize("ratio", [0.749, math.nan])
def test_the_slower_regime_decides(ratio):
    run = facts()
    run["rows"][1]["ratio"] = ratio
    assert [bar.name for bar in bars(run) if not bar.reached] == [f"forward of {SHAPES[0].name}"]


@pytest.mark.parametrize(
    ("figure", "value", "missed"),
    [
        ("import", 150.0, "missed   import: 150.00 ms, under 150"),
        ("build", 401.0, "missed   build_engine: 401.00 ms, under 400"),
    ],
)
def test_the_slowest_stratum_decides(figure, value, missed):
    run = facts()
    run["startup"].append({**run["startup"][0], figure: value})
    run["startup"].append(run["startup"][0])
    assert [str(bar) for bar in bars(run) if not bar.reached] == [missed]


def test_a_large_pack():
    run = facts(pack_bytes=15_000_000)
    assert [str(bar) for bar in bars(run) if not bar.reached] == ["missed   pack: 15.00 MB, under 15"]


def test_the_page_names_commit_gpu_and_driver_in_every_row(tmp_path):
    run = facts()
    results.keep(run, tmp_path)
    assert json.loads((tmp_path / "portable.json").read_text()) == run
    text = (tmp_path / "portable.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 2  # two tables, no ragged row
    rows = [line for line in lines if "---" not in line and "commit" not in line]
    assert len(rows) == len(run["rows"]) + 3 + 1 + 1
    assert all("| 0123456789 | some GPU | 1.2.3 |" in row for row in rows)
    assert f"| {SHAPES[0].name} | forward, burst | 0123456789 | some GPU | 1.2.3 | 1.000 | 100 | - |" in rows[0]
    assert rows[-1] == "| decode, batch 1 | 0123456789 | some GPU | 1.2.3 | 21.5 | us |"
    assert all(f"- {bar['bar']}" in text.splitlines() for bar in run["bars"])


def test_a_run_of_an_unknown_commit_is_refused(tmp_path):
    run = tmp_path / "run.json"
    run.write_text(json.dumps(facts(commit=None)))
    command = [sys.executable, "-m", "tools.bench.results", str(run), "--folder", str(tmp_path / "kept")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "commit: expected a name, got None; run the bench with --commit" in done.stderr
    assert not (tmp_path / "kept").exists()
