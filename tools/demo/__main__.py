"""The main job: build an engine from the assembled folder, train, prefill and decode, compare with float64.

Needs numpy and a GPU; without one the kernels run on the CPU, by the emulator, if there is one. Without either it says
so and lists the kernels that the pack holds.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tools.reference.accuracy import Verdict

from .device_memory import Device, NoDevice
from .serving import serve
from .training import train

HEADS = {"q_heads": 8, "kv_heads": 2}
CAPACITY = {"max_sequences": 8, "max_seq_len": 1024, "max_cached_tokens": 2048}
BATCH_AND_LENGTH = (2, 200)


def print_table(verdicts: list[Verdict]) -> None:
    """One line a result: errors beside what the rule allows."""
    print(f"  {'result':<24} {'shape':<18} {'largest error':>13} {'allowed':>9} {'mean error':>11} {'allowed':>9}")
    for v in verdicts:
        print(
            f"  {v.name:<24} {str(list(v.shape)):<18} {v.largest:>13.2e} {v.largest_allowed:>9.2e} "
            f"{v.mean:>11.2e} {v.mean_allowed:>9.2e}  {'ok' if v.ok else 'WRONG'}"
        )


def run(package, device: Device, config: dict) -> bool:
    """Builds an engine, runs and prints everything; returns whether all of it was right."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    with package.build_engine(config) as engine:
        print(f"\n{config['dtype']}: engine built in {time.perf_counter() - start:.2f} s")
        verdicts, repeated = train(engine, config, device, BATCH_AND_LENGTH, rng)
        verdicts += serve(engine, config, device, rng)
        print_table(verdicts)
        print(f"  forward and backward a second time: {'the same bytes' if repeated else 'OTHER BYTES'}")
    return repeated and all(v.ok for v in verdicts)


def run_all(folder: Path, device: Device, stratum: dict) -> bool:
    """Runs the package in `folder` in both dtypes; returns whether all of it was right."""
    sys.path.insert(0, str(folder.parent))
    package = importlib.import_module(folder.name)
    print("\n{}, compute capability {}.{}".format(device.name, *device.capability))
    print("head_dim {head_dim}, gate_dim {gate_dim}, {q_heads} query heads on {kv_heads}".format(**stratum, **HEADS))
    configs = [{**stratum, **HEADS, **CAPACITY, "dtype": dtype} for dtype in ("bfloat16", "float16")]
    right = [run(package, device, config) for config in configs]
    print("\nEvery result is within its bound of float64." if all(right) else "\nSome results are wrong.")
    return all(right)


def list_kernels(stratum_gen: Path, folder: Path, stratum: dict) -> int:
    """Has stratum-gen list the pack's bfloat16 kernels of a stratum; returns its exit code."""
    pattern = "*_bf16_d{head_dim}_r{gate_dim}_*".format(**stratum)
    print(f"The kernels in {folder / 'cubins'} that it would choose from, {pattern}:\n", flush=True)
    return subprocess.run([stratum_gen, "list", "--pack", folder / "cubins", pattern]).returncode


def _device(emulator: Path | None) -> Device:
    """The GPU, else the emulator's. NoDevice if there is neither."""
    try:
        return Device()
    except NoDevice as reason:
        if emulator is None:
            raise
        print(f"\n{reason}. The kernels run on the CPU, by the emulator.")
        os.environ["STRATUM_DRIVER"] = str(emulator.resolve())
        return Device()


def main() -> int:
    """0 if every result was right, or if there is no GPU to run on; 1 otherwise."""
    parser = argparse.ArgumentParser(prog="tools.demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--submission", type=Path, required=True, help="the assembled folder")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--gate-dim", type=int, default=32)
    parser.add_argument("--emulator", type=Path, help="the driver to use where there is no GPU")
    parser.add_argument("--stratum-gen", type=Path, help="lists the pack where there is no GPU")
    arguments = parser.parse_args()
    stratum = {"head_dim": arguments.head_dim, "gate_dim": arguments.gate_dim}
    try:
        device = _device(arguments.emulator)
    except NoDevice as reason:
        print(f"\nNothing to run on: {reason}.")
        print(
            "The main job needs an NVIDIA GPU of compute capability 8.0 or newer and a driver of release 580 or newer."
        )
        if arguments.stratum_gen is None:
            return 0
        return list_kernels(arguments.stratum_gen, arguments.submission, stratum)
    return 0 if run_all(arguments.submission.resolve(), device, stratum) else 1


if __name__ == "__main__":
    sys.exit(main())
