"""Hazards against a count of bytes one by one, and orders against a memory with a cache that does what it may."""

from __future__ import annotations

import random
from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from hexloom.formulations.problem import Access, Mode, Op, Problem, Region
from hexloom.optimizer import overlaps
from hexloom.optimizer.check_regions import _meetings
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.hazards import find_hazards, resolve
from hexloom.optimizer.maintenance import needed

LINE = 128
Regions = tuple[Region, ...]


@st.composite
def region(draw: st.DrawFn) -> Region:
    width = draw(st.integers(1, 90))
    rows = draw(st.integers(1, 5))
    return Region(
        tensor=draw(st.sampled_from("xxy")),
        kind=draw(st.sampled_from(("read", "write"))),
        bypass=draw(st.booleans()),
        offset_bytes=draw(st.integers(0, 400)),
        row_bytes=width,
        rows=rows,
        stride_bytes=draw(st.sampled_from((width, width + 37, 128 + width // 128 * 128, 160))) if rows > 1 else 0,
    )


def accesses(most: int = 6) -> st.SearchStrategy[list[Regions]]:
    return st.lists(st.lists(region(), max_size=2).map(tuple), min_size=2, max_size=most)


def bytes_of(r: Region) -> set[tuple[str, int]]:
    starts = [r.offset_bytes + k * r.stride_bytes for k in range(r.rows)]
    return {(r.tensor, at) for start in starts for at in range(start, start + r.row_bytes)}


def lines_of(r: Region) -> set[tuple[str, int]]:
    return {(tensor, at // LINE) for tensor, at in bytes_of(r)}


def counted(ops: list[Regions]) -> set[tuple[int, int, Region, Region, str]]:
    """Find hazards by looking at every byte of every two regions."""
    found = set()
    for (a, of_a), (b, of_b) in combinations(enumerate(ops), 2):
        for one in of_a:
            for other in of_b:
                kinds = one.kind, other.kind
                if "write" not in kinds:
                    continue
                if bytes_of(one) & bytes_of(other):
                    kind = {("write", "read"): "RAW", ("read", "write"): "WAR"}.get(kinds, "WAW")
                    found.add((a, b, one, other, kind))
                elif kinds == ("write", "write") and one.bypass != other.bypass and lines_of(one) & lines_of(other):
                    found.add((a, b, one, other, "false sharing"))
    return found


@given(accesses())
def test_hazards_are_those_that_bytes_show(ops: list[Regions]) -> None:
    found = find_hazards(ops)
    assert {(h.first, h.second, *h.regions, h.kind) for h in found} == counted(ops)


@given(accesses())
def test_row_by_row_the_same_are_found(ops: list[Regions]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlaps, "_by_extents", overlaps._by_rows)
        found = find_hazards(ops)
    assert {(h.first, h.second, *h.regions, h.kind) for h in found} == counted(ops)


@given(accesses())
def test_the_checker_finds_the_same_by_its_own_arithmetic(ops: list[Regions]) -> None:
    names = [str(k) for k in range(len(ops))]
    touching = [(name, of) for name, of in zip(names, ops, strict=True) if of]
    problem = Problem(
        ops=tuple(Op(name=name, modes=(Mode(latency_ticks=1),)) for name in names),
        accesses=tuple(Access(ops=(name,), regions=of) for name, of in touching),
    )
    met = set()
    for one, other, _ in _meetings(problem):
        pair = sorted((int(touching[t.access][0]), str(t.region)) for t in (one, other))
        met.add(tuple(pair))
    expected = {tuple(sorted(((a, str(one)), (b, str(other))))) for a, b, one, other, _ in counted(ops)}
    assert met == expected


# --- a memory that does what it may -------------------------------------------------------------------------


class Step(NamedTuple):
    """An op or a maintenance op, by the value that it writes."""

    value: int
    regions: Regions


class Memory:
    """DDR, and a cache whose lines come and go when ``chance`` says so; without a chance there is no cache."""

    def __init__(self, chance: random.Random | None) -> None:
        self.chance = chance
        self.ddr: dict[tuple[str, int], int] = {}
        self.cache: dict[tuple[str, int], dict[int, int]] = {}
        self.dirty: set[tuple[str, int]] = set()

    def line(self, line: tuple[str, int]) -> dict[int, int]:
        """Fetch a line unless it is there."""
        tensor, number = line
        held = range(number * LINE, (number + 1) * LINE)
        return self.cache.setdefault(line, {at: self.ddr.get((tensor, at), 0) for at in held})

    def write_back(self, line: tuple[str, int]) -> None:
        if line in self.dirty:
            self.dirty.discard(line)
            self.ddr.update({(line[0], at): value for at, value in self.cache[line].items()})

    def disturb(self) -> None:
        """Evict some lines and fetch others."""
        if self.chance is None:
            return
        for line in [("x", k) for k in range(10)] + [("y", k) for k in range(10)]:
            turn = self.chance.random()
            if turn < 0.2:
                self.write_back(line)
                self.cache.pop(line, None)
            elif turn < 0.4:
                self.line(line)

    def run(self, step: Step) -> list[int]:
        """Do what a step does; return what it read."""
        seen = []
        for r in sorted(step.regions, key=lambda r: r.kind != "read"):
            if r.kind in ("clean", "invalidate"):
                for line in lines_of(r):
                    self.write_back(line)
                    if r.kind == "invalidate":
                        self.cache.pop(line, None)
                continue
            for tensor, at in sorted(bytes_of(r)):
                line = tensor, at // LINE
                past = r.bypass or self.chance is None
                if r.kind == "read":
                    seen.append(self.ddr.get((tensor, at), 0) if past else self.line(line)[at])
                elif past:
                    self.ddr[tensor, at] = step.value
                else:
                    self.line(line)[at] = step.value
                    self.dirty.add(line)
        return seen


def run(steps: list[Step], order: list[int], chance: random.Random | None) -> tuple[dict[int, list[int]], dict]:
    memory = Memory(chance)
    seen = {}
    for k in order:
        memory.disturb()
        seen[k] = memory.run(steps[k])
    memory.disturb()
    for line in list(memory.dirty):
        memory.write_back(line)
    return seen, {at: value for at, value in memory.ddr.items() if value}


def any_order(before: list[set[int]], chance: random.Random) -> list[int]:
    order: list[int] = []
    while len(order) < len(before):
        order.append(chance.choice([k for k in range(len(before)) if k not in order and before[k] <= set(order)]))
    return order


def one_path_each(ops: list[Regions]) -> list[Regions]:
    """Take the path of the first region for all of an op: an op that meets itself on two paths is nobody's hazard."""
    return [tuple(r.model_copy(update={"bypass": of[0].bypass}) for r in of) for of in ops]


@given(accesses(5), st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_every_order_that_is_left_gives_the_same_bytes(ops: list[Regions], shuffle: random.Random, seed: int) -> None:
    ops = one_path_each(ops)
    rank = list(range(len(ops)))
    shuffle.shuffle(rank)
    edges = [(a, b) for a in rank for b in rank if rank[a] < rank[b] and shuffle.random() < 0.2]
    before = [{a for a, b in edges if b == k} for k in range(len(ops))]
    try:
        resolved = resolve([str(k) for k in range(len(ops))], before, ops, "order")
    except InvalidInputError:  # edges against the order of the file can close a cycle
        reject()
    steps = [Step(k + 1, of) for k, of in enumerate(ops)]
    for first, second in resolved.edges:
        before[second].add(first)
    for upkeep in needed(resolved.crossing):
        kept = tuple(r.model_copy(update={"kind": upkeep.kind, "bypass": False}) for r in upkeep.regions)
        for follower in upkeep.followers:
            before[follower].add(len(steps))
        steps.append(Step(0, kept))
        before.append({upkeep.writer})
    chance = random.Random(seed)
    expected = run(steps, any_order(before, chance), None)
    for _ in range(3):
        assert run(steps, any_order(before, chance), chance) == expected
