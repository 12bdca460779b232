"""publish(): a folder appears whole or not at all."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.assemble.publish import exchange, publish

REPOSITORY = Path(__file__).parents[2]


def contents(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir()}


def test_first_and_second_publication(tmp_path):
    target = tmp_path / "deep" / "folder"
    for text in ("one", "two"):
        with publish(target) as fresh:
            (fresh / f"{text}.txt").write_text(text)
        assert contents(target) == {f"{text}.txt": text}
    assert sorted(p.name for p in target.parent.iterdir()) == [".folder.lock", "folder"]


def test_an_exception_leaves_the_old_folder(tmp_path):
    target = tmp_path / "folder"
    with publish(target) as fresh:
        (fresh / "old").write_text("old")
    with pytest.raises(RuntimeError, match="half way"):
        with publish(target) as fresh:
            (fresh / "new").write_text("new")
            raise RuntimeError("half way")
    assert contents(target) == {"old": "old"}
    assert sorted(p.name for p in tmp_path.iterdir()) == [".folder.lock", "folder"]


def test_a_killed_publisher_leaves_the_old_folder_and_the_next_one_clears_up(tmp_path):
    target = tmp_path / "folder"
    with publish(target) as fresh:
        (fresh / "old").write_text("old")
    program = (
        "import sys, time; from pathlib import Path; from tools.assemble.publish import publish\n"
        "with publish(Path(sys.argv[1])) as fresh:\n"
        "    (fresh / 'new').write_text('half'); print('ready', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, target], cwd=REPOSITORY, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert contents(target) == {"old": "old"}
    with publish(target) as fresh:
        (fresh / "next").write_text("next")
    assert contents(target) == {"next": "next"}
    assert sorted(p.name for p in tmp_path.iterdir()) == [".folder.lock", "folder"]


def test_the_folder_is_always_there_while_two_publish(tmp_path):
    target = tmp_path / "folder"
    program = (
        "import sys; from pathlib import Path; from tools.assemble.publish import publish\n"
        "for i in range(40):\n"
        "    with publish(Path(sys.argv[1])) as fresh:\n"
        "        for name in ('a', 'b'): (fresh / name).write_text(sys.argv[2])\n"
    )
    with publish(target) as fresh:
        (fresh / "a").write_text("start")
    writers = [subprocess.Popen([sys.executable, "-c", program, target, who], cwd=REPOSITORY) for who in ("1", "2")]
    looks = 0
    while any(writer.poll() is None for writer in writers):
        assert target.is_dir()
        looks += 1
    assert looks > 0 and [writer.returncode for writer in writers] == [0, 0]
    assert contents(target) in ({"a": "1", "b": "1"}, {"a": "2", "b": "2"})


def test_exchange_swaps_two_folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "file").read_text() == "b"
    assert (tmp_path / "b" / "file").read_text() == "a"
