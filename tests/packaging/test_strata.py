"""A stratum is added by JSON files alone: examples/plans, built into a pack of their own, are what an engine picks."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
EXERCISE = Path(__file__).parent / "exercise.py"
CAPACITY = {"q_heads": 6, "kv_heads": 2, "max_sequences": 4, "max_seq_len": 1024, "max_cached_tokens": 2048}
STRATA = [(96, 32), (128, 16)]


def run(folder: Path, driver: Path, config: dict) -> subprocess.CompletedProcess:
    command = [sys.executable, EXERCISE, folder, json.dumps({**config, **CAPACITY}), driver]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def extended(submission, tmp_path_factory) -> Path:
    """The assembled folder, its pack replaced by one of the example plans alone, as stratum-gen builds it."""
    pack = REPOSITORY / "build" / "extra-pack"
    generator = REPOSITORY / "build" / "release" / "generator" / "stratum-gen"
    built = subprocess.run(
        [generator, "build", "--plans", "examples/plans", "--out", pack], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    folder = tmp_path_factory.mktemp("extended") / "engine"
    shutil.copytree(submission, folder, ignore=shutil.ignore_patterns("cubins"))
    shutil.copytree(pack, folder / "cubins")
    return folder


def test_the_examples_are_the_strata_of_the_readme(extended):
    plans = [json.loads(plan.read_text()) for plan in (REPOSITORY / "examples" / "plans").glob("*.json")]
    assert sorted((plan["head_dim"], plan["gate_dim"]) for plan in plans) == sorted(STRATA)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("head_dim, gate_dim", STRATA)
def test_an_engine_picks_the_new_kernels(extended, emulator, head_dim, gate_dim, dtype):
    done = run(extended, emulator, {"head_dim": head_dim, "gate_dim": gate_dim, "dtype": dtype})
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["faults"] == [] and seen["lengths"] == [71, 73]
    kernels = {kernel["operation"]: kernel["name"] for kernel in seen["engine"]["kernels"]}
    operations = json.loads((REPOSITORY / "templates/gated/portable/family.json").read_text())["operations"]
    assert set(kernels) == set(operations)
    short = {"bfloat16": "bf16", "float16": "fp16"}[dtype]
    for operation, name in kernels.items():
        assert name.startswith(f"gated_{operations[operation]['mnemonic']}_sm90_{short}_d{head_dim}_r{gate_dim}_g0_")


@pytest.mark.parametrize("head_dim, gate_dim", STRATA)
def test_the_shipped_pack_says_what_it_lacks_and_how_to_add_it(submission, emulator, head_dim, gate_dim):
    done = run(submission, emulator, {"head_dim": head_dim, "gate_dim": gate_dim})
    assert done.returncode != 0
    message = next(line for line in done.stderr.splitlines() if "NoKernelError" in line)
    assert f"differs in {'head_dim' if head_dim == 96 else 'gate_dim'};" in message
    assert "to add it" in message and f"gated_d{head_dim}_r{gate_dim}_sm90.json" in message
