"""Files of the pack that are missing, cut, altered or foreign: named before any call of the driver."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from pathlib import Path

import packs
import pytest
import submission
from workloads import CONFIG, append


@pytest.fixture
def damaged(tmp_path, monkeypatch) -> Path:
    """A pack of the test's own, which engines are built from."""
    packs.write_pack(tmp_path / "cubins")
    monkeypatch.setattr(submission.native, "PACK", str(tmp_path / "cubins"))
    return tmp_path / "cubins"


def forward_kernel(pack: Path) -> Path:
    return next(pack.glob("gated_fwd_sm90_bf16_d64_r32_*.cubin.zst"))


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "0 bytes": lambda path: cut(path, 0),
    "1 byte": lambda path: cut(path, 1),
    "half": lambda path: cut(path, path.stat().st_size // 2),
    "all but the last byte": lambda path: cut(path, path.stat().st_size - 1),
    "one byte more": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "a bit of the header": lambda path: flip(path, 0),
    "a bit of the content": lambda path: flip(path, path.stat().st_size - 1),
    "another kernel's": lambda path: shutil.copy(
        next(path.parent.glob("gated_bwd_dq_sm90_bf16_d64_r32_*.cubin.zst")), path
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_kernel(driver, damaged, damage):
    path = forward_kernel(damaged)
    DAMAGE[damage](path)
    driver.reset()
    with pytest.raises(submission.PackError) as caught:
        submission.build_engine(CONFIG)
    assert path.name in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert "cuModuleLoadData" not in driver.calls()
    assert "cuMemAlloc_v2" not in driver.calls()
    # Modes that don't need the file are served still.
    submission.build_engine({**CONFIG, "modes": ["decode"]}).close()


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name not in ("another kernel's", "one byte more")])
def test_a_damaged_manifest(driver, damaged, damage):
    DAMAGE[damage](damaged / "manifest.json")
    driver.reset()
    with pytest.raises(submission.PackError, match=r"manifest\.json"):
        submission.build_engine(CONFIG)
    assert not [name for name in driver.calls() if name.startswith(("cuModule", "cuMem"))]


def rows_of(pack: Path) -> list[dict]:
    return json.loads((pack / "manifest.json").read_text())["kernels"]


def edit_forward(pack: Path, edit) -> None:
    """Edits the rows of the forward kernels and writes a manifest whose own hash is right."""
    rows = rows_of(pack)
    for row in rows:
        if row["key"]["operation"] == "forward":
            edit(row)
    packs.write_manifest(pack, rows)


EDITS = {
    "a field less": (lambda row: row.pop("block"), "block"),
    "a field more": (lambda row: row.update(colour=1), "colour"),
    "a wrong type": (lambda row: row.update(block="128"), "block"),
    "a path": (lambda row: row["cubin"].update(file="../" + row["cubin"]["file"]), "file"),
    "other parameters": (lambda row: row["params"].update(bytes=216), "216"),
    "another hash": (lambda row: row["cubin"].update(sha256="0" * 64), "sha256"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_manifest_of_another_version(driver, damaged, edit):
    change, words = EDITS[edit]
    edit_forward(damaged, change)
    driver.reset()
    with pytest.raises(submission.PackError, match=words):
        submission.build_engine(CONFIG)
    assert "cuModuleLoadData" not in driver.calls()


def test_a_pack_without_the_architecture(driver, damaged):
    packs.write_manifest(damaged, [row for row in rows_of(damaged) if row["key"]["arch"] != "sm_90"])
    with pytest.raises(submission.NoKernelError, match="differs in arch"):
        submission.build_engine(CONFIG)
    submission.build_engine({**CONFIG, "device": 1}).close()  # of compute capability 8.0


def test_an_empty_pack(driver, damaged):
    packs.write_manifest(damaged, [])
    with pytest.raises(submission.NoKernelError):
        submission.build_engine(CONFIG)


def build_and_decode(_: int) -> int:
    with submission.build_engine(CONFIG) as engine:
        id = engine.create()
        append(engine, [id], [3], "decode")
        return engine.length(id)


def test_eight_processes_build_at_once():
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        assert pool.map(build_and_decode, range(8)) == [3] * 8
