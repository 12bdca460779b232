"""The operation as a good user would write it in Triton: the peer that the kernels of this project are measured by.

`build_engine(config)` takes the configuration of the project's own engine and returns one with the same calls, so that
a harness can load this folder like any other engine. Plain autotuned kernels, no atomics:

    training   forward with log-sum-exp; backward as delta, then dk dv dkg, then dq dqg (training.py)
    serving    a cache of 64-token pages (pages.py, serving.py); one kernel appends, then prefill is attention over the
               pages, decode the same in splits of fixed length, whose float32 partials a last kernel merges

Of the contract it leaves out: `attention`, arrays that aren't torch tensors on the current device and stream, the error
types (bad input is a ValueError, an unknown sequence a KeyError, too few pages a MemoryError), memory_limit_bytes,
which it takes and doesn't enforce, and batch_invariant. Tiles are picked by timing at the first call of each kind, so
two processes may differ in the last bit.
"""

from .engine import Engine, build_engine, compile_engines

__all__ = ["Engine", "build_engine", "compile_engines"]
