"""prefill and decode through Python: ids and lengths of every kind, what is refused, and that nothing changed then."""

from __future__ import annotations

import numpy as np
import pytest
import submission
from workloads import CONFIG, PAGE_TOKENS, append, serving_inputs, serving_output


@pytest.fixture
def engine(driver):
    with submission.build_engine(CONFIG) as engine:
        driver.reset()
        yield engine


def state(engine, ids) -> tuple:
    """All that a refused call must leave as it was."""
    return engine.memory(), [engine.length(id) for id in ids]


def test_a_prompt_then_tokens(engine, driver):
    id = engine.create()
    append(engine, [id], [100])
    assert engine.length(id) == 100
    append(engine, [id], [3], "decode")
    assert engine.length(id) == 103
    operations = [launch.operation for launch in driver.launches()]
    assert operations == ["append", "prefill", "append", "dec", "dec_merge"]


KINDS = {
    "list": list,
    "tuple": tuple,
    "int64": np.array,
    "int32": lambda values: np.array(values, np.int32),
    "numpy integers": lambda values: [np.int16(value) for value in values],
    "range": lambda values: range(values[0], values[-1] + 1),
    "iterator": iter,
}


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_lengths_of_each_kind(engine, kind):
    ids = [engine.create() for _ in range(3)]
    append(engine, KINDS[kind](ids), [5, 6, 7])
    assert [engine.length(id) for id in ids] == [5, 6, 7]
    engine.decode(ids, *serving_inputs(6), KINDS[kind]([1, 2, 3]), out=serving_output(6))
    assert [engine.length(id) for id in ids] == [6, 8, 10]


def test_more_sequences_than_the_first_buffer_holds(driver):
    config = {**CONFIG, "max_sequences": 300, "max_cached_tokens": 300 * PAGE_TOKENS}
    with submission.build_engine(config) as engine:
        ids = [engine.create() for _ in range(300)]
        append(engine, ids, [1] * 300, "decode")
        append(engine, ids[::-1], [2] * 300, "decode")
        assert [engine.length(id) for id in ids] == [3] * 300


@pytest.mark.parametrize("lengths", [[0, 5, 7], [5, 0, 7], [5, 7, 0], [0, 0, 0], [0, 0, 1]])
def test_zero_lengths_in_prefill(engine, driver, lengths):
    ids = [engine.create() for _ in lengths]
    append(engine, ids, lengths)
    assert [engine.length(id) for id in ids] == lengths
    for launch in driver.launches():
        assert min(launch.grid) > 0
    assert bool(driver.launches()) == any(lengths)


@pytest.mark.parametrize("call", ["prefill", "decode"])
def test_a_call_of_no_sequences(engine, driver, call):
    append(engine, [], [], call)
    assert driver.launches() == []


def test_outputs_must_be_given_without_torch(engine, driver):
    id = engine.create()
    with pytest.raises(submission.DtypeError, match="^out: expected an array"):
        engine.prefill([id], *serving_inputs(4), [4])
    assert engine.length(id) == 0
    assert driver.launches() == []


WRONG_LISTS = {
    "fewer lengths": ([0, 1], [4], submission.LengthError, "lengths"),
    "more lengths": ([0, 1], [1, 1, 2], submission.LengthError, "lengths"),
    "a negative length": ([0, 1], [5, -1], submission.LengthError, "lengths"),
    "a sum below the rows": ([0, 1], [1, 2], submission.LengthError, "lengths"),
    "a sum above the rows": ([0, 1], [4, 1], submission.LengthError, "lengths"),
    "a length of 65 bits": ([0, 1], [2**64, 4], submission.LengthError, "lengths"),
    "lengths that overflow in sum": ([0, 1], [2**63 - 1, 2**63 - 1], submission.LengthError, "lengths"),
    "float lengths": ([0, 1], [2.0, 2.0], submission.DtypeError, "lengths"),
    "a float array": ([0, 1], np.array([2.0, 2.0]), submission.DtypeError, "lengths"),
    "a nested array": ([0, 1], np.array([[2, 2]]), submission.LengthError, "lengths"),
    "no list": ([0, 1], 4, submission.DtypeError, "lengths"),
    "a number of no axes": ([0, 1], np.int64(4), submission.DtypeError, "lengths"),
    "None": (None, [4], submission.DtypeError, "ids"),
    "text": ("01", [2, 2], submission.DtypeError, "ids"),
    "an id twice": ([0, 0], [2, 2], submission.LengthError, "ids"),
    "an id of 65 bits": ([2**64, 0], [2, 2], submission.UnknownSequence, "ids"),
    "an unknown id": ([0, 1000], [2, 2], submission.UnknownSequence, "id"),
    "a negative id": ([0, -1], [2, 2], submission.UnknownSequence, "id"),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG_LISTS)
