"""Training calls for the tests: batches of every length, and outputs between guards."""

from typing import Any

import torch

from .engines import settings_of
from .reference import GRADIENT_NAMES
from .tensors import DTYPES, Guarded, Inputs, assert_same_bits, generator, random_array, random_inputs

LENGTHS = (1, 2, 15, 17, 63, 64, 65, 127, 129, 1000, 1025, 4097)


def random_batch(engine: Any, length: int) -> tuple[Inputs, torch.Tensor]:
    """Inputs [B,S,heads,dim] of standard normal values for an engine and do [B,S,Hq,D]; B is 2, or 1 if S is long."""
    c = settings_of(engine)
    heads, dtype = (c["q_heads"], c["kv_heads"], c["head_dim"], c["gate_dim"]), DTYPES[c["dtype"]]
    source = generator(length * 100 + c["q_heads"] // c["kv_heads"])
    inputs = random_inputs((1 if length > 2000 else 2, length), *heads, dtype, source)
    return inputs, random_array(tuple(inputs.q.shape), dtype, source)


def train(engine: Any, inputs: Inputs, do: torch.Tensor) -> tuple[torch.Tensor, Inputs]:
    """Forward and backward into outputs full of NaN between guards; checks that nothing else was written."""
    before = [x.clone() for x in (*inputs, do)]
    outputs = [Guarded(tuple(x.shape), x.dtype) for x in (inputs.q, *inputs)]
    o, *gradients = (output.array for output in outputs)
    _, saved = engine.forward(*inputs, out=o)
    engine.backward(saved, do, out=tuple(gradients))
    for name, output in zip(("o", *GRADIENT_NAMES), outputs):
        output.assert_guards_intact(name)
    for name, now, then in zip((*Inputs._fields, "do"), (*inputs, do), before):
        assert_same_bits(f"input {name} after the calls", now, then)
    return o, Inputs(*gradients)
