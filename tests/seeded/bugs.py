"""Bugs that somebody could write into the portable kernels, and how the emulator must report each."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Edit:
    """file: below templates/. old: a text that occurs in it once. new: what stands there instead."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """A change of one operation's kernel, and what comes of it.

    name: the bug in words. operation: whose kernel is built from the edited templates, with the fields of `tile` in
    its plan changed. scenario: in which it shows. check: the emulator's that must report it; none if a wrong result is
    all that can be seen. at: how the PTX instruction begins that the report must point to; none if it is of no
    instruction. says: part of the report. where: how the name begins of the kernel that comes to it, if that is
    another, or of the call.
    """

    name: str
    operation: str
    edits: tuple[Edit, ...]
    scenario: str
    check: str
    at: str
    says: str
    where: str = ""
    tile: dict[str, int] = field(default_factory=dict)


ATTEND = "gated/portable/attend.h"
DECODE = "gated/portable/decode.h"
DKV = "gated/portable/backward_dkv.h"
DQ = "gated/portable/backward_dq.h"
COPY_TILE = "device/copy_tile.h"

TILE_LANDED = """    cp_async_wait<0>();
    __syncthreads();
    const u32 next_stage"""

ORDER = (
    Bug(
        name="no barrier before a stage is used",
        operation="forward",
        edits=(Edit(ATTEND, TILE_LANDED, TILE_LANDED.replace("    __syncthreads();\n", "")),),
        scenario="training",
        check="race",
        at="ldmatrix",
        says="written by warp",
    ),
    Bug(
        name="no barrier after a stage was used",
        operation="forward",
        edits=(Edit(ATTEND, "  if constexpr (Tile::query_in_registers) __syncthreads();\n", ""),),
        scenario="training",
        check="race",
        at="cp.async",
        says="read by warp",
    ),
    Bug(
        name="no barrier before the stages become scratch",
        operation="prefill",
        edits=(Edit(ATTEND, "  __syncthreads();\n  const float sum", "  const float sum"),),
        scenario="prefill",
        check="race",
        at="cp.async",
        says="written by warp",
    ),
    Bug(
        name="the barrier comes before the wait",
        operation="backward_dq",
        edits=(
            Edit(
                DQ,
                TILE_LANDED,
                TILE_LANDED.replace("    __syncthreads();\n", "").replace("    cp", "    __syncthreads();\n    cp"),
            ),
        ),
        scenario="training",
        check="race",
        at="ldmatrix",
        says="a cp.async may still be writing it",
    ),
    Bug(
        name="a cp.async wait is one group short",
        operation="prefill",
        edits=(Edit(ATTEND, TILE_LANDED, TILE_LANDED.replace("<0>", "<1>")),),
        scenario="prefill",
        check="race",
        at="ldmatrix",
        says="a cp.async may still be writing it",
    ),
    Bug(
        name="a ring's wait is one group short",
        operation="decode",
        edits=(Edit(DECODE, "cp_async_wait<Tile::stages - 2>();", "cp_async_wait<Tile::stages - 1>();"),),
        scenario="decode",
        check="race",
        at="ldmatrix",
        says="a cp.async may still be writing it",
    ),
    Bug(
        name="a commit is missing",
        operation="backward_dkv",
        edits=(
            Edit(
                DKV,
                "    cp_async_commit();\n    if (tile * N < warp_first + 15)",
                "    if (tile * N < warp_first + 15)",
            ),
        ),
        scenario="training",
        check="race",
        at="ldmatrix",
        says="a cp.async may still be writing it",
    ),
    Bug(
        name="a stage index is one off",
        operation="backward_dkv",
        edits=(Edit(DKV, "stages + (step & 1) * Tile", "stages + ((step + 1) & 1) * Tile"),),
        scenario="training",
        check="race",
        at="ldmatrix",
        says="written by warp",
    ),
    Bug(
        name="a ring refills the stage that is in use",
        operation="decode",
        edits=(Edit(DECODE, "stage == 0 ? Tile::stages - 1 : stage - 1;", "stage;"),),
        scenario="decode",
        check="race",
        at="ldmatrix",
        says="a cp.async may still be writing it",
    ),
    Bug(
        name="no __syncwarp after a warp's own copies",
        operation="decode",
        edits=(
            Edit(
                DECODE,
                "    cp_async_wait<Tile::stages - 2>();\n    __syncwarp();\n",
                "    cp_async_wait<Tile::stages - 2>();\n",
            ),
        ),
        scenario="decode",
        check="race",
        at="ldmatrix",
        says="written by warp 0, lane 8",
    ),
    Bug(
        name="no __syncwarp between a warp's scratch and its rows",
        operation="backward_dq",
        edits=(Edit(COPY_TILE, "  __syncwarp();\n  constexpr int chunks", "  constexpr int chunks"),),
        scenario="training",
        check="race",
        at="ld.shared",
        says="written by warp 0, lane 1",
    ),
    Bug(
        name="warps' results are joined before they are there",
        operation="decode",
        edits=(
            Edit(
                DECODE, "  state.leave_result(own, lane);\n  __syncthreads();\n", "  state.leave_result(own, lane);\n"
            ),
        ),
        scenario="decode",
        check="race",
        at="ld.shared",
        says="written by warp",
    ),
    Bug(
        name="tokens' places are used before they are found",
        operation="append",
        edits=(Edit("gated/portable/append.h", "  __syncthreads();\n", ""),),
        scenario="prefill",
        check="race",
        at="ld.shared",
        says="written by warp 0, lane 0",
    ),
    Bug(
        name="a warp's scratch overlaps the next one's",
        operation="forward",
        edits=(Edit(ATTEND, "(o, inverse, shared + warp * 16 *", "(o, inverse, shared + warp * 15 *"),),
        scenario="training",
        check="race",
        at="",
        says="nothing orders the two",
    ),
    Bug(
        name="a hand-over is not waited for",
        operation="backward_dkv",
        edits=(
            Edit(
                "gated/portable/dkv_accumulate.h",
                "named_barrier_sync<Tile::threads>(full_barrier(kDs",
                "named_barrier_arrive<Tile::threads>(full_barrier(kDs",
            ),
        ),
        scenario="training",
        check="race",
        at="ldmatrix",
        says="nothing orders the two",
        tile={"split_roles": 1, "stages": 3, "hand_over": 1},
    ),
)

TOGETHER = (
    Bug(
        name="a barrier inside a divergent branch",
        operation="forward",
        edits=(Edit(ATTEND, "(lane & 3) == 0) {\n", "(lane & 3) == 0) {\n    __syncthreads();\n"),),
        scenario="training",
        check="converged",
        at="bar.sync",
        says="lanes 0x11111111 execute it",
    ),
    Bug(
        name="a warp goes past a barrier that others come to",
        operation="prefill",
        edits=(
            Edit(
                ATTEND,
                TILE_LANDED,
                TILE_LANDED.replace("__syncthreads()", "if (tile * N <= position + 15) __syncthreads()"),
            ),
        ),
        scenario="prefill",
        check="race",
        at="",
        says="nothing orders the two",
    ),
    Bug(
        name="a shuffle's mask misses a lane",
        operation="backward_dq",
        edits=(Edit(DQ, "__shfl_xor_sync(0xffffffffu, sum, 1)", "__shfl_xor_sync(0x7fffffffu, sum, 1)"),),
        scenario="training",
        check="converged",
        at="shfl",
        says="expected 0x7fffffff",
    ),
    Bug(
        name="nobody arrives at a named barrier",
        operation="backward_dkv",
        edits=(
            Edit(
                "gated/portable/dkv_accumulate.h",
                "    if (step + 2 < work.steps) named_barrier_arrive<Tile::threads>(loaded_barrier(step));\n",
                "",
            ),
        ),
        scenario="training",
        check="deadlock",
        at="bar.sync",
        says="warp 4 waits at line",
        tile={"split_roles": 1, "stages": 3, "hand_over": 1},
    ),
    Bug(
        name="threads of a named barrier are counted in two ways",
        operation="backward_dkv",
        edits=(
            Edit(
                "gated/portable/dkv_score.h",
                "arrive<Tile::threads>(full_barrier(kW",
                "arrive<Tile::role_threads>(full_barrier(kW",
            ),
        ),
        scenario="training",
        check="barrier",
        at="bar.",
        says="barrier 1 for 256 threads: earlier arrivals were for 128",
        tile={"split_roles": 1, "stages": 3, "hand_over": 1},
    ),
)

PLACES = (
    Bug(
        name="a tail row is read past the sequence",
        operation="forward",
        edits=(Edit("gated/portable/dense.h", "exists ? num_keys - first : 0", "exists ? num_keys - first + 1 : 0"),),
        scenario="training",
        check="bounds",
        at="cp.async",
        says="0 bytes behind the end of k",
    ),
    Bug(
        name="a row is written past the sequence",
        operation="backward_dkv",
        edits=(
            Edit(DKV, "const int warp_valid = valid - warp * 16;", "const int warp_valid = valid + 1 - warp * 16;"),
        ),
        scenario="training",
        check="bounds",
        at="st.global",
        says="0 bytes behind the end of dk",
    ),
    Bug(
        name="a stride in the wrong unit",
        operation="forward",
        edits=(
            Edit(
                "gated/portable/dense.h",
                "{k.data + first * k.stride, k.stride}",
                "{k.data + first * k.stride, 2 * k.stride}",
            ),
        ),
        scenario="training",
        check="bounds",
        at="cp.async",
        says="read of 16 bytes at global address",
    ),
    Bug(
        name="a page's bytes are taken for elements",
        operation="page_copy",
        edits=(
            Edit(
                "gated/portable/page_copy.h",
                "cache + copy.target * params.page_bytes",
                "cache + copy.target * 2 * params.page_bytes",
            ),
        ),
        scenario="fork",
        check="unwritten",
        at="mma",
        says="at shared address",
        where="gated_dec_sm80",
    ),
    Bug(
        name="an offset's product overflows 32 bits",
        operation="forward",
        edits=(
            Edit("gated/portable/dense.h", "k.data + first * k.stride", "k.data + first * static_cast<int>(k.stride)"),
        ),
        scenario="training far apart",
        check="bounds",
        at="cp.async",
        says="read of 16 bytes at global address",
    ),
    Bug(
        name="an ldmatrix row is misaligned",
        operation="forward",
        edits=(Edit("device/shared_tile.h", "((lane >> 3) & 1) * 16;", "((lane >> 3) & 1) * 8;"),),
        scenario="training",
        check="misaligned",
        at="ldmatrix",
        says="not a multiple of 16",
    ),
    Bug(
        name="a page is used after its release",
        operation="decode",
        edits=(Edit(DECODE, "first / abi::kPageTokens);", "first / abi::kPageTokens) ^ 1;"),),
        scenario="release",
        check="freed",
        at="cp.async",
        says="of the cache, lane 0: they were given back",
    ),
    Bug(
        name="an input is written",
        operation="forward",
        edits=(
            Edit(
                "gated/portable/forward.h",
                "const_cast<u16*>(o.data)",
                "const_cast<u16*>(dense_rows(params.q, batch, head, first).data)",
            ),
        ),
        scenario="training",
        check="bounds",
        at="st.global",
        says="of q, lane 0: it is an input",
    ),
    Bug(
        name="a stage lies past the shared memory",
        operation="backward_dkv",
        edits=(Edit(DKV, "stages + ((step + 1) & 1) * Tile", "stages + (step + 1) * Tile"),),
        scenario="training",
        check="bounds",
        at="cp.async",
        says="shared address",
    ),
)

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
        at="",
        says="of the partials, which nobody wrote",
    ),
    Bug(
        name="a statistic is not stored for the backward",
        operation="forward",
        edits=(Edit(ATTEND, "if (row < warp_valid) query.stats", "if (row + 1 < warp_valid) query.stats"),),
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
        at="",
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
            Edit(
                "gated/portable/forward.h",
                "params.stats + (static_cast<i64>(batch) * params.q_heads + head) * params.seq_len + first",
                "nullptr",
            ),
        ),
        scenario="training",
        check="parameters",
        at="",
        says="given 224 bytes, takes 216",
    ),
)

BUGS = (*ORDER, *TOGETHER, *PLACES, *VALUES)
