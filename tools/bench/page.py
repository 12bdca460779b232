"""`python -m tools.bench.page RESULTS.json --out FOLDER`: one self-contained page of a run, and its plots as PNG.

The page, index.html, needs nothing else: the plots are inside it. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import base64
import html
from collections.abc import Sequence
from pathlib import Path

from tools.needs import missing

from .report import HOST_COLUMNS, PEER_NAMES, PEERS, host_cells, missing_lines, read_json
from .results import notes, short_commit, startup_rows

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 1180px; margin: 2.5rem auto;
       padding: 0 1.2rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.2rem; margin: 2.6rem 0 .6rem }
p.where { color: #666; margin-top: .2rem } img { width: 100%; height: auto; margin: .4rem 0 1.2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; width: 100%; margin: .6rem 0 }
th { text-align: right; vertical-align: bottom; font-weight: 600; border-bottom: 1.5px solid #222;
     padding: .3rem .55rem }
td { text-align: right; border-bottom: 1px solid #eee; padding: .22rem .55rem; white-space: nowrap }
th.word, td.word { text-align: left } td.slow, li.missed { color: #b3261e }
li { margin: .2rem 0 }
"""

REGIMES = ("burst", "sustained")
PLOTS = (
    ("A bar for each shape against its peers", ("forward", "backward", "prefill", "decode")),
    ("Rooflines", ("roofline",)),
    ("Decode against bytes", ("decode-bytes",)),
)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """An HTML table; the first `words` columns are words. Ratios below 1, in columns named "× …", are red."""

    def cell(tag: str, i: int, text: str) -> str:
        kinds = ["word"] if i < words else []
        if tag == "td" and columns[i].startswith("× ") and text != "-" and float(text) < 1:
            kinds.append("slow")
        return f'<{tag} class="{" ".join(kinds)}">{html.escape(text)}</{tag}>'

    head = "".join(cell("th", i, text) for i, text in enumerate(columns))
    body = "".join("<tr>" + "".join(cell("td", i, text) for i, text in enumerate(row)) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def timing_table(rows: Sequence[dict], unit: str) -> str:
    """Rows of one unit, tflops or tbps, with the rate of every contender that any of them has."""
    peers = [peer for peer in PEERS if any(peer in row["contenders"] for row in rows)]
    columns = ["shape", "operation", "ours ms", "SM MHz", "of floor", PEER_NAMES["ours"]]
    for peer in peers:
        # A plain read is a bound, not a rival.
        columns += PEER_NAMES[peer], "of that" if peer == "read" else f"× {PEER_NAMES[peer].split(',')[0]}"

    def speed(row: dict, contender: str) -> str:
        digits = 2 if unit == "tbps" else 0
        return f"{row['contenders'][contender][unit]:.{digits}f}" if contender in row["contenders"] else "-"

    cells = []
    for row in rows:
        ours = row["contenders"].get("ours", {})
        milliseconds, clock, part = (ours.get(key) for key in ("milliseconds", "sm_mhz", "of_floor"))
        line = [row["name"], row["operation"], f"{milliseconds:.3f}" if milliseconds else "-"]
        line += f"{clock:.0f}" if clock else "-", f"{100 * part:.0f} %" if part else "-", speed(row, "ours")
        for peer in peers:
            line += speed(row, peer), f"{row['ratios'][peer]:.2f}" if peer in row["ratios"] else "-"
        cells.append(line)
    return table(columns, cells, 2)


def _tables(rows: Sequence[dict]) -> str:
    """Of each regime, what products bound in TFLOP/s and decode in TB/s."""
    found = []
    for regime in REGIMES:
        for unit, title in (("tflops", "TFLOP/s"), ("tbps", "TB/s")):
            chosen = [r for r in rows if r["regime"] == regime and (r["operation"] == "decode") == (unit == "tbps")]
            if chosen:
                found.append(f"<h2>All rows: {regime}, {title}</h2>{timing_table(chosen, unit)}")
    return "".join(found)


def render(facts: dict, pictures: dict[str, bytes]) -> str:
    """The page for a run and its plots, PNG by name.

    Errors: ValueError if the run doesn't say of which commit it is; KeyError if it isn't as the bench writes it.
    """
    items = [*missing_lines(facts["rows"]), *facts["failures"]]
    about = notes(facts).replace("\n  ", " ").strip().splitlines()
    sections = []
    for title, kinds in PLOTS:
        shown = [f"{kind}-{regime}" for kind in kinds for regime in REGIMES if f"{kind}-{regime}" in pictures]
        if shown:
            sections.append(f"<h2>{title}</h2>" + "".join(_picture(name, pictures[name]) for name in shown))
    versions = f"driver {facts['driver']}, torch {facts['torch']}, triton {facts['triton']}"
    where = f"{short_commit(facts)} · {versions}"
    title = f"Stratum on {facts['gpu']}"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{html.escape(title)}</h1>
<p class="where">{html.escape(where)} · {facts["date"]}, one run of {facts["seconds"]} s</p>
{_list(about)}
{"".join(sections)}
{_tables(facts["rows"])}
{_list(items)}
<h2>Host time of a call on an idle GPU</h2>
{table(HOST_COLUMNS, [host_cells(row) for row in facts["host"]], 2)}
<h2>Start-up and pack</h2>
{table(("what", "value", "unit"), startup_rows(facts), 1)}
<h2>Bars</h2>
{_list([bar["bar"] for bar in facts["bars"]])}
</body></html>
"""


def _list(lines: Sequence[str]) -> str:
    items = "".join(
        f'<li class="{"missed" if line.startswith("missed") else ""}">{html.escape(line.removeprefix("- "))}</li>'
        for line in lines
    )
    return f"<ul>{items}</ul>" if items else ""


def _picture(name: str, data: bytes) -> str:
    return f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'


def write(facts: dict, folder: Path) -> Path:
    """Writes index.html and the plots to a folder, and returns the page's path.

    Errors: ImportError without matplotlib; those of `render`, before anything is written.
    """
    from . import plots

    pictures = {name: plots.png(figure) for name, figure in plots.figures(facts).items()}
    text = render(facts, pictures)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in pictures.items():
        (folder / f"{name}.png").write_bytes(data)
    target = folder / "index.html"
    target.write_text(text)
    return target


def render_if_possible(facts: dict, folder: Path) -> str:
    """Writes the page, and says where it is or why it isn't."""
    if lack := missing("matplotlib"):
        command = f"python -m tools.bench.page {folder / 'results.json'} --out {folder}"
        return f"no page, {lack}; where it is: {command}"
    try:
        return f"page: {write(facts, folder)}"
    except ValueError as error:
        return f"no page: {error}"


def main() -> None:
    """Renders the run that the command line names."""
    parser = argparse.ArgumentParser(prog="tools.bench.page", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, metavar="RESULTS.json", help="what the bench wrote")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="for the page and the plots")
    options = parser.parse_args()
    if lack := missing("matplotlib"):
        parser.error(f"{lack}; `make setup` installs it in .venv")
    try:
        print(write(read_json(options.file), options.out))
    except KeyError as error:
        parser.error(f"{options.file}: lacks {error}: not what this bench wrote")
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except ValueError as error:
        parser.error(f"{options.file}: {error}")


if __name__ == "__main__":
    main()
