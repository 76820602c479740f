"""The oracle against the plan language: its plan takes what it says, and no enumerated plan takes less."""

from __future__ import annotations

from itertools import combinations, permutations, product
from math import factorial, prod
from typing import TYPE_CHECKING

import networkx as nx
import pytest
from hypothesis import assume, given, settings
from oracle import OracleLimit, Witness, optimum
from plan_rules import faults, order_graph
from strategies import problems

from hexloom.formulations.decision import Decision
from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_PLANS = 6_000
MOST_PLACEMENTS = 200


def best(problem: Problem) -> Witness | None:
    try:
        return optimum(problem)
    except OracleLimit:
        assume(False)
        raise


@given(problems())
def test_the_best_plan_can_be_written_down_and_takes_the_time_found(problem: Problem) -> None:
    found = best(problem)
    if found is None:
        return
    decision = Decision(found.modes, found.units, found.actions, found.offsets, found.guards, found.flows)
    plan = make_plan(problem, decision)
    timeline = simulate(problem, plan)
    assert not faults(problem, plan, timeline.times)
    assert timeline.makespan == found.ticks
    for action, time in zip(found.actions, found.times, strict=True):
        row = timeline.times[problem.ops[action if action >= 0 else ~action].name]
        assert (row.start if action >= 0 else row.wait_start) == time


@settings(max_examples=25)
@given(problems(max_ops=3, max_buffers=2))
def test_no_plan_of_three_ops_beats_the_oracle(problem: Problem) -> None:
    found = best(problem)
    assume(_plan_count(problem) <= MOST_PLANS)
    assume(prod(len(options) for options in _addresses(problem)) <= MOST_PLACEMENTS)
    without_buffers = problem.model_copy(update={"buffers": ()})
    for plan in _plans(problem):
        try:
            timeline = simulate(problem, plan)
        except PlanError:
            continue
        better = found is None or timeline.makespan < found.ticks
        if better and not faults(without_buffers, plan, timeline.times):
            for placed in _placed(problem, plan):
                assert faults(problem, placed, timeline.times)


def _modes(problem: Problem) -> Iterator[tuple[int, ...]]:
    yield from product(*(range(len(op.modes)) for op in problem.ops))


def _unit_choices(problem: Problem, mode: Mode) -> list[dict[str, tuple[int, ...]]]:
    names, options = [], []
    for use in mode.uses:
        if mode.dma is not None or use.ticks == 0 or use.engine in problem.shares:
            continue
        units = next(e.units for e in problem.engines if e.name == use.engine)
        names.append(use.engine)
        options.append([use.unit_ids] if use.unit_ids is not None else list(combinations(range(units), use.units)))
    return [dict(zip(names, ids, strict=True)) for ids in product(*options)]


def _lanes(problem: Problem, modes: tuple[int, ...], units: tuple[dict[str, tuple[int, ...]], ...]) -> dict:
    workers = {e.name for e in problem.engines if e.kind == "worker"}
    lanes: dict[tuple[str, int], list[QueueEntry]] = {}
    for op, m, held in zip(problem.ops, modes, units, strict=True):
        dma = op.modes[m].dma
        if dma is not None:
            lane = lanes.setdefault((dma.owner_engine, dma.owner_unit), [])
            lane += [QueueEntry(op=op.name, action="start"), QueueEntry(op=op.name, action="wait")]
            continue
        for engine, ids in held.items():
            for u in ids if engine in workers else ():
                lanes.setdefault((engine, u), []).append(QueueEntry(op=op.name, action="run"))
    return lanes


def _assigned(problem: Problem) -> Iterator[tuple[tuple[int, ...], tuple[dict[str, tuple[int, ...]], ...]]]:
    for modes in _modes(problem):
        choices = [_unit_choices(problem, op.modes[m]) for op, m in zip(problem.ops, modes, strict=True)]
        for units in product(*choices):
            yield modes, units


def _plan_count(problem: Problem) -> int:
    n = len(problem.ops)
    orders = sum(prod(factorial(len(lane)) for lane in _lanes(problem, m, u).values()) for m, u in _assigned(problem))
    return orders * 2 ** (n * (n - 1))


def _plans(problem: Problem) -> Iterator[Plan]:
    names = [op.name for op in problem.ops]
    pairs = [Wait(before=a, after=b) for a in names for b in names if a != b]
    subsets = [tuple(w for k, w in enumerate(pairs) if mask >> k & 1) for mask in range(2 ** len(pairs))]
    for modes, units in _assigned(problem):
        lanes = _lanes(problem, modes, units)
        assignments = tuple(
            Assignment(op=name, mode=m, units=held) for name, m, held in zip(names, modes, units, strict=True)
        )
        for orders in product(*(permutations(entries) for entries in lanes.values())):
            if any(_backwards(order) for order in orders):
                continue
            queues = tuple(Queue(engine=e, unit=u, entries=o) for (e, u), o in zip(lanes, orders, strict=True))
            for waits in subsets:
                plan = Plan(assignments=assignments, queues=queues, waits=waits, addresses={})
                if nx.is_directed_acyclic_graph(order_graph(problem, plan)):
                    yield plan


