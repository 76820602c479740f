"""The simulator as formulations see it: from a decision to its times, under one rule for channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hexloom.formulations.decision import Decision, Evaluate, Simulated
from hexloom.formulations.problem import slows
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.sharing import Sharing
from hexloom.optimizer.simulate import simulate, simulate_fast

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.simulate import ExactTimeline, Timeline

    Run = tuple[Plan, Timeline[float]]

LATE = 1e-9
"""What a deadline may be missed by in floating point."""


def evaluator(rule: Rule) -> Evaluate:
    """Return the simulator under ``rule``: in floats where ops are slowed, else in whole ticks."""
    run = _runner(rule)
    return lambda problem, decision: run(problem, decision)[0]


def _runner(rule: Rule) -> Callable[[Problem, Decision], tuple[Simulated, Run]]:
    known: dict[int, tuple[Problem, Sharing]] = {}

    def judge(problem: Problem, decision: Decision) -> tuple[Simulated, Run]:
        if id(problem) not in known:
            known[id(problem)] = problem, Sharing(problem, rule, exact=False)
        plan = make_plan(problem, decision)
        timeline = simulate_fast(problem, plan, known[id(problem)][1])
        times = [timeline.times[op.name] for op in problem.ops]
        late = any(
            op.deadline_ticks is not None and t.observed > op.deadline_ticks * (1 + LATE)
            for op, t in zip(problem.ops, times, strict=True)
        )
        simulated = Simulated(
            timeline.makespan,
            tuple(t.start for t in times),
            tuple(t.transfer_start for t in times),
            tuple(t.done for t in times),
            tuple(t.observed for t in times),
            late,
        )
        return simulated, (plan, timeline)

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
        self._run: Run | None = None

    def __call__(self, rule: Rule) -> Evaluate:
        """Return the simulator under ``rule``."""
        if rule != self._rule:
            return evaluator(rule)
        judge = _runner(rule)

        def keep(problem: Problem, decision: Decision) -> Simulated:
            simulated, run = judge(problem, decision)
            shorter = self._best is None or simulated.makespan < self._best[1].makespan
            if problem is self._problem and shorter and not simulated.late:
                self._best, self._run = (decision, simulated), run
            return simulated

        return keep

    def run_of(self, problem: Problem, decision: Decision) -> tuple[Plan, ExactTimeline]:
        """Return the plan of ``decision`` and its exact times: of the best plan they are known where they are whole."""
        kept = self._best is not None and self._best[0] is decision and problem is self._problem
        if kept and self._run is not None and not slows(self._rule):
            return self._run[0], cast("ExactTimeline", self._run[1])
        plan = make_plan(problem, decision)
        return plan, simulate(problem, plan, self._rule)

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
