"""Each driver call of a process's first build_engine fails once: it is named, nothing stays behind, and the next build
gives the results that it gives without a failure."""

from __future__ import annotations

import multiprocessing

from .first_build import first_build

# These put back the thread's context and its mode of capture, and fail where it has no context, as is usual.
SURVIVED = {"cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuCtxGetDevice"}
OF_A_KERNEL = {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncLoad", "cuFuncSetAttribute"}
CALLED = OF_A_KERNEL | {"cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", "cuMemHostAlloc",
                        "cuEventCreate", "cuMemsetD8Async", "cuStreamSynchronize"}  # fmt: skip


def test_each_call_of_the_first_build_fails_once(rng, monkeypatch):
    monkeypatch.setenv("STRATUM_POISON", "1")  # fills the engine's memory, by two more functions
    seed = int(rng.integers(2**32))
    context = multiprocessing.get_context("forkserver")  # which itself never initialises the driver
    context.set_forkserver_preload([first_build.__module__])
    with context.Pool(2, maxtasksperchild=1) as pool:
        clean = pool.apply(first_build, ("cuInit", 0, seed))
        assert clean.message is None and clean.alive == 0 and clean.faults == []
        assert CALLED <= set(clean.calls)
        failures = [(name, nth, seed) for name, count in clean.calls.items() for nth in range(1, count + 1)]
        reports = pool.starmap(first_build, failures, chunksize=1)
    for (function, nth, _), report in zip(failures, reports):
        where = f"{function}, call {nth} of {clean.calls[function]}: {report}"
        if function in SURVIVED:
            assert report.message is None, where
        else:
            assert report.message.startswith(f"{function} failed: CUDA_ERROR_UNKNOWN"), where
            assert ("kernel gated_" in report.message) == (function in OF_A_KERNEL), where
            assert report.left == 0, where
        assert report.context == ((0, 1) if function == "cuCtxPopCurrent_v2" else (-1, 0)), where
        assert report.digest == clean.digest, where
        assert (report.modules, report.alive, report.faults) == (clean.modules, 0, []), where
