"""``solve()``: from a workload and a machine, or a problem, to a checked schedule."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, cast, get_args

import networkx as nx

from hexloom.formulations.bounds import Bounds, lower_bounds
from hexloom.formulations.configuration.bound import configuration_bound
from hexloom.formulations.feasibility import Shortfall, channel_shortfall, first_shortfall
from hexloom.formulations.pieces import Pieced, can_be_cut, search_in_pieces
from hexloom.formulations.portfolio import Found, search
from hexloom.formulations.problem import Problem, Rule, slows
from hexloom.formulations.serial_order import least_bytes
from hexloom.formulations.shared_portfolio import search_shared
from hexloom.formulations.ticks import whole
from hexloom.hwmodels import Machine, format_bytes, load_hw
from hexloom.optimizer.attribution import advise, attribute
from hexloom.optimizer.baselines import Baselines, back_to_back, baselines
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.flips import with_flips
from hexloom.optimizer.hazard_orders import refuse_unordered
from hexloom.optimizer.infeasibility import Infeasibility, explain_shortfall
from hexloom.optimizer.lower import Lowered, TaskLoop, lower
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import BoundRow, OpRow, Schedule
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.simulate import ExactTimeline, simulate
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.formulations.configuration.certificate import Certificate
    from hexloom.formulations.ticks import Moment

CERTIFICATES: dict[str, Literal["dual", "search"]] = {"configuration": "dual", "search": "search"}
"""What proves a bound, by its name; all others are arithmetic."""

Progress = Callable[[Fraction, Fraction], None]


CLOSE = Fraction(1, 10**9)
"""Part of a makespan below which two of them, one of them in floating point, are the same."""

SLOWED_S, SLOWED_OPS = 15.0, 300
"""Most seconds for the configuration bound where ops slow each other, up to so many ops: it is the best bound there."""


PIECES_SHARE = 0.3
"""Where ops can be cut, part of the time for trying where, and again for the search in the problem with the cuts."""

AFTERWARDS = 3.0
"""How much longer than what comes before the search, what comes after it takes: the gain, the advice, the check."""

LEAST_SHARE = 0.5
"""When the search may end at the earliest, as a part of the time limit."""


class CheckFailedError(Exception):
    """A schedule of our own did not pass the checker: a bug in hexloom, never the user's fault."""


