"""The check against float64: what eager code computes passes, what a broken kernel computes doesn't."""

from __future__ import annotations

import numpy as np
import pytest

from tools.reference.attention import Inputs, backward, eager, forward
from tools.reference.bits import rounded
from tools.sweep.check import expected_gradients, expected_output, first_wrong

DTYPES = ("bfloat16", "float16")


def inputs(dtype: str) -> tuple[Inputs, np.ndarray]:
    """7 queries at the end of 40 keys, 4 heads on 2, D 16, R 8."""
    source = np.random.default_rng(0)
    shapes = (7, 4, 16), (40, 2, 16), (40, 2, 16), (7, 4, 8), (40, 2, 8), (7, 4, 16)
    *arrays, do = (rounded(source.standard_normal(shape), dtype) for shape in shapes)
    return Inputs(*arrays), do


@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs(dtype):
    x, _ = inputs(dtype)
    expected, good = expected_output(x, dtype), forward(x, eager(dtype))
    assert first_wrong([expected], [[good]]) is None
    assert "o: largest error" in first_wrong([expected], [[1.1 * good]])
    one_less = forward(Inputs(x.q, *(a[:-1] for a in (x.k, x.v)), x.qg, x.kg[:-1]), eager(dtype))
    assert "o: largest error" in first_wrong([expected], [[one_less]])
    unwritten = good.copy()
    unwritten[3, 1, 5] = np.nan
    assert "o: 1 of 448 values aren't finite" in first_wrong([expected], [[unwritten]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", range(5))
def test_gradients(dtype, which):
    x, do = inputs(dtype)
    expected, good = expected_gradients(x, do, dtype), list(backward(x, do, eager(dtype)))
    assert first_wrong([expected, expected], [good, good]) is None
    bad = [-array if i == which else array for i, array in enumerate(good)]
    name = ("dq", "dk", "dv", "dqg", "dkg")[which]
    assert first_wrong([expected, expected], [good, bad]).startswith(f"{name}: largest error")
