"""Decodes with an assembled folder's engine and holds every output to the accuracy rule.

    python serve_right.py FOLDER CONFIG

CONFIG is a JSON object. Sequences end around pages and splits and take 1 to 8 tokens a call; then a call has more
sequences than one launch's parameters hold the splits of. A sequence alone, and its tokens one by one, must give the
bits that it gave among the others. STRATUM_DRIVER names the emulator. Inputs are the same every time.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.emulated.arrays import assert_same_bits
from tests.emulated.serving import Cache, cut

CACHED = (0, 63, 505, 1020)
NEW = (8, 2, 8, 7)
MANY = 60
CAPACITY = {"max_sequences": 64, "max_seq_len": 1088, "max_cached_tokens": 8192}


def main():
    folder, config = Path(sys.argv[1]), {**json.loads(sys.argv[2]), **CAPACITY, "modes": ["prefill", "decode"]}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder.parent))
    package = importlib.import_module(folder.name)
    rng = np.random.default_rng(1)
    with package.build_engine(config) as engine, Cache(engine, config, rng) as cache:
        cache.check = False
        parents = [cache.sequence(cache.tokens(count)) for count in CACHED]
        cache.check = True
        tokens = [cache.tokens(count) for count in NEW]
        forks = [cache.fork(parent) for parent in parents]
        together = cache.decode(dict(zip(forks, tokens)))
        for parent, fork, new in zip(parents, forks, tokens):
            alone = cache.fork(parent)
            outputs = [cache.decode({alone: token})[alone] for token in cut(new, (1,) * len(new.q))]
            assert_same_bits("one by one", np.concatenate(outputs), together[fork])
            cache.release(alone)
            cache.release(fork)
        for _ in range(2):
            cache.decode({sequence: cache.tokens(1) for sequence in parents})
        cache.decode({cache.create(): cache.tokens(1) for _ in range(MANY)})


if __name__ == "__main__":
    main()
