"""Each call of the driver fails once: a named error or success, nothing leaked, and the engine works afterwards."""

from __future__ import annotations

import gc
import json

import pytest
import submission
from emulator import Emulator
from test_package import USE, run_python
from workloads import CONFIG, append, training_inputs, training_output

OUT_OF_MEMORY = 2


def all_calls() -> None:
    """Everything an engine does, from build to close."""
    with submission.build_engine(CONFIG) as engine:
        out = training_output(1, 70)
        _, saved = engine.forward(*training_inputs(1, 70), out=out)
        engine.backward(saved, out, out=tuple(training_inputs(1, 70)))
        parent = engine.create()
        append(engine, [parent], [100])
        child = engine.fork(parent)
        append(engine, [parent, child], [2, 3], "decode")
        engine.release(parent)


def objects(driver) -> int:
    return sum(driver.live().values())


def test_each_driver_call_made_to_fail():
    """A call that fails while something is freed has nobody to tell; then that one object stays, and nothing else.

    cuEventSynchronize fails only if the device is lost, when nothing can be waited for any more; it is left out.
    """
    driver = Emulator()
    all_calls()  # what a process does once is done
    driver.reset()
    all_calls()
    gc.collect()  # what other tests left
    expected = {name: calls for name, calls in driver.calls().items() if name != "cuEventSynchronize"}
    assert len(expected) > 10
    raised = 0
    for function, nth in [(name, nth) for name, calls in expected.items() for nth in range(1, calls + 1)]:
        alive = objects(driver)
        driver.reset()
        driver.fail(function, nth, OUT_OF_MEMORY)
        message = None
        try:
            all_calls()
        except submission.DriverError as error:
            message = str(error)
        assert objects(driver) <= alive + (message is None), f"{function} {nth}"
        assert driver.faults() == [], f"{function} {nth}"
        if message is not None:
            raised += 1
            assert function in message, f"{function} {nth}: {message}"
            assert "CUDA_ERROR_OUT_OF_MEMORY" in message, f"{function} {nth}: {message}"
        driver.reset()
        alive = objects(driver)
        all_calls()  # the process goes on
        assert objects(driver) == alive, f"{function} {nth}"
        assert driver.faults() == [], f"{function} {nth}"
    assert raised > 10
    driver.reset()


LAUNCHES = {
    "forward": ("fwd", lambda engine, ids: engine.forward(*training_inputs(1, 8), out=training_output(1, 8))),
    "prefill": ("append", lambda engine, ids: append(engine, ids, [70])),
    "decode": ("append", lambda engine, ids: append(engine, ids, [2], "decode")),
}


@pytest.mark.parametrize("call", LAUNCHES)
def test_a_failed_launch_names_the_kernel_and_changes_nothing(driver, call):
    operation, run = LAUNCHES[call]
    with submission.build_engine(CONFIG) as engine:
        ids = [engine.create()]
        append(engine, ids, [10])
        before = {**engine.memory(), "bytes_peak": 0}
        driver.reset()
        driver.fail("cuLaunchKernel", 1, OUT_OF_MEMORY)
        with pytest.raises(submission.DriverError, match=f"cuLaunchKernel.*gated_{operation}") as caught:
            run(engine, ids)
        assert isinstance(caught.value, RuntimeError)
        assert engine.length(ids[0]) == 10
        assert {**engine.memory(), "bytes_peak": 0} == before
        run(engine, ids)


def test_no_memory_for_a_workspace(driver):
    with submission.build_engine(CONFIG) as engine:
        driver.fail("cuMemAllocAsync", 1, OUT_OF_MEMORY)
        with pytest.raises(submission.DriverError, match="cuMemAllocAsync.*CUDA_ERROR_OUT_OF_MEMORY"):
            engine.forward(*training_inputs(1, 8), out=training_output(1, 8))
        assert engine.memory()["bytes_training"] == 0
        driver.fail("cuMemAllocAsync", 0, 0)
        engine.forward(*training_inputs(1, 8), out=training_output(1, 8))


def test_no_driver_at_all(package):
    done = run_python(USE, "renamed_package", package.parent, json.dumps(CONFIG), check=False,
                      STRATUM_DRIVER="/nowhere/libcuda.so")  # fmt: skip
    assert done.returncode == 1
    assert "DriverError" in done.stderr
    assert "/nowhere/libcuda.so" in done.stderr
