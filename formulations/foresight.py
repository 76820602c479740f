"""Foresight of the dispatcher: what will be ready at a known instant, and must find all units of an engine then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem, Use


class Foresight:
    """Keeps ops off the units that a more urgent job of all units is about to need.

    ``priority`` is minus the latest start. A job is foreseen when the ends of all that it waits for are known. Until
    then, or until its latest start when that is later, less urgent ops may use the engine.
    """

    def __init__(self, problem: Problem, priority: Sequence[float], missing: Sequence[int]) -> None:
        self._problem = problem
        self._priority = priority
        self._unknown = list(missing)
        self._ready = [float(problem.entry_ticks)] * len(problem.ops)
        units = {engine.name: engine.units for engine in problem.engines}
        # Only ops of one mode: what is left open may run elsewhere.
        self._wants = [
            [use.engine for use in op.modes[0].uses if use.ticks > 0 and 1 < use.units == units[use.engine]]
            if len(op.modes) == 1 and op.modes[0].dma is None
            else []
            for op in problem.ops
        ]
        self._limits: dict[str, dict[int, float]] = {}

    def will_end(self, followers: Sequence[int], at: float) -> None:
        """Learn that an op before ``followers`` ends ``at``."""
        for s in followers:
            self._unknown[s] -= 1
            self._ready[s] = max(self._ready[s], at)
            if self._unknown[s] == 0:
                for engine in self._wants[s]:
                    self._limits.setdefault(engine, {})[s] = max(self._ready[s], -self._priority[s])

    def started(self, op: int) -> None:
        """Forget a job: it has begun."""
        for engine in self._wants[op]:
            self._limits.get(engine, {}).pop(op, None)

    def allows(self, op: int, use: Use, end: float) -> bool:
        """Whether ``op`` may hold its units until ``end``."""
        limits = self._limits.get(use.engine)
        if not limits:
            return True
        mine = self._priority[op]
        return all(end <= limit or self._priority[s] <= mine for s, limit in limits.items())
