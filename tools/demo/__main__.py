"""The main job: build an engine from the assembled folder, train, prefill and decode, compare with float64.

Needs numpy and a GPU. Without a GPU it says so and lists the kernels that the pack holds.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from .accuracy import Verdict
from .device_memory import Device, NoDevice
from .serving import serve
from .training import train

STRATUM = {"head_dim": 64, "gate_dim": 32, "q_heads": 8, "kv_heads": 2}
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


def run(package, device: Device, dtype: str) -> bool:
    """Builds an engine for one dtype, runs and prints everything; returns whether all of it was right."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    config = {**STRATUM, **CAPACITY, "dtype": dtype}
    with package.build_engine(config) as engine:
        print(f"\n{dtype}: engine built in {time.perf_counter() - start:.2f} s")
        verdicts, repeated = train(engine, config, device, BATCH_AND_LENGTH, rng)
        verdicts += serve(engine, config, device, rng)
        print_table(verdicts)
        print(f"  forward and backward a second time: {'the same bytes' if repeated else 'OTHER BYTES'}")
    return repeated and all(v.ok for v in verdicts)


def main() -> int:
    """0 if every result was right, or if there is no GPU to run on; 1 otherwise."""
    parser = argparse.ArgumentParser(prog="tools.demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--submission", type=Path, required=True, help="the assembled folder")
    parser.add_argument("--stratum-gen", type=Path, required=True, help="lists the pack where there is no GPU")
    arguments = parser.parse_args()
    folder = arguments.submission.resolve()

    try:
        device = Device()
    except NoDevice as reason:
        print(f"\nNothing to run on: {reason}.")
        print(
            "The main job needs an NVIDIA GPU of compute capability 8.0 or newer and a driver of release 580 or newer."
        )
        print(f"The kernels in {arguments.submission}, ready for one:\n", flush=True)
        return subprocess.run([arguments.stratum_gen, "list", "--pack", folder / "cubins"]).returncode

    sys.path.insert(0, str(folder.parent))
    package = importlib.import_module(folder.name)
    major, minor = device.capability
    print(f"\n{device.name}, compute capability {major}.{minor}")
    print("D {head_dim}, R {gate_dim}, {q_heads} query heads on {kv_heads} key/value heads".format(**STRATUM))
    right = [run(package, device, dtype) for dtype in ("bfloat16", "float16")]
    print("\nEvery result is within its bound of float64." if all(right) else "\nSome results are wrong.")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
