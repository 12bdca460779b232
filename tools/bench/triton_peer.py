"""Pairwise-gated attention as a user would write it in Triton: the peer of the timings.

Plain autotuned kernels for [batch, heads, tokens, dim] arrays in bfloat16, tokens a multiple of 128: forward with
log-sum-exp, and backward as delta, then dk dv dkg, then dq dqg, without atomics.
"""

import math
import os
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
import triton.language as tl

LOG2_E = math.log2(math.e)
KEY = ["length", "D", "R", "q_heads"]
RUN_TIME = ["q_heads", "kv_heads"]  # not compiled in, so that shapes of equal dims share their binaries


def _configs(*tiles: tuple[int, int, int, int]) -> list[triton.Config]:
    """From (rows, columns, warps, stages); in forward, rows must be a multiple of columns."""
    return [triton.Config({"BM": m, "BN": n}, num_warps=w, num_stages=s) for m, n, w, s in tiles]


FORWARD_TILES = _configs(
    (128, 64, 8, 3), (128, 64, 8, 2), (128, 128, 8, 2), (64, 64, 4, 3), (128, 64, 4, 3), (128, 32, 4, 3)
)
DKV_TILES = _configs((64, 64, 4, 2), (64, 128, 8, 2), (32, 128, 8, 2), (64, 64, 8, 2), (32, 64, 4, 2), (64, 128, 8, 1))
DQ_TILES = _configs((128, 64, 8, 2), (64, 64, 4, 2), (128, 32, 8, 3), (128, 64, 8, 1), (64, 32, 4, 3))


@triton.jit
def _gate(score):
    """sigmoid of a score in units of ln 2."""
    return 1.0 / (1.0 + tl.exp2(-score))


@triton.jit
def _tile(base, rows, columns, stride: tl.constexpr):
    """A tile of a row-major matrix; swap the two broadcasts and it comes transposed."""
    return tl.load(base + rows * stride + columns)


