"""What is made of measured rounds: statistics, table, CSV, plot, and the plan."""

from __future__ import annotations

import csv
import json
import random
import struct
from collections.abc import Sequence

import pytest
from made_up import CASES, INCUMBENT, SWEEP, TIMED, FakeBench, compiled_state

from tools.sweep import report
from tools.sweep.apply import Refused, apply
from tools.sweep.outcome import Outcome, outcome_of
from tools.sweep.plan_text import with_numbers
from tools.sweep.summary import summarise
from tools.sweep.sweep import MIN_CONFIRMING_ROUNDS, SweepError
from tools.sweep.timing import time_points

FAST = "tile_m128-tile_n32"


def rounds_of(speedups: list[float]) -> list[dict]:
    """Rounds in which "new" is that much faster than "old", under a clock that drifts by far more."""
    return [
        {"old": {"a": drift, "b": 4 * drift}, "new": {"a": drift / s, "b": 4 * drift / s}}
        for drift, s in zip((1.0, 1.5, 2.0, 0.5, 3.0), speedups, strict=True)
    ]


def timed(state, speedup: float, confirmed: float | None = None, scatter: float = 0.0):
    """Times a made-up state: FAST is faster by `speedup`, the others are slower by half.

    confirmed: what FAST's speed-up is in the confirming rounds, give or take `scatter`; as before if it isn't told.
    """
    searching = state.sweep.rounds * len(CASES) * len(TIMED)  # turns

    def time(point: str, case: str, turn: int) -> float:
        if turn <= searching:
            number, ours = (turn - 1) // (len(CASES) * len(TIMED)), speedup
        else:
            number = (turn - 1 - searching) // (len(CASES) * 2)
            ours = (speedup if confirmed is None else confirmed) + scatter * (-1) ** number
        drift = 1 + 0.1 * number
        return drift / {INCUMBENT: 1.0, FAST: ours}.get(point, 0.5)

    time_points(state, FakeBench(time))
    return state


def test_margin_and_spread_are_of_pairs_within_a_round():
    new, old = summarise(rounds_of([1.02, 1.06, 1.04, 1.03, 1.05]), "old")
    assert (new.point, old.point) == ("new", "old")
    assert new.margin == pytest.approx(0.04) and new.spread == pytest.approx(0.01)
    assert new.is_better
    assert (old.margin, old.spread, old.is_better) == (0, 0, False)
    assert old.medians == {"a": 1.5, "b": 6.0} and old.milliseconds == pytest.approx(3.0)


def test_cases_count_alike_whatever_their_length():
    times = {"old": {"a": 1.0, "b": 100.0}, "new": {"a": 0.5, "b": 200.0}}
    new, old = summarise([times], "old")
    assert new.margin == pytest.approx(0) and old.margin == 0


@pytest.mark.parametrize(
    ("speedups", "better"),
    [([1.01, 1.01, 1.03, 1.05, 1.05], True), ([0.9, 0.99, 1.01, 1.03, 1.2], False), ([0.98] * 5, False)],
)
def test_a_margin_within_the_spread_is_no_better(speedups, better):
    results = {result.point: result for result in summarise(rounds_of(speedups), "old")}
    assert results["new"].is_better is better


def test_the_table_lines_up_the_points_and_counts_the_dropped(compiled, capsys):
    timed(compiled, 1.1, confirmed=1.08, scatter=0.01)
    report.show(compiled, outcome_of(compiled))
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert "made-up: forward of gated_d64_r32_sm90, made-up GPU, 8 of 8 rounds" in out
    assert ["tile_m128-tile_n32", "103", "1024", "1.2273", "+10.00", "0.00"] in rows
    assert [INCUMBENT, "incumbent", "100", "1024", "1.3500"] in rows
    assert f"best is {FAST}: margin 10.00 %, spread 0.00 %" in out.splitlines()
    confirmed = "in 30 of 30 confirming rounds: margin 8.00 %, spread 1.00 %; more than they scatter"
    assert confirmed in out.splitlines()
    assert out.splitlines()[-4:] == [
        "6 points, 2 dropped, for reasons such as:",
        "  1 refused: needs about 300 registers a thread (tile_m64-tile_n256)",
        "  1 failed: 8 bytes of spills (tile_m128-tile_n256)",
        f"all reasons: {compiled.folder}/points.json",
    ]


