"""The kernels of prefill and decode over paged caches [pages, kv_heads, PAGE, dim].

SEQUENCES describes each sequence of a call by four int32: its first token in the packed arrays, its number of new
tokens, the tokens cached before, and its first tile. TABLE has a row of `width` pages for each. strides: of token and
head. Loops read a page's number one step ahead, so that the copies of its rows don't wait for it.
"""

import triton
import triton.language as tl

from .pages import PAGE as PAGE_TOKENS
from .parts import HIDDEN, load_rows, online_softmax, store_rows
from .tuning import autotune, columns, tiles

PAGE = tl.constexpr(PAGE_TOKENS)
APPEND_TOKENS = 16  # of a program
PREFILL_ROWS = 128  # queries that an entry of the prefill's tile list stands for; the tiles divide it
SPLITS_AT_ONCE = 16  # that the merge takes in one step
RUN_TIME = ["width", "q_heads", "kv_heads", "work", "most_rows"]  # not compiled in

# Columns must divide a page.
PREFILL_TILES = tiles((64, 64, 4, 3), (128, 64, 8, 3), (128, 64, 8, 2))
DECODE_COLUMNS = columns((64, 4, 3), (64, 4, 2), (32, 4, 4), (64, 8, 3))


@triton.jit
def page_rows(cache, page, kv_head, kv_heads, DIM: tl.constexpr):
    """Where the tokens of a page are, for one head."""
    return cache + (tl.cast(page, tl.int64) * kv_heads + kv_head) * (PAGE * DIM)


@triton.jit
def described(SEQUENCES, sequence):
    """A sequence's first token, new tokens, cached tokens and first tile."""
    at = SEQUENCES + 4 * sequence
    return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)


