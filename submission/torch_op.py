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
_library = None  # the op's registrations live as long as it


def register(native):
    """The attention op, registered on first use; from now on it knows the engine by its handle.

    Its signature: (q, k, v, qg, kg, int engine) -> (o, stats), shapes as in Engine.forward, stats [B,Hq,S,2] float32
    and not differentiable.
    """
    global _op, _library
    with _lock:
        if _op is None:
            _op, _library = _define()
        _engines[native.handle] = native
    return _op


def _native(handle: int):
    native = _engines.get(handle)
    if native is None:
        raise DeviceError("engine: expected one that is alive, got one that was dropped", "engine")
    return native


def _define():
    import torch

    # By torch.library.Library: an op of torch.library.custom_op imports torch's compiler when it is first called.
    library = torch.library.Library(_NAMESPACE, "DEF")
    exact = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    tags = torch.Tag.pt2_compliant_tag, exact

    def define(name, parameters, results, kernel, fake, differentiate, save):
        library.define(f"{name}({parameters}, int engine) -> {results}", tags=tags)
        library.impl(name, kernel, "CompositeExplicitAutograd")
        torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=library)
        torch.library.register_autograd(f"{_NAMESPACE}::{name}", differentiate, setup_context=save, lib=library)
        return getattr(getattr(torch.ops, _NAMESPACE), name).default

    def attention(q, k, v, qg, kg, engine):
        saved = training.forward(_native(engine), (q, k, v, qg, kg), None, None)
        batch, seq_len, heads, _ = q.shape
        return saved.output, saved.stats.view(batch, heads, seq_len, 2)

    def fake_attention(q, k, v, qg, kg, engine):
        batch, seq_len, heads, _ = q.shape
        return q.new_empty(q.shape), q.new_empty((batch, heads, seq_len, 2), dtype=torch.float32)

    def save(ctx, inputs, output):
        *arrays, ctx.engine = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*arrays, *output)

    def differentiate(ctx, do, _):
        if do is None:
            return (None,) * 6
        return (*backward_op(*ctx.saved_tensors, do, ctx.engine), None)

    def attention_backward(q, k, v, qg, kg, o, stats, do, engine):
        if not _is_readable(do):
            do = do.clone(memory_format=torch.contiguous_format)
        # Autograd runs this on forward's stream, the one that stats was allocated for.
        saved = Saved(engine, (q, k, v, qg, kg), o, stats, stream=None)
        return training.backward(_native(engine), saved, do, None, None)

    def fake_backward(q, k, v, qg, kg, o, stats, do, engine):
        return tuple(array.new_empty(array.shape) for array in (q, k, v, qg, kg))

    def save_nothing(ctx, inputs, output):
        pass

    def differentiate_twice(ctx, *gradients):
        raise RuntimeError("attention has no second derivative: its backward can't be differentiated")

    arrays, saved = "Tensor q, Tensor k, Tensor v, Tensor qg, Tensor kg", "Tensor o, Tensor stats, Tensor do"
    gradients = "(Tensor, Tensor, Tensor, Tensor, Tensor)"
    backward_op = define(
        "attention_backward", f"{arrays}, {saved}", gradients, attention_backward, fake_backward,
        differentiate_twice, save_nothing,
    )  # fmt: skip
    return define("attention", arrays, "(Tensor, Tensor)", attention, fake_attention, differentiate, save), library


def _is_readable(tensor) -> bool:
    """Whether the kernels can read a tensor as it lies: last axis contiguous, rows 16-byte aligned."""
    *strides, last = tensor.stride()
    return last == 1 and tensor.data_ptr() % 16 == 0 and all(stride % 8 == 0 for stride in strides)
