"""`python -m tools.grade check FOLDER` audits an engine, `python -m tools.grade bench FOLDER` times it beside the
starter."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path

from tools.needs import need

need("numpy")

from tools.bench.floors import datasheet
from tools.bench.report import commit, machine, write_json

from .bench import Result, bench
from .check import check
from .data import fresh_salt
from .process import Host
from .report import bench_row, bench_summary, outcome_json, print_bench, print_heading, print_outcome
from .trace import Trace
from .trace_file import TraceError, load_traces, load_workloads

HERE = Path(__file__).parent


def _gpu() -> bool:
    """Whether there is a GPU that the harness can share memory on."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # no CuPy, no driver, no device: there is none
        return False


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.grade", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("check", "audit traces, each twice, held to float64"), ("bench", "timed workloads, scored")):
        command = commands.add_parser(name, help=what)
        command.add_argument("folder", type=Path, help="the engine: a package that exports build_engine")
        command.add_argument("--salt", default=fresh_salt(), help="replays a grading's data (default: a fresh one)")
        command.add_argument("--only", nargs="+", metavar="TEXT", help="only those whose name contains one of these")
        command.add_argument("--driver", default="", metavar="LIBRARY", help="a stand-in for libcuda; with --host")
        command.add_argument(
            "--python", default=sys.executable, metavar="EXE", help="interpreter of the engine's process"
        )
        command.add_argument("--host", action="store_true", help="arrays in host memory, for engines that take them")
        command.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    check_command, bench_command = commands.choices["check"], commands.choices["bench"]
    check_command.add_argument("--traces", type=Path, default=HERE / "traces", metavar="DIR", help="traces of your own")
    check_command.add_argument("--small", action="store_true", help="only traces marked small; with --host always so")
    bench_command.add_argument(
        "--workloads", type=Path, default=HERE / "workloads", metavar="DIR", help="a folder with a manifest.json"
    )
    bench_command.add_argument("--peer", type=Path, metavar="FOLDER", help="an engine to time beside; it may compile")
    bench_command.add_argument("--commit", default=commit(), help="noted in the JSON (default: the work tree's)")
    bench_command.add_argument(
        "--rounds", type=_positive, default=3, help="times that starter and engine change places"
    )
    return parser.parse_args()


def _host(options: argparse.Namespace) -> Host:
    """How engine processes are made. TraceError if they can't be."""
    python = shutil.which(options.python)
    if not python:
        raise TraceError(f"--python: {options.python}: no such program")
    if not options.host and not _gpu():
        raise TraceError("no GPU that CuPy can use; --host puts the arrays in host memory, for engines that take them")
    return Host(
        os.path.abspath(python), "host" if options.host else "cuda", options.driver and os.path.abspath(options.driver)
    )


def _chosen(traces: list[Trace], options: argparse.Namespace, small: bool) -> list[Trace]:
    chosen = [t for t in traces if not options.only or any(text in t.name for text in options.only)]
    if not chosen:
        names = "\n    ".join(trace.name for trace in traces)
        raise TraceError(f"--only {' '.join(options.only)}: no trace has such a name; there are\n    {names}")
    left_out = [t for t in chosen if small and not t.small]
    if left_out:
        print(f"{len(left_out)} of {len(chosen)} traces are left out: they are not marked small")
    chosen = [t for t in chosen if t not in left_out]
    if not chosen:
        raise TraceError("no trace is left: with --host only those marked small are run")
    return chosen


def _check(options: argparse.Namespace) -> int:
    host = _host(options)
    traces = _chosen(load_traces(options.traces), options, options.small or host.memory == "host")
    print(f"check of {options.folder}, {host.memory} memory, salt {options.salt}")
    print_heading()
    outcomes = []

    def done(outcome) -> None:
        outcomes.append(outcome)
        print_outcome(len(outcomes), len(traces), outcome)

    check(options.folder.resolve(), traces, options.salt, host, done)
    passed = sum(outcome.ok for outcome in outcomes)
    print(f"{passed} of {len(traces)} traces passed")
    if options.json:
        write_json(
            options.json, {"salt": options.salt, "memory": host.memory, "traces": list(map(outcome_json, outcomes))}
        )
    return 0 if passed == len(traces) else 1


def _bench(options: argparse.Namespace) -> int:
    host = _host(options)
    workloads = _chosen(load_workloads(options.workloads), options, small=False)
    facts = {"commit": options.commit, **(machine() if host.memory == "cuda" else {"gpu": "none"})}
    print(
        f"bench of {options.folder}, salt {options.salt}; "
        + ", ".join(f"{key} {value}" for key, value in facts.items())
    )
    folders = {"engine": (options.folder.resolve(), True), "starter": (HERE / "starter", True)}
    if options.peer:
        folders["peer"] = (options.peer.resolve(), False)
    sheet, rows = datasheet(facts["gpu"]), []

    def done(result: Result) -> None:
        rows.append(bench_row(result, sheet))
        print(f"[{len(rows):2}/{len(workloads):2}] {result.workload.name}", file=sys.stderr, flush=True)

    bench(workloads, folders, options.salt, host, options.rounds, done)
    summary = bench_summary(rows)
    print_bench(rows, summary)
    if options.only:
        print("of the chosen workloads; the score is that of all")
    if options.json:
        write_json(
            options.json, {**facts, "salt": options.salt, "rounds": options.rounds, **summary, "workloads": rows}
        )
    return 1 if any(row["failures"].get("engine") or row["failures"].get("starter") for row in rows) else 0


def main() -> int:
    """0 if the engine passes, 1 if it fails, 2 if there is nothing to grade."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing is left behind
    options = _arguments()
    if not (options.folder / "__init__.py").is_file():
        print(f"{options.folder}: expected a package that exports build_engine, found no __init__.py", file=sys.stderr)
        return 2
    try:
        return _check(options) if options.command == "check" else _bench(options)
    except TraceError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
