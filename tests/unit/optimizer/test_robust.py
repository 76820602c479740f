"""Robust plans: a better order is found where there is one, chance is not taken for one, and input is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from unit.small import on, problem

from hexloom import Durations, InvalidInputError, Scatter, Workload, check_schedule, monte_carlo, solve
from hexloom.cli import main
from hexloom.formulations.decision import Decision
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.robust.choose import _wanted, choose
from hexloom.optimizer.robust.durations import p95

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.formulations.problem import Problem

LONG_TAIL = {"rows": [{"ops": "p", "samples": [1.0, 1.0, 1.0, 2.0]}]}
"""A quarter of the runs has p twice as long."""


def two_chains() -> Problem:
    """p and q come one after the other, and each has work after it: 14 ticks either way, unless p takes longer."""
    ops = (on("hmx", "p", 4), on("hmx", "q", 4), on("lut", "p2", 5), on("lut", "q2", 5))
    return problem(*ops, after="p>p2 q>q2")


def in_order(*names: str) -> tuple[Problem, Decision]:
    of = two_chains()
    place = of.op_index
    units: tuple[tuple[tuple[int, ...], ...], ...] = tuple(((0,),) for _ in of.ops)
    return of, Decision((0,) * 4, units, tuple(place[name] for name in names), ())


def test_the_order_that_bears_a_long_tail_is_found() -> None:
    """With p first all waits for p: 18 ticks instead of 14 in a quarter of the runs; with q first 17."""
    of, decision = in_order("p", "p2", "q", "q2")
    nominal = evaluate(of, decision)
    assert nominal.makespan == 14
    found, (chosen, simulated) = choose(
        of, "none", (decision, nominal), Scatter(Durations.from_data(LONG_TAIL), orders=6, samples=400)
    )
    assert simulated.makespan == 14
    assert found.nominal.p95 == 18 and found.chosen.p95 == 17
    assert not found.kept and found.p95_gain == found.p95_gain_low == found.p95_gain_high == 1
    assert chosen.actions.index(of.op_index["q"]) < chosen.actions.index(of.op_index["p"])
    assert found.critical[0].op in {"p", "q", "p2", "q2"}
    parts = {op.op: op.part for op in found.critical}
    assert parts["p"] == pytest.approx(0.25, abs=0.05), "the makespan hangs on p where it is long"


def test_what_is_no_better_is_not_taken() -> None:
    of, decision = in_order("q", "q2", "p", "p2")
    best = decision, evaluate(of, decision)
    found, chosen = choose(of, "none", best, Scatter(Durations.from_data(LONG_TAIL), orders=6, samples=400))
    assert found.kept and chosen is best and found.chosen == found.nominal
    assert found.orders >= 2
    exact = Durations.from_data({"rows": [{"range": [1, 1]}]})
    still, chosen = choose(of, "none", best, Scatter(exact, orders=3, samples=100))
    assert still.kept and chosen is best
    assert still.nominal.median == still.nominal.p95 == still.nominal.p95_high == 14


def test_fresh_runs_are_not_those_of_the_choice_and_seeds_hold() -> None:
    of, decision = in_order("p", "p2", "q", "q2")
    best = decision, evaluate(of, decision)
    scatter = Scatter(Durations.of("20%"), orders=4, samples=60, seed=3)
    first, again = (choose(of, "none", best, scatter)[0] for _ in range(2))
    assert first.to_json() == again.to_json()
    rows = Durations.of("20%")
    assert np.array_equal(rows.factors(of, 50, 6), rows.factors(of, 50, 6))
    assert not np.array_equal(rows.factors(of, 50, 6), rows.factors(of, 50, 7))


def test_large_plans_are_chosen_among_fewer_orders() -> None:
    scatter = Scatter(Durations.of("20%"))
    assert [_wanted(scatter, ops) for ops in (10, 600, 2500, 100_000)] == [60, 51, 5, 2]


def test_a_row_may_be_drawn_for_the_run_and_rows_add_up() -> None:
    of = two_chains()
    rows = {"rows": [{"ops": "p*", "range": [0.5, 2], "per": "run"}, {"ops": "p2", "samples": [2.0, 2.0]}]}
    found = Durations.from_data(rows).factors(of, 100, 1)
    p, q, p2 = (found[:, of.op_index[name]] for name in ("p", "q", "p2"))
    assert np.allclose(p2, 2 * p) and np.all(q == 1)
    assert len(set(p.tolist())) == 100
    assert p95(np.arange(1, 101)) == 95


def test_wrong_durations_are_told() -> None:
    of = two_chains()
    for text in ("0%", "99%", "200%", "x%", "10%%", ""):
        with pytest.raises(InvalidInputError, match="durations"):
            Durations.of(text)
    with pytest.raises(InvalidInputError, match="no op fits 'nobody'"):
        Durations.from_data({"rows": [{"ops": "nobody", "range": [1, 2]}]}).factors(of, 20, 0)
    for row in ({"ops": "p"}, {"range": [2, 1]}, {"range": [0, 1]}, {"range": [1, 2], "sample": [1, 2]}):
        with pytest.raises(InvalidInputError) as told:
            Durations.from_data({"rows": [row]}, "d.json")
        assert str(told.value).startswith("d.json: ") and "\n" not in str(told.value)
    with pytest.raises(InvalidInputError, match="no part"):
        Scatter(Durations.of("10%"), within=2)
    with pytest.raises(InvalidInputError, match="no such file; write 10% for a percentage"):
        Durations.of("10")


def pair() -> dict[str, Any]:
    """Two tasks of tiles that take turns on HVX and HMX."""
    tile = [
        {"name": "cook{i}", "engine": "hvx", "duration_us": 3},
        {"name": "mm{i}", "engine": "hmx", "duration_us": 5, "after": ["cook{i}"]},
    ]
    other = {"name": "n{i}", "engine": "hvx", "units": 7, "duration_us": 2, "bytes": {"ddr": "64KiB"}}
    tasks = [
        {"name": "a", "ops": [{"for": "i", "count": 4, "ops": tile}]},
        {"name": "b", "ops": [{"for": "i", "count": 4, "ops": [other]}]},
    ]
    return {"schema": "hexloom.workload/1", "name": "pair", "hw": "hexagon-v81", "tasks": tasks}


def test_solve_gives_a_checked_plan_from_fifty_orders() -> None:
    work = Workload.from_data(pair())
    result = solve(work, seed=1, time_limit_s=0.2, robust=Scatter(Durations.of("15%"), within=0.1, samples=100))
    plain = solve(work, seed=1, time_limit_s=0.2)
    assert result.schedule is not None and plain.schedule is not None and result.robustness is not None
    assert result.robustness.orders >= 50
    assert check_schedule(result.schedule) == []
    assert result.schedule.makespan <= plain.schedule.makespan * 1.1
    assert result.schedule.notes[-1].startswith("durations that scatter (each op within 15 %): ")
    assert plain.robustness is None
    found = monte_carlo(plain.schedule, Durations.of("15%"), samples=100)
    assert found.nominal.predicted == float(plain.schedule.us(plain.schedule.makespan))
    assert found.nominal.predicted * 0.85 < found.nominal.median < found.nominal.p95 < found.nominal.predicted * 1.15


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = pair()
    for task in data["tasks"]:
        task["ops"][0]["count"] = 2
    data["tasks"][1]["ops"][0]["ops"][0]["units"] = 1
    work = tmp_path / "w.json"
    work.write_text(json.dumps(data))
    rows = tmp_path / "d.json"
    rows.write_text(json.dumps({"schema": "hexloom.durations/1", "rows": [{"ops": "a/mm", "range": [0.9, 1.3]}]}))
    common = ["solve", str(work), "--seed", "1", "--time-limit", "200ms", "-q"]
    assert main([*common, "--robust", str(rows), "-o", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "durations scatter" in out and "p95" in out and "critical" in out
    written = json.loads((tmp_path / "out" / "robustness.json").read_text())
    assert written["schema"] == "hexloom.robustness/1" and written["samples"] == 1000
    assert main([*common, "--robust", "150%"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([*common, "--robust", "10%", "--formulation", "periodic"]) == 2
    rows.write_text(json.dumps({"rows": [{"ops": "c/mm", "range": [0.9, 1.3]}]}))
    assert main([*common, "--robust", str(rows)]) == 2
    assert "no op fits 'c/mm'; stages here are a/cook, a/mm, b/n" in capsys.readouterr().err