def _backwards(order: tuple[QueueEntry, ...]) -> bool:
    started = set()
    for entry in order:
        if entry.action == "wait" and entry.op not in started:
            return True
        started.add(entry.op)
    return False


def _addresses(problem: Problem) -> list[list[int]]:
    room = problem.scratchpad.available_bytes
    return [
        [buffer.address] if buffer.address is not None else list(range(0, room + 1, buffer.align_bytes))
        for buffer in problem.buffers
    ]


def _placed(problem: Problem, plan: Plan) -> Iterator[Plan]:
    for addresses in product(*_addresses(problem)):
        names = [buffer.name for buffer in problem.buffers]
        yield plan.model_copy(update={"addresses": dict(zip(names, addresses, strict=True))})


WORKERS = (Engine(name="m"), Engine(name="v"), Engine(name="d"))


def work(name: str, engine: str, ticks: int) -> Op:
    return Op(name=name, modes=(Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks),))


def test_two_machines_by_hand() -> None:
    problem = Problem(
        engines=WORKERS,
        ops=(work("a", "m", 3), work("b", "v", 2), work("c", "m", 2), work("d", "v", 4)),
        precedences=(Precedence(before="a", after="b"), Precedence(before="c", after="d")),
    )
    found = optimum(problem)
    assert found is not None
    # Johnson's rule: c first, then a: 2 + 4 + 2.
    assert found.ticks == 8


def test_one_byte_makes_two_ops_follow_each_other() -> None:
    problem = Problem(
        engines=WORKERS,
        ops=(work("a", "m", 3), work("b", "v", 2)),
        buffers=(Buffer(name="x", size_bytes=2, ops=("a",)), Buffer(name="y", size_bytes=2, ops=("b",))),
        scratchpad=Scratchpad(total_bytes=3),
    )
    found = optimum(problem)
    assert found is not None
    assert found.ticks == 5
    roomy = optimum(problem.model_copy(update={"scratchpad": Scratchpad(total_bytes=4)}))
    assert roomy is not None
    assert roomy.ticks == 3
    assert optimum(problem.model_copy(update={"scratchpad": Scratchpad(total_bytes=1)})) is None


def test_a_pin_in_the_middle_splits_the_room() -> None:
    problem = Problem(
        engines=WORKERS,
        ops=(work("a", "m", 3), work("b", "v", 2)),
        buffers=(Buffer(name="x", size_bytes=3, ops=("a",)), Buffer(name="y", size_bytes=1, ops=("b",), address=2)),
        scratchpad=Scratchpad(total_bytes=5),
    )
    found = optimum(problem)
    assert found is not None
    assert found.ticks == 5


@pytest.mark.parametrize(("own_ticks", "expected"), [(0, 8), (9, 12)])
def test_a_busy_owner_observes_late(own_ticks: int, expected: int) -> None:
    """A load of 5 (issue 1, poll 1), then an op of 1: 1 + 5 + 1 + 1; with own work of 9 between: 1 + 9 + 1 + 1."""
    dma = Dma(owner_engine="v", owner_unit=0, issue_ticks=1, poll_ticks=1)
    load = Mode(uses=(Use(engine="pipe", ticks=5),), latency_ticks=5, dma=dma)
    own = [work("own", "v", own_ticks)] if own_ticks else []
    problem = Problem(
        engines=(*WORKERS, Engine(name="pipe", kind="pipe")),
        ops=(Op(name="load", modes=(load,)), work("after", "m", 1), *own),
        precedences=(Precedence(before="load", after="after"),),
    )
    found = optimum(problem)
    assert found is not None
    assert found.ticks == expected


def test_a_transfer_without_a_pipe_passes_one_that_waits() -> None:
    """The pipe is taken by the first transfer for 5; the second needs none and is there after 1."""

    def transfer(name: str, ticks: int, uses: tuple[Use, ...]) -> Op:
        return Op(name=name, modes=(Mode(uses=uses, latency_ticks=ticks, dma=Dma(owner_engine="v", owner_unit=0)),))

    problem = Problem(
        engines=(*WORKERS, Engine(name="pipe", kind="pipe")),
        ops=(transfer("long", 5, (Use(engine="pipe", ticks=5),)), transfer("free", 1, ())),
    )
    steps = (("long", "start"), ("free", "start"), ("free", "wait"), ("long", "wait"))
    entries = tuple(QueueEntry(op=op, action=action) for op, action in steps)
    plan = Plan(
        assignments=(Assignment(op="long"), Assignment(op="free")),
        queues=(Queue(engine="v", unit=0, entries=entries),),
        waits=(),
        addresses={},
    )
    times = simulate(problem, plan).times
    assert (times["free"].transfer_start, times["free"].observed, times["long"].observed) == (0, 1, 5)
