"""Beam search over tile counters: orders of equal tiles that no list schedule finds.

A list schedule begins whatever can begin. Where ops that need all of an engine take turns with ops that need a part of
it, or where bytes are scarce, it pays to wait until several can go together. So at every moment the most promising
states are followed, and from each all that may begin, or not. States of about one time are compared with each other:
by when all could be over, and by how much work is left.
"""

from __future__ import annotations

import heapq
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision
from hexloom.formulations.flows import share_flows
from hexloom.formulations.packing.fixed_times import pack
from hexloom.formulations.tile_bytes import Layout
from hexloom.formulations.tile_counters import TileCounters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem
    from hexloom.formulations.tile_counters import State, Step

STATES_PER_SECOND = 4000
"""States that are followed in a second, on a slow core: what a limit in seconds counts for."""

WIDTHS = (8, 16, 32, 64, 128, 256, 512, 1024)
"""States that are followed at one time: each search is twice as wide as the one before."""

NARROW = (2, 4)
"""Widths before these where loops were unrolled: such searches are soon over, and what they find prunes the others."""

SPREADS = ((0.05, 0.0), (0.0, 0.3), (0.3, 0.0), (0.0, 0.1))
"""What the work of engines and the time of ops that are left count beside the bound; each search takes the next."""

MOMENTS = 4000
"""Into so many parts the time up to a makespan is cut at most; states of one part are compared."""

MOST_LINES = 24
"""Stages above which there are too many sets of ops that may begin."""


LEAST_TILES = 4
"""Ops of a stage, on average, below which there are no tiles to speak of."""


@dataclass(slots=True)
class _Node:
    """A state, and the step that leads to it.

    ``waited`` are the states after which nothing begins before this one: once it is there they are ``gone``.
    """

    state: State
    parent: _Node | None
    step: Step | None
    waited: list[_Node] = field(default_factory=list)
    gone: bool = False


def has_lines(problem: Problem) -> bool:
    """Whether stages are few and tiles many, and the counters know all that is asked of them.

    That is one scratchpad with whole buffers, and ops that take time. Ops without labels are no tiles: nothing says
    their order, and the search would only follow the one in which they are written.
    """
    lines = {(op.task, op.stage) for op in problem.ops}
    tiles = {(op.task, op.stage, op.tile) for op in problem.ops}
    if len(lines) > MOST_LINES or len(tiles) < LEAST_TILES * len(lines) or problem.pools or problem.wholes:
        return False
    return all(op.modes[m].latency_ticks > 0 for op, m in zip(problem.ops, problem.fastest_modes, strict=True))


