"""The work of the bench's shapes, counted by brute force, and the floors and rows that follow from it."""

from __future__ import annotations

import pytest

from tools.bench.floors import datasheet
from tools.bench.rows import row
from tools.bench.shapes import DECODE, PREFILL, QUICK, SHAPES, TRAINING, Heads, Serving, Training, spread

HEADS = Heads(6, 2, 16, 8)


def counted_pairs(shape: Serving) -> int:
    """One by one, every (query head, key) that the mask lets through."""
    pairs, held = 0, [shape.prefix + own for own in shape.cached]
    for new in shape.calls:
        for i, count in enumerate(new):
            for _ in range(count):
                held[i] += 1
                pairs += held[i] * shape.heads.q_heads
    return pairs


def elements(heads: Heads, tokens: int, arrays: str) -> int:
    """Of arrays of `tokens` rows named by letters: q g o of query heads, k v h of key heads; g h are gate_dim wide."""
    dims = {"q": 16, "g": 8, "o": 16, "k": 16, "v": 16, "h": 8}
    return sum(tokens * (heads.q_heads if a in "qgo" else heads.kv_heads) * dims[a] for a in arrays)


def test_the_work_of_a_training_batch():
    shape = Training(HEADS, 3, 5)
    pairs = sum(1 for _ in range(3 * 6) for i in range(5) for j in range(5) if j <= i)
    assert shape.pairs == pairs
    assert shape.flops("forward") == pairs * 2 * (2 * 16 + 8)
    assert shape.flops("backward") == pairs * 2 * (5 * 16 + 3 * 8)
    assert shape.bytes("forward") == 2 * elements(HEADS, 15, "qgkvho")
    assert shape.bytes("backward") == 2 * elements(HEADS, 15, "qgkvh" + "o" + "qgkvh")  # inputs, do, gradients


@pytest.mark.parametrize(
    "shape",
    [
        Serving("ragged", "prefill", HEADS, 0, (0, 0), ((3, 7),)),
        Serving("chunks", "prefill", HEADS, 0, (0, 0), ((4, 2), (1, 3), (2, 2))),
        Serving("forks", "prefill", HEADS, 10, (0, 0), ((3, 5),)),
        Serving("decode", "decode", HEADS, 0, (9, 30), ((1, 8),)),
        Serving("tails", "decode", HEADS, 20, (1, 5, 3), ((1, 1, 1),)),
    ],
    ids=lambda shape: shape.name,
)
def test_the_work_of_calls_on_a_cache(shape):
    assert shape.pairs == counted_pairs(shape)
    assert shape.flops(shape.operation) == counted_pairs(shape) * 2 * (2 * 16 + 8)
    moved, held = 0, shape.prefix + sum(shape.cached)  # unique tokens
    for new in shape.calls:
        moved += elements(HEADS, held, "kvh")  # the cache, read
        moved += elements(HEADS, sum(new), "qgkvh" + "o" + "kvh")  # inputs read, o written, the cache written
        held += sum(new)
    assert shape.bytes(shape.operation) == 2 * moved
    assert shape.unique_tokens == held
    ends = [shape.prefix + own + sum(call[i] for call in shape.calls) for i, own in enumerate(shape.cached)]
    assert shape.longest == max(ends)


def test_every_stratum_of_every_mode_is_there_once_named():
    pairs = [f"d{d}-r{r}" for d in (64, 128) for r in (32, 64)]
    for mode, shapes in (("train", TRAINING), ("prefill", PREFILL), ("decode", DECODE)):
        assert {shape.stratum for shape in shapes} - {None} == {f"{mode}-{pair}" for pair in pairs}
        for shape in shapes:
            ending = f"d{shape.heads.head_dim}-r{shape.heads.gate_dim}"
            assert shape.stratum is None or shape.stratum == f"{mode}-{ending}"
            assert ending in shape.name
    names = [shape.name for shape in SHAPES]
    assert len(set(names)) == len(names)
    assert set(QUICK) <= set(SHAPES)
    assert {operation for shape in QUICK for operation in shape.operations} == {
        "forward", "backward", "prefill", "decode"
    }  # fmt: skip


def test_lengths_at_equal_distances():
    assert spread(256, 2048, 64)[0] == 256 and spread(256, 2048, 64)[-1] == 2048
    assert spread(1, 9, 3) == (1, 5, 9)


def test_a_floor_is_the_larger_of_two():
    sheet = datasheet("NVIDIA H200")
    assert (sheet.tflops, sheet.tbps) == (989, 4.8)
    assert sheet.floor_ms(989 * 10**9, 1) == 1
    assert sheet.floor_ms(1, 4_800_000_000) == 1
    assert sheet.floor_ms(989 * 10**9, 9_600_000_000) == 2
    assert sheet.ridge == pytest.approx(989 / 4.8)


@pytest.mark.parametrize(
    ("gpu", "tbps"),
    [("NVIDIA H200", 4.8), ("NVIDIA H200 NVL", 4.8), ("NVIDIA H100 80GB HBM3", 3.35), ("NVIDIA H100 PCIe", 2.0)],
)
def test_datasheets_by_name(gpu, tbps):
    assert datasheet(gpu).tbps == tbps


def test_an_unknown_gpu_has_no_floor():
    assert datasheet("NVIDIA T400") is None
    timing = {"milliseconds": 1.0, "calls": 3, "sm_mhz": None}
    shape = TRAINING[0]
    found = row(shape, "forward", "burst", {"ours": timing}, {"ours": shape.flops("forward")}, None, {})
    assert found["floor_ms"] is None and found["contenders"]["ours"]["of_floor"] is None


def test_a_row_compares_rates_each_by_its_own_work():
    shape, sheet = TRAINING[0], datasheet("NVIDIA H200")
    work = shape.flops("forward")
    timings = {name: {"milliseconds": ms, "calls": 3, "sm_mhz": 1e3} for name, ms in (("ours", 2.0), ("cudnn", 1.0))}
    found = row(shape, "forward", "burst", timings, {"ours": work, "cudnn": work // 2}, sheet, {"triton": "why"})
    assert found["contenders"]["ours"]["tflops"] == pytest.approx(work / 2e9)
    assert found["contenders"]["ours"]["tbps"] == pytest.approx(shape.bytes("forward") / 2e9)
    assert found["contenders"]["ours"]["of_floor"] == pytest.approx(work / 989e9 / 2)
    assert found["contenders"]["cudnn"]["of_floor"] is None
    assert found["ratios"] == {"cudnn": pytest.approx(1.0)}
    assert found["missing"] == {"triton": "why"}
