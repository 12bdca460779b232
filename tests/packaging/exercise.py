"""Runs one engine's every call on the emulator, with the standard library alone; prints what it saw as JSON.

    python exercise.py FOLDER CONFIG DRIVER

FOLDER is an assembled folder, CONFIG a JSON object, DRIVER the emulator, where device memory is host memory.
"""

import ctypes
import importlib
import json
import os
import sys

BATCH, LENGTH = 2, 70


class Array:
    """Zeros in host memory, rows 16-byte aligned, told through __array_interface__ as raw 16-bit words."""

    def __init__(self, *shape):
        count = 1
        for extent in shape:
            count *= extent
        self.memory = ctypes.create_string_buffer(2 * count + 16)
        address = ctypes.addressof(self.memory)
        self.__array_interface__ = {
            "shape": shape,
            "typestr": "<u2",
            "data": (address + -address % 16, False),
            "version": 3,
        }


def arrays(config, *rows):
    """q, k, v, qg, kg of that many rows."""
    d, r = config["head_dim"], config["gate_dim"]
    shapes = [("q_heads", d), ("kv_heads", d), ("kv_heads", d), ("q_heads", r), ("kv_heads", r)]
    return [Array(*rows, config[heads], dim) for heads, dim in shapes]


def mapped_files():
    """Files that this process has mapped."""
    with open("/proc/self/maps") as maps:
        return sorted({line.split(None, 5)[5].strip() for line in maps if "/" in line})


def main():
    folder, config, driver = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    os.environ["STRATUM_DRIVER"] = driver
    os.environ |= {"STRATUM_EMULATOR_CC": "9.0", "STRATUM_EMULATOR_EXECUTE": "0"}
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(folder))
    package = importlib.import_module(os.path.basename(folder))
    mapped_by_import = mapped_files()

    with package.build_engine(config) as engine:
        inputs = arrays(config, BATCH, LENGTH)
        _, saved = engine.forward(*inputs, out=Array(BATCH, LENGTH, config["q_heads"], config["head_dim"]))
        do = Array(BATCH, LENGTH, config["q_heads"], config["head_dim"])
        engine.backward(saved, do, out=tuple(arrays(config, BATCH, LENGTH)))
        del saved

        first = engine.create()
        out = Array(LENGTH, config["q_heads"], config["head_dim"])
        engine.prefill([first], *arrays(config, LENGTH), [LENGTH], out=out)
        second = engine.fork(first)
        out = Array(4, config["q_heads"], config["head_dim"])
        engine.decode([first, second], *arrays(config, 4), [1, 3], out=out)
        lengths = [engine.length(first), engine.length(second)]
        engine.release(first)
        facts = engine.describe()

    emulator = ctypes.CDLL(driver)
    emulator.emulator_fault.restype = ctypes.c_char_p
    emulator.emulator_launch_count.restype = emulator.emulator_fault_count.restype = ctypes.c_int64
    faults = [emulator.emulator_fault(ctypes.c_int64(i)).decode() for i in range(emulator.emulator_fault_count())]
    print(json.dumps({
        "python": "{}.{}".format(*sys.version_info),
        "modules": sorted(sys.modules),
        "mapped_by_import": mapped_by_import,
        "mapped": mapped_files(),
        "lengths": lengths,
        "launches": emulator.emulator_launch_count(),
        "faults": faults,
        "engine": facts,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
