"""The exceptions of an engine: one type for each kind of failure, all under EngineError.

Each is also the built-in exception that fits, so `except ValueError` and its like work as usual. The message names the
argument, what was expected and what came; `argument` holds the name alone. After any of them the engine is as it was
before the call.
"""

from __future__ import annotations


def brief(value) -> str:
    """A value as a message shows it: its repr, cut, or its type where there is none (an int of 10,000 digits)."""
    try:
        return f"{value!r:.100}"
    except Exception:
        return f"a value of type {type(value).__name__}"


class EngineError(Exception):
    """Base of all failures; raised itself only for a fault inside the library.

    argument: name of the argument or configuration key at fault, "" if none is.
    """

    def __init__(self, message: str = "", argument: str = ""):
        super().__init__(message)
        self.message = message
        self.argument = argument

    def __str__(self) -> str:
        return self.message  # KeyError would quote it


class ConfigError(EngineError, ValueError):
    """The configuration: an unknown key, a wrong type, a bad value, a file that isn't there, too small a limit."""


class ShapeError(EngineError, ValueError):
    """An array's rank or extent."""


class StrideError(EngineError, ValueError):
    """An array's strides or alignment: the last axis is contiguous, rows are 16-byte aligned."""


class LengthError(EngineError, ValueError):
    """Lengths out of range, over max_seq_len, or not summing to the packed rows."""


class DtypeError(EngineError, TypeError):
    """An array's element type, a masked array, a read-only output, or an argument of the wrong type altogether."""


class DeviceError(EngineError, ValueError):
    """Another device's array, one in use on another stream, a closed engine, another engine's `saved`, a forked
    process, a capturing stream."""


class UnknownSequence(EngineError, KeyError):
    """A sequence id that was never created, or was released."""


class PagesExhausted(EngineError, MemoryError):
    """Not enough free pages; the message has needed and free."""


class NoKernelError(EngineError, LookupError):
    """The pack has no kernel for this stratum on this device."""


class PackError(EngineError, OSError):
    """A missing, truncated, altered or wrong-version file of the package."""


class DriverError(EngineError, RuntimeError):
    """A CUDA driver call failed; the message has the call, the error's name and the kernel."""


class MemoryLimitError(EngineError, MemoryError):
    """The workspace of a training call would pass memory_limit_bytes."""
