"""The makespan against one thing at a time around the input as it is, with the bottleneck at each point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self

from pydantic import ConfigDict, Field

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.fixed_order import criticality
from hexloom.formulations.problem import Frozen, Problem, slows
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.solve import machine_of, solve
from hexloom.optimizer.variants import axes_of_machine, axes_of_problem, axes_of_stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.solve import Result
    from hexloom.optimizer.variants import Axis, Point
    from hexloom.optimizer.workload import Workload


class WhatIfRow(Frozen):
    """One point: ``value`` of ``field`` in ``unit``, and what came of it; times are None where there is no plan.

    ``bottleneck`` is ``field`` itself where more of it takes 1 % off or more, else what the best bound names.

    ``carried``: the plan of the next smaller value is better than what was found here and is as good here.
    ``current``: this is the input as it is.
    """

    field: str
    value: int | float
    unit: str
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "LIMIT"]
    makespan: int | float | None
    lower_bound: int | float | None
    gap: float | None
    bottleneck: str | None
    carried: bool = False
    current: bool = False


class Slack(Frozen):
    """How much later an op may begin while makespan and deadlines hold, in the time unit.

    ``slack`` in the orders of the plan; ``most`` is a bound for any schedule that is no longer. 0: it is critical.
    """

    op: str
    slack: int | float
    most: int | float


class WhatIf(Frozen):
    """Rows by field, from the least to the most of it; times are in ``time_unit``.

    ``slack`` are those of the plan for the input as it is, in its orders; empty where ops slow each other.
    """

    schema_: Literal["hexloom.what_if/1"] = Field(default="hexloom.what_if/1", alias="schema")
    name: str
    machine: str | None
    time_unit: Literal["us", "ticks"]
    rows: tuple[WhatIfRow, ...]
    slack: tuple[Slack, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    def to_json(self) -> str:
        """Return the rows as JSON."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raises pydantic.ValidationError when it is something else."""
        return cls.model_validate_json(text)


@dataclass(frozen=True)
class _Seen:
    """A point that was solved; times in the time unit of the input."""

    result: Result
    makespan: Fraction | None
    bound: Fraction | None
    carried: bool = False


def what_if(
    work: Workload | Problem,
    hw: Machine | str | None = None,
    *,
    time_limit_s: float = 2.0,
    contention: str = "fluid",
    seed: int | None = None,
    base: Result | None = None,
    fields: tuple[str, ...] | None = None,
) -> WhatIf:
    """Solve ``work`` again with more and less scratchpad, contexts and bandwidth, and with each stage twice as fast.

    Every point begins with the plan of its neighbour where that is valid there. More of anything is never reported to
    take longer: where the search finds less with more, the plan for less is carried over, started at the same times.

    Parameters
    ----------
    work, hw, contention, seed
        As for `hexloom.optimizer.solve.solve`.
    time_limit_s
        Seconds for each point.
    base
        The result for the input as it is; solved here where it is missing.
    fields
        Only these: ``vtcm``, ``hvx``, ``ddr``, ``dma`` and ``stages`` of a workload; ``scratchpad``, names of engines
        and channels, and ``stages`` of a problem. None: all.
    """
    machine = None if isinstance(work, Problem) else machine_of(work, hw)
    asked = _Asked(work, machine, time_limit_s, contention, seed)
    first = base if base is not None else asked.solve(work, machine, None)
    rows: list[WhatIfRow] = []
    for axis in _axes(work, machine, first, fields):
        rows += asked.rows(axis, first)
    unit: Literal["us", "ticks"] = "ticks" if isinstance(work, Problem) and work.tick is None else "us"
    name = None if machine is None else machine.name
    return WhatIf(name=work.name, machine=name, time_unit=unit, rows=tuple(rows), slack=_slack(first))


def _slack(first: Result) -> tuple[Slack, ...]:
    schedule = first.schedule
    if schedule is None or first.decision is None or slows(acting_rule(schedule.problem, schedule.contention)):
        return ()
    problem = schedule.problem.under(schedule.contention)
    found = criticality(problem, first.decision, evaluate(problem, first.decision)).slack
    tick, ht = problem.tick or Fraction(1), lower_bounds(problem).heads_tails
    most = [int(schedule.makespan - ht.head[i] - ht.duration[i] - ht.tail[i]) for i in range(len(problem.ops))]
    return tuple(
        Slack(op=op.name, slack=_plain(s * tick) or 0, most=_plain(m * tick) or 0)
        for op, s, m in zip(problem.ops, found, most, strict=True)
    )


