"""Each driver call of each operation fails once: it is named, nothing changes or stays behind, and the same operation
then gives the bits that it gives without a failure."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

from .arrays import Guarded, assert_same_bits, synchronize
from .engines import build, config
from .serving import Cache, pack
from .training import random_batch

UNKNOWN_ERROR = 999
SETTINGS = config((64, 32), group=3, kv_heads=1, max_sequences=6, max_cached_tokens=1024)

# A call that gives something up has nobody to tell: the operation is right, and what was to be freed stays.
FREES = {"cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeHost", "cuEventDestroy_v2"}
# So has one that puts back the thread's context or its mode of capture.
RESTORES = {"cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode"}
# A training call ends with giving its workspace back, in the device's context.
OF_A_FREE = {"cuCtxGetCurrent", "cuCtxPushCurrent_v2"}


class Scene:
    """An engine in a state in which a serving call copies a page, waits for a staging slot and for another stream.

    The same inputs in each scene of a seed.
    """

    def __init__(self, seed: int, stream: int) -> None:
        rng = np.random.default_rng(seed)
        self.stream = stream
        self.engine = build(SETTINGS)
        cache = Cache(self.engine, SETTINGS, rng, check=False)
        self.parent = cache.sequence(cache.tokens(70))
        self.fork = self.engine.fork(self.parent)
        self.third = cache.sequence(*(cache.tokens(10) for _ in range(4)))  # as many calls as there are slots
        self.lengths = {self.parent: 2, self.fork: 3, self.third: 1}
        self.tokens = pack([cache.tokens(n) for n in self.lengths.values()])
        self.inputs, self.do = random_batch(rng, SETTINGS, 1, 20)
        self.output = Guarded(self.inputs.q.shape).array
        _, self.saved = self.engine.forward(*self.inputs, out=self.output)

    def serve(self, mode: str, stream: int) -> list[np.ndarray]:
        out = Guarded(self.tokens.q.shape).array
        ids, lengths = list(self.lengths), list(self.lengths.values())
        getattr(self.engine, mode)(ids, *self.tokens, lengths, out=out, stream=stream)
        return [out]

    def forward(self) -> list[np.ndarray]:
        out = Guarded(self.inputs.q.shape).array
        self.engine.forward(*self.inputs, out=out, stream=self.stream)
        return [out]

    def backward(self) -> list[np.ndarray]:
        gradients = tuple(Guarded(x.shape).array for x in self.inputs)
        self.engine.backward(self.saved, self.do, out=gradients)
        return list(gradients)

    def state(self) -> dict:
        memory = {**self.engine.memory(), "bytes_peak": 0}
        return {**memory, **{sequence: self.engine.length(sequence) for sequence in self.lengths}}

    def everything(self) -> list[np.ndarray]:
        """What the engine and its cache hold, by results that depend on all of it."""
        results = self.serve("decode", 0) + self.backward()
        synchronize()
        return results


OPERATIONS: dict[str, Callable[[Scene], list[np.ndarray]]] = {
    "forward": Scene.forward,
    "backward": Scene.backward,
    "prefill": lambda scene: scene.serve("prefill", scene.stream),
    "decode": lambda scene: scene.serve("decode", scene.stream),
    "close": lambda scene: scene.engine.close() or [],
}
CALLED = {
    "forward": {"cuMemAllocAsync", "cuLaunchKernel", "cuMemFreeAsync"},
    "backward": {"cuMemAllocAsync", "cuLaunchKernel", "cuMemFreeAsync"},
    "prefill": {"cuEventSynchronize", "cuStreamWaitEvent", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel", "cuEventRecord"},
    "decode": {"cuEventSynchronize", "cuStreamWaitEvent", "cuMemcpyHtoDAsync_v2", "cuLaunchKernel", "cuEventRecord"},
    "close": {"cuEventSynchronize", "cuMemFree_v2", "cuMemFreeHost", "cuEventDestroy_v2"},
}


def _gives_up(name: str, function: str, is_last: bool) -> bool:
    """Whether it is in vain that a call of an operation is to free something, if it fails."""
    return function in FREES or (name in ("forward", "backward") and function in OF_A_FREE and is_last)


def _is_survived(name: str, function: str, nth: int) -> bool:
    """Whether an operation succeeds without a call that frees nothing."""
    # At exit the driver may be gone: close asks by its first call, and does its work for any answer but one.
    return function in RESTORES or (name, function, nth) == ("close", "cuCtxGetCurrent", 1)


def _objects(emulator) -> int:
    gc.collect()
    return sum(emulator.live().values())


def _finish(scene: Scene, name: str) -> list[np.ndarray]:
    """What the engine holds after the operation, and its end."""
    held = [] if name == "close" else scene.everything()
    scene.saved = None
    scene.engine.close()
    return held


def _same(what: str, ours: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(ours) == len(expected)
    for i, (a, b) in enumerate(zip(ours, expected)):
        assert_same_bits(f"{what} {i}", a, b)


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_call_of_an_operation_fails_once(rng, emulator, name):
    import submission

    operation, seed = OPERATIONS[name], int(rng.integers(2**32))
    with emulator.stream() as stream:
        scene = Scene(seed, stream)
        emulator.reset()
        results = operation(scene)
        calls = emulator.calls()
        synchronize()
        held = _finish(scene, name)
        assert CALLED[name] <= set(calls)

        for function, nth in [(function, nth) for function, count in calls.items() for nth in range(1, count + 1)]:
            print(f"{function}, call {nth} of {calls[function]}")
            gives_up = _gives_up(name, function, nth == calls[function])
            objects = _objects(emulator)
            scene = Scene(seed, stream)
            before = scene.state()
            emulator.reset()
            emulator.fail(function, nth, UNKNOWN_ERROR)
            if not gives_up and not _is_survived(name, function, nth):
                with pytest.raises(submission.DriverError) as caught:
                    operation(scene)
                assert str(caught.value).startswith(f"{function} failed: CUDA_ERROR_UNKNOWN")
                assert ("kernel gated_" in str(caught.value)) == (function == "cuLaunchKernel")
                del caught  # its traceback holds the scene's arrays and workspaces
                assert emulator.current() == (-1, 0)
                assert scene.state() == before
            ours = operation(scene)
            if function == "cuCtxPopCurrent_v2":
                emulator.set_current_device(-1)
            emulator.fail(function, 0, 0)
            synchronize()
            _same("result", ours, results)
            _same("afterwards", _finish(scene, name), held)
            left = _objects(emulator) - objects
            assert left == gives_up
            emulator.lost += left
            assert emulator.faults() == []


@pytest.mark.parametrize("change", ["create", "fork", "truncate", "release"])
def test_bookkeeping_calls_no_driver(rng, emulator, change):
    """So none of its calls can fail."""
    with emulator.stream() as stream:
        scene = Scene(int(rng.integers(2**32)), stream)
        arguments = {"create": (), "fork": (scene.parent,), "truncate": (scene.third, 5), "release": (scene.fork,)}
        emulator.reset()
        getattr(scene.engine, change)(*arguments[change])
        assert emulator.calls() == {}
        scene.engine.close()
        scene.saved = None
        gc.collect()
