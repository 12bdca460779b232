"""The emulator's override, limit and coverage, on a kernel of the pack."""

from __future__ import annotations

import pytest

from tools.emulator.inspection import Inspection
from tools.emulator.mutants.worker import Outcome


@pytest.fixture
def inspection(worker, emulator) -> Inspection:
    return Inspection(emulator)


@pytest.fixture
def ptx(inspection, names) -> str:
    return inspection.ptx(names["append"])


def test_no_kernel_of_that_name(inspection):
    with pytest.raises(LookupError, match="expected one of the pack's, got gated_append"):
        inspection.ptx("gated_append")


def test_the_true_text_changes_nothing(worker, names, ptx):
    assert worker.run(names["append"], ptx) == Outcome("")


def test_another_text_is_run_in_place_of_the_packs(worker, names, ptx):
    outcome = worker.run(names["append"], ptx.replace("\tst.global.v4.u32", "\t// st.global.v4.u32", 1))
    assert outcome.killed == "result"
    assert worker.run(names["append"], ptx) == Outcome("")


def test_a_text_with_an_unknown_form_is_refused(worker, inspection, names, ptx):
    broken = ptx.replace("bar.sync", "bar.synk")
    with pytest.raises(ValueError, match="unknown instruction form 'bar.synk'"):
        inspection.override(names["append"], broken)
    assert worker.run(names["append"], broken).killed == "refused"
    assert worker.run(names["append"], ptx) == Outcome("")


def test_a_loop_without_end_is_stopped(worker, names, ptx):
    outcome = worker.run(names["append"], ptx.replace("\tbar.sync", "$L_again:\n\tbra.uni $L_again;\n\tbar.sync"))
    assert outcome.killed == "limit"


def test_coverage_counts_the_executions_of_a_line(worker, names, ptx):
    counts = worker.coverage(names["append"])
    lines = ptx.split("\n")
    (barrier,) = [number for number, line in enumerate(lines, 1) if line.startswith("\tbar.sync")]
    warps, kv_heads, blocks = 4, 2, 3 + 5 + 1  # of 43, 75 and 5 tokens, 16 a block
    assert counts[barrier] == warps * kv_heads * blocks
    assert all(lines[line - 1].startswith("\t") for line in counts)
