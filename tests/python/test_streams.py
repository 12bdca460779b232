"""Streams, captures, devices: work goes where the caller said, and the caller's own state stays as it was."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import submission
from dlpack_exporter import CUDA, Exporter
from workloads import CONFIG, TRAINING, append, training_inputs, training_output


@pytest.fixture
def engine(driver):
    with submission.build_engine(CONFIG) as engine:
        driver.reset()
        yield engine


def use_everything(engine, stream) -> None:
    """Every call that launches: training, prefill, decode, and the page copy of a fork."""
    out = training_output(1, 70)
    _, saved = engine.forward(*training_inputs(1, 70), out=out, stream=stream)
    engine.backward(saved, out, out=tuple(training_inputs(1, 70)), stream=stream)
    parent = engine.create()
    append(engine, [parent], [100], stream=stream)
    child = engine.fork(parent)
    append(engine, [parent, child], [2, 3], "decode", stream=stream)
    engine.release(parent)
    engine.release(child)


OPERATIONS = {"fwd", "bwd_dq", "bwd_dkv", "append", "prefill", "page_copy", "dec", "dec_merge"}

KINDS = {
    "int": lambda handle: handle,
    "numpy integer": np.uint64,
    "torch": lambda handle: SimpleNamespace(cuda_stream=handle),
    "protocol": lambda handle: SimpleNamespace(__cuda_stream__=lambda: (0, handle)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_launch_is_on_the_callers_stream(engine, driver, kind):
    with driver.stream() as handle:
        use_everything(engine, KINDS[kind](handle))
        launches = driver.launches()
        assert {launch.operation for launch in launches} == OPERATIONS
        assert {launch.stream for launch in launches} == {handle}
        gc.collect()  # what backward leaves is freed while its stream lives


@pytest.mark.parametrize("stream", [None, 0])
def test_the_default_stream_is_used_only_if_it_is_the_callers(engine, driver, stream):
    use_everything(engine, stream)
    assert {launch.stream for launch in driver.launches()} == {0}


@pytest.mark.parametrize("stream", ["0", 1.0, -1, 2**64, object(), SimpleNamespace(cuda_stream="0"), [1]])
def test_a_wrong_stream_is_refused(engine, driver, stream):
    with pytest.raises(submission.DtypeError, match="^stream: expected a CUDA stream") as caught:
        engine.forward(*training_inputs(1, 4), out=training_output(1, 4), stream=stream)
    assert caught.value.argument == "stream"
    assert driver.launches() == []


def test_nothing_synchronises(engine, driver):
    with driver.stream() as handle:
        use_everything(engine, handle)
    assert not {name for name in driver.calls() if "Synchronize" in name}


def test_forward_and_backward_in_a_capture(driver):
    """The first calls of an engine, with no module left to load."""
    with submission.build_engine(TRAINING) as engine, driver.stream() as stream:
        dropped = submission.build_engine(TRAINING)
        out, gradients = training_output(1, 8), tuple(training_inputs(1, 8))
        with driver.capture(stream):
            _, saved = engine.forward(*training_inputs(1, 8), out=out, stream=stream)
            del dropped  # another engine that ends during the capture must not break it
            gc.collect()
            engine.backward(saved, out, out=gradients, stream=stream)
            del saved
        assert all(launch.captured for launch in driver.launches())
        assert len(driver.launches()) == 3
        assert "cuModuleUnload" not in driver.calls()


@pytest.mark.parametrize("call", ["prefill", "decode"])
def test_serving_in_a_capture_is_refused(engine, driver, call):
    with driver.stream() as stream:
        id = engine.create()
        append(engine, [id], [10], stream=stream)
        driver.reset()
        with driver.capture(stream):
            with pytest.raises(submission.DeviceError, match="captur") as caught:
                append(engine, [id], [1], call, stream=stream)
            assert caught.value.argument == "stream"
        assert driver.launches() == []
        assert engine.length(id) == 10
        append(engine, [id], [1], call, stream=stream)


@pytest.mark.parametrize("current", [-1, 0, 1])
def test_the_callers_context_is_restored(driver, current):
    """An engine on device 1 while another device, or none, is current; failing calls too."""
    driver.set_current_device(current)
    try:
        before = driver.current()
        engine = submission.build_engine({**CONFIG, "device": 1})
        assert driver.current() == before
        with driver.stream(1) as stream:
            use_everything(engine, stream)
            assert driver.current() == before
            with pytest.raises(submission.UnknownSequence):
                engine.release(99)
            with pytest.raises(submission.DtypeError):
                engine.forward(*training_inputs(1, 4), out=None)
            assert driver.current() == before
            assert {launch.device for launch in driver.launches()} == {1}
            gc.collect()
        engine.close()
        assert driver.current() == before
    finally:
        driver.set_current_device(-1)


def test_another_devices_array_is_refused(driver):
    with submission.build_engine({**TRAINING, "device": 1}) as engine:
        inputs, out = training_inputs(1, 4), training_output(1, 4)
        right = [Exporter(array, device=(CUDA, 1)) for array in inputs]
        engine.forward(*right, out=out)
        for index, name in enumerate(("q", "k", "v", "qg", "kg")):
            wrong = list(right)
            wrong[index] = Exporter(inputs[index], device=(CUDA, 0))
            with pytest.raises(submission.DeviceError, match=f"{name}: .*device 1.*device 0") as caught:
                engine.forward(*wrong, out=out)
            assert caught.value.argument == name


def test_threads_share_an_engine(engine, driver):
    """Four threads, each with sequences and training steps of its own; ctypes and cffi let them run at once."""
    errors = []

    def work(stream: int) -> None:
        try:
            for _ in range(20):
                out = training_output(1, 16)
                _, saved = engine.forward(*training_inputs(1, 16), out=out, stream=stream)
                id = engine.create()
                for length in (5, 1, 8):
                    append(engine, [id], [length], "decode", stream=stream)
                assert engine.length(id) == 14
                with pytest.raises(submission.LengthError, match="got 9"):
                    append(engine, [id], [9], "decode", stream=stream)
                engine.backward(saved, out, out=tuple(training_inputs(1, 16)), stream=stream)
                engine.release(id)
        except BaseException as error:
            errors.append(error)

    streams = [driver.library.emulator_stream_create(0) for _ in range(4)]
    threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {launch.stream for launch in driver.launches()} == set(streams)
    assert len(driver.launches()) == 4 * 20 * (3 + 3 * 3)
    memory = engine.memory()
    assert (memory["sequences"], memory["pages_used"]) == (0, 0)


def test_builds_in_threads(driver):
    engines, errors = [], []

    def build() -> None:
        try:
            engines.append(submission.build_engine(CONFIG))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=build) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(engines) == 6
    for engine in engines:
        engine.close()
