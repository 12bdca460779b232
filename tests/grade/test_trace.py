"""Trace files: what they may say, and what is said when they don't."""

import json

import pytest

from tools.grade.trace import MEBIBYTE
from tools.grade.trace_file import TraceError, load_trace, load_traces, load_workloads

from .conftest import REPOSITORY

CONFIG = {"head_dim": 64, "gate_dim": 32, "q_heads": 4, "kv_heads": 2, "modes": ["training"]}
FORWARD = {"call": "forward", "as": "f", "batch": 1, "length": 4, "seed": "s"}
CREATE = {"call": "create", "as": "a"}


def write(tmp_path, **changes):
    trace = {"covers": "x", "tier": "tight", "config": CONFIG, "calls": [CREATE], **changes}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({key: value for key, value in trace.items() if value is not None}))
    return path


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"tier": "loose"}, "'tier': expected one of tight, ample, got 'loose'"),
        ({"covers": None}, "'covers' is missing"),
        ({"speed": 3}, "'speed' is not a field here"),
        ({"small": 1}, "'small': expected bool, got 1"),
        ({"config": {**CONFIG, "q_heads": "4"}}, "config: 'q_heads': expected a number above 0, got '4'"),
        ({"config": {**CONFIG, "modes": []}}, "config: 'modes': expected a list of modes"),
        ({"calls": [CREATE, {"call": "dance"}]}, "call 1: 'call': expected one of forward, .*, got 'dance'"),
        ({"calls": [{"call": "create"}]}, "call 0: 'as' is missing"),
        ({"calls": [{**CREATE, "layout": "packed"}]}, "call 0: 'layout' is not a field here"),
        ({"calls": [{"call": "prefill", "rows": [{"seq": "a", "seed": "s"}]}]}, "call 0, row 0: 'count' is missing"),
        (
            {"calls": [{"call": "forward", "as": "f", "batch": True, "length": 1, "seed": "s"}]},
            "'batch': expected int, got True",
        ),
        ({"calls": []}, "'calls': expected one or more"),
        ({"config": {**CONFIG, "memory_limit_bytes": 5}}, "'memory_limit_bytes' comes from the tier"),
        ({"config": {**CONFIG, "kv_heads": 3}}, "'q_heads': expected a multiple of kv_heads, got 4"),
        ({"config": {**CONFIG, "modes": ["decode"]}}, "'max_sequences': expected a number above 0, got None"),
        ({"calls": [{"call": "release", "of": "q"}]}, "call 0 .*: there is no 'q' at this point; there are none"),
        ({"calls": [CREATE, CREATE]}, "call 1 .*: 'as': 'a' was there before"),
        ({"calls": [CREATE, {"call": "truncate", "of": "a", "length": 1}]}, "'length': expected 0 to 0, got 1"),
        ({"calls": [{**CREATE, "fails": "KeyError"}]}, "'fails': expected one of .*UnknownSequence"),
        ({"calls": [{"repeat": 0, "calls": [CREATE]}]}, "expected one round or more"),
        ({"calls": [{"call": "backward", "of": "f", "seed": "s"}]}, "there is no 'f' at this point"),
        ({"calls": [{"call": "forward", "as": "f", "batch": 1, "length": 0, "seed": "s"}]}, "1 or more, got 1, 0"),
        ({"calls": [3]}, "call 0: expected an object, got 3"),
        ({"calls": [{"repeat": 2, "calls": [{"call": "x"}]}]}, "call 0, round 0: 0: 'call': expected one of"),
    ],
)
def test_a_bad_trace_is_refused_with_its_place(tmp_path, changes, words):
    path = write(tmp_path, **changes)
    with pytest.raises(TraceError, match=words) as caught:
        load_trace(path)
    assert str(caught.value).startswith(str(path))


def test_no_json_is_refused(tmp_path):
    (tmp_path / "t.json").write_text("{")
    with pytest.raises(TraceError, match="t.json: Expecting"):
        load_trace(tmp_path / "t.json")
    with pytest.raises(TraceError, match="missing.json"):
        load_trace(tmp_path / "missing.json")


