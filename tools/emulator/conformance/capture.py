"""Captures the approximations of a GPU: the source of the emulator's tables (tables.py).

    python -m tools.emulator.conformance.capture FOLDER

For each function FOLDER gets NAME.hashes.npy, one 64-bit hash for each 65,536 neighbouring inputs of all 2^32, and
NAME.EXPONENT.npy.xz: the results (uint32) for the 2^23 inputs of a binade, as differences.
"""

from __future__ import annotations

import argparse
import ctypes
import lzma
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from tools.demo.device_memory import Device

from .record import HEADER, Module

# The binades, as the upper 9 bits of the inputs, sign and exponent.
FUNCTIONS = {
    "ex2.approx.ftz.f32": [126, 127, 128, 120, 256 + 126, 256 + 127],
    "lg2.approx.ftz.f32": [126, 127, 128],
    "rcp.approx.ftz.f32": [127],
    "rsqrt.approx.ftz.f32": [127, 128],
    "sqrt.approx.ftz.f32": [127, 128],
    "tanh.approx.f32": [*range(108, 131), 256 + 127],
}
CHUNK = 1 << 16
BINADE = 1 << 23

ENTRIES = """
.visible .entry values(.param .u32 first, .param .u64 results)
{
  .reg .b32 %x, %i, %b;
  .reg .b64 %out, %o;
  mov.u32 %i, %tid.x;
  mov.u32 %b, %ctaid.x;
  mad.lo.s32 %i, %b, 256, %i;
  ld.param.u32 %x, [first];
  add.s32 %x, %x, %i;
  @FUNCTION@ %x, %x;
  ld.param.u64 %out, [results];
  cvta.to.global.u64 %out, %out;
  mul.wide.u32 %o, %i, 4;
  add.s64 %out, %out, %o;
  st.global.u32 [%out], %x;
  ret;
}
.visible .entry hashes(.param .u64 results)
{
  // Block b takes inputs b * 65536 ...; the hash is the sum of a mix of each result and its place.
  .reg .pred %p;
  .reg .b32 %x, %y, %i, %b;
  .reg .b64 %out, %o, %h, %m;
  mov.u32 %i, %tid.x;
  mov.u32 %b, %ctaid.x;
  mov.u64 %h, 0;
LOOP:
  shl.b32 %x, %b, 16;
  or.b32 %x, %x, %i;
  @FUNCTION@ %y, %x;
  mul.lo.u32 %x, %i, 0x9E3779B1;
  xor.b32 %y, %y, %x;
  mul.wide.u32 %m, %y, 0x85EBCA77;
  shr.u64 %o, %m, 29;
  xor.b64 %m, %m, %o;
  mul.lo.u64 %m, %m, 0x9E3779B97F4A7C15;
  add.s64 %h, %h, %m;
  add.s32 %i, %i, 256;
  setp.lt.u32 %p, %i, 65536;
  @%p bra LOOP;
  ld.param.u64 %out, [results];
  cvta.to.global.u64 %out, %out;
  mul.wide.u32 %o, %b, 8;
  add.s64 %out, %out, %o;
  red.global.add.u64 [%out], %h;
  ret;
}
"""


def compress(values: np.ndarray) -> bytes:
    """An array of uint32 as the xz stream of its differences, byte plane by byte plane."""
    differences = np.diff(values, prepend=np.uint32(0))
    planes = differences.view(np.uint8).reshape(-1, 4).T
    return lzma.compress(np.ascontiguousarray(planes).tobytes(), preset=1)


def capture(folder: Path, device: Device) -> None:
    """Runs all functions and writes their files."""
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor() as workers:
        pending = []
        for function, binades in FUNCTIONS.items():
            module = Module(device, HEADER + ENTRIES.replace("@FUNCTION@", function))
            name = function.split(".")[0]
            hashes = device.upload(np.zeros((1 << 32) // CHUNK, np.uint64))
            module.launch("hashes", (1 << 32) // CHUNK, 256, ctypes.c_uint64(hashes.pointer))
            np.save(folder / f"{name}.hashes.npy", hashes.numpy())
            for upper in binades:
                values = device.empty((BINADE,), np.uint32)
                first = ctypes.c_uint32(upper * BINADE)
                module.launch("values", BINADE // 256, 256, first, ctypes.c_uint64(values.pointer))
                pending.append((folder / f"{name}.{upper}.npy.xz", workers.submit(compress, values.numpy())))
        for file, result in pending:
            file.write_bytes(result.result())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    capture(parser.parse_args().folder, Device())
