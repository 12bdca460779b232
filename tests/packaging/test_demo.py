"""The demo itself: both halves driven against an engine written in numpy."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tools.demo.serving import serve
from tools.demo.training import train
from tools.reference.attention import Inputs, backward, eager, forward
from tools.reference.bits import from_bits, to_bits

REPOSITORY = Path(__file__).parents[2]
CONFIG = {"head_dim": 16, "gate_dim": 16, "q_heads": 4, "kv_heads": 2}


class HostArray(np.ndarray):
    """A numpy array that also answers as the demo's device arrays do."""

    def numpy(self):
        return np.array(self)


class HostDevice:
    """Device memory that is host memory."""

    def upload(self, host):
        return np.array(host).view(HostArray)

    def empty(self, shape, dtype=np.uint16):
        return np.zeros(shape, dtype).view(HostArray)


class NumpyEngine:
    """The engine's calls, computed eagerly in float32; `fault` is added to every output."""

    def __init__(self, dtype, fault=0.0):
        self.dtype, self.fault = dtype, fault
        self.cached = {}

    def _store(self, out, values):
        out[...] = to_bits(values + np.float32(self.fault), self.dtype)

    def _values(self, *arrays):
        return [from_bits(np.asarray(each), self.dtype) for each in arrays]

    def forward(self, *arrays, out):
        rows = [Inputs(*row) for row in zip(*self._values(*arrays))]
        self._store(out, np.stack([forward(row, eager(self.dtype)) for row in rows]))
        return out, rows

    def backward(self, saved, do, out):
        results = [backward(row, upstream, eager(self.dtype)) for row, upstream in zip(saved, self._values(do)[0])]
        for target, values in zip(out, zip(*results)):
            self._store(target, np.stack(values))

    def create(self):
        return self._add(
            [np.empty((0, CONFIG["kv_heads"], CONFIG[dim]), np.float32) for dim in ("head_dim", "head_dim", "gate_dim")]
        )

    def fork(self, parent):
        return self._add(self.cached[parent])

    def _add(self, held):
        self.cached[len(self.cached) + 1] = held
        return len(self.cached)

    def prefill(self, ids, *arrays_and_lengths, out):
        *arrays, lengths = arrays_and_lengths
        q, k, v, qg, kg = self._values(*arrays)
        start = 0
        for sequence, length in zip(ids, lengths):
            rows = slice(start, start + length)
            held = self.cached[sequence] = [
                np.concatenate([old, new[rows]]) for old, new in zip(self.cached[sequence], (k, v, kg))
            ]
            o = forward(Inputs(q[rows], held[0], held[1], qg[rows], held[2]), eager(self.dtype))
            self._store(out[rows], o)
            start += length

    decode = prefill


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_right_engine_passes_and_a_wrong_one_does_not(dtype):
    for fault, right in ((0.0, True), (0.1, False)):
        engine, config = NumpyEngine(dtype, fault), {**CONFIG, "dtype": dtype}
        verdicts, repeated = train(engine, config, HostDevice(), (2, 33), np.random.default_rng(1))
        assert [v.name for v in verdicts] == ["o", "dq", "dk", "dv", "dqg", "dkg"] and repeated
        verdicts += serve(engine, config, HostDevice(), np.random.default_rng(2))
        assert [v.ok for v in verdicts] == [right] * len(verdicts)


def test_without_a_gpu_it_says_what_it_needs_and_lists_the_pack(tmp_path):
    lister = tmp_path / "lister"
    lister.write_text('#!/bin/sh\necho "$@"\n')
    lister.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "tools.demo", "--submission", tmp_path / "folder", "--stratum-gen", lister],
        cwd=REPOSITORY,
        env={**os.environ, "STRATUM_DRIVER": "libno-such-driver.so"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Nothing to run on: libno-such-driver.so can't be opened" in done.stdout
    assert "compute capability 8.0 or newer" in done.stdout
    assert done.stdout.splitlines()[-1] == f"list --pack {tmp_path / 'folder' / 'cubins'} *_bf16_d64_r32_*"
