"""Loops of a million iterations: solved, written in constant size, checked, and refused where they are none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hexloom import check_periodic_schedule, load_hw, solve_periodic
from hexloom.optimizer import simulate
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.lower import lower
from hexloom.optimizer.periodic import solve, trial
from hexloom.optimizer.periodic.choose import formulation_for
from hexloom.optimizer.periodic.roll import NotALoopError
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

MILLION = 10**6

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

MATMUL = {"name": "matmul", "kernel": "matmul_w4a16", "m": 1024, "k": 2048, "m_chunk": 1024, "n_chunk": 64}
NORM = {"name": "norm", "kernel": "rmsnorm", "cols": 2048, "mode": "direct", "rows_per_block": 8}


def workload(*tasks: dict[str, Any]) -> Workload:
    data = {"schema": "hexloom.workload/1", "name": "loops", "hw": "hexagon-v81", "tasks": list(tasks)}
    return Workload.from_data(data, "test")


def pair(tiles: int) -> Workload:
    return workload({**MATMUL, "n": 64 * tiles}, {**NORM, "rows": 8 * tiles})


@pytest.fixture(scope="module")
def million() -> PeriodicSchedule:
    return solve_periodic(pair(MILLION), time_limit_s=2, contention="none", seed=1)


def test_a_million_tiles_are_at_their_bound(million: PeriodicSchedule) -> None:
    assert million.trips == {"matmul": MILLION, "norm": MILLION}
    assert million.gap < 1e-5
    assert million.bounds[0].engine == "hmx"
    existing = million.baselines["existing"]
    assert existing is not None
    assert existing > 1.19 * million.makespan
    assert check_periodic_schedule(million) == []


def test_the_norm_hides_behind_the_matmul(million: PeriodicSchedule) -> None:
    first = million.stretches[0]
    assert first.times == {"matmul": 1, "norm": 1}
    assert first.runs == MILLION


def test_the_size_does_not_grow_with_the_trips(million: PeriodicSchedule) -> None:
    few = solve_periodic(pair(10**3), time_limit_s=2, contention="none", seed=1)
    assert len(few.written.rows) == len(million.written.rows)
    per_run = million.stretches[0].period_ticks / million.stretches[0].period
    assert million.makespan - few.makespan == (MILLION - 10**3) * per_run


def test_the_file_reads_back(million: PeriodicSchedule) -> None:
    assert PeriodicSchedule.from_json(million.to_json()) == million


def test_same_seed_same_bytes() -> None:
    one, two = (solve_periodic(pair(100), time_limit_s=1, contention="none", seed=3) for _ in range(2))
    assert one.to_json() == two.to_json()


def test_nothing_is_lowered_or_simulated_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    simulated: list[tuple[Any, ...]] = []
    lower_it, run_it = trial.lower, simulate.Run.run

    def lowering(workload: Workload, *of: Any) -> Any:
        lowered.append(workload.model_copy(update={"tick_us": None}).digest())
        return lower_it(workload, *of)

    def running(run: simulate.Run) -> Any:
        names = tuple(op.name for op in run.problem.ops)
        if len(names) > 100:  # the norm alone is the same in today's loop and in the plan
            simulated.append((names, str(run.queues), str(run.followers), tuple(run.loads)))
        return run_it(run)

    monkeypatch.setattr(trial, "lower", lowering)
    monkeypatch.setattr(simulate.Run, "run", running)
    monkeypatch.setattr(solve, "passed", lambda schedule: schedule)  # who checks runs it once more
    schedule = solve_periodic(pair(MILLION), time_limit_s=2, seed=1)
    assert len(lowered) == len(set(lowered)) > 0
    assert len(simulated) == len(set(simulated)) > 0
    assert schedule.written.gain is not None


CORRUPTIONS: dict[str, tuple[str, Callable[[PeriodicSchedule], dict[str, Any]]]] = {
    "makespan": ("makespan", lambda s: {"makespan": s.makespan + 1}),
    "trips": ("trips", lambda s: {"trips": {**s.trips, "norm": 7}}),
    "bound": ("bound", lambda s: {"lower_bound": s.lower_bound + 5, "bounds": _raised(s)}),
    "period": ("makespan", lambda s: {"stretches": (s.stretches[0].model_copy(update={"period_ticks": 1}),)}),
    "left_out": ("left_out", lambda s: {"grown": (None,)}),
    "grown": ("grown", lambda s: {"grown": ()}),
    "one trip more than is written": ("trips", lambda s: _shifted(s, trips=1, runs=1)),
    "a run less is left out": ("trips", lambda s: _shifted(s, left_out=-1)),
    "a run more is left out": ("trips", lambda s: _shifted(s, left_out=1)),
    "runs": ("runs", lambda s: _shifted(s, runs=1)),
    "a body without iterations": ("times", lambda s: _stretch(s, times={"matmul": 1, "norm": 0})),
    "an empty body": ("times", lambda s: _stretch(s, times={}, count={}) | {"trips": {}}),
    "a task that is not there": ("times", lambda s: _stretch(s, count={**s.stretches[0].count, "ghost": 3})),
    "a task without trips": ("trips", lambda s: {"trips": {"norm": MILLION}}),
    "trips without a task": ("trips", lambda s: {"trips": {**s.trips, "ghost": 3}}),
    "a task of no trips": ("trips", lambda s: {"trips": {**s.trips, "ghost": 0}}),
    "interval": ("interval", lambda s: _stretch(s, interval_ticks=-5)),
    "machine": ("head", lambda s: {"machine": "hexagon-v73"}),
    "contention": ("head", lambda s: {"contention": "rigid"}),
}


def _stretch(schedule: PeriodicSchedule, **changes: Any) -> dict[str, Any]:
    return {"stretches": (schedule.stretches[0].model_copy(update=changes), *schedule.stretches[1:])}


def _shifted(schedule: PeriodicSchedule, trips: int = 0, runs: int = 0, left_out: int = 0) -> dict[str, Any]:
    """Return other numbers of iterations, with the makespan that the stretches then add up to."""
    first = schedule.stretches[0]
    changes = {
        "count": {task: n + trips for task, n in first.count.items()},
        "runs": first.runs + runs,
        "left_out": first.left_out + left_out,
    }
    makespan = schedule.makespan + left_out * first.period_ticks
    return {
        **_stretch(schedule, **changes),
        "trips": {task: n + trips for task, n in schedule.trips.items()},
        "makespan": makespan,
    }


def _raised(schedule: PeriodicSchedule) -> tuple[Any, ...]:
    best = schedule.bounds[0]
    return (best.model_copy(update={"ticks": best.ticks + 5}), *schedule.bounds[1:])


@pytest.mark.parametrize("what", CORRUPTIONS)
def test_a_corrupted_file_is_refused(million: PeriodicSchedule, what: str) -> None:
    kind, corrupt = CORRUPTIONS[what]
    changed = million.model_copy(update=corrupt(million))
    assert kind in {violation.kind for violation in check_periodic_schedule(changed)}


def test_another_plan_in_the_grown_schedule_is_refused(million: PeriodicSchedule) -> None:
    grown = million.grown[0]
    assert grown is not None
    swapped = grown.model_copy(update={"plan": million.written.plan})
    assert check_periodic_schedule(million.model_copy(update={"grown": (swapped,)})) != []


def test_what_is_no_loop_is_told() -> None:
    two = {"for": "i", "count": 40, "ops": [{"name": "a{i}", "engine": "hmx", "duration_us": 1}]}
    more = {"for": "j", "count": 40, "ops": [{"name": "b{j}", "engine": "hmx", "duration_us": 1}]}
    with pytest.raises(NotALoopError, match="task 't' is not one loop over equal tiles"):
        solve_periodic(workload({"name": "t", "ops": [two, more]}))


def test_a_deadline_is_for_plans_of_ops() -> None:
    ops = [{"name": "a{i}", "engine": "hmx", "duration_us": 1, "deadline_us": 900}]
    with pytest.raises(NotALoopError, match="has a deadline"):
        solve_periodic(workload({"name": "t", "ops": [{"for": "i", "count": 400, "ops": ops}]}))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"duration_us": 1, "buffers": ["b{i}"]}, "task 't': buffer 't/ring.0' takes 1073741824 B, the scratchpad has"),
        ({"duration_us": 1, "channels": {"ddr": "900GB/s"}}, "demands 900000 of channel 'ddr', whose capacity is"),
        ({"duration_us": 0}, "no op takes time of an engine"),
    ],
)
def test_an_iteration_that_cannot_run_or_takes_no_time_is_told(body: dict[str, Any], why: str) -> None:
    loop: dict[str, Any] = {"for": "i", "count": 400, "ops": [{"name": "a{i}", "engine": "hvx", **body}]}
    if "buffers" in body:
        loop["buffers"] = [{"name": "b{i}", "size_bytes": "1GiB"}]
    task = {"name": "t", "ops": [loop]}
    with pytest.raises(NotALoopError, match=why):
        solve_periodic(workload(task), contention="rigid")


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_iterations_are_told(count: int) -> None:
    ops = [{"name": "a{i}", "engine": "hmx", "duration_us": 1}]
    with pytest.raises(NotALoopError, match=f"task 't' has iterations: {count}; loops begin at 3"):
        solve_periodic(workload({"name": "t", "ops": [{"for": "i", "count": count, "ops": ops}]}))


@pytest.mark.parametrize(
    ("tiles", "formulation", "why"),
    [(10, "flat", "10 iterations, fewer than"), (100, "flat", "about 500 ops"), (MILLION, "periodic", "5,000,000 ops")],
)
def test_auto_says_why(tiles: int, formulation: str, why: str) -> None:
    chosen, words = formulation_for(pair(tiles), load_hw("hexagon-v81"), "none")
    assert chosen == formulation
    assert why in words


@pytest.mark.parametrize(("count", "formulation"), [(59, "flat"), (60, "periodic")])
def test_fewer_iterations_than_twice_the_stages_are_solved_op_by_op(count: int, formulation: str) -> None:
    """An iteration lasts 145 x 2 + 10 us, and one more can begin every 10 us, for one op that waits for itself."""
    ops: list[dict[str, Any]] = [
        {"name": f"s{s}_{{i}}", "engine": "many", "duration_us": 2, "after": [f"s{s - 1}_{{i}}"] if s else []}
        for s in range(146)
    ]
    ops[4]["after"].append("s4_{i-1}")
    ops[4]["duration_us"] = 10
    task = {"name": "t", "ops": [{"for": "i", "count": count, "ops": ops}]}
    data = {
        "schema": "hexloom.workload/1",
        "name": "deep",
        "hw": "hexagon-v81",
        "engines": [{"name": "many", "units": 4000, "kind": "resource"}],
        "tasks": [task],
    }
    chosen, words = formulation_for(Workload.from_data(data, "test"), load_hw("hexagon-v81"), "none")
    assert chosen == formulation, words
    assert formulation == "periodic" or words == f"task 't' has {count} iterations, under 2 x its 30 stages"


def _loads_beside(seconds: float) -> PeriodicSchedule:
    """Half of the time vector work leaves the memory to others; a load takes 8 of these 10 us, if it waits for them."""
    ops = [
        {"name": "l{i}", "engine": "dma", "duration_us": 8, "after": ["x{i-2}"], "channels": {"ddr": "40GB/s"}},
        {"name": "x{i}", "engine": "hvx", "units": "all", "duration_us": 10, "after": ["l{i}"]},
        {"name": "y{i}", "engine": "hvx", "units": "all", "duration_us": 10, "after": ["x{i}"]},
    ]
    ops[2]["channels"] = {"ddr": "50GB/s"}
    work = workload({"name": "t", "ops": [{"for": "i", "count": 5000, "ops": ops}]})
    return solve_periodic(work, "hexagon-v79", time_limit_s=seconds, contention="fluid", seed=1)


def test_a_load_waits_for_the_moment_at_which_it_slows_nobody() -> None:
    schedule = _loads_beside(1)
    assert schedule.us(schedule.makespan) == 8 + 5000 * 20
    assert schedule.gap == 0


@pytest.mark.slow
def test_a_million_tiles_that_slow_each_other_are_within_a_hundredth_of_the_bound() -> None:
    norm = {**NORM, "rows_per_block": 32, "rows": 32 * MILLION}
    schedule = solve_periodic(workload({**MATMUL, "n": 64 * MILLION}, norm), time_limit_s=2, seed=1)
    assert schedule.gap < 0.01


def test_the_flagship_is_solved_op_by_op() -> None:
    flagship = Workload.load(EXAMPLES / "llama_matmul_and_norm" / "workload.yaml")
    chosen, why = formulation_for(flagship, load_hw("hexagon-v81"), "fluid")
    assert chosen == "flat", why


def test_few_iterations_take_today_what_they_take() -> None:
    ops = [
        {"name": "l{i}", "engine": "dma", "duration_us": 9},
        {"name": "m{i}", "engine": "hmx", "duration_us": 4, "after": ["l{i}", "m{i-1}"]},
    ]
    work = workload({"name": "t", "ops": [{"for": "i", "count": 5, "ops": ops}]})
    schedule = solve_periodic(work, time_limit_s=1, contention="none", seed=1)
    lowered = lower(work, load_hw("hexagon-v81"), "none")
    today = baselines(lowered.problem, lowered.loops)
    assert lowered.problem.tick == schedule.written.problem.tick
    assert schedule.baselines == {"serial": today.serial, "existing": today.existing}


def test_a_long_way_to_the_repeat_is_followed() -> None:
    """Loads of 9 in a ring of 30, jobs of 10: loads run further and further ahead until the ring is full."""
    ops = [
        {"name": "l{i}", "engine": "dma", "duration_us": 9, "after": ["m{i-30}"]},
        {"name": "m{i}", "engine": "hmx", "duration_us": 10, "after": ["l{i}"]},
    ]
    work = workload({"name": "t", "ops": [{"for": "i", "count": 5000, "ops": ops}]})
    schedule = solve_periodic(work, time_limit_s=1, contention="none", seed=1)
    existing = schedule.baselines["existing"]
    assert existing is not None
    assert float(schedule.us(existing)) == pytest.approx(9 + 5000 * 10, abs=10)


def test_ends_of_few_iterations_are_as_good_as_single_ops() -> None:
    """Two engines in turn, two loops: 8 iterations of each, side by side; the first waits for nobody, the last ends."""
    a = [
        {"name": "x{i}", "engine": "hmx", "duration_us": 3},
        {"name": "y{i}", "engine": "hvx", "units": "all", "duration_us": 2, "after": ["x{i}"]},
    ]
    b = [
        {"name": "x{i}", "engine": "hvx", "units": "all", "duration_us": 4},
        {"name": "y{i}", "engine": "hmx", "duration_us": 1, "after": ["x{i}"]},
    ]
    work = workload(*({"name": n, "ops": [{"for": "i", "count": 8, "ops": ops}]} for n, ops in (("a", a), ("b", b))))
    schedule = solve_periodic(work, time_limit_s=1, contention="none", seed=1)
    assert check_periodic_schedule(schedule) == []
    assert all(stretch.left_out == 0 for stretch in schedule.stretches)
    assert schedule.lower_bound <= schedule.makespan
    # HVX: 8 x 6 us, and a job of 1 after the last of it.
    assert float(schedule.us(schedule.makespan)) <= 49 + 4.44 + 0.1
    if any(bound.name == "written" for bound in schedule.bounds):
        raised = schedule.model_copy(
            update={
                "bounds": tuple(
                    bound.model_copy(update={"ticks": schedule.makespan}) if bound.name == "written" else bound
                    for bound in schedule.bounds
                )
            }
        )
        assert schedule.gap == 0 or "bound" in {violation.kind for violation in check_periodic_schedule(raised)}


def _stage(name: str, engine: str, us: int, *after: str) -> dict[str, Any]:
    return {"name": f"{name}{{i}}", "engine": engine, "duration_us": us, "after": list(after)}


def test_loops_that_share_nothing_run_side_by_side() -> None:
    """Loads of 8, and jobs of 7 with work on two units around them: the loads ran ahead, so that no body repeated."""
    chain = [
        _stage("p", "own", 5),
        _stage("m", "hmx", 7, "p{i}"),
        _stage("q", "own", 4, "m{i}", "r{i-2}"),
        _stage("r", "own", 5, "q{i}"),
    ]
    tasks = (
        {"name": "a", "ops": [{"for": "i", "count": 833, "ops": chain}]},
        {"name": "b", "ops": [{"for": "i", "count": 625, "ops": [_stage("l", "dma", 8, "l{i-3}")]}]},
    )
    data = workload(*tasks).model_dump(mode="json") | {"engines": [{"name": "own", "units": 2, "kind": "resource"}]}
    schedule = solve_periodic(Workload.from_data(data, "test"), time_limit_s=1, contention="none", seed=1)
    assert schedule.gap < 0.01
    assert schedule.us(schedule.makespan) < 833 * 7 + 50


def test_all_units_of_a_counted_engine_are_used() -> None:
    ops = [_stage("x", "own", 6), _stage("y", "hmx", 3, "x{i}")]
    data = workload({"name": "t", "ops": [{"for": "i", "count": 900, "ops": ops}]}).model_dump(mode="json")
    data["engines"] = [{"name": "own", "units": 2, "kind": "resource"}]
    schedule = solve_periodic(Workload.from_data(data, "test"), time_limit_s=1, contention="none", seed=1)
    assert schedule.us(schedule.makespan) < 900 * 3 + 20
    assert schedule.gap < 0.01
