"""Which of an SM's pipes executes an instruction."""

from __future__ import annotations

# The first that the opcode begins with. Pipes as Nsight Compute names them, in lower case.
_PIPES = (
    ("tensor", ("mma.", "wgmma.")),
    ("xu", ("ex2.", "lg2.", "tanh.", "rcp.", "rsqrt.", "sqrt.", "sin.", "cos.")),
    (
        "lsu",
        ("ld.global", "st.global", "ld.shared", "st.shared", "ldmatrix.", "stmatrix.", "cp.async.c", "atom.", "red."),
    ),
    ("const", ("ld.param", "ld.const")),
    ("shuffle", ("shfl.",)),
    ("control", ("bra", "ret", "exit", "bar", "cp.async.", "membar", "fence", "griddepcontrol")),
    ("fma", ("add.rn.f32", "sub.rn.f32", "mul.rn.f32", "fma.rn.f32", "add.f32", "mul.f32", "fma.")),
    ("divide", ("div.", "rem.")),
)
PIPES = tuple(name for name, _ in _PIPES) + ("alu",)

MMA_FLOPS = {"m16n8k16": 2 * 16 * 8 * 16, "m16n8k8": 2 * 16 * 8 * 8}  # of one mma.sync


def pipe_of(opcode: str) -> str:
    """The pipe of a dotted opcode; "alu" for what no other executes: integers, comparisons, conversions, moves."""
    for name, beginnings in _PIPES:
        if opcode.startswith(beginnings):
            return name
    return "alu"


def mma_flops(opcode: str) -> int:
    """Floating-point operations of one warp's execution; 0 if it is no MMA."""
    return next(
        (flops for shape, flops in MMA_FLOPS.items() if opcode.startswith("mma.") and f".{shape}." in opcode), 0
    )
