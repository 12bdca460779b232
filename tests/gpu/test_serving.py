"""Prefill and decode against float64: ragged lengths, prefixes, forks, truncation, reuse of pages."""

import random

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import GROUPS, HEADS, engine, submission
from .serving import Cache, cut, random_tokens, rows
from .tensors import DTYPES

PROMPTS = (1, 2, 15, 17, 63, 64, 65, 127, 129, 1000, 4097)
MORE = (17, 0, 64, 1, 130, 2, 63, 0, 8, 500, 65)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_prompts_prefixes_and_decode(head_dim: int, gate_dim: int, dtype: str, group: int):
    """Ragged prompts in one call, ragged chunks after them, then decode steps of 1 to 8 tokens."""
    built = engine(head_dim, gate_dim, group, dtype)
    with Cache(built) as cache:
        sequences = [cache.create() for _ in PROMPTS]
        for seed, lengths in enumerate((PROMPTS, MORE)):
            cache.prefill(dict(zip(sequences, cut(random_tokens(built, sum(lengths), seed), lengths))))
        for step in range(2):
            lengths = [1 + (step * 5 + i) % 8 for i in range(len(sequences))]
            cache.decode(dict(zip(sequences, cut(random_tokens(built, sum(lengths), 2 + step), lengths))))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_forks_that_diverge_inside_a_page(head_dim: int, gate_dim: int, dtype: str):
    """Every fork writes into a page that all of them share, by decode and by prefill."""
    built = engine(head_dim, gate_dim, 4, dtype)
    with Cache(built) as cache:
        parent = cache.sequence(random_tokens(built, 100, 0))
        before = built.memory()["pages_used"]
        children = [cache.fork(parent) for _ in range(4)]
        assert built.memory()["pages_used"] == before, "a fork alone takes no page"
        assert built.memory()["pages_shared"] == before
        cache.decode({child: random_tokens(built, 1 + child % 3, child) for child in children})
        cache.prefill({children[0]: random_tokens(built, 70, 10), parent: random_tokens(built, 5, 11)})
        cache.decode({sequence: random_tokens(built, 8, 20 + sequence) for sequence in (parent, *children)})
        cache.release(parent)
        cache.decode({child: random_tokens(built, 1, 30 + child) for child in children})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_truncation(head_dim: int, gate_dim: int, dtype: str):
    """Rejected tokens leave no trace, inside a page, over its edge, down to nothing, and beside a fork."""
    built = engine(head_dim, gate_dim, 4, dtype)
    with Cache(built) as cache:
        sequence = cache.sequence(random_tokens(built, 126, 0))
        for seed, kept in enumerate((129, 126, 131, 65, 64, 1, 0)):
            missing = max(0, kept + 3 - len(cache.held[sequence].q))
            while missing > 0:
                step = min(8, missing)
                cache.decode({sequence: random_tokens(built, step, 100 * seed + missing)})
                missing -= step
            cache.truncate(sequence, kept)
            cache.decode({sequence: random_tokens(built, 2, 1000 + seed)})
        fork = cache.fork(sequence)
        cache.prefill({sequence: random_tokens(built, 90, 5), fork: random_tokens(built, 40, 6)})
        twin = cache.fork(fork)
        cache.truncate(fork, 20)
        cache.decode({s: random_tokens(built, 4, 50 + s) for s in (sequence, fork, twin)})


def test_released_pages_are_used_again():
    """A pool that holds one sequence serves many in turn; NaN in the first never reaches the others."""
    built = engine(64, 32, 4, max_sequences=2, max_seq_len=1024, max_cached_tokens=640)
    with Cache(built) as cache:
        first = random_tokens(built, 640, 0)
        for array in first:
            array.fill_(float("nan"))
        cache.check = False
        cache.release(cache.sequence(first))
        cache.check = True
        for seed in range(1, 4):
            sequence = cache.sequence(random_tokens(built, 600, seed))
            cache.decode({sequence: random_tokens(built, 8, 10 + seed)})
            cache.release(sequence)


