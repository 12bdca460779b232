"""Host time of a decode call: what Python, the library and the driver take until the call returns.

The GPU is idle before every call, so nothing in it waits; a torch output is made by each.
"""

import statistics
import time
from types import ModuleType
from typing import Any

import torch

BATCHES = (1, 64)
PROMPT = 256  # tokens cached of each sequence before the first call
WARM_UP_CALLS, CALLS = 20, 200
HEADS = {"head_dim": 128, "gate_dim": 64, "q_heads": 32, "kv_heads": 8}
CAPACITY = {"max_sequences": 64, "max_seq_len": 1024, "max_cached_tokens": 65536}


def measure(package: ModuleType) -> list[dict]:
    """{batch, calls, microseconds} for each batch: the median over calls of one token a sequence."""
    with package.build_engine({**HEADS, **CAPACITY, "modes": ["prefill", "decode"]}) as engine:
        return [_measure(engine, batch) for batch in BATCHES]


def _measure(engine: Any, batch: int) -> dict:
    ids, lengths = [engine.create() for _ in range(batch)], [1] * batch
    engine.prefill(ids, *_tokens(batch * PROMPT), [PROMPT] * batch)
    tokens, times = _tokens(batch), []
    for _ in range(WARM_UP_CALLS + CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        engine.decode(ids, *tokens, lengths)
        times.append(time.perf_counter_ns() - start)
    torch.cuda.synchronize()
    for sequence in ids:
        engine.release(sequence)
    return {"batch": batch, "calls": CALLS, "microseconds": statistics.median(times[WARM_UP_CALLS:]) / 1e3}


def _tokens(count: int) -> list[torch.Tensor]:
    """q, k, v, qg, kg of packed tokens, whose values don't matter."""
    q, kv, d, r = HEADS["q_heads"], HEADS["kv_heads"], HEADS["head_dim"], HEADS["gate_dim"]
    rows = (q, d), (kv, d), (kv, d), (q, r), (kv, r)
    return [torch.zeros((count, *row), device="cuda", dtype=torch.bfloat16) for row in rows]
