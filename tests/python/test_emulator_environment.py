"""What the environment chooses of the emulator (docs/emulator.md): each case is a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = """
import ctypes, os
driver = ctypes.CDLL(os.environ["STRATUM_DRIVER"])
def call(name, *arguments):
    result = getattr(driver, name)(*arguments)
    assert result == 0, (name, result)
def made(name, *arguments):
    handle = ctypes.c_uint64()
    call(name, ctypes.byref(handle), *arguments)
    return handle
call("cuInit", 0)
call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
"""


def run(code: str, **variables: str) -> subprocess.CompletedProcess:
    """Runs code after START with these STRATUM_EMULATOR_ variables and no others."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STRATUM_EMULATOR_")}
    environment |= {f"STRATUM_EMULATOR_{name}": value for name, value in variables.items()}
    return subprocess.run([sys.executable, "-c", START + code], env=environment, capture_output=True, text=True)


def output(code: str, **variables: str) -> str:
    """What the code prints; it must end well, and quietly."""
    done = run(code, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


MALFORMED = {
    ("CC", "8.1"): "compute capabilities of 7.5, 8.0, 9.0, 10.0, 10.3, 12.0, divided by commas",
    ("CC", "8.0,"): "compute capabilities of 7.5, 8.0, 9.0, 10.0, 10.3, 12.0, divided by commas",
    ("CC", "eight"): "compute capabilities of 7.5, 8.0, 9.0, 10.0, 10.3, 12.0, divided by commas",
    ("EXECUTE", "yes"): "0 or 1",
    ("FAIL", "cuMemAlloc_v2"): "FUNCTION:NTH:CODE, such as cuMemAlloc_v2:3:2",
    ("FAIL", "cuMemAlloc_v2:0:2"): "FUNCTION:NTH:CODE, such as cuMemAlloc_v2:3:2",
    ("FAIL", "cuMemAlloc_v2:1:2:3"): "FUNCTION:NTH:CODE, such as cuMemAlloc_v2:3:2",
    ("LEAKS", "ERROR"): "ignore, report or error",
    ("LOG", "/nowhere/launches"): "a file that can be written",
    ("MMA", "fast"): "exact or plain",
    ("MULTIPROCESSORS", "0"): "a number from 1",
    ("MULTIPROCESSORS", "3x"): "a number from 1",
    ("PACK", "/nowhere"): "a folder with a manifest.json",
    ("SCHEDULE", "lazy"): "eager, late or random:SEED",
    ("SCHEDULE", "random:"): "eager, late or random:SEED",
    ("SCHEDULE", "random:1x"): "eager, late or random:SEED",
    ("SCHEDULE", "random:-1"): "eager, late or random:SEED",
}


@pytest.mark.parametrize(("variable", "value"), MALFORMED)
def test_a_malformed_value_ends_the_process(variable, value):
    done = run("print('still here')", **{variable: value})
    expected = MALFORMED[variable, value]
    assert done.stderr == f"emulator: STRATUM_EMULATOR_{variable}: expected {expected}, got '{value}'\n"
    assert (done.returncode, done.stdout) == (2, "")


def test_multiprocessors_are_as_many_as_it_says():
    code = """
value = ctypes.c_int()
call("cuDeviceGetAttribute", ctypes.byref(value), 16, 0)
print(value.value)
"""
    assert output(code) == "108\n"
    assert output(code, MULTIPROCESSORS="3") == "3\n"


def test_devices_are_those_that_are_named():
    code = """
count, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
call("cuDeviceGetCount", ctypes.byref(count))
for device in range(count.value):
    call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
    call("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
    print(major.value, minor.value)
"""
    assert output(code) == "8 0\n"
    assert output(code, CC="10.3,9.0") == "10 3\n9 0\n"


def test_a_call_fails_once():
    code = """
print(*(driver.cuEventCreate(ctypes.byref(ctypes.c_uint64()), 0) for _ in range(4)))
"""
    assert output(code, FAIL="cuEventCreate:3:999", LEAKS="ignore") == "0 0 999 0\n"


LEAVING = """
made("cuMemAlloc_v2", 4096)
made("cuEventCreate", 0)
freed = made("cuMemAlloc_v2", 64)
call("cuMemFree_v2", freed)
"""
LEFT = """emulator: never given back: allocation 4 (cuMemAlloc_v2, 4096 bytes)
emulator: never given back: 1 events
"""


@pytest.mark.parametrize(
    ("leaks", "code", "stderr"), [("report", 0, LEFT), ("error", 3, LEFT), ("ignore", 0, ""), ("", 0, LEFT)]
)
def test_what_is_left_is_told_at_the_end(leaks, code, stderr):
    done = run(LEAVING, LEAKS=leaks)
    assert (done.returncode, done.stderr) == (code, stderr)


def test_the_end_is_quiet_if_nothing_is_left():
    assert output("call('cuMemFree_v2', made('cuMemAlloc_v2', 4096))", LEAKS="error") == ""


LAUNCHING = """
function = ctypes.c_uint64()
call("cuModuleGetFunction", ctypes.byref(function), made("cuModuleLoadData", b"scale"), b"scale")
parameters, size = ctypes.create_string_buffer(24), ctypes.c_size_t(24)
extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(parameters), 2, ctypes.addressof(size), None)
call("cuLaunchKernel", function, 3, 2, 1, 64, 1, 1, 512, None, None, extra)
call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, ctypes.c_void_p(2), None, extra)
"""


def test_the_log_has_a_line_for_each_launch(tmp_path):
    log = tmp_path / "launches"
    log.write_text("of another process\n")
    output(LAUNCHING, EXECUTE="0", LOG=str(log))
    assert log.read_text() == (
        "scale grid 3,2,1 block 64,1,1 shared 512 stream 0 parameters 24\n"
        "scale grid 1,1,1 block 32,1,1 shared 0 stream 0x2 parameters 24\n"
    )


# Three streams write a word in turn, ordered by an event, and another word without any order.
RACING = """
words = made("cuMemAlloc_v2", 8)
ordered, unordered = words, ctypes.c_uint64(words.value + 4)
streams = [made("cuStreamCreate", 1) for _ in range(3)]
event = made("cuEventCreate", 2)
for value in range(12):
    stream = streams[value % 3]
    call("cuStreamWaitEvent", stream, event, 0)
    call("cuMemsetD32Async", ordered, value, ctypes.c_size_t(1), stream)
    call("cuEventRecord", event, stream)
for value, stream in enumerate(streams):
    call("cuMemsetD32Async", unordered, value, ctypes.c_size_t(1), stream)
call("cuCtxSynchronize")
print(*(ctypes.c_uint32 * 2).from_address(words.value))
"""


def test_a_random_schedule_keeps_the_order_that_events_give_and_no_other():
    outcomes = {seed: output(RACING, SCHEDULE=f"random:{seed}", LEAKS="ignore").split() for seed in range(8)}
    assert {ordered for ordered, _ in outcomes.values()} == {"11"}
    assert len({unordered for _, unordered in outcomes.values()}) > 1
    assert output(RACING, SCHEDULE="random:3", LEAKS="ignore").split() == outcomes[3]
    assert output(RACING, SCHEDULE="eager", LEAKS="ignore").split() == ["11", "2"]
