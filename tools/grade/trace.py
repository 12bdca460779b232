"""Traces: lists of calls, as JSON, that an engine is put through. docs/grade.md defines the format.

A trace names data by seeds and says what should happen; it holds no values and no results.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

LAYOUTS = ("contiguous", "packed", "padded", "heads_first")
OUTPUTS = ("given", "returned")
ERRORS = (
    "ConfigError", "ShapeError", "StrideError", "LengthError", "DtypeError", "DeviceError", "UnknownSequence",
    "PagesExhausted", "NoKernelError", "PackError", "DriverError",
)  # fmt: skip
TIERS = {"serving": {"tight": (1.05, 64), "ample": (1.25, 256)}, "training": {"tight": (0.25, 64), "ample": (1.0, 256)}}
STRATUM = re.compile(r"(train|prefill|decode)-d\d+-r\d+")
MEBIBYTE = 1 << 20
ELEMENT_BYTES = 2


class TraceError(ValueError):
    """A trace file that can't be understood: the file, the place in it, what was expected and what came."""


class Span(NamedTuple):
    """`count` tokens of the endless stream `seed`, from token `start`."""

    seed: str
    start: int
    count: int


@dataclass(frozen=True)
class Call:
    """One call of an engine. Which fields count depends on `call`; docs/grade.md has the table."""

    call: str
    name: str = ""  # what the result is called: a sequence, a forward
    of: str = ""  # the sequence or forward that it goes on from
    sequences: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    batch: int = 0
    length: int = 0
    seed: str = ""
    scale: float = 1.0  # of q and k
    layout: str = "contiguous"
    output: str = "given"
    fails: str = ""  # the exception that must be raised

    @property
    def counts(self) -> tuple[int, ...]:
        """New tokens of each sequence of a prefill or decode."""
        return tuple(span.count for span in self.spans)


@dataclass(frozen=True)
class Trace:
    """A configuration and the calls made of its engine. `setup` comes before what is timed."""

    name: str
    covers: str
    config: Mapping[str, Any]
    tier: str
    calls: tuple[Call, ...]
    setup: tuple[Call, ...] = ()
    small: bool = False
    stream: str = "current"
    stratum: str = ""
    source: Path = field(default=Path(), compare=False)

    @property
    def dtype(self) -> str:
        """`bfloat16` or `float16`."""
        return self.config.get("dtype", "bfloat16")

    @property
    def mode(self) -> str:
        """`training`, or the serving mode that the trace is about."""
        return "training" if "training" in self.config["modes"] else self.config["modes"][-1]

    def limit(self) -> int:
        """memory_limit_bytes of the trace's tier, by the contract's formulas."""
        c = self.config
        pair = c["q_heads"], c["kv_heads"], c["head_dim"], c["gate_dim"]
        if self.mode == "training":
            steps = [call for call in (*self.setup, *self.calls) if call.call in ("forward", "attention")]
            held = max((step_bytes(call.batch * call.length, *pair) for call in steps), default=0)
        else:
            held = c["max_cached_tokens"] * token_bytes(*pair[1:])
        factor, mebibytes = TIERS["training" if self.mode == "training" else "serving"][self.tier]
        return int(held * factor) + mebibytes * MEBIBYTE


def token_bytes(kv_heads: int, head_dim: int, gate_dim: int) -> int:
    """Bytes of a cached token: k, v, kg."""
    return kv_heads * (2 * head_dim + gate_dim) * ELEMENT_BYTES


def step_bytes(rows: int, q_heads: int, kv_heads: int, head_dim: int, gate_dim: int) -> int:
    """Bytes of all inputs and outputs of a training step of `rows` tokens: five inputs, o, do, five gradients."""
    queries = q_heads * (4 * head_dim + 2 * gate_dim)
    return rows * (queries + 2 * kv_heads * (2 * head_dim + gate_dim)) * ELEMENT_BYTES


Tokens = dict[tuple[int, int], None]  # of a sequence, in order: (number of the call that appended it, its row there)


class Cache:
    """What each sequence of a trace holds, told by where its tokens came from; a fork's are its parent's."""

    def __init__(self) -> None:
        self.held: dict[str, Tokens] = {}
        self._calls = 0

    def apply(self, call: Call) -> None:
        """Does what a call does."""
        number, self._calls = self._calls, self._calls + 1
        if call.fails:
            return
        if call.call in ("create", "fork"):
            self.held[call.name] = dict(self.held.get(call.of, {}))
        elif call.call == "release":
            del self.held[call.of]
        elif call.call == "truncate":
            self.held[call.of] = dict(list(self.held[call.of].items())[: call.length])
        row = 0
        for name, count in zip(call.sequences, call.counts):
            self.held[name].update({(number, row + i): None for i in range(count)})
            row += count

    def lengths(self) -> dict[str, int]:
        """Tokens of each sequence."""
        return {name: len(tokens) for name, tokens in self.held.items()}


