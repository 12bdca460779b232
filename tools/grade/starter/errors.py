"""The exceptions of an engine: each is an EngineError and the built-in exception that fits.

The message names the argument, what was expected and what came. After any of them the engine is as before the call.
The starter has no kernels to miss, no pack to damage and no driver calls of its own: those three types are here for
callers that name them.
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of all failures. argument: name of the argument or configuration key at fault, "" if none is."""

    def __init__(self, message: str = "", argument: str = ""):
        super().__init__(message)
        self.argument = argument

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would quote it


class ConfigError(EngineError, ValueError):
    """The configuration: an unknown key, a wrong type, a bad value, too small a limit, a mode not asked for."""


class ShapeError(EngineError, ValueError):
    """An array's rank or extent."""


class StrideError(EngineError, ValueError):
    """An array's strides or alignment."""


class LengthError(EngineError, ValueError):
    """Lengths out of range, over max_seq_len, or not summing to the packed rows; an id given twice."""


class DtypeError(EngineError, TypeError):
    """An array's element type, or an argument of the wrong type altogether."""


class DeviceError(EngineError, ValueError):
    """Another device's array, a closed engine, another engine's `saved`, a forked process, a capturing stream."""


class UnknownSequence(EngineError, KeyError):
    """A sequence id that was never created, or was released."""


class PagesExhausted(EngineError, MemoryError):
    """Not enough room in the cache, or for one more sequence; the message has needed and free."""


class NoKernelError(EngineError, LookupError):
    """No kernel for this stratum."""


class PackError(EngineError, OSError):
    """A missing, truncated, altered or wrong-version file of the package."""


class DriverError(EngineError, RuntimeError):
    """A CUDA driver call failed."""


class MemoryLimitError(EngineError, MemoryError):
    """The temporaries of a training call would pass memory_limit_bytes."""
