"""The exceptions: each its own type, each also the built-in one that fits, readable, and whole after pickling."""

from __future__ import annotations

import pickle

import pytest
import submission

TYPES = {
    "ConfigError": ValueError,
    "ShapeError": ValueError,
    "StrideError": ValueError,
    "LengthError": ValueError,
    "DtypeError": TypeError,
    "DeviceError": ValueError,
    "UnknownSequence": KeyError,
    "PagesExhausted": MemoryError,
    "NoKernelError": LookupError,
    "PackError": OSError,
    "DriverError": RuntimeError,
    "MemoryLimitError": MemoryError,
}


@pytest.mark.parametrize(("name", "builtin"), TYPES.items())
def test_hierarchy(name, builtin):
    error = getattr(submission, name)
    assert issubclass(error, submission.EngineError)
    assert issubclass(error, builtin)


@pytest.mark.parametrize("name", ["EngineError", *TYPES])
def test_message_and_argument(name):
    error = getattr(submission, name)("q: expected 'a', got \"b\"", "q")
    assert str(error) == "q: expected 'a', got \"b\""
    assert error.argument == "q"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.argument) == (str(error), "q")


def test_no_failure_is_another_ones_type():
    for name in TYPES:
        others = [getattr(submission, other) for other in TYPES if other != name]
        assert not issubclass(getattr(submission, name), tuple(others))


def test_everything_exported_exists():
    for name in submission.__all__:
        assert hasattr(submission, name)
    assert submission.__version__.count(".") == 2
