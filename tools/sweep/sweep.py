"""SWEEP.json: what to vary, on which plan, and what to time. docs/sweep.md defines the fields."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# operation -> the engine's call that is timed for it
STEPS = {
    "forward": "forward",
    "backward_dq": "backward",
    "backward_dkv": "backward",
    "prefill": "prefill",
    "decode": "decode",
    "decode_merge": "decode",
}
DTYPES = ("bfloat16", "float16")
MIN_ROUNDS, MAX_ROUNDS = 5, 1000
MIN_CONFIRMING_ROUNDS = 30  # with fewer, two equal points differ by more than the spread too often
MAX_DECODE_LENGTH = 8  # tokens of a sequence in one call


class SweepError(ValueError):
    """Something in the sweep file, the plan or the state folder is wrong; the text names it."""


@dataclass(frozen=True)
class Shape:
    """Work to time: `length` new tokens of each of `batch` sequences, after `cached` tokens (serving only)."""

    batch: int
    length: int
    q_heads: int
    kv_heads: int
    cached: int = 0

    @property
    def name(self) -> str:
        """b4-h16/16-s2048, and -c1024 if tokens are cached."""
        cached = f"-c{self.cached}" if self.cached else ""
        return f"b{self.batch}-h{self.q_heads}/{self.kv_heads}-s{self.length}{cached}"


@dataclass(frozen=True)
class Case:
    """One thing that every point is timed on."""

    dtype: str
    shape: Shape

    @property
    def name(self) -> str:
        """bfloat16 b4-h16/16-s2048"""
        return f"{self.dtype} {self.shape.name}"


@dataclass(frozen=True)
class Sweep:
    """A sweep file. file: where it was read, for messages. plan: path, relative to the project.

    variant: which, if the plan lists several of the operation. tile: field -> values; the points are their product,
    other fields stay as the plan has them.
    """

    file: Path = field(compare=False)
    name: str
    plan: str
    operation: str
    variant: int
    tile: dict[str, list[int]]
    dtypes: list[str]
    shapes: list[Shape]
    rounds: int

    @property
    def step(self) -> str:
        """The engine's call that is timed."""
        return STEPS[self.operation]

    @property
    def confirming_rounds(self) -> int:
        """How often the fastest point and the incumbent are timed again, by themselves."""
        return max(self.rounds, MIN_CONFIRMING_ROUNDS)

    @property
    def cases(self) -> list[Case]:
        """Every dtype on every shape."""
        return [Case(dtype, shape) for dtype in self.dtypes for shape in self.shapes]

    def points(self, incumbent: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Name -> tile of each point, the incumbent (the plan's own tile) first and once."""
        products = (dict(zip(self.tile, values)) for values in itertools.product(*self.tile.values()))
        tiles = [dict(incumbent)] + [{**incumbent, **product} for product in products]
        return {self.point_name(tile): tile for tile in tiles}

    def point_name(self, tile: Mapping[str, int]) -> str:
        """tile_m64-tile_n32: the swept fields, which is all that tells points apart."""
        return "-".join(f"{name}{tile[name]}" for name in self.tile)


def read_sweep(path: Path) -> Sweep:
    """Reads a sweep file. Errors: SweepError, naming file, field, value and what is accepted."""
    fields = _Fields(read_json(path), path)
    sweep = Sweep(
        file=path,
        name=fields.take("name", "lower-case letters, digits, - and _, a letter or digit first", _is_name),
        plan=fields.take("plan", "the path of a plan file", lambda value: isinstance(value, str)),
        operation=fields.take("operation", f"one of {', '.join(STEPS)}", lambda value: value in list(STEPS)),
        variant=fields.take("variant", "an integer from 0", lambda value: _is_integer(value, 0), default=0),
        tile=fields.take("tile", "an object, tile field -> list of different integers, at least one", _are_ranges),
        dtypes=fields.take("dtypes", f"a list from {', '.join(DTYPES)}, each once", _are_dtypes),
        shapes=fields.take("shapes", "a list of objects, at least one", _are_objects),
        rounds=fields.take(
            "rounds",
            f"an integer from {MIN_ROUNDS} to {MAX_ROUNDS}",
            lambda value: _is_integer(value, MIN_ROUNDS) and value <= MAX_ROUNDS,
        ),
    )
    fields.finish()
    serving = sweep.step in ("prefill", "decode")
    shapes = [_read_shape(_Fields(shape, path, f"shapes[{i}]."), serving) for i, shape in enumerate(sweep.shapes)]
    for i, shape in enumerate(shapes):
        place = f"{path}: shapes[{i}]"
        if shape in shapes[:i]:
            raise SweepError(f"{place}: expected each shape once, got {shape.name} again")
        if shape.q_heads % shape.kv_heads:
            raise SweepError(f"{place}.q_heads: expected a multiple of kv_heads, {shape.kv_heads}, got {shape.q_heads}")
        if sweep.step == "decode" and shape.length > MAX_DECODE_LENGTH:
            raise SweepError(f"{place}.length: expected 1 to {MAX_DECODE_LENGTH} for decode, got {shape.length}")
    return Sweep(**{**vars(sweep), "shapes": shapes})


def read_plan(path: Path, sweep: Sweep) -> dict:
    """The plan that a sweep starts from, as data. Errors: SweepError if it isn't one that the sweep file fits."""
    try:
        plan = read_json(path)
    except SweepError as error:
        raise SweepError(f"{sweep.file}: plan: {error}") from None
    try:
        kernel = kernel_of(plan, sweep)
        tile, group, dtypes = kernel["tile"], plan["group"], plan["dtypes"]
    except (LookupError, TypeError):
        variant = f", variant {sweep.variant}" if sweep.variant else ""
        expected = f"expected one with a kernel for {sweep.operation}{variant}"
        raise SweepError(f"{sweep.file}: plan: {expected}, got {path}") from None
    for name in sweep.tile:
        if name not in tile:
            expected = f"expected one of {', '.join(tile)}, which {path} has for {sweep.operation}"
            raise SweepError(f"{sweep.file}: tile: {expected}, got {name}")
    for dtype in sweep.dtypes:
        if dtype not in dtypes:
            expected = f"expected a list from {', '.join(dtypes)}, which {path} has"
            raise SweepError(f"{sweep.file}: dtypes: {expected}, got {dtype}")
    for i, shape in enumerate(sweep.shapes):
        if group not in (0, shape.q_heads // shape.kv_heads):
            expected = f"expected {group} q_heads for each kv_head, as {path} has"
            raise SweepError(f"{sweep.file}: shapes[{i}]: {expected}, got {shape.q_heads} for {shape.kv_heads}")
    return plan


def kernel_of(plan: Mapping, sweep: Sweep) -> dict:
    """What a plan says of the swept kernel. Errors: LookupError."""
    kernel = plan["kernels"][sweep.operation]
    variants = kernel if isinstance(kernel, list) else [kernel]
    return variants[sweep.variant]


def point_plan(plan: Mapping, sweep: Sweep, tile: Mapping[str, int]) -> dict:
    """The plan of one point: the swept kernel alone with this tile, for every size."""
    kernel = {field: value for field, value in kernel_of(plan, sweep).items() if field != "when"}
    return {**plan, "dtypes": sweep.dtypes, "kernels": {sweep.operation: {**kernel, "tile": dict(tile)}}}


def read_json(path: Path) -> Any:
    """The content of a JSON file. Errors: SweepError."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise SweepError(f"{path}: can't be read: {error.strerror}") from None
    except ValueError as error:
        raise SweepError(f"{path}: not JSON: {error}") from None


class _Fields:
    """The fields of an object, each taken once; what is left at the end is unknown.

    prefix: what stands before a field's name in messages, as "shapes[0].".
    """

    def __init__(self, document: Any, file: Path, prefix: str = "") -> None:
        if not isinstance(document, dict):
            raise SweepError(f"{file}: expected a JSON object, got {json.dumps(document)}")
        self._fields, self._place, self._accepted = dict(document), f"{file}: {prefix}", []

    def take(self, name: str, accepted: str, good: Any, default: Any = None) -> Any:
        """The field's value, if `good` holds of it. default: its value if it is absent; None: it is required."""
        self._accepted.append(name)
        value = self._fields.pop(name, default)
        if value is None or not good(value):
            got = "nothing" if value is None else json.dumps(value)
            raise SweepError(f"{self._place}{name}: expected {accepted}, got {got}")
        return value

    def finish(self) -> None:
        """Refuses fields that nobody took."""
        for name in self._fields:
            accepted = ", ".join(self._accepted)
            raise SweepError(f"{self._place}{name}: expected a field of {accepted}, got an unknown one")


def _read_shape(fields: _Fields, serving: bool) -> Shape:
    sizes = {
        name: fields.take(name, "an integer from 1", lambda value: _is_integer(value, 1))
        for name in ("batch", "length", "q_heads", "kv_heads")
    }
    if serving:
        sizes["cached"] = fields.take("cached", "an integer from 0", lambda value: _is_integer(value, 0))
    fields.finish()
    return Shape(**sizes)


def _is_integer(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9][a-z0-9_-]*", value) is not None


def _are_ranges(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(_is_range(values) for values in value.values())


def _is_range(values: Any) -> bool:
    return _are_different(values) and all(type(value) is int for value in values)


def _are_dtypes(value: Any) -> bool:
    return _are_different(value) and all(dtype in DTYPES for dtype in value)


def _are_different(values: Any) -> bool:
    return isinstance(values, list) and 0 < len(values) == len(set(map(str, values)))


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