@dataclass(frozen=True)
class Result:
    """What `solve` found.

    ``status`` is ``OPTIMAL`` (a schedule equal to a bound), ``FEASIBLE`` (a schedule), ``INFEASIBLE`` (proven; see
    ``infeasibility``) or ``LIMIT`` (no schedule was found and none is excluded).
    """

    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "LIMIT"]
    schedule: Schedule | None
    infeasibility: Infeasibility | None
    wall_s: float
    evaluations: int = 0
    interrupted: bool = False
    notes: tuple[str, ...] = ()

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
        """Engine that the best bound names, or ``critical_path``."""
        if self.schedule is None:
            return None
        best = self.schedule.bounds[0]
        return best.engine or best.name

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

    Raises
    ------
    InvalidInputError
        The input is wrong; the message is one line.
    """
    started = time.monotonic()
    rule = _rule(contention)
    if not time_limit_s >= 0:
        raise InvalidInputError(f"time limit {time_limit_s} s must not be negative")
    machine: Machine | None = None
    if isinstance(work, Problem):
        refuse_unordered(work)
        lowered = Lowered(work, _loops_of(work))
    else:
        name = hw if hw is not None else work.hw
        if name is None:
            raise InvalidInputError("no machine is named: pass hw, or write hw: hexagon-v79 into the workload")
        machine = name if isinstance(name, Machine) else load_hw(name)
        lowered = lower(work, machine, rule)
    shortfall = channel_shortfall(lowered.problem) if rule == "rigid" else None
    problem = lowered.problem.under(rule)
    shortfall = shortfall or first_shortfall(problem)
    if shortfall is not None:
        return _infeasible(problem, shortfall, started)
    acting = acting_rule(problem, rule)
    bounds = lower_bounds(problem, acting)
    shortfall = first_shortfall(problem, bounds.heads_tails)
    if shortfall is not None:
        return _infeasible(problem, shortfall, started)

    found = baselines(problem, lowered.loops, acting)
    dual: Certificate | None = None

    def sharpen() -> Bounds:
        nonlocal bounds, dual
        seconds = min(1.0, time_limit_s / 10)
        if slows(acting) and len(problem.ops) <= SLOWED_OPS:
            seconds = min(SLOWED_S, time_limit_s / 4)
        priced = configuration_bound(
            problem, bounds.heads_tails, acting, time_limit_s=seconds, deterministic=seed is not None
        )
        if priced is not None and priced[0].ticks > bounds.best.ticks:
            bounds, dual = replace(bounds, found=(priced[0], *bounds.found)), priced[1]
        return bounds

    tell = None
    if on_progress is not None:
        tick, report = problem.tick or Fraction(1), on_progress

        def tell(ticks: float, bound: float) -> None:
            report(Fraction(ticks) * tick, Fraction(bound) * tick)

    incumbent = back_to_back(problem, found)
    incumbents = () if incumbent is None else (incumbent,)
    spent = time.monotonic() - started
    if slows(acting):
        bounds = sharpen()
    left = time_limit_s
    if seed is None:
        ends = max(time_limit_s - spent * AFTERWARDS, time_limit_s * LEAST_SHARE)
        left = max(0.0, ends - (time.monotonic() - started))
    if slows(acting):
        share = 1 - 2 * PIECES_SHARE if can_be_cut(problem) else 1.0
        outcome = search_shared(problem, acting, bounds, evaluator, incumbents, left * share, seed, tell, enough_gap)
        pieced = _in_pieces(problem, acting, outcome, bounds, left, seed)
        if pieced is not None:
            lowered = _cut(lowered, pieced)
            problem = lowered.problem
            bounds, dual, found = lower_bounds(problem, acting), None, baselines(problem, lowered.loops, acting)
            bounds = sharpen()
            left *= PIECES_SHARE
            outcome = search_shared(problem, acting, bounds, evaluator, (pieced.best[0],), left, seed, tell, enough_gap)
    else:
        outcome = search(problem, bounds, evaluator(acting), incumbents, left, seed, tell, sharpen, enough_gap)
    if outcome.best is None:
        if outcome.proven_infeasible:
            return _infeasible(problem, Shortfall("search", None, "schedule", 1, 0, "schedules"), started)
        if outcome.no_order:
            have = problem.scratchpad.available_bytes
            return _infeasible(
                problem, Shortfall("order", None, "scratchpad", least_bytes(problem), have, "B"), started
            )
        wall = time.monotonic() - started
        return Result("LIMIT", None, None, wall, outcome.evaluations, outcome.interrupted, outcome.notes)
    rows = _all_bounds(bounds, outcome)
    schedule = _schedule(lowered, problem, rule, rows, outcome, dual, found, work, machine, seed)
    violations = check_schedule(schedule)
    if violations:
        raise CheckFailedError("; ".join(v.message for v in violations[:5]))
    wall = time.monotonic() - started
    return Result(schedule.status, schedule, None, wall, outcome.evaluations, outcome.interrupted, schedule.notes)


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


def _rule(contention: str) -> Rule:
    for rule in get_args(Rule):
        if rule == contention:
            return cast("Rule", rule)
    known = ", ".join(get_args(Rule))
    raise InvalidInputError(f"contention {contention!r} is not available in this version; known: {known}")


def _notes(problem: Problem) -> tuple[str, ...]:
    """Return what arithmetic says of a constraint that never acts."""
    at = 0
    for buffer in sorted(problem.buffers, key=lambda b: (-b.align_bytes, -b.occupied_bytes)):
        at = -(-at // buffer.align_bytes) * buffer.align_bytes + buffer.occupied_bytes
    available = problem.scratchpad.available_bytes
    if not 0 < at <= available or any(b.address is not None for b in problem.buffers):
        return ()
    return (
        f"the scratchpad cannot bind: all buffers side by side take {format_bytes(at)} of {format_bytes(available)}; "
        "it was left out of the search",
    )


def _all_bounds(bounds: Bounds, outcome: Found) -> tuple[BoundRow, ...]:
    """Return the bounds, the best first; what search proved comes before the arithmetic only when it is larger."""
    rows = [BoundRow(name=b.name, ticks=b.ticks, engine=b.engine, detail=b.detail) for b in bounds.found]
    if outcome.search_bound > bounds.best.ticks:
        detail = "CP-SAT finds nothing shorter, asked twice: with and without presolve, with two seeds"
        if outcome.by_events:
            detail = "the search over events was exhausted: nothing is shorter"
        ticks = whole(Fraction(outcome.search_bound))
        rows.insert(0, BoundRow(name="search", ticks=ticks, engine=bounds.best.engine, detail=detail))
    return tuple(rows)


def _infeasible(problem: Problem, shortfall: Shortfall, started: float) -> Result:
    return Result("INFEASIBLE", None, explain_shortfall(problem, shortfall), time.monotonic() - started)


def _loops_of(problem: Problem) -> tuple[TaskLoop, ...]:
    """Tasks of a bare problem: by label, each with the plan's own entry, in an order that dependencies allow.

    Labels whose ops depend on each other both ways cannot run back to back; they are one task.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    place = {op: k for k, op in enumerate(problem.topological_order)}
    names: dict[str, list[str]] = {}
    for i, op in enumerate(problem.ops):
        names.setdefault(op.task, []).append(op.name)
        graph.add_node(op.task)
        graph.add_edges_from((problem.ops[p].task, op.task) for p in problem.predecessors[i])
    order = {task: k for k, task in enumerate(names)}
    merged = nx.condensation(graph)
    members = {node: sorted(merged.nodes[node]["members"], key=order.__getitem__) for node in merged}
    return tuple(
        TaskLoop(
            " + ".join(members[node]),
            tuple(sorted((n for task in members[node] for n in names[task]), key=lambda n: place[problem.op_index[n]])),
            False,
            problem.entry_ticks,
        )
        for node in nx.lexicographical_topological_sort(merged, key=lambda node: order[members[node][0]])
    )


