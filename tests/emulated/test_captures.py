"""Training captured in a CUDA graph gives the bits of plain calls each time it is launched; serving is refused."""

from __future__ import annotations

import gc

import pytest

from .arrays import Guarded, assert_same_bits, synchronize
from .engines import DIMS, DTYPES, build, config
from .graphs import captured
from .serving import Cache, call
from .training import RESULTS, random_batch, train


@pytest.fixture
def stream(emulator):
    """A stream of device 0, whose context is current as a caller's that captures is."""
    emulator.set_current_device(0)
    with emulator.stream() as stream:
        yield stream
        gc.collect()
    emulator.set_current_device(-1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dims", DIMS)
def test_the_first_step_of_an_engine_in_a_graph(rng, emulator, stream, dims, dtype):
    """Every module was loaded at build. Another engine that ends during the capture doesn't break it."""
    settings = config(dims, dtype, group=3, modes=["training"])
    batches = [random_batch(rng, settings, 1, 70) for _ in range(2)]
    inputs, do = random_batch(rng, settings, 1, 70)
    outputs = {name: Guarded(x.shape) for name, x in zip(RESULTS, (inputs.q, *inputs))}
    o, *gradients = (output.array for output in outputs.values())
    with build(settings) as engine:
        other = build(config(dims, dtype))
        with captured(stream) as graph:
            _, saved = engine.forward(*inputs, out=o, stream=stream)
            del other
            gc.collect()
            engine.backward(saved, do, out=tuple(gradients), stream=stream)
            del saved  # its memory is freed by the graph
        assert [launch.captured for launch in emulator.launches()] == [True] * 3
        for new_inputs, new_do in batches:
            for array, new in zip((*inputs, do), (*new_inputs, new_do)):
                array[...] = new
            graph.launch(stream)
            synchronize()
            for name, right in train(engine, new_inputs, new_do).items():
                assert_same_bits(name, outputs[name].array, right)
                outputs[name].assert_guards_intact(name)
        graph.destroy()


@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_serving_in_a_capture_is_refused(rng, emulator, stream, mode):
    import submission

    settings = config((128, 64), group=3)
    with build(settings) as engine, Cache(engine, settings, rng) as cache:
        sequence = cache.sequence(cache.tokens(70))
        fork = cache.fork(sequence)
        tokens = cache.tokens(2)
        emulator.reset()
        out = Guarded(tokens.q.shape).array
        with captured(stream) as graph:
            with pytest.raises(submission.DeviceError, match="captur") as caught:
                getattr(engine, mode)([sequence], *tokens, [2], out=out, stream=stream)
            assert caught.value.argument == "stream"
        assert emulator.launches() == []
        assert engine.length(sequence) == 70
        graph.destroy()
        again = getattr(cache, mode)({sequence: tokens})[sequence]
        assert_same_bits("o after the capture", again, call(engine, mode, {fork: tokens}, stream)[fork])
