"""A pool of more than 2^32 elements: every page gives the bits of a small pool's pages."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from .engines import build
from .serving import Cache, cut, random_tokens
from .tensors import Guarded, assert_same_bits

STRATUM = {"head_dim": 128, "gate_dim": 64, "q_heads": 16, "kv_heads": 8, "modes": ["prefill", "decode"]}
PROMPT, STEP = 700, 8
FILL_TOKENS, FILL_SEQUENCES = 1024, 32  # of one call


def _run(cache: Cache) -> torch.Tensor:
    """A prompt in two chunks and a decode step on a new sequence, which stays."""
    built = cache.engine
    sequence = cache.create()
    parts = cut(random_tokens(built, PROMPT, 1), (300, PROMPT - 300))
    outputs = [cache.prefill({sequence: part})[sequence] for part in parts]
    return torch.cat((*outputs, cache.decode({sequence: random_tokens(built, STEP, 2)})[sequence]))


def _fill(cache: Cache, room: int) -> None:
    """Fills the pool with short sequences until fewer than `room` + FILL_TOKENS tokens are free."""
    built = cache.engine
    tokens = random_tokens(built, FILL_TOKENS * FILL_SEQUENCES, 3)
    out = Guarded(tuple(tokens.q.shape), tokens.q.dtype).array
    while True:
        memory = built.memory()
        count = min(FILL_SEQUENCES, (memory["pages_free"] * memory["page_tokens"] - room) // FILL_TOKENS)
        if count <= 0:
            return
        sequences, used = [cache.create() for _ in range(count)], count * FILL_TOKENS
        built.prefill(sequences, *(x[:used] for x in tokens), [FILL_TOKENS] * count, out=out[:used])


def test_highest_pages():
    """The first sequence of an empty pool and the last of a full one, so both ends whichever is taken first."""
    per_token = STRATUM["kv_heads"] * (2 * STRATUM["head_dim"] + STRATUM["gate_dim"])
    tokens = (1 << 32) // per_token + 16 * FILL_TOKENS
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < 2 * per_token * tokens + (8 << 30):
        pytest.skip("less than 17 GB of GPU memory free")
    capacity = {"max_sequences": tokens // 512, "max_seq_len": 2048, "max_cached_tokens": tokens}
    small = {"max_sequences": 4, "max_seq_len": 2048, "max_cached_tokens": 2048}
    with build({**STRATUM, **small}) as built, Cache(built) as cache:
        expected = _run(cache)
    with build({**STRATUM, **capacity}) as built, Cache(built, check=False) as cache:
        assert_same_bits("on an empty pool", _run(cache), expected)
        _fill(cache, PROMPT + STEP + 64)
        assert built.memory()["pages_used"] * built.memory()["page_tokens"] * per_token > 1 << 32
        assert_same_bits("on the last free pages", _run(cache), expected)