def _schedule(
    lowered: Lowered,
    problem: Problem,
    rule: Rule,
    bounds: tuple[BoundRow, ...],
    outcome: Found,
    dual: Certificate | None,
    found: Baselines,
    work: Workload | Problem,
    machine: Machine | None,
    seed: int | None,
) -> Schedule:
    assert outcome.best is not None
    decision = outcome.best[0]
    plan = make_plan(problem, decision)
    timeline = simulate(problem, plan, rule)
    bound = bounds[0].ticks
    plan_bound: Moment = bound
    if outcome.plan_bound > bound:
        plan_bound = whole(Fraction(outcome.plan_bound))
    if -CLOSE * timeline.makespan <= plan_bound - timeline.makespan <= CLOSE * timeline.makespan:
        plan_bound = timeline.makespan  # the search counts in floats where ops slow each other
    proven = timeline.makespan == plan_bound
    bottleneck = bounds[0].engine
    # Today's loops below the makespan break a deadline, or do not fit beside what is resident: no plan does that.
    quoted = {
        name: ticks if ticks is not None and ticks >= timeline.makespan else None
        for name, ticks in (("serial", found.serial), ("existing", found.existing))
    }
    gain = None if quoted["existing"] is None else attribute(problem, decision, timeline, found, bottleneck, rule)
    advice = None if gain is None else advise(gain, timeline.makespan, bottleneck)
    if advice is not None and machine is not None and isinstance(work, Workload):
        advice = with_flips(advice, work, machine, problem, decision, plan, found, rule)
    return Schedule(
        name=problem.name,
        tool=f"hexloom {version('hexloom')}",
        machine=None if machine is None else machine.name,
        machine_digest=None if machine is None else machine.digest(),
        workload_digest=work.digest(),
        contention=rule,
        seed=seed,
        status="OPTIMAL" if proven else "FEASIBLE",
        optimal_in=("free_start" if timeline.makespan == bound else "event_driven") if proven else None,
        makespan=timeline.makespan,
        lower_bound=bound,
        plan_bound=plan_bound,
        certificate=CERTIFICATES.get(bounds[0].name, "arithmetic"),
        dual=dual,
        bounds=bounds,
        baselines=quoted,
        gain=gain,
        advice=advice,
        notes=(*lowered.notes, *_notes(problem), *outcome.notes),
        problem=lowered.problem,
        plan=plan,
        rows=_rows(problem, timeline),
    )


def _rows(problem: Problem, timeline: ExactTimeline) -> tuple[OpRow, ...]:
    rows = []
    for op in problem.ops:
        t = timeline.times[op.name]
        rows.append(
            OpRow(
                op=op.name,
                start=t.start,
                end=t.end,
                transfer_start=t.transfer_start,
                done=t.done,
                wait_start=t.wait_start,
                observed=t.observed,
            )
        )
    return tuple(rows)
