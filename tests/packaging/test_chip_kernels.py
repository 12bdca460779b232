"""On a Hopper GPU training and decode take the chip's own kernels; training the portable ones for views that no tensor
map describes.

Launches are recorded by the emulator at 9.0, which executes nothing but where the results are looked at.
"""

import json
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tools.assemble.without import copy_without

REPOSITORY = Path(__file__).parents[2]
TRAIN = Path(__file__).parent / "train_twice.py"
TRAIN_RIGHT = Path(__file__).parent / "train_right.py"
SERVE_RIGHT = Path(__file__).parent / "serve_right.py"
RESULTS = ("o", "dq", "dk", "dv", "dqg", "dkg")
DIMS = ((64, 32), (64, 64), (128, 32), (128, 64))
OPERATIONS = ("fwd", "bwd_dq", "bwd_dkv")
SHORT = {"bfloat16": "bf16", "float16": "fp16"}
STRATA = [(*dims, dtype) for dims, dtype in product(DIMS, SHORT)]


@pytest.fixture(scope="module")
def hopper(submission, tmp_path_factory) -> Path:
    """The assembled folder with the kernels of examples/hopper beside those that ship."""
    folder = tmp_path_factory.mktemp("hopper") / "engine"
    shutil.copytree(submission, folder)
    generator = REPOSITORY / "build" / "release" / "generator" / "stratum-gen"
    plans = ["--plans", "templates/plans", "--plans", "examples/hopper"]
    command = [generator, "build", *plans, "--out", folder / "cubins"]
    built = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def mnemonics_of_own_kernels(submission: Path, stratum: tuple) -> set[str]:
    """Of the operations that the pack has sm_90a kernels for."""
    kernels = json.loads((submission / "cubins" / "manifest.json").read_text())["kernels"]
    rows = [row for row in kernels if row["key"]["arch"] == "sm_90a"]
    own = [row for row in rows if tuple(row["key"][field] for field in ("head_dim", "gate_dim", "dtype")) == stratum]
    return {row["name"].removeprefix("gated_").split("_sm90a")[0] for row in own}


