"""Trying choices: the loop of today is simulated with them, or a plan of one's own is solved for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.limit import OPS_PER_SECOND, Budget
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.lower import lower
from hexloom.optimizer.sharing import Sharing, acting_rule
from hexloom.optimizer.simulate import simulate_fast
from hexloom.optimizer.solve import solve
from hexloom.optimizer.tune.floors import Floors
from hexloom.optimizer.tune.parameters import Parameters, workload_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.lower import Lowered
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.solve import Result
    from hexloom.optimizer.tune.floors import Floor
    from hexloom.optimizer.tune.parameters import Shape

SIMULATED_TWICE = 2
"""A loop is lowered and simulated: what both take, in simulations of its ops."""


class Trials:
    """All that was tried for one shape on one machine.

    ``loops`` are microseconds of the loop of today by choice, None where it does not fit; ``plans`` are solved ones,
    and ``bounds`` microseconds that no plan of a choice can beat.
    """

    def __init__(
        self, shape: Shape, machine: Machine, threads: int, rule: Rule, seconds: float, seed: int | None
    ) -> None:
        self.shape, self.machine, self.threads, self.rule, self.seed = shape, machine, threads, rule, seed
        self.budget = Budget(seconds, counted=seed is not None)
        self.floors = Floors(shape, machine, threads)
        self.loops: dict[Parameters, float | None] = {}
        self.plans: dict[Parameters, Result] = {}
        self.bounds: dict[Parameters, float] = {}
        self.interrupted = False

    def chosen(self, m_chunk: int, n_chunk: int) -> Parameters:
        """Return the choice with these chunks, and all else as today."""
        return Parameters(m_chunk=m_chunk, n_chunk=n_chunk, threads=self.threads)

    def loop_us(self, chosen: Parameters) -> float | None:
        """Return what the loop of today takes with these parameters; None when it does not fit."""
        if chosen not in self.loops:
            lowered = lower(workload_of(self.shape, self.machine, chosen), self.machine, self.rule)
            self.budget.spend(SIMULATED_TWICE * len(lowered.problem.ops) / OPS_PER_SECOND)
            self.loops[chosen] = self._existing(lowered)
        return self.loops[chosen]

    def best_loop(self, floors: Mapping[Parameters, Floor], seconds: float) -> Parameters | None:
        """Return the choice with the shortest loop, looked for in at most ``seconds``.

        Those that can be no shorter by their floor are not simulated.
        """
        until = self.left - seconds
        best: Parameters | None = None
        least = float("inf")
        for chosen in sorted(floors, key=lambda chosen: floors[chosen].loop_us):
            if floors[chosen].loop_us >= least or (best is not None and (self.left < until or self.left == 0)):
                break
            us = self.loop_us(chosen)
            if us is not None and us < least:
                best, least = chosen, us
        return best

    def solve(self, chosen: Parameters, seconds: float, *, fixed_owner: bool = False) -> Result:
        """Find a plan in at most ``seconds``; begin with the one that is known."""
        seconds = max(seconds, 0.0)
        self.budget.spend(seconds)
        known = self.plans.get(chosen)
        result = solve(
            workload_of(self.shape, self.machine, chosen, fixed_owner=fixed_owner),
            self.machine,
            time_limit_s=seconds,
            contention=self.rule,
            seed=self.seed,
            start=None if known is None or fixed_owner else known.decision,
            explained=False,
        )
        self.interrupted = self.interrupted or result.interrupted
        return result

    @property
    def left(self) -> float:
        """Seconds that are left; none after Ctrl-C."""
        return 0.0 if self.interrupted else max(0.0, self.budget.left)

    def keep(self, chosen: Parameters, result: Result, *, bounds: bool = True) -> bool:
        """Keep the plan where it is the first or the better one of this choice, and what it ``bounds``.

        The bound of a plan that was found with less freedom than the choice has says nothing of the choice.
        """
        if result.schedule is None:
            return False
        if bounds:
            self.bounds[chosen] = max(self.bounds.get(chosen, 0.0), us_of(result.lower_bound_us))
        known = self.plans.get(chosen)
        if known is None or us_of(result.makespan_us) <= us_of(known.makespan_us):
            self.plans[chosen] = result
        return True

    def at_other_costs(
        self, today: Parameters | None, best: Parameters, schedule: Schedule, machine: Machine
    ) -> tuple[float | None, float] | None:
        """Return what the loop of today and a plan take on ``machine``.

        None where the plan has cut ops in pieces: it is one of other ops than the kernel's.
        """
        problem = self._acting(lower(workload_of(self.shape, machine, best), machine, self.rule))
        if problem.op_index.keys() != schedule.problem.op_index.keys():
            return None
        rule = acting_rule(problem, self.rule)
        ticks = simulate_fast(problem, schedule.plan, Sharing(problem, rule, exact=False)).makespan
        existing = None
        if today is not None:
            existing = self._existing(lower(workload_of(self.shape, machine, today), machine, self.rule))
        assert problem.tick is not None
        return existing, float(ticks) * float(problem.tick)

    def _acting(self, lowered: Lowered) -> Problem:
        return lowered.problem.under(self.rule)

    def _existing(self, lowered: Lowered) -> float | None:
        problem = self._acting(lowered)
        rule = acting_rule(problem, self.rule)
        ticks = baselines(problem, lowered.loops, rule, serial=False, exact=False).existing
        assert problem.tick is not None
        return None if ticks is None else float(ticks * problem.tick)


def us_of(time: Fraction | None) -> float:
    """Return a time that is there, in microseconds."""
    assert time is not None
    return float(time)
