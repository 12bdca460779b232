"""build_engine, and the engine that it returns."""

from __future__ import annotations

import operator
import os
import threading
from contextlib import contextmanager

import torch

from . import serving, training
from .arrays import as_tensor, new_like
from .config import read_config
from .errors import ConfigError, DeviceError, DtypeError
from .memory import Memory
from .sequences import Sequences
from .streams import Streams
from .training import GRADIENTS, INPUTS, Saved


def build_engine(config) -> Engine:
    """Builds an engine from a dict, or from the JSON file at a path.

    Keys: head_dim, gate_dim, q_heads, kv_heads; dtype ("bfloat16" or "float16"); modes (of "training", "prefill",
    "decode"); max_sequences, max_seq_len, max_cached_tokens, needed for a serving mode; memory_limit_bytes;
    batch_invariant, which changes nothing here; device. Errors: ConfigError.
    """
    return Engine(read_config(config))


class Engine:
    """Pairwise-gated attention in eager PyTorch; made by build_engine.

    D = head_dim, R = gate_dim, Hq = q_heads, Hkv = kv_heads. `out=` takes the array, or the tuple of arrays, to write
    the result to, and is returned; without it the result is a new torch tensor, which needs inputs that are torch's.
    `stream=` names a CUDA stream other than torch's current one. Calls from several threads are serialised. A call that
    raises has changed nothing. Any call but close may raise DeviceError (engine closed, process forked), and
    ConfigError if its mode wasn't asked for; one with arrays ShapeError, StrideError, DtypeError, DeviceError.
    """

    def __init__(self, config):
        self._config = config
        self._memory = Memory(config)
        self._sequences = Sequences(config)
        self._streams = Streams(config.device)
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._closed = False

    # ---- Training

    def forward(self, q, k, v, qg, kg, out=None, stream=None):
        """Attention over a dense batch: q [B,S,Hq,D], k, v [B,S,Hkv,D], qg [B,S,Hq,R], kg [B,S,Hkv,R].

        Returns (o, saved): o [B,S,Hq,D]; saved is for backward. Errors: MemoryLimitError too.
        """
        with self._call("training"), self._streams.caller(stream):
            given = (q, k, v, qg, kg)
            inputs = training.checked_inputs(self._config, given)
            out = new_like(q, "out") if out is None else out
            names = dict(zip(INPUTS, inputs))
            (o,) = training.checked_outputs(self._config, {"out": out}, inputs[:1], names)
            training.forward(self._memory, *inputs, o)
            return out, Saved(self, given)

    def backward(self, saved, do, out=None, stream=None):
        """The gradients (dq, dk, dv, dqg, dkg), shaped like the inputs, for the gradient `do` [B,S,Hq,D] of o.

        saved: from forward of this engine; good for any number of calls. Errors: MemoryLimitError too; DeviceError for
        another engine's `saved`.
        """
        with self._call("training"), self._streams.caller(stream):
            if not isinstance(saved, Saved):
                got = type(saved).__name__
                raise DtypeError(f"saved: expected the second value that forward returned, got {got}", "saved")
            if saved.engine is not self:
                raise DeviceError("saved: expected one from a forward of this engine, got another engine's", "saved")
            inputs = training.checked_inputs(self._config, saved.inputs)
            upstream = as_tensor(do, "do", tuple(inputs[0].shape), self._config)
            if out is None:
                out = tuple(new_like(array, name) for array, name in zip(saved.inputs, GRADIENTS))
            elif not isinstance(out, (tuple, list)) or len(out) != len(GRADIENTS):
                raise DtypeError(
                    f"out: expected a tuple of the 5 arrays {', '.join(GRADIENTS)}, got {type(out)}", "out"
                )
            names = {**dict(zip(INPUTS, inputs)), "do": upstream}
            gradients = training.checked_outputs(self._config, dict(zip(GRADIENTS, out)), inputs, names)
            training.backward(self._memory, gradients, inputs, upstream)
            return tuple(out)

    def attention(self, q, k, v, qg, kg):
        """Differentiable attention over a dense batch of torch tensors, shapes as in forward; returns o [B,S,Hq,D].

        The gradient of o may have any strides. A second derivative raises.
        """
        return training.Attention.apply(self, q, k, v, qg, kg)

    def differentiate(self, inputs, do) -> tuple:
        """The backward of `attention`: gradients of q, k, v, qg, kg for a `do` of any strides."""
        with self._call("training"):
            gradients = tuple(new_like(array, name) for array, name in zip(inputs, GRADIENTS))
            training.backward(self._memory, gradients, inputs, do)
            return gradients

    # ---- Serving

    def create(self) -> int:
        """A new, empty sequence; its id is never used again. Errors: PagesExhausted beyond max_sequences."""
        with self._cache() as sequences:
            return sequences.create()

    def fork(self, id: int) -> int:
        """A new sequence that shares the tokens of `id`. Errors: UnknownSequence; PagesExhausted beyond
        max_sequences."""
        with self._cache() as sequences:
            return sequences.fork(_integer(id, "id"))

    def release(self, id: int) -> None:
        """Ends a sequence and frees what no other one shares. Errors: UnknownSequence."""
        with self._changing_cache() as sequences:
            sequences.release(_integer(id, "id"))

    def truncate(self, id: int, length: int) -> None:
        """Drops the newest tokens, so that `length` remain. Errors: UnknownSequence, LengthError."""
        with self._changing_cache() as sequences:
            sequences.truncate(_integer(id, "id"), _integer(length, "length"))

    def length(self, id: int) -> int:
        """Tokens cached of a sequence. Errors: UnknownSequence."""
        with self._cache() as sequences:
            return sequences.length(_integer(id, "id"))

    def prefill(self, ids, q, k, v, qg, kg, lengths, out=None, stream=None):
        """Appends tokens to sequences and attends from them to all of their tokens, old and new.

        ids, lengths: one integer each a sequence, an id at most once, a length from 0. Packed arrays in the order of
        ids, T = sum(lengths): q [T,Hq,D], k, v [T,Hkv,D], qg [T,Hq,R], kg [T,Hkv,R]. Returns o [T,Hq,D].
        Errors: UnknownSequence, LengthError, PagesExhausted (nothing is appended then).
        """
        return self._serve("prefill", ids, q, k, v, qg, kg, lengths, out, stream)

    def decode(self, ids, q, k, v, qg, kg, lengths, out=None, stream=None):
        """As prefill, with 1 to 8 tokens of each sequence."""
        return self._serve("decode", ids, q, k, v, qg, kg, lengths, out, stream)

    # ---- The engine itself

    def memory(self) -> dict[str, int]:
        """What the engine holds now. A page is one token here.

        Bytes: bytes_held, bytes_peak, bytes_limit (-1: none). Pages: pages_total, pages_free, pages_used, pages_shared
        (by more than one sequence), page_tokens. And the number of sequences.
        """
        with self._call():
            sequences, total = self._sequences, self._config.max_cached_tokens
            return {
                "bytes_held": sequences.bytes,
                "bytes_peak": max(self._memory.peak, sequences.bytes),
                "bytes_limit": -1 if self._memory.limit is None else self._memory.limit,
                "pages_total": total,
                "pages_free": total - sequences.tokens,
                "pages_used": sequences.tokens,
                "pages_shared": sequences.shared(),
                "page_tokens": 1,
                "sequences": len(sequences),
            }

    def close(self) -> None:
        """Frees everything; again is harmless."""
        with self._lock:
            self._closed = True
            self._sequences = Sequences(self._config)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def _serve(self, mode: str, ids, q, k, v, qg, kg, lengths, out, stream):
        with self._call(mode), self._streams.caller(stream):
            ids, lengths = serving.host_list(ids, "ids"), serving.host_list(lengths, "lengths")
            serving.checked_lengths(mode, ids, lengths)
            out = new_like(q, "out") if out is None else out
            arrays = serving.checked_arrays(self._config, sum(lengths), q, k, v, qg, kg, out)
            self._sequences.check_append(ids, lengths)
            with self._streams.home():
                serving.serve(self._config, self._memory, self._sequences, ids, lengths, *arrays)
            return out

    @contextmanager
    def _call(self, mode: str | None = None):
        """A call under way: the engine is this thread's, open, and has the mode."""
        with self._lock, torch.no_grad():
            if self._process != os.getpid():
                raise DeviceError("engine: expected the process that built it, got one forked from that")
            if self._closed:
                raise DeviceError("engine: expected an open one, got a closed one")
            if mode is not None and mode not in self._config.modes:
                raise ConfigError(f'modes: the engine was built without "{mode}"', "modes")
            yield

    @contextmanager
    def _cache(self):
        """A call on sequences that copies nothing."""
        with self._call():
            if not self._config.serving:
                raise ConfigError('modes: the engine was built without "prefill" and "decode"', "modes")
            yield self._sequences

    @contextmanager
    def _changing_cache(self):
        """A call on sequences that may copy a chunk, which is work for the engine's stream."""
        with self._cache() as sequences, self._streams.caller(None), self._streams.home():
            yield sequences


def _integer(value, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise DtypeError(f"{name}: expected an integer, got {type(value).__name__}", name) from None
