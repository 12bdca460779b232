"""Packs, in the format of docs/formats.md, as far as a sweep needs them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from .sweep import read_json

MANIFEST = "manifest.json"
# The fields of a key in which a point's kernels and those beside it must agree; arch isn't one, the runtime picks.
STRATUM = ("family", "dtype", "head_dim", "gate_dim")


def read_manifest(folder: Path) -> dict:
    """A pack's manifest. Errors: SweepError if it can't be read."""
    return read_json(folder / MANIFEST)


def write_manifest(folder: Path, toolchain: dict[str, str], kernels: Iterable[dict]) -> None:
    """Writes a manifest with its own hash; the kernels' files are the caller's to place."""
    document = {"schema": 1, "toolchain": toolchain, "kernels": sorted(kernels, key=lambda row: row["name"])}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    document["sha256"] = hashlib.sha256(canonical.encode()).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(document, indent=1) + "\n")


def write_mixed(folder: Path, point: Path, shipped: Path) -> None:
    """Fills an empty folder with a pack of links: a point's kernels, and of its strata what else `shipped` has.

    The operation of the point's kernels comes from the point alone, on every architecture, so that no other kernel can
    be launched in its place. Only a chip's own kernels (sm_90a) keep the portable ones beside them, which come after
    them and which an engine must have, for views that no tensor map describes.
    """
    manifest, ours = read_manifest(shipped), read_manifest(point)["kernels"]
    operations = {row["key"]["operation"] for row in ours}
    strata = {_stratum(row) for row in ours}
    for_one_chip = all(_is_for_one_chip(row) for row in ours)

    def stays(row: dict) -> bool:
        return row["key"]["operation"] not in operations or (for_one_chip and not _is_for_one_chip(row))

    others = [row for row in manifest["kernels"] if _stratum(row) in strata and stays(row)]
    for source, rows in ((point, ours), (shipped, others)):
        for row in rows:
            for file in (row["cubin"]["file"], row["ptx"]["file"]):
                (folder / file).symlink_to((source / file).resolve())
    write_manifest(folder, manifest["toolchain"], ours + others)


def _stratum(row: dict) -> tuple:
    return tuple(row["key"][field] for field in STRATUM)


def _is_for_one_chip(row: dict) -> bool:
    return row["key"]["arch"].endswith("a")
