from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from unit.small import buffer, held, move, on, problem, run

from hexloom.formulations.problem import (
    MAX_TICKS,
    MAX_UNITS,
    Buffer,
    Channel,
    Dma,
    Engine,
    Interference,
    Mode,
    Op,
    Precedence,
    Problem,
    Pull,
    Scratchpad,
    Use,
)

if TYPE_CHECKING:
    from collections.abc import Callable

DMA = Dma(owner_engine="hvx", owner_unit=0)


def refused(**keys: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        Problem(**{"engines": problem(on("hvx", "a", 1)).engines, **keys})
    (fault,) = raised.value.errors()
    return fault["msg"].removeprefix("Value error, ")


def op(name: str, *uses: Use, **keys: Any) -> Op:
    longest = max((use.ticks for use in uses), default=0)
    return Op(name=name, modes=(Mode(uses=uses, latency_ticks=longest, **keys),))


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ({"uses": (held("hvx", 5),), "latency_ticks": 4}, "mode 'default': latency 4 is below its occupancy 5"),
        (
            {"uses": (held("hvx", 1), held("hvx", 1)), "latency_ticks": 1},
            "mode 'default' uses one engine twice; name it once with all its units",
        ),
        (
            {"latency_ticks": 1, "overhead_ticks": 1, "dma": DMA},
            "mode 'default': a DMA mode has issue and poll ticks, not overhead",
        ),
        ({"latency_ticks": -1}, "Input should be greater than or equal to 0"),
        ({"latency_ticks": 1.5}, "Input should be a valid integer, got a number with a fractional part"),
    ],
)
def test_a_mode_contradicts_itself(mode: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Mode(**mode)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"ops": (op("a"), op("a"))}, "two ops are named 'a'; names must differ"),
        ({"ops": (op("a"),), "engines": (Engine(name="e"), Engine(name="e"))}, "two engines are named 'e'"),
        ({"ops": (op("a"),), "buffers": (buffer("x", 1), buffer("x", 1))}, "two buffers are named 'x'"),
        (
            {"ops": (op("a", held("npu", 1)),)},
            "op 'a', mode 'default': there is no engine 'npu'; known: hvx, hmx, lut, ddr",
        ),
        ({"ops": (op("a", held("npu", 1)),), "engines": ()}, "known: none"),
        ({"ops": (op("a", held("ddr", 1)),)}, "pipe 'ddr' is for DMA; give the mode an owner"),
        ({"ops": (op("a", held("hvx", 1), dma=DMA),)}, "a DMA mode holds pipes and its owner, not 'hvx'"),
        ({"ops": (op("a", held("hvx", 1, 2, (0,))),)}, "2 units of 'hvx', but unit_ids (0,)"),
        ({"ops": (op("a", held("hvx", 1, 2, (1, 1))),)}, "2 units of 'hvx', but unit_ids (1, 1)"),
        ({"ops": (op("a", held("hvx", 1, 1, (2,))),)}, "unit_ids (2,) of 'hvx', which has 2"),
        ({"ops": (op("a", held("hvx", 1, 1, (-1,))),)}, "unit_ids (-1,) of 'hvx', which has 2"),
        (
            {"ops": (op("a", held("ddr", 1), dma=Dma(owner_engine="lut", owner_unit=0)),)},
            "DMA owner 'lut' is not a worker engine",
        ),
        (
            {"ops": (op("a", held("ddr", 1), dma=Dma(owner_engine="cpu", owner_unit=0)),)},
            "DMA owner 'cpu' is not a worker engine",
        ),
        (
            {"ops": (op("a", held("ddr", 1), dma=Dma(owner_engine="hvx", owner_unit=2)),)},
            "DMA owner hvx[2], but hvx has 2 units",
        ),
        (
            {"ops": (op("a"),), "precedences": (Precedence(before="a", after="z"),)},
            "precedence 'a' -> 'z': there is no op 'z'",
        ),
        (
            {"ops": (op("a"),), "precedences": (Precedence(before="z", after="a"),)},
            "precedence 'z' -> 'a': there is no op 'z'",
        ),
        ({"ops": (op("a"),), "buffers": (buffer("x", 1, "z"),)}, "buffer 'x': there is no op 'z'"),
        (
            {"ops": (op("a"),), "buffers": (buffer("x", 1, address=6, align_bytes=4),)},
            "buffer 'x' is pinned at 6, not a multiple of its alignment 4",
        ),
        (
            {"ops": (op("a", held("hvx", MAX_TICKS)), op("b", held("hvx", 1)))},
            f"the durations add up to {MAX_TICKS + 1} ticks, above the limit {MAX_TICKS}; use a coarser tick",
        ),
        ({"ops": (op("a", held("hvx", 10**30)),)}, "the durations add up to about 10^30 ticks, above the limit"),
        ({"ops": (op("a"),), "tick_us": "9" * 400}, "is not between 1e-18 and 1e18; choose a tick in this range"),
        ({"ops": (op("a"),), "tick_us": "1/" + "9" * 30}, "is not between 1e-18 and 1e18"),
        ({"ops": ()}, "Tuple should have at least 1 item"),
        ({"ops": (op("a"),), "tick_us": "0/3"}, "String should match pattern"),
        ({"ops": (op("a"),), "speed": 1}, "Extra inputs are not permitted"),
        ({"ops": (op("a"),), "schema": "hexloom.problem/2"}, "Input should be 'hexloom.problem/1'"),
    ],
)
def test_a_reference_that_does_not_hold_is_named(keys: dict[str, Any], says: str) -> None:
    assert says in refused(**keys)


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ("a>a", "a -> a"),
        ("a>b b>a", "a -> b -> a"),
        ("a>b b>c c>d d>b", "b -> c -> d -> b"),  # a is before the cycle, not in it
    ],
)
def test_a_cycle_is_written_out_in_its_direction(edges: str, says: str) -> None:
    pairs = tuple(Precedence(before=e[0], after=e[2]) for e in edges.split())
    message = refused(ops=tuple(op(n) for n in "abcd"), precedences=pairs)
    assert message.startswith("the dependencies form a cycle: ")
    names = message.removeprefix("the dependencies form a cycle: ").split(" -> ")
    written = {(p.before, p.after) for p in pairs}
    assert names[0] == names[-1]
    assert all(step in written for step in itertools.pairwise(names))
    assert set(names) == set(says.split(" -> "))


