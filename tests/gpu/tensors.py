"""Arrays for the tests: inputs and outputs between guards of NaN, and comparisons of bits."""

import hashlib
import math
from collections.abc import Iterable
from typing import NamedTuple

import torch

DEVICE = torch.device("cuda")
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}

NAN_BITS = 0x7FFF  # NaN in bfloat16 and in float16
GUARD = 4096  # elements before and after every array; a multiple of 16 bytes


class Inputs(NamedTuple):
    """The five inputs: dense [B,S,heads,dim] for training, packed [T,heads,dim] for serving."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    qg: torch.Tensor
    kg: torch.Tensor


class Guarded:
    """A contiguous array full of NaN with NaN before and after it: reads past its ends show, and so do writes."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        size = math.prod(shape)
        self._bits = torch.full((size + 2 * GUARD,), NAN_BITS, dtype=torch.int16, device=DEVICE)
        self.array = self._bits[GUARD : GUARD + size].view(dtype).view(shape)

    def assert_guards_intact(self, name: str) -> None:
        """Fails if anything was written outside the array."""
        size = self.array.numel()
        outside = torch.cat((self._bits[:GUARD], self._bits[GUARD + size :]))
        assert bool((outside == NAN_BITS).all()), f"{name}: written outside the array"


def guarded_copy(values: torch.Tensor) -> torch.Tensor:
    """The same values in an array between guards of NaN."""
    array = Guarded(tuple(values.shape), values.dtype).array
    array.copy_(values)
    return array


def generator(seed: int) -> torch.Generator:
    """A generator on the test device; the same seed gives the same values in every process."""
    return torch.Generator(DEVICE).manual_seed(seed)


def random_array(shape: tuple[int, ...], dtype: torch.dtype, source: torch.Generator) -> torch.Tensor:
    """Standard normal values between guards."""
    return guarded_copy(torch.randn(shape, generator=source, device=DEVICE).to(dtype))


def random_inputs(
    rows: tuple[int, ...],
    q_heads: int,
    kv_heads: int,
    head_dim: int,
    gate_dim: int,
    dtype: torch.dtype,
    source: torch.Generator,
) -> Inputs:
    """Standard normal inputs; `rows` are the axes before the heads, (B, S) or (T,)."""
    key = kv_heads, head_dim
    shapes = (q_heads, head_dim), key, key, (q_heads, gate_dim), (kv_heads, gate_dim)
    return Inputs(*(random_array((*rows, *shape), dtype, source) for shape in shapes))


def bits(array: torch.Tensor) -> torch.Tensor:
    """A 16-bit float array's bits as int16, contiguous."""
    return array.contiguous().view(torch.int16)


def assert_same_bits(name: str, ours: torch.Tensor, expected: torch.Tensor) -> None:
    """Fails with the number of elements that differ and the first of them."""
    assert ours.shape == expected.shape, f"{name}: shape {tuple(ours.shape)}, expected {tuple(expected.shape)}"
    if torch.equal(bits(ours), bits(expected)):
        return
    different = (bits(ours) != bits(expected)).nonzero()
    first = tuple(different[0].tolist())
    raise AssertionError(
        f"{name}: {len(different)} of {ours.numel()} elements differ in their bits, first at {first}: "
        f"{ours[first].item()!r}, expected {expected[first].item()!r}"
    )


def digest(arrays: Iterable[torch.Tensor]) -> str:
    """sha256 of the arrays' bytes in order."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(bits(array).cpu().numpy())
    return total.hexdigest()