@pytest.mark.parametrize("call", ["prefill", "decode"])
def test_wrong_ids_and_lengths(engine, driver, call, fault):
    ids, lengths, error, argument = WRONG_LISTS[fault]
    alive = [engine.create(), engine.create()]
    append(engine, alive, [3, 4])
    driver.reset()
    before = state(engine, alive)
    if isinstance(ids, list):
        ids = [alive[id] if id in (0, 1) else id for id in ids]
    with pytest.raises(error) as caught:
        getattr(engine, call)(ids, *serving_inputs(4), lengths, out=serving_output(4))
    assert caught.value.argument == argument
    assert driver.launches() == []
    assert state(engine, alive) == before
    append(engine, alive, [2, 2], call)  # usable after it
    assert [engine.length(id) for id in alive] == [5, 6]


class Device:
    """A list of integers in device memory."""

    __cuda_array_interface__ = {"shape": (1,), "typestr": "<i8", "data": (4096, False), "version": 3}


def test_lengths_in_device_memory_are_refused(engine):
    id = engine.create()
    with pytest.raises(submission.DtypeError, match="^lengths: expected host data"):
        engine.prefill([id], *serving_inputs(4), Device(), out=serving_output(4))


@pytest.mark.parametrize("length", [0, 9, 1000])
def test_decode_takes_one_to_eight_tokens(engine, driver, length):
    id = engine.create()
    with pytest.raises(submission.LengthError, match=f"1 to 8.*{length}") as caught:
        append(engine, [id], [length], "decode")
    assert caught.value.argument == "lengths"
    assert driver.launches() == []


def test_max_seq_len_is_the_end_of_a_sequence(engine, driver):
    id = engine.create()
    append(engine, [id], [CONFIG["max_seq_len"]])
    driver.reset()
    before = state(engine, [id])
    for call in ("prefill", "decode"):
        with pytest.raises(submission.LengthError, match=str(CONFIG["max_seq_len"])):
            append(engine, [id], [1], call)
    assert state(engine, [id]) == before
    assert driver.launches() == []


def test_one_page_too_few(driver):
    """A request for n pages with n - 1 free: its own exception, nothing changed, a smaller one then succeeds."""
    with submission.build_engine({**CONFIG, "max_cached_tokens": 4 * PAGE_TOKENS}) as engine:
        first, second = engine.create(), engine.create()
        free = engine.memory()["pages_free"]
        append(engine, [first], [(free - 2) * PAGE_TOKENS])
        driver.reset()
        before = state(engine, [first, second])
        for ids, lengths in (([second], [3 * PAGE_TOKENS]), ([first, second], [PAGE_TOKENS, 2 * PAGE_TOKENS])):
            with pytest.raises(submission.PagesExhausted, match=r"needed 3 .*2 free") as caught:
                append(engine, ids, lengths)
            assert isinstance(caught.value, MemoryError)
            assert driver.launches() == []
            assert state(engine, [first, second]) == before
        append(engine, [second], [2 * PAGE_TOKENS])
        assert engine.memory()["pages_free"] == 0
        with pytest.raises(submission.PagesExhausted):
            append(engine, [second], [1], "decode")


def test_max_sequences_is_the_most_alive(engine):
    ids = [engine.create() for _ in range(CONFIG["max_sequences"])]
    for make in (engine.create, lambda: engine.fork(ids[0])):
        with pytest.raises(submission.PagesExhausted):
            make()
    engine.release(ids[1])
    assert engine.create() not in ids


