"""Engines that take a point's kernels for the swept operation, and the assembled package's own for the others."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from . import pack
from .generator import MachineError
from .sweep import Case, Shape


def engine_config(step: str, case: Case, dims: tuple[int, int], spare: Shape) -> dict:
    """The configuration of an engine for a case, with room for another shape's sequences beside its own.

    step: forward, backward, prefill or decode. dims: (head_dim, gate_dim). spare: no longer than the case's shape.
    """
    shape = case.shape
    config = {
        "head_dim": dims[0],
        "gate_dim": dims[1],
        "q_heads": shape.q_heads,
        "kv_heads": shape.kv_heads,
        "dtype": case.dtype,
    }
    if step in ("forward", "backward"):
        return {**config, "modes": ["training"]}
    tokens, sequences = shape.cached + shape.length, shape.batch + spare.batch
    return {
        **config,
        "modes": ["prefill"] if step == "prefill" else ["prefill", "decode"],
        "max_sequences": sequences,
        "max_seq_len": tokens,
        "max_cached_tokens": sequences * tokens,
    }


def build_engine(package: ModuleType, kernels: Path, config: dict) -> Any:
    """An engine of an assembled package with a point's kernels. kernels: the point's pack.

    Errors: the package's EngineError; MachineError if the engine took other kernels than the point's.
    """
    native = importlib.import_module(f"{package.__name__}.native")
    own = native.PACK
    with tempfile.TemporaryDirectory(prefix="sweep-") as mixed:
        pack.write_mixed(Path(mixed), kernels, Path(own))
        native.PACK = mixed  # where the package looks when it builds an engine, and only then
        try:
            engine = package.build_engine(config)
        finally:
            native.PACK = own
    rows = pack.read_manifest(kernels)["kernels"]
    ours, operations = {row["cubin"]["sha256"] for row in rows}, {row["key"]["operation"] for row in rows}
    archs = {row["key"]["arch"] for row in rows}
    loaded = {
        row["sha256"]
        for row in engine.describe()["kernels"]
        if row["operation"] in operations and row["arch"] in archs  # others come after a chip's own (pack.write_mixed)
    }
    if not loaded or not loaded <= ours:
        engine.close()
        names = ", ".join(sorted(operations))
        raise MachineError(f"{kernels}: the engine has other kernels than the pack's for {names}: {sorted(loaded)}")
    return engine