@triton.jit
def append_one(X, cache, strides, tokens, slots, valid, kv_head, kv_heads, DIM: tl.constexpr):
    d = tl.arange(0, DIM)
    source = X + tokens.to(tl.int64)[:, None] * strides[0] + kv_head * strides[1] + d[None, :]
    row = (slots // PAGE).to(tl.int64) * kv_heads + kv_head
    target = cache + (row * PAGE + slots % PAGE)[:, None] * DIM + d[None, :]
    tl.store(target, tl.load(source, mask=valid[:, None], other=0.0), mask=valid[:, None])


@triton.jit(do_not_specialize=["count", "kv_heads"])
def append_kernel(
    K, V, KG, K_CACHE, V_CACHE, KG_CACHE, SLOTS, k_strides, v_strides, kg_strides, count, kv_heads,
    D: tl.constexpr, R: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    kv_head = tl.program_id(1)
    tokens = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    valid = tokens < count
    slots = tl.load(SLOTS + tokens, mask=valid, other=0)  # page * PAGE + place in it
    append_one(K, K_CACHE, k_strides, tokens, slots, valid, kv_head, kv_heads, D)
    append_one(V, V_CACHE, v_strides, tokens, slots, valid, kv_head, kv_heads, D)
    append_one(KG, KG_CACHE, kg_strides, tokens, slots, valid, kv_head, kv_heads, R)


@autotune(PREFILL_TILES, key=["D", "R", "work"])
@triton.jit(do_not_specialize=RUN_TIME)
def prefill_kernel(
    Q, QG, O, K_CACHE, V_CACHE, KG_CACHE, TILES, SEQUENCES, TABLE, q_strides, qg_strides, o_strides,
    scale, gate_scale, width, q_heads, kv_heads, work,
    D: tl.constexpr, R: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)  # fastest, so that the heads of a group meet in the L2
    kv_head = head // (q_heads // kv_heads)
    entry = TILES + tl.program_id(1) // (ROWS // BM) * 2
    sequence = tl.load(entry)
    first_row = tl.load(entry + 1) + tl.program_id(1) % (ROWS // BM) * BM
    token, count, cached, _ = described(SEQUENCES, sequence)
    if first_row >= count:
        return
    table = TABLE + sequence * width
    positions = cached + first_row + tl.arange(0, BM)
    length = cached + count
    first_token = tl.cast(token, tl.int64)
    q_base = Q + first_token * q_strides[0] + head * q_strides[1]
    qg_base = QG + first_token * qg_strides[0] + head * qg_strides[1]
    q = load_rows(q_base, q_strides[0], first_row, count, BM, D, False)
    qg = load_rows(qg_base, qg_strides[0], first_row, count, BM, R, False)
    largest = tl.full((BM,), HIDDEN, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    o = tl.zeros((BM, D), tl.float32)
    seen_by_all = (cached + first_row + 1) // BN * BN
    end = tl.minimum(cached + first_row + BM, length)
    page = tl.load(table)
    for edge in tl.static_range(2):
        for start in range(seen_by_all if edge else 0, end if edge else seen_by_all, BN):
            next_page = tl.load(table + tl.minimum((start + BN) // PAGE, width - 1))
            place = start - start // PAGE * PAGE
            valid = length - start + place  # rows of the page below it hold tokens
            k = load_rows(page_rows(K_CACHE, page, kv_head, kv_heads, D), D, place, valid, BN, D, edge == 0)
            kg = load_rows(page_rows(KG_CACHE, page, kv_head, kv_heads, R), R, place, valid, BN, R, edge == 0)
            s = tl.dot(q, tl.trans(k)) * scale
            t = tl.dot(qg, tl.trans(kg)) * gate_scale
            if edge:
                s = tl.where(positions[:, None] >= (start + tl.arange(0, BN))[None, :], s, HIDDEN)
            v = load_rows(page_rows(V_CACHE, page, kv_head, kv_heads, D), D, place, valid, BN, D, edge == 0)
            largest, total, o = online_softmax(s, t, v, largest, total, o)
            page = next_page
    o_base = O + first_token * o_strides[0] + head * o_strides[1]
    store_rows(o_base, o_strides[0], first_row, count, o / total[:, None], BM, D, False)


@autotune(DECODE_COLUMNS, key=["D", "R", "BM", "work"])
@triton.jit(do_not_specialize=RUN_TIME)
def decode_kernel(
    Q, QG, K_CACHE, V_CACHE, KG_CACHE, PARTIAL, STATISTICS, TILES, SEQUENCES, TABLE, q_strides, qg_strides,
    scale, gate_scale, width, kv_heads, most_rows, work,
    D: tl.constexpr, R: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    # The rows of a tile are the queries of one kv head: token by token, the heads of its group.
    tile, kv_head = tl.program_id(0), tl.program_id(1)
    sequence, split = tl.load(TILES + 2 * tile), tl.load(TILES + 2 * tile + 1)
    token, count, cached, _ = described(SEQUENCES, sequence)
    rows = tl.program_id(2) * BM + tl.arange(0, BM)
    valid_rows = (rows < count * GROUP)[:, None]
    tokens = (token + rows // GROUP).to(tl.int64)[:, None]
    heads = (kv_head * GROUP + rows % GROUP)[:, None]
    d, r = tl.arange(0, D)[None, :], tl.arange(0, R)[None, :]
    q = tl.load(Q + tokens * q_strides[0] + heads * q_strides[1] + d, mask=valid_rows, other=0.0)
    qg = tl.load(QG + tokens * qg_strides[0] + heads * qg_strides[1] + r, mask=valid_rows, other=0.0)
    positions = cached + rows // GROUP
    length = cached + count
    table = TABLE + sequence * width
    largest = tl.full((BM,), HIDDEN, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    o = tl.zeros((BM, D), tl.float32)
    page = tl.load(table + split * SPLIT // PAGE)
    for start in range(split * SPLIT, tl.minimum(split * SPLIT + SPLIT, length), BN):
        next_page = tl.load(table + tl.minimum((start + BN) // PAGE, width - 1))
        place = start - start // PAGE * PAGE
        valid = length - start + place
        k = load_rows(page_rows(K_CACHE, page, kv_head, kv_heads, D), D, place, valid, BN, D, False)
        kg = load_rows(page_rows(KG_CACHE, page, kv_head, kv_heads, R), R, place, valid, BN, R, False)
        s = tl.dot(q, tl.trans(k)) * scale
        t = tl.dot(qg, tl.trans(kg)) * gate_scale
        s = tl.where(positions[:, None] >= (start + tl.arange(0, BN))[None, :], s, HIDDEN)
        v = load_rows(page_rows(V_CACHE, page, kv_head, kv_heads, D), D, place, valid, BN, D, False)
        largest, total, o = online_softmax(s, t, v, largest, total, o)
        page = next_page
    at = (tl.cast(tile, tl.int64) * kv_heads + kv_head) * most_rows + rows
    tl.store(PARTIAL + at[:, None] * D + d, o, mask=valid_rows)
    tl.store(STATISTICS + 2 * at, largest, mask=rows < count * GROUP)
    tl.store(STATISTICS + 2 * at + 1, total, mask=rows < count * GROUP)


@triton.jit(do_not_specialize=["kv_heads", "most_rows"])
def merge_kernel(
    PARTIAL, STATISTICS, O, OWNERS, SEQUENCES, o_strides, kv_heads, most_rows,
    D: tl.constexpr, GROUP: tl.constexpr, SPLIT: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    # One query: its partials lie one tile apart. Splits that it sees nothing of are left out.
    token, head = tl.program_id(0), tl.program_id(1)
    sequence = tl.load(OWNERS + token)
    first_token, _, cached, first_tile = described(SEQUENCES, sequence)
    row = (token - first_token) * GROUP + head % GROUP
    splits = tl.cdiv(cached + token - first_token + 1, SPLIT)
    d = tl.arange(0, D)
    largest, total = -1e30, 0.0
    o = tl.zeros((D,), tl.float32)
    for start in range(0, splits, CHUNK):
        split = start + tl.arange(0, CHUNK)
        valid = split < splits
        at = ((first_tile + split).to(tl.int64) * kv_heads + head // GROUP) * most_rows + row
        new = tl.load(STATISTICS + 2 * at, mask=valid, other=HIDDEN)
        new_largest = tl.maximum(largest, tl.max(new, 0))
        weight = tl.exp2(new - new_largest)
        rescale = tl.exp2(largest - new_largest)
        total = total * rescale + tl.sum(weight * tl.load(STATISTICS + 2 * at + 1, mask=valid, other=0.0), 0)
        partial = tl.load(PARTIAL + at[:, None] * D + d[None, :], mask=valid[:, None], other=0.0)
        o = o * rescale + tl.sum(weight[:, None] * partial, 0)
        largest = new_largest
    tl.store(O + tl.cast(token, tl.int64) * o_strides[0] + head * o_strides[1] + d, (o / total).to(O.dtype.element_ty))
