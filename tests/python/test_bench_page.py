"""The page of a run: whole, self-contained, and every shape on it."""

from __future__ import annotations

import html.parser
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench_run import made_up_run
from conftest import ROOT

from tools.bench import page
from tools.bench.shapes import SHAPES

PICTURES = {"forward-burst": b"\x89PNG one", "roofline-burst": b"\x89PNG two"}
VOID = {"meta", "img"}

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


class Page(html.parser.HTMLParser):
    """Text, links to elsewhere, pictures, and the cells of each table; a tag that doesn't match fails."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.sources: list[str] = []
        self.tables: list[list[int]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value for name, value in attrs if name in ("src", "href") and value]
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append(0)
        if tag in ("td", "th"):
            self.tables[-1][-1] += 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_is_whole_and_needs_nothing_else():
    run = made_up_run(failures=['decode: <wrong> & "odd"'])
    text = page.render(run, PICTURES)
    assert "http://" not in text and "https://" not in text and "<script" not in text
    parsed = Page(text)
    assert len(parsed.sources) == len(PICTURES)
    assert all(source.startswith("data:image/png;base64,") for source in parsed.sources)
    assert 'decode: <wrong> & "odd"' in parsed.words
    for shape in SHAPES:
        assert parsed.words.count(shape.name) == 2 * len(shape.operations)  # a row for each operation and regime
    assert all(bar["bar"] in parsed.words for bar in run["bars"])


def test_tables_line_up():
    run = made_up_run()
    parsed = Page(page.render(run, {}))
    assert all(len(set(cells)) == 1 for cells in parsed.tables)
    decode = sum(row["operation"] == "decode" for row in run["rows"])
    one_regime = [(len(run["rows"]) - decode) // 2, decode // 2]  # products, then decode
    others = [len(run["host"]), 3 * len(run["startup"]) + 1]
    assert [len(cells) - 1 for cells in parsed.tables] == [*one_regime, *one_regime, *others]


def test_a_run_in_bursts_alone():
    run = made_up_run()
    run["rows"] = [row for row in run["rows"] if row["regime"] == "burst"]
    text = page.render(run, {})
    assert "All rows: burst" in text and "All rows: sustained" not in text


def test_rows_without_ours_and_without_a_datasheet():
    run = made_up_run(datasheet=None)
    for row in run["rows"]:
        del row["contenders"]["ours"]
        row["ratios"], row["missing"] = {}, {"ours": "no kernel"}
    parsed = Page(page.render(run, {}))
    assert any("ours left out of" in words and words.endswith("no kernel") for words in parsed.words)
    assert any("unknown for this GPU" in words for words in parsed.words)


def test_without_matplotlib_the_bench_says_so(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "tools.bench.plots", raising=False)
    said = page.render_if_possible(made_up_run(), tmp_path)
    assert said.startswith(f"no page, matplotlib is missing in {sys.executable}; where it is: ")
    assert f"python -m tools.bench.page {tmp_path / 'results.json'} --out {tmp_path}" in said
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_file_is_not_to_blame(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(sys, "argv", ["page", "results.json", "--out", "page"])
    with pytest.raises(SystemExit) as end:
        page.main()
    assert end.value.code == 2
    said = capsys.readouterr().err.partition("error: ")[2]
    assert said == f"matplotlib is missing in {sys.executable}; `make setup` installs it in .venv\n"


def run_page(file: Path, out: Path) -> subprocess.CompletedProcess:
    """The command."""
    command = [sys.executable, "-m", "tools.bench.page", str(file), "--out", str(out)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@needs_matplotlib
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file or directory"),
        ("{", "Expecting property name"),
        ("[]", "expected a JSON object, got list"),
        ('{"rows": []}', "lacks 'datasheet': not what this bench wrote"),
        ('{"rows": [], "datasheet": null}', "lacks 'failures': not what this bench wrote"),
        ('{"rows": [{}], "datasheet": null}', "lacks 'operation': not what this bench wrote"),
    ],
)
def test_a_file_of_something_else(tmp_path, text, message):
    file = tmp_path / "results.json"
    if text is not None:
        file.write_text(text)
    done = run_page(file, tmp_path / "page")
    assert done.returncode == 2
    assert f"error: {file}: {message}" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "page").exists()


@needs_matplotlib
def test_the_command_writes_the_page_and_its_plots(tmp_path):
    run = tmp_path / "results.json"
    run.write_text(json.dumps(made_up_run()))
    done = run_page(run, tmp_path / "page")
    assert done.returncode == 0, done.stderr
    kinds = ("forward", "backward", "prefill", "decode", "roofline", "decode-bytes")
    plots = {f"{kind}-{regime}.png" for kind in kinds for regime in ("burst", "sustained")}
    assert {file.name for file in (tmp_path / "page").iterdir()} == {"index.html", *plots}
    assert all((tmp_path / "page" / name).read_bytes().startswith(b"\x89PNG") for name in plots)
    assert len(Page((tmp_path / "page" / "index.html").read_text()).sources) == len(plots)


@needs_matplotlib
def test_plots_of_a_run_with_little_in_it():
    from tools.bench import plots

    run = made_up_run()
    run["rows"] = [row for row in run["rows"] if row["name"] == SHAPES[0].name and row["operation"] == "forward"][:1]
    assert set(plots.figures(run)) == {"forward-burst", "roofline-burst"}
    run["rows"][0]["contenders"] = {}
    assert plots.figures(run) == {}
    assert set(plots.figures(made_up_run(datasheet=None))) & {"roofline-burst", "roofline-sustained"} == set()
