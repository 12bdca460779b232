"""`python -m tools.bench.check_peer`: the Triton engine against float64, at small sizes, each of its tiles.

On a GPU, or with TRITON_INTERPRET=1 on a CPU, which runs the kernels as Python: that takes minutes.
"""

import argparse
import sys
from collections.abc import Iterator

import numpy as np
import torch

from tools.reference import accuracy, attention
from tools.reference.attention import Inputs

from . import triton_engine
from .triton_engine import serving_kernels, training
from .triton_engine.tuning import INTERPRETED

DEVICE = "cpu" if INTERPRETED else "cuda"
TUNED = {
    "forward": (training.forward_kernel, training.FORWARD_TILES),
    "dkv": (training.dkv_kernel, training.DKV_TILES),
    "dq": (training.dq_kernel, training.DQ_TILES),
    "prefill": (serving_kernels.prefill_kernel, serving_kernels.PREFILL_TILES),
    "decode": (serving_kernels.decode_kernel, serving_kernels.DECODE_COLUMNS),
}
HEADS = ((64, 32, 2, 2), (64, 64, 4, 1), (128, 32, 16, 1), (128, 64, 4, 2))  # head_dim, gate_dim, q_heads, kv_heads
CAPACITY = {"max_sequences": 8, "max_seq_len": 1024, "max_cached_tokens": 2048}
TRAINING = ((2, 128), (1, 256), (2, 1), (1, 77), (1, 200))  # batch, length
# Calls of a serving trace: by sequence, the tokens appended. A new name starts empty, or as a fork if it says of whom.
PREFILLS = ({"a": 130, "b": 1, "c": 64}, {"a": 63, "d<a": 5, "c": 0, "e<a": 200}, {"b": 300, "e": 64})
DECODES = ({"a": 1, "b": 8, "c": 3}, {"f<a": 2, "g<a": 1, "a": 5, "c": 8}, {"g": 1, "e": 4})


def config(heads: tuple[int, int, int, int], dtype: str, **more: object) -> dict:
    return {**dict(zip(("head_dim", "gate_dim", "q_heads", "kv_heads"), heads)), "dtype": dtype, **more}


def make(heads: tuple[int, int, int, int], dtype: str, *rows: int) -> list[torch.Tensor]:
    """q, k, v, qg, kg and do, standard normal, each with more columns and heads in memory than it has."""
    d, r, q, kv = heads
    arrays = []
    for count, dim in ((q, d), (kv, d), (kv, d), (q, r), (kv, r), (q, d)):
        full = torch.randn((*rows, count + 1, dim + 16), device=DEVICE).to(getattr(torch, dtype))
        arrays.append(full[..., :count, :dim])
    return arrays


def exact(x: torch.Tensor) -> np.ndarray:
    return x.float().cpu().numpy()


def judge(name: str, dtype: str, results: dict, x: Inputs, do: np.ndarray | None = None) -> list[accuracy.Verdict]:
    """Verdicts of a sequence's results, by name: o, or the gradients."""
    found, floors = [], accuracy.floors(dtype, x, do)
    if "o" in results:
        right, eager = {"o": attention.forward(x)}, {"o": attention.forward(x, attention.eager(dtype))}
    else:
        keys = ("dq", "dk", "dv", "dqg", "dkg")
        right = dict(zip(keys, attention.backward(x, do)))
        eager = dict(zip(keys, attention.backward(x, do, attention.eager(dtype))))
    for key, value in results.items():
        found.append(accuracy.judge(f"{name}: {key}", exact(value), eager[key], right[key], floors[key]))
    return found


def check_training(heads: tuple, dtype: str, batch: int, length: int) -> Iterator[accuracy.Verdict]:
    """o and the gradients of one batch."""
    *inputs, do = make(heads, dtype, batch, length)
    name = f"D {heads[0]} R {heads[1]} {dtype} b{batch} s{length}"
    with triton_engine.build_engine(config(heads, dtype, modes=["training"])) as engine:
        o, saved = engine.forward(*inputs)
        gradients = engine.backward(saved, do)
    for i in range(batch):
        x, upstream = Inputs(*(exact(a[i]) for a in inputs)), exact(do[i])
        yield from judge(name, dtype, {"o": o[i]}, x)
        yield from judge(
            name, dtype, dict(zip(("dq", "dk", "dv", "dqg", "dkg"), (g[i] for g in gradients))), x, upstream
        )


