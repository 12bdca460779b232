"""Pairwise-gated attention: training, prefill and decode from kernels compiled ahead of time.

    engine = build_engine({"head_dim": 128, "gate_dim": 64, "q_heads": 32, "kv_heads": 8, "modes": ["training"]})
    o, saved = engine.forward(q, k, v, qg, kg)
    dq, dk, dv, dqg, dkg = engine.backward(saved, do)

Needs the NVIDIA driver and nothing else: no compiler, no torch, no numpy. Importing it touches no CUDA.
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
from .training import Saved

__version__ = "0.1.0"

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
    "Saved",
    "ShapeError",
    "StrideError",
    "UnknownSequence",
    "build_engine",
    "__version__",
]
