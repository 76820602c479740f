"""Loops: bound <= II = brute force, both models agree, the checker knows what is found from what is bent."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from in_process import InProcess
from loops import loops
from oracle_periodic import addresses_exist, respected, shortest, smallest_interval

from hexloom.formulations.periodic.bounds import impossible, least_ii, lower_bounds
from hexloom.formulations.periodic.fixed_starts import FixedStarts
from hexloom.formulations.periodic.model import ModuloAnswer, ModuloJob
from hexloom.formulations.periodic.modulo import ModuloResult, modulo_schedule
from hexloom.formulations.periodic.modulo_ilp import ask_ilp
from hexloom.formulations.periodic.range_model import RangeJob
from hexloom.optimizer.check_periodic import check_modulo

if TYPE_CHECKING:
    from hexloom.formulations.periodic.loop import Loop
    from hexloom.formulations.periodic.schedule import ModuloSchedule

UPTO = 6


def solved(loop: Loop, shortest: bool = False) -> ModuloResult:
    return modulo_schedule(loop, 20.0, seed=1, shortest=shortest, guard=InProcess())  # type: ignore[arg-type]


def compare_with_brute_force(loop: Loop) -> None:
    result = solved(loop)
    event(f"{result.status} by {result.attempts[-1].by if result.attempts else 'arithmetic'}")
    assert result.status in ("OPTIMAL", "INFEASIBLE")
    found = result.ii_ticks
    upto = UPTO if found is None else min(UPTO, found)
    assert smallest_interval(loop, upto) == (found if found is not None and found <= upto else None)
    if result.schedule is not None:
        assert check_modulo(loop, result.schedule) == []
        assert all(ceil(bound.ticks) <= result.schedule.ii_ticks for bound in result.bounds)


@given(loops(3))
def test_the_interval_is_that_of_brute_force(loop: Loop) -> None:
    compare_with_brute_force(loop)


@pytest.mark.slow
@settings(max_examples=100)
@given(loops(4))
def test_the_interval_is_that_of_brute_force_with_four_ops(loop: Loop) -> None:
    compare_with_brute_force(loop)


@given(loops(3))
def test_the_shortest_iteration_is_that_of_brute_force(loop: Loop) -> None:
    result = solved(loop, shortest=True)
    assume(result.schedule is not None and result.schedule.ii_ticks <= UPTO)
    assert result.schedule is not None
    assert check_modulo(loop, result.schedule) == []
    least = shortest(loop, result.schedule.ii_ticks)
    assert result.length_ticks == least if result.length_proven else result.length_ticks >= least


@settings(max_examples=20)
@given(loops(3))
def test_the_integer_program_says_the_same(loop: Loop) -> None:
    for attempt in solved(loop).attempts:
        said = ask_ilp(loop, attempt.ii_ticks)
        event(f"{attempt.status} by {attempt.by}, {said}")
        if attempt.status == "FEASIBLE" or attempt.by == "counting":
            assert said == attempt.status


@given(loops(4), st.integers(0, 3))
def test_the_relaxation_over_many_intervals_refutes_none_that_does(loop: Loop, beyond: int) -> None:
    result = solved(loop)
    assume(result.ii_ticks is not None)
    assert result.ii_ticks is not None
    low = least_ii(result.bounds)
    search = RangeJob(loop, low, result.ii_ticks + 1 + beyond, least=True, seconds=10.0, seed=1, deterministic=True)
    word, bound = search.work([].append)
    event(f"{word}, {'raised' if bound > low else 'not raised'}")
    assert word == "OPTIMAL"
    assert bound <= result.ii_ticks
    if bound > low:
        assert replace(search, upper=bound, least=False).work([].append)[0] == "INFEASIBLE"


@given(loops(4))
def test_addresses_for_fixed_starts_are_found_where_there_are_any(loop: Loop) -> None:
    assume(loop.buffers and impossible(loop) is None)
    job = ModuloJob(loop, least_ii(lower_bounds(loop)), False, False, 10.0, seed=1, deterministic=True)
    found: list[ModuloAnswer] = []
    job.work(found.append)
    counted = found[0].schedule
    assume(counted is not None)
    assert counted is not None
    word, _ = FixedStarts(loop, counted, 10.0, seed=1, deterministic=True).work(found.append)
    exist = addresses_exist(loop, counted.ii_ticks, counted.starts)
    event("addresses" if exist else "none")
    assert (word in ("OPTIMAL", "FEASIBLE")) == exist
    placed = found[1].schedule
    assert placed is None or check_modulo(loop, placed) == []


@st.composite
def bent(draw: st.DrawFn, loop: Loop, schedule: ModuloSchedule) -> ModuloSchedule:
    """Return ``schedule`` with one start, unit or address that is another one."""
    starts, units, addresses = dict(schedule.starts), dict(schedule.units), dict(schedule.addresses)
    what = draw(st.sampled_from(("start", *(("units",) if units else ()), *(("address",) if addresses else ()))))
    if what == "start":
        name = draw(st.sampled_from(sorted(starts)))
        starts[name] = max(0, starts[name] + draw(st.sampled_from((-2, -1, 1, 2))))
    elif what == "units":
        name = draw(st.sampled_from(sorted(units)))
        engine, ring = next(iter(units[name].items()))
        k, most = draw(st.integers(0, len(ring) - 1)), next(e.units for e in loop.engines if e.name == engine)
        turned = tuple((unit + 1) % most for unit in ring[k])
        units[name] = {engine: (*ring[:k], turned, *ring[k + 1 :])}
    else:
        name = draw(st.sampled_from(sorted(addresses)))
        ring_of = addresses[name]
        k = draw(st.integers(0, len(ring_of) - 1))
        addresses[name] = (*ring_of[:k], ring_of[k] + draw(st.sampled_from((-1, 1))), *ring_of[k + 1 :])
    return schedule.model_copy(update={"starts": starts, "units": units, "addresses": addresses})


@given(loops(4), st.data())
def test_the_checker_refuses_what_is_bent_unless_it_still_holds(loop: Loop, data: st.DataObject) -> None:
    result = solved(loop)
    assume(result.schedule is not None)
    assert result.schedule is not None
    other = data.draw(bent(loop, result.schedule))
    found = check_modulo(loop, other)
    event(found[0].kind if found else "holds")
    assert (found == []) == respected(loop, other)


@given(loops(4), st.data())
def test_more_of_anything_never_raises_the_interval(loop: Loop, data: st.DataObject) -> None:
    before = solved(loop).ii_ticks
    assume(before is not None)
    what = data.draw(st.sampled_from(("bytes", "units", "channel")))
    if what == "bytes":
        more = loop.changed(scratchpad={"total_bytes": loop.scratchpad.total_bytes + data.draw(st.integers(1, 3))})
    elif what == "units":
        engine = data.draw(st.sampled_from(loop.engines))
        wider = engine.model_copy(update={"units": engine.units + 1})
        more = loop.changed(engines=tuple(wider if e is engine else e for e in loop.engines))
    else:
        more = loop.changed(channels=tuple(c.model_copy(update={"capacity": c.capacity + 1}) for c in loop.channels))
    after = solved(more).ii_ticks
    assert after is not None
    assert before is not None
    assert after <= before
