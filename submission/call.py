"""Arguments of a call in C form, in memory that each thread owns and reuses.

A call describes all of its arrays before it writes any here: describing one may run foreign code (an exporter's
`__dlpack__`), which may call an engine itself.
"""

from __future__ import annotations

import operator
import struct
import threading

from .arrays import FIELD_COUNT, FIELDS
from .errors import DtypeError, StrideError
from .library import load

_MOST_ARRAYS = 13  # backward's
_layouts = tuple(struct.Struct("@" + FIELDS * count) for count in range(_MOST_ARRAYS + 1))

_INT64 = range(-(2**63), 2**63)


class Arguments(threading.local):
    """One thread's `stratum_array`s and integer lists.

    arrays: pointers to the stratum_arrays that `set_arrays` fills. ids, lengths: the int64_t that `set_integers` fills.
    """

    def __init__(self):
        ffi, _ = load()
        self._memory = ffi.new("stratum_array[]", _MOST_ARRAYS)
        self._bytes = ffi.buffer(self._memory)
        self.arrays = tuple(self._memory + index for index in range(_MOST_ARRAYS))
        self._grow(64)

    def set_arrays(self, fields) -> None:
        """Writes a list of `arrays`' fields: their descriptions (see arrays.describe), one after the other.

        Errors: StrideError if an extent or a stride is beyond 64 bits.
        """
        try:
            _layouts[len(fields) // FIELD_COUNT].pack_into(self._bytes, 0, *fields)
        except struct.error as error:
            raise StrideError(f"expected arrays whose extents and strides fit 64 bits ({error})") from None

    def set_integers(self, ids, lengths) -> None:
        """Writes two lists of equal length to `ids` and `lengths`. Errors: struct.error if one isn't an int64."""
        count = len(ids)
        if count > self._capacity:
            self._grow(count)
        layout = f"@{count}q"
        struct.pack_into(layout, self._id_bytes, 0, *ids)
        struct.pack_into(layout, self._length_bytes, 0, *lengths)

    def _grow(self, count: int) -> None:
        ffi, _ = load()
        self.ids, self.lengths = ffi.new("int64_t[]", count), ffi.new("int64_t[]", count)
        self._id_bytes, self._length_bytes = ffi.buffer(self.ids), ffi.buffer(self.lengths)
        self._capacity = count


def host_list(values, name: str):
    """What a caller gave as a list of integers, as a list or tuple. Errors: DtypeError, for device memory too."""
    if isinstance(values, (list, tuple)):
        return values
    if getattr(values, "is_cuda", False) or getattr(values, "__cuda_array_interface__", None) is not None:
        raise DtypeError(f"{name}: expected host data (list, tuple, numpy), got device memory", name)
    try:
        listed = values.tolist() if hasattr(values, "tolist") else list(values)
    except TypeError:
        listed = None
    if not isinstance(listed, list):
        raise DtypeError(f"{name}: expected a list of integers, got {type(values).__name__}", name)
    return listed


def to_int64(value, name: str, error: type) -> int:
    """An argument as an int64. Errors: DtypeError if it is no integer, `error` if it doesn't fit."""
    try:
        number = operator.index(value)
    except TypeError:
        raise DtypeError(f"{name}: expected an integer, got {type(value).__name__}", name) from None
    if number not in _INT64:
        raise error(f"{name}: expected a 64-bit integer, got one of {number.bit_length()} bits", name)
    return number
