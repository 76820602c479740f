"""The simulator as formulations see it: from a decision to its times, under one rule for channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision, Evaluate, Simulated
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.sharing import Sharing
from hexloom.optimizer.simulate import simulate_fast

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem, Rule

LATE = 1e-9
"""What a deadline may be missed by in floating point."""


def evaluator(rule: Rule) -> Evaluate:
    """Return the simulator under ``rule``: in floats where ops are slowed, else in whole ticks."""
    known: dict[int, tuple[Problem, Sharing]] = {}

    def judge(problem: Problem, decision: Decision) -> Simulated:
        if id(problem) not in known:
            known[id(problem)] = problem, Sharing(problem, rule, exact=False)
        timeline = simulate_fast(problem, make_plan(problem, decision), known[id(problem)][1])
        times = [timeline.times[op.name] for op in problem.ops]
        late = any(
            op.deadline_ticks is not None and t.observed > op.deadline_ticks * (1 + LATE)
            for op, t in zip(problem.ops, times, strict=True)
        )
        return Simulated(
            timeline.makespan,
            tuple(t.start for t in times),
            tuple(t.transfer_start for t in times),
            tuple(t.done for t in times),
            tuple(t.observed for t in times),
            late,
        )

    return judge


def is_valid(problem: Problem, decision: Decision) -> bool:
    """Whether a decision made for another problem is one of this: the same ops and buffers, and no rule broken."""
    n = len(problem.ops)
    if len(decision.modes) != n or len(decision.offsets) != len(problem.buffers):
        return False
    if any(m >= len(op.modes) for op, m in zip(problem.ops, decision.modes, strict=True)):
        return False
    chosen = [op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)]
    waits = {~i for i, mode in enumerate(chosen) if mode.dma is not None}
    if set(decision.actions) != {*range(n), *waits} or len(decision.actions) != n + len(waits):
        return False
    if any(len(units) != len(mode.uses) for units, mode in zip(decision.units, chosen, strict=True)):
        return False
    have = {engine.name: engine.units for engine in problem.engines}
    for units, mode in zip(decision.units, chosen, strict=True):
        if any(u >= have[use.engine] for use, ids in zip(mode.uses, units, strict=True) for u in ids):
            return False
    try:
        return not check_plan(problem, make_plan(problem, decision))
    except PlanError:
        return False


class Kept:
    """The simulators of a search, which keep the best plan of ``problem`` under ``rule`` in case it is interrupted.

    ``known`` are decisions that the search begins with.
    """

    def __init__(self, problem: Problem, rule: Rule, known: tuple[Decision, ...]) -> None:
        self._problem = problem
        self._rule = rule
        self._known = known
        self._best: tuple[Decision, Simulated] | None = None

    def __call__(self, rule: Rule) -> Evaluate:
        """Return the simulator under ``rule``."""
        judge = evaluator(rule)
        if rule != self._rule:
            return judge

        def keep(problem: Problem, decision: Decision) -> Simulated:
            simulated = judge(problem, decision)
            shorter = self._best is None or simulated.makespan < self._best[1].makespan
            if problem is self._problem and shorter and not simulated.late:
                self._best = decision, simulated
            return simulated

        return keep

    def best(self) -> tuple[Decision, Simulated] | None:
        """Return the best plan that was seen and breaks no rule."""
        judge = self(self._rule)
        seen = None if self._best is None else self._best[0]
        self._best = None
        for decision in (*self._known, *(() if seen is None else (seen,))):
            if is_valid(self._problem, decision):
                judge(self._problem, decision)
        return self._best


evaluate = evaluator("none")
"""The simulator where channels are ignored."""
