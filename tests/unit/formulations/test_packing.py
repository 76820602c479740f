from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from unit.small import buffer, on, problem

from hexloom.formulations.packing.allocator import Allocator
from hexloom.formulations.packing.fixed_times import pack
from hexloom.formulations.packing.gaps import highest_gap, is_free, lowest_gap

if TYPE_CHECKING:
    from hexloom.formulations.problem import Buffer, Problem


def pad(capacity: int, *buffers: Buffer) -> Problem:
    return problem(on("hvx", "a", 1), buffers=buffers, capacity=capacity)


def test_buffers_alive_together_lie_side_by_side_others_share() -> None:
    p = pad(8, buffer("x", 4, "a"), buffer("y", 4, "a"), buffer("z", 8, "a"))
    offsets = pack(p, [(0, 2), (1, 3), (3, 5)])
    assert offsets is not None
    assert {offsets[0], offsets[1]} == {0, 4}
    assert offsets[2] == 0


def test_half_open_lives_touch_without_overlap() -> None:
    p = pad(4, buffer("x", 4, "a"), buffer("y", 4, "a"))
    assert pack(p, [(0, 2), (2, 3)]) == (0, 0)
    assert pack(p, [(0, 2), (1, 3)]) is None


def test_pins_come_first_and_are_kept() -> None:
    p = pad(12, buffer("x", 4, "a"), buffer("pin", 4, "a", address=4), buffer("y", 4, "a"))
    offsets = pack(p, [(0, 1)] * 3)
    assert offsets is not None
    assert offsets[1] == 4
    assert {offsets[0], offsets[2]} == {0, 8}
    clash = pad(12, buffer("p", 4, "a", address=2), buffer("q", 4, "a", address=4))
    assert pack(clash, [(0, 1), (0, 1)]) is None
    assert pack(clash, [(0, 1), (1, 2)]) == (2, 4)


def test_alignment_and_granules() -> None:
    p = pad(40, buffer("x", 3, "a"), buffer("y", 5, "a", align_bytes=16, granule_bytes=8))
    offsets = pack(p, [(0, 2), (0, 1)])
    assert offsets == (0, 16)  # y takes [16, 24)
    assert pack(pad(23, *p.buffers), [(0, 2), (0, 1)]) == (8, 0)
    assert pack(pad(10, *p.buffers), [(0, 2), (0, 1)]) is None


def test_empty_buffers_and_empty_lives_take_nothing() -> None:
    p = pad(4, buffer("x", 4, "a"), buffer("none", 0, "a"), buffer("never", 4))
    assert pack(p, [(0, 2), (0, 2), (0, 0)]) == (0, 0, 0)


def test_another_order_is_tried_when_the_first_fails() -> None:
    """By lives: l [0, 10) of 2 at 0, then m [0, 4) of 4 at 2, then big [4, 10) of 6 at 2: fits in 8 only thus."""
    p = pad(8, buffer("m", 4, "a"), buffer("big", 6, "a"), buffer("l", 2, "a"))
    lives = [(0, 4), (4, 10), (0, 10)]
    offsets = pack(p, lives)
    assert offsets is not None
    assert valid(p, lives, offsets)


def valid(p: Problem, lives: list[tuple[int, int]], offsets: tuple[int, ...]) -> bool:
    spans = [(at, at + b.occupied_bytes) for at, b in zip(offsets, p.buffers, strict=True)]
    inside = all(s >= 0 and e <= p.scratchpad.available_bytes for s, e in spans)
    aligned = all(at % b.align_bytes == 0 for at, b in zip(offsets, p.buffers, strict=True))
    apart = all(
        spans[i][1] <= spans[j][0]
        or spans[j][1] <= spans[i][0]
        or lives[i][1] <= lives[j][0]
        or lives[j][1] <= lives[i][0]
        for i, j in itertools.combinations(range(len(spans)), 2)
        if spans[i][0] < spans[i][1] and spans[j][0] < spans[j][1]
    )
    return inside and aligned and apart


