"""``solve()``: from a workload and a machine, or a problem, to a checked schedule."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, cast, get_args

from hexloom.formulations.again import claim_of, prove_again, prove_again_by_events
from hexloom.formulations.bounds import Bounds, lower_bounds
from hexloom.formulations.configuration.bound import configuration_bound
from hexloom.formulations.configuration.sequences import sequence_bound
from hexloom.formulations.feasibility import Shortfall, channel_shortfall, deadline_shortfall, first_shortfall
from hexloom.formulations.pieces import Pieced, can_be_cut, search_in_pieces
from hexloom.formulations.portfolio import Found, search
from hexloom.formulations.problem import Problem, Rule, slows
from hexloom.formulations.serial_order import least_bytes
from hexloom.formulations.shared_portfolio import search_shared
from hexloom.hwmodels import Machine, load_hw
from hexloom.optimizer.baselines import back_to_back, baselines
from hexloom.optimizer.bottleneck import bottleneck_of
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.errors import CheckFailedError, InvalidInputError
from hexloom.optimizer.evaluate import Kept, evaluator, is_valid
from hexloom.optimizer.explain import EXPLAIN_S, explain
from hexloom.optimizer.finish import all_bounds, finished
from hexloom.optimizer.hazard_orders import refuse_unordered
from hexloom.optimizer.lower import Lowered, loops_of, lower
from hexloom.optimizer.robust.choose import Scatter, choose
from hexloom.optimizer.robust.durations import Durations
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.formulations.configuration.certificate import Certificate
    from hexloom.formulations.decision import Decision
    from hexloom.optimizer.infeasibility import Infeasibility
    from hexloom.optimizer.lower import TaskLoop
    from hexloom.optimizer.robust.report import Robustness
    from hexloom.optimizer.schedule import Schedule

Progress = Callable[[Fraction, Fraction], None]


SLOWED_S, SLOWED_OPS = 15.0, 300
"""Most seconds for the configuration bound where ops slow each other, up to so many ops: it is the best bound there."""


PROVEN_ONCE = "interrupted: what the search has proven was not proven a second time"
INTERRUPTED = "interrupted: this is the best plan that was known by then"

PLAN_AT_EVENTS = "plan whose ops start at events"
"""What the exact search excludes where ops slow each other: beginning amid the work of another op might still help."""

PIECES_SHARE = 0.3
"""Where ops can be cut, part of the time for trying where, and again for the search in the problem with the cuts."""

AFTERWARDS = 3.0
"""How much longer than what comes before the search, what comes after it takes: the gain, the advice, the check."""

LEAST_SHARE = 0.5
"""When the search may end at the earliest, as a part of the time limit."""


@dataclass(frozen=True)
class Result:
    """What `solve` found.

    ``status`` is ``OPTIMAL`` (a schedule equal to a bound), ``FEASIBLE`` (a schedule), ``INFEASIBLE`` (proven; see
    ``infeasibility``) or ``LIMIT`` (no schedule was found and none is excluded). ``proved_twice`` says of a proof by
    search, of an optimum or that there is no schedule, whether two searches agree; None where arithmetic, or prices
    that the checker adds up again, prove all that is claimed. ``decision`` can be the ``start`` of another `solve`.
    ``robustness`` is what durations that scatter do to the plan, where that was asked; ``loops`` are today's loops of
    the tasks over the ops of the schedule.
    """

    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "LIMIT"]
    schedule: Schedule | None
    infeasibility: Infeasibility | None
    wall_s: float
    evaluations: int = 0
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    proved_twice: bool | None = None
    decision: Decision | None = field(default=None, repr=False)
    robustness: Robustness | None = None
    loops: tuple[TaskLoop, ...] = field(default=(), repr=False)

    @property
    def makespan_us(self) -> Fraction | None:
        """Makespan in microseconds (ticks for a problem in bare ticks)."""
        return None if self.schedule is None else self.schedule.us(self.schedule.makespan)

    @property
    def lower_bound_us(self) -> Fraction | None:
        """Best lower bound for any start times, in microseconds (or ticks)."""
        return None if self.schedule is None else self.schedule.us(self.schedule.lower_bound)

    @property
    def plan_bound_us(self) -> Fraction | None:
        """Best lower bound for event-driven plans, in microseconds (or ticks)."""
        return None if self.schedule is None else self.schedule.us(self.schedule.plan_bound)

    @property
    def gap(self) -> Fraction | None:
        """(makespan - lower_bound) / makespan."""
        return None if self.schedule is None else self.schedule.gap

    @property
    def plan_gap(self) -> Fraction | None:
        """(makespan - plan_bound) / makespan."""
        return None if self.schedule is None else self.schedule.plan_gap

    @property
    def bounds(self) -> dict[str, Fraction]:
        """Every bound by name, in microseconds (or ticks)."""
        schedule = self.schedule
        return {} if schedule is None else {b.name: schedule.us(b.ticks) for b in schedule.bounds}

    @property
    def bottleneck(self) -> str | None:
        """Engine or channel that the best bound names, else ``critical_path``, ``scratchpad`` or ``several``."""
        return None if self.schedule is None else bottleneck_of(self.schedule.bounds)

    @property
    def certificate(self) -> str | None:
        """Kind of proof behind the lower bound."""
        return None if self.schedule is None else self.schedule.certificate


def solve(
    work: Workload | Problem,
    hw: Machine | str | None = None,
    *,
    time_limit_s: float = 10.0,
    contention: str = "fluid",
    seed: int | None = None,
    on_progress: Progress | None = None,
    enough_gap: Fraction = Fraction(0),
    start: Decision | None = None,
    prove_twice: bool = False,
    explained: bool = True,
    robust: Scatter | Durations | str | None = None,
) -> Result:
    """Find a schedule of ``work``, prove how far it can be from the best, and check it.

    Parameters
    ----------
    work
        A workload in physical units, or a problem in ticks.
    hw
        Machine or the name of one; defaults to the one that the workload names. Not used with a problem.
    time_limit_s
        Seconds for lowering, bounds and search; a first plan is made and the result checked whatever they take. With a
        ``seed`` search is counted in work instead of wall time, so that the same seed gives the same schedule on any
        machine.
    contention
        How ops that work at the same time share channels: ``fluid`` (default; max-min fair in speed), ``proportional``,
        ``priority`` (in the order of the ops), ``rigid`` (whatever the timing, demands on a channel never exceed its
        capacity), or ``none`` (channels are ignored).
    on_progress
        Called with (makespan, bound) in microseconds at every improvement.
    enough_gap
        The search ends early with a schedule whose gap is at most this; with 0 only with a proven optimum.
    start
        The decision of an earlier result for the same ops and buffers: the search begins with it where it is valid.
    prove_twice
        A proof by search is done once more with other settings, for up to ``time_limit_s`` more; where that contradicts
        it, it is withdrawn.
    explained
        Whether a result without a schedule says what excludes what and what would help (up to 6 seconds more), and one
        with a schedule whether an overhead changes the advice.
    robust
        How durations scatter (``"10%"``, the name of a file, or data): of many orders that are nearly as short the one
        with the lowest 95th percentile is taken, where that is more than chance. Takes time of its own.

    Raises
    ------
    InvalidInputError
        The input is wrong; the message is one line.
    """
    started = time.monotonic()
    rule = rule_named(contention)
    scatter = _scatter(robust, seed)
    if not time_limit_s >= 0:
        raise InvalidInputError(f"time limit {time_limit_s} s must not be negative")
    machine: Machine | None = None
    if isinstance(work, Problem):
        refuse_unordered(work)
        lowered = Lowered(work, loops_of(work))
    else:
        machine = machine_of(work, hw)
        lowered = lower(work, machine, rule)
    problem = lowered.problem.under(rule)
    if scatter is not None:
        scatter.durations.factors(problem, 1, 0)  # a row that fits nothing is told before the search, not after it

    def infeasible(shortfall: Shortfall, twice: bool | None = None) -> Result:
        seconds = min(EXPLAIN_S, max(1.0, time_limit_s)) if explained else 0.0
        source = (work, machine) if isinstance(work, Workload) and machine is not None else None
        why = explain(problem, rule, shortfall, seconds, seed, source)
        return Result("INFEASIBLE", None, why, time.monotonic() - started, proved_twice=twice)

    shortfall = channel_shortfall(lowered.problem) if rule == "rigid" else None
    shortfall = shortfall or first_shortfall(problem)
    if shortfall is not None:
        return infeasible(shortfall)
    acting = acting_rule(problem, rule)
    bounds = lower_bounds(problem, acting)
    shortfall = deadline_shortfall(problem, bounds.heads_tails, acting)
    if shortfall is not None:
        return infeasible(shortfall)

    found = baselines(problem, lowered.loops, acting)
    dual: Certificate | None = None

    def sharpen(*, quick: bool = False) -> Bounds:
        nonlocal bounds, dual
        if not slows(acting):
            sequence = sequence_bound(problem, bounds.heads_tails, bounds.best.ticks)
            if sequence is not None:
                bounds, dual = replace(bounds, found=(sequence[0], *bounds.found)), sequence[1]
            if quick:
                return bounds
        seconds, known = min(1.0, time_limit_s / 10), Fraction(0)
        if slows(acting) and len(problem.ops) <= SLOWED_OPS:
            seconds, known = min(SLOWED_S, time_limit_s / 3), Fraction(bounds.best.ticks)
        priced = configuration_bound(
            problem,
            bounds.heads_tails,
            acting,
            time_limit_s=seconds,
            deterministic=seed is not None,
            at_least=known,
        )
        if priced is not None and priced[0].ticks > bounds.best.ticks:
            others = tuple(bound for bound in bounds.found if bound.name != priced[0].name)
            bounds, dual = replace(bounds, found=(priced[0], *others)), priced[1]
        return bounds

    tell = None
    if on_progress is not None:
        tick, report = problem.tick or Fraction(1), on_progress

        def tell(ticks: float, bound: float) -> None:
            report(Fraction(ticks) * tick, Fraction(bound) * tick)

    incumbent = back_to_back(problem, found)
    incumbents = () if incumbent is None else (incumbent,)
    if start is not None and is_valid(problem, start):
        incumbents = (*incumbents, start)
    spent = time.monotonic() - started
    kept, left = Kept(problem, acting, incumbents), time_limit_s

    def searched() -> Found:
        nonlocal bounds, left
        if slows(acting):
            bounds = sharpen()
        if seed is None:
            ends = max(time_limit_s - spent * AFTERWARDS, time_limit_s * LEAST_SHARE)
            left = max(0.0, ends - (time.monotonic() - started))
        if not slows(acting):
            return search(problem, bounds, kept(acting), incumbents, left, seed, tell, sharpen, enough_gap)
        share = 1 - 2 * PIECES_SHARE if can_be_cut(problem) else 1.0
        return search_shared(problem, acting, bounds, kept, incumbents, left * share, seed, tell, enough_gap)

    outcome = _or_kept(searched, kept)
    pieced = None
    if slows(acting):
        with contextlib.suppress(KeyboardInterrupt):  # the next one ends the run
            pieced = _in_pieces(problem, acting, outcome, bounds, left, seed)
    if pieced is not None:
        lowered = _cut(lowered, pieced)
        problem = lowered.problem
        bounds, dual, found = lower_bounds(problem, acting), None, baselines(problem, lowered.loops, acting)
        incumbents, left = (pieced.best[0],), left * PIECES_SHARE
        kept = Kept(problem, acting, incumbents)

        def searched_once_more() -> Found:
            nonlocal bounds
            bounds = sharpen()
            return search_shared(problem, acting, bounds, kept, incumbents, left, seed, tell, enough_gap)

        outcome = _or_kept(searched_once_more, kept)
    claim = claim_of(problem, outcome, bounds.best.ticks)
    twice = None if claim is None else claim.by_solver
    try:
        if prove_twice and claim is not None and not slows(acting):
            outcome, twice = prove_again(problem, bounds, evaluator(acting), outcome, time_limit_s, seed)
        elif prove_twice and claim is not None and not twice:
            outcome, twice = prove_again_by_events(problem, acting, evaluator(acting), outcome, time_limit_s, seed)
    except KeyboardInterrupt:
        outcome = replace(outcome, notes=(*outcome.notes, PROVEN_ONCE))
    if outcome.best is None:
        if outcome.proven_infeasible:
            what = PLAN_AT_EVENTS if outcome.by_events and slows(acting) else "schedule"
            return infeasible(Shortfall("search", None, what, 1, 0, f"{what.split()[0]}s"), twice)
        if outcome.no_order and problem.pools:
            return infeasible(Shortfall("search", None, "schedule", 1, 0, "schedules"), twice)
        if outcome.no_order:
            have = problem.scratchpad.available_bytes
            return infeasible(Shortfall("order", None, "scratchpad", least_bytes(problem), have, "B"), twice)
        wall = time.monotonic() - started
        return Result("LIMIT", None, None, wall, outcome.evaluations, outcome.interrupted, outcome.notes)

    robustness = None
    if scatter is not None and not outcome.interrupted:
        with contextlib.suppress(KeyboardInterrupt):  # the plan that was found is there
            robustness, chosen = choose(problem, acting, outcome.best, scatter)
            notes = (*outcome.notes, f"durations that scatter ({robustness.durations}): {robustness.text}")
            outcome = replace(outcome, best=chosen, notes=notes)

    def checked(outcome: Found, explained: bool) -> Schedule:
        rows = all_bounds(bounds, outcome)
        schedule = finished(
            lowered, problem, rule, rows, outcome, dual, found, work, machine, seed, explained, kept.run_of
        )
        violations = check_schedule(schedule)
        if violations:
            raise CheckFailedError("; ".join(v.message for v in violations[:5]))
        return schedule

    if outcome.interrupted:
        outcome = _interrupted(outcome)
    try:
        schedule = checked(outcome, explained and not outcome.interrupted)
    except KeyboardInterrupt:
        outcome = _interrupted(outcome)
        schedule = checked(outcome, explained=False)
    assert outcome.best is not None
    if schedule.optimal_in == "free_start" and schedule.certificate != "search":
        twice = None
    return Result(
        schedule.status,
        schedule,
        None,
        time.monotonic() - started,
        outcome.evaluations,
        outcome.interrupted,
        schedule.notes,
        twice,
        outcome.best[0],
        robustness,
        lowered.loops,
    )


def _scatter(robust: Scatter | Durations | str | None, seed: int | None) -> Scatter | None:
    """Return how durations scatter, from whatever says it."""
    if robust is None or isinstance(robust, Scatter):
        return robust
    return Scatter(Durations.of(robust) if isinstance(robust, str) else robust, seed=seed or 0)


def _or_kept(searched: Callable[[], Found], kept: Kept) -> Found:
    """Return what a search found; where it was interrupted without a plan, the best one that it has seen."""
    try:
        outcome = searched()
    except KeyboardInterrupt:
        return Found(kept.best(), 0, 0, False, interrupted=True)
    if outcome.interrupted and outcome.best is None:
        return replace(outcome, best=kept.best())
    return outcome


def _interrupted(outcome: Found) -> Found:
    return replace(outcome, interrupted=True, notes=(*outcome.notes, INTERRUPTED))


def machine_of(work: Workload, hw: Machine | str | None) -> Machine:
    """Return the machine that ``hw`` is or names, else the one that the workload names.

    Raises
    ------
    InvalidInputError
        None is named at all.
    """
    name = hw if hw is not None else work.hw
    if name is None:
        raise InvalidInputError("no machine is named: pass hw, or write hw: hexagon-v79 into the workload")
    return name if isinstance(name, Machine) else load_hw(name)


def _in_pieces(
    problem: Problem, rule: Rule, outcome: Found, bounds: Bounds, seconds: float, seed: int | None
) -> Pieced | None:
    """Cut ops where that shortens a plan that does not meet its bound."""
    if outcome.best is None or outcome.interrupted or outcome.best[1].makespan <= float(bounds.best.ticks):
        return None
    return search_in_pieces(problem, rule, evaluator(rule), outcome.best, seconds * PIECES_SHARE, seed)


def _cut(lowered: Lowered, pieced: Pieced) -> Lowered:
    """Return the problem with its cuts; a loop of today runs the parts of an op one after the other."""
    loops = tuple(
        replace(loop, loop=tuple(part for name in loop.loop for part in pieced.parts.get(name, (name,))))
        for loop in lowered.loops
    )
    return Lowered(pieced.problem, loops, lowered.notes)


def rule_named(contention: str) -> Rule:
    """Return the rule for shared channels that has this name.

    Raises
    ------
    InvalidInputError
        There is none.
    """
    for rule in get_args(Rule):
        if rule == contention:
            return cast("Rule", rule)
    known = ", ".join(get_args(Rule))
    raise InvalidInputError(f"contention {contention!r} is not available in this version; known: {known}")
