"""The timed half: contenders in turns, rows re-checked, latencies combined, the cost of a workload counted."""

import json
import math
from statistics import median

import pytest

from tools.bench.floors import Datasheet
from tools.grade.cost import cost
from tools.grade.results import page
from tools.grade.score import combine, score
from tools.grade.script import Script
from tools.grade.trace_file import load_trace, load_workloads

from .conftest import REPOSITORY, STARTER

SMALL = REPOSITORY / "tests" / "grade" / "workloads"
PUBLIC = REPOSITORY / "tools" / "grade" / "workloads"


def test_the_starter_beside_itself(grade):
    done = grade("bench", STARTER, "--workloads", SMALL, "--rounds", 2)
    assert done.code == 0, done.output
    assert [row["workload"] for row in done.facts["workloads"]] == ["train-small", "prefill-small", "decode-small"]
    for row in done.facts["workloads"]:
        assert row["failures"] == {}
        assert {name: len(times) for name, times in row["seconds"].items()} == {"engine": 4, "starter": 4}
        assert row["speedup"] == pytest.approx(median(row["seconds"]["starter"]) / median(row["seconds"]["engine"]))
    assert set(done.facts["speedups"]["starter"]) == {
        "train-d64-r32", "prefill-d64-r32", "decode-d64-r32", "train", "prefill", "decode", "all",
    }  # fmt: skip
    assert done.facts["score"] == score(done.facts["speedups"]["starter"]["all"])


@pytest.mark.parametrize(
    "fault", ["wrong_in_timed_traces", "writes_nothing", "holds_over_ceiling", "ignores_gate_in_one_head"]
)
def test_a_bad_engine_has_no_time_and_no_score(faulty, grade, fault):
    done = grade("bench", faulty(fault), "--workloads", SMALL, "--rounds", 1)
    assert done.code == 1, done.output
    for row in done.facts["workloads"]:
        assert row["failures"].get("engine") and row["engine_ms"] is None and row["starter_ms"] > 0
    assert done.facts["score"] == 0


def test_work_that_is_put_off_until_the_clock_was_read_counts_as_not_done(faulty, grade):
    done = grade(
        "bench", faulty("works_after_the_clock"), "--workloads", SMALL, "--rounds", 1, "--only", "fill", "code"
    )
    assert done.code == 1, done.output
    assert all("were not written" in row["failures"]["engine"][0] for row in done.facts["workloads"]), done.output


def test_a_peer_is_timed_beside(grade):
    done = grade("bench", STARTER, "--workloads", SMALL, "--rounds", 1, "--only", "decode", "--peer", STARTER)
    (row,) = done.facts["workloads"]
    assert row["speedup_over_peer"] == pytest.approx(row["peer_ms"] / row["engine_ms"])
    assert set(done.facts["speedups"]) == {"starter", "peer"}


def test_the_score_is_the_contract_s():
    assert score(1.0) == 0 and score(0.5) == 0
    assert score(2.0) == pytest.approx(-math.log(1 - 1 / 5.2) / math.log(20))
    assert score(1 + 5.2 * 0.9499) == pytest.approx(1, abs=1e-3)
    assert score(1 + 5.2 * 0.95) == pytest.approx(1) and score(5.95) == score(100) == 1


def test_latencies_combine_by_stratum_then_mode_then_all():
    strata = {"a": "train-x", "b": "train-x", "c": "train-y", "d": "decode-x"}
    combined = combine({"a": 1.0, "b": 4.0, "c": 8.0, "d": 9.0}, strata)
    assert combined == pytest.approx({"train-x": 2, "train-y": 8, "train": 4, "decode-x": 9, "decode": 9, "all": 6})


def test_the_public_workloads_are_the_contract_s_strata():
    workloads = load_workloads(PUBLIC)
    strata = {w.stratum for w in workloads}
    dims = [(64, 32), (64, 64), (128, 32), (128, 64)]
    assert strata == {f"{mode}-d{d}-r{r}" for mode in ("train", "prefill", "decode") for d, r in dims}
    for workload in workloads:
        c = workload.config
        assert workload.stratum.endswith(f"-d{c['head_dim']}-r{c['gate_dim']}")
        assert workload.tier == ("tight" if c["gate_dim"] == 64 else "ample")


def calls_of(tmp_path, calls, setup=(), **config):
    """The script of a made-up workload with 2 query heads and 1 key/value head, D 4, R 2."""
    heads = {"head_dim": 4, "gate_dim": 2, "q_heads": 2, "kv_heads": 1}
    trace = {"covers": "", "tier": "ample", "config": {**heads, **config}, "setup": list(setup), "calls": list(calls)}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    return Script(load_trace(path), "host")


def test_cost_of_a_training_step(tmp_path):
    forward = {"call": "forward", "as": "f", "batch": 3, "length": 5, "seed": "s"}
    found = cost(calls_of(tmp_path, [forward, {"call": "backward", "of": "f", "seed": "s"}], modes=["training"]))
    pairs = sum(1 for _ in range(3) for _ in range(2) for i in range(5) for j in range(5) if j <= i)
    rows = 3 * 5
    inputs = 2 * rows * (2 * 4 + 4 + 4 + 2 * 2 + 2)
    o = 2 * rows * 2 * 4
    assert found.calls == ((2 * (2 * 4 + 2) * pairs, inputs + o), (2 * (5 * 4 + 3 * 2) * pairs, 2 * inputs + o))
    sheet = Datasheet(tflops=1e-9, tbps=1.0)  # one FLOP a microsecond
    assert found.floor_ms(sheet) == pytest.approx(found.flops / 1e0)


def test_cost_counts_a_shared_prefix_once(tmp_path):
    def rows(**counts):
        return [{"seq": name, "seed": name, "count": count} for name, count in counts.items()]

    setup = [
        {"call": "create", "as": "p"},
        {"call": "prefill", "rows": rows(p=10)},
        {"call": "fork", "of": "p", "as": "a"},
    ]
    calls = [
        {"call": "decode", "rows": rows(a=1, p=2)},
        {"call": "truncate", "of": "a", "length": 4},
        {"call": "decode", "rows": rows(a=1)},
    ]
    serving = {"modes": ["prefill", "decode"], "max_sequences": 2, "max_seq_len": 20, "max_cached_tokens": 40}
    found = cost(calls_of(tmp_path, calls, setup, **serving))
    token, new = 2 * (4 + 4 + 2), 2 * (2 * 4 + 4 + 4 + 2 * 2 + 2 + 2 * 4)
    first = 2 * (2 * 4 + 2) * 2 * (11 + 11 + 12), 3 * new + 13 * token  # ten of both, one of a's, two of p's
    second = 2 * (2 * 4 + 2) * 2 * 5, new + 5 * token
    assert found.calls == (first, second)


def test_the_page_of_a_grading(grade):
    done = grade(
        "bench", STARTER, "--workloads", SMALL, "--rounds", 1, "--only", "decode", "--commit", "0123456789abcdef"
    )
    text = page({"traces": [{"ok": True}, {"ok": False}]}, {**done.facts, "driver": "580"})
    assert "Audit: 1 of 2 traces passed. Score: " in text
    (row,) = [line for line in text.splitlines() if line.startswith("| decode-small")]
    assert row.startswith("| decode-small | 0123456789 | none | 580 | ")
    assert (
        len({line.count("|") for line in text.splitlines() if line.startswith(("| decode-small", "| workload"))}) == 1
    )
