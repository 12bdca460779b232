"""Which of an SM's pipes executes an instruction."""

from __future__ import annotations

import re

# The first that the opcode begins with. Pipes as Nsight Compute names them, in lower case.
_PIPES = (
    ("tensor", ("mma.", "wgmma.mma")),
    ("xu", ("ex2.", "lg2.", "tanh.", "rcp.", "rsqrt.", "sqrt.", "sin.", "cos.")),
    (
        "lsu",
        ("ld.global", "st.global", "ld.shared", "st.shared", "ldmatrix.", "stmatrix.", "cp.async.c", "atom.", "red."),
    ),
    ("const", ("ld.param", "ld.const")),
    ("shuffle", ("shfl.",)),
    ("control", ("bra", "ret", "exit", "bar", "cp.async.", "membar", "fence", "griddepcontrol", "wgmma.")),
    ("fma", ("add.rn.f32", "sub.rn.f32", "mul.rn.f32", "fma.rn.f32", "add.f32", "mul.f32", "fma.")),
    ("divide", ("div.", "rem.")),
)
PIPES = tuple(name for name, _ in _PIPES) + ("alu",)

# A product of M x N x K; the 64 rows of a wgmma are a warpgroup's, a quarter each warp's.
_MMA = re.compile(r"(wg)?mma\.(?:.*\.)?m(\d+)n(\d+)k(\d+)\.")


# Where a statement may begin: at the start of the line, behind another, in a scope of names.
_STATEMENT = re.compile(r"(?:^|[;{}])\s*(?:@!?[%\w]+\s+)?([a-z][\w.:]*)(?=[\s;]|$)")


def opcodes_of(line: str) -> list[str]:
    """The opcodes of a line's instructions, commonly one; assembly that a source has inlined may have several."""
    return [opcode for opcode in _STATEMENT.findall(line) if not opcode.endswith(":")]


def pipe_of(opcode: str) -> str:
    """The pipe of a dotted opcode; "alu" for what no other executes: integers, comparisons, conversions, moves."""
    for name, beginnings in _PIPES:
        if opcode.startswith(beginnings):
            return name
    return "alu"


def mma_flops(opcode: str) -> int:
    """Floating-point operations of one warp's execution; 0 if it is no MMA."""
    found = _MMA.match(opcode)
    if not found:
        return 0
    m, n, k = (int(size) for size in found.groups()[1:])
    return 2 * m * n * k // (4 if found[1] else 1)
