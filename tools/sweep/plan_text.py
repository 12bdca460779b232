"""Changes numbers in the text of a JSON file and leaves every other character as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,:]*")  # the text is JSON, so what stands between values needs no checking


def with_numbers(text: str, path: tuple[str | int, ...], values: Mapping[str, int]) -> str:
    """The text with numbers of one object replaced. text: a JSON document. path: keys and indices of the object.

    values: field -> its new number. Errors: LookupError if the document has no such object or field.
    """
    start = _BETWEEN.match(text).end()
    for step in path:
        start = _find(text, start, step)
    for field, value in values.items():
        place = _find(text, start, field)
        _, end = _DECODER.raw_decode(text, place)
        text = text[:place] + str(value) + text[end:]
    return text


def _find(text: str, start: int, step: str | int) -> int:
    """Where the member `step` of the object or array at `start` begins."""
    for name, place in _members(text, start):
        if name == step:
            return place
    raise LookupError(step)


def _members(text: str, start: int) -> Iterator[tuple[str | int, int]]:
    """Key or index, and the place of the value, of each member of the object or array at `start`."""
    is_object, index = text[start] == "{", 0
    place = _BETWEEN.match(text, start + 1).end()
    while text[place] not in "}]":
        name: str | int = index
        if is_object:
            name, place = _DECODER.raw_decode(text, place)
            place = _BETWEEN.match(text, place).end()
        yield name, place
        _, end = _DECODER.raw_decode(text, place)
        place, index = _BETWEEN.match(text, end).end(), index + 1
