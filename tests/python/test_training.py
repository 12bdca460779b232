"""forward and backward: outputs, saved, workspaces and their count against the limit."""

from __future__ import annotations

import gc
import struct
import sys

import numpy as np
import pytest
import submission
from dlpack_exporter import Exporter
from workloads import CONFIG, Q_HEADS, TRAINING, aligned, training_inputs, training_output

BATCH, SEQ_LEN = 2, 100
STATS_BYTES = BATCH * Q_HEADS * SEQ_LEN * 8
DELTA_BYTES = BATCH * Q_HEADS * SEQ_LEN * 4


@pytest.fixture
def engine(driver):
    with submission.build_engine(TRAINING) as engine:
        driver.reset()
        yield engine


@pytest.fixture
def step():
    """(inputs, output, gradient of the output, gradients of the inputs)."""
    return (
        training_inputs(BATCH, SEQ_LEN),
        training_output(BATCH, SEQ_LEN),
        training_output(BATCH, SEQ_LEN),
        tuple(training_inputs(BATCH, SEQ_LEN)),
    )


def test_forward_and_backward_launch_their_kernels(engine, driver, step):
    inputs, out, do, gradients = step
    o, saved = engine.forward(*inputs, out=out)
    assert o is out
    assert engine.backward(saved, do, out=gradients) == gradients
    launches = driver.launches()
    assert [launch.operation for launch in launches] == ["fwd", "bwd_dq", "bwd_dkv"]
    stats = struct.unpack_from("<Q", launches[0].params, 192)
    for launch in launches[1:]:
        addresses = [launch.array(index, 3)[0] for index in range(12)]
        assert addresses == [array.ctypes.data for array in (*inputs, out, do, *gradients)]
        assert struct.unpack_from("<Q", launch.params, 384) == stats
    assert launches[1].params == launches[2].params


def test_gradients_may_come_as_a_list(engine, step):
    inputs, out, do, gradients = step
    _, saved = engine.forward(*inputs, out=out)
    returned = engine.backward(saved, do, out=list(gradients))
    assert isinstance(returned, tuple)
    assert all(one is other for one, other in zip(returned, gradients))


def test_saved_is_good_for_more_than_one_backward(engine, driver, step):
    inputs, out, do, gradients = step
    _, saved = engine.forward(*inputs, out=out)
    engine.backward(saved, do, out=gradients)
    engine.backward(saved, do, out=gradients)
    launches = driver.launches()
    assert launches[1].params[384:392] == launches[3].params[384:392]  # stats
    assert len(launches) == 5


def test_workspaces_are_counted_while_they_live(engine, step):
    inputs, out, do, gradients = step
    assert engine.memory()["bytes_training"] == 0
    _, saved = engine.forward(*inputs, out=out)
    assert engine.memory()["bytes_training"] == STATS_BYTES
    assert engine.memory()["bytes_held"] == STATS_BYTES
    engine.backward(saved, do, out=gradients)
    assert engine.memory()["bytes_training"] == STATS_BYTES
    assert engine.memory()["bytes_peak"] == STATS_BYTES + DELTA_BYTES
    del saved
    assert engine.memory()["bytes_training"] == 0


def test_saved_in_a_cycle_is_freed(engine, step):
    inputs, out, _, _ = step
    holder = {}
    _, holder["saved"] = engine.forward(*inputs, out=out)
    holder["self"] = holder
    del holder
    gc.collect()
    assert engine.memory()["bytes_training"] == 0


def test_the_memory_limit_holds_for_workspaces(driver, step):
    inputs, out, do, gradients = step
    config = {**TRAINING, "memory_limit_bytes": STATS_BYTES + DELTA_BYTES - 1}
    with submission.build_engine(config) as engine:
        _, saved = engine.forward(*inputs, out=out)
        driver.reset()
        with pytest.raises(submission.MemoryLimitError) as caught:
            engine.backward(saved, do, out=gradients)
        assert str(DELTA_BYTES) in str(caught.value)
        assert str(config["memory_limit_bytes"]) in str(caught.value)
        with pytest.raises(MemoryError):
            engine.forward(*inputs, out=out)
        assert driver.launches() == []
        assert driver.calls().get("cuMemAllocAsync", 0) == 0
        assert engine.memory()["bytes_training"] == STATS_BYTES
        del saved, caught  # whose frames hold it too
        engine.forward(*inputs, out=out)


