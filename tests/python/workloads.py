"""Small engines and the arrays of their calls, in host memory, which is the emulator's device memory."""

from __future__ import annotations

import numpy as np

HEAD_DIM, GATE_DIM, Q_HEADS, KV_HEADS = 64, 32, 8, 2
PAGE_TOKENS = 64

CONFIG = {
    "head_dim": HEAD_DIM,
    "gate_dim": GATE_DIM,
    "q_heads": Q_HEADS,
    "kv_heads": KV_HEADS,
    "max_sequences": 4,
    "max_seq_len": 1024,
    "max_cached_tokens": 2048,
    "device": 0,
}
TRAINING = {**{key: CONFIG[key] for key in ("head_dim", "gate_dim", "q_heads", "kv_heads", "device")},
            "modes": ["training"]}  # fmt: skip

# name → heads and width of an input's rows
ROWS = {
    "q": (Q_HEADS, HEAD_DIM),
    "k": (KV_HEADS, HEAD_DIM),
    "v": (KV_HEADS, HEAD_DIM),
    "qg": (Q_HEADS, GATE_DIM),
    "kg": (KV_HEADS, GATE_DIM),
}


def aligned(shape, dtype=np.uint16) -> np.ndarray:
    """An array of zeros whose address is a multiple of 16 bytes."""
    size = int(np.prod(shape))
    memory = np.zeros(size + 16, dtype)
    offset = -memory.ctypes.data % 16 // memory.itemsize
    return memory[offset : offset + size].reshape(shape)


def training_inputs(batch: int, seq_len: int) -> list[np.ndarray]:
    """q, k, v, qg, kg of a dense batch."""
    return [aligned((batch, seq_len, *row)) for row in ROWS.values()]


def training_output(batch: int, seq_len: int) -> np.ndarray:
    """Room for o, or a gradient of it."""
    return aligned((batch, seq_len, *ROWS["q"]))


def serving_inputs(tokens: int) -> list[np.ndarray]:
    """q, k, v, qg, kg of packed rows."""
    return [aligned((tokens, *row)) for row in ROWS.values()]


def serving_output(tokens: int) -> np.ndarray:
    """Room for o."""
    return aligned((tokens, *ROWS["q"]))


def append(engine, ids, lengths, call: str = "prefill", **options) -> np.ndarray:
    """Appends tokens with a prefill or decode and returns its output."""
    tokens = int(sum(lengths))
    out = serving_output(tokens)
    assert getattr(engine, call)(ids, *serving_inputs(tokens), lengths, out=out, **options) is out
    return out