def layouts(problem: Problem) -> tuple[Layout | None, ...]:
    """Return the ways to find addresses that are tried in turn: one that only counts bytes where that is enough.

    It is also for buffers that are pinned or last from one end to the other: packing knows what to do with them.
    """
    if problem.fits_side_by_side or any(
        b.address is not None or b.from_start or b.to_end or b.always for b in problem.buffers
    ):
        return (None,)
    task = [problem.ops[problem.op_index[b.ops[0]]].task if b.ops else "" for b in problem.buffers]
    size = sorted(b.occupied_bytes for b in problem.buffers)[len(problem.buffers) // 2]
    tops: tuple[frozenset[int], ...] = (
        frozenset(),
        frozenset(b for b, name in enumerate(task) if name != task[0]),
        frozenset(b for b, buffer in enumerate(problem.buffers) if buffer.occupied_bytes > size),
    )
    return tuple(Layout(problem, top) for top in dict.fromkeys(tops))


class TileBeam:
    """Searches of growing width for a decision that ends before ``below`` ticks."""

    def __init__(self, problem: Problem, heads_tails: HeadsTails, below: float) -> None:
        self.problem = problem
        self.below = below
        self.followed = 0
        self.interrupted = False
        self._turn = 0
        self._states, self._until = 0, 0.0
        self._counters = TileCounters(problem, heads_tails)
        self._layouts = layouts(problem)

    def run(self, seconds: float, enough: float, *, counted: bool, widths: Sequence[int] = WIDTHS) -> Decision | None:
        """Return the best decision found in ``seconds``, None if there is none below the limit.

        It ends early with one that takes ``enough`` ticks or less. With ``counted`` seconds are so many states.
        """
        self._states = int(seconds * STATES_PER_SECOND) if counted else sys.maxsize
        self._until = float("inf") if counted else time.monotonic() + seconds
        best: Decision | None = None
        try:
            for width in widths:
                for spread in SPREADS:
                    if self._is_over() or self.below <= enough:
                        return best
                    found = self._search(width, spread, self._layouts[self._turn % len(self._layouts)])
                    self._turn += 1
                    if found is not None:
                        best = found
        except KeyboardInterrupt:
            self.interrupted = True
        return best

    def _is_over(self) -> bool:
        return self.followed >= self._states or time.monotonic() >= self._until

    def _search(self, width: int, spread: tuple[float, float], layout: Layout | None) -> Decision | None:
        """Return a decision that ends before `below`, which then becomes its end."""
        counters = self._counters
        part = max(1, int(self.below / MOMENTS)) if self.below < float("inf") else 1
        waiting: dict[int, dict[object, _Node]] = {}
        followed: dict[tuple[int, ...], list[_Node]] = {}
        first = _Node(counters.first, None, None)
        waiting[first.state.now // part] = {first.state: first}
        times = [first.state.now // part]
        while times and not self._is_over():
            at = heapq.heappop(times)
            ranked: list[tuple[float, int, _Node]] = []
            for node in waiting.pop(at).values():
                earliest, work, ticks = counters.bound(node.state)
                if earliest < self.below:
                    ranked.append((earliest + spread[0] * work + spread[1] * ticks, len(ranked), node))
            ranked.sort()
            room = width
            for _, _, node in ranked:
                if not room:
                    break
                for earlier in node.waited:
                    earlier.gone = True
                others = followed.setdefault(node.state.begun, [])
                if any(not other.gone and counters.no_later(other.state, node.state) for other in others):
                    continue
                others.append(node)
                room -= 1
                self.followed += 1
                if counters.over(node.state):
                    found = self._decision(node, layout)
                    if found is None:
                        return None  # nor would those that end with the same lives a moment later
                    self.below = node.state.now
                    return found
                for step in counters.steps(node.state, layout):
                    after = step.state
                    key = after.now // part
                    group = waiting.get(key)
                    if group is None:
                        group = waiting[key] = {}
                        heapq.heappush(times, key)
                    then = group.setdefault((after.begun, after.running, after.now), _Node(after, node, step))
                    if not step.begins:
                        then.waited.append(node)
        return None

    def _decision(self, last: _Node, layout: Layout | None) -> Decision | None:
        """Return the decision that leads to a state, None where its buffers find no addresses."""
        problem = self.problem
        path: list[Step] = []
        node: _Node | None = last
        while node is not None and node.step is not None:
            path.append(node.step)
            node = node.parent
        free = [sorted(ids) for _, ids in self._counters.units_of_lane]
        held: dict[int, list[tuple[int, int]]] = {}
        units: list[tuple[tuple[int, ...], ...]] = [() for _ in problem.ops]
        actions: list[int] = []
        moments: list[int] = []
        modes = problem.fastest_modes
        for step in reversed(path):
            for one in sorted(step.begins, key=lambda one: problem.ops[one.op].modes[modes[one.op]].dma is None):
                mine = held[one.op] = [
                    (lane, free[lane].pop(0)) for lane, count in one.holds if free[lane] for _ in range(count)
                ]
                mode = problem.ops[one.op].modes[modes[one.op]]
                names = self._counters.units_of_lane
                units[one.op] = tuple(
                    () if use.ticks == 0 else tuple(sorted(u for lane, u in mine if names[lane][0] == use.engine))
                    for use in mode.uses
                )
                actions.append(one.op)
                moments.append(one.op)
            for i in step.ends:
                for lane, unit in held.pop(i):
                    free[lane].append(unit)
                    free[lane].sort()
                moments.append(~i)
                if problem.ops[i].modes[modes[i]].dma is not None:
                    actions.append(~i)
        if layout is None:
            offsets = pack(problem, self._lifetimes(moments))
        else:
            at = {b: low for step in path for one in step.begins for low, _, b in one.taken}
            offsets = tuple(at.get(b, 0) for b in range(len(problem.buffers)))
        if offsets is None:
            return None
        return Decision(modes, tuple(units), tuple(actions), offsets, (), share_flows(problem, modes, units, moments))

    def _lifetimes(self, moments: list[int]) -> list[tuple[int, int]]:
        rank = {moment: k for k, moment in enumerate(moments)}
        found = []
        for buffer in self.problem.buffers:
            users = [self.problem.op_index[name] for name in buffer.ops]
            born = -1 if buffer.from_start else min((rank[i] for i in users), default=0)
            died = len(moments) if buffer.to_end else max((rank[~i] for i in users), default=0)
            found.append((born, died))
        return found
