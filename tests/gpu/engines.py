"""The engines under test, built once a session from the assembled folder."""

import functools
import importlib
import json
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.assemble.without import copy_pack_without
from tools.bench.assembled import load_submission
from tools.sweep.pack import read_manifest

HEADS = ((64, 32), (64, 64), (128, 32), (128, 64))  # (head_dim, gate_dim)
GROUPS = (1, 2, 3, 5, 8, 16)
KV_HEADS = 2

# The packs that training is tested with: as it ships, and without the kernels for this very chip.
SHIPPED, PORTABLE = "shipped", "portable"
CHIP_ARCHS = {(9, 0): "sm_90a"}  # by compute capability

CAPACITY = {"max_sequences": 64, "max_seq_len": 8192, "max_cached_tokens": 16384}

_built: dict[str, Any] = {}
_pack = SHIPPED
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


def chip_arch() -> str | None:
    """The arch of the pack's kernels for this very chip, or None if it has none."""
    import torch

    arch = CHIP_ARCHS.get(torch.cuda.get_device_capability())
    rows = read_manifest(Path(_native().PACK))["kernels"]
    return arch if any(row["key"]["arch"] == arch for row in rows) else None


@functools.cache
def _portable_pack() -> tempfile.TemporaryDirectory:
    folder = tempfile.TemporaryDirectory(prefix="portable-pack-")
    copy_pack_without(str(chip_arch()), Path(_native().PACK), Path(folder.name))
    return folder


def _native() -> ModuleType:
    return importlib.import_module(f"{submission().__name__}.native")


@contextmanager
def taking(pack: str) -> Iterator[None]:
    """Within it engines are built from SHIPPED or from PORTABLE."""
    global _pack
    before, _pack = _pack, pack
    try:
        yield
    finally:
        _pack = before


def build(settings: dict) -> Any:
    """A new engine, for the caller to close."""
    native = _native()
    own = native.PACK
    if _pack == PORTABLE:
        native.PACK = _portable_pack().name  # where the package looks when it builds an engine
    try:
        built = submission().build_engine(settings)
    finally:
        native.PACK = own
    _settings[built] = {"dtype": "bfloat16", **settings}
    return built


def settings_of(built: Any) -> dict:
    """The configuration that `build` or `engine` was given, dtype included."""
    return _settings[built]


def engine(head_dim: int, gate_dim: int, group: int, dtype: str = "bfloat16", **options: Any) -> Any:
    """The session's engine of this configuration, built on first use."""
    settings = config(head_dim, gate_dim, group, dtype, **options)
    key = json.dumps([_pack, settings], sort_keys=True)
    if key not in _built:
        _built[key] = build(settings)
    return _built[key]


def close_all() -> None:
    """Closes every engine of the session."""
    while _built:
        _built.popitem()[1].close()
