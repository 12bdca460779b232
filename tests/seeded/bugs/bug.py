"""What a seeded bug is, and the templates that most of them are in."""

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

# In forward, prefill and backward_dq: the key tile has landed for everyone, and nobody reads the one before it.
TILE_LANDED = """    cp_async_wait<0>();
    __syncthreads();
    const u32 next_stage"""
