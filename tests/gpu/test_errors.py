"""Bad arguments on a GPU: each raises its own type, names the argument, and leaves the engine as it was."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import KV_HEADS, build, config, engine, submission
from .reference import check_training
from .serving import Cache, random_tokens
from .tensors import Inputs, generator, random_array, random_inputs
from .test_training import train

GROUP = 4


def _training_arrays() -> tuple[Inputs, torch.Tensor]:
    inputs = random_inputs((2, 70), GROUP * KV_HEADS, KV_HEADS, 64, 32, torch.bfloat16, generator(1))
    return inputs, random_array(tuple(inputs.q.shape), torch.bfloat16, generator(2))


def _misplaced(array: torch.Tensor, elements: int) -> torch.Tensor:
    """The array `elements` elements after a 16-byte boundary."""
    memory = torch.zeros(array.numel() + elements, dtype=array.dtype, device=array.device)
    return memory[elements:].view(array.shape).copy_(array)


def _odd_rows(array: torch.Tensor) -> torch.Tensor:
    """The array with a token stride that is no multiple of 16 bytes."""
    memory = torch.zeros((*array.shape[:-2], array.shape[-2] * array.shape[-1] + 4), dtype=array.dtype, device="cuda")
    return memory[..., :-4].unflatten(-1, array.shape[-2:]).copy_(array)


def _scattered(array: torch.Tensor) -> torch.Tensor:
    """The array with a last axis that is not contiguous."""
    return torch.zeros((*array.shape, 2), dtype=array.dtype, device="cuda")[..., 0].copy_(array)


# What makes an array bad, and the exception for it.
BAD = {
    "2 bytes off": (lambda x: _misplaced(x, 1), "StrideError"),
    "4 bytes off": (lambda x: _misplaced(x, 2), "StrideError"),
    "8 bytes off": (lambda x: _misplaced(x, 4), "StrideError"),
    "row stride": (_odd_rows, "StrideError"),
    "last axis": (_scattered, "StrideError"),
    "float32": (lambda x: x.float(), "DtypeError"),
    "float16": (lambda x: x.half(), "DtypeError"),
    "on the CPU": (lambda x: x.cpu(), "DeviceError"),
    "rank": (lambda x: x[0], "ShapeError"),
    "heads": (lambda x: torch.cat((x, x), -2), "ShapeError"),
    "dim": (lambda x: x[..., :16].contiguous(), "ShapeError"),
    "tokens": (lambda x: x[..., 1:, :, :].contiguous(), "ShapeError"),
}
bad_arrays = pytest.mark.parametrize("spoil, error", BAD.values(), ids=BAD)


# q decides how many tokens there are; the others then disagree with it.
bad_inputs = [
    pytest.param(name, *BAD[why], id=f"{name}, {why}")
    for name in Inputs._fields
    for why in BAD
    if (name, why) != ("q", "tokens")
]


@pytest.mark.parametrize("name, spoil, error", bad_inputs)
def test_training_input(name: str, spoil, error: str):
    built = engine(64, 32, GROUP)
    inputs, _ = _training_arrays()
    with pytest.raises(getattr(submission(), error)) as raised:
        built.forward(*inputs._replace(**{name: spoil(getattr(inputs, name))}))
    assert raised.value.argument == name and name in str(raised.value)


@bad_arrays
def test_upstream_gradient_and_outputs(spoil, error: str):
    built = engine(64, 32, GROUP)
    inputs, do = _training_arrays()
    o, saved = built.forward(*inputs)
    with pytest.raises(getattr(submission(), error)):
        built.forward(*inputs, out=spoil(o))
    if error != "StrideError":  # such a do may be made contiguous instead
        with pytest.raises(getattr(submission(), error)) as raised:
            built.backward(saved, spoil(do))
        assert raised.value.argument == "do"
    for index in range(5):
        outs = [torch.empty_like(x) for x in inputs]
        outs[index] = spoil(outs[index])
        with pytest.raises(getattr(submission(), error)):
            built.backward(saved, do, out=tuple(outs))


@bad_arrays
@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_serving_input(mode: str, spoil, error: str):
    built = engine(64, 32, GROUP)
    tokens = random_tokens(built, 4, 1)
    with Cache(built) as cache:
        sequence = cache.create()
        before = built.memory()
        for name in ("k", "v", "qg", "kg"):
            spoiled = tokens._replace(**{name: spoil(getattr(tokens, name))})
            with pytest.raises(getattr(submission(), error)) as raised:
                getattr(built, mode)([sequence], *spoiled, [4], out=torch.empty_like(tokens.q))
            assert raised.value.argument == name
        assert built.memory() == before and built.length(sequence) == 0
        cache.decode({sequence: tokens})


def test_engine_works_after_errors():
    """A training step after a refused one is right."""
    built = engine(64, 32, GROUP)
    inputs, do = _training_arrays()
    with pytest.raises(submission().EngineError):
        built.forward(*inputs._replace(v=_misplaced(inputs.v, 1)))
    o, gradients = train(built, inputs, do)
    check_training("after an error", o, gradients, inputs, do)


def test_lengths_and_ids():
    built = engine(64, 32, GROUP)
    package = submission()
    tokens = random_tokens(built, 9, 1)
    with Cache(built) as cache:
        sequence, other = cache.create(), cache.create()
        gone = built.create()
        built.release(gone)
        before = built.memory()
        for mode, ids, lengths, error in (
            (built.prefill, [sequence], [8], package.LengthError),
            (built.prefill, [sequence, other], [10, -1], package.LengthError),
            (built.prefill, [sequence, other], [9], package.LengthError),
            (built.decode, [sequence], [9], package.LengthError),
            (built.decode, [sequence, other], [9, 0], package.LengthError),
            (built.prefill, [gone], [9], package.UnknownSequence),
            (built.prefill, [1 << 40], [9], package.UnknownSequence),
            (built.prefill, [sequence, sequence], [4, 5], package.EngineError),
        ):
            with pytest.raises(error):
                mode(ids, *tokens, lengths, out=torch.empty_like(tokens.q))
        for act in (built.release, built.fork, built.length):
            with pytest.raises(KeyError):
                act(gone)
        with pytest.raises(package.LengthError):
            built.truncate(sequence, 1)
        assert built.memory() == before
        cache.prefill({sequence: tokens})


def test_training_memory_limit():
    """A training call whose workspace would pass the limit raises before it launches; a smaller one still works."""
    settings = config(64, 32, GROUP, modes=["training"], memory_limit_bytes=1 << 20)
    with build(settings) as built:
        large = random_inputs((2, 65536), GROUP * KV_HEADS, KV_HEADS, 64, 32, torch.bfloat16, generator(1))
        with pytest.raises(submission().MemoryLimitError):
            built.forward(*large)
        inputs, do = _training_arrays()
        train(built, inputs, do)
        assert built.memory()["bytes_peak"] <= 1 << 20


def test_closed_engine():
    built = build(config(64, 32, GROUP))
    sequence = built.create()
    inputs, do = _training_arrays()
    _, saved = built.forward(*inputs)
    tokens = random_tokens(built, 1, 1)
    built.close()
    built.close()
    for call in (
        lambda: built.forward(*inputs),
        lambda: built.backward(saved, do),
        lambda: built.decode([sequence], *tokens, [1]),
        lambda: built.create(),
        lambda: built.release(sequence),
    ):
        with pytest.raises(submission().DeviceError):
            call()
