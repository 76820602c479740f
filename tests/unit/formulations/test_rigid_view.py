"""The view of a problem in which channels are shares."""

from __future__ import annotations

import pytest

from hexloom.formulations.problem import Channel, Dma, Engine, Mode, Op, Problem, Pull, Use

HVX = Engine(name="hvx", units=2)
DDR = Engine(name="ddr", kind="pipe")


def mode(*pulls: tuple[str, int], **keys: object) -> Mode:
    fields = {"uses": (Use(engine="hvx", ticks=3),), "latency_ticks": 5, **keys}
    return Mode.model_validate({**fields, "pulls": tuple(Pull(channel=c, rate=r) for c, r in pulls)})


def of(*modes: Mode, channels: tuple[Channel, ...], engines: tuple[Engine, ...] = (HVX, DDR)) -> Problem:
    return Problem(
        engines=engines, channels=channels, ops=tuple(Op(name=f"o{k}", modes=(m,)) for k, m in enumerate(modes))
    )


def test_a_channel_becomes_a_share_in_lowest_terms() -> None:
    p = of(mode(("bus", 60)), mode(("bus", 45)), channels=(Channel(name="bus", capacity=105),))
    view = p.with_rigid_channels()
    assert view.engines == (HVX, DDR, Engine(name="bus", units=7, kind="share"))
    assert [op.modes[0].uses[-1] for op in view.ops] == [
        Use(engine="bus", ticks=5, units=4),
        Use(engine="bus", ticks=5, units=3),
    ]
    assert all(op.modes[0].pulls == () for op in view.ops)
    assert view.shares == {"bus": 7}


def test_a_transfer_holds_it_too() -> None:
    dma = Dma(owner_engine="hvx", owner_unit=0, issue_ticks=1, poll_ticks=1)
    move = mode(("bus", 1), uses=(Use(engine="ddr", ticks=4),), dma=dma)
    view = of(move, channels=(Channel(name="bus", capacity=2),)).with_rigid_channels()
    assert view.share_uses(view.ops[0].modes[0]) == (Use(engine="bus", ticks=5, units=1),)


def test_what_nobody_pulls_is_no_share() -> None:
    quiet = of(mode(("bus", 0)), channels=(Channel(name="bus", capacity=5),))
    assert quiet.with_rigid_channels() is quiet
    one = of(mode(("bus", 2), ("l2", 0)), channels=(Channel(name="bus", capacity=5), Channel(name="l2", capacity=7)))
    assert one.with_rigid_channels().shares == {"bus": 5}


def test_the_view_of_a_view_is_itself() -> None:
    view = of(mode(("bus", 2)), channels=(Channel(name="bus", capacity=5),)).with_rigid_channels()
    assert view.with_rigid_channels() is view


def test_a_channel_may_be_called_like_an_engine() -> None:
    view = of(mode(("ddr", 2)), channels=(Channel(name="ddr", capacity=5),)).with_rigid_channels()
    assert view.shares == {"ddr channel": 5}


def test_modes_that_ops_share_stay_shared() -> None:
    both = mode(("bus", 2))
    view = of(both, both, channels=(Channel(name="bus", capacity=5),)).with_rigid_channels()
    assert view.ops[0].modes[0] is view.ops[1].modes[0]


def test_what_takes_no_time_holds_nothing() -> None:
    view = of(
        mode(("bus", 2), uses=(), latency_ticks=0), channels=(Channel(name="bus", capacity=5),)
    ).with_rigid_channels()
    assert view.share_uses(view.ops[0].modes[0]) == ()


def test_the_units_of_a_share_have_no_names() -> None:
    share = Engine(name="bus", units=5, kind="share")
    named = Mode(uses=(Use(engine="bus", ticks=2, units=1, unit_ids=(0,)),), latency_ticks=2)
    with pytest.raises(ValueError, match="units of share 'bus' are all one"):
        of(named, channels=(), engines=(HVX, share))