def _axes(
    work: Workload | Problem, machine: Machine | None, first: Result, fields: tuple[str, ...] | None
) -> Iterator[Axis]:
    if isinstance(work, Problem):
        axes = axes_of_problem(work)
    else:
        assert machine is not None
        axes = axes_of_machine(machine, 0 if first.schedule is None else len(first.schedule.problem.ops))
    yield from (axis for axis in axes if fields is None or axis.field in fields)
    problem = work if isinstance(work, Problem) else None if first.schedule is None else first.schedule.problem
    if problem is not None and (fields is None or "stages" in fields):
        yield from axes_of_stages(problem)


PAYS = 0.99
"""More of something is what a point waits for where it takes the makespan below this part of it."""


def _limited(row: WhatIfRow, more: Sequence[WhatIfRow]) -> WhatIfRow:
    """Return ``row`` with its own field as the bottleneck, where ``more`` of that is known to pay."""
    best = min((r.makespan for r in more if r.makespan is not None), default=None)
    if row.makespan is None or best is None or best > PAYS * row.makespan:
        return row
    return row.model_copy(update={"bottleneck": row.field})


class _Asked:
    def __init__(
        self, work: Workload | Problem, machine: Machine | None, seconds: float, contention: str, seed: int | None
    ) -> None:
        self.work, self.machine = work, machine
        self.seconds, self.contention, self.seed = seconds, contention, seed

    def solve(self, work: Workload | Problem, machine: Machine | None, start: Result | None) -> Result:
        return solve(
            work,
            machine,
            time_limit_s=self.seconds,
            contention=self.contention,
            seed=self.seed,
            start=None if start is None else start.decision,
            explained=False,
        )

    def rows(self, axis: Axis, first: Result) -> list[WhatIfRow]:
        """Solve outwards from the current point; then carry plans from less to more."""
        seen: dict[int, _Seen] = {axis.current: _seen(first, Fraction(1))}
        for order in (range(axis.current + 1, len(axis.points)), range(axis.current - 1, -1, -1)):
            neighbour = first
            for k in order:
                found = self._point(axis.points[k], neighbour)
                if found is not None:
                    neighbour, scale = found
                    seen[k] = _seen(neighbour, scale)
        before: _Seen | None = None
        rows = []
        for k in sorted(seen):
            mine = seen[k] if before is None else self._carried(axis, axis.points[k], seen[k], before)
            if not (axis.only_changed and k == axis.current):
                rows.append(_row(axis, axis.points[k], mine, k == axis.current))
            before = mine
        return rows if axis.only_changed else [_limited(row, rows[k + 1 :]) for k, row in enumerate(rows)]

    def _point(self, point: Point, neighbour: Result) -> tuple[Result, Fraction] | None:
        """Return the result of a point and the length of its ticks in ticks of the input; None: it has no meaning."""
        if point.problem is None:
            try:
                return self.solve(self.work, point.machine, neighbour), Fraction(1)
            except InvalidInputError:
                return None  # the workload asks for a worker that is not there
        return self.solve(point.problem, None, neighbour), point.tick

    def _carried(self, axis: Axis, point: Point, mine: _Seen, less: _Seen) -> _Seen:
        """Return the better of what was found for a point and the plan for less, whose ops may be others."""
        if less.makespan is None or (mine.makespan is not None and mine.makespan <= less.makespan):
            return mine
        schedule = less.result.schedule
        bound = mine.bound if mine.bound is not None else Fraction(0)
        if axis.enlarge is not None and schedule is not None:
            enlarged = axis.enlarge(schedule.problem, point.value)
            other = _seen(self.solve(enlarged, None, less.result), Fraction(1))
            bound = min(bound, other.bound or Fraction(0))
            if other.makespan is not None and other.makespan <= less.makespan:
                return replace(other, bound=bound, carried=True)
        return replace(less, bound=min(bound, less.makespan), carried=True)


def _seen(result: Result, scale: Fraction) -> _Seen:
    makespan, bound = result.makespan_us, result.lower_bound_us
    return _Seen(result, None if makespan is None else makespan * scale, None if bound is None else bound * scale)


def _row(axis: Axis, point: Point, seen: _Seen, current: bool) -> WhatIfRow:
    makespan, bound = seen.makespan, seen.bound
    gap = None if makespan is None or bound is None else float((makespan - bound) / makespan) if makespan else 0.0
    status = seen.result.status
    if status == "OPTIMAL" and gap and seen.carried:
        status = "FEASIBLE"
    return WhatIfRow(
        field=axis.field,
        value=_plain(point.value) or 0,
        unit=axis.unit,
        status=status,
        makespan=_plain(makespan),
        lower_bound=_plain(bound),
        gap=gap,
        bottleneck=seen.result.bottleneck,
        carried=seen.carried,
        current=current,
    )


def _plain(value: Fraction | None) -> int | float | None:
    if value is None:
        return None
    return int(value) if value.denominator == 1 else round(float(value), 6)
