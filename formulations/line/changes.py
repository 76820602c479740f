"""Small changes of an order: an op earlier or later, ops of the side elsewhere, two tiles of a task exchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from hexloom.formulations.line.order import Line
    from hexloom.formulations.line.tables import Tables
    from hexloom.formulations.problem import Problem

Change = tuple[list[int], int, int]
"""The new order, and the first and the last place (one behind it) at which it differs from the old one."""

AT_STALL = 0.7
"""Part of the changes that happen where the busiest engine waits, or shortly before."""

BEFORE = 5
"""How far before: so many times the mean time between its jobs at most."""

EXCHANGED, MOVED_AWAY = 0.1, 0.4
"""Parts of the changes that exchange tiles, and of those of ops without neighbours that move them far."""

TOGETHER = 4
"""So many ops in a row, none of which waits for another, may move away together."""

FAR, NEAR = 6, 3
"""Mean distance of moves, of several ops and of one."""


class Changes:
    """Draws changes for the schedule that it last had a look at."""

    def __init__(self, problem: Problem, tables: Tables, draw: random.Random) -> None:
        self._problem, self._tables, self._random = problem, tables, draw
        listed = set(tables.listed)
        self._before = self._reach(problem.predecessors, listed)
        self._behind = self._reach(problem.successors, listed)
        self._alike: dict[tuple[str, str], list[int]] = {}
        self._tile: dict[tuple[str, int], list[int]] = {}
        for i in tables.listed:
            op = problem.ops[i]
            self._alike.setdefault((op.task, op.stage), []).append(i)
            self._tile.setdefault((op.task, op.tile), []).append(i)
        self._hot = [i for i, hot in enumerate(tables.hot) if hot]
        self._stalls: list[tuple[int, int]] = []
        self._all = 0
        self._start: Sequence[int] = ()
        self._window = 0

    def look(self, line: Line) -> None:
        """Find out where the busiest engine waits."""
        self._start = line.start
        self._stalls = []
        at = self._problem.entry_ticks
        jobs = sorted((line.start[i], line.known[i]) for i in self._hot)
        for begin, end in jobs:
            if begin > at:
                self._stalls.append((begin - at, begin))
            at = max(at, end)
        self._all = sum(length for length, _ in self._stalls)
        self._window = BEFORE * line.end // max(1, len(jobs))

    def draw(self, order: Sequence[int]) -> Change | None:
        """Return a change of ``order``, or None where the one drawn changes nothing."""
        place = self._place(order)
        i = order[place]
        if self._random.random() < EXCHANGED:
            return self._exchange(order, i)
        if not self._before[i] and not self._behind[i] and self._random.random() < MOVED_AWAY:
            return self._away(order, place)
        return self._shift(order, place)

    def _reach(self, edges: Sequence[Sequence[int]], listed: set[int]) -> list[set[int]]:
        """Return for every op the next listed ones along ``edges``."""
        found = []
        for of in edges:
            near: set[int] = set()
            stack, seen = list(of), set(of)
            while stack:
                i = stack.pop()
                if i in listed:
                    near.add(i)
                    continue
                stack += [j for j in edges[i] if j not in seen]
                seen.update(edges[i])
            found.append(near)
        return found

    def _place(self, order: Sequence[int]) -> int:
        draw = self._random
        if self._stalls and draw.random() < AT_STALL:
            rest = draw.random() * self._all
            for length, until in self._stalls:
                rest -= length
                if rest <= 0:
                    since = until - draw.random() ** 2 * self._window
                    near = [k for k, i in enumerate(order) if since <= self._start[i] <= until]
                    if near:
                        return draw.choice(near)
                    break
        return draw.randrange(len(order))

    def _away(self, order: Sequence[int], place: int) -> Change | None:
        """Move an op that no other listed one waits for, and some like it behind it, elsewhere."""
        count = 1
        while (
            count < TOGETHER
            and place + count < len(order)
            and not self._before[order[place + count]]
            and not self._behind[order[place + count]]
            and self._random.random() < 0.8
        ):
            count += 1
        rest = [*order[:place], *order[place + count :]]
        to = self._random.randrange(len(rest) + 1) if self._random.random() < 0.5 else place + self._step(FAR)
        to = max(0, min(len(rest), to))
        if to == place:
            return None
        rest[to:to] = order[place : place + count]
        return rest, min(place, to), max(place, to) + count

    def _shift(self, order: Sequence[int], place: int) -> Change | None:
        """Move an op a few places, not past one that it waits for or that waits for it."""
        i, step = order[place], self._step(NEAR)
        to = place
        against = self._behind[i] if step > 0 else self._before[i]
        towards = 1 if step > 0 else -1
        while to != place + step and 0 <= to + towards < len(order) and order[to + towards] not in against:
            to += towards
        if to == place:
            return None
        rest = [*order[:place], *order[place + 1 :]]
        rest.insert(to, i)
        return rest, min(place, to), max(place, to) + 1

    def _exchange(self, order: Sequence[int], i: int) -> Change | None:
        """Let another tile of the task take the place of the tile of op ``i``, and the other way round."""
        ops = self._problem.ops
        j = self._random.choice(self._alike[ops[i].task, ops[i].stage])
        one, two = (self._tile[ops[k].task, ops[k].tile] for k in (i, j))
        stages = [[ops[k].stage for k in of] for of in (one, two)]
        if ops[i].tile == ops[j].tile or stages[0] != stages[1] or len(set(stages[0])) < len(one):
            return None
        other = dict(zip((*one, *two), (*two, *one), strict=True))
        places = [k for k, x in enumerate(order) if x in other]
        rest = [other.get(x, x) for x in order]
        return rest, places[0], places[-1] + 1

    def _step(self, mean: int) -> int:
        return int(1 + self._random.expovariate(1 / mean)) * self._random.choice((-1, 1))