class _Reader:
    """Reads an object of a trace file, naming what is wrong with it."""

    def __init__(self, where: str, values: Any) -> None:
        self.where, self.left = where, values
        if not isinstance(values, dict):
            raise TraceError(f"{where}: expected an object, got {values!r:.60}")
        self.left = dict(values)

    def take(self, key: str, kind: type | tuple, default: Any = ..., among: tuple = ()) -> Any:
        if key not in self.left and default is not ...:
            return default
        if key not in self.left:
            raise TraceError(f"{self.where}: {key!r} is missing")
        value = self.left.pop(key)
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            name = kind.__name__ if isinstance(kind, type) else "number"
            raise TraceError(f"{self.where}: {key!r}: expected {name}, got {value!r:.60}")
        if among and value not in among:
            raise TraceError(f"{self.where}: {key!r}: expected one of {', '.join(among)}, got {value!r:.60}")
        return value

    def end(self) -> None:
        if self.left:
            raise TraceError(f"{self.where}: {next(iter(self.left))!r} is not a field here")


def _spans(reader: _Reader) -> tuple[tuple[str, ...], tuple[Span, ...]]:
    names, spans = [], []
    for i, values in enumerate(reader.take("rows", list)):
        row = _Reader(f"{reader.where}, row {i}", values)
        names.append(row.take("seq", str))
        spans.append(Span(row.take("seed", str), row.take("from", int, 0), row.take("count", int)))
        row.end()
    return tuple(names), tuple(spans)


def _call(where: str, values: Any) -> Call:
    reader = _Reader(where, values)
    kind = reader.take("call", str, among=tuple(_FIELDS))
    found: dict[str, Any] = {"call": kind}
    for key in _FIELDS[kind]:
        if key == "rows":
            found["sequences"], found["spans"] = _spans(reader)
        elif key == "as":
            found["name"] = reader.take("as", str)
        elif key in ("batch", "length"):
            found[key] = reader.take(key, int)
        else:
            found[key] = reader.take(key, str)
    if kind in _DATA_CALLS:
        found["layout"] = reader.take("layout", str, "contiguous", LAYOUTS)
        found["output"] = reader.take("out", str, "given", OUTPUTS)
        found["scale"] = float(reader.take("scale", (int, float), 1.0))
    found["fails"] = reader.take("fails", str, "", ("", *ERRORS))
    reader.end()
    return Call(**found)


_FIELDS = {
    "forward": ("as", "batch", "length", "seed"),
    "backward": ("of", "seed"),
    "attention": ("batch", "length", "seed"),
    "create": ("as",),
    "fork": ("of", "as"),
    "release": ("of",),
    "truncate": ("of", "length"),
    "prefill": ("rows",),
    "decode": ("rows",),
}
_DATA_CALLS = ("forward", "backward", "attention", "prefill", "decode")


def _calls(where: str, values: list) -> Iterator[Call]:
    """The calls of a list, `repeat` unrolled; `{i}` in names and seeds becomes the number of the round."""
    for i, value in enumerate(values):
        place = f"{where} {i}"
        if isinstance(value, dict) and "repeat" in value:
            reader = _Reader(place, value)
            rounds, body = reader.take("repeat", int), reader.take("calls", list)
            reader.end()
            if rounds < 1 or any(isinstance(each, dict) and "repeat" in each for each in body):
                raise TraceError(f"{place}: expected one round or more, of calls without a repeat of their own")
            for number in range(rounds):
                yield from _calls(f"{place}, round {number}:", json.loads(json.dumps(body).replace("{i}", str(number))))
        else:
            yield _call(place, value)


def _check_config(where: str, config: dict) -> None:
    """TraceError for a configuration that the harness itself can't work with; the rest is the engine's to judge."""
    modes = config.get("modes")
    if not isinstance(modes, list) or not modes or set(modes) - {"training", "prefill", "decode"}:
        raise TraceError(f"{where}: config: 'modes': expected a list of modes, got {modes!r:.60}")
    capacity = () if modes == ["training"] else ("max_sequences", "max_seq_len", "max_cached_tokens")
    for key in ("head_dim", "gate_dim", "q_heads", "kv_heads", *capacity):
        if not isinstance(config.get(key), int) or config[key] < 1:
            raise TraceError(f"{where}: config: {key!r}: expected a number above 0, got {config.get(key)!r:.60}")
    if config["q_heads"] % config["kv_heads"]:
        raise TraceError(f"{where}: config: 'q_heads': expected a multiple of kv_heads, got {config['q_heads']}")
    if config.get("dtype", "bfloat16") not in ("bfloat16", "float16"):
        raise TraceError(f"{where}: config: 'dtype': expected bfloat16 or float16, got {config['dtype']!r:.60}")
    if "memory_limit_bytes" in config:
        raise TraceError(f"{where}: config: 'memory_limit_bytes' comes from the tier")


