"""Classes of ops and what they leave each other: the two-phase law, and machine files that learn it from runs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.optimizer.test_traces_calibrate import runs_of, solved

from hexloom import InvalidInputError, Workload, load_hw, solve
from hexloom.hwmodels import Machine, MachineFileError, cost
from hexloom.optimizer.lower import lower
from hexloom.optimizer.robust.choose import Scatter
from hexloom.optimizer.traces.calibrate import calibrate, durations_of, machine_yaml
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.pairs import Shared, Totals, by_totals, pair_row, together_us
from hexloom.optimizer.traces.predict import predicted_on

if TYPE_CHECKING:
    from pathlib import Path

RATIOS = (0.1, 0.2, 1.8, 1.9)
"""Tacker's load ratios: the second op is so many times as long as the first."""


def both(first: float, second: float, speeds: tuple[float, float]) -> tuple[float, float]:
    """Return when two ops that start together end: co-run until one is done, then the other one alone."""
    ends = min(first / speeds[0], second / speeds[1])
    left = first - speeds[0] * ends, second - speeds[1] * ends
    return ends + max(0.0, left[0]), ends + max(0.0, left[1])


def seen(speeds: tuple[float, float], noise: float, runs: int) -> tuple[list[Shared], list[Shared]]:
    """Return what runs at all ratios say of the first beside the second, and the other way round."""
    source = random.Random(4)
    found: tuple[list[Shared], list[Shared]] = [], []
    for ratio in RATIOS:
        for _ in range(runs):
            alone = 1000.0, 1000.0 * ratio
            done = [x * max(0.7, source.gauss(1, noise)) for x in alone]
            ends = both(*done, speeds)
            for k in (0, 1):
                found[k].append(Shared(alone[k], ends[k], min(ends), alone[1 - k]))
    return found


@settings(max_examples=15)
@given(st.floats(0.3, 1.0), st.floats(0.3, 1.0))
def test_the_law_leads_back_to_its_speeds(first: float, second: float) -> None:
    for of, speed in zip(seen((first, second), 0.0, 2), (first, second), strict=True):
        row = pair_row("a", "b", of)
        assert row.speed == pytest.approx(speed, rel=1e-6)
        assert row.refused == "" and row.ratios == 3, "1.8 and 1.9 are one kind"
        assert row.residual < 1e-6 and row.unseen < 1e-6


@settings(max_examples=15)
@given(st.floats(0.4, 1.0), st.floats(0.4, 1.0))
def test_totals_tell_both_speeds_unless_nothing_is_gained(first: float, second: float) -> None:
    """Each op ends first at two of the ratios, as 1 / 0.4 of one is less than 1.8 / 1 of the other or not."""
    ratios = (0.1, 0.2, 4.0, 5.0)
    points = [Totals(1000, 1000 * r, max(both(1000, 1000 * r, (first, second)))) for r in ratios]
    if abs((1 - first) * (1 - second) / (first * second) - 1) < 0.1:
        return
    a, b, error = by_totals(points)
    assert error < 1e-9
    assert (a, b) == (pytest.approx(first), pytest.approx(second))


def test_noise_of_five_percent_leaves_three() -> None:
    for of, speed in zip(seen((0.75, 0.6), 0.05, 25), (0.75, 0.6), strict=True):
        row = pair_row("a", "b", of)
        assert row.speed == pytest.approx(speed, rel=0.03)
        assert row.low <= row.speed <= row.high
        assert row.residual < 0.05 and row.unseen < 0.06 < row.without