@pytest.mark.parametrize("seed", range(40))
def test_random_buffers_never_overlap(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(2, 14)
    buffers = [
        buffer(f"b{i}", rng.randint(0, 9), "a", align_bytes=rng.choice((1, 2, 4)), granule_bytes=rng.choice((1, 3)))
        for i in range(n)
    ]
    lives = [(t := rng.randint(0, 8), t + rng.randint(1, 5)) for _ in range(n)]
    p = pad(rng.randint(20, 60), *buffers)
    offsets = pack(p, lives)
    if offsets is not None:
        assert valid(p, lives, offsets)
    roomy = pad(n * 16, *buffers)
    whole = pack(roomy, lives)
    assert whole is not None and valid(roomy, lives, whole)


@pytest.mark.parametrize(
    ("taken", "low", "high"),
    [
        ([], 0, 8),
        ([(0, 1)], 4, 8),
        ([(8, 12)], 0, 4),
        ([(3, 5)], 8, 8),
        ([(3, 5), (8, 9)], None, None),
        ([(5, 8), (0, 2)], 8, 8),
        ([(4, 5)], 0, 8),
    ],
)
def test_gaps_for_four_bytes_at_four(taken: list[tuple[int, int]], low: int | None, high: int | None) -> None:
    assert lowest_gap(4, 4, taken, 12) == low
    assert highest_gap(4, 4, taken, 12) == high


def test_gaps_of_nothing() -> None:
    assert lowest_gap(0, 1, [(0, 9)], 9) == highest_gap(0, 1, [(0, 9)], 9) == 0
    assert is_free(0, 0, [(0, 9)], 9)
    assert is_free(4, 4, [(0, 4), (8, 9)], 9)
    assert not is_free(4, 5, [(0, 4), (8, 9)], 9)
    assert not is_free(6, 4, [], 9)


def test_the_allocator_hands_out_and_takes_back() -> None:
    p = pad(16, buffer("x", 8, "a"), buffer("y", 8, "a"), buffer("z", 8, "a"))
    pool = Allocator(p)
    assert pool.place(0)
    assert pool.place(1)
    assert not pool.place(2)
    pool.release(0)
    assert pool.place(2)
    assert pool.offsets == {0: 0, 1: 8, 2: 0}


def test_residents_are_placed_at_once_and_pins_wait_for_their_place() -> None:
    p = pad(16, buffer("pin", 4, "a", address=4), buffer("home", 4, resident=True), buffer("x", 8, "a"))
    pool = Allocator(p)
    assert pool.offsets == {1: 0}
    assert pool.place(2)
    assert pool.offsets[2] == 4
    assert not pool.place(0)
    pool.release(2)
    assert pool.place(0)


def test_small_buffers_come_from_the_top() -> None:
    p = pad(16, buffer("small", 2, "a"), buffer("large", 8, "a"))
    pool = Allocator(p, from_top_below=4)
    assert pool.place(0)
    assert pool.place(1)
    assert pool.offsets == {0: 14, 1: 0}


def test_what_is_there_from_the_start_is_placed_by_search_where_first_fit_fails() -> None:
    """6, 5 (at multiples of 4) and 4 in 16 bytes: largest first they lie at 0 and 8, and leave 2 and 3."""
    buffers = tuple(
        buffer(name, size, "a", align_bytes=align, resident="from_start")
        for name, size, align in (("x", 6, 1), ("y", 5, 4), ("z", 4, 1))
    )
    pool = Allocator(pad(16, *buffers))
    ends = sorted((pool.offsets[b], pool.offsets[b] + buffers[b].size_bytes) for b in range(3))
    assert pool.fits
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(ends))
    assert not Allocator(pad(14, *buffers)).fits
    assert not Allocator(pad(8, *(b.model_copy(update={"resident": True}) for b in buffers))).fits
