"""`python -m tools.sweep [STAGE] SWEEP.json|FOLDER`: searches for a better tile of one kernel.

Without a STAGE: compile, time and report, as far as this machine can, going on where an earlier run stopped.

  compile  what stratum-gen refuses is dropped, the rest compiled (no GPU needed)
  time     checks and times what was compiled, then confirms the fastest (no compiler needed)
  report   prints the table, writes result.json, result.csv and result.png to the state folder
  apply    writes the winner's tile into the plan, if its confirmed margin exceeds the spread

Exit codes: 0 done; 1 something in the sweep, its plan or its state is wrong; 2 usage; 3 this machine lacks what the
stage needs, or its compiler or GPU failed; 4 apply refused the winner; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tools.bench.assembled import REPOSITORY, load_submission
from tools.bench.report import commit
from tools.needs import missing

from . import report
from .apply import Refused, apply
from .compiling import compile_points
from .generator import Generator, MachineError
from .outcome import outcome_of, still_to_time
from .state import COMPILED, State
from .sweep import SweepError, read_sweep
from .timing import time_points

DONE, WRONG_INPUT, MACHINE, REFUSED, STOPPED = 0, 1, 3, 4, 130


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools.sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", nargs="?", choices=STAGES, metavar="STAGE", help=", ".join(STAGES))
    parser.add_argument("sweep", type=Path, metavar="SWEEP.json|FOLDER", help="a sweep file, or a sweep's state")
    parser.add_argument("--apply", action="store_true", help="apply too, after the other stages")
    parser.add_argument("--state", type=Path, metavar="FOLDER", help="state of a sweep file (build/sweeps/NAME)")
    parser.add_argument("--generator", type=Path, default=REPOSITORY / "build/release/generator/stratum-gen")
    parser.add_argument("--cache", type=Path, default=REPOSITORY / "build/cache", help="folder of the build cache")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="compilers at once (%(default)s)")
    return parser.parse_args()


def _open(options: argparse.Namespace) -> State:
    if options.sweep.is_dir():
        return State(options.sweep)
    usual = REPOSITORY / "build" / "sweeps" / read_sweep(options.sweep).name
    return State.create(options.state or Path(os.path.relpath(usual)), options.sweep, REPOSITORY, commit())


def _compile(state: State, options: argparse.Namespace) -> None:
    compile_points(state, Generator(options.generator, REPOSITORY, options.cache), REPOSITORY, max(1, options.jobs))
    report.show_dropped(state)
    done = f"{len(state.with_state(COMPILED))} compiled, in {state.folder}"
    print(f"{done}; {_next(state)}" if options.stage and still_to_time(state) else done)


def _time(state: State, options: argparse.Namespace) -> None:
    if reason := _no_gpu():
        raise MachineError(f"{reason}; {_next(state)}")
    if state.undecided or not state.with_state(COMPILED):
        raise SweepError(f"{state.folder}: {len(state.undecided)} points are still to be compiled")
    from .gpu import Gpu

    package = load_submission()
    try:
        time_points(state, Gpu(state, package))
    except package.EngineError as error:  # not of a check: there it is the point's fault
        raise MachineError(f"{type(error).__name__}: {error}") from None


def _report(state: State, options: argparse.Namespace) -> None:
    outcome = outcome_of(state)
    report.show(state, outcome)
    files = report.write(state, outcome)
    print("written: " + ", ".join(map(str, files)))
    if lack := missing("matplotlib"):
        print(f"no plot: {lack}", file=sys.stderr)


def _apply(state: State, options: argparse.Namespace) -> None:
    for file in apply(state, REPOSITORY):
        print(f"written: {file}")
    print("`make cubins` brings the pack up to date")


STAGES: dict[str, Callable[[State, argparse.Namespace], None]] = {
    "compile": _compile,
    "time": _time,
    "report": _report,
    "apply": _apply,
}


def _no_gpu() -> str | None:
    if lack := missing("numpy", "torch", "triton"):
        return lack
    import torch

    return None if torch.cuda.is_available() else "no CUDA device"


def _next(state: State) -> str:
    return f"next, where there is PyTorch and a GPU: python3 -m tools.sweep {state.folder}"


def _all_stages(state: State, options: argparse.Namespace) -> None:
    """What this machine can do: timing needs a GPU, compiling only if something is to be compiled."""
    if state.undecided or options.generator.is_file():
        _compile(state, options)
    if still_to_time(state):
        if reason := _no_gpu():
            print(f"sweep: {reason}; {_next(state)}", file=sys.stderr)
        else:
            _time(state, options)
    if state.rounds.measured():
        _report(state, options)


def main() -> int:
    """Runs the stages; the exit code is one of those that the module lists."""
    options = _arguments()
    try:
        state = _open(options)
        if options.stage:
            STAGES[options.stage](state, options)
        else:
            _all_stages(state, options)
        if options.apply:
            _apply(state, options)
    except Refused as error:
        print(f"not applied: {error}", file=sys.stderr)
        return REFUSED
    except SweepError as error:
        print(f"sweep: {error}", file=sys.stderr)
        return WRONG_INPUT
    except (MachineError, FileNotFoundError) as error:
        print(f"sweep: {error}", file=sys.stderr)
        return MACHINE
    except KeyboardInterrupt:
        print("sweep: stopped; the same command goes on from here", file=sys.stderr)
        return STOPPED
    return DONE


if __name__ == "__main__":
    sys.exit(main())
