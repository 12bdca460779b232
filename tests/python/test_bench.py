"""What the bench makes of its measurements: bars, and the Markdown page of results. The measuring needs a GPU."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from bench_run import made_up_run
from conftest import ROOT

from tools.bench import results
from tools.bench.bars import PEER_TFLOPS, bars
from tools.bench.report import missing_lines
from tools.bench.shapes import TRAINING


def rows_of(run: dict, name: str, operation: str) -> list[dict]:
    return [row for row in run["rows"] if (row["name"], row["operation"]) == (name, operation)]


def test_a_bar_for_each_training_operation_and_for_each_fact():
    held = bars(made_up_run())
    names = [f"{operation} of {shape.name}" for shape in TRAINING for operation in ("forward", "backward")]
    assert [bar.name for bar in held[: len(names)]] == names
    assert [bar.name for bar in held[-3:]] == ["import", "build_engine", "pack"]
    assert [str(bar) for bar in held[-3:]] == [
        "reached  import: 16.20 ms, under 150",
        "reached  build_engine: 34.40 ms, under 400",
        "reached  pack: 4.50 MB, under 15",
    ]
    assert all(bar.reached for bar in held)


def test_the_peer_is_held_to_what_it_once_reached_on_that_gpu_alone():
    run = made_up_run()
    names = {f"Triton's {op} of {name}" for name, once in PEER_TFLOPS.items() for op in once}
    assert {bar.name for bar in bars(run)} >= names
    assert PEER_TFLOPS.keys() <= {shape.name for shape in TRAINING}
    name, once = next(iter(PEER_TFLOPS.items()))
    rows_of(run, name, "forward")[0]["contenders"]["triton"]["tflops"] = 0.89 * once["forward"]
    rows_of(run, name, "forward")[1]["contenders"]["triton"]["tflops"] = 1.0  # sustained: no bar
    assert [str(bar) for bar in bars(run) if not bar.reached] == [
        f"missed   Triton's forward of {name}: 0.89 of what it once reached, at least 0.9"
    ]
    run["gpu"] = "NVIDIA H100"
    assert not names & {bar.name for bar in bars(run)}


def test_ours_is_held_to_attention_without_the_gate():
    run = made_up_run()
    for shape in TRAINING:
        rows_of(run, shape.name, "forward")[0]["ratios"]["cudnn"] = 0.1  # burst: no bar
        rows_of(run, shape.name, "forward")[1]["ratios"]["cudnn"] = 1.06
    name = "b1-h16/4-s16384-d64-r32"
    rows_of(run, name, "backward")[1]["ratios"]["cudnn"] = 0.99
    rows_of(run, name, "backward")[1]["contenders"]["ours"]["tflops"] = 499.0
    missed = [str(bar) for bar in bars(run) if not bar.reached]
    assert missed == [
        "missed   forward, geometric mean: 1.06 of cuDNN's, ungated, at least 1.1",
        f"missed   backward of {name}: 0.99 of cuDNN's, ungated, at least 1",
        f"missed   backward of {name}: 499.00 TFLOP/s, at least 500",
    ]
    run["gpu"] = "NVIDIA H100"
    assert all(bar.reached for bar in bars(run))


def test_a_mean_is_of_all_training_shapes():
    run = made_up_run()
    assert "forward, geometric mean" in {bar.name for bar in bars(run)}
    run["rows"] = [row for row in run["rows"] if row["name"] != TRAINING[0].name]
    assert "forward, geometric mean" not in {bar.name for bar in bars(run)}


@pytest.mark.parametrize("ratio", [0.749, math.nan])
def test_the_slower_regime_decides(ratio):
    run, shape = made_up_run(), TRAINING[0]
    rows_of(run, shape.name, "forward")[1]["ratios"]["triton"] = ratio
    rows_of(run, shape.name, "forward")[0]["ratios"]["triton"] = 2.0
    missed = [bar.name for bar in bars(run) if not bar.reached]
    assert missed == [f"forward of {shape.name}"]


@pytest.mark.parametrize(
    ("figure", "value", "missed"),
    [
        ("import", 150.0, "missed   import: 150.00 ms, under 150"),
        ("build", 401.0, "missed   build_engine: 401.00 ms, under 400"),
    ],
)
def test_the_slowest_stratum_decides(figure, value, missed):
    run = made_up_run()
    run["startup"][1][figure] = value
    assert [str(bar) for bar in bars(run) if not bar.reached] == [missed]


def test_a_large_pack():
    run = made_up_run(pack_bytes=15_000_000)
    assert [str(bar) for bar in bars(run) if not bar.reached] == ["missed   pack: 15.00 MB, under 15"]


def test_what_is_missing_is_said_once_a_reason():
    run = made_up_run()
    lines = missing_lines(run["rows"])
    assert len(lines) == len(set(lines)) == 2
    assert "cuDNN, no gate left out of prefill-d64-r64-4-in-chunks, prefill-d128-r64-4-forks: torch's" in " ".join(
        lines
    )


def test_the_markdown_names_commit_gpu_and_driver_in_every_row(tmp_path):
    run = made_up_run()
    results.keep(run, tmp_path, "some")
    assert json.loads((tmp_path / "some.json").read_text()) == run
    text = (tmp_path / "some.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 3  # three tables, no ragged row
    rows = [line for line in lines if "---" not in line and "commit" not in line]
    assert len(rows) == len(run["rows"]) + len(run["host"]) + 3 * len(run["startup"]) + 1
    assert all("| 0123456789+ | NVIDIA H200 | 1.2.3 |" in row for row in rows)
    first = run["rows"][0]
    ours = first["contenders"]["ours"]
    start = f"| {first['name']} | forward, burst | 0123456789+ | NVIDIA H200 | 1.2.3 | {ours['milliseconds']:.3f} |"
    assert rows[0].startswith(f"{start} {ours['tflops']:.0f} TFLOP/s | 1980 | ")
    assert "| bare launch | driver | 0123456789+ | NVIDIA H200 | 1.2.3 | 2.9 | 8.0 |" in rows
    assert "| decode, 1 sequence | Triton | 0123456789+ | NVIDIA H200 | 1.2.3 | - | - |" in rows
    assert all(f"- {bar['bar']}" in text.splitlines() for bar in run["bars"])


def test_a_run_of_an_unknown_commit_is_refused(tmp_path):
    run = tmp_path / "run.json"
    run.write_text(json.dumps(made_up_run(commit=None)))
    command = [sys.executable, "-m", "tools.bench.results", str(run), "--folder", str(tmp_path / "kept")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "commit: expected a name, got None; run the bench with --commit" in done.stderr
    assert not (tmp_path / "kept").exists()
