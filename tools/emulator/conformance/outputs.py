"""Outputs of whole calls: what a GPU computed, and how much of it the emulator computes to the bit.

    python -m tools.emulator.conformance.outputs --submission FOLDER record FILE.npz
    python -m tools.emulator.conformance.outputs --submission FOLDER compare FILE.npz

The second with STRATUM_DRIVER naming the emulator and STRATUM_EMULATOR_CC the GPU's compute capability. Both build
engines from an assembled folder, for the four (D, R) and both dtypes, and run forward, backward, prefill and decode on
small random inputs; `record` writes the results, `compare` prints the share that is equal. A FILE.json has hashes of
the arrays in place of the arrays: tests/emulator/vectors/outputs.json is an H200's, and a test compares with it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
from pathlib import Path

import numpy as np

from tools.demo.device_memory import Device
from tools.reference.bits import to_bits

STRATA = [(64, 32), (64, 64), (128, 32), (128, 64)]
DTYPES = ("bfloat16", "float16")
HEADS = {"q_heads": 4, "kv_heads": 2}
CAPACITY = {"max_sequences": 4, "max_seq_len": 512, "max_cached_tokens": 1024}
BATCH_AND_LENGTH = (1, 90)
GRADIENTS = ("dq", "dk", "dv", "dqg", "dkg")


class Calls:
    """The calls of one engine; results as raw 16-bit words by name."""

    def __init__(self, device: Device, config: dict, seed: int):
        self.device, self.config = device, config
        self.rng = np.random.default_rng(seed)
        self.results: dict[str, np.ndarray] = {}

    def inputs(self, *leading: int) -> list:
        """q, k, v, qg, kg on the device, [*leading, heads, dim]."""
        heads = ("q_heads", "kv_heads", "kv_heads", "q_heads", "kv_heads")
        dims = ("head_dim", "head_dim", "head_dim", "gate_dim", "gate_dim")
        return [self.random(*leading, self.config[h], self.config[d]) for h, d in zip(heads, dims)]

    def random(self, *shape: int):
        """A device array of standard normal values."""
        return self.device.upload(to_bits(self.rng.standard_normal(shape), self.config["dtype"]))

    def train(self, engine) -> None:
        """forward and backward."""
        arrays = self.inputs(*BATCH_AND_LENGTH)
        o = self.device.empty(arrays[0].shape)
        _, saved = engine.forward(*arrays, out=o)
        gradients = tuple(self.device.empty(each.shape) for each in arrays)
        engine.backward(saved, self.random(*o.shape), out=gradients)
        self.results["forward o"] = o.numpy()
        for name, each in zip(GRADIENTS, gradients):
            self.results[f"backward {name}"] = each.numpy()

    def serve(self, engine) -> None:
        """Two prompts, more of the first, a fork of it, two decode steps of all three."""
        a, b = engine.create(), engine.create()
        self.step(engine.prefill, "prefill two", [a, b], [70, 37])
        self.step(engine.prefill, "prefill more", [a], [41])
        c = engine.fork(a)
        self.step(engine.decode, "decode ones", [a, b, c], [1, 1, 1])
        self.step(engine.decode, "decode several", [a, b, c], [2, 1, 3])

    def step(self, call, name: str, ids: list[int], lengths: list[int]) -> None:
        """One serving call on random tokens."""
        arrays = self.inputs(sum(lengths))
        out = self.device.empty(arrays[0].shape)
        call(ids, *arrays, lengths, out=out)
        self.results[name] = out.numpy()


def run_all(package, device: Device, strata=STRATA) -> dict[str, np.ndarray]:
    """All results, uint16, as "dtype D R call array"."""
    results = {}
    for dtype in DTYPES:
        for seed, (head_dim, gate_dim) in enumerate(strata):
            config = {"head_dim": head_dim, "gate_dim": gate_dim, "dtype": dtype, **HEADS, **CAPACITY}
            calls = Calls(device, config, seed)
            with package.build_engine(config) as engine:
                calls.train(engine)
                calls.serve(engine)
            for name, array in calls.results.items():
                results[f"{dtype} {head_dim} {gate_dim} {name}"] = array
    return results


def compare(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    """Prints a line a call and array: how many of the arrays and of the elements are equal."""
    counts: dict[str, list[int]] = {}
    for name, array in ours.items():
        dtype, _, _, call = name.split(" ", 3)
        line = counts.setdefault(f"{call}, {dtype}", [0, 0, 0, 0])
        equal = int((array == theirs[name]).sum())
        for i, each in enumerate((equal == array.size, 1, equal, array.size)):
            line[i] += each
    print(f"{'':<28} {'arrays equal':>13} {'elements equal':>22}")
    for name, (arrays, of_arrays, elements, of_elements) in counts.items():
        share = elements / of_elements
        print(f"{name:<28} {f'{arrays} of {of_arrays}':>13} {f'{elements} of {of_elements}':>22} {share:9.4%}")


def hashes(results: dict[str, np.ndarray]) -> dict[str, str]:
    """The SHA-256 of each array's bytes."""
    return {name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for name, array in results.items()}


def different(ours: dict[str, np.ndarray], theirs: dict[str, str]) -> list[str]:
    """Names of the arrays whose hash is another one."""
    return [name for name, each in hashes(ours).items() if theirs[name] != each]


def record(results: dict[str, np.ndarray], file: Path) -> None:
    """Writes the arrays, or their hashes to a .json."""
    if file.suffix == ".json":
        file.write_text(json.dumps(hashes(results), indent=1) + "\n")
    else:
        np.savez_compressed(file, **results)


def main() -> int:
    """0, or 1 if arrays differ from those that a .json has the hashes of."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--submission", type=Path, required=True, help="the assembled folder")
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.submission.resolve().parent))
    device = Device()
    results = run_all(importlib.import_module(arguments.submission.name), device)
    if arguments.action == "record":
        record(results, arguments.file)
        print(f"{len(results)} arrays on {device.name}, compute capability {device.capability}")
        return 0
    if arguments.file.suffix != ".json":
        compare(results, dict(np.load(arguments.file)))
        return 0
    others = different(results, json.loads(arguments.file.read_text()))
    print(f"{len(results) - len(others)} of {len(results)} arrays are equal", *others, sep="\n")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
