"""How long ops work together in the flat model, from below and from above.

With all times floors of the real ones, a group of ops that overlaps by ``o = min of ends - max of starts`` parts
overlaps by more than ``o - 1`` and less than ``o + 1`` in truth.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ortools.sat.python import cp_model

    from hexloom.formulations.flat.variables import Work

Group = tuple[int, ...]
"""Ops that work together, ascending."""


class Overlaps:
    """Variables for the overlap of groups of ops, made when they are asked for.

    Parameters
    ----------
    model, works, upper
        The model, the work of each op in it, and the end of time.
    """

    def __init__(self, model: cp_model.CpModel, works: Sequence[Work], upper: int) -> None:
        self._model = model
        self._works = works
        self._upper = upper
        self._first: dict[Group, tuple[cp_model.IntVar, cp_model.IntVar]] = {}
        self._least: dict[Group, cp_model.IntVar] = {}
        self._most: dict[Group, tuple[cp_model.IntVar, cp_model.IntVar]] = {}

    def least(self, group: Group) -> cp_model.IntVar:
        """Return a variable with ``max(0, o - 1) <= it``, for terms that lengthen an op.

        For a pair by its four cases: who begins last, times who ends first. For more ops by the least of their pairs,
        which is the same: the last begin and the first end belong to one of them.
        """
        if group not in self._least:
            model = self._model
            found = self._least[group] = model.new_int_var(0, self._upper, f"overlap:{group}")
            if len(group) == 2:
                a, b = (self._works[i] for i in group)
                begins, ends = self._order(group)
                model.add(found >= a.done - b.begin - 1).only_enforce_if(begins, ends)
                model.add(found >= b.size - 1).only_enforce_if(begins, ~ends)
                model.add(found >= a.size - 1).only_enforce_if(~begins, ends)
                model.add(found >= b.done - a.begin - 1).only_enforce_if(~begins, ~ends)
            else:
                pairs = [self.least(pair) for pair in combinations(group, 2)]
                smallest = model.new_int_var(0, self._upper, f"smallest:{group}")
                model.add_min_equality(smallest, pairs)
                model.add(found >= smallest)
        return self._least[group]

    def most(self, group: Group) -> cp_model.IntVar:
        """Return a variable with ``it <= max(0, o + 1)``, for terms that take back what smaller groups say too much."""
        if group not in self._most:
            model = self._model
            found = model.new_int_var(0, self._upper, f"shared:{group}")
            some = model.new_bool_var(f"share:{group}")
            self._most[group] = found, some
            model.add(found == 0).only_enforce_if(~some)
            for a in group:
                model.add(found <= self._works[a].size + 1).only_enforce_if(some)
                for b in group:
                    if a != b:
                        model.add(found <= self._works[a].done - self._works[b].begin + 1).only_enforce_if(some)
        return self._most[group][0]

    def _order(self, pair: Group) -> tuple[cp_model.IntVar, cp_model.IntVar]:
        """Return whether the first of a pair begins no later than the second, and whether it ends no later."""
        if pair not in self._first:
            model = self._model
            a, b = (self._works[i] for i in pair)
            begins, ends = model.new_bool_var(f"begins:{pair}"), model.new_bool_var(f"ends:{pair}")
            model.add(a.begin <= b.begin).only_enforce_if(begins)
            model.add(b.begin <= a.begin).only_enforce_if(~begins)
            model.add(a.done <= b.done).only_enforce_if(ends)
            model.add(b.done <= a.done).only_enforce_if(~ends)
            self._first[pair] = begins, ends
        return self._first[pair]

    def hint(self, begin: Sequence[int], done: Sequence[int]) -> None:
        """Start from these times."""

        def together(group: Group) -> int:
            return min(done[i] for i in group) - max(begin[i] for i in group)

        for (a, b), (begins, ends) in self._first.items():
            self._model.add_hint(begins, begin[a] <= begin[b])
            self._model.add_hint(ends, done[a] <= done[b])
        for group, least in self._least.items():
            self._model.add_hint(least, max(0, together(group) - 1))
        for group, (most, some) in self._most.items():
            self._model.add_hint(most, max(0, together(group) + 1))
            self._model.add_hint(some, together(group) + 1 > 0)
