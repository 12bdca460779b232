"""The points that aren't timed, and why."""

from __future__ import annotations

import re
from collections import Counter

from .state import FAILED, REFUSED, State

WRONG = "wrong"  # its results aren't the operation's


def dropped(state: State) -> dict[str, tuple[str, str]]:
    """Point -> what became of it (refused, failed or wrong) and the reason, in the sweep's order."""
    facts = {point: (fact["state"], fact.get("reason", "")) for point, fact in state.decided.items()}
    facts |= {point: (WRONG, reason) for point, reason in state.checks.items() if reason is not None}
    return {point: facts[point] for point in state.points if facts.get(point, ("", ""))[0] in (REFUSED, FAILED, WRONG)}


def counts(state: State) -> list[str]:
    """How many points were dropped for each kind of reason, a line each."""
    kinds = Counter((became, kind_of(reason)) for became, reason in dropped(state).values())
    return [f"{count} {became}: {kind}" for (became, kind), count in kinds.most_common()]


def kind_of(reason: str) -> str:
    """The kind of a reason: without its details, numbers as N. A compiler's warning keeps its number, (C7512)."""
    return re.sub(r"\b\d[\d.e+-]*", "N", re.split(r" \((?!C\d)|; ", reason)[0])
