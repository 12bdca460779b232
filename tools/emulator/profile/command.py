"""`tools.emulator profile`: what kernels do, by pipe and beside what their plans lead one to expect."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from ..inspection import Inspection
from .expectation import EXPECTED, Shape
from .report import KernelProfile, print_profiles

ROOT = Path(__file__).resolve().parents[3]


def add_to(commands) -> None:
    """Adds the command to argparse's subcommands."""
    parser = commands.add_parser("profile", help=__doc__.split(": ")[1], description=__doc__)
    parser.add_argument("--submission", type=Path, default=ROOT / "build/submission", help="the assembled folder")
    parser.add_argument(
        "--emulator", type=Path, default=ROOT / "build/release/tools/emulator/libstratum_emulator.so", help="the driver"
    )
    parser.add_argument("--capability", default="8.0", help="of the device, which chooses the kernels")
    parser.add_argument("--shape", default="1,4/4,512,128,64", help="batch, query/key heads, tokens, head and gate dim")
    parser.add_argument("--cached", type=int, default=0, help="tokens before them: prefill of those, then decode")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"))
    parser.add_argument("--lines", type=int, default=0, help="also the instructions on which the emulator spent most")
    parser.set_defaults(run=run)


def shape_of(text: str, cached: int) -> Shape:
    """The shape that is written as `1,4/4,512,128,64`. Errors: SystemExit that says what was expected."""
    try:
        batch, heads, seq_len, head_dim, gate_dim = text.split(",")
        q_heads, kv_heads = heads.split("/")
        return Shape(int(batch), int(q_heads), int(kv_heads), int(seq_len), int(head_dim), int(gate_dim), cached)
    except ValueError:
        raise SystemExit(f"--shape: expected batch,q_heads/kv_heads,tokens,head_dim,gate_dim, got {text}") from None


def run(arguments: argparse.Namespace) -> int:
    """Runs the calls in the fast mode, for the time, then with all checks, for the counts; prints both."""
    shape = shape_of(arguments.shape, arguments.cached)
    submission = arguments.submission.resolve()
    os.environ["STRATUM_DRIVER"] = str(arguments.emulator.resolve())
    os.environ["STRATUM_EMULATOR_CC"] = arguments.capability
    sys.path.insert(0, str(submission.parent))
    from .workload import Workload

    inspection = Inspection(arguments.emulator)
    workload = Workload(importlib.import_module(submission.name), shape, arguments.dtype)
    inspection.checks(False)
    inspection.exact_mma(False)
    workload.run()  # PTX is decoded at the first launch
    fast = workload.run()
    inspection.checks(True)
    inspection.exact_mma(True)
    inspection.forget_counts()
    checked = workload.run()
    print_profiles(_profiles(inspection, submission, shape), fast, checked, arguments.lines)
    workload.close()
    return 0


def _seen_by(operation: str, shape: Shape) -> Shape:
    """A prefill's new tokens are the decode's cached ones, and both are appended."""
    new = {"prefill": shape.cached, "append": shape.cached + shape.seq_len}
    return replace(shape, seq_len=new[operation], cached=0) if operation in new else shape


def _profiles(inspection: Inspection, submission: Path, shape: Shape) -> list[KernelProfile]:
    profiles = []
    for row in json.loads((submission / "cubins" / "manifest.json").read_text())["kernels"]:
        counters = inspection.counters(row["name"])
        if counters is None:
            continue
        operation = row["key"]["operation"]
        expected = EXPECTED[operation](_seen_by(operation, shape), row["tile"]) if operation in EXPECTED else None
        profiles.append(KernelProfile(row["name"], inspection.ptx(row["name"]), counters, expected))
    return profiles