def test_what_runs_do_not_tell_is_refused() -> None:
    whole = seen((0.75, 0.6), 0.0, 3)[0]
    one_ratio = [one for one in whole if one.other_us == 100.0] * 4
    assert pair_row("a", "b", one_ratio).refused == "12 runs at 1 load ratios are too few"
    assert pair_row("a", "b", whole[:2]).refused.startswith("2 runs")
    assert pair_row("a", "b", []).refused.startswith("0 runs")
    apart = [one._replace(together_us=0.0) for one in whole]
    assert pair_row("a", "b", apart).runs == 0
    wild = seen((0.75, 0.6), 0.6, 25)[1]
    assert pair_row("a", "b", wild).refused == "the speed differs from run to run"
    with pytest.raises(ValueError, match="either op is the longer one"):
        by_totals([Totals(10, 1, 10), Totals(10, 2, 11)])
    with pytest.raises(ValueError, match="nothing is gained"):
        by_totals([Totals(10, 1, 11), Totals(1, 10, 11)])


def test_who_was_beside_whom() -> None:
    times = {"a": (0.0, 10.0), "b": (4.0, 6.0), "c": (8.0, 12.0), "d": (11.0, 20.0), "e": (11.5, 13.0)}
    classes = {"a": "x", "b": "y", "c": "y", "d": "x", "e": "z"}
    found = together_us(times, classes)
    assert found["a", "y"] == (4.0, 6.0)
    assert found["b", "x"] == (2.0, 10.0)
    assert not [key for key in found if key[0] == "c"], "two of different classes were beside it"
    assert ("a", "y") in found and ("d", "z") not in found


# --- machine files


def with_classes(each: dict[str, float], between: dict[str, float]) -> Machine:
    data = load_hw("hexagon-v79").model_dump(mode="json", by_alias=True)
    told = {"confidence": "guess", "source": "test"}
    classes = {f"{name}.per_unit": {"value": ns, "unit": "ns/unit", "clock": "ns", **told} for name, ns in each.items()}
    classes |= {f"{name}.fixed": {"value": 0.5, "unit": "us", "clock": "ns", **told} for name in each}
    factors = {name: {"value": value, "unit": "ratio", **told} for name, value in between.items()}
    return Machine.model_validate({**data, "classes": classes, "interference": factors})


def points() -> Workload:
    """Both classes alone at three sizes, and side by side at the four ratios, one after the other."""
    ops: list[dict[str, Any]] = []
    before: list[str] = []

    def add(*group: tuple[str, str, str, int]) -> None:
        nonlocal before
        ops.extend(
            {"name": name, "engine": engine, "class": of, "work": work, "after": before}
            for name, engine, of, work in group
        )
        before = [name for name, *_ in group]

    for k, size in enumerate((100, 330, 1000)):
        add((f"m{k}", "hmx", "mm", size))
        add((f"s{k}", "hvx", "scan", size))
    for k, ratio in enumerate(RATIOS):
        add((f"x{k}", "hmx", "mm", 1000), (f"y{k}", "hvx", "scan", round(1000 * ratio)))
    return Workload.from_data({"name": "points", "tick_us": "1/100", "tasks": [{"name": "t", "ops": ops}]})


