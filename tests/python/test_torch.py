"""torch on the emulator, with CPU tensors: outputs, workspaces, the attention op. Needs torch; no kernel runs."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
import submission
from test_package import run_python
from workloads import CONFIG, Q_HEADS, ROWS, TRAINING

torch = pytest.importorskip("torch", reason="torch isn't installed; tests/gpu covers it on a GPU")

HERE = Path(__file__).resolve().parent
BATCH, SEQ_LEN = 2, 16
STATS_BYTES = BATCH * Q_HEADS * SEQ_LEN * 8


@pytest.fixture
def engine(driver):
    with submission.build_engine(CONFIG) as engine:
        driver.reset()
        yield engine
        gc.collect()
        assert engine.memory()["bytes_training"] == 0


def tensors(*lead: int, requires_grad: bool = False) -> list:
    return [torch.zeros(*lead, *row, dtype=torch.bfloat16, requires_grad=requires_grad) for row in ROWS.values()]


def test_forward_and_backward_allocate_their_outputs(engine, driver):
    inputs = tensors(BATCH, SEQ_LEN)
    o, saved = engine.forward(*inputs)
    assert (o.shape, o.dtype, o.is_contiguous()) == (inputs[0].shape, torch.bfloat16, True)
    gradients = engine.backward(saved, torch.zeros_like(o))
    assert [gradient.shape for gradient in gradients] == [array.shape for array in inputs]
    launches = driver.launches()
    assert [launch.operation for launch in launches] == ["fwd", "bwd_dq", "bwd_dkv"]
    assert [launches[0].array(i, 3)[0] for i in range(6)] == [array.data_ptr() for array in (*inputs, o)]
    assert [launches[1].array(i + 7, 3)[0] for i in range(5)] == [gradient.data_ptr() for gradient in gradients]


def test_outputs_of_strided_inputs_are_contiguous(engine, driver):
    """q is a slice of a packed tensor, transposed from heads first."""
    packed = torch.zeros(BATCH, Q_HEADS, SEQ_LEN, 192, dtype=torch.bfloat16)
    q = packed[..., 64:128].transpose(1, 2)
    o, _ = engine.forward(q, *tensors(BATCH, SEQ_LEN)[1:])
    assert o.is_contiguous()
    assert driver.launches()[0].array(0, 3) == (q.data_ptr(), *q.stride()[:3])


def test_out_is_used(engine):
    inputs = tensors(BATCH, SEQ_LEN)
    out, gradients = torch.empty_like(inputs[0]), tuple(map(torch.empty_like, inputs))
    o, saved = engine.forward(*inputs, out=out)
    assert o is out
    assert all(a is b for a, b in zip(engine.backward(saved, out, out=gradients), gradients))


def test_forward_is_not_recorded(engine):
    o, _ = engine.forward(*tensors(BATCH, SEQ_LEN, requires_grad=True))
    assert not o.requires_grad


def test_workspaces_of_torch_are_counted(engine):
    _, saved = engine.forward(*tensors(BATCH, SEQ_LEN))
    assert engine.memory()["bytes_training"] == STATS_BYTES
    engine.backward(saved, torch.zeros(BATCH, SEQ_LEN, *ROWS["q"], dtype=torch.bfloat16))
    assert engine.memory()["bytes_peak"] - engine.memory()["bytes_held"] == STATS_BYTES // 2
    with pytest.raises(submission.ShapeError) as caught:
        engine.forward(*tensors(BATCH, SEQ_LEN)[:4], tensors(BATCH, 5)[4])
    assert caught.value.argument == "kg"
    assert engine.memory()["bytes_training"] == STATS_BYTES


def test_the_limit_holds_for_torch(driver):
    with submission.build_engine({**TRAINING, "memory_limit_bytes": STATS_BYTES - 1}) as engine:
        inputs = tensors(BATCH, SEQ_LEN)
        for call in (engine.forward, engine.attention):
            with pytest.raises(submission.MemoryLimitError):
                call(*inputs)
        assert driver.launches() == []


def test_prefill_and_decode(engine):
    id = engine.create()
    q, *rest = tensors(9)
    o = engine.prefill([id], q, *rest, [9])
    assert (o.shape, o.dtype) == (q.shape, q.dtype)
    q, *rest = tensors(2)
    assert engine.decode([id], q, *rest, torch.tensor([2])).shape == q.shape
    assert engine.length(id) == 11


WRONG = {
    "float32": (lambda q: q.float(), submission.DtypeError, "float32"),
    "float16": (lambda q: q.half(), submission.DtypeError, "float16"),
    "int16": (lambda q: q.view(torch.int16), submission.DtypeError, "int16"),
    "meta": (lambda q: q.to("meta"), submission.DeviceError, "meta"),
    "sparse": (lambda q: q.float().to_sparse(), submission.StrideError, "q"),
    "rank 3": (lambda q: q[0], submission.ShapeError, "got 3"),
    "rank 5": (lambda q: q[None], submission.ShapeError, "got 5"),
    "last axis": (lambda q: q.repeat(1, 1, 1, 2)[..., ::2], submission.StrideError, "stride 2"),
    "alignment": (lambda q: q.repeat(1, 1, 1, 2)[..., 1:65], submission.StrideError, "16 bytes"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_tensors(engine, driver, fault):
    spoil, error, words = WRONG[fault]
    q, *rest = tensors(BATCH, SEQ_LEN)
    with pytest.raises(error, match=words) as caught:
        engine.forward(spoil(q), *rest, out=q)
    assert caught.value.argument == "q"
    assert driver.launches() == []


def test_raw_bits(engine, driver):
    engine.forward(*(array.view(torch.uint16) for array in tensors(BATCH, SEQ_LEN)))
    assert len(driver.launches()) == 1


def test_attention_under_autograd(engine, driver):
    inputs = tensors(BATCH, SEQ_LEN, requires_grad=True)
    o = engine.attention(*inputs)
    assert engine.memory()["bytes_training"] == STATS_BYTES
    o.sum().backward()  # a gradient with strides of 0
    assert [array.grad.shape for array in inputs] == [array.shape for array in inputs]
    assert [launch.operation for launch in driver.launches()] == ["fwd", "bwd_dq", "bwd_dkv"]
    assert driver.launches()[1].array(6, 3)[1:] == tuple(torch.empty(o.shape).stride()[:3])
    assert engine.memory()["bytes_training"] == 0


def test_attention_reads_a_gradient_as_it_lies_if_it_can(engine, driver):
    o = engine.attention(*tensors(BATCH, SEQ_LEN, requires_grad=True))
    do = torch.zeros(BATCH, Q_HEADS, SEQ_LEN, 64, dtype=torch.bfloat16).transpose(1, 2)
    o.backward(do)
    assert driver.launches()[1].array(6, 3) == (do.data_ptr(), *do.stride()[:3])


@pytest.mark.parametrize("keep", range(5))
def test_attention_where_one_input_wants_a_gradient(engine, keep):
    inputs = tensors(BATCH, SEQ_LEN)
    inputs[keep].requires_grad_()
    engine.attention(*inputs).sum().backward()
    assert [array.grad is not None for array in inputs] == [index == keep for index in range(5)]


def test_attention_without_gradients(engine):
    with torch.no_grad():
        o = engine.attention(*tensors(BATCH, SEQ_LEN, requires_grad=True))
    assert not o.requires_grad
    assert engine.memory()["bytes_training"] == 0


def test_a_second_derivative_raises(engine):
    inputs = tensors(BATCH, SEQ_LEN, requires_grad=True)
    (dq,) = torch.autograd.grad(engine.attention(*inputs).sum(), inputs[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        dq.sum().backward()


def test_the_op_is_sound(engine):
    """Schema, autograd registration, and meta functions that tell the real shapes and strides."""
    q, *rest = tensors(BATCH, SEQ_LEN, requires_grad=True)
    strided = torch.zeros(BATCH, Q_HEADS, SEQ_LEN, 64, dtype=torch.bfloat16).transpose(1, 2)
    utilities = ("test_schema", "test_autograd_registration", "test_faketensor")
    for query in (q, strided):
        torch.library.opcheck(engine._attention, (query, *rest, engine._handle), test_utils=utilities)
    stats = torch.zeros(BATCH, Q_HEADS, SEQ_LEN, 2)
    backward = getattr(torch.ops, engine._attention.namespace).attention_backward.default
    with torch.no_grad():
        arguments = (strided, *rest, q, stats, strided, engine._handle)
        torch.library.opcheck(backward, arguments, test_utils=utilities)


def test_attention_in_eager_mode_imports_no_compiler(package):
    """torch._dynamo, which brings triton, takes seconds to import and maps a compiler into the process."""
    code = """