@pytest.mark.parametrize("units", [MAX_UNITS + 1, 10**12, 10**30])
def test_an_engine_has_units_that_can_be_looked_at_one_by_one(units: int) -> None:
    with pytest.raises(ValidationError, match=r"less than or equal to|above the limit 4096"):
        Engine(name="e", units=units)
    Engine(name="e", units=MAX_UNITS)
    Engine(name="amount", units=10**9, kind="share")


def test_a_problem_is_frozen() -> None:
    p = problem(on("hvx", "a", 1))
    with pytest.raises(ValidationError, match="frozen"):
        p.name = "other"  # type: ignore[misc]


# --- what it derives ------------------------------------------------------------------------------------


def test_neighbours_and_order() -> None:
    p = problem(*(on("hvx", n, 1) for n in "abcd"), after="d>a a>c d>c d>a")
    assert p.predecessors == ((3,), (), (0, 3), ())
    assert p.successors == ((2,), (), (), (0, 2))
    assert p.topological_order == (1, 3, 0, 2)


def test_durations() -> None:
    transfer = move("m", 5, latency=7, issue=1, poll=2).modes[0]
    assert transfer.duration_ticks == 10
    assert run("r", held("hvx", 5), latency=7, overhead=2).modes[0].duration_ticks == 9
    two = Op(name="two", modes=(transfer, on("hvx", "x", 3).modes[0]))
    assert problem(two, on("hvx", "b", 4), entry_ticks=6).horizon_ticks == 6 + 10 + 4


def test_sizes() -> None:
    assert Buffer(name="x", size_bytes=129, granule_bytes=128).occupied_bytes == 256
    assert Buffer(name="x", size_bytes=0, granule_bytes=128).occupied_bytes == 0
    assert Scratchpad(total_bytes=8, reserved_bytes=3).available_bytes == 5
    assert Scratchpad(total_bytes=3, reserved_bytes=8).available_bytes == 0
    p = problem(on("hvx", "a", 1), on("hvx", "b", 1), buffers=(buffer("x", 1, "b", "b"), buffer("y", 1, "a", "b")))
    assert p.op_buffers == ((1,), (0, 1))


def test_a_part_keeps_its_edges_and_what_is_resident() -> None:
    p = problem(
        *(on("hvx", n, 1) for n in "abc"),
        after="a>b b>c",
        buffers=(buffer("x", 1, "a", "b"), buffer("y", 1, "b"), buffer("home", 1, "b", resident=True)),
        capacity=9,
        entry_ticks=4,
        tick_us="1/8",
    )
    part = p.restricted(frozenset("ac"), "part")
    assert ([o.name for o in part.ops], part.precedences, part.entry_ticks) == (["a", "c"], (), 0)
    assert [(b.name, b.ops) for b in part.buffers] == [("x", ("a",)), ("home", ())]
    assert (part.tick_us, part.scratchpad, part.name) == ("1/8", p.scratchpad, "part")
    assert p.restricted(frozenset("a"), buffers=False).buffers == ()


def test_json_and_digest() -> None:
    p = problem(move("m", 5), on("hvx", "a", 1, deadline_ticks=9), after="m>a", buffers=(buffer("x", 1, "a"),))
    again = Problem.model_validate_json(p.model_dump_json(by_alias=True))
    assert again == p
    assert again.digest() == p.digest() != problem(move("m", 6)).digest()
    assert '"schema":"hexloom.problem/1"' in p.model_dump_json(by_alias=True)


CHANNEL = Channel(name="ddr", capacity=100)


def pulling(*pulls: Pull) -> Op:
    return Op(name="a", modes=(Mode(latency_ticks=1, pulls=pulls),))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Problem(ops=(pulling(Pull(channel="l2", rate=1)),), channels=(CHANNEL,)), "no channel 'l2'"),
        (lambda: Problem(ops=(pulling(),), channels=(CHANNEL, CHANNEL)), "two channels are named 'ddr'"),
        (lambda: pulling(Pull(channel="ddr", rate=1), Pull(channel="ddr", rate=2)), "names one channel twice"),
        (lambda: Interference(victim="v", cause="m", factor="5/4"), "factor 5/4 is above 1"),
        (lambda: Interference(victim="v", cause="m", factor="0"), "factor"),
        (lambda: Channel(name="ddr", capacity=0), "capacity"),
    ],
)
def test_wrong_channels_are_refused_by_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make()
