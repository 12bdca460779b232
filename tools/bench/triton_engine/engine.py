"""The engine: its configuration, and what each call checks before it hands on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from . import training
from .pages import PAGE
from .serving import MOST_DECODED, Serving
from .tuning import INTERPRETED, compile_all

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
MODES = ("training", "prefill", "decode")
INPUTS = ("q", "k", "v", "qg", "kg")
TUNED_LENGTH = 128  # tokens of the inputs that tiles are compiled for


class Engine:
    """Made by `build_engine`; a context manager. Arrays are torch tensors on the device that was current then."""

    def __init__(self, config: dict) -> None:
        self.config = config = {"dtype": "bfloat16", "modes": MODES, **config}
        for key in ("head_dim", "gate_dim", "q_heads", "kv_heads"):
            if not isinstance(config.get(key), int) or config[key] < 1:
                raise ValueError(f"{key}: expected a positive int, got {config.get(key)!r}")
        for key in ("head_dim", "gate_dim"):
            if config[key] < 16 or config[key] & (config[key] - 1):
                raise ValueError(f"{key}: expected a power of two of at least 16, got {config[key]}")
        if config["q_heads"] % config["kv_heads"]:
            raise ValueError(f"q_heads: expected a multiple of kv_heads, got {config['q_heads']}")
        if config["dtype"] not in DTYPES:
            raise ValueError(f"dtype: expected one of {', '.join(DTYPES)}, got {config['dtype']!r}")
        self.dtype, self.modes = DTYPES[config["dtype"]], tuple(config["modes"])
        self.device = torch.device("cpu") if INTERPRETED else torch.device("cuda", torch.cuda.current_device())
        if config.get("device", self.device.index) != self.device.index:
            raise ValueError(f"device: expected the current one, {self.device.index}, got {config['device']}")
        serving = {"prefill", "decode"} & set(self.modes)
        for key in ("max_sequences", "max_seq_len", "max_cached_tokens") if serving else ():
            if not isinstance(config.get(key), int) or config[key] < 1:
                raise ValueError(f"{key}: expected a positive int, got {config.get(key)!r}")
        self._serving = Serving(config, self.dtype, self.device) if serving else None

    def forward(self, q, k, v, qg, kg, *, out: torch.Tensor | None = None) -> tuple[torch.Tensor, training.Saved]:
        """(o [B,S,Hq,D], what backward needs) for q [B,S,Hq,D], k v [B,S,Hkv,D], qg [B,S,Hq,R], kg [B,S,Hkv,R]."""
        inputs = self._check((q, k, v, qg, kg), q.shape[:2])
        o = self._output("out", out, q)
        return o, training.forward(inputs, o)

    def backward(self, saved: training.Saved, do: torch.Tensor, *, out: Sequence[torch.Tensor] | None = None) -> tuple:
        """(dq, dk, dv, dqg, dkg) for do [B,S,Hq,D]."""
        self._check_array("do", do, saved.o.shape)
        if out is None:
            out = [None] * len(INPUTS)
        gradients = tuple(self._output(f"out[{i}]", x, like) for i, (x, like) in enumerate(zip(out, saved.inputs)))
        training.backward(saved, do, gradients)
        return gradients

    def create(self) -> int:
        """A new, empty sequence's id."""
        return self._serving.pages.create()

    def fork(self, sequence: int) -> int:
        """A new sequence with the same tokens, in the same pages."""
        return self._serving.pages.fork(sequence)

    def release(self, sequence: int) -> None:
        """Ends a sequence."""
        self._serving.pages.release(sequence)

    def truncate(self, sequence: int, length: int) -> None:
        """Keeps the oldest `length` tokens."""
        self._serving.pages.truncate(sequence, length)

    def length(self, sequence: int) -> int:
        """Tokens cached."""
        pages = self._serving.pages
        return int(pages.lengths[pages.row(sequence)])

    def memory(self) -> dict[str, int]:
        """Bytes of the cache; pages in all, free, used, and held by several sequences; tokens of a page."""
        pages, used = self._serving.pages, self._serving.pages.total - self._serving.pages.free
        facts = {"pages_total": pages.total, "pages_free": pages.free, "pages_used": used, "pages_shared": pages.shared}
        held = sum(cache.numel() * cache.element_size() for cache in self._serving.caches)
        return {"bytes": held, **facts, "page_tokens": PAGE}

    def prefill(self, ids: Sequence[int], q, k, v, qg, kg, lengths: Sequence[int], *, out=None) -> torch.Tensor:
        """o [T,Hq,D] of packed [T,heads,dim], T = sum(lengths): appends them, and attends to all that is cached."""
        return self._serve("prefill", ids, (q, k, v, qg, kg), lengths, out)

    def decode(self, ids: Sequence[int], q, k, v, qg, kg, lengths: Sequence[int], *, out=None) -> torch.Tensor:
        """The same for 1 to 8 tokens of each sequence."""
        counts = np.asarray(lengths)
        if counts.size and not (1 <= counts.min() and counts.max() <= MOST_DECODED):
            raise ValueError(f"lengths: expected 1 to {MOST_DECODED} for decode, got {list(lengths)}")
        return self._serve("decode", ids, (q, k, v, qg, kg), lengths, out)

    def close(self) -> None:
        """Frees the cache. Safe to call twice."""
        self._serving = None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launches(self, length: int = TUNED_LENGTH) -> list[tuple]:
        """(kernel, arguments) of all that is tuned, for compile_all. length: of a training batch."""
        shape = 1, length
        like = {"dtype": self.dtype, "device": self.device}
        inputs = tuple(torch.empty((*shape, *self._heads(name)), **like) for name in INPUTS)
        found = training.launches(inputs) if "training" in self.modes else []
        if self._serving:
            found += self._serving.launches(tuple(x[0] for x in inputs), self.modes)
        return found

    def _serve(self, mode: str, ids: Sequence[int], inputs: tuple, lengths: Sequence[int], out) -> torch.Tensor:
        counts = np.asarray(lengths, np.int64)
        q = inputs[0]
        if len(counts) != len(ids) or counts.sum() != len(q) or (counts < 0).any():
            raise ValueError(f"lengths: expected one an id, {len(q)} in all, got {list(lengths)} for {len(ids)} ids")
        inputs = self._check(inputs, q.shape[:1])
        o = self._output("out", out, q)
        getattr(self._serving, mode)(ids, inputs, counts, o)
        return o

    def _heads(self, name: str) -> tuple[int, int]:
        config = self.config
        heads = config["q_heads"] if name.startswith("q") else config["kv_heads"]
        return heads, config["gate_dim"] if name.endswith("g") else config["head_dim"]

    def _check(self, inputs: tuple, rows: Sequence[int]) -> tuple:
        for name, array in zip(INPUTS, inputs):
            self._check_array(name, array, (*rows, *self._heads(name)))
        return inputs

    def _check_array(self, name: str, array: torch.Tensor, shape: Sequence[int]) -> None:
        found = tuple(array.shape), array.dtype, array.device
        if found != (tuple(shape), self.dtype, self.device):
            raise ValueError(f"{name}: expected {tuple(shape)} {self.dtype} on {self.device}, got {found}")
        if name != "do" and array.numel() and array.stride(-1) != 1:
            raise ValueError(f"{name}: expected a contiguous last axis, got strides {array.stride()}")

    def _output(self, name: str, out: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
        if out is None:
            return torch.empty(like.shape, dtype=like.dtype, device=like.device)
        self._check_array(name, out, like.shape)
        return out


def build_engine(config: dict | str | Path) -> Engine:
    """An engine for a configuration, a dict or the path of a JSON file, its tiles compiled. ValueError if it is bad."""
    engine = Engine(dict(config) if isinstance(config, dict) else json.loads(Path(config).read_text()))
    compile_all(engine.launches())
    return engine


def compile_engines(configs: Iterable[dict], lengths: Sequence[int] = (TUNED_LENGTH,)) -> None:
    """Compiles the tiles of several configurations together, which keeps more cores busy than one after the other.

    lengths: of training batches, one of each kind: multiples of 128 and others have kernels of their own.
    """
    engines = [Engine(config) for config in configs]
    compile_all([launch for engine in engines for length in lengths for launch in engine.launches(length)])
