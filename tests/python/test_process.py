"""Ends of processes: fork, exit in any order, cycles, threads. Each case is a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_package import run_python
from workloads import CONFIG

HERE = Path(__file__).resolve().parent

START = """
import gc, json, os, sys, threading, time
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import renamed_package as package
sys.modules["submission"] = package
from workloads import append, training_inputs, training_output
config = json.loads(sys.argv[3])
"""


@pytest.fixture
def run(package):
    """Runs code after START; returns what it printed. Exit code 0 and a quiet stderr are part of each test."""

    def run(code: str, flags=()) -> str:
        done = run_python(START + code, package.parent, HERE, json.dumps(CONFIG), flags=flags, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


EXITS = {
    "a global engine": "engine = package.build_engine(config)",
    "a closed engine": "engine = package.build_engine(config); engine.close()",
    "an engine in use": "engine = package.build_engine(config); append(engine, [engine.create()], [100])",
    "a cycle": """
class Holder: pass
holder = Holder(); holder.self = holder; holder.engine = package.build_engine(config)
""",
    "a cycle that is collected": """
holder = [package.build_engine(config)]; holder.append(holder); handle = holder[0]._handle
del holder; gc.collect()
""",
    "a bound method": "create = package.build_engine(config).create; create()",
    "saved alone": """
saved = package.build_engine(config).forward(*training_inputs(1, 8), out=training_output(1, 8))[1]
""",
    "an engine kept by an exception": """
engine = package.build_engine(config)
try:
    engine.release(7)
except package.UnknownSequence as error:
    kept = error
""",
    "a module's attribute": "sys.engine = package.build_engine(config); sys.modules.clear()",
    "an engine closed at exit by its owner": """
import atexit
engine = package.build_engine(config); atexit.register(engine.close); atexit.register(lambda: engine.create())
""",
    "an engine used in __del__": """
class Late:
    def __init__(self): self.engine = package.build_engine(config)
    def __del__(self):
        try:
            self.engine.close(); self.engine.create()
        except Exception:
            pass
late = Late(); late.self = late
""",
    "a daemon thread that waits": """
engine = package.build_engine(config)
threading.Thread(target=lambda: (engine.create(), time.sleep(60)), daemon=True).start()
time.sleep(0.05)
""",
    "a daemon thread at work": """
engine = package.build_engine(config)
def work():
    while True:
        try:
            id = engine.create(); append(engine, [id], [8], "decode"); engine.release(id)
        except package.DeviceError:
            return
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
    "a thread that ends later": """
engine = package.build_engine(config)
def work():
    time.sleep(0.2)
    id = engine.create(); append(engine, [id], [8], "decode"); print(engine.length(id))
threading.Thread(target=work).start()
""",
    "two engines in two orders": """
a = package.build_engine(config); b = package.build_engine({**config, "device": 1}); a.create(); b.create(); del a
""",
    "a hundred engines": """
engines = [package.build_engine(config) for _ in range(100)]
""",
}


@pytest.mark.parametrize("case", EXITS)
def test_exit_code_is_0(run, case):
    run(EXITS[case])


def test_a_thread_that_ends_later_gets_its_result(run):
    assert run(EXITS["a thread that ends later"]) == "8\n"


def test_sys_exit_code_is_kept(package):
    code = START + "engine = package.build_engine(config); sys.exit(3)"
    done = run_python(code, package.parent, HERE, json.dumps(CONFIG), check=False)
    assert (done.returncode, done.stderr) == (3, "")


CHILD = """
engine = package.build_engine(config)
id = engine.create()
append(engine, [id], [10])
_, saved = engine.forward(*training_inputs(1, 8), out=training_output(1, 8))
sys.stdout.flush()
child = os.fork()
if child == 0:
    calls = [
        engine.create, engine.memory, lambda: engine.fork(id), lambda: engine.release(id), lambda: engine.length(id),
        lambda: append(engine, [id], [1], "decode"), lambda: append(engine, [id], [1]), engine.describe,
        lambda: engine.truncate(id, 0), lambda: package.build_engine(config),
        lambda: engine.forward(*training_inputs(1, 8), out=training_output(1, 8)),
        lambda: engine.backward(saved, training_output(1, 8), out=tuple(training_inputs(1, 8))),
    ]
    for call in calls:
        try:
            call()
            print("no error", flush=True)
        except package.DeviceError as error:
            print("fork" in str(error), flush=True)
    HOW
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
print(engine.length(id))
append(engine, [id], [1], "decode")
engine.backward(saved, training_output(1, 8), out=tuple(training_inputs(1, 8)))
print(engine.length(id))
"""


@pytest.mark.parametrize("how", ["os._exit(0)", "sys.exit(0)", "engine.close(); del saved; gc.collect(); sys.exit(0)"])
def test_a_forked_child_gets_an_error_and_harms_nothing(run, how):
    lines = run(CHILD.replace("HOW", how)).split()
    assert lines == ["True"] * 12 + ["0", "10", "11"]


def test_a_fork_while_other_threads_are_in_calls(run):
    """The child must not wait for a lock that a thread of the parent held."""
    code = """
engine = package.build_engine(config)
stop = False
def work():
    while not stop:
        id = engine.create(); append(engine, [id], [8], "decode"); engine.release(id)
thread = threading.Thread(target=work); thread.start()
codes = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        try:
            engine.memory()
        except package.DeviceError:
            engine.close()
            os._exit(0)
        os._exit(1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop = True
thread.join()
print(codes == [0] * 20)
"""
    assert run(code, flags=["-W", "ignore::DeprecationWarning"]) == "True\n"


def test_multiprocessing_children_build_their_own(run):
    """Forked before any engine was built, as a data loader is."""
    code = """
import multiprocessing
def work(number):
    with package.build_engine(config) as engine:
        append(engine, [engine.create()], [number])
        return engine.memory()["pages_used"]
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, [64, 65]))
"""
    assert run(code) == "[1, 2]\n"


def test_an_engine_that_nobody_holds_is_closed(run):
    code = """
from emulator import Emulator
driver = Emulator()
package.build_engine(config)
print(sum(driver.live().values()))
holder = {"engine": package.build_engine(config)}; holder["self"] = holder
del holder
gc.collect()
print(sum(driver.live().values()))
"""
    assert run(code) == "0\n0\n"
