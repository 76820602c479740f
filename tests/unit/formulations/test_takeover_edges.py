"""Buffers that overwrite others, at the edges of their lives: every way of solving says the same as the oracle."""

from __future__ import annotations

import agreement

from hexloom.formulations.problem import Buffer, Engine, Mode, Op, Pool, Precedence, Problem, Scratchpad, Use


def op(name: str, engine: str, ticks: int) -> Op:
    mode = Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks)
    return Op(name=name, task=name[0], modes=(mode,))


def test_two_cannot_overwrite_one_buffer() -> None:
    """Both would lie on it, and on each other, when their op ends: their lives have no length there."""
    problem = Problem(
        engines=(Engine(name="w0"),),
        ops=(op("o", "w0", 1),),
        buffers=(
            Buffer(name="old", size_bytes=2, ops=("o",), pool="near"),
            Buffer(name="x", size_bytes=1, ops=("o",), overwrites="old", pool="near"),
            Buffer(name="y", size_bytes=1, ops=("o",), overwrites="old", pool="near"),
        ),
        scratchpad=Scratchpad(total_bytes=8),
        pools=(Pool(name="near", total_bytes=2),),
    )
    assert "CP-SAT" in agreement.compare(problem)


def test_what_takes_no_time_when_a_buffer_is_taken_over_is_beside_both() -> None:
    """``mark`` needs 6 B at an instant at which either the old or the new buffer of ``second`` is there."""
    problem = Problem(
        engines=(Engine(name="w0", units=2),),
        ops=(op("a", "w0", 1), op("mark", "w0", 0), op("first", "w0", 1), op("second", "w0", 1)),
        precedences=(Precedence(before="a", after="mark"), Precedence(before="first", after="second")),
        buffers=(
            Buffer(name="a.out", size_bytes=3, ops=("a", "mark")),
            Buffer(name="mark.out", size_bytes=3, ops=("mark",)),
            Buffer(name="old", size_bytes=2, ops=("first", "second")),
            Buffer(name="new", size_bytes=1, ops=("second",), resident="to_end", overwrites="old"),
        ),
        scratchpad=Scratchpad(total_bytes=6),
    )
    assert "CP-SAT" in agreement.compare(problem)
