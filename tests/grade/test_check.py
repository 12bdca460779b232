"""The audit fails every engine that is wrong in one way, and passes the starter."""

import hashlib
import json
import re
import subprocess

import numpy as np
import pytest

from tools.grade.data import Source
from tools.grade.script import Script
from tools.grade.trace_file import load_trace

from .conftest import REPOSITORY, SMALL, SMALL_PARTS, STARTER

TRACES = REPOSITORY / "tools" / "grade" / "traces"
SERVING, TRAINING = "decode-d64-r64-tokens", "train-two-in-flight"

# 16 MiB over: torch's count is exact; what a driver or the heap holds has 8 MiB to spare, code included.
HELD = r"held ([7-9]|1\d)\.\d MiB more than memory_limit_bytes, \d+, beyond the 8 MiB left"

# What catches a bad engine: a trace, and words of the failure.
CAUGHT = {
    "writes_nothing": (SERVING, "aren't finite"),
    "returns_last_output": (TRAINING, "largest error"),
    "writes_input": (TRAINING, "wrote to input q of call 0"),
    "one_bit_on_second_run": (TRAINING, r"[12] of \d+ values of \w+ differ between the two runs"),
    "skips_last_key": (SERVING, "largest error"),
    "reads_past_length": (SERVING, "largest error"),
    "ignores_gate_in_one_head": (SERVING, "mean"),
    "holds_over_ceiling": (TRAINING, HELD),
    "holds_over_ceiling_in_driver": (
        TRAINING,
        HELD,
    ),
    "compiles_at_run_time": (TRAINING, "started a pro"),
    "maps_a_compiler": (TRAINING, "opened a compiler's library: .*libnvrtc.so.13"),
    "wrong_in_timed_traces": (SERVING, "differ between the two runs|largest error"),
    "behaves_when_watched": (SERVING, "largest error"),
    "crashes_at_exit": (TRAINING, "ended with signal SIGABRT"),
    "exits_nonzero": (TRAINING, "ended with exit code 3"),
    "leaks_page_per_fork": ("decode-reuse", "PagesExhausted"),
    "opens_a_connection": (TRAINING, "asked for a network socket, of address family 2"),
    "opens_a_connection_natively": (TRAINING, "asked for a network socket, of address family 2"),
    "writes_a_file": (TRAINING, "changed a file outside its scratch folder: openat .*engine/"),
    "writes_to_tmp": (TRAINING, "changed a file outside its scratch folder: openat /tmp/"),
    "reaches_into_its_parent": (TRAINING, r"changed a file outside its scratch folder: openat /proc/\d+/mem"),
    "writes_through_a_link": (TRAINING, "changed a file outside its scratch folder: openat .*victim"),
    "leaves_a_child": (TRAINING, "started a process"),
    "writes_by_reopening": (TRAINING, r"changed a file outside its scratch folder: openat .*/__init__\.py"),
    "remembers_the_first_run": (TRAINING, "asked for memory that outlives it, by shmget"),
    "hides_its_crash": (TRAINING, "no answer|ended with exit code 0"),
    "closes_badly": (TRAINING, "close raised ValueError: no"),
    "works_after_the_clock": (SERVING, "aren't finite"),
    "starts_a_program": (TRAINING, "started a pro"),
    "wrong_error": ("prefill-exhaustion", "should raise PagesExhausted, raised RuntimeError"),
    "changes_on_failure": ("prefill-exhaustion", r"length\(a\) gave 160, not 150"),
}


@pytest.mark.parametrize("fault", CAUGHT)
def test_a_bad_engine_fails(faulty, grade, fault):
    trace, words = CAUGHT[fault]
    folder = faulty(fault)
    if fault == "maps_a_compiler":
        subprocess.run(["cc", "-shared", "-o", folder / "libnvrtc.so.13", "-x", "c", "/dev/null"], check=True)
    done = grade("check", folder, "--only", trace)
    assert done.code == 1, done.output
    assert any(re.search(words, failure) for failure in done.failures), done.output
    assert done.output.endswith("0 of 1 traces passed\n"), done.output


def test_the_harness_stands_a_bad_pointer(faulty, grade):
    done = grade("check", faulty("passes_a_bad_pointer"), "--only", TRAINING)
    assert done.code == 0, done.output


def test_every_fault_has_its_test():
    assert set(CAUGHT) | {"knows_public_traces", "passes_a_bad_pointer"} == {
        path.stem for path in (REPOSITORY / "tests/grade/faults").glob("*.py")
    }


def test_an_engine_that_knows_the_public_data_fails_on_fresh_data(faulty, grade):
    """It has seen a grading with a known salt, and answers for that data alone."""
    folder = faulty("knows_public_traces")
    trace = load_trace(TRACES / f"{TRAINING}.json")
    script, source = Script(trace, "host"), Source("published", trace.dtype)
    known = [
        hashlib.sha256(script.values(step, "q", source).tobytes()[:4096]).hexdigest()
        for step in script.steps
        if "q" in step.inputs
    ]
    (folder / "known.json").write_text(json.dumps(known))
    replayed = grade("check", folder, "--only", TRAINING, "--salt", "published")
    assert replayed.code == 0, replayed.output
    fresh = grade("check", folder, "--only", TRAINING)
    assert fresh.code == 1 and "largest error" in fresh.output, fresh.output


def test_there_are_small_traces():
    assert len(SMALL) == 21


@pytest.mark.parametrize("names", SMALL_PARTS, ids=" ".join)
def test_the_starter_passes_every_small_trace(grade, names):
    done = grade("check", STARTER, "--only", *names)
    assert done.code == 0, done.output
    assert len(done.facts["traces"]) == len(names)
    assert done.output.endswith(f"{len(names)} of {len(names)} traces passed\n")
    assert all(0 < trace["error_over_allowed"] < 1 for trace in done.facts["traces"])


def test_the_same_salt_gives_the_same_data_and_another_other():
    a, again, b = (Source(salt, "bfloat16").rows("seed", "q", 0, (40, 2, 8)) for salt in ("x", "x", "y"))
    assert np.array_equal(a, again) and not np.array_equal(a, b)


def test_what_is_no_engine_is_said_so(grade, tmp_path):
    done = grade("check", tmp_path)
    assert (done.code, "found no __init__.py" in done.output) == (2, True)
    (tmp_path / "empty").mkdir()
    done = grade("check", STARTER, "--traces", tmp_path / "empty")
    assert (done.code, "expected trace files" in done.output) == (2, True)


def test_an_engine_that_cant_be_built_fails(tmp_path, grade):
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('no such thing')\n")
    done = grade("check", folder, "--only", TRAINING)
    assert done.code == 1 and "importing the folder raised ImportError: no such thing" in done.failures[0]
    (folder / "__init__.py").write_text("def build_engine(config): raise ValueError(config['head_dim'])\n")
    done = grade("check", folder, "--only", TRAINING)
    assert done.code == 1 and "build_engine raised ValueError: 128" in done.failures[0]
