"""A seeded trace of every mode, run by test_repeatability.py in processes of its own: prints a digest of each part.

With STRATUM_POISON=1 the engines fill their pools with NaN, and the trace leaves NaN in the memory from which
training takes its workspaces and results.
"""

import json
import os
from typing import Any

import torch

from .engines import GROUPS, HEADS, build, config
from .serving import Cache, cut, random_tokens
from .tensors import DEVICE, DTYPES, digest
from .training import LENGTHS, random_batch

SERVING_GROUPS = (1, 3, 8)
PROMPTS = (1, 63, 0, 129, 4097, 700)
STEPS = range(1, 9)  # tokens that a decode may append

POISON = os.environ.get("STRATUM_POISON") == "1"


def poison_free_memory() -> None:
    """Leaves NaN in free blocks of every size that PyTorch's allocator hands out here, 512 bytes to 64 MiB."""
    blocks = [torch.full((1 << e,), float("nan"), device=DEVICE) for e in range(7, 25) for _ in range(8)]
    del blocks


def training(built: Any, length: int) -> str:
    """Forward and backward of one batch."""
    inputs, do = random_batch(built, length)
    if POISON:
        poison_free_memory()
    o, saved = built.forward(*inputs)
    return digest((o, *built.backward(saved, do)))


def serving(built: Any) -> str:
    """Ragged prompts, chunks, forks, decode steps, a truncation, a release and new sequences on its pages."""
    results, seeds = [], iter(range(1000))

    def append(call, lengths) -> None:
        parts = cut(random_tokens(built, sum(lengths), next(seeds)), lengths)
        results.extend(call(dict(zip(sequences, parts))).values())

    with Cache(built, check=False) as cache:
        sequences = [cache.create() for _ in PROMPTS]
        append(cache.prefill, PROMPTS)
        append(cache.prefill, PROMPTS[::-1])
        sequences += [cache.fork(sequences[5]), cache.fork(sequences[1])]
        for step in STEPS:
            append(cache.decode, [step] * len(sequences))
            append(cache.decode, [1 + (step + i) % len(STEPS) for i in range(len(sequences))])
        cache.truncate(sequences[0], 3)
        cache.release(sequences.pop())
        sequences += [cache.create(), cache.create()]
        append(cache.prefill, [65] * len(sequences))
    return digest(results)


def main() -> None:
    """Prints {part: sha256} as JSON."""
    digests = {}
    for head_dim, gate_dim in HEADS:
        for dtype in DTYPES:
            for group in GROUPS:
                key = f"D {head_dim}, R {gate_dim}, {dtype}, group {group}"
                with build(config(head_dim, gate_dim, group, dtype, modes=["training"])) as built:
                    for length in LENGTHS:
                        digests[f"{key}: training of {length}"] = training(built, length)
            for group in SERVING_GROUPS:
                for invariant in (False, True):
                    key = f"D {head_dim}, R {gate_dim}, {dtype}, group {group}, batch_invariant {invariant}"
                    options = {"modes": ["prefill", "decode"], "batch_invariant": invariant}
                    with build(config(head_dim, gate_dim, group, dtype, **options)) as built:
                        digests[f"{key}: serving"] = serving(built)
    print(json.dumps(digests))


if __name__ == "__main__":
    main()
