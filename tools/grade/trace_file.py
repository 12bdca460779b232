"""Reads traces from JSON files; docs/grade.md defines the format. Everything that can't be is refused here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .trace import Cache, Call, Span, Trace

LAYOUTS = ("contiguous", "packed", "padded", "heads_first")
OUTPUTS = ("given", "returned")
ERRORS = (
    "ConfigError", "ShapeError", "StrideError", "LengthError", "DtypeError", "DeviceError", "UnknownSequence",
    "PagesExhausted", "NoKernelError", "PackError", "DriverError",
)  # fmt: skip
STRATUM = re.compile(r"(train|prefill|decode)-d\d+-r\d+")


class TraceError(ValueError):
    """A trace file that can't be understood: the file, the place in it, what was expected and what came."""


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
