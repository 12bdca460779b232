"""Every kind of array reaches the kernels with its own address and strides, or is refused by name."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import submission
from dlpack_exporter import BFLOAT, CPU, CUDA, FLOAT, METAL, Exporter
from workloads import CONFIG, ROWS, TRAINING, aligned, serving_inputs, serving_output, training_inputs, training_output

BATCH, SEQ_LEN = 2, 16


class CudaArray:
    """An array with `__cuda_array_interface__` over the memory of a numpy array."""

    def __init__(self, array, read_only: bool = False, device=None, **fields):
        self.array = array  # whose memory it is
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, read_only),
            "strides": array.strides, "version": 3, **fields,
        }  # fmt: skip
        if device is not None:
            self.__dlpack_device__ = lambda: device


class Contiguous(CudaArray):
    """The same without strides, as the interface allows for a C-contiguous array."""

    def __init__(self, array):
        super().__init__(array, strides=None)


KINDS = {
    "numpy": lambda array: array,
    "cuda array interface": CudaArray,
    "cuda array interface, no strides": Contiguous,
    "cuda array interface, its device told": lambda array: CudaArray(array, device=(CUDA, 0)),
    "dlpack 1": Exporter,
    "dlpack 1, in host memory": lambda array: Exporter(array, device=(CPU, 0)),
    "dlpack 1, no strides": lambda array: Exporter(array, with_strides=False),
    "dlpack 1, an offset": lambda array: Exporter(array, byte_offset=32),
    "dlpack 0": lambda array: Exporter(array, version=None),
    "dlpack 1, bfloat16": lambda array: Exporter(array, code=BFLOAT),
}


@pytest.fixture
def engine(driver):
    with submission.build_engine(TRAINING) as engine:
        driver.reset()
        yield engine


def elements(array) -> tuple:
    """Address and strides of all but the last axis, in elements, as the kernel is told."""
    return array.ctypes.data, *(stride // array.itemsize for stride in array.strides[:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_reaches_the_kernel(engine, driver, kind):
    inputs, out = training_inputs(BATCH, SEQ_LEN), training_output(BATCH, SEQ_LEN)
    wrapped_out = KINDS[kind](out)
    o, saved = engine.forward(*map(KINDS[kind], inputs), out=wrapped_out)
    assert o is wrapped_out
    (launch,) = driver.launches()
    assert launch.operation == "fwd"
    assert [launch.array(index, 3) for index in range(6)] == [elements(array) for array in (*inputs, out)]


@pytest.mark.parametrize("kind", ["numpy", "cuda array interface", "dlpack 1", "dlpack 0"])
def test_strides_of_each_kind(engine, driver, kind):
    """q and k sliced from one packed array, v with its heads before its tokens."""
    _, _, _, qg, kg = training_inputs(BATCH, SEQ_LEN)
    heads, dim = ROWS["q"]
    kv_heads, _ = ROWS["k"]
    packed = aligned((BATCH, SEQ_LEN, heads + kv_heads, dim))
    q, k = packed[:, :, :heads], packed[:, :, heads:]
    v = aligned((BATCH, kv_heads, SEQ_LEN, dim)).transpose(0, 2, 1, 3)
    out = training_output(BATCH, SEQ_LEN)
    engine.forward(*map(KINDS[kind], (q, k, v, qg, kg)), out=KINDS[kind](out))
    (launch,) = driver.launches()
    assert launch.array(0, 3) == elements(q)
    assert launch.array(1, 3) == elements(k)
    assert launch.array(2, 3) == elements(v)


def test_float16_of_numpy(driver):
    with submission.build_engine({**TRAINING, "dtype": "float16"}) as engine:
        inputs = [array.view(np.float16) for array in training_inputs(1, 4)]
        engine.forward(*inputs, out=training_output(1, 4).view(np.float16))
        engine.forward(*map(CudaArray, inputs), out=training_output(1, 4))
        engine.forward(*(Exporter(array, code=FLOAT) for array in inputs), out=training_output(1, 4))


def test_raw_bits_serve_both_dtypes(driver):
    for dtype in ("bfloat16", "float16"):
        with submission.build_engine({**TRAINING, "dtype": dtype}) as engine:
            engine.forward(*training_inputs(1, 4), out=training_output(1, 4))


def test_dlpack_capsules_end_with_the_call(engine):
    exporters = [Exporter(array) for array in training_inputs(1, 4)]
    _, saved = engine.forward(*exporters, out=Exporter(training_output(1, 4)))
    gc.collect()
    assert [exporter.alive for exporter in exporters] == [0] * 5
    assert [len(exporter.streams) for exporter in exporters] == [1] * 5


@pytest.mark.parametrize(("stream", "told"), [(None, 1), (0, 1), ("made", "made")])
def test_dlpack_exporters_are_told_the_stream(engine, driver, stream, told):
    with driver.stream() as made:
        exporter = Exporter(training_inputs(1, 4)[0])
        rest = training_inputs(1, 4)[1:]
        engine.forward(exporter, *rest, out=training_output(1, 4), stream=made if stream == "made" else stream)
        assert exporter.streams == [made if told == "made" else told]


def test_host_exporters_are_asked_for_no_stream(engine):
    exporter = Exporter(training_inputs(1, 4)[0], device=(CPU, 0))
    engine.forward(exporter, *training_inputs(1, 4)[1:], out=training_output(1, 4))
    assert exporter.streams == [None]


class Failing(Exporter):
    """An exporter that refuses."""

    def __dlpack__(self, **arguments):
        raise BufferError("the array requires grad")


class Foreign(Exporter):
    """An exporter that returns something else."""

    def __dlpack__(self, **arguments):
        return object()


def wide(array):
    return aligned((*array.shape[:-1], 2 * array.shape[-1]))


WRONG = {
    "None": (lambda q: None, submission.DtypeError, "got NoneType"),
    "list": (lambda q: q.tolist(), submission.DtypeError, "got list"),
    "bytes": (lambda q: q.tobytes(), submission.DtypeError, "got bytes"),
    "float32": (lambda q: q.astype(np.float32), submission.DtypeError, "<f4"),
    "float16 for bfloat16": (lambda q: q.view(np.float16), submission.DtypeError, "float16"),
    "signed": (lambda q: q.view(np.int16), submission.DtypeError, "<i2"),
    "big endian": (lambda q: q.view(">u2"), submission.DtypeError, ">u2"),
    "dlpack float32": (lambda q: Exporter(q, code=FLOAT, bits=32), submission.DtypeError, "float32"),
    "dlpack float8": (lambda q: Exporter(q, code=10, bits=8), submission.DtypeError, "dtype10_8"),
    "dlpack 2": (lambda q: Exporter(q, version=(2, 0)), submission.DtypeError, "DLPack 2.0"),
    "dlpack refuses": (Failing, submission.DtypeError, "the array requires grad"),
    "dlpack foreign": (Foreign, submission.DtypeError, "not a DLPack tensor"),
    "another GPU": (lambda q: Exporter(q, device=(CUDA, 1)), submission.DeviceError, "device 1"),
    "another GPU, interface": (lambda q: CudaArray(q, device=(CUDA, 1)), submission.DeviceError, "device 1"),
    "no GPU of ours": (lambda q: Exporter(q, device=(METAL, 0)), submission.DeviceError, "device type 8"),
    "rank 3": (lambda q: q[0], submission.ShapeError, "got 3"),
    "rank 5": (lambda q: q[None], submission.ShapeError, "got 5"),
    "rank 0": (lambda q: np.uint16(3), submission.ShapeError, "got 0"),
    "heads": (lambda q: q[:, :, :4], submission.ShapeError, "[2, 16, 4, 64]"),
    "width": (lambda q: q[..., :32], submission.ShapeError, "[2, 16, 8, 32]"),
    "last axis": (lambda q: wide(q)[..., ::2], submission.StrideError, "stride 2"),
    "backwards": (lambda q: q[..., ::-1], submission.StrideError, "16 bytes"),
    "base off by 2": (lambda q: wide(q)[..., 1:65], submission.StrideError, "16 bytes"),
    "base off by 4": (lambda q: wide(q)[..., 2:66], submission.StrideError, "16 bytes"),
    "base off by 8": (lambda q: wide(q)[..., 4:68], submission.StrideError, "16 bytes"),
    "row stride": (lambda q: aligned((*q.shape[:-1], 68))[..., :64], submission.StrideError, "68 elements"),
    "half an element": (
        lambda q: CudaArray(q, strides=(*q.strides[:2], 129, 2)), submission.StrideError, "whole elements"),
    "no address": (lambda q: CudaArray(q, data=None), submission.StrideError, "tells its address"),
    "masked": (lambda q: CudaArray(q, mask=q), submission.DtypeError, "without a mask"),
    "null address": (lambda q: CudaArray(q, data=(0, False)), submission.StrideError, "0x0"),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_array_is_refused_before_any_launch(engine, driver, fault):
    spoil, error, words = WRONG[fault]
    inputs, out = training_inputs(BATCH, SEQ_LEN), training_output(BATCH, SEQ_LEN)
    spoilt = spoil(inputs[0])
    before = engine.memory()
    with pytest.raises(error) as caught:
        engine.forward(spoilt, *inputs[1:], out=out)
    assert words in str(caught.value)
    assert str(caught.value).startswith("q")
    assert caught.value.argument == "q"
    assert driver.launches() == []
    after = engine.memory()
    assert {**after, "bytes_peak": 0} == {**before, "bytes_peak": 0}
    engine.forward(*inputs, out=out)  # usable after it


@pytest.mark.parametrize("name", ROWS)
def test_the_argument_at_fault_is_named(engine, name):
    inputs = dict(zip(ROWS, training_inputs(1, 4)))
    inputs[name] = inputs[name][..., :16]
    with pytest.raises(submission.ShapeError, match=f"^{name}: ") as caught:
        engine.forward(**inputs, out=training_output(1, 4))
    assert caught.value.argument == name


READ_ONLY = {
    "numpy": lambda array: np.frombuffer(array.tobytes(), np.uint16).reshape(array.shape),
    "cuda array interface": lambda array: CudaArray(array, read_only=True),
    "dlpack 1": lambda array: Exporter(array, read_only=True),
}


@pytest.mark.parametrize("kind", READ_ONLY)
def test_read_only_arrays_are_inputs_but_not_outputs(engine, kind):
    inputs, out = training_inputs(1, 4), training_output(1, 4)
    with pytest.raises(submission.DtypeError, match="^out: expected an array that can be written"):
        engine.forward(*inputs, out=READ_ONLY[kind](out))
    if kind != "numpy":  # whose copy may lie at any address
        engine.forward(*map(READ_ONLY[kind], inputs), out=out)


def test_an_output_whose_elements_overlap_is_refused(engine):
    out = np.broadcast_to(training_output(1, 4), (BATCH, 4, *ROWS["q"]))
    with pytest.raises(submission.StrideError):
        engine.forward(*training_inputs(BATCH, 4), out=CudaArray(out))


def test_inputs_may_repeat_elements(engine, driver):
    """A stride of 0, as an expanded gradient has."""
    inputs = training_inputs(BATCH, 4)
    inputs[0] = np.broadcast_to(inputs[0][:1], inputs[0].shape)
    engine.forward(*inputs, out=training_output(BATCH, 4))
    assert driver.launches()[0].array(0, 3)[1] == 0


def test_packed_arrays_of_serving(driver):
    with submission.build_engine(CONFIG) as engine:
        inputs, out = serving_inputs(5), serving_output(5)
        driver.reset()
        engine.prefill([engine.create()], *map(Exporter, inputs), [5], out=CudaArray(out))
        append, prefill = driver.launches()
        assert [append.array(i, 2) for i in range(3)] == [elements(inputs[i]) for i in (1, 2, 4)]  # k, v, kg
        assert [prefill.array(i, 2) for i in range(3)] == [elements(array) for array in (inputs[0], inputs[3], out)]


LEGACY, PER_THREAD = 1, 2  # default streams in `__cuda_array_interface__`


@pytest.mark.parametrize(
    ("told", "ours"), [(None, None), (None, 0), (LEGACY, None), (LEGACY, 0), (LEGACY, LEGACY), (PER_THREAD, PER_THREAD)]
)
def test_an_interface_that_names_our_stream_or_none(engine, driver, told, ours):
    inputs = [CudaArray(array, stream=told) for array in training_inputs(1, 4)]
    engine.forward(*inputs, out=CudaArray(training_output(1, 4), stream=told), stream=ours)
    assert [launch.stream for launch in driver.launches()] == [ours or 0]


def test_an_interface_that_names_our_handle(engine, driver):
    with driver.stream() as handle:
        inputs = [CudaArray(array, stream=handle) for array in training_inputs(1, 4)]
        engine.forward(*inputs, out=CudaArray(training_output(1, 4), stream=handle), stream=handle)
        assert [launch.stream for launch in driver.launches()] == [handle]
        gc.collect()  # statistics are freed while their stream lives


@pytest.mark.parametrize(("told", "ours"), [(0x50, None), (PER_THREAD, None), (LEGACY, 0x50), (0x50, 0x60)])
def test_an_interface_that_names_another_stream_is_refused(engine, driver, told, ours):
    """Nothing could order our work after that stream's. The message says how to mend it."""
    q, *rest = training_inputs(1, 4)
    out = training_output(1, 4)
    words = (
        f"in use on the stream of this call, {ours or 0:#x}, got one in use on stream {told:#x}; pass stream={told:#x}"
    )
    with pytest.raises(submission.DeviceError, match=f"^q: .*{words}") as caught:
        engine.forward(CudaArray(q, stream=told), *rest, out=out, stream=ours)
    assert caught.value.argument == "q"
    with pytest.raises(submission.DeviceError, match="^out: ") as caught:
        engine.forward(q, *rest, out=CudaArray(out, stream=told), stream=ours)
    assert caught.value.argument == "out"
    assert driver.launches() == []


