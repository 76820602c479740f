"""Packing: valid for any input, bound <= found, equal to brute force on tiny instances, same seed same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexloom import Buffer, pack
from hexloom.formulations.packing.block import Block
from hexloom.formulations.packing.bounds import least_need
from hexloom.formulations.packing.canonical import CanonicalSearch, View
from hexloom.formulations.packing.corners import CornerRule
from hexloom.formulations.packing.portfolio import height, lowest_heuristic
from hexloom.formulations.packing.sections import cut

if TYPE_CHECKING:
    from collections.abc import Sequence


RULES: tuple[CornerRule, ...] = get_args(CornerRule)


@st.composite
def instances(draw: st.DrawFn, most: int = 6) -> tuple[list[Block], int]:
    capacity = draw(st.integers(4, 12))
    plain = draw(st.booleans())
    blocks = []
    for _ in range(draw(st.integers(1, most))):
        born = draw(st.integers(0, 5))
        align = 1 if plain else draw(st.sampled_from((1, 1, 2, 3, 4)))
        pin = None
        if not plain and draw(st.integers(0, 4)) == 0:
            pin = draw(st.integers(0, capacity // align)) * align
        size = draw(st.integers(1, max(1, capacity // 2)))
        blocks.append(Block(born, draw(st.integers(born + 1, 6)), size, align, pin))
    return blocks, capacity


def meet(one: Block, other: Block) -> bool:
    return one.born < other.died and other.born < one.died


def fits(blocks: Sequence[Block], capacity: int, offsets: Sequence[int]) -> bool:
    """Every block at every address, said the plain way."""
    for i, (block, at) in enumerate(zip(blocks, offsets, strict=True)):
        if at % block.align or at + block.size > capacity or (block.pin is not None and at != block.pin):
            return False
        for other, there in zip(blocks[:i], offsets, strict=False):
            if meet(block, other) and at < there + other.size and there < at + block.size:
                return False
    return True


def brute_force(blocks: Sequence[Block], capacity: int) -> bool:
    """Whether some choice of an aligned address for each block works; tries all of them."""

    def place(offsets: list[int]) -> bool:
        if len(offsets) == len(blocks):
            return True
        block = blocks[len(offsets)]
        places = range(0, capacity + 1, block.align) if block.pin is None else [block.pin]
        return any(
            fits(blocks[: len(offsets) + 1], capacity, [*offsets, at]) and place([*offsets, at]) for at in places
        )

    return place([])


def buffers_of(blocks: Sequence[Block]) -> tuple[list[Buffer], list[tuple[int, int]]]:
    buffers = [
        Buffer(name=f"b{k}", size_bytes=b.size, align_bytes=b.align, address=b.pin) for k, b in enumerate(blocks)
    ]
    return buffers, [(b.born, b.died) for b in blocks]


@given(instances(5), st.sampled_from(RULES), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_every_view_of_the_exact_search_agrees_with_brute_force(
    instance: tuple[list[Block], int], rule: CornerRule, rng: object
) -> None:
    blocks, capacity = instance
    rank = list(range(len(blocks)))
    rng.shuffle(rank)  # type: ignore[attr-defined]
    search = CanonicalSearch(blocks, capacity)
    offsets = search.run(View(rank, rule), 10**6)
    assert (offsets is not None) == brute_force(blocks, capacity)
    assert search.impossible == (offsets is None)
    assert offsets is None or fits(blocks, capacity, offsets)


@given(instances(5))
@settings(max_examples=50)
def test_pack_agrees_with_brute_force_and_says_why_not(instance: tuple[list[Block], int]) -> None:
    blocks, capacity = instance
    buffers, lifetimes = buffers_of(blocks)
    result = pack(buffers, lifetimes, capacity)
    if brute_force(blocks, capacity):
        assert result.status == "PACKED"
        assert result.offsets is not None and fits(blocks, capacity, result.offsets)
        assert result.height_bytes is not None
        assert result.lower_bound_bytes <= result.height_bytes <= capacity
    else:
        assert result.status == "INFEASIBLE"
        assert result.infeasibility is not None and "\n" not in result.infeasibility.message
        assert result.infeasibility.short == result.infeasibility.need - result.infeasibility.have > 0


@given(instances(5))
@settings(max_examples=30)
def test_the_least_capacity_is_that_of_brute_force(instance: tuple[list[Block], int]) -> None:
    blocks, _ = instance
    buffers, lifetimes = buffers_of(blocks)
    result = pack(buffers, lifetimes, time_limit_s=30)
    pins_meet = not fits([b for b in blocks if b.pin is not None], 99, [b.pin for b in blocks if b.pin is not None])
    assert (result.status == "INFEASIBLE") == pins_meet
    if result.height_bytes is not None:
        assert result.gap == 0
        assert result.offsets is not None and fits(blocks, result.height_bytes, result.offsets)
        assert not brute_force(blocks, result.height_bytes - 1)


@given(instances(9))
@settings(max_examples=25)
def test_bounds_and_heuristics_enclose_what_is_found(instance: tuple[list[Block], int]) -> None:
    blocks, capacity = instance
    free = [block._replace(pin=None) for block in blocks]
    need = least_need(free)
    assert all(free[b].born <= need.moment < free[b].died for b in need.live)
    assert need.rounding >= 0
    offsets = lowest_heuristic(free)
    assert offsets is not None
    top = height(free, offsets)
    assert fits(free, top, offsets)
    assert need.bytes <= top
    buffers, lifetimes = buffers_of(free)
    result = pack(buffers, lifetimes, seed=1, time_limit_s=0.05)
    assert result.height_bytes is not None and need.bytes <= result.lower_bound_bytes <= result.height_bytes <= top
    assert pack(buffers, lifetimes, seed=1, time_limit_s=0.05).offsets == result.offsets
    assert pack(buffers, lifetimes, capacity, seed=1, time_limit_s=0.05).status != "LIMIT" or len(blocks) > 6


@given(instances(9))
@settings(max_examples=25)
def test_blocks_share_a_section_exactly_when_they_meet(instance: tuple[list[Block], int]) -> None:
    blocks, _ = instance
    spans = cut(blocks).spans
    for i, one in enumerate(blocks):
        assert 0 <= spans[i][0] < spans[i][1] <= cut(blocks).count
        for j, other in enumerate(blocks):
            together = spans[i][0] < spans[j][1] and spans[j][0] < spans[i][1]
            assert together == meet(one, other)


@pytest.mark.slow
@settings(max_examples=150)
@given(instances(8), st.sampled_from(RULES))
def test_larger_instances_agree_with_brute_force(instance: tuple[list[Block], int], rule: CornerRule) -> None:
    blocks, capacity = instance
    offsets = CanonicalSearch(blocks, capacity).run(View(range(len(blocks)), rule), 10**6)
    assert (offsets is not None) == brute_force(blocks, capacity)
