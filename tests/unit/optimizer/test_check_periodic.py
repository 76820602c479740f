"""The checker of modulo schedules: one case per rule, with the names and numbers it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from loops import buf, counted, dep, engines, loop, op

from hexloom.formulations.mode import Channel, Pull
from hexloom.formulations.periodic.schedule import ModuloSchedule
from hexloom.optimizer.check_periodic import check_modulo

if TYPE_CHECKING:
    from hexloom.formulations.periodic.loop import Loop

BODY = loop(
    op("load", "dma", 4, 6),
    op("work", "hvx", 3),
    op("fixed", "hvx", 2, ids=(1,)),
    op("wide", "gather", 2, units=2),
    deps=(dep("load", "work"), dep("work", "fixed", 1), dep("work", "wide")),
    on=(*engines(dma=1, hvx=2), *counted(gather=3)),
    buffers=(buf("raw", 6, "load", "work", depth=3), buf("out", 4, "work", "wide", align=4)),
    capacity=32,
)
GOOD: dict[str, Any] = {
    "ii_ticks": 4,
    "starts": {"load": 0, "work": 6, "fixed": 5, "wide": 9},
    "units": {"work": {"hvx": ((0,),)}, "fixed": {"hvx": ((1,),)}},
    "addresses": {"raw": (0, 6, 12), "out": (20, 24)},
}


def said(of: Loop, schedule: dict[str, Any]) -> list[tuple[str, tuple[str, ...], str]]:
    return [(v.kind, v.parties, v.message) for v in check_modulo(of, ModuloSchedule(**schedule))]


def test_a_schedule_that_holds() -> None:
    assert said(BODY, GOOD) == []


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"starts": {**GOOD["starts"], "work": 5}}, "dependency",
         "op 'work' of iteration 0 starts at 5, before 6: 6 ticks after 'load' of iteration 0 at 0"),
        ({"starts": {**GOOD["starts"], "fixed": 4}}, "dependency",
         "op 'fixed' of iteration 1 starts at 8, before 9: 3 ticks after 'work' of iteration 0 at 6"),
        ({"starts": {**GOOD["starts"], "wide": -1}}, "start_negative", "op 'wide' starts at -1, before tick 0"),
        ({"starts": {"load": 0}}, "start_missing", "op 'work' has no start"),
        ({"starts": {**GOOD["starts"], "x": 0}}, "start_unknown", "start is given for 'x', which is not in the loop"),
        ({"ii_ticks": 3, "starts": {**GOOD["starts"], "fixed": 6}}, "engine_load",
         "engine 'dma' has 1, but 2 are held at 3: 'load' of iteration 0 [0, 4), 'load' of iteration 1 [3, 7)"),
        ({"units": {"work": {"hvx": ((1,),)}, "fixed": {"hvx": ((1,),)}}}, "unit_overlap",
         "unit 1 of engine 'hvx' is held by 'fixed' of iteration 0 [5, 7) and 'work' of iteration 0 [6, 9)"),
        ({"units": {"fixed": {"hvx": ((1,),)}}}, "units_missing", "op 'work' has no units of 'hvx'"),
        ({"units": {**GOOD["units"], "load": {"dma": ((0,),)}}}, "units_unknown",
         "op 'load' is given units of 'dma', which it needs not"),
        ({"units": {**GOOD["units"], "work": {"hvx": ((0, 1),)}}}, "units_number",
         "op 'work' has units (0, 1) of 'hvx', but needs 1 different ones"),
        ({"units": {**GOOD["units"], "work": {"hvx": ((2,),)}}}, "units_range",
         "op 'work' has units (2,) of 'hvx', which has 2"),
        ({"units": {**GOOD["units"], "fixed": {"hvx": ((0,),)}}}, "units_fixed",
         "op 'fixed' has units (0,) of 'hvx', but is fixed to (1,)"),
        ({"addresses": {"raw": (0, 6, 12)}}, "address_missing", "buffer 'out' has no address"),
        ({"addresses": {**GOOD["addresses"], "raw": (0, 6)}}, "ring_depth",
         "buffer 'raw' has 2 addresses, its ring 3 copies"),
        ({"addresses": {**GOOD["addresses"], "out": (20, 22)}}, "address_alignment",
         "buffer 'out' lies at 22 B, not a multiple of its alignment 4 B"),
        ({"addresses": {**GOOD["addresses"], "out": (20, 32)}}, "address_range",
         "buffer 'out' [32, 36) is not inside [0, 32) B"),
        ({"addresses": {**GOOD["addresses"], "out": (20,)}}, "ring_life",
         "buffer 'out' lives for 5 ticks, but its 1 copies come back after 4"),
        ({"addresses": {**GOOD["addresses"], "out": (20, 16)}}, "address_overlap",
         "buffers 'raw' of iteration 2 [12, 18) B in [8, 17) ticks and 'out' of iteration 1 [16, 20) B in [10, 15) "
         "ticks share 2 B"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule(change: dict[str, Any], kind: str, message: str) -> None:
    assert (kind, message) in [(kind, text) for kind, _, text in said(BODY, {**GOOD, **change})]


def test_counted_units_are_added_up() -> None:
    of = loop(op("a", "x", 3, units=2), op("b", "x", 2, units=2), on=counted(x=3))
    assert said(of, {"ii_ticks": 5, "starts": {"a": 0, "b": 3}}) == []
    text = "engine 'x' has 3, but 4 are held at 0: 'a' of iteration 0 [0, 3), 'b' of iteration 0 [0, 2)"
    assert said(of, {"ii_ticks": 5, "starts": {"a": 0, "b": 0}}) == [("engine_load", ("x",), text)]


@pytest.mark.parametrize(
    ("rule", "kinds"), [("none", []), ("fluid", ["channel_rate"]), ("rigid", ["channel_load", "channel_rate"])]
)
def test_channels_by_rule(rule: str, kinds: list[str]) -> None:
    pull = (Pull(channel="ddr", rate=2),)
    of = loop(
        op("a", ticks=2, pulls=pull),
        op("b", ticks=2, pulls=pull),
        channels=(Channel(name="ddr", capacity=3),),
        rule=rule,
    )
    found = said(of, {"ii_ticks": 2, "starts": {"a": 0, "b": 0}})
    assert [kind for kind, _, _ in found] == kinds
    if rule == "fluid":
        assert found[0][2] == "channel 'ddr' is asked for 8 per iteration, and has 6 in 2 ticks"


def test_copies_of_two_and_three_rings_first_meet_far_away() -> None:
    """Rings of 2 and 3: copy 1 of x and copy 2 of y are first alive together in iteration 5 (mathematics A7)."""
    of = loop(
        op("a", "p"), op("b", "q"),
        on=engines(p=1, q=1),
        buffers=(buf("x", 1, "a", depth=2), buf("y", 1, "b", depth=3)),
        capacity=5,
    )  # fmt: skip
    apart = {"ii_ticks": 1, "starts": {"a": 0, "b": 0}, "addresses": {"x": (0, 1), "y": (2, 3, 4)}}
    assert said(of, apart) == []
    clash = {**apart, "addresses": {"x": (0, 1), "y": (2, 3, 1)}}
    text = (
        "buffers 'x' of iteration 5 [1, 2) B in [5, 6) ticks and 'y' of iteration 5 [1, 2) B in [5, 6) ticks share 1 B"
    )
    assert said(of, clash) == [("address_overlap", ("x", "y"), text)]
