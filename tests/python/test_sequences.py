"""Random create, fork, append, truncate, release against a plain model, through the Python API."""

from __future__ import annotations

import random

import pytest
import submission
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from workloads import CONFIG, PAGE_TOKENS, append

MAX_SEQUENCES, MAX_SEQ_LEN, PAGES = 6, 500, 24
SMALL = {
    **CONFIG,
    "modes": ["prefill", "decode"],
    "max_sequences": MAX_SEQUENCES,
    "max_seq_len": MAX_SEQ_LEN,
    "max_cached_tokens": 8 * PAGE_TOKENS,
}


class Model:
    """The cache as lists: a sequence is its length and the ids of its pages, and a page is anything that is one object.

    A page is shared by the sequences that list it; a sequence that writes to a page that others list gets a new one.
    """

    def __init__(self, pages: int):
        self.total = pages
        self.sequences: dict[int, tuple[int, list[object]]] = {}

    def used(self) -> set[int]:
        return {id(page) for _, pages in self.sequences.values() for page in pages}

    def shared(self) -> int:
        listed = [id(page) for _, pages in self.sequences.values() for page in pages]
        return len({page for page in listed if listed.count(page) > 1})

    def grow(self, sequence: int, tokens: int) -> tuple[int, list[object]]:
        """The sequence after appending, as if there were room."""
        length, pages = self.sequences[sequence]
        pages = list(pages)
        if tokens and length % PAGE_TOKENS:
            others = [page for key, (_, listed) in self.sequences.items() if key != sequence for page in listed]
            if any(pages[-1] is page for page in others):
                pages[-1] = object()
        pages += [object() for _ in range(-(-(length + tokens) // PAGE_TOKENS) - len(pages))]
        return length + tokens, pages

    def append(self, lengths: dict[int, int]) -> bool:
        """Appends to several sequences, or to none if the pages don't suffice."""
        before = dict(self.sequences)
        for sequence, tokens in lengths.items():
            self.sequences[sequence] = self.grow(sequence, tokens)
        if len(self.used()) <= self.total:
            return True
        self.sequences = before
        return False

    def truncate(self, sequence: int, length: int) -> None:
        _, pages = self.sequences[sequence]
        self.sequences[sequence] = length, pages[: -(-length // PAGE_TOKENS)]


def check(engine, model: Model) -> None:
    memory = engine.memory()
    assert memory["sequences"] == len(model.sequences)
    assert memory["pages_used"] == len(model.used())
    assert memory["pages_free"] == model.total - len(model.used())
    assert memory["pages_shared"] == model.shared()
    assert {id: engine.length(id) for id in model.sequences} == {
        id: length for id, (length, _) in model.sequences.items()
    }


class Cache(RuleBasedStateMachine):
    ids = Bundle("ids")

    @initialize()
    def build(self):
        self.engine = submission.build_engine(SMALL)
        self.model = Model(self.engine.memory()["pages_total"])
        self.dead = []

    def teardown(self):
        for id in list(self.model.sequences):
            self.engine.release(id)
        assert self.engine.memory()["pages_used"] == 0
        self.engine.close()

    def start(self, make, pages) -> object:
        """A new sequence from create or fork; none beyond max_sequences."""
        if len(self.model.sequences) == MAX_SEQUENCES:
            with pytest.raises(submission.PagesExhausted):
                make()
            return multiple()
        id = make()
        assert id not in self.model.sequences
        assert id not in self.dead
        self.model.sequences[id] = pages
        return id

    @rule(target=ids)
    def create(self):
        return self.start(self.engine.create, (0, []))

    @rule(target=ids, parent=ids)
    def fork(self, parent):
        return self.start(lambda: self.engine.fork(parent), self.model.sequences[parent])

    @rule(id=consumes(ids))
    def release(self, id):
        self.engine.release(id)
        del self.model.sequences[id]
        self.dead.append(id)

    @rule(id=ids, data=st.data())
    def truncate(self, id, data):
        length = data.draw(st.integers(0, self.model.sequences[id][0] + 1))
        if length > self.model.sequences[id][0]:
            with pytest.raises(submission.LengthError):
                self.engine.truncate(id, length)
        else:
            self.engine.truncate(id, length)
            self.model.truncate(id, length)

    @rule(lengths=st.dictionaries(ids, st.integers(0, 200), max_size=4))
    def prefill(self, lengths):
        self.append(lengths, "prefill")

    @rule(lengths=st.dictionaries(ids, st.integers(1, 8), max_size=4))
    def decode(self, lengths):
        self.append(lengths, "decode")

    def append(self, lengths, call):
        if any(self.model.sequences[id][0] + tokens > MAX_SEQ_LEN for id, tokens in lengths.items()):
            with pytest.raises(submission.LengthError):
                append(self.engine, list(lengths), list(lengths.values()), call)
        elif self.model.append(lengths):
            append(self.engine, list(lengths), list(lengths.values()), call)
        else:
            with pytest.raises(submission.PagesExhausted):
                append(self.engine, list(lengths), list(lengths.values()), call)

    @rule(data=st.data())
    def use_a_dead_one(self, data):
        if self.dead:
            with pytest.raises(submission.UnknownSequence):
                self.engine.length(data.draw(st.sampled_from(self.dead)))

    @invariant()
    def counts_are_equal(self):
        check(self.engine, self.model)


TestCache = Cache.TestCase
TestCache.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_long_random_history(driver):
    """20,000 operations with a fixed seed; the C++ tests do 100,000 on the table alone."""
    rng = random.Random(20240607)
    engine = submission.build_engine(SMALL)
    model = Model(engine.memory()["pages_total"])
    counts = dict.fromkeys(("create", "fork", "release", "truncate", "append", "refused"), 0)
    for step in range(20_000):
        ids = list(model.sequences)
        operation = rng.choice(("create", "fork", "release", "truncate", "append", "append", "append"))
        if operation == "create" and len(ids) < MAX_SEQUENCES:
            model.sequences[engine.create()] = (0, [])
        elif not ids:
            continue
        elif operation == "fork" and len(ids) < MAX_SEQUENCES:
            parent = rng.choice(ids)
            model.sequences[engine.fork(parent)] = model.sequences[parent]
        elif operation == "release":
            id = rng.choice(ids)
            engine.release(id)
            del model.sequences[id]
        elif operation == "truncate":
            id = rng.choice(ids)
            length = rng.randint(0, model.sequences[id][0])
            engine.truncate(id, length)
            model.truncate(id, length)
        elif operation == "append":
            chosen = {id: rng.choice((1, 2, 8, 63, 64, 65)) for id in rng.sample(ids, rng.randint(1, len(ids)))}
            chosen = {id: n for id, n in chosen.items() if model.sequences[id][0] + n <= MAX_SEQ_LEN}
            fits = model.append(chosen)
            call = "decode" if chosen and max(chosen.values()) <= 8 else "prefill"
            try:
                append(engine, list(chosen), list(chosen.values()), call)
                assert fits
            except submission.PagesExhausted:
                assert not fits
                operation = "refused"
        else:
            continue
        counts[operation] += 1
        if step % 50 == 0:
            check(engine, model)
            driver.reset()
    assert min(counts.values()) > 100, counts
    for id in model.sequences:
        engine.release(id)
    memory = engine.memory()
    assert (memory["pages_used"], memory["pages_shared"], memory["sequences"]) == (0, 0, 0)
    assert memory["pages_free"] == memory["pages_total"]
    engine.close()
