"""The profile of kernels: what they did, beside what their plans say."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from .conftest import EMULATOR, ROOT, SUBMISSION


def profile(*options: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "tools.emulator", "profile", "--submission", SUBMISSION, "--emulator", EMULATOR]
    done = subprocess.run(
        [*map(str, command), *options], cwd=ROOT, env={"COLUMNS": "200", "PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    "options, kernels",
    [
        (("--shape", "2,6/2,77,64,32"), ("fwd", "bwd_dq", "bwd_dkv")),
        (("--shape", "1,2/1,96,128,64", "--dtype", "float16"), ("fwd", "bwd_dq", "bwd_dkv")),
        (("--shape", "3,8/2,4,64,32", "--cached", "300"), ("prefill", "dec")),
    ],
)
def test_mma_flops_are_those_of_the_plan(options, kernels):
    table = profile(*options).split("Counted, and counted / expected of the plan")[1].split("Memory")[0]
    for kernel in kernels:
        row = re.search(
            rf"│ gated_{kernel}_sm80\S+ +│ +([\d.]+) │ ([\d.]+) │ +[\d.]+ │ ([\d.]+) │ +[\d.]+ │ ([\d.]+) │", table
        )
        assert row, table
        flops, of_flops, of_mufu, of_bytes = map(float, row.groups())
        assert flops > 0
        assert of_flops == 1.0
        assert 1.0 <= of_mufu < 1.3  # a few to rescale rows and sums
        assert 1.0 <= of_bytes < 1.2  # tables and lists come with the cache's bytes


def test_lines_that_cost_most_are_named():
    assert re.search(
        r"gated_fwd_sm80_\S+:\d+: [a-z.0-9]+: \d+ times, \d+ ticks each",
        profile("--shape", "1,1/1,64,64,32", "--lines", "3"),
    )


def test_a_shape_that_is_none_is_refused():
    command = [sys.executable, "-m", "tools.emulator", "profile", "--shape", "1,4,512"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "--shape: expected batch,q_heads/kv_heads,tokens,head_dim,gate_dim, got 1,4,512" in done.stderr
