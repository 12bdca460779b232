"""The pack that an engine of a sweep gets: a point's kernels, and what they need beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.sweep.pack import read_manifest, write_manifest, write_mixed


def write(folder: Path, *kernels: str) -> Path:
    """A pack with empty files. kernels: "operation arch point", which is the name too."""
    folder.mkdir()
    rows = []
    for name in kernels:
        operation, arch, _ = name.split()
        files = {form: {"file": f"{name}.{form}"} for form in ("cubin", "ptx")}
        for file in files.values():
            (folder / file["file"]).touch()
        key = {"family": "gated", "operation": operation, "arch": arch, "dtype": "bfloat16", "head_dim": 64}
        rows.append({"name": name, "key": {**key, "gate_dim": 32}, **files})
    write_manifest(folder, {}, rows)
    return folder


@pytest.mark.parametrize(
    ("point", "forwards"),
    [
        ("forward sm_90 new", []),
        # Views that no tensor map describes are the portable kernel's.
        ("forward sm_90a new", ["forward sm_80 old", "forward sm_90 old"]),
    ],
)
def test_no_kernel_can_be_launched_in_the_points_place(tmp_path, point, forwards):
    others = ["decode sm_90 old", "backward_dq sm_90a old", "backward_dq sm_90 old"]
    shipped = write(tmp_path / "shipped", *others, "forward sm_80 old", "forward sm_90 old", "forward sm_90a old")
    (tmp_path / "mixed").mkdir()
    write_mixed(tmp_path / "mixed", write(tmp_path / "point", point), shipped)
    names = [row["name"] for row in read_manifest(tmp_path / "mixed")["kernels"]]
    assert names == sorted([point, *forwards, *others])
    assert len(list((tmp_path / "mixed").glob("*.cubin"))) == len(names)
