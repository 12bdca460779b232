"""What a GPU could do at best, by its datasheet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Datasheet:
    """Dense 16-bit matrix products with float32 sums in TFLOP/s, and memory bandwidth in TB/s."""

    tflops: float
    tbps: float

    def floor_ms(self, flops: int, moved: int) -> float:
        """The least time for so many FLOPs and bytes: the larger of the two quotients."""
        return max(flops / (self.tflops * 1e9), moved / (self.tbps * 1e9))

    @property
    def ridge(self) -> float:
        """FLOPs a byte above which the products, not the memory, bound a kernel."""
        return self.tflops / self.tbps


# By a part of the name that the driver gives; the first that matches counts.
DATASHEETS = {
    "H200": Datasheet(989, 4.8),
    "GH200": Datasheet(989, 4.0),
    "H100 PCIe": Datasheet(756, 2.0),
    "H100": Datasheet(989, 3.35),
    "A100-SXM4-80GB": Datasheet(312, 2.039),
    "A100": Datasheet(312, 1.555),
    "B200": Datasheet(2250, 8.0),
}


def datasheet(gpu: str) -> Datasheet | None:
    """That of a GPU's name; None if it isn't known, and then there are no floors."""
    words = gpu.replace("NVIDIA ", "")
    return next((sheet for name, sheet in DATASHEETS.items() if words.startswith(name)), None)
