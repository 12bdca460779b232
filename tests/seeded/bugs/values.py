"""Values that nobody wrote, results that are not written, and those that are wrong."""

from __future__ import annotations

from .bug import ATTEND, COPY_TILE, DECODE, DQ, Bug, Edit

VALUES = (
    Bug(
        name="a tail row of v is not zeroed",
        operation="forward",
        edits=(
            Edit(
                ATTEND,
                "  } else {\n    KCopy::issue(piece - KCopy::pieces - KgCopy::pieces",
                "  } else if (const int step = Tile::threads / Tile::K::chunks_per_row, row = threadIdx.x / "
                "Tile::K::chunks_per_row;\n             row + step * (piece - KCopy::pieces - KgCopy::pieces) < "
                "rows.valid) {\n"
                "    KCopy::issue(piece - KCopy::pieces - KgCopy::pieces",
            ),
        ),
        scenario="training of one tile",
        check="unwritten",
        at="mma",
        says="at shared address",
    ),
    Bug(
        name="rows past the end are left out instead of zeroed",
        operation="forward",
        edits=(
            Edit("device/cp_async.h", '  asm volatile("cp.async.cg', '  if (valid) asm volatile("cp.async.cg'),
            Edit(
                "device/cp_async.h",
                '[%1], 16, %2;" ::"r"(destination), "l"(source), "r"(bytes)',
                '[%1], 16;" ::"r"(destination), "l"(source)',
            ),
        ),
        scenario="training",
        check="unwritten",
        at="mma",
        says="at shared address",
    ),
    Bug(
        name="rows past the newest token are read from a page",
        operation="decode",
        edits=(Edit(DECODE, "(to + Tile::v_offset, v, valid, lane)", "(to + Tile::v_offset, v, N, lane)"),),
        scenario="decode",
        check="unwritten",
        at="mma",
        says="at shared address",
    ),
    Bug(
        name="a product begins in the rows' padding",
        operation="prefill",
        edits=(
            Edit(ATTEND, "const u32 v_lane = K::bytes + Kg::bytes", "const u32 v_lane = K::bytes + Kg::bytes + 16"),
        ),
        scenario="prefill",
        check="unwritten",
        at="mma",
        says="at shared address",
    ),
    Bug(
        name="the last token of a group is not appended",
        operation="append",
        edits=(
            Edit(
                "gated/portable/append.h", "params.num_tokens - first_token);", "params.num_tokens - 1 - first_token);"
            ),
        ),
        scenario="prefill",
        check="unwritten",
        at="mma",
        says="at shared address",
        where="gated_prefill",
    ),
    Bug(
        name="the end of a page is not copied",
        operation="page_copy",
        edits=(Edit("gated/portable/page_copy.h", "i < vectors; i += stride)", "i < vectors - stride; i += stride)"),),
        scenario="fork",
        check="unwritten",
        at="mma",
        says="at shared address",
        where="gated_dec_sm80",
    ),
    Bug(
        name="partials are read before they are written",
        operation="decode_merge",
        edits=(Edit("gated/portable/decode_merge.h", "abi::kSplitTokens + 1,", "abi::kSplitTokens + 2,"),),
        scenario="decode",
        check="unwritten",
        at="max.f32",
        says="of the partials, which nobody wrote",
    ),
    Bug(
        name="a statistic is not stored for the backward",
        operation="forward",
        edits=(Edit(ATTEND, "if (row < warp_valid) to.stats", "if (row + 1 < warp_valid) to.stats"),),
        scenario="training",
        check="output",
        at="",
        says="stats[",
        where="forward",
    ),
    Bug(
        name="delta is stored for half of the rows",
        operation="backward_dq",
        edits=(
            Edit(
                DQ,
                "if ((lane & 1) == 0 && (lane >> 1) < warp_valid)",
                "if ((lane & 3) == 0 && (lane >> 1) < warp_valid)",
            ),
        ),
        scenario="training",
        check="unwritten",
        at="add",
        says="at shared address",
        where="gated_bwd_dkv",
    ),
    Bug(
        name="an output row is unwritten",
        operation="forward",
        edits=(Edit(COPY_TILE, "    if (row < valid) {\n", "    if (row + 1 < valid) {\n"),),
        scenario="training",
        check="output",
        at="",
        says="o[0, 63, 0, 0] was not written",
        where="forward",
    ),
    Bug(
        name="a merge skips a split",
        operation="decode_merge",
        edits=(
            Edit(
                "gated/portable/decode_merge.h",
                ".count = (sequence.cached + local_token) / abi::kSplitTokens + 1",
                ".count = max(1, (sequence.cached + local_token) / abi::kSplitTokens)",
            ),
        ),
        scenario="decode",
        check="",
        at="",
        says="o of decode: largest error",
    ),
    Bug(
        name="lanes take another row's fragments",
        operation="backward_dq",
        edits=(
            Edit("device/shared_tile.h", "u32 a(int lane) { return (lane & 15)", "u32 a(int lane) { return (lane & 7)"),
        ),
        scenario="training",
        check="",
        at="",
        says="dq: largest error",
    ),
    Bug(
        name="a parameter struct is one field short",
        operation="forward",
        edits=(
            Edit("abi/gated.h", "  Dense o;\n  RowStats* stats;  // [batch, q_heads, seq_len]\n", "  Dense o;\n"),
            Edit("abi/gated.h", "sizeof(GatedForwardParams) == 224", "sizeof(GatedForwardParams) == 216"),
            Edit("gated/portable/forward.h", "params.stats + row", "nullptr"),
        ),
        scenario="training",
        check="bounds",
        at="cp.async",
        says="read of 16 bytes",
    ),
)
