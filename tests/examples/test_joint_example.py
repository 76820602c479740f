"""The example of parameters chosen jointly: what its README says, by arithmetic and one simulation each."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from hexloom import Workload, load_hw
from hexloom.formulations.bounds import lower_bounds
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.lower import lower
from hexloom.optimizer.tune.search import with_overhead

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "joint_choice"


def bound_and_loop_us(name: str) -> tuple[float, float]:
    """Return what no plan is below, and what today's loop takes with the same parameters."""
    lowered = lower(Workload.load(FOLDER / name), load_hw("hexagon-v79"), "fluid")
    problem = lowered.problem
    assert problem.tick is not None
    bound = lower_bounds(problem, "fluid").best.ticks
    existing = baselines(problem, lowered.loops, "fluid", serial=False, exact=False).existing
    assert existing is not None
    return float(bound * problem.tick), float(existing * problem.tick)


def test_no_plan_with_parameters_chosen_one_by_one_is_as_short_as_the_loop_with_joint_ones() -> None:
    one_by_one, joint = bound_and_loop_us("one_by_one.yaml"), bound_and_loop_us("joint.yaml")
    assert one_by_one == pytest.approx((259.1, 319.1), abs=0.1)
    assert joint == pytest.approx((229.8, 252.4), abs=0.1)
    assert joint[1] < one_by_one[0]


def test_neither_lever_alone_helps_but_both_together_do() -> None:
    """Today's loop of 64 x 224 at 1 us a fork/join and hand-over, by parts of loads and slices."""
    work = Workload.load(FOLDER / "one_by_one.yaml")
    hw = with_overhead(load_hw("hexagon-v79"), Fraction(1))
    times = {}
    for parts, slices in product((1, 2), (False, True)):
        task = work.tasks[0].model_copy(update={"load_parts": parts, "slices": slices})
        lowered = lower(work.model_copy(update={"tasks": (task,)}), hw, "fluid")
        existing = baselines(lowered.problem, lowered.loops, "fluid", serial=False, exact=False).existing
        assert existing is not None and lowered.problem.tick is not None
        times[parts, slices] = float(existing * lowered.problem.tick)
    assert times == pytest.approx({(1, False): 324.5, (2, False): 329.0, (1, True): 320.7, (2, True): 256.9}, abs=0.1)
