"""The training shapes that timings use, and their work."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """One causal training batch."""

    batch: int
    q_heads: int
    kv_heads: int
    length: int
    head_dim: int
    gate_dim: int

    @property
    def name(self) -> str:
        """For tables and filters: b2-h16/4-s2048-d128-r64."""
        heads = f"h{self.q_heads}/{self.kv_heads}"
        return f"b{self.batch}-{heads}-s{self.length}-d{self.head_dim}-r{self.gate_dim}"

    @property
    def pairs(self) -> int:
        """(query head, visible key) pairs."""
        return self.batch * self.q_heads * self.length * (self.length + 1) // 2

    @property
    def forward_flops(self) -> int:
        """Of the operation as written, two a multiply-add."""
        return 2 * (2 * self.head_dim + self.gate_dim) * self.pairs

    @property
    def backward_flops(self) -> int:
        """Of a fused backward, whatever a kernel recomputes."""
        return 2 * (5 * self.head_dim + 3 * self.gate_dim) * self.pairs


SHAPES = (
    Shape(2, 16, 16, 2048, 64, 32),
    Shape(2, 16, 4, 2048, 128, 64),
    Shape(1, 32, 8, 4096, 64, 64),
    Shape(1, 32, 8, 8192, 128, 32),
    Shape(1, 16, 2, 16384, 128, 64),
    Shape(1, 16, 4, 16384, 64, 32),
)