def test_a_machine_file_learns_classes_and_what_they_leave_each_other(tmp_path: Path) -> None:
    """20 % off and 5 % noise: every number that is fitted is within 3 %; the file knew of no interference."""
    base = with_classes({"mm": 1000.0, "scan": 900.0}, {})
    truth = with_classes({"mm": 1200.0, "scan": 720.0}, {"mm beside scan": 0.8, "scan beside mm": 0.65})
    work = points()
    plan = solved(work, base)
    path = tmp_path / "run.json"
    path.write_text(runs_of(work, plan, truth, 12, 0.05))
    found, fitted = calibrate(base, [(work, plan, [read_trace(path)])])
    want = {name: float(quantity.exact) for name, quantity in truth.quantities()}
    rows = {row.name: row for row in found.fitted}
    assert {"classes.mm.per_unit", "classes.scan.per_unit"} <= set(rows)
    assert {"interference.mm beside scan", "interference.scan beside mm"} <= set(rows)
    for name, row in rows.items():
        assert row.value == pytest.approx(want[name], rel=0.03), name
    assert rows["interference.mm beside scan"].before == 1.0
    refused = {row.name: row for row in found.open if row.matters}
    assert "of two sizes at least" in refused["classes.mm.fixed"].run
    assert fitted.classes["mm.fixed"] == base.classes["mm.fixed"], "what is not told stays as it was"
    assert {(row.victim, row.cause) for row in found.pairs} == {("mm", "scan"), ("scan", "mm")}
    path = tmp_path / "m.yaml"
    path.write_text(machine_yaml(fitted))
    again = load_hw(path)
    assert again == fitted and again.interference["scan beside mm"].source.startswith("fitted to")
    # What was learnt is what the next prediction rests on.
    problem, timeline = predicted_on(work, plan, fitted)
    real, there = predicted_on(work, plan, truth)
    assert float(timeline.makespan * problem.tick) == pytest.approx(float(there.makespan * real.tick), rel=0.02)
    # How far phases lie from the fit is what a robust plan is chosen with.
    durations = durations_of(found)
    assert {row.ops for row in durations.rows} == {f"t/{of}" for of in ("m", "s", "x", "y")} or len(durations.rows) > 4
    result = solve(work, fitted, seed=1, time_limit_s=0.1, robust=Scatter(durations, orders=3, samples=50))
    assert result.robustness is not None and result.robustness.nominal.p95 > result.robustness.nominal.median


def test_machine_files_say_what_is_wrong_with_classes() -> None:
    base = with_classes({"mm": 1000.0}, {})
    assert cost.class_us(base, "mm", 3) == pytest.approx(3.5)
    with pytest.raises(MachineFileError, match=r"classes.nn.per_unit \(did you mean 'mm'\?\)|known classes: mm"):
        cost.class_us(base, "nn", 3)
    for section, name, value in (
        ("classes", "mm.fix", {"value": 1, "unit": "us", "clock": "ns"}),
        ("classes", "mm.per_unit", {"value": 1, "unit": "GB/s"}),
        ("interference", "mm+scan", {"value": 0.5, "unit": "ratio"}),
        ("interference", "mm beside scan", {"value": 1.5, "unit": "ratio"}),
    ):
        data = base.model_dump(mode="json", by_alias=True)
        data.setdefault(section, {})[name] = {"confidence": "guess", "source": "s", **value}
        with pytest.raises(ValueError, match=section):
            Machine.model_validate(data)
    assert hash(base) == hash(with_classes({"mm": 1000.0}, {})) != hash(with_classes({"mm": 1001.0}, {}))
    plain = load_hw("hexagon-v79")
    assert "classes" not in plain.model_dump(mode="json", by_alias=True)


def test_work_of_a_class_and_interference_of_the_machine_are_lowered() -> None:
    machine = with_classes({"mm": 1000.0, "scan": 500.0}, {"scan beside mm": 0.5, "mm beside other": 0.5})
    ops = [
        {"name": "a", "engine": "hmx", "class": "mm", "work": 10},
        {"name": "b", "engine": "hvx", "class": "scan", "work": 4},
    ]
    data = {"name": "w", "tick_us": "1/10", "tasks": [{"name": "t", "ops": ops}]}
    problem = lower(Workload.from_data(data), machine, "fluid").problem
    assert [op.modes[0].latency_ticks for op in problem.ops] == [105, 25]
    assert [(i.victim, i.cause, i.factor) for i in problem.interference] == [("scan", "mm", "1/2")]
    own = {**data, "interference": [{"victim": "scan", "cause": "mm", "factor": 0.9}]}
    found = lower(Workload.from_data(own), machine, "fluid").problem.interference
    assert [(i.victim, i.factor) for i in found] == [("scan", "9/10")], "the workload's word comes first"
    for wrong in ({"class": ""}, {"duration_us": 3}, {"macs": 5}, {"engine": None}):
        changed = {**data, "tasks": [{"name": "t", "ops": [{**ops[0], **wrong}]}]}
        with pytest.raises(InvalidInputError):
            lower(Workload.from_data(changed), machine, "fluid")
