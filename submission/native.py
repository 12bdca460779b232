"""The library's side of an engine: its handle, its end, and the parts of a call that all modules share."""

from __future__ import annotations

import os
import weakref

from .call import Arguments
from .config import encode_config, read_config
from .library import PACK, check, load


class Native:
    """An engine in the library, closed when the object dies or the interpreter exits, whichever comes first.

    ffi, lib: the binding. handle: the library's name for the engine. device: CUDA ordinal. arguments: each thread's
    argument memory. Errors: those of build_engine.
    """

    def __init__(self, config):
        values = read_config(config)
        self.ffi, self.lib = load()
        handle = self.ffi.new("stratum_engine*")
        check(self.lib.stratum_build(encode_config(values), os.fsencode(PACK), handle))
        self.handle = handle[0]
        self.device = values["device"]
        self.arguments = Arguments()
        # Holds no reference to self, so a cycle can be collected; runs at exit while the library is still whole.
        self._end = weakref.finalize(self, self.lib.stratum_close, self.handle)

    def close(self) -> None:
        """Frees the engine; again is harmless. Errors: DriverError, and then the engine is still open."""
        check(self.lib.stratum_close(self.handle))
        self._end.detach()
