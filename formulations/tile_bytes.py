"""Bytes of tiles that are under way: whether all of them can end, and where their buffers lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.formulations.problem import Problem

Taken = tuple[tuple[int, int, int], ...]
"""Buffers that are alive, as (address, end of it, position), ascending."""

Tile = tuple[tuple[int, int, int], ...]
"""The ops of a tile, each as line, place in it and position, in an order in which they can run."""


class Owned:
    """Which states are safe: where the tiles that hold bytes can end one after the other.

    A buffer is owned if one tile alone uses it. Others count from when they begin to live.

    Parameters
    ----------
    place
        Line and place in it of every op.
    """

    def __init__(self, problem: Problem, place: Mapping[int, tuple[int, int]]) -> None:
        users = [tuple(dict.fromkeys(problem.op_index[name] for name in b.ops)) for b in problem.buffers]
        moving = [not b.always and not b.from_start and b.occupied_bytes > 0 for b in problem.buffers]
        tiles = [{(problem.ops[i].task, problem.ops[i].tile) for i in of} for of in users]
        owned = {
            b for b, buffer in enumerate(problem.buffers) if moving[b] and len(tiles[b]) == 1 and not buffer.to_end
        }
        members: dict[tuple[str, int], list[int]] = {}
        for i in problem.topological_order:
            if any(b in owned for b in problem.op_buffers[i]):
                members.setdefault((problem.ops[i].task, problem.ops[i].tile), []).append(i)
        self._tiles: list[Tile] = [tuple((*place[i], i) for i in ops) for ops in members.values()]
        self._of_op = [tuple(b for b in of if b in owned) for of in problem.op_buffers]
        self._bytes = [b.occupied_bytes for b in problem.buffers]
        self._others = [
            (b, tuple(place[i] for i in users[b]), problem.buffers[b].to_end)
            for b in range(len(users))
            if b not in owned and moving[b]
        ]
        taken = sum(b.occupied_bytes for b in problem.buffers if b.always or b.from_start)
        self._room = problem.scratchpad.available_bytes - taken
        self._known: dict[tuple[int, ...], bool] = {}
        self._asked: list[dict[tuple[bool, ...], tuple[int, int]]] = [{} for _ in self._tiles]

    def can_end(self, begun: tuple[int, ...]) -> bool:
        """Whether, with so many ops of every line begun, nobody needs to wait for bytes for ever."""
        known = self._known.get(begun)
        if known is None:
            known = self._known[begun] = self._one_by_one(begun)
        return known

    def _one_by_one(self, begun: tuple[int, ...]) -> bool:
        room = self._room
        for b, places, to_end in self._others:
            live = [begun[line] > k for line, k in places]
            if any(live) and (to_end or not all(live)):
                room -= self._bytes[b]
        wishes = []
        for tile, asked in zip(self._tiles, self._asked, strict=True):
            under_way = tuple([begun[line] > k for line, k, _ in tile])
            if True in under_way and False in under_way:
                if under_way not in asked:
                    asked[under_way] = self._held_and_peak(tile, begun)
                held, peak = asked[under_way]
                room -= held
                if held:
                    wishes.append((peak - held, held))
        if room < 0:
            return False
        for wish, held in sorted(wishes):
            if wish > room:
                return False
            room += held
        return True

    def _held_and_peak(self, tile: Tile, begun: tuple[int, ...]) -> tuple[int, int]:
        """Return what a tile holds once all that has begun of it is over, and the most that it holds from then on."""
        users_left: dict[int, int] = {}
        for _, _, i in tile:
            for b in self._of_op[i]:
                users_left[b] = users_left.get(b, 0) + 1
        alive: set[int] = set()
        held = 0

        def run(i: int) -> int:
            nonlocal held
            for b in self._of_op[i]:
                if b not in alive:
                    alive.add(b)
                    held += self._bytes[b]
            most = held
            for b in self._of_op[i]:
                users_left[b] -= 1
                if users_left[b] == 0:
                    held -= self._bytes[b]
            return most

        for line, k, i in tile:
            if begun[line] > k:
                run(i)
        now = held
        return now, max([now, *(run(i) for line, k, i in tile if begun[line] <= k)])


class Layout:
    """Where buffers look for an address when they begin to live: the lowest one that is free, or the highest.

    ``from_top`` are the buffers that look from the top down. What is there from the start, or pinned, has no layout.
    """

    def __init__(self, problem: Problem, from_top: frozenset[int]) -> None:
        self._top = problem.scratchpad.available_bytes
        self._from_top = from_top
        self._bytes = [b.occupied_bytes for b in problem.buffers]
        self._align = [b.align_bytes for b in problem.buffers]

    def place(self, new: list[int], taken: Taken) -> tuple[Taken, Taken] | None:
        """Return the addresses of ``new`` buffers, and all that is taken then; None where one finds none."""
        found: list[tuple[int, int, int]] = []
        for b in sorted(new, key=lambda b: -self._bytes[b]):
            at = self._highest(b, taken) if b in self._from_top else self._lowest(b, taken)
            if at is None:
                return None
            one = (at, at + self._bytes[b], b)
            found.append(one)
            taken = tuple(sorted((*taken, one)))
        return tuple(found), taken

    def _lowest(self, b: int, taken: Taken) -> int | None:
        size, align, at = self._bytes[b], self._align[b], 0
        for low, high, _ in taken:
            if at + size <= low:
                return at
            at = -(-high // align) * align
        return at if at + size <= self._top else None

    def _highest(self, b: int, taken: Taken) -> int | None:
        size, align, top = self._bytes[b], self._align[b], self._top
        for low, high, _ in reversed(taken):
            at = (top - size) // align * align
            if at >= high:
                return at
            top = low
        at = (top - size) // align * align
        return at if at >= 0 else None
