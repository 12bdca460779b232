"""What the mutants of a kernel came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .coverage import Coverage, Run
from .rules import Mutant
from .worker import Outcome


@dataclass
class KernelReport:
    """killed: by what → how many. survivors: not known to be equivalent. wrongly: known to be, and yet killed.

    uncovered: runs of instructions that aren't executed, of which it isn't known why; their mutants aren't made.
    """

    kernel: str
    coverage: Coverage
    uncovered: list[Run]
    killed: Counter = field(default_factory=Counter)
    survivors: list[Mutant] = field(default_factory=list)
    equivalent: list[Mutant] = field(default_factory=list)
    wrongly: list[tuple[Mutant, Outcome]] = field(default_factory=list)

    def add(self, mutant: Mutant, outcome: Outcome, equivalent: bool) -> None:
        """Counts a mutant."""
        if not outcome.killed:
            (self.equivalent if equivalent else self.survivors).append(mutant)
            return
        self.killed[outcome.killed] += 1
        if equivalent:
            self.wrongly.append((mutant, outcome))

    @property
    def rate(self) -> float:
        """The killed ones among those that aren't equivalent; 1 if there are none."""
        killed = self.killed.total()
        return killed / (killed + len(self.survivors)) if killed or self.survivors else 1.0


def print_reports(reports: Sequence[KernelReport]) -> None:
    """A table, a kernel a line, and each survivor below it."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table("kernel", "executed", "mutants", "killed by", "equivalent", "survivors", "kill rate")
    for each in reports:
        killed = ", ".join(f"{what} {count}" for what, count in each.killed.most_common())
        total = each.killed.total() + len(each.survivors) + len(each.equivalent)
        table.add_row(
            each.kernel, f"{len(each.coverage.executed)} / {each.coverage.all}", str(total), killed,
            str(len(each.equivalent)), str(len(each.survivors)), f"{each.rate:.1%}",
        )  # fmt: skip
    console.print(table)
    for each in reports:
        for run in each.uncovered:
            console.print(
                f"{each.kernel}:{run.first}-{run.last}: {run.count} instructions not executed (context {run.context})",
                highlight=False, soft_wrap=True, markup=False,
            )  # fmt: skip
        for mutant in each.survivors:
            console.print(
                f"{mutant.kernel}:{mutant.line}: {mutant.rule}: {mutant.text} "
                f"(context {mutant.context}#{mutant.place})",
                highlight=False, soft_wrap=True, markup=False,
            )  # fmt: skip
        for mutant, outcome in each.wrongly:
            console.print(
                f"{mutant.kernel}:{mutant.line}: {mutant.rule}: {mutant.text} is said to be equivalent and is killed "
                f"by {outcome.killed}: {outcome.detail}",
                highlight=False, soft_wrap=True, markup=False,
            )  # fmt: skip
