"""CUDA graph capture by the caller: training works from its first call, serving refuses."""

import gc

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import KV_HEADS, build, config, engine, submission
from .serving import Cache, random_tokens
from .tensors import Inputs, assert_same_bits, generator, random_array, random_inputs

pytestmark = pytest.mark.usefixtures("pack")


def _inputs(seed: int) -> tuple[Inputs, torch.Tensor]:
    inputs = random_inputs((2, 300), 8, KV_HEADS, 128, 64, torch.bfloat16, generator(seed))
    return inputs, random_array(tuple(inputs.q.shape), torch.bfloat16, generator(seed + 1))


def test_first_training_call_inside_a_capture():
    """The engine's very first call is captured while another engine is dropped; replays give the eager bits."""
    with build(config(128, 64, 4, modes=["training"])) as built:
        other = build(config(64, 32, 4))
        inputs, do = _inputs(1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o, saved = built.forward(*inputs)
            del other
            gc.collect()
            gradients = built.backward(saved, do)
        for seed in (1, 5):
            fresh_inputs, fresh_do = _inputs(seed)
            for array, values in zip((*inputs, do), (*fresh_inputs, fresh_do)):
                array.copy_(values)
            graph.replay()
            eager_o, eager_saved = built.forward(*inputs)
            assert_same_bits("o", o, eager_o)
            eager_gradients = built.backward(eager_saved, do)
            for name, ours, expected in zip(Inputs._fields, gradients, eager_gradients):
                assert_same_bits(f"gradient of {name}", ours, expected)


def test_close_inside_a_capture():
    """Closing an engine by name does not break another's capture either."""
    other = build(config(64, 32, 4))
    built = engine(128, 64, 4)
    inputs, _ = _inputs(2)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, _ = built.forward(*inputs)
        other.close()
    graph.replay()
    assert_same_bits("o", o, built.forward(*inputs)[0])


def test_serving_inside_a_capture():
    """prefill and decode raise, the capture and the cache stay whole."""
    built = engine(128, 64, 4)
    inputs, _ = _inputs(3)
    with Cache(built) as cache:
        sequence = cache.sequence(random_tokens(built, 70, 1))
        tokens = random_tokens(built, 1, 2)
        out, graph = torch.empty_like(tokens.q), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for mode in (built.decode, built.prefill):
                with pytest.raises(submission().DeviceError, match="captur"):
                    mode([sequence], *tokens, [1], out=out)
            o, _ = built.forward(*inputs)
        assert built.length(sequence) == 70
        graph.replay()
        assert_same_bits("o", o, built.forward(*inputs)[0])
        cache.decode({sequence: tokens})
