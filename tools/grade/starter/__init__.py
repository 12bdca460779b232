"""The starter: pairwise-gated attention in plain eager PyTorch, the yardstick of speed that engines are scored against.

    engine = build_engine({"head_dim": 64, "gate_dim": 32, "q_heads": 8, "kv_heads": 2, "modes": ["training"]})
    o, saved = engine.forward(q, k, v, qg, kg)

Correct, and under the same memory limits as any engine: it goes over queries in the largest power-of-two block that
fits, keeps each sequence as a list of immutable chunks, and a fork shares its parent's. On CUDA arrays are torch
tensors, without CUDA torch tensors of the CPU or numpy arrays. The folder works under any name.

Its bytes are the same on every run of the same calls. Unlike a real engine's, they may depend on how a prompt was cut
into calls: shapes decide which kernel a matrix product runs on, and how it sums.
"""

from .engine import Engine, build_engine
from .errors import (
    ConfigError,
    DeviceError,
    DriverError,
    DtypeError,
    EngineError,
    LengthError,
    MemoryLimitError,
    NoKernelError,
    PackError,
    PagesExhausted,
    ShapeError,
    StrideError,
    UnknownSequence,
)

__all__ = [
    "ConfigError",
    "DeviceError",
    "DriverError",
    "DtypeError",
    "Engine",
    "EngineError",
    "LengthError",
    "MemoryLimitError",
    "NoKernelError",
    "PackError",
    "PagesExhausted",
    "ShapeError",
    "StrideError",
    "UnknownSequence",
    "build_engine",
]