WRONG_IDS = {"never created": 1000, "negative": -5, "of 65 bits": 2**64}
CALLS = {
    "fork": lambda engine, id: engine.fork(id),
    "release": lambda engine, id: engine.release(id),
    "truncate": lambda engine, id: engine.truncate(id, 0),
    "length": lambda engine, id: engine.length(id),
}


@pytest.mark.parametrize("call", CALLS)
def test_unknown_ids(engine, call):
    for id in WRONG_IDS.values():
        with pytest.raises(KeyError) as caught:
            CALLS[call](engine, id)
        assert isinstance(caught.value, submission.UnknownSequence)
        assert caught.value.argument == "id"
    released = engine.create()
    engine.release(released)
    with pytest.raises(submission.UnknownSequence, match=f"sequence {released} was released"):
        CALLS[call](engine, released)
    for id in ("0", 1.0, None):
        with pytest.raises(submission.DtypeError, match="^id: expected an integer"):
            CALLS[call](engine, id)


def test_truncate(engine):
    id = engine.create()
    append(engine, [id], [200])
    for length, error in ((201, submission.LengthError), (-1, submission.LengthError), (2**64, submission.LengthError),
                          (1.0, submission.DtypeError)):  # fmt: skip
        with pytest.raises(error) as caught:
            engine.truncate(id, length)
        assert caught.value.argument == "length"
        assert engine.length(id) == 200
    for length in (200, 65, 64, 1, 0):
        engine.truncate(id, length)
        assert engine.length(id) == length
        assert engine.memory()["pages_used"] == -(-length // PAGE_TOKENS)


def test_a_fork_copies_a_page_when_one_of_the_two_writes_to_it(engine, driver):
    parent = engine.create()
    append(engine, [parent], [100])
    child = engine.fork(parent)
    memory = engine.memory()
    assert (memory["pages_used"], memory["pages_shared"]) == (2, 2)
    driver.reset()
    append(engine, [child], [1], "decode")
    memory = engine.memory()
    assert (memory["pages_used"], memory["pages_shared"]) == (3, 1)
    assert driver.launches()[0].operation == "page_copy"
    assert (engine.length(parent), engine.length(child)) == (100, 101)


@pytest.mark.parametrize(("modes", "call"), [(["training", "decode"], "prefill"), (["prefill"], "decode")])
def test_a_mode_that_was_not_asked_for(driver, modes, call):
    with submission.build_engine({**CONFIG, "modes": modes}) as engine:
        id = engine.create()
        with pytest.raises(submission.ConfigError) as caught:
            append(engine, [id], [1], call)
        assert caught.value.argument == "modes"


def test_memory_adds_up(driver):
    before = driver.live_bytes()
    engine = submission.build_engine(CONFIG)
    memory = engine.memory()
    assert memory["bytes_held"] == memory["bytes_peak"] == driver.live_bytes() - before
    assert memory["bytes_held"] == memory["bytes_cache"] + memory["bytes_partials"] + memory["bytes_metadata"]
    assert memory["bytes_limit"] == -1
    assert memory["page_tokens"] == PAGE_TOKENS
    assert memory["pages_total"] == memory["pages_free"]
    id = engine.create()
    append(engine, [id], [65])
    memory = engine.memory()
    assert (memory["pages_used"], memory["sequences"]) == (2, 1)
    assert memory["pages_used"] + memory["pages_free"] == memory["pages_total"]
    engine.close()
    assert driver.live_bytes() == before


def test_after_close_every_call_says_so(driver):
    engine = submission.build_engine(CONFIG)
    id = engine.create()
    engine.close()
    engine.close()
    calls = [
        engine.create, engine.memory, engine.describe, lambda: engine.fork(id), lambda: engine.release(id),
        lambda: engine.length(id), lambda: engine.truncate(id, 0), lambda: append(engine, [id], [1]),
        lambda: append(engine, [id], [1], "decode"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(submission.DeviceError, match="closed"):
            call()


def test_with_closes(driver):
    with pytest.raises(ZeroDivisionError), submission.build_engine(CONFIG) as engine:
        1 / 0  # noqa: B018
    with pytest.raises(submission.DeviceError):
        engine.create()
