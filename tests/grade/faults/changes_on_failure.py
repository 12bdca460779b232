"""A prefill that fails has already appended to its first sequence what fitted of its tokens."""

from contextlib import suppress

from .engine import Engine, build_engine  # noqa: F401
from .errors import *  # noqa: F403
from .errors import EngineError

_right = Engine._serve


def _partly(self, mode, ids, q, k, v, qg, kg, lengths, out, stream):
    try:
        return _right(self, mode, ids, q, k, v, qg, kg, lengths, out, stream)
    except EngineError:
        if mode == "prefill":
            with suppress(Exception):
                n = min(lengths[0], self.memory()["pages_free"])
                first = [x[:n] for x in (q, k, v, qg, kg)]
                _right(self, mode, ids[:1], *first, [n], None if out is None else out[:n], stream)
        raise


Engine._serve = _partly
