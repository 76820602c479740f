"""From what the search found to a schedule: exact times, proof, gain, advice, notes."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

from hexloom.formulations.mode import about
from hexloom.formulations.problem import MAX_TICKS
from hexloom.formulations.ticks import whole
from hexloom.hwmodels import Machine, format_bytes
from hexloom.optimizer.attribution import advise, attribute
from hexloom.optimizer.bottleneck import in_words, limiting_engine
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.flips import with_flips
from hexloom.optimizer.footprint import cost_of_room, lost_double_buffering
from hexloom.optimizer.schedule import BoundRow, Schedule, op_rows
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.configuration.certificate import Certificate
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.portfolio import Found
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.baselines import Baselines
    from hexloom.optimizer.lower import Lowered
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.simulate import ExactTimeline

CERTIFICATES: dict[str, Literal["dual", "search"]] = {"configuration": "dual", "search": "search"}
"""What proves a bound, by its name; all others are arithmetic."""

CLOSE = Fraction(1, 10**9)
"""Part of a makespan below which two of them, one of them in floating point, are the same."""


@cache
def _tool() -> str:
    return f"hexloom {version('hexloom')}"


def all_bounds(bounds: Bounds, outcome: Found) -> tuple[BoundRow, ...]:
    """Return the bounds, the best first; what search proved comes before the arithmetic only when it is larger."""
    rows = [BoundRow(name=b.name, ticks=b.ticks, engine=b.engine, detail=b.detail) for b in bounds.found]
    if outcome.search_bound > bounds.best.ticks:
        detail = "CP-SAT finds nothing shorter, asked twice: with and without presolve, with two seeds"
        if outcome.by_events:
            detail = "the search over events was exhausted: nothing is shorter"
        ticks = whole(Fraction(outcome.search_bound))
        rows.insert(0, BoundRow(name="search", ticks=ticks, engine=bounds.best.engine, detail=detail))
    return tuple(rows)


def finished(
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
    explained: bool,
    run_of: Callable[[Problem, Decision], tuple[Plan, ExactTimeline]],
) -> Schedule:
    """Return the schedule of the best decision in ``outcome``, not yet checked; ``run_of`` knows its plan and times."""
    assert outcome.best is not None
    decision = outcome.best[0]
    plan, timeline = run_of(problem, decision)
    if timeline.makespan > MAX_TICKS:
        raise InvalidInputError(
            f"problem {problem.name!r}: slowed by each other its ops take {about(int(timeline.makespan))} ticks, above "
            f"the limit {MAX_TICKS}; use a coarser tick, shorter durations or wider channels"
        )
    bound = bounds[0].ticks
    plan_bound: Moment = bound
    if outcome.plan_bound > bound:
        plan_bound = whole(Fraction(outcome.plan_bound))
    if -CLOSE * timeline.makespan <= plan_bound - timeline.makespan <= CLOSE * timeline.makespan:
        plan_bound = timeline.makespan  # the search counts in floats where ops slow each other
    proven = timeline.makespan == plan_bound
    bottleneck = limiting_engine(bounds)
    # Today's loops below the makespan break a deadline, or do not fit beside what is resident: no plan does that.
    quoted = {
        name: ticks if ticks is not None and ticks >= timeline.makespan else None
        for name, ticks in (("serial", found.serial), ("existing", found.existing))
    }
    gain = None if quoted["existing"] is None else attribute(problem, decision, timeline, found, bottleneck, rule)
    advice = None if gain is None else advise(gain, timeline.makespan, in_words(bounds))
    if explained and advice is not None and machine is not None and isinstance(work, Workload):
        advice = with_flips(advice, work, machine, problem, decision, plan, found, rule)
    return Schedule(
        name=problem.name,
        tool=_tool(),
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
        notes=(
            *lowered.notes,
            *_notes(problem, rule, decision, timeline.makespan, bounds[0].name),
            *outcome.notes,
        ),
        problem=lowered.problem,
        plan=plan,
        rows=op_rows(problem, timeline),
    )


def _notes(problem: Problem, rule: Rule, decision: Decision, makespan: Moment, bottleneck: str) -> tuple[str, ...]:
    """Return what arithmetic says of a scratchpad that never acts, or of one that takes the overlap away."""
    at = 0
    problem = problem.per_pool[0][1]
    for buffer in sorted((b for b, _ in problem.buffers_as_one), key=lambda b: (-b.align_bytes, -b.occupied_bytes)):
        at = -(-at // buffer.align_bytes) * buffer.align_bytes + buffer.occupied_bytes
    available = problem.scratchpad.available_bytes
    if not 0 < at <= available or any(b.address is not None for b in problem.buffers):
        acting = acting_rule(problem, rule)
        said = lost_double_buffering(problem, acting, makespan, bottleneck)
        said = said or cost_of_room(problem, acting, decision, makespan)
        return () if said is None else (said,)
    return (
        f"the scratchpad cannot bind: all buffers side by side take {format_bytes(at)} of {format_bytes(available)}; "
        "it was left out of the search",
    )
