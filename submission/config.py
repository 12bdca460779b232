"""Reads an engine's configuration: a dict, or the path of a JSON file.

Only what the library can't see is checked here; keys and values are its business. json is imported where it is needed:
it would be most of the package's import time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from .errors import ConfigError, brief
from .library import check, load


def read_config(config) -> dict:
    """The configuration as a dict of its own, `device` filled in with the caller's current device where it is absent.

    Errors: ConfigError for a file that can't be read or isn't a JSON object, a key that isn't a string or comes twice.
    """
    if isinstance(config, Mapping):
        values = dict(config)
    elif isinstance(config, (str, os.PathLike)):
        values = _read_file(config)
    else:
        raise ConfigError(f"config: expected a dict or the path of a JSON file, got {type(config).__name__}", "config")
    for key in values:
        if not isinstance(key, str):
            raise ConfigError(f"config: expected keys that are strings, got {brief(key)}", "config")
    values.setdefault("device", current_device())
    return values


def encode_config(values: dict) -> bytes:
    """The configuration as the JSON that the library takes. Errors: ConfigError naming the key whose value JSON has no
    form for."""
    import json

    parts = []
    for key, value in values.items():
        try:
            encoded = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise ConfigError(
                f"{key}: expected a number, a string, a bool or a list of them, got {brief(value)}", key
            ) from None
        parts.append(f"{json.dumps(key)}: {encoded}")
    return ("{" + ", ".join(parts) + "}").encode()


def current_device() -> int:
    """The caller's current CUDA device: torch's if torch has initialised CUDA, else that of the current context."""
    torch_cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if torch_cuda is not None and torch_cuda.is_initialized():
        return torch_cuda.current_device()
    ffi, lib = load()
    device = ffi.new("int32_t*")
    check(lib.stratum_current_device(device))
    return device[0]


def _read_file(path) -> dict:
    import json

    def unique(pairs):
        values = dict(pairs)
        if len(values) != len(pairs):
            twice = next(key for key in values if sum(key == other for other, _ in pairs) > 1)
            raise ConfigError(f"{twice}: expected once in {path}, got it twice", twice)
        return values

    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file, object_pairs_hook=unique)
    except OSError as error:
        raise ConfigError(f"config: expected a JSON file at {path}, got {error.strerror or error}", "config") from None
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"config: expected JSON in {path}, got invalid JSON: {error}", "config") from None
    if not isinstance(values, dict):
        raise ConfigError(f"config: expected a JSON object in {path}, got {type(values).__name__}", "config")
    return values