def check_serving(heads: tuple, dtype: str) -> Iterator[accuracy.Verdict]:
    """o of each call of a trace: ragged prompts, prefixes, decodes, forks inside a page, truncation, reused pages."""
    settings = config(heads, dtype, modes=["prefill", "decode"], **CAPACITY)
    with triton_engine.build_engine(settings) as engine:
        for cache in engine._serving.caches:
            cache.fill_(float("nan"))  # what a page held before must not matter
        total = engine.memory()["pages_free"]
        for turn in range(2):
            ids: dict[str, int] = {}
            held: dict[str, list[np.ndarray]] = {}
            for number, (mode, parts) in enumerate(
                [("prefill", p) for p in PREFILLS] + [("decode", p) for p in DECODES]
            ):
                yield from _call(engine, heads, dtype, mode, parts, ids, held, f"turn {turn} call {number}")
            engine.truncate(ids["a"], 70)
            held["a"] = [x[:70] for x in held["a"]]
            yield from _call(engine, heads, dtype, "decode", {"a": 3, "f": 1}, ids, held, f"turn {turn} truncated")
            for sequence in ids.values():
                engine.release(sequence)
            if engine.memory()["pages_free"] != total:
                raise AssertionError(f"pages were lost: {engine.memory()}, {total} free before")


def _call(engine, heads, dtype, mode, parts, ids, held, name) -> Iterator[accuracy.Verdict]:
    named = {}
    for part, count in parts.items():
        key, _, parent = part.partition("<")
        if key not in ids:
            ids[key] = engine.fork(ids[parent]) if parent else engine.create()
            held[key] = list(held[parent]) if parent else [np.zeros((0, 1, 1), np.float32)] * 3
        named[key] = count
    *inputs, _ = make(heads, dtype, sum(named.values()))
    o = getattr(engine, mode)([ids[key] for key in named], *inputs, list(named.values()))
    start = 0
    for key, count in named.items():
        q, k, v, qg, kg = (exact(x[start : start + count]) for x in inputs)
        held[key] = [np.concatenate((old, x)) if len(old) else x for old, x in zip(held[key], (k, v, kg))]
        k, v, kg = held[key]
        if engine.length(ids[key]) != len(k):
            raise AssertionError(f"length of {key}: {engine.length(ids[key])}, expected {len(k)}")
        if count:
            title = f"D {heads[0]} R {heads[1]} {dtype} {name} {mode} {key}"
            yield from judge(title, dtype, {"o": o[start : start + count]}, Inputs(q, k, v, qg, kg))
        start += count


def checks(dtypes: list[str], quick: bool) -> Iterator[accuracy.Verdict]:
    """Every verdict; `quick` takes the first tile of each kernel only."""
    most = 1 if quick else max(len(configs) for _, configs in TUNED.values())
    for number in range(most):
        for kernel, configs in TUNED.values():
            kernel.configs = [configs[number % len(configs)]]
        every = [config(heads, dtype, **CAPACITY) for dtype in dtypes for heads in HEADS]
        triton_engine.compile_engines(every, sorted({length for _, length in TRAINING}))
        for dtype in dtypes:
            for heads in HEADS:
                for batch, length in TRAINING:
                    yield from check_training(heads, dtype, batch, length)
                yield from check_serving(heads, dtype)


def main() -> int:
    """0 if every verdict is good."""
    parser = argparse.ArgumentParser(prog="tools.bench.check_peer", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="the first tile of each kernel only")
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float16"], choices=("bfloat16", "float16"))
    options = parser.parse_args()
    torch.manual_seed(0)
    count = wrong = 0
    for verdict in checks(options.dtypes, options.quick):
        count, wrong = count + 1, wrong + (not verdict.ok)
        if not verdict.ok:
            print(verdict, flush=True)
    print(f"{count} results, {wrong} wrong")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
