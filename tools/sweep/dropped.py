"""The points that aren't timed, and why."""

from __future__ import annotations

import re

from .state import FAILED, REFUSED, State

WRONG = "wrong"  # its results aren't the operation's


def dropped(state: State) -> dict[str, tuple[str, str]]:
    """Point -> what became of it (refused, failed or wrong) and the reason, in the sweep's order."""
    facts = {point: (fact["state"], fact.get("reason", "")) for point, fact in state.decided.items()}
    facts |= {point: (WRONG, reason) for point, reason in state.checks.items() if reason is not None}
    return {point: facts[point] for point in state.points if facts.get(point, ("", ""))[0] in (REFUSED, FAILED, WRONG)}


def counts(state: State) -> list[str]:
    """How many points were dropped for each kind of reason, a line each, with the reason of the first such point."""
    groups: dict[tuple[str, str], list[str]] = {}
    for point, (became, reason) in dropped(state).items():
        groups.setdefault((became, kind_of(reason)), []).append(f"{brief(reason)} ({point})")
    largest_first = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [f"{len(reasons)} {became}: {reasons[0]}" for (became, _), reasons in largest_first]


def brief(reason: str) -> str:
    """A reason without its details. A compiler's warning keeps its number, (C7512)."""
    return re.split(r" \((?!C\d)|; ", reason)[0]


def kind_of(reason: str) -> str:
    """The kind of a reason, which tells groups apart: brief, and numbers as N."""
    return re.sub(r"\b\d[\d.e+-]*", "N", brief(reason))
