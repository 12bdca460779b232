"""Makes elements of tokens infinite whose results float64 knows; tokens are raw bits, tokens first."""

from __future__ import annotations

import numpy as np

from tools.reference.attention import Inputs
from tools.reference.bits import to_bits

COLUMNS = 3  # that one call of a function here changes, from first_column on, one for each infinity


def make_gates_infinite(tokens: Inputs, name: str, dtype: str, first_column: int = 0, hidden: bool = True) -> None:
    """An element of the first, the middle and the last token's qg or kg becomes infinite, in place: of those tokens
    visible pairs have gates of 0 or 1. With `hidden` the scores of their hidden pairs are infinity times 0, NaN."""
    for i, token in enumerate(sorted({0, len(tokens.q) // 2, len(tokens.q) - 1})):
        column = first_column + i
        getattr(tokens, name)[token, :, column] = to_bits(np.float32(-np.inf if i % 2 else np.inf), dtype)
        if hidden and name == "qg":
            tokens.kg[token + 1 :, :, column] = 0
        elif hidden:
            tokens.qg[:token, :, column] = 0


def make_keys_infinite(tokens: Inputs, dtype: str) -> None:
    """An element of the middle and the last token's k becomes infinite, in place, so that no query weighs these keys.
    There are at least two tokens: the first one's query must see a key."""
    for column, token in enumerate((len(tokens.q) // 2, len(tokens.q) - 1)):
        tokens.q[..., column] = to_bits(np.float32(1), dtype)
        tokens.k[token, :, column] = to_bits(np.float32(-np.inf), dtype)
