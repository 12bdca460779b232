"""Queues two forwards, each with its backward, of an assembled folder's engine: the second on a k of reversed tokens.

    python train_twice.py FOLDER CONFIG

CONFIG is a JSON object. STRATUM_DRIVER names the emulator, where device memory is host memory.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np

BATCH, LENGTH = 2, 70


def main():
    folder, config = Path(sys.argv[1]), json.loads(sys.argv[2])
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder.parent))
    package = importlib.import_module(folder.name)
    heads = ("q_heads", "kv_heads", "kv_heads", "q_heads", "kv_heads")
    dims = ("head_dim", "head_dim", "head_dim", "gate_dim", "gate_dim")

    def arrays():
        shapes = [(BATCH, LENGTH, config[head], config[dim]) for head, dim in zip(heads, dims)]
        return [np.zeros(shape, np.uint16) for shape in shapes]

    q, plain, *others = arrays()
    with package.build_engine({**config, "modes": ["training"]}) as engine:
        for k in (plain, plain[:, ::-1]):
            _, saved = engine.forward(q, k, *others, out=np.zeros_like(q))
            engine.backward(saved, np.zeros_like(q), out=tuple(arrays()))
            del saved


if __name__ == "__main__":
    main()
