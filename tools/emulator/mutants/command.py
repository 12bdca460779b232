"""`tools.emulator mutants`: makes mutants of kernels, runs them, and tells which survive."""

from __future__ import annotations

import argparse
import json
import os
import random
from dataclasses import asdict
from pathlib import Path

from tools.sweep.progress import Progress

from ..inspection import Inspection
from .coverage import Unreachable, coverage
from .equivalent import Equivalent
from .pack import kernels
from .pool import Pool
from .report import KernelReport, print_reports
from .rules import Mutant, mutants
from .worker import Stratum

ROOT = Path(__file__).resolve().parents[3]
EQUIVALENT = ROOT / "tests" / "mutants" / "equivalent.json"
UNREACHABLE = ROOT / "tests" / "mutants" / "unreachable.json"
GOAL = 0.95  # of the mutants that aren't equivalent


def add_to(commands) -> None:
    """Adds the command to argparse's subcommands."""
    parser = commands.add_parser("mutants", help=__doc__.split(": ")[1], description=__doc__)
    parser.add_argument("--submission", type=Path, default=ROOT / "build/submission", help="the assembled folder")
    parser.add_argument(
        "--emulator", type=Path, default=ROOT / "build/release/tools/emulator/libstratum_emulator.so", help="the driver"
    )
    parser.add_argument("--capability", default="8.0", help="of the device, which chooses the kernels")
    parser.add_argument("--dims", default="64,32 128,64", help='head and gate dims, "64,32 128,64"')
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"))
    parser.add_argument("--operations", help="only these, comma between them")
    parser.add_argument("--sample", type=int, help="that many mutants of a kernel, chosen by a fixed seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--json", type=Path, help="writes every mutant and what became of it")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0 if every kernel's kill rate reaches the goal and no mutant is wrongly said to be equivalent; 1 otherwise."""
    reports, rows = [], []
    operations = arguments.operations and arguments.operations.split(",")
    for dims in arguments.dims.split():
        stratum = Stratum(arguments.capability, *map(int, dims.split(",")), arguments.dtype)
        reports += mutate(arguments, stratum, operations, rows)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(rows, indent=1))
    print_reports(reports)
    return int(any(each.rate < GOAL or each.wrongly for each in reports))


def sampled(every: list[Mutant], count: int | None) -> list[Mutant]:
    """`count` of the mutants, the same ones each time; all of them for None."""
    return every if count is None or count >= len(every) else random.Random(0).sample(every, count)


def mutate(arguments: argparse.Namespace, stratum: Stratum, operations: list[str] | None, rows: list[dict]):
    """One report for each kernel of a stratum. rows: gets what the JSON shall have."""
    os.environ["STRATUM_EMULATOR_PACK"] = str((arguments.submission / "cubins").resolve())
    names = kernels(arguments.submission, stratum)
    inspection = Inspection(arguments.emulator)
    texts = {name: inspection.ptx(name) for name in names.values()}
    equivalent, unreachable = Equivalent(EQUIVALENT), Unreachable(UNREACHABLE)
    chosen = [name for operation, name in names.items() if not operations or operation in operations]
    pool = Pool(arguments.jobs, arguments.submission, arguments.emulator, stratum, names)
    counts = pool.coverage(chosen)
    reports, work = {}, []
    for name in chosen:
        covered = coverage(name, texts[name], counts[name])
        uncovered = [run for run in covered.runs if not unreachable.why(name, run)]
        reports[name] = KernelReport(name, covered, uncovered)
        executed = [mutant for mutant in mutants(name, texts[name]) if mutant.line in covered.executed]
        work += sampled(executed, arguments.sample)
    with Progress("mutants", len(work)) as progress:
        for mutant, outcome in pool.run(work, texts):
            reports[mutant.kernel].add(mutant, outcome, bool(equivalent.why(mutant)))
            rows.append({**asdict(mutant), **asdict(outcome)})
            progress.advance(mutant.kernel)
    return list(reports.values())
