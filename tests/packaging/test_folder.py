"""The assembled folder: all of it and nothing else, and no trace of where it was built."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.assemble.backend import PYTHONS, backend_file
from tools.assemble.folder import AssemblyError, Parts, assemble

REPOSITORY = Path(__file__).parents[2]
LICENSES = ["cffi", "fmt", "gcc", "libffi", "libmd", "nlohmann-json", "zstd"]


def relative_files(folder: Path) -> set[str]:
    """Every file below a folder, caches of Python aside."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"}


def test_the_pack_stays_under_15_mb():
    assert sum(p.stat().st_size for p in (REPOSITORY / "cubins").iterdir()) < 15e6


def manifest(folder: Path) -> dict:
    return json.loads((folder / "cubins" / "manifest.json").read_text())


def test_holds_exactly_its_parts(submission):
    sources = {str(p.relative_to(REPOSITORY / "submission")) for p in (REPOSITORY / "submission").rglob("*.py")}
    kernels = {
        f"cubins/{kernel[form]['file']}" for kernel in manifest(submission)["kernels"] for form in ("cubin", "ptx")
    }
    expected = (sources - {"_build_binding.py"}) | kernels
    expected |= {"_stratum_binding.py", "libstratum.so", "cubins/manifest.json", "LICENSE", "NOTICE"}
    expected |= {f"_vendor/{backend_file(python)}" for python in PYTHONS}
    expected |= {f"licenses/{name}.txt" for name in LICENSES}
    assert relative_files(submission) == expected


def test_parts_are_those_of_the_repository(submission):
    pairs = {
        "LICENSE": "LICENSE",
        "NOTICE": "NOTICE",
        "__init__.py": "submission/__init__.py",
        "libstratum.so": "build/release/runtime/libstratum.so",
    }
    for ours, source in pairs.items():
        assert (submission / ours).read_bytes() == (REPOSITORY / source).read_bytes(), ours


def test_every_license_names_its_holder_and_the_notice_names_every_license(submission):
    notice = (submission / "NOTICE").read_text()
    for name, holder, listed in (
        ("cffi", "MIT No Attribution", "cffi"),
        ("fmt", "Victor Zverovich", "{fmt}"),
        ("gcc", "GCC RUNTIME LIBRARY EXCEPTION", "libgcc"),
        ("libffi", "Anthony Green", "libffi"),
        ("libmd", "Guillem Jover", "libmd"),
        ("nlohmann-json", "Niels Lohmann", "nlohmann/json"),
        ("zstd", "Meta Platforms", "Zstandard"),
    ):
        assert holder in (submission / "licenses" / f"{name}.txt").read_text()
        assert listed in notice


def test_no_file_tells_where_it_was_built(submission):
    places = [str(REPOSITORY).encode(), str(Path.home()).encode() + b"/"]
    for name in sorted(relative_files(submission)):
        content = (submission / name).read_bytes()
        for place in places:
            assert place not in content, f"{name} holds {place.decode()}"


def test_assembled_twice_the_same_bytes(submission, tmp_path):
    parts = Parts(
        REPOSITORY / "build/release/runtime/libstratum.so", submission / "cubins", REPOSITORY / "build/wheels"
    )
    assemble(parts, tmp_path / "again")

    def digests(folder):
        return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in relative_files(folder)}

    assert digests(tmp_path / "again") == digests(submission)


def test_a_missing_part_leaves_the_old_folder(submission, tmp_path):
    parts = Parts(REPOSITORY / "build/release/runtime/libstratum.so", tmp_path / "pack", REPOSITORY / "build/wheels")
    out = tmp_path / "folder"
    out.mkdir()
    (out / "old").touch()
    with pytest.raises(AssemblyError, match="manifest.json is missing; `make cubins` builds the pack"):
        assemble(parts, out)
    parts.pack.mkdir()
    (parts.pack / "manifest.json").write_bytes((submission / "cubins" / "manifest.json").read_bytes())
    with pytest.raises(AssemblyError, match="is missing, but the manifest refers to it"):
        assemble(parts, out)
    assert relative_files(out) == {"old"}


def test_the_command_says_what_is_missing(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tools.assemble",
            "--library",
            tmp_path / "libstratum.so",
            "--pack",
            "cubins",
            "--wheels",
            "build/wheels",
            "--out",
            tmp_path / "out",
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert done.stderr == f"submission: {tmp_path}/libstratum.so is missing; `make build` makes it\n"
