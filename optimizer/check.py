"""The independent checker: every violation of a plan, of its predicted times and of a schedule file.

It reads the problem and shares nothing with what makes plans; the simulator is used for one rule only, that the
recorded times are those of a fresh simulation. Every rule is checked the naive way, against all pairs.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.problem import Frozen
from hexloom.optimizer.check_memory import check_addresses, check_lifetimes, check_reuse
from hexloom.optimizer.check_numbers import check_bounds, check_numbers
from hexloom.optimizer.check_regions import check_regions
from hexloom.optimizer.check_shares import check_share_order, check_share_times
from hexloom.optimizer.check_times import check_cover, check_rows
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.happens_before import HappensBefore
from hexloom.optimizer.simulate import OpTimes, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.formulations.problem import Engine, Mode, Problem, Rule
    from hexloom.optimizer.plan import Assignment, Plan
    from hexloom.optimizer.schedule import OpRow, Schedule

LONGEST_CYCLE = 12
"""Of a longer cycle only so many nodes are written out."""


class Violation(Frozen):
    """One broken rule.

    Parameters
    ----------
    kind
        The rule, as a slug.
    parties
        Names of the ops, buffers, queues or fields that break it.
    message
        One line with the parties and the numbers, each with its unit.
    """

    kind: str
    parties: tuple[str, ...]
    message: str


class Step(NamedTuple):
    """An entry together with its queue."""

    engine: str
    unit: int
    action: str
    op: str


class _Found(list[Violation]):
    def __call__(self, kind: str, parties: tuple[str, ...], message: str) -> None:
        self.append(Violation(kind=kind, parties=parties, message=message))


def check_plan(problem: Problem, plan: Plan) -> list[Violation]:
    """Return every way in which ``plan`` could go wrong under some durations; none if it is safe under all.

    Units, queues and order are checked in this order, and each only if what it rests on is whole: the order of a
    plan with a missing entry says nothing. Addresses are always checked.

    Notes
    -----
    Users of one worker unit need no rule of their own: each has its one entry in the queue of the unit. Nor does
    freedom from deadlock: every op is one node of the happens-before graph, so a graph without cycles has none.
    """
    return _plan(problem.under("none"), plan)[0]


def check_times(problem: Problem, plan: Plan, rows: Sequence[OpRow], rule: Rule = "none") -> list[Violation]:
    """Return every way in which the times predicted under ``rule`` break the problem or contradict ``plan``.

    Needs one valid mode and row per op and entries that name ops; where that is missing, that alone is returned.
    """
    problem = problem.under("none")
    found = _Found()
    _check_assignments(problem, plan, found)
    _check_names(problem, plan, found)
    check_cover(problem, rows, found)
    if not found:
        _times(problem, plan, rows, rule, found)
    return found


def check_schedule(schedule: Schedule) -> list[Violation]:
    """Return every violation of a schedule file: of its plan, its times, and of its numbers among each other.

    Under rule ``rigid`` the channels are shares, as the places of rings are under any: the plan must hold them whatever
    the timing.
    """
    problem, plan = schedule.problem.under(schedule.contention), schedule.plan
    found, runnable = _plan(problem, plan)
    uncovered = _Found()
    check_cover(problem, schedule.rows, uncovered)
    found += uncovered
    if runnable and not uncovered:
        _times(problem, plan, schedule.rows, schedule.contention, found)
        _check_simulation(schedule, found)
    check_numbers(schedule, found)
    check_bounds(problem, schedule, found)
    return found


def _plan(problem: Problem, plan: Plan) -> tuple[_Found, bool]:
    """Return the violations of the plan, and whether it can be run at all."""
    found = _Found()
    _check_assignments(problem, plan, found)
    _check_names(problem, plan, found)
    if not found:
        _check_queues(problem, plan, found)
    runnable = not found
    if runnable:
        order = HappensBefore(problem, plan)
        cycle = order.cycle()
        if cycle:
            runnable = False
            steps = [str(cycle[-1][0]), *(f"{node} ({why})" if why else str(node) for node, why in cycle)]
            if len(steps) > LONGEST_CYCLE:
                steps[LONGEST_CYCLE // 2 : -LONGEST_CYCLE // 2] = [f"... {len(steps) - LONGEST_CYCLE} more ..."]
            text = "the plan never ends, because each of these comes before the next: " + " -> ".join(steps)
            found("cycle", tuple(dict.fromkeys(node.op for node, _ in cycle)), text)
        else:
            _check_dependencies(problem, order, found)
            _check_resources(problem, plan, order, found)
            check_share_order(problem, _modes(problem, plan), order, found)
            check_reuse(problem, plan, order, found)
            check_regions(problem, order, found)
    check_addresses(problem, plan, found)
    return found, runnable


def _times(problem: Problem, plan: Plan, rows: Sequence[OpRow], rule: Rule, found: _Found) -> None:
    by_name = {row.op: row for row in rows}
    modes = _modes(problem, plan)
    check_rows(problem, plan, modes, by_name, rule, found)
    check_share_times(problem, modes, by_name, found)
    check_lifetimes(problem, plan, by_name, found)


def _modes(problem: Problem, plan: Plan) -> dict[str, Mode]:
    index = problem.op_index
    return {a.op: problem.ops[index[a.op]].modes[a.mode] for a in plan.assignments}


def _check_assignments(problem: Problem, plan: Plan, found: _Found) -> None:
    """Every op has one assignment, to a mode it has, with the units that this asks for."""
    count = Counter(a.op for a in plan.assignments)
    engines = {engine.name: engine for engine in problem.engines}
    for op in problem.ops:
        if not count[op.name]:
            found("op_unassigned", (op.name,), f"op {op.name!r} has no assignment")
        elif count[op.name] > 1:
            found("op_assigned_twice", (op.name,), f"op {op.name!r} has {count[op.name]} assignments, not 1")
    for assignment in plan.assignments:
        i = problem.op_index.get(assignment.op)
        if i is None:
            found("op_unknown", (assignment.op,), f"an assignment names {assignment.op!r}, not an op of the problem")
            continue
        modes = problem.ops[i].modes
        if not 0 <= assignment.mode < len(modes):
            text = f"op {assignment.op!r} is given mode {assignment.mode}, but has modes 0 to {len(modes) - 1}"
            found("mode_unknown", (assignment.op,), text)
            continue
        _check_unit_ids(engines, assignment, modes[assignment.mode], found)


def _check_unit_ids(engines: dict[str, Engine], assignment: Assignment, mode: Mode, found: _Found) -> None:
    """Every use has as many units as it asks for, different ones that exist, the fixed ones where fixed."""
    uses = {use.engine: use for use in mode.uses if use.ticks > 0}
    op = assignment.op
    for name, ids in assignment.units.items():
        if name in engines and engines[name].kind == "pipe" and ids:
            text = f"op {op!r} is given units {ids} of pipe {name!r}; its units are given by the hardware"
            found("unit_on_pipe", (op, name), text)
        elif name in engines and engines[name].kind == "share" and ids:
            found("unit_on_share", (op, name), f"op {op!r} is given units {ids} of share {name!r}; these have no names")
        elif name not in uses and ids:
            text = f"op {op!r}, mode {mode.name!r}, is given units {ids} of {name!r}, but holds none"
            found("unit_unasked", (op, name), text)
    for name, use in uses.items():
        engine = engines[name]
        if engine.kind in ("pipe", "share"):
            if use.units > engine.units:
                text = (
                    f"op {op!r}, mode {mode.name!r}, asks for {use.units} units of {name!r}, which has {engine.units}"
                )
                found("unit_count", (op, name), text)
            continue
        ids = assignment.units.get(name, ())
        if len(ids) != use.units:
            text = f"op {op!r}, mode {mode.name!r}, asks for {use.units} units of {name!r}, but is given {len(ids)}"
            found("unit_count", (op, name), text)
        if len(set(ids)) != len(ids):
            found("unit_twice", (op, name), f"op {op!r} is given a unit of {name!r} twice: {ids}")
        missing = [u for u in ids if not 0 <= u < engine.units]
        if missing:
            text = f"op {op!r} is given units {missing} of {name!r}, which has units 0 to {engine.units - 1}"
            found("unit_unknown", (op, name), text)
        elif use.unit_ids is not None and set(ids) != set(use.unit_ids):
            text = f"op {op!r} is given units {ids} of {name!r}, but its mode fixes {use.unit_ids}"
            found("unit_fixed", (op, name), text)


def _check_names(problem: Problem, plan: Plan, found: _Found) -> None:
    """Queues belong to threads that exist, one each; entries and waits name ops."""
    threads = {(e.name, u) for e in problem.engines if e.kind == "worker" for u in range(e.units)}
    count = Counter((queue.engine, queue.unit) for queue in plan.queues)
    for (engine, unit), times in count.items():
        lane = f"{engine}[{unit}]"
        if (engine, unit) not in threads:
            found("queue_unknown", (lane,), f"queue {lane} belongs to no unit of a worker engine")
        if times > 1:
            found("queue_twice", (lane,), f"{lane} has {times} queues, not 1")
    for queue in plan.queues:
        lane = f"{queue.engine}[{queue.unit}]"
        for entry in queue.entries:
            if entry.op not in problem.op_index:
                text = f"queue {lane} has {entry.action} {entry.op!r}, not an op of the problem"
                found("op_unknown", (entry.op, lane), text)
    for wait in plan.waits:
        for name in (wait.before, wait.after):
            if name not in problem.op_index:
                text = f"wait {wait.before!r} -> {wait.after!r} names {name!r}, not an op of the problem"
                found("op_unknown", (name,), text)


def _check_queues(problem: Problem, plan: Plan, found: _Found) -> None:
    """Every op is in the queues of its units and nowhere else, once; a transfer is started and then waited for."""
    modes = _modes(problem, plan)
    expected = set(_expected_entries(problem, plan, modes))
    actual = Counter(Step(q.engine, q.unit, entry.action, entry.op) for q in plan.queues for entry in q.entries)
    # What is there once and belongs there needs no word: the rest is told in order.
    wrong = expected ^ actual.keys() | {step for step, times in actual.items() if times > 1}
    home: dict[str, list[str]] = {}
    for engine, unit, action, op in sorted(expected) if wrong else ():
        home.setdefault(op, []).append(f"{action} in {engine}[{unit}]")
    for step in sorted(wrong):
        engine, unit, action, op = step
        lane = f"{engine}[{unit}]"
        times = actual[step]
        if step not in expected:
            text = f"queue {lane} has {action} {op!r}, which belongs {', '.join(home.get(op, ['in no queue']))}"
            found("entry_misplaced", (op, lane), text)
        elif times == 0:
            found("entry_missing", (op, lane), f"queue {lane} has no {action} {op!r}")
        elif times > 1:
            found("entry_twice", (op, lane), f"queue {lane} has {action} {op!r} {times} times, not once")
    for queue in plan.queues:
        lane = f"{queue.engine}[{queue.unit}]"
        place = {(entry.op, entry.action): k for k, entry in enumerate(queue.entries)}
        for (op, action), k in place.items():
            if action == "wait" and place.get((op, "start"), -1) > k:
                text = f"queue {lane} waits for {op!r} at step {k} and starts it at step {place[op, 'start']}"
                found("wait_before_start", (op, lane), text)


def _expected_entries(problem: Problem, plan: Plan, modes: dict[str, Mode]) -> Iterator[Step]:
    workers = {engine.name for engine in problem.engines if engine.kind == "worker"}
    for assignment in plan.assignments:
        mode = modes[assignment.op]
        if mode.dma is not None:
            yield Step(mode.dma.owner_engine, mode.dma.owner_unit, "start", assignment.op)
            yield Step(mode.dma.owner_engine, mode.dma.owner_unit, "wait", assignment.op)
        for name, ids in assignment.units.items():
            if name in workers:
                yield from (Step(name, unit, "run", assignment.op) for unit in ids)


def _check_dependencies(problem: Problem, order: HappensBefore, found: _Found) -> None:
    """Every op starts only when all that it depends on has been observed."""
    for before, after in dict.fromkeys((edge.before, edge.after) for edge in problem.precedences):
        if not order.after(before) & order.bit[after]:
            text = f"op {after!r} depends on {before!r}, but nothing in the plan makes it wait for it"
            found("dependency_unordered", (before, after), text)


def _check_resources(problem: Problem, plan: Plan, order: HappensBefore, found: _Found) -> None:
    """Of any two users of one unit of a resource, one starts only when the other has been observed."""
    resources = {engine.name for engine in problem.engines if engine.kind == "resource"}
    users: dict[tuple[str, int], list[str]] = {}
    for assignment in plan.assignments:
        for name, ids in assignment.units.items():
            for unit in ids if name in resources else ():
                users.setdefault((name, unit), []).append(assignment.op)
    for (name, unit), ops in users.items():
        # What has more behind it cannot come after what has less: only one direction is left to be asked.
        ops.sort(key=lambda op: order.after(op).bit_count(), reverse=True)
        rest = order.mask(set(ops))
        for k, op in enumerate(ops):
            rest &= ~order.bit[op]
            if not rest & ~order.after(op):
                continue
            for other in ops[k + 1 :]:
                if not order.after(op) & order.bit[other]:
                    text = f"ops {op!r} and {other!r} both hold {name}[{unit}], but nothing in the plan orders them"
                    found("resource_unordered", (op, other), text)


def _check_simulation(schedule: Schedule, found: _Found) -> None:
    """Compare the recorded times with a fresh simulation of the plan."""
    try:
        times = simulate(schedule.problem, schedule.plan, schedule.contention).times
    except PlanError as error:
        found("simulation", (), f"the plan cannot be simulated: {error}")
        return
    times_of = attrgetter(*OpTimes._fields)
    for row in schedule.rows:
        at = times_of(row)
        if at == times[row.op]:
            continue
        for field, recorded, simulated in zip(OpTimes._fields, at, times[row.op], strict=True):
            if recorded != simulated:
                text = f"op {row.op!r} has {field} {recorded} in the file, but {simulated} ticks in a simulation"
                found("simulation", (row.op, field), text)
