"""cffi's extension modules in the folder: one for each supported CPython, whether or not that CPython is at hand."""

import zipfile
from pathlib import Path

import pytest
from cpythons import interpreters
from elf import exported_symbols, needed_libraries, newest_glibc, readelf

from tools.assemble.backend import PYTHONS, BackendError, backend_file, collect_wheels, find_wheel, pinned_hashes

REPOSITORY = Path(__file__).parents[2]
REQUIREMENTS = REPOSITORY / "requirements" / "cffi.txt"
WHEELS = REPOSITORY / "build" / "wheels"


@pytest.mark.parametrize("python", PYTHONS)
def test_file_is_an_extension_for_x86_64(submission, python):
    file = submission / "_vendor" / backend_file(python)
    header = readelf("--file-header", file)
    assert "ELF64" in header and "X86-64" in header and "DYN (Shared object file)" in header
    assert "PyInit__cffi_backend" in exported_symbols(file)
    assert needed_libraries(file) <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
    assert newest_glibc(file) <= (2, 17)  # manylinux2014


def test_no_other_file_beside_them(submission):
    assert sorted(p.name for p in (submission / "_vendor").iterdir()) == sorted(map(backend_file, PYTHONS))


def test_which_pythons_are_at_hand(capsys):
    at_hand = interpreters()
    with capsys.disabled():
        print(
            f"\n  CPythons that load the folder here: {', '.join(sorted(at_hand))}; "
            f"not at hand, files checked only: {', '.join(sorted(set(PYTHONS) - set(at_hand))) or 'none'}"
        )
    assert at_hand


def test_run_and_bundle_name_one_release():
    def release(name):
        lines = (REPOSITORY / "requirements" / name).read_text().splitlines()
        return [line.split()[0] for line in lines if line.startswith("cffi==")]

    assert release("run.txt") == release("cffi.txt") and len(release("cffi.txt")) == 1


def test_cached_wheels_need_no_network(monkeypatch):
    monkeypatch.setattr("tools.assemble.backend.download_wheel", lambda *_: pytest.fail("asked the network"))
    assert set(collect_wheels(REQUIREMENTS, WHEELS)) == set(PYTHONS)


def test_a_wheel_with_another_hash_is_not_taken(tmp_path, monkeypatch):
    genuine = find_wheel(WHEELS, "3.11", pinned_hashes(REQUIREMENTS))
    with zipfile.ZipFile(tmp_path / genuine.name, "w") as wheel:
        wheel.writestr(backend_file("3.11"), "something else")
    assert find_wheel(tmp_path, "3.11", pinned_hashes(REQUIREMENTS)) is None
    monkeypatch.setattr("tools.assemble.backend.download_wheel", lambda *_: None)
    with pytest.raises(BackendError, match="no wheel whose hash .*cffi.txt lists"):
        collect_wheels(REQUIREMENTS, tmp_path)