def load_trace(path: Path) -> Trace:
    """Reads one trace. TraceError names the file, the place and the field."""
    try:
        reader = _Reader(str(path), json.loads(path.read_text()))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error
    config = reader.take("config", dict)
    _check_config(str(path), config)
    trace = Trace(
        name=path.stem,
        covers=reader.take("covers", str),
        config=config,
        tier=reader.take("tier", str, among=("tight", "ample")),
        setup=tuple(_calls(f"{path}: setup", reader.take("setup", list, []))),
        calls=tuple(_calls(f"{path}: call", reader.take("calls", list))),
        small=reader.take("small", bool, False),
        stream=reader.take("stream", str, "current", ("current", "side")),
        stratum=reader.take("stratum", str, ""),
        source=path,
    )
    reader.end()
    if not trace.calls:
        raise TraceError(f"{path}: 'calls': expected one or more")
    _check_calls(trace)
    return trace


def _check_calls(trace: Trace) -> None:
    """TraceError for a call that couldn't be made: of a sequence or forward that isn't there, of no tokens, …"""
    cache, ended, forwards = Cache(), set(), set()
    for number, call in enumerate((*trace.setup, *trace.calls)):
        for wrong in _wrong(call, cache, ended, forwards):
            raise TraceError(f"{trace.source}: call {number} of set-up and calls: {wrong}")
        cache.apply(call)
        if call.fails:
            continue
        if call.call == "release":
            ended.add(call.of)
        if call.call == "forward":
            forwards.add(call.name)
        elif call.call == "backward":
            forwards.discard(call.of)


def _wrong(call: Call, cache: Cache, ended: set[str], forwards: set[str]) -> Iterator[str]:
    """What can't be in a call, given what came before it."""
    known = forwards if call.call == "backward" else {*cache.held, *(ended if call.fails else ())}
    for name in {call.of, *call.sequences} - {""} - known:
        yield f"there is no {name!r} at this point; there are {', '.join(sorted(known)) or 'none'}"
    if call.call in ("create", "fork") and call.name in {*cache.held, *ended}:
        yield f"'as': {call.name!r} was there before; a name is used once"
    if len(set(call.sequences)) < len(call.sequences):
        yield "'rows': a sequence may appear once in a call"
    if any(span.count < 0 or span.start < 0 for span in call.spans):
        yield "'rows': expected counts and places that aren't negative"
    if call.call in ("forward", "attention") and min(call.batch, call.length) < 1:
        yield f"'batch', 'length': expected 1 or more, got {call.batch}, {call.length}"
    if call.call == "truncate" and not 0 <= call.length <= len(cache.held.get(call.of, ())) and not call.fails:
        yield f"'length': expected 0 to {len(cache.held.get(call.of, ()))}, got {call.length}"
    if not 0 < call.scale < math.inf:
        yield f"'scale': expected a number above 0, got {call.scale}"


def load_traces(folder: Path) -> list[Trace]:
    """All traces of a folder, by name. TraceError if there is none."""
    traces = [load_trace(path) for path in sorted(folder.glob("*.json"))]
    if not traces:
        raise TraceError(f"{folder}: expected trace files, *.json, found none")
    return traces


def load_workloads(folder: Path) -> list[Trace]:
    """The traces that a folder's manifest.json lists, each of a stratum. TraceError if one is missing or has none."""
    path = folder / "manifest.json"
    try:
        reader = _Reader(str(path), json.loads(path.read_text()))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TraceError(f"{path}: {error}") from error
    names = reader.take("workloads", list)
    reader.end()
    workloads = [load_trace(folder / str(name)) for name in names]
    if not workloads:
        raise TraceError(f"{path}: 'workloads': expected names of trace files, got none")
    for workload in workloads:
        if not STRATUM.fullmatch(workload.stratum):
            raise TraceError(
                f"{workload.source}: 'stratum': expected train, prefill or decode with -dD-rR, got {workload.stratum!r}"
            )
        if any(call.fails or call.output != "given" or call.call == "attention" for call in workload.calls):
            raise TraceError(
                f"{workload.source}: a workload's calls don't fail, are given their outputs, aren't attention"
            )
        if not any(call.call in _DATA_CALLS for call in workload.calls):
            raise TraceError(f"{workload.source}: a workload needs a call with an output, got none")
    return workloads
