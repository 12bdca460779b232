"""The page accounting of the bench's Triton engine, against a model that copies every sequence."""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest
from conftest import ROOT

# By its path: the package around it needs torch and triton.
_spec = importlib.util.spec_from_file_location("pages", ROOT / "tools" / "bench" / "triton_engine" / "pages.py")
pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(pages)

PAGE = pages.PAGE


class Model:
    """Sequences as lists of tokens, beside a memory that is written through the tables of Pages."""

    def __init__(self, count: int, sequences: int) -> None:
        self.pages = pages.Pages(count, sequences, 10 * PAGE)
        self.memory = np.zeros((count, PAGE), np.int64)
        self.held: dict[int, list[int]] = {}
        self._next = 1

    def append(self, counts: dict[int, int]) -> None:
        rows = np.array([self.pages.row(i) for i in counts], np.int64)
        starts = self.pages.lengths[rows]
        for copy, original in self.pages.append(rows, np.array(list(counts.values()), np.int64)):
            self.memory[copy] = self.memory[original]
        for row, start, (sequence, count) in zip(rows, starts, counts.items()):
            for position in range(start, start + count):
                self.memory[self.pages.table[row, position // PAGE], position % PAGE] = self._next
                self.held[sequence].append(self._next)
                self._next += 1

    def check(self) -> None:
        used = set()
        for sequence, tokens in self.held.items():
            row = self.pages.row(sequence)
            assert self.pages.lengths[row] == len(tokens)
            table = self.pages.table[row, : -(-len(tokens) // PAGE)].tolist()
            assert self.memory[table].reshape(-1)[: len(tokens)].tolist() == tokens
            used |= set(table)
        assert self.pages.free == self.pages.total - len(used)


@pytest.mark.parametrize("seed", range(8))
def test_random_traffic(seed):
    choose, model = random.Random(seed), Model(200, 8)
    for _ in range(300):
        alive = list(model.held)
        move = choose.choice(("create", "fork", "release", "truncate", "append", "append", "append"))
        if move == "create" and len(alive) < 8:
            model.held[model.pages.create()] = []
        elif move == "fork" and alive and len(alive) < 8:
            parent = choose.choice(alive)
            model.held[model.pages.fork(parent)] = list(model.held[parent])
        elif move == "release" and len(alive) > 3:
            sequence = choose.choice(alive)
            model.pages.release(sequence)
            del model.held[sequence]
        elif move == "truncate" and alive:
            sequence = choose.choice(alive)
            length = choose.randint(0, len(model.held[sequence]))
            model.pages.truncate(sequence, length)
            del model.held[sequence][length:]
        elif move == "append" and alive:
            chosen = choose.sample(alive, choose.randint(1, len(alive)))
            longest = choose.choice((1, 8, 100))
            room = {i: 10 * PAGE - len(model.held[i]) for i in chosen}
            model.append({i: min(room[i], choose.randint(0, longest)) for i in chosen})
        model.check()
    for sequence in list(model.held):
        model.pages.release(sequence)
    assert model.pages.free == model.pages.total


def test_the_last_holder_of_a_page_writes_in_place():
    model = Model(4, 4)
    first = model.pages.create()
    model.held[first] = []
    model.append({first: 10})
    second = model.pages.fork(first)
    model.held[second] = list(model.held[first])
    assert model.pages.free == 3 and model.pages.shared == 1
    model.append({first: 1, second: 1})  # one copy, not two
    model.check()
    assert model.pages.free == 2 and model.pages.shared == 0


def test_too_few_pages_change_nothing():
    model = Model(3, 3)
    first, second = model.pages.create(), model.pages.create()
    model.held = {first: [], second: []}
    model.append({first: 2 * PAGE})
    rows = np.array([model.pages.row(first), model.pages.row(second)])
    with pytest.raises(MemoryError, match="2 pages needed, 1 free"):
        model.pages.append(rows, np.array([1, 1]))
    model.check()
    model.append({second: PAGE})
    model.check()


def test_unknown_sequences_and_lengths():
    table = pages.Pages(4, 1, 2 * PAGE)
    sequence = table.create()
    with pytest.raises(ValueError, match="max_sequences: 1 sequences exist already"):
        table.create()
    with pytest.raises(ValueError, match="expected 0 to 0, got 1"):
        table.truncate(sequence, 1)
    table.release(sequence)
    with pytest.raises(KeyError):
        table.row(sequence)
    assert table.create() != sequence
