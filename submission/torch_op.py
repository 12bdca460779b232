"""The differentiable operator for torch: `attention`, a custom op, and its backward, an op of its own.

An engine is passed to the ops as an int, its handle, so that they can be traced and compiled; the namespace is the
package's own name, so that two copies of the package in one process stay apart. Registered when an engine is built in
a process that has imported torch; importing this module imports nothing.
"""

import threading
import weakref

from . import training
from .errors import DeviceError
from .training import Saved

_NAMESPACE = "stratum_" + "".join(letter if letter.isalnum() else "_" for letter in __package__)

_engines = weakref.WeakValueDictionary()
_lock = threading.Lock()
_op = None


def register(native):
    """The attention op, registered on first use; from now on it knows the engine by its handle.

    Its signature: (q, k, v, qg, kg, int engine) -> (o, stats), shapes as in Engine.forward, stats [B,Hq,S,2] float32
    and not differentiable.
    """
    global _op
    with _lock:
        if _op is None:
            _op = _define()
        _engines[native.handle] = native
    return _op


def _native(handle: int):
    native = _engines.get(handle)
    if native is None:
        raise DeviceError("engine: expected one that is alive, got one that was dropped", "engine")
    return native


def _define():
    import torch
    from torch import Tensor

    @torch.library.custom_op(f"{_NAMESPACE}::attention", mutates_args=())
    def attention(q: Tensor, k: Tensor, v: Tensor, qg: Tensor, kg: Tensor, engine: int) -> tuple[Tensor, Tensor]:
        saved = training.forward(_native(engine), (q, k, v, qg, kg), None, None)
        batch, seq_len, heads, _ = q.shape
        return saved.output, saved.stats.view(batch, heads, seq_len, 2)

    @attention.register_fake
    def _(q, k, v, qg, kg, engine):
        batch, seq_len, heads, _ = q.shape
        return q.new_empty(q.shape), q.new_empty((batch, heads, seq_len, 2), dtype=torch.float32)

    @torch.library.custom_op(f"{_NAMESPACE}::attention_backward", mutates_args=())
    def attention_backward(
        q: Tensor, k: Tensor, v: Tensor, qg: Tensor, kg: Tensor, o: Tensor, stats: Tensor, do: Tensor, engine: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        if not _is_readable(do):
            do = do.clone(memory_format=torch.contiguous_format)
        # Autograd runs this on forward's stream, the one that stats was allocated for.
        saved = Saved(engine, (q, k, v, qg, kg), o, stats, stream=None)
        return training.backward(_native(engine), saved, do, None, None)

    @attention_backward.register_fake
    def _(q, k, v, qg, kg, o, stats, do, engine):
        return tuple(array.new_empty(array.shape) for array in (q, k, v, qg, kg))

    def save(ctx, inputs, output):
        *arrays, ctx.engine = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*arrays, *output)

    def differentiate(ctx, do, _):
        if do is None:
            return (None,) * 6
        return (*backward_op(*ctx.saved_tensors, do, ctx.engine), None)

    def save_nothing(ctx, inputs, output):
        pass

    def differentiate_twice(ctx, *gradients):
        raise RuntimeError("attention has no second derivative: its backward can't be differentiated")

    attention.register_autograd(differentiate, setup_context=save)
    attention_backward.register_autograd(differentiate_twice, setup_context=save_nothing)
    ops = getattr(torch.ops, _NAMESPACE)
    backward_op = ops.attention_backward.default
    return ops.attention.default


def _is_readable(tensor) -> bool:
    """Whether the kernels can read a tensor as it lies: last axis contiguous, rows 16-byte aligned."""
    *strides, last = tensor.stride()
    return last == 1 and tensor.data_ptr() % 16 == 0 and all(stride % 8 == 0 for stride in strides)