def launched(folder: Path, emulator: Path, log: Path, stratum: tuple) -> list[str]:
    """The launches as "fwd sm90a" and so on, of two steps, the second on a view that no tensor map describes."""
    head_dim, gate_dim, dtype = stratum
    config = {"head_dim": head_dim, "gate_dim": gate_dim, "dtype": dtype, "q_heads": 4, "kv_heads": 2}
    environment = {
        **os.environ,
        "STRATUM_DRIVER": str(emulator),
        "STRATUM_EMULATOR_CC": "9.0",
        "STRATUM_EMULATOR_EXECUTE": "0",
        "STRATUM_EMULATOR_LOG": str(log),
    }
    command = [sys.executable, TRAIN, folder, json.dumps(config)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    names = [line.split()[0] for line in log.read_text().splitlines()]
    suffix = f"_{SHORT[dtype]}_d{head_dim}_r{gate_dim}_"
    return [" ".join(name.removeprefix("gated_").split(suffix)[0].rsplit("_", 1)) for name in names]


@pytest.mark.parametrize("stratum", STRATA, ids=str)
def test_the_chips_own_kernels_first(hopper, emulator, tmp_path, stratum):
    own = mnemonics_of_own_kernels(hopper, stratum)
    assert own
    plain = [f"{each} {'sm90a' if each in own else 'sm90'}" for each in OPERATIONS]
    reversed_keys = [f"{each} sm90" for each in OPERATIONS]
    assert launched(hopper, emulator, tmp_path / "log", stratum) == plain + reversed_keys


def test_a_copy_without_them(hopper, emulator, tmp_path):
    folder = tmp_path / "engine"
    copy_without("sm_90a", hopper, folder)
    assert mnemonics_of_own_kernels(folder, STRATA[0]) == set()
    assert launched(folder, emulator, tmp_path / "log", STRATA[0]) == [f"{each} sm90" for each in OPERATIONS] * 2
    assert {path.name for path in folder.iterdir() if path.name != "__pycache__"} == {
        path.name for path in hopper.iterdir() if path.name != "__pycache__"
    }


def results(
    folder: Path,
    emulator: Path,
    schedule: str,
    stratum: tuple,
    length: int,
    wanted: tuple,
    first_keys: float = 1.0,
    infinite: str = "none",
) -> str:
    """Hashes of the results, which keep the accuracy rule. Few multiprocessors: blocks compute several tiles."""
    head_dim, gate_dim, dtype = stratum
    config = {"head_dim": head_dim, "gate_dim": gate_dim, "dtype": dtype, "q_heads": 4, "kv_heads": 2, "device": 0}
    environment = {
        **os.environ,
        "STRATUM_DRIVER": str(emulator),
        "STRATUM_EMULATOR_CC": "9.0",
        "STRATUM_EMULATOR_MULTIPROCESSORS": "3",
        "STRATUM_EMULATOR_SCHEDULE": schedule,
    }
    command = [sys.executable, TRAIN_RIGHT, folder, json.dumps(config), str(length), str(first_keys), infinite, *wanted]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return done.stdout


# One key tile, of which most rows are none of the sequence's; several of them and a tail.
@pytest.mark.parametrize("length", (5, 250))
@pytest.mark.parametrize("stratum", STRATA, ids=str)
def test_they_compute_the_same_in_every_schedule(hopper, emulator, stratum, length):
    wanted = RESULTS if stratum[0] == 64 else RESULTS[:1]  # clusters aren't executed, so D 128 has forward only
    late, by_chance = (
        results(hopper, emulator, schedule, stratum, length, wanted) for schedule in ("late", "random:1")
    )
    assert late == by_chance


# Behind a sequence's end are zeros, and infinity times 0 is NaN.
@pytest.mark.parametrize("infinite", ("qg", "kg", "k"))
@pytest.mark.parametrize("stratum", STRATA[::2], ids=str)
def test_infinite_inputs(hopper, emulator, stratum, infinite):
    wanted = RESULTS if stratum[0] == 64 else RESULTS[:1]
    results(hopper, emulator, "late", stratum, 150, wanted, infinite=infinite)


@pytest.mark.parametrize("stratum", STRATA, ids=str)
def test_rows_that_outgrow_what_they_have_seen(hopper, emulator, stratum):
    """Key tiles are taken from the last to the first: scores that grow that way raise a row's maximum many times."""
    results(hopper, emulator, "late", stratum, 400, ("o",), first_keys=50.0)


# The parts of a group's rows: 3 x 8 rows are three units of 8.
@pytest.mark.parametrize("stratum, group", [(STRATA[0], 3), (STRATA[3], 1), (STRATA[5], 3), (STRATA[6], 1)], ids=str)
def test_decode_in_one_launch(hopper, emulator, tmp_path, stratum, group):
    head_dim, gate_dim, dtype = stratum
    config = {"head_dim": head_dim, "gate_dim": gate_dim, "dtype": dtype, "q_heads": 2 * group, "kv_heads": 2}
    environment = {
        **os.environ,
        "STRATUM_DRIVER": str(emulator),
        "STRATUM_EMULATOR_CC": "9.0",
        "STRATUM_EMULATOR_PACK": str(hopper / "cubins"),
        "STRATUM_EMULATOR_MULTIPROCESSORS": "3",
        "STRATUM_EMULATOR_SCHEDULE": "random:1",
        "STRATUM_EMULATOR_LOG": str(tmp_path / "log"),
    }
    command = [sys.executable, SERVE_RIGHT, hopper, json.dumps(config)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    kernels = {line.split()[0].split(f"_{SHORT[dtype]}_")[0] for line in (tmp_path / "log").read_text().splitlines()}
    decodes = {kernel for kernel in kernels if "decode" in kernel}
    assert decodes == {"gated_decode_sm90a"}
