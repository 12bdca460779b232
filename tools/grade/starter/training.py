"""Forward and backward over a dense batch, a row of it after the other."""

from __future__ import annotations

from typing import NamedTuple

import torch

from . import attention
from .arrays import ANY, as_tensor, check_apart
from .config import Config
from .memory import Memory

INPUTS = ("q", "k", "v", "qg", "kg")
GRADIENTS = ("dq", "dk", "dv", "dqg", "dkg")


class Saved(NamedTuple):
    """What `backward` needs of a `forward`: the caller's own arrays, which must not change before it."""

    engine: object
    inputs: tuple


def checked_inputs(config: Config, arrays) -> list[torch.Tensor]:
    """q, k, v, qg, kg as tensors. Errors: those of as_tensor."""
    d, r = config.head_dim, config.gate_dim
    q = as_tensor(arrays[0], "q", (ANY, ANY, config.q_heads, d), config)
    heads_and_dims = ((config.kv_heads, d), (config.kv_heads, d), (config.q_heads, r), (config.kv_heads, r))
    rest = zip(arrays[1:], INPUTS[1:], heads_and_dims)
    return [q, *(as_tensor(array, name, (*q.shape[:2], *tail), config) for array, name, tail in rest)]


def checked_outputs(config: Config, outputs: dict, like, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Outputs by name as tensors, shaped like the tensors `like`. Errors: those of as_tensor and check_apart."""
    tensors = {
        name: as_tensor(array, name, tuple(other.shape), config, written=True)
        for (name, array), other in zip(outputs.items(), like)
    }
    check_apart(tensors, inputs)
    return list(tensors.values())


def forward(memory: Memory, q, k, v, qg, kg, out) -> None:
    """Writes o to `out`; checked tensors [B,S,H,dim]."""
    batch, count, _, _ = q.shape
    if batch == 0 or count == 0:
        return
    step = memory.step("forward", count, count)
    for row in range(batch):

        def keys(heads: slice, row=row):
            return tuple(x[row, :, heads].transpose(0, 1) for x in (k, v, kg))

        attention.forward(out[row], q[row], qg[row], keys, count, k.shape[2], step)


def backward(memory: Memory, gradients, inputs, do) -> None:
    """Writes the five gradients; checked tensors [B,S,H,dim]."""
    batch, count, _, _ = do.shape
    if batch == 0 or count == 0:
        return
    step = memory.step("backward", count, count)
    for row in range(batch):
        attention.backward([x[row] for x in gradients], *(x[row] for x in inputs), do[row], step)


class Attention(torch.autograd.Function):
    """Differentiable attention: apply(engine, q, k, v, qg, kg) gives o."""

    @staticmethod
    def forward(ctx, engine, *inputs):
        ctx.engine = engine
        ctx.save_for_backward(*inputs)
        return engine.forward(*inputs)[0]

    @staticmethod
    def backward(ctx, do):
        return None, *_Gradients.apply(ctx.engine, do, *ctx.saved_tensors)


class _Gradients(torch.autograd.Function):
    """The backward of Attention: a function of its own, so that to differentiate it raises."""

    @staticmethod
    def forward(ctx, engine, do, *inputs):
        return engine.differentiate(inputs, do)

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError("attention has no second derivative: its backward can't be differentiated")
