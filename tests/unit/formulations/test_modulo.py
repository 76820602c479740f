"""Modulo scheduling: published and hand-computed intervals, what is refuted by whom, levers, and the same bytes."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from in_process import InProcess
from loops import REFUTED, body, buf, counted, dep, engines, four_stages, loop, op

from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.mode import Channel, Pull
from hexloom.formulations.periodic.bounds import least_ii
from hexloom.formulations.periodic.levers import DepthLever, depth_levers, levers_in_turn
from hexloom.formulations.periodic.modulo import ModuloResult, modulo_schedule
from hexloom.formulations.periodic.modulo_ilp import ask_ilp
from hexloom.formulations.periodic.range_model import RangeJob
from hexloom.optimizer.check_periodic import check_modulo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.periodic.loop import Loop

TWILL_TOY = loop(
    op("S", "tensor"),
    op("P", "exp"),
    op("O", "tensor"),
    deps=(dep("S", "P"), dep("P", "O"), dep("O", "O", 1)),
    on=engines(tensor=1, exp=1),
)
"""Figure 1 of Twill (arXiv 2512.18134): S = QK, P = exp(S), O += PV."""

FA4_FORWARD = loop(
    op("load", "smem", 768),
    op("QK", "tensor", 512),
    op("exp", "exp", 1024),
    op("PV", "tensor", 512),
    deps=(dep("load", "QK"), dep("QK", "exp"), dep("exp", "PV"), dep("PV", "PV", 1)),
    on=engines(tensor=1, exp=1, smem=1),
)
"""FlashAttention-4 (arXiv 2603.05451), a tile of 128 x 128 x 128 forward: cycles per unit; products of equal size."""

FA4_BACKWARD = loop(
    *(op(name, "tensor", 512) for name in ("S", "dP", "dV", "dK", "dQ")),
    op("exp", "exp", 1024),
    *(op(f"smem:{name}", "smem", 1664) for name in ("S", "dQ")),
    deps=(
        dep("smem:S", "S"),
        dep("S", "exp"),
        dep("exp", "dV"),
        dep("dP", "dK"),
        dep("exp", "dK"),
        dep("dK", "smem:dQ"),
        dep("smem:dQ", "dQ"),
        dep("dV", "dV", 1),
        dep("dK", "dK", 1),
    ),
    on=engines(tensor=1, exp=1, smem=1),
)
"""The same backward: 2560 cycles of five products, 1024 of exp, 3328 of shared memory in two parts."""


def fa3(tiles: int) -> Loop:
    """FlashAttention-3 (arXiv 2407.08608): exp takes half of the products' time; scores of a tile have one place."""
    names = "AB"[:tiles]
    return loop(
        *(o for t in names for o in (op(f"QK{t}", "tensor", 2), op(f"exp{t}", "exp", 2), op(f"PV{t}", "tensor", 2))),
        deps=tuple(
            d for t in names
            for d in (dep(f"QK{t}", f"exp{t}"), dep(f"exp{t}", f"PV{t}"), dep(f"PV{t}", f"PV{t}", 1))
        ),
        on=engines(tensor=1, exp=1),
        buffers=tuple(buf(f"scores{t}", 1, f"QK{t}", f"exp{t}", f"PV{t}", depth=1) for t in names),
        capacity=tiles,
    )  # fmt: skip


@pytest.fixture(scope="module")
def guard() -> Iterator[Guard]:
    with Guard() as child:
        yield child


def solved(body: Loop, shortest: bool = False) -> ModuloResult:
    result = modulo_schedule(body, 30.0, seed=1, shortest=shortest, guard=InProcess())  # type: ignore[arg-type]
    if result.schedule is not None:
        assert check_modulo(body, result.schedule) == []
    return result


def test_twill_s_toy_has_interval_2_and_length_4_with_two_copies_in_flight(guard: Guard) -> None:
    result = modulo_schedule(TWILL_TOY, guard=guard)
    assert (result.status, result.ii_ticks, result.length_ticks, result.length_proven) == ("OPTIMAL", 2, 4, True)
    assert result.stages == 2
    assert result.schedule is not None
    assert result.schedule.starts == {"S": 0, "P": 1, "O": 3} or result.schedule.starts == {"S": 0, "P": 2, "O": 3}


@pytest.mark.parametrize(
    ("body", "ii", "bottleneck"),
    [(FA4_FORWARD, 1024, {"tensor", "exp"}), (FA4_BACKWARD, 3328, {"smem"}), (fa3(2), 8, {"tensor"})],
    ids=["fa4_forward", "fa4_backward", "fa3"],
)
def test_attention_bodies_are_proven(body: Loop, ii: int, bottleneck: set[str]) -> None:
    result = modulo_schedule(body, shortest=False)
    assert (result.status, result.ii_ticks) == ("OPTIMAL", ii)
    assert result.bounds[0].bottleneck[0] in bottleneck
    assert result.schedule is not None
    assert check_modulo(body, result.schedule) == []


