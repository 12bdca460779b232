"""Holds ballast that torch's allocator doesn't know of, 16 MiB more than memory_limit_bytes: from the CUDA driver, or
mapped from the kernel where there is no GPU."""

import ctypes
import mmap

import torch

from . import engine
from .errors import *  # noqa: F403


def build_engine(config):
    built = engine.build_engine(config)
    size = built.memory()["bytes_limit"] + (16 << 20)
    if built._config.device.type == "cuda":
        built.ballast = _from_driver(size, built._config.device)
    else:
        built.ballast = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for page in range(0, size, mmap.PAGESIZE):
            built.ballast[page] = 1  # an untouched page takes no memory
    return built


def _from_driver(size: int, device: torch.device) -> int:
    driver, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    with torch.cuda.device(device):
        torch.cuda.synchronize()  # makes the context current
        if driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
            raise MemoryError("cuMemAlloc failed")
    return address.value