def test_csv_has_a_row_for_every_point(compiled):
    timed(compiled, 1.1, confirmed=1.08)
    files = report.write(compiled, outcome_of(compiled))
    rows = list(csv.DictReader((compiled.folder / "result.csv").read_text().splitlines()))
    assert files[1] == compiled.folder / "result.csv"
    assert [row["point"] for row in rows[:2]] == [FAST, INCUMBENT]
    assert {row["point"] for row in rows} == set(compiled.points)
    assert rows[0]["state"] == "timed" and rows[0]["tile_m"] == "128" and rows[0]["blocks_per_sm"] == "2"
    assert float(rows[0]["margin"]) == pytest.approx(0.1) and float(rows[0][f"milliseconds {CASES[1]}"]) > 1
    assert [row["confirmed_margin"][:4] for row in rows] == ["0.08", *[""] * 5]
    refused = next(row for row in rows if row["point"] == "tile_m64-tile_n256")
    assert refused["state"] == "refused" and refused["reason"].startswith("needs about 300")
    assert refused["margin"] == refused["registers"] == ""


def test_result_json_accounts_for_the_sweep(compiled):
    timed(compiled, 1.1, confirmed=1.08, scatter=0.01)
    report.write(compiled, outcome_of(compiled))
    facts = json.loads((compiled.folder / "result.json").read_text())
    assert facts["commit"] == "0123456789abcdef" and facts["gpu"] == "made-up GPU" and facts["driver"] == "1.2.3"
    assert facts["best"]["tile_n"] == 32 and facts["incumbent"]["tile_n"] == 64 and facts["rounds"] == 8
    assert facts["margin"] == pytest.approx(0.08) and facts["spread"] == pytest.approx(0.01)
    assert "interquartile" in facts["spread_is"] and facts["confirming_rounds"] == 30
    assert [row["point"] for row in facts["timed"]][:2] == [FAST, INCUMBENT]
    assert facts["timed"][0]["margin"] == pytest.approx(0.1)
    assert [row["point"] for row in facts["confirmed"]] == [FAST, INCUMBENT]
    assert facts["dropped"]["tile_m128-tile_n256"] == "failed: 8 bytes of spills; accepted: none"


def test_the_plot_is_a_png(compiled):
    pytest.importorskip("matplotlib", reason="matplotlib isn't installed")
    timed(compiled, 1.1, confirmed=1.08, scatter=0.02)
    files = report.write(compiled, outcome_of(compiled))
    png = (compiled.folder / "result.png").read_bytes()
    assert files[-1].name == "result.png"
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 600 and height > 200


def test_no_rounds_no_results(compiled):
    with pytest.raises(SweepError, match="no round is measured yet"):
        outcome_of(compiled)


def test_the_winner_goes_into_the_plan_and_nothing_else_changes(compiled, project):
    plan = project / compiled.sweep.plan
    before = plan.read_text()
    timed(compiled, 1.1)
    files = apply(compiled, project)
    assert files == [plan, project / "docs/results/sweeps/made-up.json"]
    old = '"forward": {"tile": {"tile_m": 64, "tile_n": 64, "query'
    assert plan.read_text() == before.replace(old, '"forward": {"tile": {"tile_m": 128, "tile_n": 32, "query')
    record = json.loads(files[1].read_text())
    assert (
        record["margin"] == pytest.approx(0.1)
        and record["spread"] == pytest.approx(0)
        and record["best"]["tile_m"] == 128
    )
    with pytest.raises(SweepError, match="the sweep started from"):
        apply(compiled, project)


def test_the_confirming_rounds_decide_whatever_the_others_say(compiled, project):
    plan = project / compiled.sweep.plan
    before = plan.read_text()
    timed(compiled, 1.5, confirmed=1.02, scatter=0.05)
    numbers = "margin 2.00 %, spread 5.00 % in the confirming rounds; the margin must exceed the spread"
    with pytest.raises(Refused, match=f"{FAST}: {numbers}"):
        apply(compiled, project)
    assert plan.read_text() == before and not (project / "docs").exists()


def test_an_incumbent_that_nothing_beats_stays(compiled, project):
    timed(compiled, 0.9)
    assert not compiled.confirming.measured()
    with pytest.raises(Refused, match=f"no point is faster than the incumbent, {INCUMBENT}"):
        apply(compiled, project)


