"""Bodies of several loops: their dependencies, their master problem, and bounds for all iterations."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexloom import load_hw
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.periodic.bounds import least_ii
from hexloom.formulations.periodic.bounds import lower_bounds as rate_bounds
from hexloom.formulations.periodic.corun import MOST_BODIES, MOST_TIMES, Body, best_mix, candidates, side_by_side
from hexloom.formulations.periodic.counted_units import with_counted_units
from hexloom.formulations.periodic.loop import Dependency, Loop, LoopBuffer, LoopOp, LoopUser
from hexloom.formulations.periodic.modulo import modulo_schedule
from hexloom.formulations.periodic.schedule import ModuloSchedule
from hexloom.formulations.periodic.whole_bounds import whole_bounds
from hexloom.formulations.problem import Engine, Mode, Scratchpad, Use
from hexloom.optimizer.check_periodic import check_modulo
from hexloom.optimizer.lower import lower
from hexloom.optimizer.periodic.roll import parts_of_stages, roll
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.optimizer.periodic.roll import Rolled

ENGINES = (Engine(name="matrix"), Engine(name="vector", units=2))


def op(name: str, engine: str, ticks: int, units: int = 1) -> LoopOp:
    return LoopOp(name=name, mode=Mode(uses=(Use(engine=engine, ticks=ticks, units=units),), latency_ticks=ticks))


def chain(name: str, matrix: int, vector: int, distance: int = 1) -> Loop:
    """Return a loop: vector work, then matrix work, with a buffer between, and a recurrence over ``distance``."""
    ops = (op(f"{name}.v", "vector", vector), op(f"{name}.m", "matrix", matrix))
    edges = (
        Dependency(before=f"{name}.v", after=f"{name}.m"),
        Dependency(before=f"{name}.m", after=f"{name}.v", distance=distance),
    )
    users = (LoopUser(op=f"{name}.v"), LoopUser(op=f"{name}.m"))
    return Loop(
        name=name,
        ops=ops,
        dependencies=edges,
        engines=ENGINES,
        buffers=(LoopBuffer(name=f"{name}.b", size_bytes=2, users=users),),
        scratchpad=Scratchpad(total_bytes=64),
        rule="none",
    )


def interval(body: Body) -> tuple[Body, Fraction]:
    return body, Fraction(body.schedule.ii_ticks)


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
def test_copies_of_an_iteration_ask_for_as_much_as_the_iterations(
    matrix: int, vector: int, distance: int, one: int, two: int
) -> None:
    loops = chain("a", matrix, vector, distance), chain("b", vector, matrix, 2)
    body = side_by_side(loops, (one, two))
    schedule = modulo_schedule(body, 1.0, seed=1, prove=False).schedule
    assert schedule is not None
    assert check_modulo(body, schedule) == []
    alone = side_by_side(loops[:1], (one,))
    bound = max(bound.ticks for bound in rate_bounds(loops[0]) if bound.name in ("engine", "recurrence"))
    assert max(bound.ticks for bound in rate_bounds(alone) if bound.name in ("engine", "recurrence")) == one * bound


def test_dependencies_between_copies() -> None:
    body = side_by_side((chain("a", 1, 1, distance=3),), (2,))
    found = {(e.before, e.after, e.distance) for e in body.dependencies}
    assert ("a.m#1", "a.v#0", 2) in found
    assert ("a.m#0", "a.v#1", 1) in found


def test_loops_of_different_engines_run_side_by_side() -> None:
    loops = chain("a", 4, 1), chain("b", 1, 4)
    mix = best_mix(loops, (10, 10), interval, 1.0, seed=1)
    assert mix is not None
    assert mix.value_ticks < 10 * 5 + 10 * 5
    assert sum(runs * body.times[0] for body, runs in mix.runs) >= 10


def test_loops_that_share_one_engine_do_not() -> None:
    one, two = (
        Loop(name=n, ops=(op(f"{n}.m", "matrix", t),), engines=ENGINES, rule="none") for n, t in (("a", 3), ("b", 5))
    )
    mix = best_mix((one, two), (7, 4), interval, 1.0, seed=1)
    assert mix is not None
    assert mix.value_ticks == 7 * 3 + 4 * 5
    assert mix.complete


@pytest.mark.parametrize("seconds", [1.0, 0.0])
def test_loops_alone_are_looked_at_where_the_mix_has_a_use_for_them(seconds: float) -> None:
    seen: list[tuple[int, ...]] = []

    def noting(body: Body) -> tuple[Body, Fraction]:
        seen.append(body.times)
        return interval(body)

    loops = chain("a", 4, 1, 2), chain("b", 1, 4, 2)
    mix = best_mix(loops, (10, 10), noting, seconds, seed=1)
    assert mix is not None
    assert mix.value_ticks == 10 * 5
    assert seen
    assert all(min(times) for times in seen)
    best_mix(loops, (10, 3), noting, seconds, seed=1)
    assert (1, 0) in seen
    assert len(seen) == len(set(seen)) + 1


def test_a_body_without_a_plan_is_left_out() -> None:
    loops = chain("a", 4, 1), chain("b", 1, 4)

    def only_alone(body: Body) -> tuple[Body, Fraction] | None:
        return interval(body) if min(body.times) == 0 else None

    mix = best_mix(loops, (3, 3), only_alone, 1.0, seed=1)
    assert mix is not None
    assert all(min(body.times) == 0 for body, _ in mix.runs)
    assert best_mix(loops, (3, 3), lambda _: None, 1.0, seed=1) is None


def test_candidates_have_every_loop_alone_first() -> None:
    found = candidates((chain("a", 1, 1), chain("b", 1, 1)), (5, 1))
    assert set(found[:2]) == {(1, 0), (0, 1)}
    assert max(times[1] for times in found) == 1


def test_many_loops_have_few_candidates_those_with_the_fewest_ops() -> None:
    loops = [chain(f"l{k}", 1, 1) for k in range(30)]
    found = candidates(loops, [MOST_TIMES] * len(loops))
    assert len(found) == len(set(found)) == MOST_BODIES
    assert [sum(times) for times in found] == [1] * 30 + [2] * (MOST_BODIES - 30)


def test_every_loop_alone_is_a_candidate_however_many_there_are() -> None:
    loops = [chain(f"l{k}", 1, 1) for k in range(MOST_BODIES + 6)]
    found = candidates(loops, [5] * len(loops))
    assert len(found) == len(loops)
    assert {times.index(1) for times in found} == set(range(len(loops)))


def test_gangs_part_the_time_of_all_others() -> None:
    ops = (op("gang", "vector", 11, units=2), op("single", "vector", 10))
    loop = Loop(name="a", ops=ops, engines=ENGINES, rule="none")
    assert least_ii(rate_bounds(loop)) == 21
    assert modulo_schedule(loop, 1.0, seed=1).ii_ticks == 21


def held_at_once(loop: Loop, schedule: ModuloSchedule, runs: int) -> list[tuple[int, int, int]]:
    """Return (unit, start, end) of all that is held of the counted engine."""
    found = []
    for o in loop.ops:
        for use in o.mode.uses:
            ring = schedule.units[o.name][use.engine]
            for k in range(runs):
                start = schedule.starts[o.name] + k * schedule.ii_ticks
                assert len(ring[k % len(ring)]) == use.units
                found += [(unit, start, start + use.ticks) for unit in ring[k % len(ring)]]
    return found


@settings(max_examples=40)
@given(
    st.integers(2, 4), st.lists(st.tuples(st.integers(1, 9), st.integers(1, 2)), min_size=1, max_size=4), st.booleans()
)
def test_who_holds_a_unit_of_a_counted_engine_holds_it_alone(
    units: int, ops: list[tuple[int, int]], chained: bool
) -> None:
    engines = (Engine(name="own", units=units, kind="resource"),)
    names = [f"o{k}" for k in range(len(ops))]
    edges = tuple(Dependency(before=a, after=b) for a, b in pairwise(names)) if chained else ()
    loop = Loop(
        name="a",
        ops=tuple(op(name, "own", ticks, need) for name, (ticks, need) in zip(names, ops, strict=True)),
        dependencies=edges,
        engines=engines,
        rule="none",
    )
    schedule = modulo_schedule(loop, 1.0, seed=1, prove=False).schedule
    assert schedule is not None
    numbered = with_counted_units(loop, schedule)
    if not numbered.units:
        return
    by_unit: dict[int, list[tuple[int, int]]] = {}
    for unit, start, end in held_at_once(loop, numbered, 2 * numbered.unroll + 20):
        by_unit.setdefault(unit, []).append((start, end))
    for spans in by_unit.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(spans)))
    assert set(by_unit) <= set(range(units))


def test_ops_longer_than_the_interval_take_turns_on_a_counted_engine() -> None:
    loop = Loop(
        name="a", ops=(op("o", "own", 5),), engines=(Engine(name="own", units=3, kind="resource"),), rule="none"
    )
    schedule = with_counted_units(loop, ModuloSchedule(ii_ticks=2, starts={"o": 0}))
    assert schedule.units == {"o": {"own": ((0,), (1,), (2,))}}
    assert schedule.unroll == 3


def iterations_of(rolled: Rolled, count: int) -> list[dict[Hashable, int]]:
    found: list[dict[Hashable, int]] = [{} for _ in range(count)]
    for i, at in enumerate(rolled.place):
        if at is not None:
            found[at[1]][at[0]] = i
    return found


@settings(max_examples=10)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 3), st.integers(13, 40))
def test_iterations_that_wait_take_their_cycle_each(first: int, second: int, distance: int, trips: int) -> None:
    """Work, then a transfer that the work ``distance`` iterations later waits for: by hand and as the critical path."""

    def problem(count: int) -> Problem:
        ops = [
            {"name": "w{i}", "engine": "hvx", "duration_us": first, "after": [f"d{{i-{distance}}}"]},
            {"name": "d{i}", "engine": "dma", "duration_us": second, "after": ["w{i}"]},
        ]
        tasks = [{"name": "t", "ops": [{"for": "i", "count": count, "ops": ops}]}]
        data = {"schema": "hexloom.workload/1", "name": "w", "hw": "hexagon-v79", "tick_us": 1, "tasks": tasks}
        return lower(Workload.from_data(data), load_hw("hexagon-v79"), "none").problem

    few, more = problem(12), problem(13)
    rolled = roll(few, parts_of_stages(few, more), {"t": 12}, "none")
    found = whole_bounds(few, "none", [(iterations_of(rolled, 12), trips - 12)])
    waits = next(bound for bound in found if bound.name == "recurrence")
    path = next(bound.ticks for bound in lower_bounds(problem(trips)).found if bound.name == "critical_path")
    # The longest chain of iterations has ceil(trips / distance) of them; the bound counts to the one before the last.
    assert path - (first + second) <= waits.ticks <= max(b.ticks for b in lower_bounds(problem(trips)).found)


@pytest.mark.parametrize("rule", ["none", "fluid"])
def test_the_bound_for_all_iterations_is_that_of_the_whole_problem(rule: Rule) -> None:
    def workload(count: int) -> Workload:
        ops = [
            {"name": "l{i}", "engine": "dma", "transfer_bytes": 65536, "rows": 8},
            {"name": "c{i}", "engine": "hvx", "units": "all", "duration_us": 3, "after": ["l{i}", "c{i-1}"]},
            {"name": "m{i}", "engine": "hmx", "duration_us": 5, "after": ["c{i}"]},
        ]
        tasks = [{"name": "t", "ops": [{"for": "i", "count": count, "ops": ops}]}]
        data = {"schema": "hexloom.workload/1", "name": "w", "hw": "hexagon-v79", "tasks": tasks}
        return Workload.from_data(data)

    machine = load_hw("hexagon-v79")
    few, more, whole = (lower(workload(n), machine, rule).problem for n in (12, 13, 60))
    rolled = roll(few, parts_of_stages(few, more), {"t": 12}, rule)
    best = whole_bounds(few, rule, [(iterations_of(rolled, 12), 48)])[0]
    same = {bound.engine: bound.ticks for bound in lower_bounds(whole, rule).found if bound.name == "heads_tails"}
    assert best.engine == "hmx"
    assert best.ticks == same["hmx"]
