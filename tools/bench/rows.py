"""The rows of a run: what tables and plots are made of."""

from __future__ import annotations

from dataclasses import asdict

from .floors import Datasheet
from .shapes import Serving, Training


def row(
    shape: Training | Serving,
    operation: str,
    regime: str,
    timings: dict[str, dict],
    flops: dict[str, int],
    sheet: Datasheet | None,
    missing: dict[str, str],
) -> dict:
    """A row of the results. ratios: of rates, each contender's by its own FLOPs, above 1 where ours is the faster.

    timings: {milliseconds, calls, sm_mhz} by contender. flops: by contender; one whose FLOPs differ does another work,
    and has no part of this floor. missing: reasons by contender.
    """
    moved = shape.bytes(operation)
    floor = sheet.floor_ms(shape.flops(operation), moved) if sheet else None
    contenders = {}
    for name, timing in timings.items():
        speeds = {"tflops": flops[name] / timing["milliseconds"] / 1e9, "tbps": moved / timing["milliseconds"] / 1e9}
        same_work = flops[name] == shape.flops(operation)
        part = floor / timing["milliseconds"] if floor and same_work else None
        contenders[name] = {**timing, **speeds, "of_floor": part}
    ours = contenders.get("ours")
    ratios = {name: ours["tflops"] / other["tflops"] for name, other in contenders.items() if name != "ours" and ours}
    about = {"name": shape.name, "stratum": shape.stratum, "operation": operation, "regime": regime}
    work = {"flops": shape.flops(operation), "bytes": moved, "floor_ms": floor}
    figures = {"contenders": contenders, "ratios": ratios, "missing": dict(missing)}
    return {**about, **asdict(shape.heads), **work, **figures}
