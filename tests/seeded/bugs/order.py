"""Accesses to shared memory that nothing orders."""

from __future__ import annotations

from .bug import ATTEND, COPY_TILE, DECODE, DKV, DQ, TILE_LANDED, Bug, Edit

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
        at="st.shared",
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
