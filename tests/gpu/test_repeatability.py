"""The same bytes in every process, whatever the memory held before."""

import json

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import GROUPS, HEADS
from .processes import finish, start
from .tensors import DTYPES
from .trace import SERVING_GROUPS
from .training import LENGTHS

STRATA = len(HEADS) * len(DTYPES)
TRAININGS = STRATA * len(GROUPS) * len(LENGTHS)
SERVINGS = STRATA * len(SERVING_GROUPS) * 2  # with and without batch_invariant


def test_two_processes_and_poisoned_memory():
    """One process with its memory as it comes, one with pool and workspaces full of NaN."""
    processes = [start("trace", STRATUM_POISON=poison) for poison in (None, "1")]
    plain, poisoned = (json.loads(finish(process)) for process in processes)
    assert len(plain) == TRAININGS + SERVINGS
    assert [part for part in plain if plain[part] != poisoned[part]] == []