def test_half_a_measurement_is_not_applied(compiled, project):
    timed(compiled, 1.1)
    (compiled.folder / "rounds" / "0007.json").unlink()
    assert len(outcome_of(compiled).timed) == len(TIMED)
    with pytest.raises(SweepError, match="1 of 8 rounds are still to be timed"):
        apply(compiled, project)


def test_half_a_confirmation_is_not_applied(compiled, project):
    timed(compiled, 1.1)
    (compiled.folder / "confirming" / "0011.json").unlink()
    assert outcome_of(compiled).confirmed.margin == pytest.approx(0.1)
    with pytest.raises(SweepError, match="1 of 30 confirming rounds are still to be timed"):
        apply(compiled, project)


def test_confirming_rounds_of_another_point_are_told(compiled):
    timed(compiled, 1.1)
    other = {point: dict.fromkeys(CASES, 1.0) for point in (INCUMBENT, TIMED[1])}
    compiled.confirming.record(3, other)
    with pytest.raises(SweepError, match=f"expected rounds of {FAST}, {INCUMBENT} alone; remove it"):
        outcome_of(compiled)


def equal_points(points: Sequence[str], rounds: int, source: random.Random) -> list[dict]:
    """Rounds in which all points take 1 ms but for noise of 0.5 %."""
    return [{point: {"a": source.gauss(1, 0.005)} for point in points} for _ in range(rounds)]


@pytest.mark.parametrize(("points", "rounds"), [(12, 5), (40, 30)])
def test_of_equal_points_hardly_any_is_applied_however_many_there_are(points, rounds):
    source, names = random.Random(0), [f"p{i}" for i in range(points)]
    picked, applied, sweeps = 0, 0, 500
    for _ in range(sweeps):
        timed = summarise(equal_points(names, rounds, source), "p0")
        if timed[0].point == "p0":
            continue
        pair = equal_points(["p0", timed[0].point], MIN_CONFIRMING_ROUNDS, source)
        outcome = Outcome(timed, summarise(pair, "p0"))
        picked += outcome.best.is_better
        applied += outcome.confirmed.is_better
    assert applied < 0.02 * sweeps
    assert picked > 2 * applied + 0.03 * sweeps  # what the rounds that picked the point would have let through


def test_a_point_that_is_faster_by_little_is_applied():
    source, applied, sweeps = random.Random(0), 0, 500
    for _ in range(sweeps):
        pair = equal_points(["p0", "p1"], MIN_CONFIRMING_ROUNDS, source)
        faster = [{**times, "p1": {"a": times["p1"]["a"] / 1.01}} for times in pair]
        applied += Outcome(summarise(faster, "p0"), summarise(faster, "p0")).confirmed.is_better
    assert applied > 0.98 * sweeps


def test_a_variant_of_a_list_is_applied_in_its_place(tmp_path, project, sweep_file):
    path = project / SWEEP["plan"]
    one = '{"tile": {"tile_m": 64, "tile_n": 64, "query_in_registers": 1, "blocks_per_sm": 2}}'
    first = one.replace("}}", '}, "when": {"seq_len": [0, 512]}}')
    text = path.read_text().replace(f'"forward": {one}', f'"forward": [\n      {first},\n      {one}\n    ]')
    path.write_text(text)
    state = timed(compiled_state(tmp_path / "state", sweep_file(variant=1), project), 1.1)
    apply(state, project)
    new = one.replace('"tile_m": 64, "tile_n": 64', '"tile_m": 128, "tile_n": 32')
    assert path.read_text() == text.replace(f"      {one}\n", f"      {new}\n")


def test_numbers_are_changed_in_any_format():
    text = '\n{ "a" : [ {"n":1}, {"x":{"n": -2},\n"n"\t: 30 , "m":[1,{"n":5}], "s":"\\"n\\": 7 }" } ],"n":9}\n'
    assert with_numbers(text, ("a", 1), {"n": 4}) == text.replace("\t: 30", "\t: 4")
    assert with_numbers(text, ("a", 1, "x"), {"n": 100}) == text.replace("-2", "100")
    with pytest.raises(LookupError):
        with_numbers(text, ("a", 2), {"n": 4})
    with pytest.raises(LookupError):
        with_numbers(text, ("a", 0), {"m": 4})
