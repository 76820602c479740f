"""The checker against corrupted plans and times: it accepts what is valid and refuses what breaks a rule."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from plan_rules import faults, plan_faults, time_faults
from strategies import problems

from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.optimizer.check import Violation, check_plan, check_times
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.plan import Plan, Queue, Wait
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import OpRow
from hexloom.optimizer.simulate import OpTimes, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypothesis.strategies import DataObject, DrawFn

    from hexloom.formulations.problem import Problem

    Planned = tuple[Problem, Plan, dict[str, OpTimes]]
    PlanMutation = Callable[[DataObject, Problem, Plan], Plan]
    RowMutation = Callable[[DataObject, OpTimes], OpTimes]

UNRUNNABLE = ("cycle", "unit_", "op_", "queue_", "entry_", "mode_", "wait_")
"""How the kinds of faults begin after which nothing is said of the order: such a plan has none. A push into a full ring
is a cycle.
"""

PLANS = int(os.environ.get("HEXLOOM_PLANS", "12"))
"""On so many plans the slow test must find each kind of corruption: 1,000 before a release."""

BATCH, MOST_BATCHES = 200, 60
"""Plans that are drawn at once, and how often; kinds that were found often enough are not tried again."""

TRIES = 4
"""Corruptions of a kind tried on a plan until one breaks a rule."""


@st.composite
def planned(draw: DrawFn, min_ops: int = 1) -> Planned:
    """A problem, a plan of the list scheduler, and its times; only those that are sound."""
    problem = draw(problems(min_ops=min_ops))
    n = len(problem.ops)
    priority = tuple(float(draw(st.integers(0, 9))) for _ in range(n))
    decision = list_schedule(problem, Policy(priority, tuple(0 for _ in range(n))))
    assume(decision is not None)
    assert decision is not None
    try:
        plan = make_plan(problem, decision)
        times = simulate(problem, plan).times
    except PlanError:
        # Of the list scheduler other tests speak.
        assume(False)
        raise
    assume(not faults(problem, plan, times))
    return problem, plan, times


class NothingToChange(Exception):
    """The plan has no part of the kind that a mutation changes."""


def _need(there: object) -> None:
    if not there:
        raise NothingToChange


def _pick(data: DataObject, length: int) -> int:
    _need(length > 0)
    return data.draw(st.integers(0, length - 1))


def _with_queue(plan: Plan, k: int, queue: Queue) -> Plan:
    return plan.model_copy(update={"queues": (*plan.queues[:k], queue, *plan.queues[k + 1 :])})


def swap_entries(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.queues))
    entries = list(plan.queues[k].entries)
    at = _pick(data, len(entries) - 1)
    entries[at], entries[at + 1] = entries[at + 1], entries[at]
    return _with_queue(plan, k, plan.queues[k].model_copy(update={"entries": tuple(entries)}))


def drop_entry(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.queues))
    entries = list(plan.queues[k].entries)
    del entries[_pick(data, len(entries))]
    return _with_queue(plan, k, plan.queues[k].model_copy(update={"entries": tuple(entries)}))


def double_entry(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.queues))
    entries = list(plan.queues[k].entries)
    entries.insert(_pick(data, len(entries) + 1), entries[_pick(data, len(entries))])
    return _with_queue(plan, k, plan.queues[k].model_copy(update={"entries": tuple(entries)}))


def move_entry(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    """Take an entry from one queue to the end of another."""
    _need(len(plan.queues) > 1)
    k = _pick(data, len(plan.queues))
    other = _pick(data, len(plan.queues))
    _need(k != other)
    entries = list(plan.queues[k].entries)
    moved = entries.pop(_pick(data, len(entries)))
    plan = _with_queue(plan, k, plan.queues[k].model_copy(update={"entries": tuple(entries)}))
    longer = (*plan.queues[other].entries, moved)
    return _with_queue(plan, other, plan.queues[other].model_copy(update={"entries": longer}))


def change_action(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.queues))
    entries = list(plan.queues[k].entries)
    at = _pick(data, len(entries))
    action = data.draw(st.sampled_from(("run", "start", "wait")))
    entries[at] = entries[at].model_copy(update={"action": action})
    return _with_queue(plan, k, plan.queues[k].model_copy(update={"entries": tuple(entries)}))


def drop_queue(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.queues))
    return plan.model_copy(update={"queues": (*plan.queues[:k], *plan.queues[k + 1 :])})


def rename_queue(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.queues))
    return _with_queue(plan, k, plan.queues[k].model_copy(update={"unit": data.draw(st.integers(0, 3))}))


def drop_wait(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.waits))
    return plan.model_copy(update={"waits": (*plan.waits[:k], *plan.waits[k + 1 :])})


def turn_wait(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.waits))
    turned = Wait(before=plan.waits[k].after, after=plan.waits[k].before)
    return plan.model_copy(update={"waits": (*plan.waits[:k], turned, *plan.waits[k + 1 :])})


def add_wait(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    """More waits are no fault, unless they close a cycle."""
    names = [op.name for op in problem.ops]
    extra = Wait(before=data.draw(st.sampled_from(names)), after=data.draw(st.sampled_from(names)))
    return plan.model_copy(update={"waits": (*plan.waits, extra)})


def move_address(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    """Anywhere: on others, off the alignment, off the pin, out of range; or to a place that is as good."""
    _need(plan.addresses)
    name = data.draw(st.sampled_from(sorted(plan.addresses)))
    return plan.model_copy(update={"addresses": plan.addresses | {name: data.draw(st.integers(-1, 14))}})


def drop_address(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    _need(plan.addresses)
    name = data.draw(st.sampled_from(sorted(plan.addresses)))
    return plan.model_copy(update={"addresses": {k: v for k, v in plan.addresses.items() if k != name}})


def change_units(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    """Other units in the assignment, the queues as they were."""
    k = _pick(data, len(plan.assignments))
    units = dict(plan.assignments[k].units)
    _need(units)
    engine = data.draw(st.sampled_from(sorted(units)))
    units[engine] = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    changed = plan.assignments[k].model_copy(update={"units": units})
    return plan.model_copy(update={"assignments": (*plan.assignments[:k], changed, *plan.assignments[k + 1 :])})


def change_mode(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.assignments))
    changed = plan.assignments[k].model_copy(update={"mode": data.draw(st.integers(-1, 2))})
    return plan.model_copy(update={"assignments": (*plan.assignments[:k], changed, *plan.assignments[k + 1 :])})


def drop_assignment(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.assignments))
    return plan.model_copy(update={"assignments": (*plan.assignments[:k], *plan.assignments[k + 1 :])})


def double_assignment(data: DataObject, problem: Problem, plan: Plan) -> Plan:
    k = _pick(data, len(plan.assignments))
    return plan.model_copy(update={"assignments": (*plan.assignments, plan.assignments[k])})


PLAN_MUTATIONS: tuple[PlanMutation, ...] = (
    swap_entries,
    drop_entry,
    double_entry,
    move_entry,
    change_action,
    drop_queue,
    rename_queue,
    drop_wait,
    turn_wait,
    add_wait,
    move_address,
    drop_address,
    change_units,
    change_mode,
    drop_assignment,
    double_assignment,
)

FIELDS = ("start", "end", "transfer_start", "done", "wait_start", "observed")


def shift_field(data: DataObject, row: OpTimes) -> OpTimes:
    field = data.draw(st.sampled_from(FIELDS))
    return row._replace(**{field: getattr(row, field) + data.draw(st.sampled_from((-2, -1, 1, 2)))})


def shift_op(data: DataObject, row: OpTimes) -> OpTimes:
    by = data.draw(st.sampled_from((-3, -2, -1, 1, 2, 3)))
    return OpTimes(**{field: getattr(row, field) + by for field in FIELDS})


def shift_wait(data: DataObject, row: OpTimes) -> OpTimes:
    by = data.draw(st.sampled_from((-2, -1, 1, 2)))
    return row._replace(wait_start=row.wait_start + by, observed=row.observed + by)


def shift_transfer(data: DataObject, row: OpTimes) -> OpTimes:
    by = data.draw(st.sampled_from((-2, -1, 1, 2)))
    return row._replace(transfer_start=row.transfer_start + by, done=row.done + by)


ROW_MUTATIONS = (shift_field, shift_op, shift_wait, shift_transfer)


def _rows(times: Mapping[str, OpTimes]) -> list[OpRow]:
    return [OpRow(op=name, **row._asdict()) for name, row in times.items()]


def _parts(plan: Plan) -> Counter[tuple[str, ...]]:
    """Return what a plan says, part by part; each ends with the names it is about."""
    found: Counter[tuple[str, ...]] = Counter((a.model_dump_json(), a.op) for a in plan.assignments)
    for queue in plan.queues:
        for k, entry in enumerate(queue.entries):
            found[f"{k} {entry.action}", f"{queue.engine}[{queue.unit}]", entry.op] += 1
    found.update((wait.model_dump_json(), wait.before, wait.after) for wait in plan.waits)
    found.update((f"address {at}", name) for name, at in plan.addresses.items())
    return found


def _changed(plan: Plan, corrupted: Plan) -> set[str]:
    """Return the ops, buffers and queues of which the plans say different things."""
    before, after = _parts(plan), _parts(corrupted)
    return {name for part in (before - after) + (after - before) for name in part[1:]}


def _check_names(expected: Sequence[str], found: Sequence[Violation], changed: set[str]) -> None:
    """Assert that whoever the oracle names is named together; where it names nobody, someone who was changed."""
    if any(violation.kind.startswith(UNRUNNABLE) for violation in found):
        assert any(changed & set(violation.parties) for violation in found), (found, changed)
        return
    for line in expected:
        names = set(re.findall(r"\b[ob]\d+\b", line))
        if "demand" in line:
            # The checker tells the worst set of ops alone, the oracle all.
            assert any(v.kind in ("share_unordered", "share_overload") for v in found), (line, found)
        elif names:
            assert any(names <= set(violation.parties) for violation in found), (line, found)
        else:
            assert any(changed & set(violation.parties) for violation in found), (line, found, changed)


def _check_mutated(problem: Problem, plan: Plan, mutate: PlanMutation, data: DataObject) -> str:
    """Let the checker and the oracle judge a corrupted plan; return what came of it."""
    try:
        corrupted = mutate(data, problem, plan)
    except NothingToChange:
        return f"{mutate.__name__}: not possible"
    expected = plan_faults(problem, corrupted)
    found = check_plan(problem, corrupted)
    assert bool(found) == bool(expected), (expected, found)
    assert all(violation.kind and violation.message for violation in found)
    _check_names(expected, found, _changed(plan, corrupted))
    return f"{mutate.__name__}: {'breaks a rule' if expected else 'harmless'}"


def _check_mistimed(
    problem: Problem, plan: Plan, times: dict[str, OpTimes], mutate: RowMutation, data: DataObject
) -> str:
    name = data.draw(st.sampled_from(sorted(times)))
    corrupted = times | {name: mutate(data, times[name])}
    expected = time_faults(problem, plan, corrupted)
    found = check_times(problem, plan, _rows(corrupted))
    assert bool(found) == bool(expected), (expected, found)
    _check_names(expected, found, {name})
    return f"{mutate.__name__}: {'breaks a rule' if expected else 'harmless'}"


@given(planned())
def test_the_checker_accepts_sound_plans_and_their_times(case: Planned) -> None:
    problem, plan, times = case
    assert check_plan(problem, plan) == []
    assert check_times(problem, plan, _rows(times)) == []


@settings(max_examples=settings().max_examples * 4)
@given(st.data(), planned(), st.sampled_from(PLAN_MUTATIONS))
def test_the_checker_refuses_exactly_the_broken_plans(data: DataObject, case: Planned, mutate: PlanMutation) -> None:
    event(_check_mutated(*case[:2], mutate, data))


@settings(max_examples=settings().max_examples * 4)
@given(st.data(), planned(), st.sampled_from(ROW_MUTATIONS))
def test_the_checker_refuses_exactly_the_broken_times(data: DataObject, case: Planned, mutate: RowMutation) -> None:
    event(_check_mistimed(*case, mutate, data))


@pytest.mark.slow
def test_every_kind_of_corruption_is_found_on_many_plans() -> None:
    """20 kinds, each found on ``PLANS`` plans: those of five and six ops, which have waits and queues to corrupt."""
    kinds = (*PLAN_MUTATIONS, *ROW_MUTATIONS)
    found = Counter(dict.fromkeys((kind.__name__ for kind in kinds), 0))

    def try_on(data: DataObject, case: Planned, kind: PlanMutation | RowMutation) -> str:
        if kind in ROW_MUTATIONS:
            return _check_mistimed(*case, kind, data)  # type: ignore[arg-type]
        return _check_mutated(*case[:2], kind, data)  # type: ignore[arg-type]

    def on_a_batch(missing: tuple[PlanMutation | RowMutation, ...]) -> None:
        @settings(max_examples=BATCH, derandomize=False, database=None)
        @given(st.data(), planned(min_ops=5))
        def run(data: DataObject, case: Planned) -> None:
            for kind in missing:
                tries = (try_on(data, case, kind) for _ in range(TRIES))
                found[kind.__name__] += any(said.endswith("breaks a rule") for said in tries)

        run()

    for _ in range(MOST_BATCHES):
        missing = tuple(kind for kind in kinds if found[kind.__name__] < PLANS)
        if not missing:
            break
        on_a_batch(missing)
    print(dict(sorted(found.items())))
    assert len(found) == 20
    assert min(found.values()) >= PLANS, found


@given(planned())
def test_a_missing_or_repeated_row_is_refused(case: Planned) -> None:
    problem, plan, times = case
    rows = _rows(times)
    assert check_times(problem, plan, rows[1:])
    assert check_times(problem, plan, [*rows, rows[0]])
