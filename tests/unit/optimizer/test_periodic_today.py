"""Today's loops as a plan for all iterations: where bodies take longer, or there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hexloom import check_periodic_schedule, load_hw, solve_periodic
from hexloom.optimizer.periodic import solve, today
from hexloom.optimizer.periodic.reduced import FEW
from hexloom.optimizer.periodic.roll import NotALoopError
from hexloom.optimizer.periodic.trial import Source
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule

TRIPS = 900


def work(size: int = 2**19) -> Workload:
    """Return a load, vector work and a matrix job, with buffers between, and a task of vector work alone."""
    ops: list[dict[str, Any]] = [
        {"name": "l{i}", "engine": "dma", "duration_us": 7, "buffers": ["x{i}"]},
        {"name": "v{i}", "engine": "hvx", "duration_us": 5, "after": ["l{i}", "m{i-2}"], "buffers": ["x{i}", "y{i}"]},
        {"name": "m{i}", "engine": "hmx", "duration_us": 9, "after": ["v{i}"], "buffers": ["y{i}"]},
    ]
    buffers = [{"name": name, "size_bytes": size} for name in ("x{i}", "y{i}")]
    alone = [{"name": "w{i}", "engine": "hvx", "units": "all", "duration_us": 3}]
    tasks = [
        {"name": "a", "ops": [{"for": "i", "count": TRIPS, "ops": ops, "buffers": buffers}]},
        {"name": "b", "ops": [{"for": "i", "count": TRIPS, "ops": alone}]},
    ]
    return Workload.from_data({"schema": "hexloom.workload/1", "name": "w", "hw": "hexagon-v79", "tasks": tasks})


def solved() -> PeriodicSchedule:
    return solve_periodic(work(), time_limit_s=0.5, contention="none", seed=1)


def is_todays(schedule: PeriodicSchedule) -> bool:
    return [stretch.times for stretch in schedule.stretches] == [{"a": 1}, {"b": 1}]


def test_bodies_come_first() -> None:
    schedule = solved()
    assert not is_todays(schedule)
    assert schedule.baselines["existing"] is not None
    assert schedule.makespan < schedule.baselines["existing"]


def test_where_no_body_has_a_plan_todays_loops_are_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "best_mix", lambda *_, **__: None)
    schedule = solved()
    assert is_todays(schedule)
    existing = schedule.baselines["existing"]
    assert existing is not None
    assert schedule.lower_bound <= schedule.makespan <= existing
    assert sum(stretch.left_out for stretch in schedule.stretches) > TRIPS
    assert check_periodic_schedule(schedule) == []


def test_where_bodies_take_longer_todays_loops_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule_of = solve.schedule_of

    def longer(source: Source, reduced: Any, seed: int | None) -> PeriodicSchedule:
        found = schedule_of(source, reduced, seed)
        return found if isinstance(reduced, today.Today) else found.model_copy(update={"makespan": 10**12})

    monkeypatch.setattr(solve, "schedule_of", longer)
    assert is_todays(solved())


@pytest.mark.parametrize("deep", [1, 2, today.MOST_DEEP])
def test_as_many_iterations_take_turns_as_there_is_room_for(deep: int) -> None:
    """A v79 has 8 MiB, and an iteration has two buffers of one size."""
    source = Source(work(2**22 // deep), load_hw("hexagon-v79"), "none", FEW)
    found = solve.todays(source, 1)
    assert found is not None
    reduced, schedule = found
    places = reduced.phases[0].body.schedule.addresses["a"]
    assert len(places) == deep
    assert schedule.stretches[0].period % deep == 0
    assert check_periodic_schedule(schedule) == []


def test_where_neither_has_a_plan_the_reason_is_that_of_the_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "best_mix", lambda *_, **__: None)
    monkeypatch.setattr(today, "back_to_back", lambda *_: None)
    with pytest.raises(NotALoopError, match="no body of these loops"):
        solved()


def test_the_whole_of_todays_loops_is_written_down_where_trips_are_few() -> None:
    source = Source(work(), load_hw("hexagon-v79"), "none", FEW)
    source.trips.update(a=20, b=18)
    found = solve.todays(source, 1)
    assert found is not None
    reduced, schedule = found
    decision = reduced.whole()
    assert decision is not None
    assert len(decision.modes) == 20 * 3 + 18
    assert check_periodic_schedule(schedule) == []
