"""What each operation's scenario executes, and a fixed sample of its kernel's mutants."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from conftest import STRATUM

from tools.emulator.mutants.command import GOAL, mutate

SAMPLE = 8  # of a kernel's mutants
LEAST_COVERED = 0.98  # of a kernel's instructions: executed, or known to be unreachable
# Of the whole sample. Survivors that do what the true kernel does are among the others, as long as they aren't listed
# in equivalent.json.
LEAST_KILLED = 0.6
EXAMINED = ("fwd", "bwd_dq", "bwd_dkv", "append", "page_copy", "prefill")  # every survivor was


@pytest.fixture(scope="module")
def reports(submission, emulator):
    options = SimpleNamespace(submission=submission, emulator=emulator, jobs=os.cpu_count(), sample=SAMPLE)
    return mutate(options, STRATUM, None, [])


def test_scenarios_execute_the_kernels(reports):
    assert len(reports) == 8
    for each in reports:
        unknown = sum(run.count for run in each.uncovered)
        assert unknown <= (1 - LEAST_COVERED) * each.coverage.all, (each.kernel, each.uncovered)


def test_the_sample_is_killed(reports):
    killed = sum(each.killed.total() for each in reports)
    survivors = [mutant for each in reports for mutant in each.survivors]
    assert killed + len(survivors) + sum(len(each.equivalent) for each in reports) == SAMPLE * len(reports)
    assert killed / (killed + len(survivors)) >= LEAST_KILLED, survivors


@pytest.mark.parametrize("operation", EXAMINED)
def test_of_examined_kernels_nearly_all_are_killed(reports, operation):
    (report,) = (each for each in reports if each.kernel.startswith(f"gated_{operation}_sm"))
    assert report.rate >= GOAL, report.survivors


def test_no_mutant_is_wrongly_said_to_be_equivalent(reports):
    assert [each.wrongly for each in reports if each.wrongly] == []
