"""What is made of measured rounds: statistics, table, CSV, plot, and the plan."""

from __future__ import annotations

import csv
import json
import struct

import pytest
from made_up import CASES, INCUMBENT, TIMED, FakeBench, compiled_state

from tools.sweep import report
from tools.sweep.apply import Refused, apply
from tools.sweep.plan_text import with_numbers
from tools.sweep.summary import summarise
from tools.sweep.sweep import SweepError
from tools.sweep.timing import time_points

FAST = "tile_m128-tile_n32"


def rounds_of(speedups: list[float]) -> list[dict]:
    """Rounds in which "new" is that much faster than "old", under a clock that drifts by far more."""
    return [
        {"old": {"a": drift, "b": 4 * drift}, "new": {"a": drift / s, "b": 4 * drift / s}}
        for drift, s in zip((1.0, 1.5, 2.0, 0.5, 3.0), speedups, strict=True)
    ]


def timed(state, speedup: float, scatter: float = 0.0):
    """Times a made-up state: FAST is faster by `speedup` give or take `scatter`, the others slower by half."""

    def time(point: str, case: str, turn: int) -> float:
        round_number = (turn - 1) // (len(TIMED) * len(CASES))
        drift = 1 + 0.1 * round_number
        if point == INCUMBENT:
            return drift
        return drift / (speedup + scatter * (-1) ** round_number) if point == FAST else 1.5 * drift

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
    timed(compiled, 1.1)
    report.show(compiled, report.results_of(compiled))
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    assert "made-up: forward of gated_d64_r32_sm90, made-up GPU, 8 of 8 rounds" in out
    assert ["tile_m128-tile_n32", "103", "1024", "1.2273", "+10.00", "0.00"] in rows
    assert [INCUMBENT, "incumbent", "100", "1024", "1.3500"] in rows
    assert f"best is {FAST}: margin 10.00 %, spread 0.00 %; more than the rounds scatter" in out.splitlines()
    assert "6 points, 2 dropped:" in out.splitlines()
    assert "  1 refused: needs about N registers a thread" in out.splitlines()
    assert "  1 failed: N bytes of spills" in out.splitlines()


def test_csv_has_a_row_for_every_point(compiled):
    timed(compiled, 1.1)
    files = report.write(compiled, report.results_of(compiled))
    rows = list(csv.DictReader((compiled.folder / "result.csv").read_text().splitlines()))
    assert files[1] == compiled.folder / "result.csv"
    assert [row["point"] for row in rows[:2]] == [FAST, INCUMBENT]
    assert {row["point"] for row in rows} == set(compiled.points)
    assert rows[0]["state"] == "timed" and rows[0]["tile_m"] == "128" and rows[0]["blocks_per_sm"] == "2"
    assert float(rows[0]["margin"]) == pytest.approx(0.1) and float(rows[0][f"milliseconds {CASES[1]}"]) > 1
    refused = next(row for row in rows if row["point"] == "tile_m64-tile_n256")
    assert refused["state"] == "refused" and refused["reason"].startswith("needs about 300")
    assert refused["margin"] == refused["registers"] == ""


def test_result_json_accounts_for_the_sweep(compiled):
    timed(compiled, 1.1)
    report.write(compiled, report.results_of(compiled))
    facts = json.loads((compiled.folder / "result.json").read_text())
    assert facts["commit"] == "0123456789abcdef" and facts["gpu"] == "made-up GPU" and facts["driver"] == "1.2.3"
    assert facts["best"]["tile_n"] == 32 and facts["incumbent"]["tile_n"] == 64 and facts["rounds"] == 8
    assert facts["margin"] == pytest.approx(0.1) and "interquartile" in facts["spread_is"]
    assert [row["point"] for row in facts["timed"]][:2] == [FAST, INCUMBENT]
    assert facts["dropped"]["tile_m128-tile_n256"] == "failed: 8 bytes of spills; accepted: none"


def test_the_plot_is_a_png(compiled):
    pytest.importorskip("matplotlib", reason="matplotlib isn't installed")
    timed(compiled, 1.1, scatter=0.02)
    files = report.write(compiled, report.results_of(compiled))
    png = (compiled.folder / "result.png").read_bytes()
    assert files[-1].name == "result.png"
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 600 and height > 200


def test_no_rounds_no_results(compiled):
    with pytest.raises(SweepError, match="no round is measured yet"):
        report.results_of(compiled)


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


def test_a_margin_within_the_spread_is_refused_with_both_numbers(compiled, project):
    plan = project / compiled.sweep.plan
    before = plan.read_text()
    timed(compiled, 1.02, scatter=0.05)
    with pytest.raises(Refused, match=f"{FAST}: margin 2.00 %, spread 5.00 %; the margin must exceed the spread"):
        apply(compiled, project)
    assert plan.read_text() == before and not (project / "docs").exists()


def test_an_incumbent_that_nothing_beats_stays(compiled, project):
    timed(compiled, 0.9)
    with pytest.raises(Refused, match=f"no point is faster than the incumbent, {INCUMBENT}"):
        apply(compiled, project)


def test_half_a_measurement_is_not_applied(compiled, project):
    timed(compiled, 1.1)
    (compiled.folder / "rounds" / "0007.json").unlink()
    assert len(report.results_of(compiled)) == len(TIMED)
    with pytest.raises(SweepError, match="1 of 8 rounds are still to be timed"):
        apply(compiled, project)


def test_a_variant_of_a_list_is_applied_in_its_place(tmp_path, project, sweep_file):
    path = project / "templates/plans/gated_d64_r32_sm90.json"
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
