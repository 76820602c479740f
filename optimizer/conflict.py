"""A smallest set of constraints that exclude each other, found by dropping groups and solving again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.optimizer.groups import keeping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.optimizer.decide import Decider, Verdict
    from hexloom.optimizer.groups import Group

STEP_SHARE = 0.25
"""Part of the time that is left for one question, so that a hard one leaves some for the others."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Groups that exclude each other, each with what the others allow once it is dropped.

    ``infeasible`` never stands there: such a group is no member. When all are ``feasible`` no proper subset excludes
    anything; ``proven`` says that the set as a whole does, shown once more for itself alone.
    """

    members: tuple[tuple[Group, Verdict], ...]
    proven: bool

    @property
    def minimal(self) -> bool:
        """Whether a checked schedule was found for every set with one group less."""
        return all(verdict == "feasible" for _, verdict in self.members)


def smallest_conflict(
    problem: Problem, rule: Rule, groups: Sequence[Group], decider: Decider, seconds: float
) -> Conflict:
    """Return an inclusion-minimal part of ``groups``, which together are known to exclude each other.

    First by halves (Junker's QuickXplain), which asks about few sets when few groups matter; then every group that is
    left is dropped once more for itself. What is not decided in time stays in the set and says so.
    """
    return _Loop(problem, rule, decider, seconds).run(list(groups))


class _Loop:
    def __init__(self, problem: Problem, rule: Rule, decider: Decider, seconds: float) -> None:
        self.problem, self.rule, self.decider = problem, rule, decider
        self.until = time.monotonic() + seconds
        self.known: dict[frozenset[Group], Verdict] = {}

    def run(self, groups: list[Group]) -> Conflict:
        self.known[frozenset(groups)] = "infeasible"
        left = self._split([], False, groups)
        verdicts: dict[Group, Verdict] = {}
        for group in list(left):
            verdict = self.verdict([other for other in left if other != group])
            if verdict == "infeasible":
                left.remove(group)
            else:
                verdicts[group] = verdict
        # A group that was undecided beside one that has gone since may be decided now.
        members = tuple(
            (g, self.verdict([o for o in left if o != g]) if verdicts[g] == "open" else verdicts[g]) for g in left
        )
        return Conflict(members, self.verdict(left) == "infeasible")

    def _split(self, base: list[Group], grown: bool, groups: list[Group]) -> list[Group]:
        """Return a part of ``groups`` that excludes what ``base`` allows; ``grown``: base may exclude all by itself."""
        if grown and self.verdict(base) == "infeasible":
            return []
        if len(groups) == 1:
            return groups
        half = len(groups) // 2
        first, second = groups[:half], groups[half:]
        late = self._split([*base, *first], bool(first), second)
        return self._split([*base, *late], bool(late), first) + late

    def verdict(self, kept: Sequence[Group]) -> Verdict:
        """Say whether the groups ``kept`` alone allow a schedule."""
        key = frozenset(kept)
        left = self.until - time.monotonic()
        if self.known.get(key, "open") == "open" and (left > 0 or key not in self.known):
            seconds = max(0.0, left) * STEP_SHARE
            self.known[key] = (
                self.decider.decide(keeping(self.problem, kept), self.rule, seconds).verdict if left > 0 else "open"
            )
        return self.known[key]
