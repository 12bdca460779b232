"""Which of the pack's kernels an engine of a stratum uses."""

from __future__ import annotations

import json
from pathlib import Path

from .worker import Stratum


def kernels(submission: Path, stratum: Stratum) -> dict[str, str]:
    """Operation → name of the kernel, from the manifest of the assembled folder. LookupError if it has none."""
    manifest = submission / "cubins" / "manifest.json"
    arch = "sm_" + stratum.capability.replace(".", "")
    wanted = (arch, stratum.dtype, stratum.head_dim, stratum.gate_dim)
    found = {}
    for row in json.loads(manifest.read_text())["kernels"]:
        key = row["key"]
        if (key["arch"], key["dtype"], key["head_dim"], key["gate_dim"]) == wanted and not row["when"]:
            found[row["name"].removeprefix("gated_").split("_sm")[0]] = row["name"]
    if not found:
        raise LookupError(f"{manifest}: expected kernels for {wanted}, found none")
    return found
