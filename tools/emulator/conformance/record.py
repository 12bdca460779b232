"""Runs every form on a GPU and writes what it computed: tests/emulator/vectors/.

    python -m tools.emulator.conformance.record [FOLDER]

The module of all entries is PTX; the driver compiles it. forms.txt has a form a line: pool of operands, threads,
result, PTX. operands.bin and results.bin are 32-bit words, little-endian: the pools in the order in which forms.txt
first names them, and each form's result words, thread by thread.
"""

from __future__ import annotations

import argparse
import ctypes
from pathlib import Path

import numpy as np

from tools.demo.device_memory import Device

from .forms import RESULT_WORDS, Form, all_forms, entry
from .operands import pools

HERE = Path(__file__).parent
HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"
RECORD_WORDS = 8


class Module:
    """PTX compiled by the driver. Errors: RuntimeError with the driver's call and error."""

    def __init__(self, device: Device, ptx: str):
        self.device = device
        self.handle = ctypes.c_void_p()
        device.call("cuModuleLoadData", ctypes.byref(self.handle), ctypes.c_char_p(ptx.encode()))

    def launch(self, name: str, blocks: int, threads: int, *parameters) -> None:
        """Queues an entry. parameters: ctypes values."""
        function = ctypes.c_void_p()
        self.device.call("cuModuleGetFunction", ctypes.byref(function), self.handle, name.encode())
        pointers = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(each) for each in parameters))
        self.device.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)


def module_text(forms: list[Form]) -> str:
    """A module with an entry form_0, form_1, ... for each form."""
    template = (HERE / "entry.ptx").read_text()
    return HEADER + "".join(entry(template, form, f"form_{i}") for i, form in enumerate(forms))


def run_form(device: Device, module: Module, name: str, form: Form, operands: np.ndarray) -> np.ndarray:
    """The words that a form leaves, uint32 [threads, words]."""
    given, left = device.upload(operands), device.empty((len(operands), RECORD_WORDS), np.uint32)
    module.launch(name, len(operands) // 32, 32, ctypes.c_uint64(given.pointer), ctypes.c_uint64(left.pointer))
    return left.numpy()[:, RESULT_WORDS[form.result]]


def write_vectors(folder: Path, device: Device) -> None:
    """Runs all forms and writes the three files."""
    forms, made = all_forms(), pools()
    module = Module(device, module_text(forms))
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{form.operands} {len(made[form.operands])} {form.result} {form.text}\n" for form in forms]
    (folder / "forms.txt").write_text("".join(lines))
    used = [made[name].tobytes() for name in dict.fromkeys(form.operands for form in forms)]
    (folder / "operands.bin").write_bytes(b"".join(used))
    results = [run_form(device, module, f"form_{i}", form, made[form.operands]) for i, form in enumerate(forms)]
    (folder / "results.bin").write_bytes(b"".join(each.tobytes() for each in results))
    print(f"{len(forms)} forms on {device.name}, compute capability {device.capability}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("tests/emulator/vectors"))
    write_vectors(parser.parse_args().folder, Device())
