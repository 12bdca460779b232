"""Every mode of an engine in a process without any framework, run by test_no_compiler.py.

Arguments: the assembled folder, an .npz of inputs (raw 16-bit words), the .npz to write. Prints the files that were
mapped into the process since its CUDA context was made, as JSON.
"""

import json
import sys
from pathlib import Path

import numpy as np

from tools.bench.assembled import load_submission
from tools.demo.device_memory import Device

INPUTS = ("q", "k", "v", "qg", "kg")


def mapped_files() -> set[str]:
    """Files mapped into this process."""
    fields = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    return {parts[5] for parts in fields if len(parts) == 6 and parts[5].startswith("/")}


def main(folder: str, source: str, target: str) -> None:
    """Trains on a batch, then prefills and decodes one sequence with the same tokens."""
    device = Device()
    before = mapped_files()
    arrays = dict(np.load(source))
    config = json.loads(str(arrays.pop("config")))
    engine = load_submission(Path(folder)).build_engine(config)

    inputs, do = [arrays[name] for name in INPUTS], arrays["do"]
    on_device = [device.upload(x) for x in (*inputs, do)]  # kept until the results are read
    outputs = {name: device.empty(x.shape) for name, x in zip(("o", "dq", "dk", "dv", "dqg", "dkg"), (do, *inputs))}
    _, saved = engine.forward(*on_device[:5], out=outputs["o"])
    engine.backward(saved, on_device[5], out=tuple(outputs[f"d{name}"] for name in INPUTS))

    sequence, decoded = engine.create(), 3
    prompt, tail = ([x[0, part] for x in inputs] for part in (slice(None, -decoded), slice(-decoded, None)))
    for name, mode, part in (("prefill", engine.prefill, prompt), ("decode", engine.decode, tail)):
        outputs[name] = device.empty(part[0].shape)
        tokens = [device.upload(x) for x in part]
        on_device += tokens
        mode([sequence], *tokens, [len(part[0])], out=outputs[name])
    results = {name: array.numpy() for name, array in outputs.items()}
    new_files = sorted(mapped_files() - before)
    engine.close()
    np.savez(target, **results)
    print(json.dumps({"mapped": new_files, "modules": sorted(sys.modules)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
