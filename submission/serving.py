"""Prefill and decode: appending tokens to cached sequences and attending from them.

Decode is called once a token and layer, so this path is written for few Python operations.
"""

from __future__ import annotations

import struct

from .arrays import describe
from .call import host_list, to_int64
from .errors import LengthError, UnknownSequence
from .library import raise_error
from .streams import new_like, stream_handle


def serve(native, function, ids, q, k, v, qg, kg, lengths, out, stream):
    """Queues a serving call and returns its output. native: the engine. function: stratum_prefill or stratum_decode.
    The rest as in Engine.prefill."""
    handle = stream_handle(stream, (q, k, v, qg, kg), native.device)
    device, keep = native.device, []
    if out is None:
        out = new_like(q, stream, handle)
    fields = (
        *describe(q, "q", device, handle, keep),
        *describe(k, "k", device, handle, keep),
        *describe(v, "v", device, handle, keep),
        *describe(qg, "qg", device, handle, keep),
        *describe(kg, "kg", device, handle, keep),
        *describe(out, "out", device, handle, keep, True),
    )
    ids, lengths = host_list(ids, "ids"), host_list(lengths, "lengths")
    if len(ids) != len(lengths):
        raise LengthError(f"lengths: expected {len(ids)} entries, one for each id, got {len(lengths)}", "lengths")
    arguments = native.arguments
    try:
        arguments.set_integers(ids, lengths)
    except (struct.error, OverflowError):
        _refuse_integers(ids, lengths)
        raise
    arguments.set_arrays(fields)
    status = function(native.handle, arguments.ids, arguments.lengths, len(ids), *arguments.arrays[:6], handle)
    if status:
        raise_error(status)
    return out


def _refuse_integers(ids, lengths) -> None:
    """Raises for the entry that is no int64."""
    for values, name, error in ((ids, "ids", UnknownSequence), (lengths, "lengths", LengthError)):
        for value in values:
            to_int64(value, name, error)
