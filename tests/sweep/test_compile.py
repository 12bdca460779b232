"""The compile stage, with the real generator and compilers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from made_up import ROOT, SWEEP

from tools.sweep.compiling import compile_points
from tools.sweep.dropped import counts, dropped, kind_of
from tools.sweep.generator import Generator, MachineError
from tools.sweep.pack import read_manifest
from tools.sweep.state import COMPILED, State
from tools.sweep.sweep import SweepError

SERVING_SHAPE = {"batch": 1, "length": 1, "cached": 64, "q_heads": 4, "kv_heads": 2}
# The smallest kernels there are: half a second each.
MERGE = {"operation": "decode_merge", "tile": {"warps": [1, 2, 4, 8]}, "shapes": [SERVING_SHAPE]}


def create(tmp_path, sweep) -> State:
    return State.create(tmp_path / "state", sweep, ROOT, commit=None)


def test_what_cannot_work_is_refused_before_compiling_with_the_generators_reason(tmp_path, sweep_file, generator):
    ranges = {"tile_m": [64, 72], "tile_n": [64, 256], "blocks_per_sm": [2, 9]}
    state = create(tmp_path, sweep_file(tile=ranges))
    del state.points["tile_m64-tile_n64-blocks_per_sm2"]  # so that nothing is left to compile
    compile_points(state, generator, ROOT, jobs=1)
    reasons = {point: reason for point, (became, reason) in dropped(state).items() if became == "refused"}
    assert len(reasons) == 7 and not (tmp_path / "state" / "packs").exists()
    assert reasons["tile_m72-tile_n64-blocks_per_sm2"].startswith("kernels.forward.tile.tile_m: expected")
    assert reasons["tile_m64-tile_n256-blocks_per_sm2"].startswith("kernels.forward.tile: needs about 344 registers")
    assert reasons["tile_m64-tile_n64-blocks_per_sm9"].startswith("kernels.forward.tile.blocks_per_sm: expected")
    largest, second, third = counts(state)
    assert largest.startswith("4 refused: kernels.forward.tile.blocks_per_sm: expected ")
    assert largest.endswith(" got 9 (tile_m64-tile_n64-blocks_per_sm9)")
    assert second.startswith("2 refused: kernels.forward.tile.tile_m: expected ")
    needs = "1 refused: kernels.forward.tile: needs about 344 registers a thread"
    assert third == f"{needs} (tile_m64-tile_n256-blocks_per_sm2)"


def test_points_are_compiled_or_fail_with_the_compilers_reason(tmp_path, sweep_file, generator):
    ranges = {"tile_m": [64, 128], "tile_n": [96], "blocks_per_sm": [2, 4]}
    state = create(tmp_path, sweep_file(tile=ranges))
    compile_points(state, generator, ROOT, jobs=2)
    assert not state.undecided
    good, failed = state.with_state(COMPILED), dropped(state)
    assert state.incumbent in good and "tile_m128-tile_n96-blocks_per_sm4" in failed
    became, reason = failed["tile_m128-tile_n96-blocks_per_sm4"]
    assert became == "failed" and "bytes of spills; accepted: none without `allow_spills`" in reason
    for point in good:
        (row,) = read_manifest(state.pack(point))["kernels"]
        assert row["tile"] == state.points[point]
        assert row["key"]["operation"] == "forward" and row["key"]["dtype"] == "bfloat16"
        assert (state.pack(point) / row["cubin"]["file"]).is_file()


def test_the_cache_serves_a_second_sweep(tmp_path, sweep_file, generator, cache):
    sweep = sweep_file(**MERGE)
    compile_points(create(tmp_path, sweep), generator, ROOT, jobs=2)
    entries = sorted(cache.glob("*.json"))
    second = State.create(tmp_path / "second", sweep, ROOT, commit=None)
    compile_points(second, generator, ROOT, jobs=2)
    assert sorted(cache.glob("*.json")) == entries
    assert len(second.with_state(COMPILED)) == 4


def test_a_killed_stage_goes_on_with_what_is_left(tmp_path, sweep_file, program):
    folder, sweep = tmp_path / "state", sweep_file(**MERGE)
    command = [sys.executable, "-m", "tools.sweep", "compile", str(sweep), "--state", str(folder), "--jobs", "1"]
    command += ["--generator", str(program), "--cache", str(tmp_path / "cache")]
    first = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    points, deadline = folder / "points.json", time.monotonic() + 60
    while not points.exists():
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = State(folder)
    assert before.undecided and before.decided
    stamps = {point: (before.pack(point) / "manifest.json").stat().st_mtime_ns for point in before.decided}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    after = State(folder)
    assert not after.undecided and len(after.with_state(COMPILED)) == 4
    assert {point: (after.pack(point) / "manifest.json").stat().st_mtime_ns for point in stamps} == stamps
    assert f"compiling {len(before.undecided)}/{len(before.undecided)}, 0 s left" in done.stderr


def test_an_incumbent_that_cannot_work_ends_the_stage_and_is_not_noted(tmp_path, sweep_file, generator):
    plan = json.loads((ROOT / SWEEP["plan"]).read_text())
    plan["kernels"]["decode_merge"]["tile"]["warps"] = 64
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    state = create(tmp_path, sweep_file(**MERGE, plan=str(path)))
    with pytest.raises(SweepError, match="the plan's own tile, warps64: refused: .*warps: expected"):
        compile_points(state, generator, ROOT, jobs=1)
    assert state.undecided == list(state.points)


def test_kernels_of_other_sources_are_not_mixed_with_todays(tmp_path, sweep_file, generator):
    state = create(tmp_path, sweep_file(**{**MERGE, "tile": {"warps": [4, 8]}}))
    compile_points(state, generator, ROOT, jobs=1)
    other = json.loads(state.plan_file("warps8").read_text())
    other["kernels"]["decode_merge"]["tile"]["warps"] = 2
    state.plan_file("warps8").write_text(json.dumps(other))
    with pytest.raises(SweepError, match="packs/warps8: built from other sources than today's; remove"):
        compile_points(state, generator, ROOT, jobs=1)


def test_a_plan_whose_tile_has_changed_since_is_told(compiled, generator, project):
    plan = project / compiled.sweep.plan
    plan.write_text(plan.read_text().replace('"tile_n": 64', '"tile_n": 48'))
    with pytest.raises(SweepError, match="the tile of forward is .*48.* the sweep started from .*64.*; remove"):
        compile_points(compiled, generator, project, jobs=1)


def test_a_folder_is_one_sweeps(tmp_path, sweep_file):
    create(tmp_path, sweep_file())
    assert create(tmp_path, sweep_file()).points
    with pytest.raises(SweepError, match="is the state of another sweep"):
        create(tmp_path, sweep_file(rounds=9))


def test_a_missing_generator_and_one_that_fails(tmp_path, sweep_file, cache):
    with pytest.raises(MachineError, match="no stratum-gen there; `make build` makes it"):
        Generator(tmp_path / "stratum-gen", ROOT, cache)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(MachineError, match="exit code 3\nbroken"):
        compile_points(create(tmp_path, sweep_file()), Generator(broken, ROOT, cache), ROOT, jobs=1)


def test_one_kind_of_reason_is_one_line_with_the_first_point_as_its_example(compiled):
    compiled.decide("tile_m128-tile_n32", "failed", "24 bytes of spills; accepted: none")
    compiled.decide("tile_m64-tile_n32", "failed", "4 bytes of spills; accepted: none")
    assert counts(compiled)[0] == "3 failed: 4 bytes of spills (tile_m64-tile_n32)"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ('kernels.forward.tile: needs 12 bytes (a "b"); accepted', "kernels.forward.tile: needs N bytes"),
        ("8 bytes of stack, 4 bytes of spills; accepted: none", "N bytes of stack, N bytes of spills"),
        ("ptxas warns: (C7512)", "ptxas warns: (C7512)"),
        ("bfloat16: o: largest error 1.2e-03 (1.0e-04 allowed)", "bfloat16: o: largest error N"),
    ],
)
def test_kinds_of_reasons(reason, kind):
    assert kind_of(reason) == kind
