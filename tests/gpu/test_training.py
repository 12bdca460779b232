"""Forward and the five gradients against float64, for every stratum, group size and awkward length."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import GROUPS, HEADS, KV_HEADS, PORTABLE, chip_arch, engine
from .reference import GRADIENT_NAMES, check_training
from .tensors import DTYPES, assert_same_bits, generator, random_array, random_inputs
from .training import LENGTHS, random_batch, train

pytestmark = pytest.mark.usefixtures("pack")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_this_chips_kernels_come_first(pack: str, head_dim: int, gate_dim: int, dtype: str):
    own = chip_arch()
    if own is None:
        pytest.skip("the pack has no kernels for this very chip")
    archs = {}  # operation -> archs in the order of trial
    for kernel in engine(head_dim, gate_dim, 4, dtype).describe()["kernels"]:
        archs.setdefault(kernel["operation"], []).append(kernel["arch"])
    for operation in ("forward", "backward_dq", "backward_dkv"):
        assert archs[operation][-1] != own  # the portable one is always there
        assert (archs[operation][0] == own) == (pack != PORTABLE)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_forward_and_gradients(head_dim: int, gate_dim: int, dtype: str, group: int, length: int):
    built = engine(head_dim, gate_dim, group, dtype)
    inputs, do = random_batch(built, length)
    o, gradients = train(built, inputs, do)
    check_training(f"length {length}", o, gradients, inputs, do)


@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_more_than_65535_heads_in_a_batch(head_dim: int, gate_dim: int):
    inputs = random_inputs((4100, 3), 16, KV_HEADS, head_dim, gate_dim, torch.bfloat16, generator(1))
    do = random_array(tuple(inputs.q.shape), torch.bfloat16, generator(2))
    o, gradients = train(engine(head_dim, gate_dim, 8), inputs, do)
    check_training("batch 4100", o, gradients, inputs, do)


@pytest.mark.parametrize("batch, length", [(0, 17), (2, 0)])
def test_nothing_to_do(batch: int, length: int):
    inputs = random_inputs((batch, length), 8, KV_HEADS, 64, 32, torch.bfloat16, generator(1))
    o, gradients = train(engine(64, 32, 4), inputs, torch.empty_like(inputs.q))
    assert o.shape == inputs.q.shape
    assert [x.shape for x in gradients] == [x.shape for x in inputs]


def test_returned_arrays():
    """Without out= the results are new arrays with the values that out= gets."""
    built = engine(128, 64, 4)
    inputs = random_inputs((2, 130), 8, KV_HEADS, 128, 64, torch.bfloat16, generator(1))
    do = random_array(tuple(inputs.q.shape), torch.bfloat16, generator(2))
    expected_o, expected_gradients = train(built, inputs, do)
    o, saved = built.forward(*inputs)
    gradients = built.backward(saved, do)
    assert_same_bits("o", o, expected_o)
    for name, ours, expected in zip(GRADIENT_NAMES, gradients, expected_gradients, strict=True):
        assert_same_bits(name, ours, expected)


def test_an_odd_number_of_heads_of_a_long_batch():
    """Kernels that take key/value heads in pairs have one left."""
    built = engine(64, 32, 1, q_heads=3, kv_heads=3)
    inputs, do = random_batch(built, 2100)
    o, gradients = train(built, inputs, do)
    check_training("3 heads", o, gradients, inputs, do)


@pytest.mark.parametrize("head_dim, gate_dim, length", [(128, 64, 1000), (64, 32, 2048)])
def test_same_bits_beside_a_competing_kernel(head_dim: int, gate_dim: int, length: int):
    """30 runs of backward while another stream keeps the GPU busy."""
    built = engine(head_dim, gate_dim, 4)
    inputs = random_inputs((2, length), 8, KV_HEADS, head_dim, gate_dim, torch.bfloat16, generator(1))
    do = random_array(tuple(inputs.q.shape), torch.bfloat16, generator(2))
    _, saved = built.forward(*inputs)
    alone = built.backward(saved, do)
    side, matrix = torch.cuda.Stream(), torch.randn(2048, 2048, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    for run in range(30):
        with torch.cuda.stream(side):
            for _ in range(4):
                torch.mm(matrix, matrix)
        for name, ours, expected in zip(GRADIENT_NAMES, built.backward(saved, do), alone):
            assert_same_bits(f"run {run}: {name}", ours, expected)
    torch.cuda.synchronize()
