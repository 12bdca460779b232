"""Packs of made-up kernels for the emulator, in the format of docs/formats.md.

A made-up cubin is a text with the kernel's name and the bytes of its parameters: all that the emulator looks for.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path

TILE_M = 64  # of every kernel
APPEND_TOKENS = 16  # tokens that a block of append places

# operation → (mnemonic, parameter struct)
OPERATIONS = {
    "forward": ("fwd", "GatedForwardParams"),
    "backward_dq": ("bwd_dq", "GatedBackwardParams"),
    "backward_dkv": ("bwd_dkv", "GatedBackwardParams"),
    "append": ("append", "GatedAppendParams"),
    "page_copy": ("page_copy", "GatedPageCopyParams"),
    "prefill": ("prefill", "GatedPrefillParams"),
    "decode": ("dec", "GatedDecodeParams"),
    "decode_merge": ("dec_merge", "GatedDecodeMergeParams"),
}

# struct → bytes, which every compiler of the header asserts
ABI = Path(__file__).parents[2] / "templates" / "abi" / "gated.h"
STRUCT_BYTES = {
    name: int(size) for name, size in re.findall(r"static_assert\(sizeof\((\w+)\) == (\d+)\);", ABI.read_text())
}

STRATA = ((64, 32), (128, 64))
ARCHS = ("sm_80", "sm_90")


def zstd_frame(data: bytes) -> bytes:
    """`data`, of at most 128 KiB, as a zstd frame with one block that isn't compressed (RFC 8878, 3.1.1)."""
    magic, descriptor = 0xFD2FB528, 0xA0  # single segment, content size in 4 bytes
    block = len(data) << 3 | 1  # raw, and the last
    return struct.pack("<IBI", magic, descriptor, len(data)) + block.to_bytes(3, "little") + data


def write_pack(folder: Path, strata=STRATA, archs=ARCHS) -> list[dict]:
    """Writes a pack with every operation of the strata (head_dim, gate_dim) in both dtypes; returns its rows."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        _row(folder, operation, arch, dtype, head_dim, gate_dim)
        for operation in OPERATIONS
        for arch in archs
        for dtype in ("bfloat16", "float16")
        for head_dim, gate_dim in strata
    ]
    rows.sort(key=lambda row: row["name"])
    write_manifest(folder, rows)
    return rows


def write_manifest(folder: Path, rows: list[dict]) -> None:
    """Writes manifest.json with its own hash."""
    document = {"schema": 1, "toolchain": {"nvrtc": "13.0.88", "ptxas": "13.0.88"}, "kernels": rows}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    document["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(document, indent=1))


def _row(folder: Path, operation: str, arch: str, dtype: str, head_dim: int, gate_dim: int) -> dict:
    mnemonic, params = OPERATIONS[operation]
    short_dtype = {"bfloat16": "bf16", "float16": "fp16"}[dtype]
    name = f"gated_{mnemonic}_{arch.replace('_', '')}_{short_dtype}_d{head_dim}_r{gate_dim}_g0_m{TILE_M}"
    return {
        "name": name,
        "key": {
            "family": "gated", "operation": operation, "arch": arch, "dtype": dtype, "head_dim": head_dim,
            "gate_dim": gate_dim, "group": 0, "flags": [],
        },
        "suffix": f"m{TILE_M}",
        "variant": 0,
        "when": {},
        "tile": {"tile_m": TILE_M, "tokens": APPEND_TOKENS},
        "plan": "plans/made_up.json",
        "build_key": hashlib.sha256(name.encode()).hexdigest(),
        "cubin": _file(folder, f"made-up cubin of {name}({STRUCT_BYTES[params]})".encode(), name, "cubin"),
        "ptx": _file(folder, f"made-up ptx of {name}".encode(), name, "ptx"),
        "params": {"struct": params, "bytes": STRUCT_BYTES[params]},
        "block": 128,
        "cluster": 1,
        "shared_bytes": 65536,
        "registers": 128,
        "spill_bytes": 0,
        "local_bytes": 0,
        "static_shared_bytes": 0,
    }  # fmt: skip


def _file(folder: Path, content: bytes, name: str, kind: str) -> dict:
    digest = hashlib.sha256(content).hexdigest()
    file = f"{name}-{digest[:8]}.{kind}.zst"
    (folder / file).write_bytes(zstd_frame(content))
    return {"file": file, "sha256": digest, "bytes": len(content)}