def test_a_limit_that_just_fits(driver, step):
    inputs, out, do, gradients = step
    with submission.build_engine({**TRAINING, "memory_limit_bytes": STATS_BYTES + DELTA_BYTES}) as engine:
        _, saved = engine.forward(*inputs, out=out)
        engine.backward(saved, do, out=gradients)
        assert engine.memory()["bytes_peak"] == engine.memory()["bytes_limit"]


def test_a_failed_call_frees_its_workspace_at_once(engine, driver, step):
    """Even while the caller holds the exception, and with it the frames."""
    inputs, out, do, gradients = step
    _, saved = engine.forward(*inputs, out=out)
    live = driver.live()
    with pytest.raises(submission.ShapeError) as in_forward:
        engine.forward(*inputs[:4], inputs[4][:, :5], out=out)
    assert in_forward.value.argument == "kg"
    with pytest.raises(submission.ShapeError) as in_backward:
        engine.backward(saved, do[:1], out=gradients)
    assert in_backward.value.argument == "do"
    assert str(in_backward.value).startswith("do: expected shape")
    assert engine.memory()["bytes_training"] == STATS_BYTES
    assert driver.live() == live


@pytest.mark.parametrize(("batch", "seq_len"), [(0, 5), (3, 0), (0, 0), (1, 1)])
def test_empty_and_tiny_batches(engine, driver, batch, seq_len):
    inputs, out = training_inputs(batch, seq_len), training_output(batch, seq_len)
    gradients = tuple(training_inputs(batch, seq_len))
    _, saved = engine.forward(*inputs, out=out)
    assert engine.backward(saved, out, out=gradients) is not None
    assert len(driver.launches()) == (3 if batch * seq_len else 0)


def test_outputs_must_be_given_without_torch(engine, driver, step):
    inputs, out, do, _ = step
    with pytest.raises(TypeError, match="^out: expected an array") as caught:
        engine.forward(*inputs)
    assert isinstance(caught.value, submission.DtypeError)
    _, saved = engine.forward(*inputs, out=out)
    with pytest.raises(submission.DtypeError, match="^out: "):
        engine.backward(saved, do)
    assert len(driver.launches()) == 1


def test_a_wrong_output_is_named(engine, driver, step):
    inputs, out, _, _ = step
    with pytest.raises(submission.ShapeError, match="^out: expected shape") as caught:
        engine.forward(*inputs, out=out[:, 1:])
    assert caught.value.argument == "out"
    assert driver.launches() == []


OUTS = {
    "one array": (lambda gradients: gradients[0], "ndarray"),
    "four": (lambda gradients: gradients[:4], "4 of them"),
    "six": (lambda gradients: (*gradients, gradients[0]), "6 of them"),
}


@pytest.mark.parametrize("fault", OUTS)
def test_five_gradients_are_asked_for(engine, step, fault):
    inputs, out, do, gradients = step
    _, saved = engine.forward(*inputs, out=out)
    spoil, words = OUTS[fault]
    with pytest.raises(submission.DtypeError, match=f"out: expected a tuple of the 5 arrays.*{words}"):
        engine.backward(saved, do, out=spoil(gradients))


