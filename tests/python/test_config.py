"""build_engine's configuration: dicts, files, defaults, and what is refused, by name."""

from __future__ import annotations

import json
from collections import OrderedDict
from types import MappingProxyType

import pytest
import submission
from workloads import CONFIG, TRAINING


def build(config):
    submission.build_engine(config).close()


@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType])
def test_a_dict_of_any_kind(driver, kind):
    build(kind(CONFIG))


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_a_json_file(driver, tmp_path, kind):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**TRAINING, "dtype": "float16"}))
    with submission.build_engine(kind(path)) as engine:
        assert engine.describe()["config"]["dtype"] == "float16"


def test_the_callers_dict_stays_as_it_was(driver):
    config = {key: value for key, value in CONFIG.items() if key != "device"}
    before = dict(config)
    build(config)
    assert config == before


def test_modes_may_be_a_tuple(driver):
    with submission.build_engine({**CONFIG, "modes": ("decode",)}) as engine:
        assert engine.describe()["config"]["modes"] == ["decode"]


@pytest.mark.parametrize(("current", "expected"), [(-1, 0), (0, 0), (1, 1)])
def test_device_defaults_to_the_current_context(driver, current, expected):
    config = {key: value for key, value in CONFIG.items() if key != "device"}
    driver.set_current_device(current)
    try:
        with submission.build_engine(config) as engine:
            assert engine.describe()["config"]["device"] == expected
    finally:
        driver.set_current_device(-1)


FILES = {
    "not there": (None, "No such file"),
    "empty": (b"", "got invalid JSON"),
    "half": (b'{"head_dim": 64', "got invalid JSON"),
    "not text": (b"\xff\xfe\x00", "got invalid JSON"),
    "deep": (b"[" * 100_000, "got invalid JSON"),
    "a list": (b"[1, 2]", "expected a JSON object"),
    "a number": (b"1", "expected a JSON object"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_refused(tmp_path, name):
    content, words = FILES[name]
    path = tmp_path / "config.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(submission.ConfigError, match=words) as caught:
        build(path)
    assert caught.value.argument == "config"
    assert str(path) in str(caught.value)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(submission.ConfigError, match="Is a directory"):
        build(tmp_path)


def test_a_key_given_twice_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"head_dim": 64, "gate_dim": 32, "head_dim": 128}')
    with pytest.raises(submission.ConfigError, match="head_dim: expected once") as caught:
        build(path)
    assert caught.value.argument == "head_dim"


@pytest.mark.parametrize("config", [None, 3, ["head_dim"], b"{}", object()])
def test_a_config_of_another_type_is_refused(config):
    with pytest.raises(submission.ConfigError, match="config: expected a dict or the path of a JSON file") as caught:
        build(config)
    assert caught.value.argument == "config"


def test_keys_are_strings():
    with pytest.raises(submission.ConfigError, match="got 3"):
        build({**CONFIG, 3: 4})


ROUND = []
ROUND.append(ROUND)


NO_JSON = {
    "object": object(), "set": {1, 2}, "nan": float("nan"), "infinity": float("inf"), "bytes": b"bfloat16",
    "huge": 10**5000, "round": ROUND, "complex": 1j,
}  # fmt: skip


@pytest.mark.parametrize("name", NO_JSON)
def test_a_value_that_json_has_no_form_for_names_its_key(name):
    value = NO_JSON[name]
    with pytest.raises(submission.ConfigError, match="^dtype: expected") as caught:
        build({**CONFIG, "dtype": value})
    assert caught.value.argument == "dtype"


REFUSED = [
    ("head_dim", -16, "got -16"),
    ("head_dim", "64", "got"),
    ("head_dim", 64.0, "got"),
    ("head_dim", True, "got"),
    ("head_dim", None, "got"),
    ("gate_dim", 0, "got 0"),
    ("q_heads", 7, "multiple of kv_heads"),
    ("q_heads", 2**70, "got"),
    ("kv_heads", 0, "got 0"),
    ("dtype", "float32", "bfloat16"),
    ("modes", [], "training"),
    ("modes", "decode", "training"),
    ("modes", ["decode", "decode"], "training"),
    ("max_sequences", 0, "got 0"),
    ("max_seq_len", -1, "got -1"),
    ("max_cached_tokens", 1.5, "got 1.5"),
    ("memory_limit_bytes", 1000, "bytes"),
    ("batch_invariant", 1, "true or false"),
    ("device", -1, "got -1"),
    ("device", 17, "got 17"),
    ("heads", 8, "accepted"),
]


@pytest.mark.parametrize(("key", "value", "words"), REFUSED)
def test_a_bad_value_names_key_value_and_what_is_accepted(driver, key, value, words):
    with pytest.raises(submission.ConfigError) as caught:
        build({**CONFIG, key: value})
    assert words in str(caught.value)
    assert caught.value.argument == key
    assert key in str(caught.value)


def test_text_that_is_no_unicode_is_refused(driver):
    with pytest.raises(submission.ConfigError):
        build({**CONFIG, "dtype": "bfloat\ud800"})


@pytest.mark.parametrize("key", ["head_dim", "gate_dim", "q_heads", "kv_heads", "max_sequences", "max_seq_len",
                                 "max_cached_tokens"])  # fmt: skip
def test_a_missing_key_is_named(driver, key):
    with pytest.raises(submission.ConfigError, match=key) as caught:
        build({name: value for name, value in CONFIG.items() if name != key})
    assert caught.value.argument == key


def test_too_small_a_limit_says_what_is_needed(driver):
    with pytest.raises(submission.ConfigError) as caught:
        build({**CONFIG, "memory_limit_bytes": 1000})
    needed = max(int(word) for word in str(caught.value).replace(",", "").split() if word.isdigit())
    with submission.build_engine({**CONFIG, "memory_limit_bytes": needed}) as engine:
        assert engine.memory()["bytes_held"] <= needed
    with pytest.raises(submission.ConfigError):
        build({**CONFIG, "memory_limit_bytes": needed - 1})


def test_a_stratum_that_the_pack_lacks(driver):
    with pytest.raises(submission.NoKernelError) as caught:
        build({**CONFIG, "head_dim": 96})
    for words in ("head_dim 96", "nearest", "differs in head_dim", "make submission PLANS=plans"):
        assert words in str(caught.value)


def test_a_device_that_no_kernel_serves(driver):
    with pytest.raises(submission.NoKernelError, match="7.5"):
        build({**CONFIG, "device": 2})
