"""What each operation's scenario executes, and a fixed sample of its kernel's mutants."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from conftest import STRATUM

from tools.emulator.mutants.command import GOAL, mutate
from tools.emulator.mutants.scenarios import SCENARIOS

SAMPLE = 8  # of a kernel's mutants
LEAST_COVERED = 0.98  # of a kernel's instructions: executed, or known to be unreachable


@pytest.fixture(scope="module")
def reports(submission, emulator):
    options = SimpleNamespace(submission=submission, emulator=emulator, jobs=os.cpu_count(), sample=SAMPLE)
    return mutate(options, STRATUM, None, [])


def test_scenarios_execute_the_kernels(reports):
    assert len(reports) == 8
    for each in reports:
        unknown = sum(run.count for run in each.uncovered)
        assert unknown <= (1 - LEAST_COVERED) * each.coverage.all, (each.kernel, each.uncovered)


def test_every_mutant_of_the_sample_has_an_outcome(reports):
    outcomes = [each.killed.total() + len(each.survivors) + len(each.equivalent) for each in reports]
    assert outcomes == [SAMPLE] * len(reports)


@pytest.mark.parametrize("operation", SCENARIOS)
def test_nearly_all_are_killed_that_are_not_equivalent(reports, operation):
    (report,) = (each for each in reports if each.kernel.startswith(f"gated_{operation}_sm"))
    assert report.rate >= GOAL, report.survivors


def test_no_mutant_is_wrongly_said_to_be_equivalent(reports):
    assert [each.wrongly for each in reports if each.wrongly] == []
