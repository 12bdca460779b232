"""The plots of a run, from its rows alone: bars against peers, rooflines, decode against bytes. Needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from .report import PEER_NAMES

# Okabe and Ito's colours, which colour-blind readers can tell apart. One contender, one colour, in every plot.
COLOURS = {"ours": "#0072b2", "triton": "#e69f00", "cudnn": "#009e73", "eager": "#b3b3b3", "read": "#56b4e9"}
INK, FAINT = "#222222", "#d9d9d9"
STYLE = {
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
}
WIDTH, DPI = 11.0, 130
MARKERS = {"forward": "o", "backward": "s", "prefill": "^", "decode": "D"}


def chosen(rows: Sequence[dict], operation: str, regime: str) -> list[dict]:
    """The rows of an operation in a regime that hold a contender."""
    return [r for r in rows if r["operation"] == operation and r["regime"] == regime and r["contenders"]]


def bars(rows: Sequence[dict], operation: str, regime: str) -> Figure:
    """A small panel for each shape, a bar for each contender: TB/s for decode, else TFLOP/s."""
    unit = "tbps" if operation == "decode" else "tflops"
    shapes = chosen(rows, operation, regime)
    most = max(len(row["contenders"]) for row in shapes)
    columns = min(2, len(shapes))
    lines = -(-len(shapes) // columns)
    figure = Figure(figsize=(WIDTH, 0.55 + 1.35 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False, sharex=True).flatten()
    for axis, row in zip(axes, shapes):
        names = [name for name in COLOURS if name in row["contenders"]]
        values = [row["contenders"][name][unit] for name in names]
        axis.barh(names, values, color=[COLOURS[name] for name in names], height=0.72)
        axis.set_yticks(range(len(names)), [PEER_NAMES[name] for name in names])
        axis.set_ylim(most - 0.5, -0.5)  # the same thickness in every panel
        axis.set_title(_title(row))
        for place, value in enumerate(values):
            text = f" {value:.2f}" if unit == "tbps" else f" {value:.0f}"
            axis.text(value, place, text, va="center", fontweight="bold" if names[place] == "ours" else "normal")
        axis.tick_params(length=0)
        axis.spines["bottom"].set_visible(False)
        axis.set_xticks([])
    for axis in axes[len(shapes) :]:
        axis.set_visible(False)
    axes[0].margins(x=0.12)
    label = "TB/s" if unit == "tbps" else "TFLOP/s"
    figure.suptitle(f"{operation}, {regime}, {label}", x=0.01, ha="left", weight="bold")
    return figure


def _title(row: dict) -> str:
    """The shape, and its stratum if the name doesn't begin with it."""
    stratum = row["stratum"]
    return row["name"] if not stratum or row["name"].startswith(stratum) else f"{row['name']}   {stratum}"


