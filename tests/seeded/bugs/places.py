"""Memory that is not the kernel's to use."""

from __future__ import annotations

from .bug import DECODE, DKV, Bug, Edit

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
        scenario="training of one tile",
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
    Bug(
        name="decode reads the query rows behind the sequence's last",
        operation="decode",
        edits=(
            Edit(
                DECODE, "return (first_row + min(row, num_rows - 1)) / group; }", "return (first_row + row) / group; }"
            ),
        ),
        scenario="decode",
        check="bounds",
        at="ld.global",
        says="q",
    ),
)
