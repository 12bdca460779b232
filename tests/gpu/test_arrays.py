"""Strided views, other array libraries and streams give the bits of plain contiguous torch tensors."""

import numpy
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import HEADS, KV_HEADS, engine, submission
from .reference import GRADIENT_NAMES, check_training
from .serving import Cache, random_tokens
from .tensors import Guarded, Inputs, assert_same_bits, bits, generator, random_array, random_inputs

GROUP = 4
Q_HEADS = GROUP * KV_HEADS
LENGTH = 130

with_both_packs = pytest.mark.usefixtures("pack")


def _train(built, inputs, do) -> list[torch.Tensor]:
    o, saved = built.forward(*inputs)
    return [o, *built.backward(saved, do)]


def _same(ours, expected) -> None:
    for name, a, b in zip(("o", *GRADIENT_NAMES), ours, expected, strict=True):
        assert_same_bits(name, a, b)


def _inputs(head_dim: int, gate_dim: int, dtype=torch.bfloat16) -> tuple[Inputs, torch.Tensor]:
    inputs = random_inputs((2, LENGTH), Q_HEADS, KV_HEADS, head_dim, gate_dim, dtype, generator(1))
    return inputs, random_array(tuple(inputs.q.shape), dtype, generator(2))


@with_both_packs
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_sliced_from_one_packed_array(head_dim: int, gate_dim: int):
    """All five inputs and do are slices of one [B,S,everything] array, the outputs of another."""
    built = engine(head_dim, gate_dim, GROUP)
    inputs, do = _inputs(head_dim, gate_dim)
    arrays = (*inputs, do)
    sizes = [x.shape[2] * x.shape[3] for x in arrays]
    packed = torch.cat([x.flatten(2) for x in arrays], -1)
    views = [part.unflatten(-1, x.shape[2:]) for part, x in zip(packed.split(sizes, -1), arrays)]
    outs = [part.unflatten(-1, x.shape[2:]) for part, x in zip(torch.empty_like(packed).split(sizes, -1), arrays)]
    o, saved = built.forward(*views[:5], out=outs[5])
    gradients = built.backward(saved, views[5], out=tuple(outs[:5]))
    _same([o, *gradients], _train(built, inputs, do))


@with_both_packs
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_transposed(head_dim: int, gate_dim: int):
    """[B,H,S,dim] memory seen as [B,S,H,dim], and [S,B,H,dim] memory seen so too."""
    built = engine(head_dim, gate_dim, GROUP)
    inputs, do = _inputs(head_dim, gate_dim)
    expected = _train(built, inputs, do)
    for axes in ((1, 2), (0, 1)):
        views = [x.transpose(*axes).contiguous().transpose(*axes) for x in (*inputs, do)]
        _same(_train(built, views[:5], views[5]), expected)


@with_both_packs
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "names", [("q",), ("k", "v"), ("qg", "kg"), ("do",), ("q", "k", "v", "qg", "kg", "do")], ids=str
)
def test_expanded(names: tuple[str, ...], axis: int):
    """Stride 0: right, if perhaps by another kernel than contiguous arrays get, and so with other bits."""
    built = engine(64, 32, GROUP)
    inputs, do = _inputs(64, 32)
    arrays = dict(zip((*Inputs._fields, "do"), (*inputs, do)))
    views = arrays | {name: arrays[name].narrow(axis, 0, 1).expand(arrays[name].shape) for name in names}
    *inputs, do = views.values()
    o, *gradients = _train(built, inputs, do)
    plain = Inputs(*(x.contiguous() for x in inputs))
    check_training("expanded", o, Inputs(*gradients), plain, do.contiguous())


@with_both_packs
def test_do_of_one_element():
    """Every stride 0, even the last: the contiguous result, or a clear error before launch."""
    built = engine(64, 32, GROUP)
    inputs, do = _inputs(64, 32)
    _, saved = built.forward(*inputs)
    try:
        gradients = built.backward(saved, do.new_ones(()).expand(do.shape))
    except submission().StrideError as error:
        assert error.argument == "do"
    else:
        for name, ours, right in zip(GRADIENT_NAMES, gradients, _train(built, inputs, torch.ones_like(do))[1:]):
            assert_same_bits(name, ours, right)


@with_both_packs
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_cupy(dtype: torch.dtype):
    """float16 as such, bfloat16 as the raw bits in uint16."""
    cupy = pytest.importorskip("cupy")
    built = engine(64, 64, GROUP, str(dtype).removeprefix("torch."))
    inputs, do = _inputs(64, 64, dtype)
    expected = _train(built, inputs, do)

    def to_cupy(array: torch.Tensor):
        return cupy.asarray(bits(array)).view(cupy.float16 if dtype == torch.float16 else cupy.uint16)

    o, *gradients = outs = [cupy.empty(x.shape, to_cupy(do).dtype) for x in (inputs.q, *inputs)]
    torch.cuda.synchronize()
    _, saved = built.forward(*map(to_cupy, inputs), out=o)
    built.backward(saved, to_cupy(do), out=tuple(gradients))
    torch.cuda.synchronize()
    _same([torch.as_tensor(x.view(cupy.int16), device="cuda").view(dtype) for x in outs], expected)


@pytest.mark.parametrize("kind", [list, tuple, numpy.array])
def test_lengths(kind):
    built = engine(64, 32, GROUP)
    tokens = random_tokens(built, 12, 1)
    with Cache(built) as cache:
        sequences = [cache.create(), cache.create()]
        expected = torch.cat(list(cache.prefill({s: Inputs(*(x[:6] for x in tokens)) for s in sequences}).values()))
        twice = Inputs(*(torch.cat((x[:6], x[:6])) for x in tokens))
        others = [cache.create(), cache.create()]
        assert_same_bits("o", built.prefill(kind(others), *twice, kind([6, 6])), expected)


@pytest.mark.parametrize("by_handle", [False, True])
def test_serving_calls_keep_their_order(by_handle: bool):
    """A prefill held up on one stream, then a decode on another: the decode sees the prefill's tokens."""
    built = engine(128, 64, GROUP)
    prompt, tokens = random_tokens(built, 500, 1), random_tokens(built, 4, 2)
    with Cache(built, check=False) as cache:
        expected = cache.decode({cache.sequence(prompt): tokens})
        sequence = built.create()
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        prompt_out, out = (Guarded(tuple(x.q.shape), x.q.dtype).array for x in (prompt, tokens))
        torch.cuda.synchronize()
        with torch.cuda.stream(first):
            torch.cuda._sleep(100_000_000)  # about 50 ms
        for mode, part, target, stream in (
            (built.prefill, prompt, prompt_out, first),
            (built.decode, tokens, out, second),
        ):
            if by_handle:
                mode([sequence], *part, [len(part.q)], out=target, stream=stream.cuda_stream)
            else:
                with torch.cuda.stream(stream):
                    mode([sequence], *part, [len(part.q)], out=target)
        assert not first.query(), "the calls waited for the GPU"
        second.synchronize()
        assert_same_bits("o of the decode", out, *expected.values())
        built.release(sequence)


@with_both_packs
def test_training_on_the_current_stream():
    """Inputs made on a side stream just before the call, results read there just after."""
    built = engine(128, 32, GROUP)
    inputs, do = _inputs(128, 32)
    expected = _train(built, inputs, do)
    late = [torch.zeros_like(x) for x in (*inputs, do)]
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)
        for array, values in zip(late, (*inputs, do)):
            array.copy_(values)
        results = [x.clone() for x in _train(built, late[:5], late[5])]
        torch.cuda.current_stream().synchronize()
    _same(results, expected)