@pytest.mark.parametrize("told", [0, -1, 1.0, "1"])
def test_an_interface_with_no_such_stream_is_refused(engine, told):
    q, *rest = training_inputs(1, 4)
    with pytest.raises(submission.DeviceError, match="^q: expected a stream of None, 1, 2 or a handle"):
        engine.forward(CudaArray(q, stream=told), *rest, out=training_output(1, 4))


class Both(Exporter):
    """An array with both protocols, as CuPy's are; `__cuda_array_interface__` names a stream."""

    told = 0x50

    @property
    def __cuda_array_interface__(self):
        return CudaArray(self.array, stream=self.told).__cuda_array_interface__


def test_dlpack_orders_an_array_in_use_on_another_stream(engine, driver):
    inputs, out = training_inputs(1, 4), training_output(1, 4)
    exporters = [Both(array) for array in (*inputs, out)]
    engine.forward(*exporters[:5], out=exporters[5])
    assert [exporter.streams for exporter in exporters] == [[LEGACY]] * 6  # asked to wait for its own work
    (launch,) = driver.launches()
    assert [launch.array(index, 3) for index in range(6)] == [elements(array) for array in (*inputs, out)]


def test_masked_host_arrays_are_refused(engine):
    class Masked:
        def __init__(self, array):
            self.__array_interface__ = {**array.__array_interface__, "mask": array}

    q, *rest = training_inputs(1, 4)
    with pytest.raises(submission.DtypeError, match="^q: expected an array without a mask"):
        engine.forward(Masked(q), *rest, out=training_output(1, 4))


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"data": (None, False)}, submission.StrideError),
        ({"data": (-8, False)}, submission.StrideError),
        ({"data": (2**64, False)}, submission.StrideError),
        ({"data": (0,)}, submission.StrideError),
        ({"typestr": 5}, submission.DtypeError),
        ({"typestr": None}, submission.DtypeError),
        ({"shape": None}, submission.ShapeError),
        ({"shape": (1, 4.0, 4, 64)}, submission.ShapeError),
        ({"shape": (1, 2**63, 4, 64)}, submission.ShapeError),
        ({"strides": (2**65, 512, 128, 2)}, submission.StrideError),
        ({"strides": (2048, 512, 128, 64, 2)}, submission.StrideError),
        ({"strides": (128, 2)}, submission.StrideError),
    ],
    ids=str,
)
def test_interfaces_that_make_no_sense_are_refused(engine, entry, error):
    class Odd:
        def __init__(self, array):
            self.__array_interface__ = {**array.__array_interface__, **entry}

    q, *rest = training_inputs(1, 4)
    with pytest.raises(error, match="^q: expected "):
        engine.forward(Odd(q), *rest, out=training_output(1, 4))


def test_extents_beyond_64_bits_are_refused(engine):
    class Huge:
        def __init__(self, array):
            self.__array_interface__ = {**array.__array_interface__, "shape": (1, 4, 2**62, 64), "strides": None}

    q, *rest = training_inputs(1, 4)
    with pytest.raises(submission.StrideError, match="fit 64 bits"):
        engine.forward(Huge(q), *rest, out=training_output(1, 4))
