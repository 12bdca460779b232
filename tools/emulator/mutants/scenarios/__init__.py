"""Small runs of the engine that launch a kernel: every way through it, on as few tokens as that takes.

A scenario is made once by an engine with the true kernels, and then run with each mutant of the kernel that it is for.
Kernels whose results it doesn't look at are replaced by ones that return at once.
"""

from .base import Scenario, operation_of
from .decoding import Decode, DecodeMerge
from .serving import Append, PageCopy, Prefill
from .training import Backward, BackwardDkv, Forward

SCENARIOS = {
    "fwd": Forward,
    "bwd_dq": Backward,
    "bwd_dkv": BackwardDkv,
    "append": Append,
    "prefill": Prefill,
    "dec": Decode,
    "dec_merge": DecodeMerge,
    "page_copy": PageCopy,
}

__all__ = ["SCENARIOS", "Scenario", "operation_of"]
