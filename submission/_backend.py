"""Finds `_cffi_backend`, the extension module under the C binding.

An installed cffi is used first; else the module for this CPython in `_vendor`, which its file name tells apart
(`_cffi_backend.cpython-312-x86_64-linux-gnu.so`).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

from .errors import PackError

_VENDOR = os.path.join(os.path.dirname(os.path.realpath(__file__)), "_vendor")


def _bundled_backend():
    spec = PathFinder.find_spec("_cffi_backend", [_VENDOR])
    if spec is None:
        raise PackError(
            f"no _cffi_backend for this Python ({sys.implementation.cache_tag}) in {_VENDOR}, and cffi isn't "
            "installed; `pip install cffi` mends it"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


try:
    import _cffi_backend
except ImportError:
    _cffi_backend = _bundled_backend()
