"""The reference that results are judged by: against formulas written out, finite differences, and the rule's own
terms."""

import numpy as np
import pytest

from tools.reference import attention
from tools.reference.accuracy import floors, judge
from tools.reference.attention import EXACT, Inputs, backward, eager, forward
from tools.reference.bits import from_bits, rounded, to_bits


def random_inputs(queries, keys, q_heads=4, kv_heads=2, head_dim=8, gate_dim=6, seed=3):
    rng = np.random.default_rng(seed)
    query, key = (queries, q_heads), (keys, kv_heads)
    shapes = (*query, head_dim), (*key, head_dim), (*key, head_dim), (*query, gate_dim), (*key, gate_dim)
    return Inputs(*(rng.standard_normal(shape) for shape in shapes))


def written_out(x):
    """o by the definition, one query and head at a time."""
    o, group = np.zeros(x.q.shape), x.q.shape[1] // x.k.shape[1]
    for i in range(len(x.q)):
        for h in range(x.q.shape[1]):
            visible, c = len(x.k) - len(x.q) + i + 1, h // group
            s = x.k[:visible, c] @ x.q[i, h] / np.sqrt(x.q.shape[2])
            t = x.kg[:visible, c] @ x.qg[i, h] / np.sqrt(x.qg.shape[2])
            p = np.exp(s) / np.exp(s).sum()
            o[i, h] = (p / (1 + np.exp(-t))) @ x.v[:visible, c]
    return o