import json, sys
import torch
sys.path[:0] = sys.argv[1:3]
import renamed_package
from workloads import CONFIG, ROWS
before = set(sys.modules)
engine = renamed_package.build_engine({**CONFIG, "modes": ["training"]})
rows = [torch.zeros(1, 8, *row, dtype=torch.bfloat16, requires_grad=True) for row in ROWS.values()]
engine.attention(*rows).sum().backward()
print(json.dumps(sorted({name.split(".")[0:2][-1] for name in set(sys.modules) - before})))
"""
    imported = json.loads(run_python(code, package.parent, HERE).stdout)
    assert {"_dynamo", "_inductor", "triton"}.isdisjoint(imported)


def test_attention_under_compile(engine, driver):
    def step(*inputs):
        return engine.attention(*inputs) * 2

    inputs = tensors(BATCH, SEQ_LEN, requires_grad=True)
    torch.compile(step, fullgraph=True, backend="aot_eager")(*inputs).sum().backward()
    assert [launch.operation for launch in driver.launches()] == ["fwd", "bwd_dq", "bwd_dkv"]
    assert all(array.grad is not None for array in inputs)
    torch._dynamo.reset()


def test_attention_of_a_closed_or_dropped_engine(driver):
    engine = submission.build_engine(TRAINING)
    inputs = tensors(BATCH, SEQ_LEN, requires_grad=True)
    o = engine.attention(*inputs)
    engine.close()
    with pytest.raises(submission.DeviceError, match="closed"):
        engine.attention(*inputs)
    with pytest.raises(submission.DeviceError, match="closed"):
        o.sum().backward()
    o = (engine := submission.build_engine(TRAINING)).attention(*inputs)
    del engine
    gc.collect()
    with pytest.raises(submission.DeviceError, match="dropped"):
        o.sum().backward()
