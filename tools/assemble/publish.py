"""Puts a finished folder in its place in one step, so that nobody ever sees half of one."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RENAME_EXCHANGE = 2  # linux/fs.h
AT_FDCWD = -100  # fcntl.h


def exchange(a: Path, b: Path) -> None:
    """Swaps two existing paths atomically; two renames where the file system can't. Errors: OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), RENAME_EXCHANGE) == 0:
        return
    code = ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(code, os.strerror(code), str(a), None, str(b))
    aside = a.with_name(a.name + ".aside")
    a.rename(aside)
    b.rename(a)
    aside.rename(b)


@contextmanager
def publish(target: Path) -> Iterator[Path]:
    """Yields an empty folder beside `target`; on leaving without an exception that folder becomes `target`.

    What `target` held before goes away afterwards. If the body raises, or the process dies, `target` is as it was.
    Publishers of one target wait for each other.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.with_name(f".{target.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A publisher that was killed left its folder behind; the lock says that nobody uses it any more.
        for stale in target.parent.glob(f".{target.name}.new-*"):
            shutil.rmtree(stale)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
        try:
            yield fresh
            fresh.chmod(0o755)
            if target.exists():
                exchange(target, fresh)
            else:
                fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