def test_two_query_tiles_of_fa3_play_ping_pong_and_one_cannot() -> None:
    alone, both = solved(fa3(1)), solved(fa3(2), shortest=True)
    # Serial 2 + 2 + 2; with two tiles 4 ticks of products each: 1.5 times as fast.
    assert (alone.ii_ticks, both.ii_ticks) == (6, 8)
    assert both.schedule is not None
    at = both.schedule.starts
    for mine, other in ("AB", "BA"):
        exp = {(at[f"exp{mine}"] + t) % 8 for t in range(2)}
        products = {(at[f"{kind}{other}"] + t) % 8 for kind in ("QK", "PV") for t in range(2)}
        assert exp <= products


TIMES = st.integers(1, 30)


@given(TIMES, TIMES, TIMES, TIMES)
def test_four_stages_take_what_their_rings_allow(a: int, b: int, c: int, d: int) -> None:
    """The intervals of htp-ops-lib's loop (haozixu/htp-ops-lib, mat_mul.c), by hand: the raw buffer is the lever."""
    single, double = four_stages(a, b, c, d), four_stages(a, b, c, d, (2, 2, 2))
    one, two = solved(single), solved(double)
    assert (one.status, one.ii_ticks) == ("OPTIMAL", max(a + b, b + d, c))
    assert (two.status, two.ii_ticks) == ("OPTIMAL", max(a, b + d, c))
    levers = depth_levers(single, one, seed=1, guard=InProcess())  # type: ignore[arg-type]
    if one.ii_ticks != two.ii_ticks:
        assert [(lever.buffer, lever.depth, lever.ii_ticks, lever.more_bytes) for lever in levers] == [
            ("raw", 2, two.ii_ticks, 3)
        ]
    else:
        assert levers == ()


@settings(max_examples=4)
@given(TIMES, TIMES, TIMES, TIMES)
@example(8, 9, 5, 6)  # raw: 17 to 15; then HVX: 15 to 9
@example(1, 1, 1, 1)  # two reasons at once: neither alone helps
def test_the_raw_buffer_is_the_lever_and_the_split_of_hvx_the_next(a: int, b: int, c: int, d: int) -> None:
    """Loading beside dequantizing needs a second raw buffer; dequantizing beside storing, half of HVX each."""

    def interval(raw: int, split: bool) -> int:
        return max(a if raw == 2 else a + b, max(b, d) if split else b + d, c)

    expected: list[tuple[str, int]] = []
    raw, split = 1, False
    while True:
        now = interval(raw, split)
        if raw == 1 and interval(2, split) < now:
            raw = 2
            expected.append(("raw", interval(raw, split)))
        elif not split and interval(raw, True) < now:
            split = True
            expected.append(("hvx", interval(raw, split)))
        else:
            break
    single = four_stages(a, b, c, d)
    found = levers_in_turn(single, solved(single), seed=1, guard=InProcess())  # type: ignore[arg-type]
    names = [lever.buffer if isinstance(lever, DepthLever) else lever.engine for lever in found]
    assert list(zip(names, [lever.ii_ticks for lever in found], strict=True)) == expected


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in REFUTED.items() for seed in seeds])
def test_what_bounds_miss_is_refuted_by_both_models(kind: str, seed: int) -> None:
    refuted = body(kind, seed)
    result = solved(refuted)
    assert result.status == "OPTIMAL"
    bound = least_ii(result.bounds)
    assert result.ii_ticks is not None
    assert [a.by for a in result.attempts if a.status == "INFEASIBLE" and a.ii_ticks == bound] == ["counting"]
    assert {a.ii_ticks for a in result.attempts if a.status == "INFEASIBLE"} == set(range(bound, result.ii_ticks))
    assert ask_ilp(refuted, bound) == "INFEASIBLE"


def test_arcs_of_a_circle_need_more_addresses_than_bytes() -> None:
    """Three lives of 2 ticks at phases 0, 1 and 2 of 3: never more than 2 alive, but any two meet (mathematics A7)."""
    circle = loop(
        *(op(name, "x", ticks=1, latency=2) for name in "abc"),
        deps=(dep("a", "b", 0, 1), dep("b", "c", 0, 1), dep("c", "a", 1, 1)),
        on=engines(x=1),
        buffers=tuple(buf(f"of_{name}", 1, name) for name in "abc"),
        capacity=2,
    )
    result = solved(circle)
    assert [(a.ii_ticks, a.status, a.by) for a in result.attempts] == [
        (4, "FEASIBLE", "list"), (3, "INFEASIBLE", "addresses"),
    ]  # fmt: skip
    assert ask_ilp(circle, 3) == "FEASIBLE"
    assert solved(circle.changed(scratchpad={"total_bytes": 3})).ii_ticks == 3
    unrolled = circle.changed(buffers=tuple(buf(f"of_{name}", 1, name, depth=2) for name in "abc"))
    again = solved(unrolled)
    assert again.ii_ticks == 3
    assert again.schedule is not None
    assert again.schedule.unroll == 2


def test_rings_of_two_and_three_repeat_after_six() -> None:
    rings = loop(
        op("a", "x", 1, latency=3),
        op("b", "y", 1, latency=5),
        on=engines(x=1, y=1),
        buffers=(buf("two", 1, "a", depth=2), buf("three", 1, "b", depth=3)),
        capacity=5,
    )
    result = solved(rings)
    assert result.ii_ticks == 2
    assert result.schedule is not None
    assert result.schedule.unroll == 6


