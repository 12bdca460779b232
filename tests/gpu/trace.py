"""A seeded trace of every mode, run by test_repeatability.py in processes of its own: prints a digest of each part.

With STRATUM_POISON=1 the engines fill their pools with NaN, and the trace leaves NaN in the memory from which
training takes its workspaces and results.
"""

import json
import os

import torch

from .engines import HEADS, close_all, engine, settings_of
from .serving import Cache, cut, random_tokens
from .tensors import DEVICE, DTYPES, digest, generator, random_array, random_inputs

LENGTHS = (17, 129, 1000)
PROMPTS = (1, 63, 0, 129, 700)


def poison_free_memory() -> None:
    """Leaves NaN in free blocks of every size that PyTorch's allocator hands out."""
    blocks = [torch.full((1 << e,), float("nan"), device=DEVICE) for e in range(7, 24) for _ in range(8)]
    del blocks


def training(built, dtype: torch.dtype) -> str:
    """Forward and backward at a few lengths."""
    c, results = settings_of(built), []
    for length in LENGTHS:
        source = generator(length)
        if os.environ.get("STRATUM_POISON") == "1":
            poison_free_memory()
        inputs = random_inputs((2, length), c["q_heads"], c["kv_heads"], c["head_dim"], c["gate_dim"], dtype, source)
        o, saved = built.forward(*inputs)
        results += o, *built.backward(saved, random_array(tuple(o.shape), dtype, source))
    return digest(results)


def serving(built) -> str:
    """Ragged prompts, chunks, forks, decode steps, a truncation, a release and new sequences on its pages."""
    results = []
    with Cache(built, check=False) as cache:
        sequences = [cache.create() for _ in PROMPTS]
        for seed, lengths in enumerate((PROMPTS, PROMPTS[::-1])):
            parts = cut(random_tokens(built, sum(lengths), seed), lengths)
            results += cache.prefill(dict(zip(sequences, parts))).values()
        sequences += [cache.fork(sequences[4]), cache.fork(sequences[4]), cache.fork(sequences[1])]
        for step in range(8):
            lengths = [1 + (step + i) % 8 for i in range(len(sequences))]
            parts = cut(random_tokens(built, sum(lengths), 10 + step), lengths)
            results += cache.decode(dict(zip(sequences, parts))).values()
        cache.truncate(sequences[0], 3)
        cache.release(sequences.pop())
        sequences += [cache.create(), cache.create()]
        lengths = [65] * len(sequences)
        results += cache.prefill(dict(zip(sequences, cut(random_tokens(built, sum(lengths), 20), lengths)))).values()
    return digest(results)


def main() -> None:
    """Prints {part: sha256} as JSON."""
    digests = {}
    for head_dim, gate_dim in HEADS:
        for name, dtype in DTYPES.items():
            for invariant in (False, True):
                built = engine(head_dim, gate_dim, 4, name, batch_invariant=invariant)
                key = f"D {head_dim}, R {gate_dim}, {name}, batch_invariant {invariant}"
                digests[f"{key}: training"] = training(built, dtype)
                digests[f"{key}: serving"] = serving(built)
    close_all()
    print(json.dumps(digests))


if __name__ == "__main__":
    main()
