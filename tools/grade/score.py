"""From latencies to the score: geometric means within a stratum, over the strata of a mode, over the modes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import geometric_mean

SPAN, LOGARITHM = 5.2, math.log(20)


def combine(latencies: Mapping[str, float], strata: Mapping[str, str]) -> dict[str, float]:
    """One figure a stratum and mode, and `all`, from a figure a workload. strata: each workload's stratum, mode-…"""
    combined = _means({name: strata[name] for name in latencies}, latencies)
    modes = _means({name: name.partition("-")[0] for name in combined}, combined)
    return {**combined, **modes, "all": geometric_mean(modes.values())}


def _means(groups: Mapping[str, str], figures: Mapping[str, float]) -> dict[str, float]:
    members: dict[str, list[float]] = {}
    for name, group in groups.items():
        members.setdefault(group, []).append(figures[name])
    return {group: geometric_mean(found) for group, found in members.items()}


def score(speedup: float) -> float:
    """0 for an engine no faster than the starter, 1 from 5.94 times its speed on."""
    p = (speedup - 1) / SPAN
    if p <= 0:
        return 0.0
    return 1.0 if p >= 0.95 else -math.log(1 - p) / LOGARITHM
