"""A smallest set of constraints that exclude each other, found by dropping groups and solving again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.optimizer.decide import excluded
from hexloom.optimizer.groups import keeping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.optimizer.decide import Decider, Verdict
    from hexloom.optimizer.groups import Group

STEP_SHARE = 0.25
"""Part of the time that is left for one question, so that a hard one leaves some for the others."""


FEW = 24
"""Of so many groups each is dropped by itself; more are halved once more, with the whole search."""


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
        self.quick = False
        self.known: dict[frozenset[Group], Verdict] = {}

    def run(self, groups: list[Group]) -> Conflict:
        # Where arithmetic excludes all, it is asked alone first: what it leaves is small, and it costs no time.
        self.quick = excluded(keeping(self.problem, groups))
        if self.quick:
            groups = self._split([], False, groups)
            self.quick = False
            left = groups if len(groups) <= FEW else self._split([], False, groups)
        else:
            self.known[frozenset(groups)] = "infeasible"
            left = self._split([], False, groups)
        verdicts: dict[Group, Verdict] = {}
        asked = list(left)
        for k, group in enumerate(asked):
            verdict = self.verdict([other for other in left if other != group], 1 / (len(asked) - k + 1))
            if verdict == "infeasible":
                left.remove(group)
            else:
                verdicts[group] = verdict
        members = []
        for group in left:
            # What was open beside a group that has gone since may be decided now.
            again = verdicts[group] == "open"
            members.append((group, self.verdict([o for o in left if o != group]) if again else verdicts[group]))
        return Conflict(tuple(members), self.verdict(left) == "infeasible")

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

    def verdict(self, kept: Sequence[Group], share: float = STEP_SHARE) -> Verdict:
        """Say whether the groups ``kept`` alone allow a schedule, in a ``share`` of the time that is left."""
        key = frozenset(kept)
        if self.known.get(key, "open") != "open":
            return self.known[key]
        left = self.until - time.monotonic()
        if self.quick:
            return "infeasible" if excluded(keeping(self.problem, kept)) else "open"
        self.known[key] = "open"
        if left > 0:
            self.known[key] = self.decider.decide(keeping(self.problem, kept), self.rule, left * share).verdict
        elif excluded(keeping(self.problem, kept)):
            self.known[key] = "infeasible"
        return self.known[key]
