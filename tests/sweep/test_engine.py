"""An engine of the assembled folder takes a point's kernels, on the emulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest
from conftest import BUILD
from made_up import ROOT

from tools.sweep import pack
from tools.sweep.compiling import compile_points
from tools.sweep.engine import build_engine, engine_config
from tools.sweep.generator import MachineError
from tools.sweep.pack import read_manifest
from tools.sweep.state import State
from tools.sweep.sweep import Case, Shape

SUBMISSION = ROOT / "build" / "submission"
DRIVER = BUILD / "tools" / "emulator" / "libstratum_emulator.so"

PROGRAM = """
import json, pathlib, sys
from tools.bench.assembled import load_submission
from tools.sweep.engine import build_engine
package, config = load_submission(), json.loads(sys.argv[1])
for pack in sys.argv[2:]:
    print(json.dumps(build_engine(package, pathlib.Path(pack), config).describe()["kernels"]))
print(json.dumps(package.build_engine(config).describe()["kernels"]))
"""


@pytest.mark.parametrize(
    ("operation", "tile", "step"),
    [("decode_merge", {"warps": [2, 4]}, "decode"), ("forward", {"tile_m": [32, 64]}, "forward")],
)
def test_the_points_kernel_is_loaded_and_the_others_are_the_packs(
    tmp_path, sweep_file, generator, operation, tile, step
):
    for file, target in ((SUBMISSION / "__init__.py", "submission"), (DRIVER, "build")):
        if not file.exists():
            pytest.fail(f"{file} is missing; `make {target}` makes it")
    shape = Shape(batch=2, length=1, q_heads=4, kv_heads=2, cached=0 if step == "forward" else 64)
    fields = {name: value for name, value in vars(shape).items() if name != "cached" or step == "decode"}
    sweep = sweep_file(operation=operation, tile=tile, shapes=[fields])
    state = State.create(tmp_path / "state", sweep, ROOT, commit=None)
    compile_points(state, generator, ROOT, jobs=2)
    config = engine_config(step, Case("bfloat16", shape), (64, 32), shape)
    packs = [str(state.pack(point)) for point in state.points]
    emulator = {"STRATUM_DRIVER": str(DRIVER), "STRATUM_EMULATOR_CC": "9.0", "STRATUM_EMULATOR_EXECUTE": "0"}
    environment = {**os.environ, **emulator}
    command = [sys.executable, "-c", PROGRAM, json.dumps({**config, "device": 0}), *packs]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *engines, own = [{row["operation"]: row["sha256"] for row in json.loads(line)} for line in done.stdout.splitlines()]
    assert len(engines) == len(packs) == 2
    for engine, point in zip(engines, state.points):
        (row,) = read_manifest(state.pack(point))["kernels"]
        assert engine[operation] == row["cubin"]["sha256"]
        assert {**engine, operation: None} == {**own, operation: None}
    assert len({engine[operation] for engine in engines}) == 2


def test_an_engine_that_took_other_kernels_is_closed_and_told(tmp_path, monkeypatch):
    closed = []
    engine = SimpleNamespace(
        describe=lambda: {"kernels": [{"operation": "forward", "arch": "sm_90", "sha256": "other"}]},
        close=lambda: closed.append(True),
    )
    package = ModuleType("made_up_package")
    package.build_engine = lambda config: engine
    native = ModuleType("made_up_package.native")
    native.PACK = "own"
    monkeypatch.setitem(sys.modules, "made_up_package", package)
    monkeypatch.setitem(sys.modules, "made_up_package.native", native)
    monkeypatch.setattr(pack, "write_mixed", lambda folder, kernels, own: None)
    row = {"name": "x", "cubin": {"sha256": "ours"}, "key": {"operation": "forward", "arch": "sm_90"}}
    pack.write_manifest(tmp_path, {}, [row])
    with pytest.raises(MachineError, match="the engine has other kernels than the pack's for forward: ..other"):
        build_engine(package, tmp_path, {})
    assert closed and native.PACK == "own"