@triton.autotune(FORWARD_TILES, key=KEY)
@triton.jit(do_not_specialize=RUN_TIME)
def _forward(
    Q, K, V, QG, KG, O, LSE, scale, gate_scale, length, q_heads, kv_heads,
    D: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # the longest rows first
    batch, head = tl.program_id(1) // q_heads, tl.program_id(1) % q_heads
    query = (batch * q_heads + head).to(tl.int64) * length
    key = (batch * kv_heads + head // (q_heads // kv_heads)).to(tl.int64) * length
    rows, columns = block * BM + tl.arange(0, BM), tl.arange(0, BN)
    d, r = tl.arange(0, D), tl.arange(0, R)
    q = _tile(Q, (query + rows)[:, None], d[None, :], D)
    qg = _tile(QG, (query + rows)[:, None], r[None, :], R)
    largest = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    o = tl.zeros((BM, D), tl.float32)
    for masked in tl.static_range(2):
        first = block * BM * masked
        for start in range(first, first + BM if masked else block * BM, BN):
            at = key + start + columns
            s = tl.dot(q, _tile(K, at[None, :], d[:, None], D)) * scale
            t = tl.dot(qg, _tile(KG, at[None, :], r[:, None], R)) * gate_scale
            if masked:
                s = tl.where(rows[:, None] >= (start + columns)[None, :], s, -1e30)
            new_largest = tl.maximum(largest, tl.max(s, 1))
            p = tl.exp2(s - new_largest[:, None])
            rescale = tl.exp2(largest - new_largest)
            total = total * rescale + tl.sum(p, 1)
            v = _tile(V, at[:, None], d[None, :], D)
            o = tl.dot((p * _gate(t)).to(v.dtype), v, o * rescale[:, None])
            largest = new_largest
    tl.store(O + (query + rows)[:, None] * D + d[None, :], (o / total[:, None]).to(O.dtype.element_ty))
    tl.store(LSE + query + rows, largest + tl.log2(total))


@triton.jit
def _delta(O, DO, DELTA, D: tl.constexpr, ROWS: tl.constexpr):
    at = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None] * D + tl.arange(0, D)[None, :]
    product = tl.load(O + at).to(tl.float32) * tl.load(DO + at).to(tl.float32)
    tl.store(DELTA + tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.sum(product, 1))


@triton.autotune(DKV_TILES, key=KEY)
@triton.jit(do_not_specialize=RUN_TIME)
def _backward_dkv(
    Q, K, V, QG, KG, DO, LSE, DELTA, DK, DV, DKG, scale, gate_scale, out_scale, out_gate_scale,
    length, q_heads, kv_heads, D: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    batch, kv_head = tl.program_id(1) // kv_heads, tl.program_id(1) % kv_heads
    key = (batch * kv_heads + kv_head).to(tl.int64) * length
    group = q_heads // kv_heads
    columns = block * BN + tl.arange(0, BN)
    d, r = tl.arange(0, D), tl.arange(0, R)
    at = (key + columns)[:, None]
    k, v = _tile(K, at, d[None, :], D), _tile(V, at, d[None, :], D)
    kg = _tile(KG, at, r[None, :], R)
    dk, dv = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    dkg = tl.zeros((BN, R), tl.float32)
    for member in range(group):
        query = (batch * q_heads + kv_head * group + member).to(tl.int64) * length
        for start in range(block * BN // BM * BM, length, BM):
            rows = start + tl.arange(0, BM)
            q = _tile(Q, (query + rows)[:, None], d[None, :], D)
            qg = _tile(QG, (query + rows)[:, None], r[None, :], R)
            do = _tile(DO, (query + rows)[:, None], d[None, :], D)
            s = tl.dot(k, tl.trans(q)) * scale
            g = _gate(tl.dot(kg, tl.trans(qg)) * gate_scale)
            p = tl.exp2(s - tl.load(LSE + query + rows)[None, :])
            p = tl.where(rows[None, :] >= columns[:, None], p, 0.0)
            w = p * g
            dv = tl.dot(w.to(do.dtype), do, dv)
            weighted = w * tl.dot(v, tl.trans(do))
            ds = weighted - p * tl.load(DELTA + query + rows)[None, :]
            dk = tl.dot(ds.to(q.dtype), q, dk)
            dkg = tl.dot((weighted * (1.0 - g)).to(q.dtype), qg, dkg)
    tl.store(DK + at * D + d[None, :], (dk * out_scale).to(DK.dtype.element_ty))
    tl.store(DV + at * D + d[None, :], dv.to(DV.dtype.element_ty))
    tl.store(DKG + at * R + r[None, :], (dkg * out_gate_scale).to(DKG.dtype.element_ty))


@triton.autotune(DQ_TILES, key=KEY)
@triton.jit(do_not_specialize=RUN_TIME)
def _backward_dq(
    Q, K, V, QG, KG, DO, LSE, DELTA, DQ, DQG, scale, gate_scale, out_scale, out_gate_scale,
    length, q_heads, kv_heads, D: tl.constexpr, R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    batch, head = tl.program_id(1) // q_heads, tl.program_id(1) % q_heads
    query = (batch * q_heads + head).to(tl.int64) * length
    key = (batch * kv_heads + head // (q_heads // kv_heads)).to(tl.int64) * length
    rows = block * BM + tl.arange(0, BM)
    d, r = tl.arange(0, D), tl.arange(0, R)
    at = (query + rows)[:, None]
    q, do = _tile(Q, at, d[None, :], D), _tile(DO, at, d[None, :], D)
    qg = _tile(QG, at, r[None, :], R)
    lse, delta = tl.load(LSE + query + rows), tl.load(DELTA + query + rows)
    dq, dqg = tl.zeros((BM, D), tl.float32), tl.zeros((BM, R), tl.float32)
    for start in range(0, (block + 1) * BM, BN):
        columns = start + tl.arange(0, BN)
        k = _tile(K, (key + columns)[:, None], d[None, :], D)
        v = _tile(V, (key + columns)[:, None], d[None, :], D)
        kg = _tile(KG, (key + columns)[:, None], r[None, :], R)
        s = tl.dot(q, tl.trans(k)) * scale
        g = _gate(tl.dot(qg, tl.trans(kg)) * gate_scale)
        p = tl.exp2(s - lse[:, None])
        p = tl.where(rows[:, None] >= columns[None, :], p, 0.0)
        weighted = p * g * tl.dot(do, tl.trans(v))
        dq = tl.dot((weighted - p * delta[:, None]).to(k.dtype), k, dq)
        dqg = tl.dot((weighted * (1.0 - g)).to(k.dtype), kg, dqg)
    tl.store(DQ + at * D + d[None, :], (dq * out_scale).to(DQ.dtype.element_ty))
    tl.store(DQG + at * R + r[None, :], (dqg * out_gate_scale).to(DQG.dtype.element_ty))


def _scales(head_dim: int, gate_dim: int) -> tuple[float, float]:
    return 1 / math.sqrt(head_dim), 1 / math.sqrt(gate_dim)


class Peer:
    """Forward and backward on fixed arrays [B,H,S,dim]; results land in `o` and `gradients`."""

    def __init__(self, q, k, v, qg, kg, do) -> None:
        self.inputs, self.do = (q, k, v, qg, kg), do
        self.batch, self.q_heads, self.length, self.head_dim = q.shape
        self.kv_heads, self.gate_dim = k.shape[1], qg.shape[-1]
        if self.length % 128:
            raise ValueError(f"length: expected a multiple of 128, got {self.length}")
        self.o = torch.empty_like(q)
        self.gradients = tuple(torch.empty_like(x) for x in self.inputs)
        self._lse, self._delta = (torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) for _ in range(2))
        softmax, gate = _scales(self.head_dim, self.gate_dim)
        dims = self.length, self.q_heads, self.kv_heads, self.head_dim, self.gate_dim
        dq, dk, dv, dqg, dkg = self.gradients
        scores = LOG2_E * softmax, LOG2_E * gate
        self._forward = *self.inputs, self.o, self._lse, *scores, *dims
        upstream = *self.inputs, do, self._lse, self._delta
        self._dkv = *upstream, dk, dv, dkg, *scores, softmax, gate, *dims
        self._dq = *upstream, dq, dqg, *scores, softmax, gate, *dims

    def compile(self) -> None:
        """Compiles every tile of every kernel, several at a time; otherwise the first calls do, one by one."""
        with ThreadPoolExecutor(os.cpu_count()) as pool, triton.AsyncCompileMode(pool, ignore_errors=True):
            for kernel, arguments in ((_forward, self._forward), (_backward_dkv, self._dkv), (_backward_dq, self._dq)):
                kernel.warmup(*arguments, grid=(1,))

    def forward(self) -> None:
        """o and the log-sum-exp; the first call of a shape tries every tile."""
        _forward[lambda tile: (self.length // tile["BM"], self.batch * self.q_heads)](*self._forward)

    def backward(self) -> None:
        """The five gradients, delta included; after forward."""
        rows = self.batch * self.q_heads * self.length
        _delta[(rows // 32,)](self.o, self.do, self._delta, self.head_dim, 32)
        _backward_dkv[lambda tile: (self.length // tile["BN"], self.batch * self.kv_heads)](*self._dkv)
        _backward_dq[lambda tile: (self.length // tile["BM"], self.batch * self.q_heads)](*self._dq)

    def tiles(self) -> dict[str, str]:
        """The tile that each kernel uses at present."""
        kernels = {"forward": _forward, "dkv": _backward_dkv, "dq": _backward_dq}
        return {name: str(kernel.best_config) for name, kernel in kernels.items()}
