"""Loads libstratum.so, once a process, and turns its statuses into exceptions."""

from __future__ import annotations

import os
import threading

from . import errors

PACKAGE = os.path.dirname(os.path.realpath(__file__))
LIBRARY = os.path.join(PACKAGE, "libstratum.so")
PACK = os.path.join(PACKAGE, "cubins")

# The interface that this package is written for; raised with the header's.
ABI_VERSION = 1

# The header's names of arguments that Python spells otherwise.
_PYTHON_NAMES = {"o": "out", "dout": "do"}

_lock = threading.Lock()
_loaded = None


def load():
    """(ffi, lib) of libstratum.so. Loads no CUDA library. Errors: PackError for a missing or foreign file."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _open()
    return _loaded


def _open():
    try:
        from ._stratum_binding import ffi
    except ModuleNotFoundError:
        raise errors.PackError(
            f"_stratum_binding.py is missing in {PACKAGE}: this is the package's source; `make submission` assembles "
            "the package"
        ) from None
    if not os.path.isfile(LIBRARY):
        raise errors.PackError(f"{LIBRARY} is missing: the package is incomplete")
    try:
        lib = ffi.dlopen(LIBRARY)
        version = lib.stratum_abi_version()
    except (OSError, AttributeError) as error:
        raise errors.PackError(f"{LIBRARY} can't be loaded: {error}") from None
    if not version == lib.STRATUM_ABI_VERSION == ABI_VERSION:
        raise errors.PackError(
            f"{LIBRARY} has interface version {version}, its binding {lib.STRATUM_ABI_VERSION}; expected {ABI_VERSION}"
        )
    return ffi, lib


def check(status: int) -> None:
    """Raises the exception for a status other than STRATUM_OK."""
    if status:
        raise_error(status)


def raise_error(status: int) -> None:
    """Raises the exception for a failed status, with what the library has to say about it. Call it right away, on the
    thread that made the failed call."""
    ffi, lib = load()
    # Before anything else: a garbage collection may free a workspace, which is a call that clears the message.
    message, argument = ffi.string(lib.stratum_error_message()), ffi.string(lib.stratum_error_argument())
    message, argument = message.decode("utf-8", "replace"), argument.decode("utf-8", "replace")
    if argument in _PYTHON_NAMES:
        message = _PYTHON_NAMES[argument] + message.removeprefix(argument)
        argument = _PYTHON_NAMES[argument]
    kinds = {
        lib.STRATUM_CONFIG_ERROR: errors.ConfigError,
        lib.STRATUM_SHAPE_ERROR: errors.ShapeError,
        lib.STRATUM_STRIDE_ERROR: errors.StrideError,
        lib.STRATUM_LENGTH_ERROR: errors.LengthError,
        lib.STRATUM_DTYPE_ERROR: errors.DtypeError,
        lib.STRATUM_DEVICE_ERROR: errors.DeviceError,
        lib.STRATUM_UNKNOWN_SEQUENCE: errors.UnknownSequence,
        lib.STRATUM_PAGES_EXHAUSTED: errors.PagesExhausted,
        lib.STRATUM_NO_KERNEL: errors.NoKernelError,
        lib.STRATUM_PACK_ERROR: errors.PackError,
        lib.STRATUM_DRIVER_ERROR: errors.DriverError,
        lib.STRATUM_MEMORY_LIMIT: errors.MemoryLimitError,
    }
    raise kinds.get(status, errors.EngineError)(message, argument)
