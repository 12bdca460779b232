"""The engines under test, built once a session from the assembled folder."""

import functools
import json
import weakref
from types import ModuleType
from typing import Any

from tools.bench.assembled import load_submission

HEADS = ((64, 32), (64, 64), (128, 32), (128, 64))  # (head_dim, gate_dim)
GROUPS = (1, 2, 3, 5, 8, 16)
KV_HEADS = 2

CAPACITY = {"max_sequences": 64, "max_seq_len": 8192, "max_cached_tokens": 16384}

_built: dict[str, Any] = {}
_settings: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@functools.cache
def submission() -> ModuleType:
    """The assembled package."""
    return load_submission()


def config(head_dim: int, gate_dim: int, group: int, dtype: str = "bfloat16", **options: Any) -> dict:
    """A configuration with KV_HEADS key/value heads; `options` replaces or adds keys, by default all modes."""
    serving = {} if options.get("modes") == ["training"] else CAPACITY
    heads = {"head_dim": head_dim, "gate_dim": gate_dim, "q_heads": group * KV_HEADS, "kv_heads": KV_HEADS}
    return {**heads, "dtype": dtype, **serving, **options}


def build(settings: dict) -> Any:
    """A new engine, for the caller to close."""
    built = submission().build_engine(settings)
    _settings[built] = {"dtype": "bfloat16", **settings}
    return built


def settings_of(built: Any) -> dict:
    """The configuration that `build` or `engine` was given, dtype included."""
    return _settings[built]


def engine(head_dim: int, gate_dim: int, group: int, dtype: str = "bfloat16", **options: Any) -> Any:
    """The session's engine of this configuration, built on first use."""
    settings = config(head_dim, gate_dim, group, dtype, **options)
    key = json.dumps(settings, sort_keys=True)
    if key not in _built:
        _built[key] = build(settings)
    return _built[key]


def close_all() -> None:
    """Closes every engine of the session."""
    while _built:
        _built.popitem()[1].close()
