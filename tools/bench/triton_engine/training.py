"""Forward and backward over dense batches [B,S,heads,dim], any strides whose last is 1.

WHOLE: S is a multiple of every tile, and nothing is masked but the diagonal. strides: of batch, token and head.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from .parts import HIDDEN, gate, load_rows, online_softmax, score_scales, store_rows
from .tuning import autotune, tiles

KEY = ["length", "D", "R", "q_heads"]
RUN_TIME = ["q_heads", "kv_heads"]  # not compiled in, so that shapes of equal dims share their binaries
LONGEST_TILE = 128  # every tile divides it
DELTA_ROWS = 64

# In forward, rows must be a multiple of columns.
FORWARD_TILES = tiles((64, 64, 4, 3), (128, 128, 8, 2), (128, 64, 8, 3))
DKV_TILES = tiles((64, 64, 4, 2), (32, 64, 4, 2), (64, 128, 8, 2))
DQ_TILES = tiles((64, 64, 4, 2), (64, 32, 4, 3), (128, 64, 8, 2))


@triton.jit
def head_of(base, strides, batch, head):
    """Where token 0 of a head is."""
    return base + tl.cast(batch, tl.int64) * strides[0] + tl.cast(head, tl.int64) * strides[2]


@autotune(FORWARD_TILES, key=KEY)
@triton.jit(do_not_specialize=RUN_TIME)
def forward_kernel(
    Q, K, V, QG, KG, O, LSE, q_strides, k_strides, v_strides, qg_strides, kg_strides, o_strides,
    scale, gate_scale, length, q_heads, kv_heads,
    D: tl.constexpr, R: tl.constexpr, WHOLE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # the longest rows first
    batch, head = tl.program_id(1) // q_heads, tl.program_id(1) % q_heads
    kv_head = head // (q_heads // kv_heads)
    first_row = block * BM
    rows = first_row + tl.arange(0, BM)
    q = load_rows(head_of(Q, q_strides, batch, head), q_strides[1], first_row, length, BM, D, WHOLE)
    qg = load_rows(head_of(QG, qg_strides, batch, head), qg_strides[1], first_row, length, BM, R, WHOLE)
    k_base = head_of(K, k_strides, batch, kv_head)
    v_base = head_of(V, v_strides, batch, kv_head)
    kg_base = head_of(KG, kg_strides, batch, kv_head)
    largest = tl.full((BM,), HIDDEN, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    o = tl.zeros((BM, D), tl.float32)
    for diagonal in tl.static_range(2):
        for start in range(first_row if diagonal else 0, first_row + BM if diagonal else first_row, BN):
            whole: tl.constexpr = WHOLE or diagonal == 0
            k = load_rows(k_base, k_strides[1], start, length, BN, D, whole)
            kg = load_rows(kg_base, kg_strides[1], start, length, BN, R, whole)
            s = tl.dot(q, tl.trans(k)) * scale
            t = tl.dot(qg, tl.trans(kg)) * gate_scale
            if diagonal:
                s = tl.where(rows[:, None] >= (start + tl.arange(0, BN))[None, :], s, HIDDEN)
            v = load_rows(v_base, v_strides[1], start, length, BN, D, whole)
            largest, total, o = online_softmax(s, t, v, largest, total, o)
    store_rows(head_of(O, o_strides, batch, head), o_strides[1], first_row, length, o / total[:, None], BM, D, WHOLE)
    lse = LSE + tl.cast(tl.program_id(1), tl.int64) * length + rows
    tl.store(lse, largest + tl.log2(total), mask=rows < length)


@triton.jit(do_not_specialize=["q_heads"])
def delta_kernel(O, DO, DELTA, o_strides, do_strides, length, q_heads, D: tl.constexpr, ROWS: tl.constexpr):
    batch, head = tl.program_id(1) // q_heads, tl.program_id(1) % q_heads
    first = tl.program_id(0) * ROWS
    o = load_rows(head_of(O, o_strides, batch, head), o_strides[1], first, length, ROWS, D, False)
    do = load_rows(head_of(DO, do_strides, batch, head), do_strides[1], first, length, ROWS, D, False)
    rows = first + tl.arange(0, ROWS)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    tl.store(DELTA + tl.cast(tl.program_id(1), tl.int64) * length + rows, delta, mask=rows < length)


@triton.jit
def statistics_of(LSE, DELTA, first, length, COUNT: tl.constexpr, WHOLE: tl.constexpr):
    """lse and delta of rows; beyond the end such that p and ds are 0."""
    rows = first + tl.arange(0, COUNT)
    if WHOLE:
        lse, delta = tl.load(LSE + rows), tl.load(DELTA + rows)
    else:
        lse = tl.load(LSE + rows, mask=rows < length, other=float("inf"))
        delta = tl.load(DELTA + rows, mask=rows < length, other=0.0)
    return lse, delta


@autotune(DKV_TILES, key=KEY)
@triton.jit(do_not_specialize=RUN_TIME)
def dkv_kernel(
    Q, K, V, QG, KG, DO, LSE, DELTA, DK, DV, DKG,
    q_strides, k_strides, v_strides, qg_strides, kg_strides, do_strides, dk_strides, dv_strides, dkg_strides,
    scale, gate_scale, out_scale, out_gate_scale, length, q_heads, kv_heads,
    D: tl.constexpr, R: tl.constexpr, WHOLE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    batch, kv_head = tl.program_id(1) // kv_heads, tl.program_id(1) % kv_heads
    group = q_heads // kv_heads
    first_key = tl.program_id(0) * BN
    keys = first_key + tl.arange(0, BN)
    k = load_rows(head_of(K, k_strides, batch, kv_head), k_strides[1], first_key, length, BN, D, WHOLE)
    v = load_rows(head_of(V, v_strides, batch, kv_head), v_strides[1], first_key, length, BN, D, WHOLE)
    kg = load_rows(head_of(KG, kg_strides, batch, kv_head), kg_strides[1], first_key, length, BN, R, WHOLE)
    dk, dv = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    dkg = tl.zeros((BN, R), tl.float32)
    for member in range(group):
        head = kv_head * group + member
        q_base, qg_base = head_of(Q, q_strides, batch, head), head_of(QG, qg_strides, batch, head)
        do_base = head_of(DO, do_strides, batch, head)
        statistics = tl.cast(batch * q_heads + head, tl.int64) * length
        for start in range(first_key // BM * BM, length, BM):
            q = load_rows(q_base, q_strides[1], start, length, BM, D, WHOLE)
            qg = load_rows(qg_base, qg_strides[1], start, length, BM, R, WHOLE)
            do = load_rows(do_base, do_strides[1], start, length, BM, D, WHOLE)
            lse, delta = statistics_of(LSE + statistics, DELTA + statistics, start, length, BM, WHOLE)
            s = tl.dot(k, tl.trans(q)) * scale
            g = gate(tl.dot(kg, tl.trans(qg)) * gate_scale)
            p = tl.exp2(s - lse[None, :])
            p = tl.where((start + tl.arange(0, BM))[None, :] >= keys[:, None], p, 0.0)
            w = p * g
            dv = tl.dot(w.to(do.dtype), do, dv)
            weighted = w * tl.dot(v, tl.trans(do))
            ds = weighted - p * delta[None, :]
            dk = tl.dot(ds.to(q.dtype), q, dk)
            dkg = tl.dot((weighted * (1.0 - g)).to(q.dtype), qg, dkg)
    store_rows(head_of(DK, dk_strides, batch, kv_head), dk_strides[1], first_key, length, dk * out_scale, BN, D, WHOLE)
    store_rows(head_of(DV, dv_strides, batch, kv_head), dv_strides[1], first_key, length, dv, BN, D, WHOLE)
    dkg *= out_gate_scale
    store_rows(head_of(DKG, dkg_strides, batch, kv_head), dkg_strides[1], first_key, length, dkg, BN, R, WHOLE)


@autotune(DQ_TILES, key=KEY)
@triton.jit(do_not_specialize=RUN_TIME)
def dq_kernel(
    Q, K, V, QG, KG, DO, LSE, DELTA, DQ, DQG,
    q_strides, k_strides, v_strides, qg_strides, kg_strides, do_strides, dq_strides, dqg_strides,
    scale, gate_scale, out_scale, out_gate_scale, length, q_heads, kv_heads,
    D: tl.constexpr, R: tl.constexpr, WHOLE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    batch, head = tl.program_id(1) // q_heads, tl.program_id(1) % q_heads
    kv_head = head // (q_heads // kv_heads)
    first_row = block * BM
    rows = first_row + tl.arange(0, BM)
    q = load_rows(head_of(Q, q_strides, batch, head), q_strides[1], first_row, length, BM, D, WHOLE)
    qg = load_rows(head_of(QG, qg_strides, batch, head), qg_strides[1], first_row, length, BM, R, WHOLE)
    do = load_rows(head_of(DO, do_strides, batch, head), do_strides[1], first_row, length, BM, D, WHOLE)
    statistics = tl.cast(tl.program_id(1), tl.int64) * length
    lse, delta = statistics_of(LSE + statistics, DELTA + statistics, first_row, length, BM, WHOLE)
    k_base = head_of(K, k_strides, batch, kv_head)
    v_base = head_of(V, v_strides, batch, kv_head)
    kg_base = head_of(KG, kg_strides, batch, kv_head)
    dq, dqg = tl.zeros((BM, D), tl.float32), tl.zeros((BM, R), tl.float32)
    for start in range(0, first_row + BM, BN):
        k = load_rows(k_base, k_strides[1], start, length, BN, D, WHOLE)
        v = load_rows(v_base, v_strides[1], start, length, BN, D, WHOLE)
        kg = load_rows(kg_base, kg_strides[1], start, length, BN, R, WHOLE)
        s = tl.dot(q, tl.trans(k)) * scale
        g = gate(tl.dot(qg, tl.trans(kg)) * gate_scale)
        p = tl.exp2(s - lse[:, None])
        p = tl.where(rows[:, None] >= (start + tl.arange(0, BN))[None, :], p, 0.0)
        weighted = p * g * tl.dot(do, tl.trans(v))
        dq = tl.dot((weighted - p * delta[:, None]).to(k.dtype), k, dq)
        dqg = tl.dot((weighted * (1.0 - g)).to(k.dtype), kg, dqg)
    store_rows(head_of(DQ, dq_strides, batch, head), dq_strides[1], first_row, length, dq * out_scale, BM, D, WHOLE)
    dqg *= out_gate_scale
    store_rows(head_of(DQG, dqg_strides, batch, head), dqg_strides[1], first_row, length, dqg, BM, R, WHOLE)


class Saved:
    """What backward needs of a forward: the inputs and o themselves, and the log-sum-exp in units of ln 2, [B,Hq,S]."""

    def __init__(self, inputs: tuple[torch.Tensor, ...], o: torch.Tensor) -> None:
        q, k, *_, kg = inputs
        self.inputs, self.o = inputs, o
        self.batch, self.length, self.q_heads, self.head_dim = q.shape
        self.kv_heads, self.gate_dim = k.shape[2], kg.shape[3]
        self.lse = torch.empty((self.batch, self.q_heads, self.length), dtype=torch.float32, device=q.device)
        self.scales = score_scales(self.head_dim, self.gate_dim)
        whole = self.length % LONGEST_TILE == 0
        self.sizes = self.length, self.q_heads, self.kv_heads, self.head_dim, self.gate_dim, whole

    def forward_arguments(self) -> tuple:
        arrays = *self.inputs, self.o
        return *arrays, self.lse, *map(_strides, arrays), *self.scales, *self.sizes

    def backward_arguments(self, do: torch.Tensor, delta: torch.Tensor, outputs: tuple[torch.Tensor, ...]) -> tuple:
        arrays = *self.inputs, do
        scales = *self.scales, 1 / math.sqrt(self.head_dim), 1 / math.sqrt(self.gate_dim)
        strides = map(_strides, (*arrays, *outputs))
        return *arrays, self.lse, delta, *outputs, *strides, *scales, *self.sizes


def _strides(x: torch.Tensor) -> tuple[int, int, int]:
    return x.stride(0), x.stride(1), x.stride(2)


def forward(inputs: tuple[torch.Tensor, ...], o: torch.Tensor) -> Saved:
    """Queues o of (q, k, v, qg, kg)."""
    saved = Saved(inputs, o)
    if o.numel():
        forward_kernel[lambda tile: (triton.cdiv(saved.length, tile["BM"]), saved.batch * saved.q_heads)](
            *saved.forward_arguments()
        )
    return saved


def backward(saved: Saved, do: torch.Tensor, gradients: tuple[torch.Tensor, ...]) -> None:
    """Queues (dq, dk, dv, dqg, dkg)."""
    if not do.numel():
        return
    do = do if do.stride(-1) == 1 else do.contiguous()
    dq, dk, dv, dqg, dkg = gradients
    batch, length, q_heads, kv_heads = saved.batch, saved.length, saved.q_heads, saved.kv_heads
    delta = torch.empty_like(saved.lse)
    delta_kernel[(triton.cdiv(length, DELTA_ROWS), batch * q_heads)](
        saved.o, do, delta, _strides(saved.o), _strides(do), length, q_heads, saved.head_dim, DELTA_ROWS
    )
    dkv_kernel[lambda tile: (triton.cdiv(length, tile["BN"]), batch * kv_heads)](
        *saved.backward_arguments(do, delta, (dk, dv, dkg))
    )
    dq_kernel[lambda tile: (triton.cdiv(length, tile["BM"]), batch * q_heads)](
        *saved.backward_arguments(do, delta, (dq, dqg))
    )


def launches(inputs: tuple[torch.Tensor, ...]) -> list[tuple]:
    """(kernel, arguments) of all that is tuned, for inputs like these."""
    q, k, v, qg, kg = inputs
    saved = Saved(inputs, q)
    return [
        (forward_kernel, saved.forward_arguments()),
        (dkv_kernel, saved.backward_arguments(q, saved.lse, (k, v, kg))),
        (dq_kernel, saved.backward_arguments(q, saved.lse, (q, qg))),
    ]


def tiles_in_use() -> dict[str, str]:
    """The tile that each kernel used last."""
    kernels = {"forward": forward_kernel, "dkv": dkv_kernel, "dq": dq_kernel}
    return {name: str(kernel.best_config) for name, kernel in kernels.items() if hasattr(kernel, "best_config")}
