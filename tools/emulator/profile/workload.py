"""Calls of the engine that launch each kernel once, on one shape."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from tools.demo.device_memory import Device
from tools.reference.bits import to_bits

from .expectation import Shape


class Workload:
    """Forward and backward, or, with cached tokens, prefill of those and a decode of `shape.seq_len` tokens.

    package: the assembled package. dtype: "bfloat16" or "float16".
    """

    def __init__(self, package, shape: Shape, dtype: str):
        self.shape, self.dtype, self.device = shape, dtype, Device()
        self.rng = np.random.default_rng(0)
        config = {
            "head_dim": shape.head_dim,
            "gate_dim": shape.gate_dim,
            "q_heads": shape.q_heads,
            "kv_heads": shape.kv_heads,
            "dtype": dtype,
            "modes": ["prefill", "decode"] if shape.cached else ["training"],
        }
        if shape.cached:
            config |= {"max_sequences": shape.batch, "max_seq_len": shape.cached + shape.seq_len}
            config |= {"max_cached_tokens": shape.batch * (shape.cached + shape.seq_len)}
        self.engine = package.build_engine(config)

    def run(self) -> dict[str, float]:
        """Host seconds of each call, kernels included."""
        return self._serve() if self.shape.cached else self._train()

    def close(self) -> None:
        """Frees the engine."""
        self.engine.close()

    def _train(self) -> dict[str, float]:
        leading = (self.shape.batch, self.shape.seq_len)
        inputs = self._inputs(*leading)
        o, *gradients = (self.device.empty(each.shape) for each in (inputs[0], *inputs))
        seconds, (_, saved) = self._timed("forward", partial(self.engine.forward, *inputs, out=o))
        do = self._array(*o.shape)
        return seconds | self._timed("backward", partial(self.engine.backward, saved, do, out=tuple(gradients)))[0]

    def _serve(self) -> dict[str, float]:
        sequences = [self.engine.create() for _ in range(self.shape.batch)]
        seconds = {}
        for call, tokens in (("prefill", self.shape.cached), ("decode", self.shape.seq_len)):
            inputs = self._inputs(self.shape.batch * tokens)
            o, lengths = self.device.empty(inputs[0].shape), [tokens] * self.shape.batch
            seconds |= self._timed(call, partial(getattr(self.engine, call), sequences, *inputs, lengths, out=o))[0]
        for sequence in sequences:
            self.engine.release(sequence)
        return seconds

    def _timed(self, call: str, run) -> tuple[dict[str, float], object]:
        began = time.perf_counter()
        result = run()
        self.device.call("cuCtxSynchronize")
        return {call: time.perf_counter() - began}, result

    def _inputs(self, *leading: int):
        shape = self.shape
        heads = (shape.q_heads, shape.kv_heads, shape.kv_heads, shape.q_heads, shape.kv_heads)
        dims = (shape.head_dim,) * 3 + (shape.gate_dim,) * 2
        return tuple(self._array(*leading, each, dim) for each, dim in zip(heads, dims))

    def _array(self, *shape: int):
        return self.device.upload(to_bits(self.rng.standard_normal(shape), self.dtype))
