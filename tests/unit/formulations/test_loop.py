"""The body of a loop as data: what it refuses and in which words, and the files it makes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from loops import buf, counted, dep, engines, four_stages, loop, op

from hexloom.formulations.mode import Channel, Dma, Engine, Mode, Pull, Use
from hexloom.formulations.periodic.loop import Loop, LoopOp
from hexloom.formulations.periodic.schedule import ModuloSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

HVX = engines(hvx=2)
FULL = (Pull(channel="ddr", rate=5),)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: loop(op("a"), op("a")), "two ops are named 'a'; names must differ"),
        (lambda: loop(op("a", "hmx")), "op 'a', mode 'default': there is no engine 'hmx'; known: none"),
        (
            lambda: loop(op("a", "hvx", units=3), on=HVX),
            "op 'a' needs 3 units of engine 'hvx', which has 2; ask for fewer",
        ),
        (lambda: loop(op("a"), deps=(dep("a", "b", 1),)), "dependency 'a' -> 'b': there is no op 'b'"),
        (
            lambda: loop(op("a"), op("b"), op("c"), deps=(dep("a", "b"), dep("b", "c"), dep("c", "b"))),
            "the dependencies form a cycle with distance 0: b -> c -> b; give one of them the number of iterations",
        ),
        (lambda: loop(op("a"), deps=(dep("a", "a"),)), "the dependencies form a cycle with distance 0: a -> a;"),
        (lambda: loop(op("a"), buffers=(buf("x", 4, "b"),), capacity=4), "buffer 'x': there is no op 'b'"),
        (
            lambda: loop(op("a"), buffers=(buf("x", 5, "a"),), capacity=4),
            "buffer 'x' takes 5 B, the scratchpad has 4 B available; make it smaller",
        ),
        (
            lambda: loop(op("a", ticks=0), buffers=(buf("x", 1, "a"),), capacity=4),
            "buffer 'x' may live for no time: all its users have latency 0; give one of them a tick",
        ),
        (
            lambda: loop(op("a", pulls=FULL), channels=(Channel(name="ddr", capacity=4),), rule="rigid"),
            "op 'a' demands 5 of channel 'ddr', whose capacity is 4; under rule rigid no op may",
        ),
        (
            lambda: loop(op("a"), on=(Engine(name="dma", kind="pipe", depth=3),)),
            "engine 'dma' has depth 3, which a loop does not count; write its places as units of an engine of kind",
        ),
        (
            lambda: Loop(ops=(LoopOp(name="a", mode=Mode(latency_ticks=1, overhead_ticks=2)),)),
            "op 'a' has 2 overhead_ticks; in a loop they are part of its uses",
        ),
        (
            lambda: loop(
                LoopOp(name="a", mode=Mode(latency_ticks=1, dma=Dma(owner_engine="hvx", owner_unit=0))), on=HVX
            ),
            "op 'a' has an owner; in a loop its start and its wait are ops of their own",
        ),
        (
            lambda: loop(op("a", ticks=2**40), op("b")),
            f"latencies and delays add up to {2**40 + 1} ticks, above the limit {2**40}; use a coarser tick",
        ),
    ],
)
def test_what_is_no_loop_is_refused(make: Callable[[], Loop], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_a_transfer_may_use_a_pipe_and_a_channel_more_than_full_where_only_the_average_counts() -> None:
    use = Use(engine="dma", ticks=2)
    ddr = Channel(name="ddr", capacity=4)
    move = LoopOp(name="a", mode=Mode(uses=(use,), latency_ticks=2, pulls=FULL))
    assert loop(move, on=(Engine(name="dma", kind="pipe"),), channels=(ddr,)).rule == "fluid"


def test_only_hardware_threads_and_fixed_units_are_concrete() -> None:
    on = (*engines(hmx=1, hvx=2), *counted(gather=2))
    plain = loop(op("a", "gather"), op("b", "hvx"), on=on)
    assert [plain.needs_units(engine) for engine in on] == [False, True, False]
    assert loop(op("a", "gather", ids=(1,)), on=on).needs_units(on[2])


def test_a_loop_and_its_schedule_come_back_from_json() -> None:
    body = four_stages(10, 5, 8, 2)
    assert Loop.model_validate_json(body.model_dump_json()) == body
    assert '"schema":"hexloom.loop/1"' in body.model_dump_json()
    schedule = ModuloSchedule(
        ii_ticks=3, starts={"a": 0}, units={"a": {"hvx": ((0,), (1,))}}, addresses={"x": (0, 4, 8)}
    )
    assert ModuloSchedule.model_validate_json(schedule.model_dump_json()) == schedule
    assert schedule.unroll == 6
