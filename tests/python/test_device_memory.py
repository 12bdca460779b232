"""The demo's device memory: which driver library it opens."""

from __future__ import annotations

import ctypes
import os

import pytest

from tools.demo import device_memory


@pytest.mark.parametrize("chosen", [None, "", "libanother.so"])
def test_which_library_is_opened(monkeypatch, chosen):
    """The library that STRATUM_DRIVER names; empty is as good as unset, as it is to libstratum.so."""
    opened = []

    def open_library(name):
        opened.append(name)
        raise OSError("none here")

    monkeypatch.setattr(ctypes, "CDLL", open_library)
    monkeypatch.delenv("STRATUM_DRIVER")
    if chosen is not None:
        monkeypatch.setitem(os.environ, "STRATUM_DRIVER", chosen)
    with pytest.raises(device_memory.NoDevice, match=f"^{chosen or 'libcuda.so.1'} can't be opened"):
        device_memory.Device()
    assert opened == [chosen or "libcuda.so.1"]
