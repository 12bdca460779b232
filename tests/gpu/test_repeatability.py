"""The same bytes in every process, whatever the memory held before."""

import json

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from .processes import finish, start


def test_two_processes_and_poisoned_memory():
    """One process with its memory as it comes, one with pool and workspaces full of NaN."""
    processes = [start("trace", STRATUM_POISON=poison) for poison in (None, "1")]
    plain, poisoned = (json.loads(finish(process)) for process in processes)
    assert len(plain) == 32
    assert [part for part in plain if plain[part] != poisoned[part]] == []
