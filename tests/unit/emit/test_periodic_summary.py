"""What a person reads of a plan of loops that is no shorter than today's loops."""

from __future__ import annotations

from hexloom import Workload
from hexloom.emit.periodic_summary import periodic_summary
from hexloom.optimizer.periodic.solve import solve_periodic


def test_a_plan_no_shorter_than_today_does_not_say_that_it_is_faster() -> None:
    task = {"name": "rows", "kernel": "rmsnorm", "rows": 8 * 1000, "cols": 512, "mode": "direct", "rows_per_block": 8}
    work = Workload.from_data({"schema": "hexloom.workload/1", "name": "loop", "hw": "hexagon-v81", "tasks": [task]})
    found = solve_periodic(work, time_limit_s=0, seed=1)
    for existing, said in (
        (found.makespan + 1, "faster than existing"),
        (found.makespan, "no faster than existing (0.00% longer)"),
        (found.makespan * 4 / 5, "no faster than existing (25.00% longer)"),
    ):
        line = periodic_summary(found.model_copy(update={"baselines": {"serial": 0, "existing": existing}}), {}, "")
        assert said in line.splitlines()[2]