@pytest.mark.parametrize("index", range(5))
def test_a_wrong_gradient_is_named(engine, driver, step, index):
    inputs, out, do, gradients = step
    _, saved = engine.forward(*inputs, out=out)
    driver.reset()
    spoilt = list(gradients)
    spoilt[index] = None
    with pytest.raises(submission.DtypeError) as caught:
        engine.backward(saved, do, out=spoilt)
    assert caught.value.argument == ("dq", "dk", "dv", "dqg", "dkg")[index]
    spoilt[index] = gradients[index][:, ::2]
    with pytest.raises(submission.ShapeError) as caught:
        engine.backward(saved, do, out=spoilt)
    assert caught.value.argument == ("dq", "dk", "dv", "dqg", "dkg")[index]
    assert driver.launches() == []


@pytest.mark.parametrize("saved", [None, 5, ()])
def test_saved_of_another_type(engine, step, saved):
    with pytest.raises(submission.DtypeError, match="^saved: "):
        engine.backward(saved, step[2], out=step[3])


def test_saved_belongs_to_its_engine(engine, step):
    inputs, out, do, gradients = step
    with submission.build_engine(TRAINING) as other:
        _, saved = other.forward(*inputs, out=out)
        with pytest.raises(submission.DeviceError, match="^saved: .*another engine"):
            engine.backward(saved, do, out=gradients)
        other.backward(saved, do, out=gradients)


def test_saved_keeps_what_backward_reads(engine, driver):
    """The caller may drop its own references to inputs and output."""
    inputs = training_inputs(1, 8)
    addresses = [array.ctypes.data for array in inputs]
    _, saved = engine.forward(*inputs, out=Exporter(training_output(1, 8)))
    del inputs
    gc.collect()
    junk = [np.ones(4096, np.uint16) for _ in range(64)]
    engine.backward(saved, training_output(1, 8), out=tuple(training_inputs(1, 8)))
    assert [driver.launches()[1].array(index, 3)[0] for index in range(5)] == addresses
    assert len(junk) == 64


def test_saved_outlives_its_engine(driver, step):
    inputs, out, do, gradients = step
    engine = submission.build_engine(TRAINING)
    _, saved = engine.forward(*inputs, out=out)
    engine.close()
    with pytest.raises(submission.DeviceError, match="closed"):
        engine.backward(saved, do, out=gradients)
    del saved  # the driver fixture sees its memory freed


def test_training_calls_need_their_mode(driver, step):
    inputs, out, _, _ = step
    with submission.build_engine({**CONFIG, "modes": ["decode"]}) as engine:
        with pytest.raises(submission.ConfigError) as caught:
            engine.forward(*inputs, out=out)
    assert caught.value.argument == "modes"


def test_attention_needs_torch(driver, step, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with submission.build_engine(TRAINING) as engine, pytest.raises(submission.DtypeError, match="torch"):
        engine.attention(*step[0])


def test_more_rows_than_a_grid_axis_holds(engine, driver):
    """Batch times heads of 65,536 and more."""
    batch = 65_536 // Q_HEADS
    inputs = [np.broadcast_to(array, (batch, *array.shape[1:])) for array in training_inputs(1, 1)]
    out = aligned((batch, 1, Q_HEADS, 64))
    engine.forward(*inputs, out=out)
    (launch,) = driver.launches()
    assert launch.grid[0] * launch.grid[1] * launch.grid[2] >= 65_536
    assert max(launch.grid[1:]) < 65_536


def test_an_output_in_the_memory_of_an_input_or_another_output_is_refused(engine):
    inputs = training_inputs(1, 4)
    with pytest.raises(submission.StrideError, match="^out: expected memory of its own, got that of q$"):
        engine.forward(*inputs, out=inputs[0])
    o, saved = engine.forward(*inputs, out=training_output(1, 4))
    with pytest.raises(submission.StrideError, match="^dq: expected memory of its own, got that of q$"):
        engine.backward(saved, training_output(1, 4), out=inputs)
    dq, dk, _, dqg, dkg = (array.copy() for array in inputs)
    with pytest.raises(submission.StrideError, match="^dv: expected memory of its own, got that of dk$"):
        engine.backward(saved, training_output(1, 4), out=(dq, dk, dk, dqg, dkg))