def test_a_repeat_is_unrolled_with_its_number(tmp_path):
    body = [{"call": "create", "as": "s{i}"}, {"call": "release", "of": "s{i}"}]
    trace = load_trace(write(tmp_path, calls=[{"repeat": 3, "calls": body}, CREATE]))
    assert [(c.call, c.name or c.of) for c in trace.calls] == [
        ("create", "s0"), ("release", "s0"), ("create", "s1"), ("release", "s1"), ("create", "s2"), ("release", "s2"),
        ("create", "a"),
    ]  # fmt: skip


def test_limits_are_the_contract_s(tmp_path):
    serving = {
        **CONFIG,
        "modes": ["prefill", "decode"],
        "max_sequences": 1,
        "max_seq_len": 9,
        "max_cached_tokens": 1000,
    }
    cache = 1000 * 2 * (64 + 64 + 32) * 2
    assert load_trace(write(tmp_path, config=serving)).limit() == int(cache * 1.05) + 64 * MEBIBYTE
    assert load_trace(write(tmp_path, config=serving, tier="ample")).limit() == int(cache * 1.25) + 256 * MEBIBYTE
    # q, o, do, dq and qg, dqg of the query heads; k, v, kg and their gradients of the key/value heads.
    step = 3 * 50 * (4 * (4 * 64 + 2 * 32) + 2 * 2 * (64 + 64 + 32)) * 2
    forward = {"call": "forward", "as": "f", "batch": 3, "length": 50, "seed": "s"}
    assert load_trace(write(tmp_path, calls=[forward])).limit() == int(step * 0.25) + 64 * MEBIBYTE
    assert load_trace(write(tmp_path, calls=[forward], tier="ample")).limit() == step + 256 * MEBIBYTE


def test_workloads_come_from_a_manifest(tmp_path):
    with pytest.raises(TraceError, match="manifest.json"):
        load_workloads(tmp_path)
    write(tmp_path)
    (tmp_path / "manifest.json").write_text('{"workloads": ["t.json"]}')
    with pytest.raises(TraceError, match="'stratum': expected train, prefill or decode"):
        load_workloads(tmp_path)
    write(tmp_path, stratum="train-d8-r8")
    with pytest.raises(TraceError, match="needs a call with an output"):
        load_workloads(tmp_path)
    write(tmp_path, stratum="train-d8-r8", calls=[FORWARD])
    assert [w.stratum for w in load_workloads(tmp_path)] == ["train-d8-r8"]
    write(tmp_path, stratum="train-d8-r8", calls=[{**FORWARD, "out": "returned"}])
    with pytest.raises(TraceError, match="are given their outputs"):
        load_workloads(tmp_path)


def test_the_audit_covers_what_it_must():
    traces = load_traces(REPOSITORY / "tools" / "grade" / "traces")
    assert len(traces) == 34
    strata = {"train": {}, "prefill": {}, "decode": {}}
    for trace in traces:
        if trace.stratum:
            c = trace.config
            mode, key = trace.stratum.partition("-")[0], (c["head_dim"], c["gate_dim"])
            strata[mode].setdefault(key, set()).add(c["q_heads"] // c["kv_heads"])
    groups = {
        "train": {(64, 32): 1, (64, 64): 4, (128, 32): 4, (128, 64): 8},
        "prefill": {(64, 32): 4, (64, 64): 1, (128, 32): 8, (128, 64): 4},
        "decode": {(64, 32): 4, (64, 64): 1, (128, 32): 8, (128, 64): 4},
    }
    for mode, expected in groups.items():
        assert strata[mode] == {key: {group} for key, group in expected.items()}
    kinds = {call.call for trace in traces for call in trace.calls}
    assert kinds == {
        "forward", "backward", "attention", "create", "fork", "release", "truncate", "prefill", "decode",
    }  # fmt: skip
    calls = [call for trace in traces for call in trace.calls]
    assert {call.layout for call in calls} == {"contiguous", "packed", "padded", "heads_first"}
    assert {call.fails for call in calls} == {"", "PagesExhausted", "LengthError", "UnknownSequence"}
    assert {n for call in calls if call.call == "decode" and not call.fails for n in call.counts} == set(range(1, 9))
    assert {trace.tier for trace in traces} == {"tight", "ample"}
    assert {trace.dtype for trace in traces} == {"bfloat16", "float16"}