def roofline(rows: Sequence[dict], sheet: dict, regime: str) -> Figure:
    """A panel for each operation: TFLOP/s over FLOPs a byte, the datasheet's two ceilings, a point for each shape."""
    operations = [operation for operation in MARKERS if chosen(rows, operation, regime)]
    figure = Figure(figsize=(WIDTH, 3.6 * -(-len(operations) // 2)), layout="constrained")
    axes = figure.subplots(-(-len(operations) // 2), 2, squeeze=False).flatten()
    for axis, operation in zip(axes, operations):
        _ceilings(axis, chosen(rows, operation, regime), sheet)
        for name in ("triton", "ours"):
            points = [
                (row["flops"] / row["bytes"], row["contenders"][name]["tflops"], row)
                for row in chosen(rows, operation, regime)
                if name in row["contenders"]
            ]
            if points:
                axis.scatter(
                    *zip(*((x, y) for x, y, _ in points)), s=34, marker=MARKERS[operation], color=COLOURS[name],
                    label=PEER_NAMES[name], zorder=3, edgecolors="white", linewidths=0.6,
                )  # fmt: skip
        axis.set_title(f"{operation}, {regime}", weight="bold")
        axis.set_xlabel("FLOP / byte")
        axis.set_ylabel("TFLOP/s")
        axis.legend(frameon=False, loc="lower right", handletextpad=0.1)
    for axis in axes[len(operations) :]:
        axis.set_visible(False)
    return figure


def _ceilings(axis: Axes, rows: Sequence[dict], sheet: dict) -> None:
    """Log axes around the rows' points, with memory and product ceilings labelled on the lines."""
    intensities = [row["flops"] / row["bytes"] for row in rows]
    rates = [row["contenders"][who]["tflops"] for row in rows for who in ("ours", "triton") if who in row["contenders"]]
    ridge = sheet["tflops"] / sheet["tbps"]
    low, high = min(*intensities, ridge) / 2, max(*intensities, ridge) * 2
    corners = [low, ridge, high], [low * sheet["tbps"], sheet["tflops"], sheet["tflops"]]
    axis.loglog(*corners, color=INK, lw=1.2, zorder=2)
    axis.fill_between(*corners, 1e9, color="#f4f4f4")
    bottom = min([*rates, low * sheet["tbps"]]) / 2
    axis.set_xlim(low, high)
    axis.set_ylim(bottom, sheet["tflops"] * 2.2)
    axis.annotate(
        f"{sheet['tflops']:g} TFLOP/s", (high, sheet["tflops"]), (-4, 4), textcoords="offset points", ha="right"
    )
    middle = (low * ridge) ** 0.5
    axis.annotate(
        f"{sheet['tbps']:g} TB/s", (middle, middle * sheet["tbps"]), (7, -7), textcoords="offset points", va="top"
    )
    axis.grid(color=FAINT, lw=0.4, which="major")
    _plain_ticks(axis.xaxis)
    _plain_ticks(axis.yaxis)


def decode(rows: Sequence[dict], sheet: dict | None, regime: str) -> Figure:
    """Achieved TB/s over the bytes of a decode call, ours and Triton beside the curve of a plain read."""
    shapes = sorted(chosen(rows, "decode", regime), key=lambda row: row["bytes"])
    figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
    axis = figure.subplots()
    for name in ("read", "triton", "ours"):
        points = [(row["bytes"] / 1e6, row["contenders"][name]["tbps"]) for row in shapes if name in row["contenders"]]
        if not points:
            continue
        style = {"lw": 1.6, "marker": None} if name == "read" else {"lw": 0, "marker": "D", "ms": 6, "mec": "white"}
        axis.plot(*zip(*points), color=COLOURS[name], **style)
    for name, nudge in (("read", 10), ("triton", -14), ("ours", 8)):
        there = [row for row in shapes if name in row["contenders"]]
        if there:
            last = there[-1]
            axis.annotate(
                PEER_NAMES[name], (last["bytes"] / 1e6, last["contenders"][name]["tbps"]), (8, nudge / 3),
                textcoords="offset points", color=COLOURS[name], weight="bold",
            )  # fmt: skip
    for megabytes, label in _labels(shapes):
        axis.axvline(megabytes, color=FAINT, lw=0.6, zorder=0)
        axis.annotate(
            label, (megabytes, 0), (-2, 4), textcoords="offset points", rotation=90, ha="right", va="bottom",
            fontsize=7.5, color="#666666",
        )  # fmt: skip
    if sheet:
        axis.axhline(sheet["tbps"], color=INK, lw=1)
        axis.annotate(
            f"{sheet['tbps']:g} TB/s, datasheet", (0, sheet["tbps"]), (4, 4), xycoords=("axes fraction", "data"),
            textcoords="offset points",
        )  # fmt: skip
    axis.set_xscale("log")
    axis.set_xlabel("MB that a call must move")
    axis.set_ylabel("TB/s")
    axis.set_ylim(0)
    axis.margins(x=0.12)
    axis.set_title(f"decode, {regime}", weight="bold")
    axis.grid(color=FAINT, lw=0.4, axis="y")
    _plain_ticks(axis.xaxis)
    return figure


def _labels(shapes: Sequence[dict]) -> list[tuple[float, str]]:
    """(megabytes, names) for rows in the order of their bytes; those that would lie on one another share a label."""
    groups: list[list[dict]] = []
    for row in shapes:
        if groups and row["bytes"] < 1.03 * groups[-1][0]["bytes"]:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [(g[0]["bytes"] / 1e6, "\n".join(row["name"].removeprefix("decode-") for row in g)) for g in groups]


def _plain_ticks(axis: Axis) -> None:
    """1, 2, 5, 10, … instead of powers."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def figures(facts: dict) -> dict[str, Figure]:
    """Every plot of a run by its file's name, without the ending. Those whose rows aren't there are left out."""
    found = {}
    rows, sheet = facts["rows"], facts["datasheet"]
    with matplotlib.rc_context(STYLE):
        for regime in ("burst", "sustained"):
            for operation in MARKERS:
                if chosen(rows, operation, regime):
                    found[f"{operation}-{regime}"] = bars(rows, operation, regime)
            if sheet and any(chosen(rows, operation, regime) for operation in MARKERS):
                found[f"roofline-{regime}"] = roofline(rows, sheet, regime)
            if chosen(rows, "decode", regime):
                found[f"decode-bytes-{regime}"] = decode(rows, sheet, regime)
    return found


def png(figure: Figure) -> bytes:
    """A figure as a PNG on white."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    return buffer.getvalue()
