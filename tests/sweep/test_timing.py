"""The time stage, on a bench that needs no GPU."""

from __future__ import annotations

import shutil

import pytest
from made_up import CASES, INCUMBENT, TIMED, FakeBench, write_pack

from tools.sweep.dropped import dropped
from tools.sweep.generator import MachineError
from tools.sweep.state import UNFINISHED, State
from tools.sweep.sweep import SweepError, read_sweep
from tools.sweep.timing import order, time_points


class Killed(Exception):
    """Stands for the end of the process."""


def killed_at(turn: int):
    def time(point: str, case: str, now: int) -> float:
        if now == turn:
            raise Killed
        return 1.0

    return time


def test_every_round_times_every_survivor_on_every_case_in_an_order_of_its_own(compiled):
    bench = FakeBench(lambda point, case, turn: float(turn))
    time_points(compiled, bench)
    assert bench.checked == TIMED
    size, orders = len(TIMED), []
    for start in range(0, 8 * len(CASES) * size, size):
        points, cases = zip(*bench.turns[start : start + size])
        assert sorted(points) == sorted(TIMED)
        assert set(cases) == {CASES[start // size % 2]}
        orders.append(points)
    assert orders[0::2] == orders[1::2]  # both cases of a round
    assert len(set(orders)) > 4  # of eight rounds
    rounds = compiled.rounds.measured()
    assert len(rounds) == 8 and rounds[0][orders[0][0]][CASES[0]] == 1.0 and rounds[7][orders[15][3]][CASES[1]] == 64.0


def test_orders_are_the_same_in_every_process_and_favour_no_place():
    points = [f"p{i}" for i in range(6)]
    assert order(points, 3) == order(points, 3)
    places = {point: [order(points, number).index(point) for number in range(200)] for point in points}
    assert all(abs(sum(at) / 200 - 2.5) < 0.5 for at in places.values())
    # Neither does any other point always run before it.
    before = {order(points, number)[order(points, number).index("p0") - 1] for number in range(200)}
    assert before == set(points[1:])


def test_a_wrong_point_is_dropped_with_its_reason_and_not_timed(compiled):
    bench = FakeBench(wrong={"tile_m128-tile_n32": "o: largest error 1"})
    time_points(compiled, bench)
    assert "tile_m128-tile_n32" not in {point for point, _ in bench.turns}
    assert dropped(compiled)["tile_m128-tile_n32"] == ("wrong", "o: largest error 1")
    assert compiled.survivors == [point for point in TIMED if point != "tile_m128-tile_n32"]


def test_nothing_is_timed_if_the_incumbent_is_wrong(compiled):
    bench = FakeBench(wrong={INCUMBENT: "o: largest error 1"})
    with pytest.raises(SweepError, match=f"the plan's own tile, {INCUMBENT}: o: largest error 1"):
        time_points(compiled, bench)
    assert not bench.turns


def test_a_killed_stage_goes_on_with_the_round_it_was_in(compiled):
    per_round = len(TIMED) * len(CASES)
    first = FakeBench(killed_at(3 * per_round + 5))
    with pytest.raises(Killed):
        time_points(compiled, first)
    again = State(compiled.folder)
    assert again.rounds.missing == [3, 4, 5, 6, 7]
    second = FakeBench()
    time_points(again, second)
    assert second.checked == []
    assert len(second.turns) == 5 * per_round and second.turns[:4] == first.turns[3 * per_round :][:4]
    assert not again.rounds.missing
    third = FakeBench()
    time_points(State(compiled.folder), third)
    assert not third.turns


def test_a_stage_killed_while_it_checks_keeps_the_checks(compiled):
    class Dies(FakeBench):
        def require_usable(self) -> None:
            if len(self.checked) == 2:
                raise Killed

    with pytest.raises(Killed):
        time_points(compiled, Dies(wrong={TIMED[1]: "wrong"}))
    second = FakeBench()
    again = State(compiled.folder)
    time_points(again, second)
    assert second.checked == TIMED[2:]
    assert TIMED[1] not in again.survivors


def test_a_point_whose_check_never_ended_is_dropped(compiled, tmp_path):
    class Hangs(FakeBench):
        def check(self, point: str) -> str | None:
            if point == TIMED[2]:  # what is on disk now is what a kill leaves
                shutil.copytree(compiled.folder, tmp_path / "killed")
            return super().check(point)

    time_points(compiled, Hangs())
    assert compiled.survivors == TIMED
    killed, bench = State(tmp_path / "killed"), FakeBench()
    time_points(killed, bench)
    assert bench.checked == TIMED[3:]
    assert dropped(killed)[TIMED[2]] == ("wrong", UNFINISHED)
    assert TIMED[2] not in killed.survivors and not killed.rounds.missing


def test_an_incumbent_whose_check_never_ended_is_checked_again(compiled, tmp_path):
    class Hangs(FakeBench):
        def check(self, point: str) -> str | None:
            if point == INCUMBENT:
                shutil.copytree(compiled.folder, tmp_path / "killed")
            return super().check(point)

    time_points(compiled, Hangs())
    bench = FakeBench()
    time_points(State(tmp_path / "killed"), bench)
    assert bench.checked == TIMED


@pytest.mark.parametrize("error", [MachineError("out of memory"), KeyboardInterrupt()])
def test_a_check_that_cannot_be_done_says_nothing_of_the_point(compiled, error):
    with pytest.raises(type(error)):
        time_points(compiled, FakeBench(wrong={TIMED[1]: error}))
    assert State(compiled.folder).checks == {INCUMBENT: None}
    bench = FakeBench()
    time_points(State(compiled.folder), bench)
    assert bench.checked == TIMED[1:]


def faster(point: str, case: str, turn: int) -> float:
    return 0.5 if point == TIMED[2] else 1.0


def test_the_fastest_and_the_incumbent_take_turns_in_confirming_rounds(compiled):
    bench = FakeBench(faster)
    time_points(compiled, bench)
    confirming = bench.turns[8 * len(CASES) * len(TIMED) :]
    pair = INCUMBENT, TIMED[2]
    assert confirming == [
        (point, case) for number in range(30) for case in CASES for point in (pair if number % 2 == 0 else pair[::-1])
    ]
    rounds = compiled.confirming.measured()
    assert rounds == [{point: dict.fromkeys(CASES, faster(point, "", 0)) for point in pair}] * 30


def test_there_are_as_many_confirming_rounds_as_rounds_but_30_at_least(tmp_path, sweep_file):
    assert read_sweep(sweep_file(rounds=5)).confirming_rounds == 30
    assert read_sweep(sweep_file(rounds=31)).confirming_rounds == 31


def test_a_killed_confirmation_goes_on_with_the_round_it_was_in(compiled):
    searching = 8 * len(CASES) * len(TIMED)

    def time(point: str, case: str, turn: int) -> float:
        if turn == searching + 2 * 2 * len(CASES) + 3:
            raise Killed
        return faster(point, case, turn)

    with pytest.raises(Killed):
        time_points(compiled, FakeBench(time))
    again, bench = State(compiled.folder), FakeBench(faster)
    assert again.confirming.missing == list(range(2, 30))
    time_points(again, bench)
    assert len(bench.turns) == 28 * 2 * len(CASES) and not again.confirming.missing


def test_rounds_of_another_machine_or_other_kernels_are_not_mixed(compiled):
    time_points(compiled, FakeBench())
    other = FakeBench()
    other.gpu = "another GPU"
    with pytest.raises(SweepError, match="timing began with gpu made-up GPU, now it is another GPU; remove"):
        time_points(compiled, other)
    pack = compiled.pack(TIMED[1])
    (pack / "manifest.json").unlink()
    pack.rmdir()
    write_pack(pack, registers=255)
    with pytest.raises(SweepError, match="timing began with kernels "):
        time_points(compiled, FakeBench())


def test_progress_without_a_terminal_is_lines_with_the_time_left(compiled, capsys):
    time_points(compiled, FakeBench())
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"checking 4/4, 0 s left: {TIMED[-1]}"
    assert lines[-1] == "timing 64/64, 0 s left: round 8"
