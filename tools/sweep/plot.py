"""The plot of a sweep: a bar for each timed point, with matplotlib."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from .outcome import Outcome

POINT_COLOR, BEST_COLOR, INCUMBENT_COLOR = "#9db4c8", "#2f6f9f", "#d98032"
RING_COLOR = "#a02c2c"
INCHES_PER_POINT, INCHES_AROUND = 0.28, 1.6


def write_plot(path: Path, title: str, outcome: Outcome, incumbent: str) -> None:
    """Writes a PNG: margins over the incumbent in percent, the fastest on top, spreads as error bars, times beside.

    What the confirming rounds say of the fastest is a ring on its bar.
    """
    results = outcome.timed
    figure, axes = pyplot.subplots(figsize=(10, INCHES_AROUND + INCHES_PER_POINT * len(results)), dpi=130)
    for place, result in enumerate(results):
        is_incumbent = result.point == incumbent
        color = INCUMBENT_COLOR if is_incumbent else BEST_COLOR if place == 0 else POINT_COLOR
        margin, spread = 100 * result.margin, 100 * result.spread
        axes.barh(place, margin, color=color, height=0.7)
        axes.errorbar(margin, place, xerr=spread, color="#333333", capsize=2.5, linewidth=1)
        if is_incumbent:
            axes.plot(0, place, marker="D", color=INCUMBENT_COLOR, markersize=7)
        axes.annotate(
            f"{result.milliseconds:.4g} ms",
            (1.01, place),
            xycoords=("axes fraction", "data"),
            verticalalignment="center",
            fontsize=8,
        )
    if best := outcome.confirmed:
        ring = {"marker": "o", "markersize": 7, "markerfacecolor": "white"}
        axes.errorbar(100 * best.margin, 0, xerr=100 * best.spread, color=RING_COLOR, capsize=2.5, linewidth=1, **ring)
    axes.axvline(0, color=INCUMBENT_COLOR, linewidth=1, linestyle="--")
    notes = {incumbent: "  (incumbent)"}
    labels = [result.point.replace("-", "  ") + notes.get(result.point, "") for result in results]
    axes.set_yticks(range(len(results)), labels, fontsize=8)
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.set_xlabel(
        "faster than the incumbent, % (median over rounds; error bars: half the interquartile range; ring: confirming "
        "rounds)",
        fontsize=9,
    )
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    fresh = path.with_name(f"{path.stem}.new.png")
    figure.savefig(fresh, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(figure)
    fresh.replace(path)
