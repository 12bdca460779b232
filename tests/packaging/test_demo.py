"""The demo itself: its reference, its rule, and both halves driven against an engine written in numpy."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tools.demo.accuracy import judge
from tools.demo.attention import backward, forward, from_bits, rounding_to, to_bits
from tools.demo.serving import serve
from tools.demo.training import train

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
        rows = list(zip(*self._values(*arrays)))
        results = [forward(*row, rounding_to(self.dtype)) for row in rows]
        self._store(out, np.stack([o for o, _ in results]))
        return out, (rows, [weights for _, weights in results])

    def backward(self, saved, do, out):
        results = [
            backward(*row, upstream, weights, rounding_to(self.dtype))
            for row, weights, upstream in zip(*saved, self._values(do)[0])
        ]
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
            o = forward(q[rows], held[0], held[1], qg[rows], held[2], rounding_to(self.dtype))[0]
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


def test_gradients_are_those_of_the_forward():
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape) for shape in ((5, 4, 8), (7, 2, 8), (7, 2, 8), (5, 4, 6), (7, 2, 6))]
    do = rng.standard_normal((5, 4, 8))
    gradients = backward(*inputs, do, forward(*inputs)[1])
    step = 1e-6
    for i, gradient in enumerate(gradients):
        direction = rng.standard_normal(inputs[i].shape)
        ends = []
        for sign in (1, -1):
            moved = list(inputs)
            moved[i] = inputs[i] + sign * step * direction
            ends.append((forward(*moved)[0] * do).sum())
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx((gradient * direction).sum(), rel=1e-6)


def test_the_mask_is_aligned_to_the_last_key():
    rng = np.random.default_rng(4)
    q, k, v, qg, kg = (rng.standard_normal((6, 2, 8)) for _ in range(5))
    whole = forward(q, k, v, qg, kg)[0]
    assert np.allclose(forward(q[4:], k, v, qg[4:], kg)[0], whole[4:])
    assert np.allclose(forward(q[:3], k[:3], v[:3], qg[:3], kg[:3])[0], whole[:3])


@pytest.mark.parametrize(
    "value, bits",
    [
        (1.0, 0x3F80),
        (1 + 2**-8, 0x3F80),
        (1 + 3 * 2**-8, 0x3F82),
        (-0.0, 0x8000),
        (np.inf, 0x7F80),
        (3.4e38, 0x7F80),
        (np.nan, 0x7FC0),
    ],
)
def test_bfloat16_rounds_to_nearest_even(value, bits):
    assert to_bits(np.array([value]), "bfloat16") == [bits]


def test_the_rule_names_each_way_to_fail():
    zero = np.zeros(10)
    eager = np.full(10, 1e-3)
    assert judge("x", 2 * eager, eager, zero, 1e-3).ok is False  # the mean: 1.5x and a tenth of the floor
    assert judge("x", 1.5 * eager, eager, zero, 0.0).ok is True
    one_off = np.array([3.1e-3] + [0.0] * 9)
    assert judge("x", one_off, eager, zero, 1e-3).ok is False
    assert judge("x", np.array([3e-3] + [0.0] * 9), eager, zero, 1e-3).ok is True
    assert judge("x", np.array([np.nan] + [0.0] * 9), eager, zero, 1e-3).ok is False


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
