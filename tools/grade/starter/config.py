"""Reads an engine's configuration: a dict, or the path of a JSON file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from .errors import ConfigError

MODES = ("training", "prefill", "decode")
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}

SIZES = ("head_dim", "gate_dim", "q_heads", "kv_heads")
CAPACITIES = ("max_sequences", "max_seq_len", "max_cached_tokens")
KEYS = (*SIZES, "dtype", "modes", *CAPACITIES, "memory_limit_bytes", "batch_invariant", "device")


@dataclass(frozen=True)
class Config:
    """A checked configuration. Capacities are 0 without a serving mode; memory_limit_bytes is None without a limit.

    device: where the arrays are, the CUDA device asked for or the current one, else the CPU.
    """

    head_dim: int
    gate_dim: int
    q_heads: int
    kv_heads: int
    dtype: torch.dtype
    modes: tuple[str, ...]
    max_sequences: int
    max_seq_len: int
    max_cached_tokens: int
    memory_limit_bytes: int | None
    device: torch.device

    @property
    def group(self) -> int:
        """Query heads for each key/value head."""
        return self.q_heads // self.kv_heads

    @property
    def row(self) -> int:
        """Elements that the cache holds of one token and key/value head: k, v and kg."""
        return 2 * self.head_dim + self.gate_dim

    @property
    def token_bytes(self) -> int:
        """Bytes that the cache holds of one token."""
        return self.kv_heads * self.row * 2

    @property
    def serving(self) -> bool:
        """Whether a serving mode was asked for."""
        return "prefill" in self.modes or "decode" in self.modes


def read_config(config) -> Config:
    """The configuration of a dict or of the JSON file at a path. Errors: ConfigError, naming key, value and what is
    accepted."""
    values = _values(config)
    for key, value in values.items():
        if key not in KEYS:
            raise ConfigError(f"{key}: unknown key (value {value!r:.100}); accepted keys: {', '.join(KEYS)}", str(key))
    sizes = {key: _integer(values, key, 1) for key in SIZES}
    if sizes["q_heads"] % sizes["kv_heads"]:
        _reject(values, "q_heads", f"a multiple of kv_heads, {sizes['kv_heads']}")
    modes = _modes(values)
    dtype = values.get("dtype", "bfloat16")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        _reject(values, "dtype", '"bfloat16" or "float16"')
    if not isinstance(values.get("batch_invariant", False), bool):
        _reject(values, "batch_invariant", "true or false")
    serving = modes != ("training",)
    capacities = {key: _integer(values, key, 1) if serving or key in values else 0 for key in CAPACITIES}
    limited = values.get("memory_limit_bytes") is not None
    return Config(
        **sizes,
        dtype=DTYPES[dtype],
        modes=modes,
        **capacities,
        memory_limit_bytes=_integer(values, "memory_limit_bytes", 1) if limited else None,
        device=_device(values),
    )


def _values(config) -> dict:
    if isinstance(config, Mapping):
        return dict(config)
    if not isinstance(config, (str, os.PathLike)):
        raise ConfigError(f"config: expected a dict or the path of a JSON file, got {type(config).__name__}", "config")
    try:
        with open(config, encoding="utf-8") as file:
            values = json.load(file)
    except OSError as error:
        raise ConfigError(f"config: expected a JSON file at {config}, got {error.strerror}", "config") from None
    except ValueError as error:
        raise ConfigError(f"config: expected JSON in {config}, got invalid JSON: {error}", "config") from None
    if not isinstance(values, dict):
        raise ConfigError(f"config: expected a JSON object in {config}, got {type(values).__name__}", "config")
    return values


def _reject(values: dict, key: str, accepted: str):
    raise ConfigError(f"{key}: expected {accepted}, got {values[key]!r:.100}", key)


def _integer(values: dict, key: str, least: int) -> int:
    accepted = f"an integer from {least}"
    if key not in values:
        why = ", and the modes prefill and decode need it" if key in CAPACITIES else ""
        raise ConfigError(f"{key}: missing{why}; expected {accepted}", key)
    value = values[key]
    if type(value) is not int or value < least:
        _reject(values, key, accepted)
    return value


def _modes(values: dict) -> tuple[str, ...]:
    modes = values.get("modes", list(MODES))
    listed = isinstance(modes, (list, tuple)) and len(modes) > 0
    if not listed or any(mode not in MODES or modes.count(mode) > 1 for mode in modes):
        _reject(values, "modes", f"a list of one or more of {', '.join(MODES)}, each at most once")
    return tuple(modes)


def _device(values: dict) -> torch.device:
    ordinal = _integer(values, "device", 0) if "device" in values else None
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if ordinal is None:
        ordinal = torch.cuda.current_device()
    if ordinal >= torch.cuda.device_count():
        _reject(values, "device", f"an integer from 0 to {torch.cuda.device_count() - 1}")
    return torch.device("cuda", ordinal)
