"""Barriers and shuffles to which the wrong threads come, and blocks that never end."""

from __future__ import annotations

from .bug import ATTEND, DQ, TILE_LANDED, Bug, Edit

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
        at="cp.async",
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
    Bug(
        name="warps arrive for others that don't come any more",
        operation="backward_dkv",
        edits=(Edit("gated/portable/dkv_accumulate.h", "hand_over == 1 && step + 1 < work.steps)", "hand_over == 1)"),),
        scenario="training",
        check="barrier",
        at="ret",
        says="barrier 7: the block ends, and 128 of 256 threads have arrived",
        tile={"split_roles": 1, "stages": 3, "hand_over": 1},
    ),
    Bug(
        name="a search that never ends",
        operation="append",
        edits=(Edit("gated/portable/find_sequence.h", "while (end - found > 1)", "while (end - found > 0)"),),
        scenario="prefill",
        check="limit",
        at="",
        says="instructions",
    ),
)
