"""The two places that say how channels are shared agree: the simulator's, and the one of the formulations."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexloom.formulations.problem import Channel, Interference, Mode, Op, Problem, Pull
from hexloom.formulations.speeds import Speeds
from hexloom.optimizer.sharing import Sharing

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from hexloom.formulations.problem import Rule

CLASSES = ("", "u", "v", "w")
SHARED_RULES = st.sampled_from(("fluid", "proportional", "priority"))


@st.composite
def side_by_side(draw: DrawFn) -> Problem:
    """Ops that all run at once: any demands on up to three channels, any factors among three classes."""
    channels = tuple(Channel(name=f"c{k}", capacity=draw(st.integers(1, 120))) for k in range(draw(st.integers(0, 3))))
    ops = []
    for i in range(draw(st.integers(1, 6))):
        used = draw(st.lists(st.sampled_from(channels), unique=True)) if channels else []
        pulls = tuple(Pull(channel=c.name, rate=draw(st.integers(0, 150))) for c in used)
        mode = Mode(latency_ticks=1, pulls=pulls, op_class=draw(st.sampled_from(CLASSES)))
        ops.append(Op(name=f"o{i}", modes=(mode,)))
    names = st.sampled_from(CLASSES[1:])
    factors = draw(st.lists(st.tuples(names, names, st.integers(1, 10)), max_size=4))
    return Problem(
        channels=channels,
        ops=tuple(ops),
        interference=tuple(Interference(victim=v, cause=c, factor=f"{part}/10") for v, c, part in factors),
    )


@given(side_by_side(), SHARED_RULES)
def test_the_twins_agree(of: Problem, rule: Rule) -> None:
    ours, theirs = Speeds(of, rule, exact=True), Sharing(of, rule)
    loads = [ours.load_of(op.modes[0]) for op in of.ops]
    others = [theirs.load_of(op.modes[0]) for op in of.ops]
    assert [load < 0 for load in loads] == [load < 0 for load in others]
    working = tuple(load for load in loads if load >= 0)
    exact = ours.speeds(working)
    assert exact == theirs.speeds(tuple(load for load in others if load >= 0))
    assert all(isinstance(speed, Fraction) and 0 <= speed <= 1 for speed in exact)
    fast = Speeds(of, rule)
    assert [fast.load_of(op.modes[0]) for op in of.ops] == loads
    assert fast.speeds(working) == pytest.approx([float(speed) for speed in exact], rel=1e-9, abs=1e-12)


def test_nobody_shares_where_channels_are_ignored() -> None:
    of = Problem(
        channels=(Channel(name="ddr", capacity=1),),
        ops=(Op(name="o", modes=(Mode(latency_ticks=1, pulls=(Pull(channel="ddr", rate=5),)),)),),
    )
    assert [Speeds(of, rule).load_of(of.ops[0].modes[0]) for rule in ("none", "rigid", "fluid")] == [-1, -1, 0]
