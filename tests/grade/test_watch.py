"""What the watch makes of system calls: their paths, and whether they may go on. Asked of this very process."""

import ctypes
import errno
import os

import pytest

from tools.grade.watch import AT_CWD, Watch

WRITE = os.O_WRONLY | os.O_CREAT


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def watch(scratch):
    """A watch over this process whose listener nobody speaks to."""
    listener, other = os.pipe()
    watch = Watch(listener, os.getpid(), scratch, {"/opt/known/libnvrtc.so.13"})
    yield watch
    watch.end()
    os.close(other)


def address(text, kept=[]) -> int:
    """Where a C string lies, for as long as the tests run."""
    kept.append(ctypes.create_string_buffer(os.fsencode(text)))
    return ctypes.addressof(kept[-1])


def open_at(watch, path, flags, directory=AT_CWD) -> int:
    return watch._error("openat", [directory, address(path), flags, 0o600, 0, 0])


def test_files_may_be_written_in_the_scratch_folder_alone(watch, scratch, tmp_path):
    assert open_at(watch, scratch / "file", WRITE) == 0
    assert open_at(watch, "/dev/null", os.O_RDWR) == 0
    assert open_at(watch, tmp_path / "file", os.O_RDONLY) == 0
    assert watch.findings == []
    for path in (tmp_path / "file", f"{scratch}/../file", f"{scratch}2/file", "/dev/shm/file", "/proc/self/mem"):
        assert open_at(watch, path, WRITE) == errno.EACCES, path
    assert len(watch.findings) == 4  # two of the paths are one file


def test_links_are_followed_before_dots(watch, scratch, tmp_path):
    (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
    (scratch / "link").symlink_to(tmp_path / "elsewhere" / "inner")
    (scratch / "file").symlink_to(tmp_path / "victim")
    assert open_at(watch, f"{scratch}/link/../victim", WRITE) == errno.EACCES
    assert open_at(watch, scratch / "file", WRITE) == errno.EACCES
    assert watch.findings == [
        f"changed a file outside its scratch folder: openat {tmp_path}/elsewhere/victim",
        f"changed a file outside its scratch folder: openat {tmp_path}/victim",
    ]


def test_relative_paths_start_where_the_call_says(watch, scratch, tmp_path):
    inside, outside = (os.open(folder, os.O_RDONLY) for folder in (scratch, tmp_path))
    assert open_at(watch, "file", WRITE, inside) == 0
    assert open_at(watch, "file", WRITE, outside) == errno.EACCES
    assert watch._error("mkdir", [address(os.path.relpath(scratch / "folder")), 0o700, 0, 0, 0, 0]) == 0
    assert watch._error("renameat", [inside, address("a"), outside, address("b"), 0, 0]) == errno.EACCES
    for descriptor in (inside, outside):
        os.close(descriptor)


def test_the_process_s_own_name_may_be_set_and_no_other_process_reached(watch):
    own, other = os.getpid(), os.getppid()
    for path in (f"/proc/self/task/{own}/comm", f"/proc/{own}/comm"):
        assert open_at(watch, path, os.O_RDWR) == 0
    for path in (f"/proc/{other}/mem", f"/proc/{other}/comm", f"/proc/{own}/mem"):
        assert open_at(watch, path, os.O_RDWR) == errno.EACCES
    for name in ("process_vm_writev", "ptrace", "pidfd_getfd"):
        assert watch._error(name, [0] * 6) == errno.EACCES


def test_threads_may_be_started_and_processes_not(watch):
    assert watch._error("clone", [0x3D0F00, 0, 0, 0, 0, 0]) == 0  # glibc's flags for a thread
    assert watch._error("clone3", [0] * 6) == errno.ENOSYS  # glibc goes on with clone
    assert watch.findings == []
    assert watch._error("clone", [0x4100, 0, 0, 0, 0, 0]) == errno.EACCES  # CLONE_VM | CLONE_VFORK, posix_spawn's
    assert watch._error("vfork", [0] * 6) == errno.EACCES
    assert watch.findings == ["started a process"]


def test_compilers_are_noted_and_opened(watch):
    assert open_at(watch, "/opt/known/libnvrtc.so.13", os.O_RDONLY) == 0
    assert watch.findings == []
    assert open_at(watch, "/opt/libnvrtc-builtins.so.13.0", os.O_RDONLY) == 0
    assert watch.findings == ["opened a compiler's library: /opt/libnvrtc-builtins.so.13.0"]


def test_a_pointer_to_nowhere_is_the_caller_s_fault(watch):
    for pointer in (8, 1 << 63, (1 << 64) - 1):
        assert watch._error("openat", [AT_CWD, pointer, os.O_RDONLY, 0, 0, 0]) == errno.EFAULT
    assert watch._error("openat2", [AT_CWD, 8, 8, 24, 0, 0]) == errno.ENOSYS