@pytest.mark.parametrize("queries, keys, q_heads, kv_heads", [(1, 1, 2, 2), (7, 7, 4, 2), (3, 9, 6, 2), (5, 5, 3, 1)])
@pytest.mark.parametrize("block", [1, 1 << 25])
def test_forward_is_the_definition(monkeypatch, queries, keys, q_heads, kv_heads, block):
    monkeypatch.setattr(attention, "BLOCK_ELEMENTS", block)
    x = random_inputs(queries, keys, q_heads, kv_heads)
    assert np.allclose(forward(x), written_out(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("block", [1, 1 << 25])
def test_gradients_are_those_of_the_forward(monkeypatch, block):
    monkeypatch.setattr(attention, "BLOCK_ELEMENTS", block)
    rng = np.random.default_rng(3)
    x = random_inputs(5, 7)
    do = rng.standard_normal(x.q.shape)
    step = 1e-6
    for i, gradient in enumerate(backward(x, do)):
        direction = rng.standard_normal(x[i].shape)
        ends = []
        for sign in (1, -1):
            moved = list(x)
            moved[i] = x[i] + sign * step * direction
            ends.append((forward(Inputs(*moved)) * do).sum())
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx((gradient * direction).sum(), rel=1e-6)


@pytest.mark.parametrize(
    "infinite, at, partner, hidden", [("qg", 1, "kg", slice(2, None)), ("kg", 5, "qg", slice(0, 5))]
)
def test_gates_of_hidden_keys_are_left_out(infinite, at, partner, hidden):
    """Infinity times 0 is NaN, and so is 0 times a gate of that."""
    x, do = random_inputs(7, 7), np.random.default_rng(6).standard_normal((7, 4, 8))
    getattr(x, infinite)[at, :, 0] = np.inf
    getattr(x, partner)[hidden, :, 0] = 0
    assert np.allclose(forward(x), written_out(x), rtol=1e-12, atol=1e-14)
    for name, gradient in zip(attention.GRADIENTS, backward(x, do)):
        # Of column 0 the gradient is a sum of products with the infinity.
        assert np.isfinite(gradient[..., 1:] if name == f"d{partner}" else gradient).all(), name
    assert all(np.isfinite(floor) for floor in floors("bfloat16", x, do).values())


def test_eager_code_rounds_to_its_dtype_and_lies_near_the_reference():
    for dtype in ("bfloat16", "float16"):
        x = Inputs(*(rounded(a, dtype) for a in random_inputs(40, 50, head_dim=64, gate_dim=32)))
        do = rounded(np.random.default_rng(4).standard_normal(x.q.shape), dtype)
        names = "o", "dq", "dk", "dv", "dqg", "dkg"
        right = (forward(x), *backward(x, do))
        ours = (forward(x, eager(dtype)), *backward(x, do, eager(dtype)))
        for name, a, b in zip(names, ours, right):
            assert np.array_equal(rounded(a, dtype), a), name
            distance = np.linalg.norm(a - b) / np.linalg.norm(b)
            assert 1e-5 < distance < (1e-2 if dtype == "bfloat16" else 2e-3), (name, distance)


def test_a_block_that_fits_whole_is_cut_without_a_trace(monkeypatch):
    x, do = random_inputs(33, 40), np.random.default_rng(5).standard_normal((33, 4, 8))
    whole = backward(x, do, EXACT)
    monkeypatch.setattr(attention, "BLOCK_ELEMENTS", 4 * 40 * 5)
    for a, b in zip(whole, backward(x, do, EXACT)):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "value, bits",
    [
        (1.0, 0x3F80),
        (1 + 2**-8, 0x3F80),
        (1 + 3 * 2**-8, 0x3F82),
        (-0.0, 0x8000),
        (np.inf, 0x7F80),
        (3.4e38, 0x7F80),
        (np.nan, 0x7FC0),
    ],
)
def test_bfloat16_rounds_to_nearest_even(value, bits):
    assert to_bits(np.array([value]), "bfloat16") == [bits]


def test_every_pattern_survives_the_way_there_and_back():
    patterns = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    for dtype in ("bfloat16", "float16"):
        values = from_bits(patterns, dtype)
        back = to_bits(values, dtype)
        assert np.array_equal(back[~np.isnan(values)], patterns[~np.isnan(values)])
        assert np.isnan(from_bits(back[np.isnan(values)], dtype)).all()


def test_the_rule_names_each_way_to_fail():
    zero = np.zeros(10)
    yardstick = np.full(10, 1e-3)
    assert judge("x", 2 * yardstick, yardstick, zero, 1e-3).ok is False  # the mean: 1.5x and a tenth of the floor
    assert judge("x", 1.5 * yardstick, yardstick, zero, 0.0).ok is True
    one_off = np.array([3.1e-3] + [0.0] * 9)
    assert judge("x", one_off, yardstick, zero, 1e-3).ok is False
    assert judge("x", np.array([3e-3] + [0.0] * 9), yardstick, zero, 1e-3).ok is True
    assert judge("x", np.array([np.nan] + [0.0] * 9), yardstick, zero, 1e-3).ok is False
    assert judge("x", np.array([-np.inf] + [0.0] * 9), yardstick, zero, 1e-3).ok is False


def test_what_the_reference_cant_say_is_not_judged():
    reference = np.array([np.inf, 1.0])
    assert judge("x", np.array([0.0, 1.0]), reference, reference, 0.0).ok is True
    assert judge("x", np.array([np.inf, np.inf]), reference, reference, 0.0).ok is False
    # Eager code that overflows allows any finite value, and nothing else.
    assert judge("x", np.array([5.0, 1.0]), np.array([np.nan, 1.0]), np.ones(2), 0.0).ok is True
    assert judge("x", np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), np.ones(2), 0.0).ok is False


def test_floors_are_the_contract_s():
    x = random_inputs(4, 4, head_dim=16, gate_dim=4)
    do = np.random.default_rng(6).standard_normal(x.q.shape)
    e, largest = 2.0**-8, lambda a: np.abs(a).max()
    u = e * np.linalg.norm(do, axis=-1).max() * np.linalg.norm(x.v, axis=-1).max()
    assert floors("bfloat16", x, do) == pytest.approx(
        {
            "o": e * largest(x.v),
            "dv": e * largest(do),
            "dq": u * largest(x.k) / 4,
            "dk": u * largest(x.q) / 4,
            "dqg": u * largest(x.kg) / 2,
            "dkg": u * largest(x.qg) / 2,
        }
    )
