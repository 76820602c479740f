"""Cases about finished plans: the waits they hold, how long buffers live, and a last look at the budget."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import peak_bytes, problem_file, refusal_of, run_cli, schedule_of

from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexloom.formulations.problem import Problem

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared


def with_times(problem: Problem, chance: random.Random) -> Problem:
    """Return ``problem`` with other durations."""
    ops = []
    for op in problem.ops:
        ticks = chance.randint(1, 100)
        (mode,) = op.modes
        uses = tuple(use.model_copy(update={"ticks": ticks}) for use in mode.uses)
        mode = mode.model_copy(update={"uses": uses, "latency_ticks": ticks})
        ops.append(op.model_copy(update={"modes": (mode,)}))
    return problem.changed(ops=tuple(ops))


def test_ord_13_only_waits_that_nothing_implies(case: Case) -> None:
    schedule = schedule_of(case("ORD-13"))
    assert [(w.before, w.after) for w in schedule.plan.waits] == [("A", "B"), ("B", "C")]
    chance = random.Random(13)
    for _ in range(1000):
        problem = with_times(schedule.problem, chance)
        times = simulate(problem, schedule.plan, "none").times
        for edge in problem.precedences:
            assert times[edge.before].observed <= times[edge.after].start


def test_ord_13_an_engine_in_order_needs_no_waits(case: Case) -> None:
    data = case("ORD-13")
    tasks = [{**task, "eng": "hvx"} for task in data["tasks"]]
    assert schedule_of(data, tasks=tasks).plan.waits == ()


def test_vtcm_13_a_tile_lives_for_its_iteration(case: Case) -> None:
    data = case("VTCM-13")
    for vtcm, makespan in ((65536, 80), (32768, 152)):
        schedule = schedule_of(data, machine={**data["machine"], "vtcm": vtcm}, limit_s=3)
        assert (schedule.status, schedule.makespan, peak_bytes(schedule)) == ("OPTIMAL", makespan, vtcm)
    refused = refusal_of(data, machine={**data["machine"], "vtcm": 32767})
    assert (refused.need, refused.have, refused.short) == (32768, 32767, 1)


def test_vtcm_15_an_accumulator_is_one_buffer(case: Case) -> None:
    schedule = schedule_of(case("VTCM-15"))
    assert (schedule.status, schedule.makespan, peak_bytes(schedule)) == ("OPTIMAL", 30, 131072)


def test_vtcm_21_nothing_is_written_above_the_budget(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = case("VTCM-21")
    refused = refusal_of(data)
    assert (refused.need, refused.have, refused.short) == (2_700_000, 2_097_152, 602_848)
    out = tmp_path / "out"
    code, printed, said = run_cli(capsys, "solve", problem_file(tmp_path, data), "-o", out)
    assert (code, printed, out.exists()) == (1, "", False)
    assert "2,700,000 B" in said and "602,848 B" in said


def test_vtcm_21_the_finished_plan_is_held_against_the_budget(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan made for a larger scratchpad: whoever planned it, no table of it is written for the smaller one."""
    data = case("VTCM-21")
    schedule = schedule_of(data, machine={"vtcm": 4_194_304})
    smaller = schedule.problem.scratchpad.model_copy(update={"total_bytes": data["machine"]["vtcm"]})
    wrong = schedule.model_copy(update={"problem": schedule.problem.model_copy(update={"scratchpad": smaller})})
    path, out = tmp_path / "schedule.json", tmp_path / "out"
    path.write_text(wrong.to_json(), encoding="utf-8")
    code, _, said = run_cli(capsys, "emit", path, "-o", out)
    assert (code, out.exists()) == (4, False)
    assert "nothing written: buffer 's' [0, 2700000) is not inside [0, 2097152) B" in said
