"""Work that runs at once, as late as it may, or in a random legal order gives the same bits."""

from __future__ import annotations

import multiprocessing

import pytest

from . import scenario
from .engines import DIMS, DTYPES

LATE = ("late", "random:1", "random:2", "random:3")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", (DIMS[0], DIMS[3]))
def test_bits_do_not_depend_on_when_work_runs(rng, dims, dtype):
    seed = int(rng.integers(2**32))
    context = multiprocessing.get_context("forkserver")  # which itself never reads the schedule
    context.set_forkserver_preload([scenario.__name__])
    with context.Pool(1, maxtasksperchild=1) as pool:
        runs = pool.starmap(scenario.run, [(s, dims, dtype, seed) for s in ("eager", *LATE)], chunksize=1)
    right, queued, faults = runs[0]
    assert queued == 0 and faults == []
    for schedule, (outputs, queued, faults) in zip(LATE, runs[1:]):
        assert faults == [], schedule
        assert queued > 0, f"{schedule}: all had run at once"
        different = [i for i, (ours, expected) in enumerate(zip(outputs, right, strict=True)) if ours != expected]
        assert different == [], f"{schedule}: outputs {different} of {len(right)} differ"
