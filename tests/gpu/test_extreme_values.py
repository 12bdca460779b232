"""Values that break a careless softmax or gate: logits of 1e11, rows far below any mask sentinel, infinite gates, NaN
beside finite batches."""

import math

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import HEADS, KV_HEADS, engine
from .reference import check_training, reference_backward, reference_forward
from .serving import Cache, random_tokens
from .tensors import Inputs, assert_same_bits, generator, random_array, random_inputs
from .test_training import train

Q_HEADS = 4 * KV_HEADS
pytestmark = pytest.mark.usefixtures("pack")


@pytest.mark.parametrize("length", [1, 128])
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_logits_of_1e11(head_dim: int, gate_dim: int, length: int):
    """q = k = v = 133,120: o = sigmoid(t) v for one token, and finite wherever float64 is."""
    inputs = random_inputs((1, length), Q_HEADS, KV_HEADS, head_dim, gate_dim, torch.bfloat16, generator(length))
    for large in inputs[:3]:
        large.fill_(133120.0)
    do = random_array(tuple(inputs.q.shape), torch.bfloat16, generator(1))
    o, gradients = train(engine(head_dim, gate_dim, 4), inputs, do)
    check_training(f"length {length}", o, gradients, inputs, do)
    if length == 1:
        kg = inputs.kg.double().repeat_interleave(4, 2)
        gate = torch.sigmoid((inputs.qg.double() * kg).sum(-1, keepdim=True) / math.sqrt(gate_dim))
        torch.testing.assert_close(o.double(), (gate * 133120.0).expand(o.shape), rtol=2**-8, atol=0)


@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_logits_near_minus_1e5(head_dim: int, gate_dim: int):
    """Every logit near -1e5, in every seventh row the largest one -3e4: a right softmax, no mask value in it."""
    inputs = random_inputs((1, 200), Q_HEADS, KV_HEADS, head_dim, gate_dim, torch.bfloat16, generator(3))
    inputs.q[..., 0], inputs.k[..., 0] = 1024.0, -1e5 * math.sqrt(head_dim) / 1024.0
    inputs.q[:, ::7, :, 0] = 1024.0 * 0.3
    do = random_array(tuple(inputs.q.shape), torch.bfloat16, generator(4))
    o, gradients = train(engine(head_dim, gate_dim, 4), inputs, do)
    check_training("logits near -1e5", o, gradients, inputs, do)
    # The yardstick rounds such logits by hundreds, so the rule alone would pass a wrong softmax.
    error = (o.double() - reference_forward(inputs)).abs().max().item()
    assert error < 0.05 * inputs.v.double().abs().max().item()
    for name, ours, right in zip(Inputs._fields, gradients, reference_backward(inputs, do)):
        kept = slice(1, None) if name == "q" else slice(None)  # dq[0] is ds times one constant: its terms cancel
        error, size = (ours.double() - right)[..., kept].norm(), right[..., kept].norm()
        assert error < 0.1 * size, f"gradient of {name}: relative error {(error / size).item():.3f}"


def make_infinite(gates: torch.Tensor, first_column: int = 0) -> None:
    """Makes an element of the first, the middle and the last token of gates [S,heads,R] infinite, in three columns."""
    for i, token in enumerate((0, len(gates) // 2, len(gates) - 1)):
        gates[token, :, first_column + i] = -math.inf if i % 2 else math.inf


@pytest.mark.parametrize("name", ["qg", "kg"])
@pytest.mark.parametrize("length", [19, 64, 65, 150])
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_infinite_gates(head_dim: int, gate_dim: int, length: int, name: str):
    """Behind a sequence's end are zeros, and infinity times 0 is NaN, which reaches no result."""
    inputs = random_inputs((2, length), Q_HEADS, KV_HEADS, head_dim, gate_dim, torch.bfloat16, generator(7))
    for gates in getattr(inputs, name):
        make_infinite(gates)
    do = random_array(tuple(inputs.q.shape), torch.bfloat16, generator(8))
    o, gradients = train(engine(head_dim, gate_dim, 4), inputs, do)
    assert o.isfinite().all()
    check_training(f"infinite {name}, length {length}", o, gradients, inputs, do)


@pytest.mark.parametrize("name", ["qg", "kg"])
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_infinite_gates_in_a_cache(head_dim: int, gate_dim: int, name: str):
    built = engine(head_dim, gate_dim, 4)
    with Cache(built) as cache:
        sequence = cache.create()
        for step, (mode, count) in enumerate((("prefill", 19), ("prefill", 46), ("decode", 3))):
            tokens = random_tokens(built, count, step)
            make_infinite(getattr(tokens, name), 3 * step)
            assert getattr(cache, mode)({sequence: tokens})[sequence].isfinite().all()


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_batches_do_not_mix(poison: float):
    """NaN or infinity in one batch leaves the bits of the others alone."""
    built = engine(128, 64, 4)
    inputs = random_inputs((3, 100), Q_HEADS, KV_HEADS, 128, 64, torch.bfloat16, generator(5))
    do = random_array(tuple(inputs.q.shape), torch.bfloat16, generator(6))
    clean = train(built, inputs, do)
    for array in (*inputs, do):
        array[1] = poison
    dirty = train(built, inputs, do)
    for batch in (0, 2):
        assert_same_bits(f"o of batch {batch}", dirty[0][batch], clean[0][batch])
        for name, ours, expected in zip(Inputs._fields, dirty[1], clean[1]):
            assert_same_bits(f"gradient of {name}, batch {batch}", ours[batch], expected[batch])