@pytest.mark.parametrize("lengths", [[0, 0, 0], [0, 70, 0], [5, 0, 64], [0]])
def test_prefill_of_nothing(lengths: list[int]):
    built = engine(128, 32, 4)
    with Cache(built) as cache:
        sequences = [cache.create() for _ in lengths]
        cache.prefill(dict(zip(sequences, cut(random_tokens(built, sum(lengths), 1), lengths))))
        cache.prefill({sequence: random_tokens(built, 3, sequence) for sequence in sequences})


def test_no_sequences():
    built = engine(128, 32, 4)
    tokens = random_tokens(built, 0, 1)
    for mode in (built.prefill, built.decode):
        assert mode([], *tokens, [], out=torch.empty_like(tokens.q)).shape == tokens.q.shape


def test_no_pages_changes_nothing():
    """One page too few: its own exception, the cache as before, and a smaller request then succeeds."""
    built = engine(64, 64, 4, max_sequences=4, max_seq_len=4096, max_cached_tokens=1024)
    with Cache(built) as cache:
        capacity = built.memory()["pages_total"] * built.memory()["page_tokens"]
        first, second = cache.sequence(random_tokens(built, capacity - 200, 0)), cache.create()
        before = built.memory()
        with pytest.raises(submission().PagesExhausted):
            cache.prefill({first: random_tokens(built, 100, 1), second: random_tokens(built, 200, 2)})
        with pytest.raises(MemoryError):
            cache.prefill({second: random_tokens(built, 300, 2)})
        assert built.memory() == before and built.length(second) == 0
        cache.prefill({second: random_tokens(built, 60, 3)})
        cache.decode({first: random_tokens(built, 1, 4), second: random_tokens(built, 2, 5)})


@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_longest_sequence(head_dim: int, gate_dim: int):
    """131,072 tokens: the newest rows of a prefill and a decode of 8 are right."""
    built = engine(head_dim, gate_dim, 4, max_sequences=1, max_seq_len=131072, max_cached_tokens=131072)
    with Cache(built, check=False) as cache:
        sequence = cache.sequence(random_tokens(built, 131000, 0))
        cache.check = True
        cache.prefill({sequence: random_tokens(built, 64, 1)})
        cache.decode({sequence: random_tokens(built, 8, 2)})
        with pytest.raises(submission().LengthError):
            cache.decode({sequence: random_tokens(built, 1, 3)})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim, gate_dim", HEADS)
def test_random_traffic(head_dim: int, gate_dim: int, dtype: str):
    """Random create, fork, truncate, release, prefill and decode; every output is judged."""
    built = engine(head_dim, gate_dim, 4, dtype)
    choose = random.Random(head_dim + gate_dim)
    with Cache(built) as cache:
        for step in range(60):
            alive = list(cache.held)
            move = choose.choice(("create", "fork", "truncate", "release", "prefill", "decode", "decode"))
            if move == "create" and len(alive) < 8:
                cache.create()
            elif move == "fork" and 0 < len(alive) < 8:
                cache.fork(choose.choice(alive))
            elif move == "truncate" and alive:
                sequence = choose.choice(alive)
                cache.truncate(sequence, choose.randint(0, built.length(sequence)))
            elif move == "release" and len(alive) > 4:
                cache.release(choose.choice(alive))
            elif move in ("prefill", "decode") and alive:
                longest = 8 if move == "decode" else choose.choice((3, 70, 300))
                shortest = 1 if move == "decode" else 0
                chosen = choose.sample(alive, choose.randint(1, len(alive)))
                tokens = random_tokens(built, longest * len(chosen), step)
                ends = range(longest, longest * len(chosen) + 1, longest)
                parts = {s: rows(tokens, end - choose.randint(shortest, longest), end) for s, end in zip(chosen, ends)}
                (cache.decode if move == "decode" else cache.prefill)(parts)
