"""The compile stage: what can't work is dropped before it is compiled, the rest compiled in parallel."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from .dropped import brief
from .generator import Generator
from .progress import Progress
from .state import COMPILED, FAILED, REFUSED, State, write_json
from .sweep import SweepError, kernel_of, point_plan, read_plan


def compile_points(state: State, generator: Generator, root: Path, jobs: int) -> None:
    """Decides every point that isn't yet. root: the project. jobs: compilers at once.

    Errors: SweepError if the incumbent can't be compiled, or if its tile in the plan or the sources of compiled kernels
    have changed since; MachineError.
    """
    check_plan(state, root)
    _check_sources(state, generator)
    for point in state.undecided:
        write_json(state.plan_file(point), point_plan(state.plan, state.sweep, state.points[point]))
        if reason := generator.refusal(state.plan_file(point)):
            state.plan_file(point).unlink()
            _drop(state, point, REFUSED, reason)
    _build(state, generator, jobs)


def check_plan(state: State, root: Path) -> None:
    """Errors: SweepError if the project's plan no longer has the tile that the sweep started from."""
    tile = kernel_of(read_plan(root / state.sweep.plan, state.sweep), state.sweep)["tile"]
    if tile != state.start:
        raise SweepError(
            f"{state.sweep.plan}: the tile of {state.sweep.operation} is {tile}, the sweep started from {state.start}; "
            f"remove {state.folder} to sweep again"
        )


def _drop(state: State, point: str, became: str, reason: str) -> None:
    if point == state.incumbent:  # not noted: there is nothing to sweep until the plan is mended
        raise SweepError(f"the plan's own tile, {point}: {became}: {reason}")
    state.decide(point, became, reason)


def _check_sources(state: State, generator: Generator) -> None:
    for point in state.with_state(COMPILED):
        if not generator.is_current(state.plan_file(point), state.pack(point)):
            raise SweepError(f"{state.pack(point)}: built from other sources than today's; remove {state.folder}")


def _build(state: State, generator: Generator, jobs: int) -> None:
    todo = state.undecided
    if not todo:
        return
    refused = len(state.with_state(REFUSED))
    before = len(state.points) - len(todo) - refused
    counts = f"{len(state.points)} points: {len(todo)} to compile, {refused} refused"
    print(counts + (f", {before} done before" if before else ""), file=sys.stderr, flush=True)
    pool = ThreadPoolExecutor(jobs)
    try:
        builds = {pool.submit(generator.build, state.plan_file(point), state.pack(point)): point for point in todo}
        with Progress("compiling", len(todo)) as progress:
            for build in as_completed(builds):
                point, reason = builds[build], build.result()
                if reason:
                    _drop(state, point, FAILED, reason)
                else:
                    state.decide(point, COMPILED)
                progress.advance(point + (f" failed: {brief(reason)}" if reason else ""))
    finally:
        pool.shutdown(cancel_futures=True)  # after an error or Ctrl-C only what is running ends
