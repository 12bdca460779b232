"""Trains with an assembled folder's engine, holds the results to the accuracy rule and prints a hash of each.

    python train_right.py FOLDER CONFIG LENGTH FIRST_KEYS INFINITE RESULT...

CONFIG is a JSON object, a RESULT o or a gradient; without gradients backward isn't called. Keys grow linearly from the
last, times 1, to the first, times FIRST_KEYS: kernels that take them in that order see rows outgrow what they have
seen. INFINITE is qg, kg or k, some of whose elements become infinite, or none. STRATUM_DRIVER names the emulator.
Inputs are the same every time.
"""

import hashlib
import importlib
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.emulated.arrays import Guarded, random_bits, random_inputs, synchronize
from tests.emulated.infinite import make_gates_infinite, make_keys_infinite
from tests.emulated.training import RESULTS, check_training
from tools.reference.attention import Inputs
from tools.reference.bits import from_bits, to_bits

BATCH = 2


def main():
    folder, config, length, infinite = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[5]
    growth, wanted = np.linspace(float(sys.argv[4]), 1.0, length)[None, :, None, None], sys.argv[6:]
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder.parent))
    package = importlib.import_module(folder.name)
    rng = np.random.default_rng(1)
    inputs = random_inputs(rng, config, BATCH, length)
    inputs.k[...] = to_bits(from_bits(inputs.k, config["dtype"]) * growth, config["dtype"])
    for row in map(Inputs._make, zip(*inputs)):
        if infinite == "k":
            make_keys_infinite(row, config["dtype"])
        elif infinite != "none":
            make_gates_infinite(row, infinite, config["dtype"], hidden=False)
    do = random_bits(rng, inputs.q.shape, config["dtype"])
    outputs = {name: Guarded(x.shape) for name, x in zip(RESULTS, (inputs.q, *inputs))}
    with package.build_engine({**config, "modes": ["training"]}) as engine:
        _, saved = engine.forward(*inputs, out=outputs["o"].array)
        if wanted != ["o"]:
            engine.backward(saved, do, out=tuple(outputs[name].array for name in RESULTS[1:]))
        del saved
        synchronize()
    for name in wanted:
        outputs[name].assert_guards_intact(name)
    results = {name: outputs[name].array for name in wanted}
    check_training(config, inputs, do, results)
    print({name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in results.items()})


if __name__ == "__main__":
    main()
