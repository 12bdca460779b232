"""A token's bits do not depend on its neighbours, on how its prompt was cut, on its pages or on the memory limit."""

import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import HEADS, build, config, engine, submission
from .serving import Cache, cut, pack, random_tokens
from .tensors import DTYPES, assert_same_bits

every_stratum = pytest.mark.parametrize("head_dim, gate_dim", HEADS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
some_groups = pytest.mark.parametrize("group", [1, 4, 16])

CHUNKS = ((1000,), (1, 999), (999, 1), (64,) * 15 + (40,), (17, 0, 130, 353, 500), (512, 488), (7,) * 20 + (860,))
# Ways to append 24 tokens by decode.
STEPS = ((8, 8, 8), (1,) * 24, (3, 5, 8, 7, 1), (2,) * 12)


@every_stratum
@every_dtype
@some_groups
def test_cuts_of_a_prompt(head_dim: int, gate_dim: int, dtype: str, group: int):
    built = engine(head_dim, gate_dim, group, dtype)
    tokens, tail = random_tokens(built, 1000, 1), random_tokens(built, 5, 2)
    expected = None
    with Cache(built, check=False) as cache:
        for chunks in CHUNKS:
            sequence = cache.create()
            outputs = [cache.prefill({sequence: part})[sequence] for part in cut(tokens, chunks)]
            outputs.append(cache.decode({sequence: tail})[sequence])
            expected = expected if expected is not None else torch.cat(outputs)
            assert_same_bits(f"chunks {chunks}", torch.cat(outputs), expected)
            cache.release(sequence)


@every_stratum
@every_dtype
@some_groups
@pytest.mark.parametrize("cached", [0, 60, 500, 4090])
def test_decode_at_once_or_one_by_one(head_dim: int, gate_dim: int, dtype: str, group: int, cached: int):
    built = engine(head_dim, gate_dim, group, dtype)
    prompt, tokens = random_tokens(built, cached, 1), random_tokens(built, 24, 2)
    expected = None
    with Cache(built, check=False) as cache:
        parent = cache.sequence(prompt)
        for steps in STEPS:
            sequence = cache.fork(parent)
            outputs = torch.cat([cache.decode({sequence: part})[sequence] for part in cut(tokens, steps)])
            expected = expected if expected is not None else outputs
            assert_same_bits(f"steps {steps}", outputs, expected)
            cache.release(sequence)


@every_stratum
@every_dtype
@some_groups
@pytest.mark.parametrize("mode", ["prefill", "decode"])
def test_neighbours(head_dim: int, gate_dim: int, dtype: str, group: int, mode: str):
    """Alone, among others, in another order, and beside NaN and infinity."""
    built = engine(head_dim, gate_dim, group, dtype)
    prompts = (0, 1, 63, 64, 700, 1300)
    lengths = [1, 8, 3, 5, 8, 2] if mode == "decode" else [129, 1, 64, 300, 17, 8]
    parts = cut(random_tokens(built, sum(lengths), 2), lengths)
    with Cache(built, check=False) as cache:
        parents = [cache.sequence(random_tokens(built, count, count)) for count in prompts]
        append = cache.decode if mode == "decode" else cache.prefill

        def run(chosen: list[int]) -> dict[int, torch.Tensor]:
            forks = {i: cache.fork(parents[i]) for i in chosen}
            outputs = append({forks[i]: parts[i] for i in chosen})
            for fork in forks.values():
                cache.release(fork)
            return {i: outputs[forks[i]] for i in chosen}

        everyone = list(range(len(prompts)))
        together = run(everyone)
        for chosen in ([0], [1], [2], [3], [4], [5], everyone[::-1], [5, 0, 3]):
            for i, output in run(chosen).items():
                assert_same_bits(f"sequence {i} among {chosen}", output, together[i])
        for poison in (float("nan"), float("inf")):
            for array in parts[4]:
                array.fill_(poison)
            for i, output in run(everyone).items():
                if i != 4:
                    assert_same_bits(f"sequence {i} beside {poison}", output, together[i])


@every_stratum
@every_dtype
@some_groups
def test_batch_invariant_prefill_equals_decode(head_dim: int, gate_dim: int, dtype: str, group: int):
    """With batch_invariant=True a token has the same bits whether it came by prefill or by decode."""
    built = engine(head_dim, gate_dim, group, dtype, batch_invariant=True)
    for cached, more in ((0, 40), (100, 24), (1020, 24), (4090, 24)):
        prompt, tokens = random_tokens(built, cached, 1), random_tokens(built, more, 2)
        with Cache(built, check=cached == 100) as cache:
            whole = cache.create()
            expected = cache.prefill({whole: pack([prompt, tokens])})[whole]
            for step in (1, 8):
                sequence = cache.sequence(prompt)
                outputs = [cache.decode({sequence: part})[sequence] for part in cut(tokens, [step] * (more // step))]
                name = f"{more} tokens after {cached}, {step} a step"
                assert_same_bits(name, torch.cat(outputs), expected[cached:])


@every_stratum
def test_pages(head_dim: int, gate_dim: int):
    """The same calls on pages in another order, full of what others left there."""
    built = engine(head_dim, gate_dim, 4)
    prompt, tokens = random_tokens(built, 1500, 1), random_tokens(built, 8, 2)

    def run(cache: Cache) -> torch.Tensor:
        sequence = cache.create()
        outputs = [cache.prefill({sequence: part})[sequence] for part in cut(prompt, (300, 1200))]
        return torch.cat((*outputs, cache.decode({sequence: tokens})[sequence]))

    with Cache(built, check=False) as cache:
        expected = run(cache)
    with Cache(built, check=False) as cache:
        infinite = random_tokens(built, 500, 3)
        for array in infinite:
            array.fill_(float("inf"))
        others = [cache.sequence(infinite) for _ in range(20)]
        for other in others[::2] + others[1::4]:
            cache.release(other)
        assert_same_bits("on scattered pages", run(cache), expected)


def _smallest_limit(settings: dict) -> int:
    """The least memory_limit_bytes that build_engine accepts, as its message says."""
    with pytest.raises(submission().ConfigError, match="memory_limit_bytes") as refusal:
        submission().build_engine({**settings, "memory_limit_bytes": 1})
    return max(int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", str(refusal.value)))


@every_stratum
def test_least_memory(head_dim: int, gate_dim: int):
    """Under the least memory limit the work goes in waves: the same bits, and never more bytes than allowed."""
    settings = config(head_dim, gate_dim, 16, modes=["prefill", "decode"])
    limit = _smallest_limit(settings)
    with pytest.raises(submission().ConfigError):
        submission().build_engine({**settings, "memory_limit_bytes": limit - 1})
    results = []
    for options in ({}, {"memory_limit_bytes": limit}):
        with build({**settings, **options}) as built, Cache(built, check=False) as cache:
            prompts = [4000, 3000, 1, 513] + [200] * 20
            sequences = [cache.create() for _ in prompts]
            prefilled = cache.prefill(dict(zip(sequences, cut(random_tokens(built, sum(prompts), 1), prompts))))
            steps = [8] * len(prompts)
            decoded = cache.decode(dict(zip(sequences, cut(random_tokens(built, sum(steps), 2), steps))))
            results.append(torch.cat([*prefilled.values(), *decoded.values()]))
            assert not options or built.memory()["bytes_peak"] <= limit
    assert_same_bits("under the least memory limit", results[1], results[0])