def test_ops_longer_than_the_interval_rotate_over_units() -> None:
    """Three units, ops of 6: one every 2 ticks, each unit in turn."""
    result = solved(loop(op("a", "x", 6), on=engines(x=3)))
    assert (result.status, result.ii_ticks) == ("OPTIMAL", 2)
    assert result.schedule is not None
    assert sorted(result.schedule.units["a"]["x"]) == [(0,), (1,), (2,)]
    assert result.schedule.unroll == 3


def test_threads_need_units_where_counting_is_enough_for_others() -> None:
    """Lives of 2 ticks at phases 0, 1, 2 of 3 again, on two units: counted they fit, as fixed threads they do not."""
    ops = [op(name, "x", 2) for name in "abc"]
    deps = (dep("a", "b", 0, 1), dep("b", "c", 0, 1), dep("c", "a", 1, 1))
    assert solved(loop(*ops, deps=deps, on=counted(x=2))).ii_ticks == 3
    assert solved(loop(*ops, deps=deps, on=engines(x=2))).ii_ticks == 4


def test_a_rigid_channel_is_never_asked_for_more_and_a_fluid_one_only_on_average() -> None:
    ops = [op(name, ticks=2, pulls=(Pull(channel="ddr", rate=rate),)) for name, rate in (("a", 2), ("b", 2), ("c", 1))]
    ddr = (Channel(name="ddr", capacity=3),)
    # 10 to move at 3 a tick: 4 ticks. Rigid, a and b exclude each other, and c fits beside either.
    assert solved(loop(*ops, channels=ddr, rule="fluid")).ii_ticks == 4
    assert solved(loop(*ops, channels=ddr, rule="rigid")).ii_ticks == 4
    wide = (*ops[:2], op("c", ticks=2, pulls=(Pull(channel="ddr", rate=2),)))
    assert [solved(loop(*wide, channels=ddr, rule=rule)).ii_ticks for rule in ("fluid", "rigid", "none")] == [4, 6, 1]


def test_many_intervals_are_refuted_at_once_where_ticks_are_fine() -> None:
    """The integer program refutes 10 to 12 and not 13 ticks where bytes are tight; so does the relaxation."""
    coarse = four_stages(10, 5, 8, 3, (2, 2, 2)).changed(scratchpad={"total_bytes": 12})
    assert [ask_ilp(coarse, ii) for ii in (12, 13)] == ["INFEASIBLE", "FEASIBLE"]
    bounds = [
        RangeJob(
            four_stages(10 * k, 5 * k, 8 * k, 3 * k, (2, 2, 2)).changed(scratchpad={"total_bytes": 12}),
            10 * k, 16 * k, least=True, seconds=20.0, seed=1, deterministic=True,
        ).work([].append)
        for k in (1, 4)
    ]  # fmt: skip
    assert bounds[0] == ("OPTIMAL", 13)
    assert bounds[1][0] == "OPTIMAL"
    # In finer ticks the smallest interval may lie between multiples of the coarse ones, never above; the load takes 40.
    assert 40 < bounds[1][1] <= 4 * 13


def test_a_loop_that_fits_at_no_interval_is_told_so() -> None:
    """Two buffers of 3 bytes fit into 6, but not where both begin at a multiple of 4."""
    crowd = loop(op("a", ticks=2), buffers=(buf("x", 3, "a", align=4), buf("y", 3, "a", align=4)), capacity=6)
    result = solved(crowd)
    assert (result.status, result.schedule, result.lower_bound_ticks) == ("INFEASIBLE", None, 3)
    assert result.reason.startswith("loop 'loop': all intervals up to 2 ticks are refuted")
    assert {a.status for a in result.attempts} == {"INFEASIBLE"}


def test_what_is_not_decided_in_time_is_only_a_bound() -> None:
    result = modulo_schedule(body("bytes", 41), 0.0, seed=1, guard=InProcess())  # type: ignore[arg-type]
    assert (result.status, result.schedule) == ("UNKNOWN", None)
    assert result.lower_bound_ticks == 14


def test_the_same_seed_gives_the_same_schedule() -> None:
    for refuted in (body("bytes", 14), body("split", 6)):
        first, second = (
            modulo_schedule(refuted, 1.0, seed=1, guard=InProcess())  # type: ignore[arg-type]
            for _ in range(2)
        )
        assert first == second
        assert first.schedule is not None


@pytest.mark.parametrize(("depths", "more"), list(product([(1, 2, 2)], [(0, 1, 1), (1, 0, 0), (1, 1, 0)])))
def test_more_copies_never_raise_the_interval(depths: tuple[int, int, int], more: tuple[int, int, int]) -> None:
    deeper = (depths[0] + more[0], depths[1] + more[1], depths[2] + more[2])
    before, after = (solved(four_stages(7, 5, 9, 3, d)).ii_ticks for d in (depths, deeper))
    assert before is not None
    assert after is not None
    assert after <= before
