"""The mutants of single instructions."""

from __future__ import annotations

import json

import pytest

from tools.emulator.mutants.equivalent import Equivalent
from tools.emulator.mutants.instruction import contexts, instructions
from tools.emulator.mutants.rules import mutants

CASES = {
    "bar.sync 0;": {("dropped", "")},
    "bar.warp.sync -1;": {("dropped", ""), ("mask lacks a lane", "bar.warp.sync 2147483647;")},
    "cp.async.commit_group;": {("dropped", "")},
    "cp.async.wait_group 0;": {("dropped", ""), ("one group more in flight", "cp.async.wait_group 1;")},
    "@%p1 bra $L;": {
        ("guard negated", "@!%p1 bra $L;"),
        ("always executed", "bra $L;"),
        ("never executed", ""),
    },
    "@!%p1 mov.u32 %r1, 1;": {
        ("guard negated", "@%p1 mov.u32 %r1, 1;"),
        ("always executed", "mov.u32 %r1, 1;"),
        ("never executed", ""),
    },
    "setp.lt.s32 %p1, %r1, %r2;": {("comparison shifted", "setp.le.s32 %p1, %r1, %r2;")},
    "setp.lt.s32 %p1, %r1, 8;": {
        ("comparison shifted", "setp.le.s32 %p1, %r1, 8;"),
        ("8 shifted to 7", "setp.lt.s32 %p1, %r1, 7;"),
    },
    "setp.gt.u32 %p1, %r1, 0;": {
        ("comparison shifted", "setp.ge.u32 %p1, %r1, 0;"),
        ("0 shifted to 1", "setp.gt.u32 %p1, %r1, 1;"),
    },
    "setp.eq.s32 %p1, %r1, 0;": {
        ("comparison shifted", "setp.ne.s32 %p1, %r1, 0;"),
        ("0 shifted to 1", "setp.eq.s32 %p1, %r1, 1;"),
        ("0 shifted to -1", "setp.eq.s32 %p1, %r1, -1;"),
    },
    "min.s32 %r1, %r2, 64;": {
        ("64 shifted to 65", "min.s32 %r1, %r2, 65;"),
        ("64 shifted to 63", "min.s32 %r1, %r2, 63;"),
    },
    "selp.f32 %f1, 0fFF800000, %f2, %p1;": {("choices exchanged", "selp.f32 %f1, %f2, 0fFF800000, %p1;")},
    "cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;": {
        ("zero fill left out", "cp.async.cg.shared.global [%r1], [%rd1], 16, 16;")
    },
    "shfl.sync.bfly.b32 %r1|%p1, %r2, %r3, %r4, %r5;": {
        ("mask lacks a lane", "shfl.sync.bfly.b32 %r1|%p1, %r2, %r3, %r4, 2147483647;")
    },
    "add.s32 %r1, %r2, 1;": set(),
}


@pytest.mark.parametrize("line", CASES)
def test_mutants_of_an_instruction(line):
    found = mutants("gated_fwd_sm80", "\t" + line)
    assert {(each.rule, each.changed.strip()) for each in found} == CASES[line]
    assert len(found) == len(CASES[line])


def test_a_mutant_changes_its_line_only():
    text = '$L:\n\t// a comment;\n\tbar.sync 0;\n\t.pragma "nounroll";\n\tret;\n'
    (mutant,) = mutants("gated_fwd_sm80", text)
    assert mutant.line == 3
    assert mutant.apply(text) == text.replace("\tbar.sync 0;", "")


def test_a_context_survives_other_lines_and_registers():
    text = ["\tmov.u32 %r1, 0;", "$L__BB0_1:", "\tadd.s32 %r2, %r1, 4;", "\t@%p3 bra $L__BB0_1;"]
    moved = ["// more", "", *(line.replace("%r1", "%r17").replace("BB0_1", "BB0_9") for line in text)]
    first, second = contexts(instructions(text)), contexts(instructions(moved))
    assert list(first.values()) == list(second.values())
    assert [line + 2 for line in first] == list(second)
    other = contexts(instructions([line.replace("4;", "5;") for line in text]))
    assert not set(other.values()) & set(first.values())


def test_a_place_tells_instructions_with_the_same_context_apart(tmp_path):
    text = ["\tadd.s32 %r1, %r1, 1;"] * 4 + ["\tbar.sync 0;"] + ["\tadd.s32 %r1, %r1, 1;"] * 4
    first, second = mutants("gated_fwd_sm80", "\n".join(text * 2))
    assert (first.context, first.place) == (second.context, 0)
    assert second.place == 1

    group = {"operation": "fwd", "rule": "dropped", "text": "bar.sync 0;", "why": "It is alone."}
    path = tmp_path / "equivalent.json"
    for context, expected in ((first.context, [True, True]), (f"{first.context}#1", [False, True])):
        path.write_text(json.dumps([{**group, "contexts": [context]}]))
        assert [bool(Equivalent(path).why(each)) for each in (first, second)] == expected
