"""What the search over events needs to know of a problem, in plain tuples and bit masks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Mode, Problem

from hexloom.formulations.heads_tails import Grid, engine_demands


class Ask(NamedTuple):
    """Lanes that a mode holds: ``units`` of the ``among`` lanes from ``first`` on, or those of ``ids``, for ``ticks``.

    A lane is a unit of an engine that is no pipe. A unit without a thread is held until the result is known: only
    that can be observed.
    """

    first: int
    among: int
    units: int
    ids: tuple[int, ...] | None
    ticks: int


class Way(NamedTuple):
    """A mode: ``asks`` has None for a use that holds no lane; ``owner`` is -1 for what is no transfer."""

    asks: tuple[Ask | None, ...]
    duration: int
    owner: int
    issue: int
    latency: int
    poll: int
    pipes: tuple[tuple[int, int, int], ...]
    """(pipe, units, ticks)."""
    shares: tuple[tuple[int, int], ...]
    """(share, amount), held until the end is known."""


class Load(NamedTuple):
    """Work on one engine: (op, energy, trail and tail, lead), the longest tail first.

    ``lanes``, a pipe or a share serve it.
    """

    lanes: tuple[int, ...]
    pipe: int
    share: int
    units: int
    rows: tuple[tuple[int, int, int, int], ...]


class Tables:
    """Numbers of a problem.

    ``monotone`` says that no two transfers can ever want the same pipe unit. Then all times are longest paths over
    the orders of the queues, and delaying an action can never pay.
    """

    def __init__(self, problem: Problem, ht: HeadsTails) -> None:
        self.problem = problem
        self.n = n = len(problem.ops)
        self.full = (1 << n) - 1
        self.first_lane: dict[str, int] = {}
        self.group: list[int] = []
        self.groups: list[tuple[int, int]] = []
        self.pipe_of: dict[str, int] = {}
        self.pipe_units: list[int] = []
        self.share_of = {name: k for k, name in enumerate(problem.shares)}
        self.share_units = list(problem.shares.values())
        for engine in problem.engines:
            if engine.kind == "share":
                continue
            if engine.kind == "pipe":
                self.pipe_of[engine.name] = len(self.pipe_units)
                self.pipe_units.append(engine.units)
                continue
            self.first_lane[engine.name] = len(self.group)
            self.groups.append((len(self.group), engine.units))
            self.group += [len(self.groups) - 1] * engine.units
        self.lane_count = len(self.group)
        self._kinds = {engine.name: engine for engine in problem.engines}
        self.ways: list[list[Way | None]] = [[self._way(mode) for mode in op.modes] for op in problem.ops]
        self.before = [sum(1 << p for p in preds) for preds in problem.predecessors]
        self.topological = problem.topological_order
        self.special = self._special()
        self.deadline: list[float | None] = [op.deadline_ticks for op in problem.ops]
        self.tail = [int(t) for t in ht.tail]
        self.shortest = [int(d) for d in ht.duration]
        self.loads = self._loads(problem)
        self.monotone = self._never_contended()
        # Zero-byte buffers need an address but hold none.
        self.size = [b.occupied_bytes for b in problem.buffers]
        self.capacity = problem.scratchpad.available_bytes
        # What stays to the end has one user more, who is never over.
        self.users = [sum(1 << problem.op_index[name] for name in set(b.ops)) | b.to_end << n for b in problem.buffers]
        self.from_start = [b for b, buffer in enumerate(problem.buffers) if buffer.from_start and self.size[b]]
        self.buffers_of = [
            tuple(b for b in mine if not problem.buffers[b].always and self.size[b] > 0) for mine in problem.op_buffers
        ]
        self.lane_users = self._lane_users()
        self.below = self._below()
        self.alone = self._alone()

    def _way(self, mode: Mode) -> Way | None:
        """Return the mode in numbers; None when it asks for more units than there are."""
        if any(use.ticks > 0 and use.units > self._kinds[use.engine].units for use in mode.uses):
            return None
        shares = tuple((self.share_of[u.engine], u.units) for u in self.problem.share_uses(mode))
        if mode.dma is not None:
            dma = mode.dma
            pipes = tuple(
                (self.pipe_of[u.engine], u.units, u.ticks)
                for u in mode.uses
                if u.ticks > 0 and u.engine in self.pipe_of
            )
            owner = self.first_lane[dma.owner_engine] + dma.owner_unit
            none: tuple[Ask | None, ...] = (None,) * len(mode.uses)
            times = mode.duration_ticks, owner, dma.issue_ticks, mode.latency_ticks, dma.poll_ticks
            return Way(none, *times, pipes, shares)
        asks: list[Ask | None] = []
        for use in mode.uses:
            if use.ticks == 0 or use.engine in self.share_of:
                asks.append(None)
                continue
            engine = self._kinds[use.engine]
            held = mode.overhead_ticks + use.ticks if engine.kind == "worker" else mode.duration_ticks
            asks.append(Ask(self.first_lane[use.engine], engine.units, use.units, use.unit_ids, held))
        return Way(tuple(asks), mode.duration_ticks, -1, 0, mode.latency_ticks, 0, (), shares)

    def _special(self) -> int:
        """Return the lanes that some mode names; all others of an engine are alike."""
        found = 0
        for ways in self.ways:
            for way in ways:
                if way is None:
                    continue
                if way.owner >= 0:
                    found |= 1 << way.owner
                for ask in way.asks:
                    if ask is not None and ask.ids is not None:
                        found |= sum(1 << (ask.first + u) for u in ask.ids)
        return found

    def _loads(self, problem: Problem) -> list[Load]:
        found = []
        for demand in engine_demands(problem, Grid(problem, "none")):
            engine = self._kinds[demand.name]
            rows = sorted(
                (
                    (int(i), int(energy), self.tail[int(i)] + int(trail), int(lead))
                    for i, energy, trail, lead in zip(demand.ops, demand.energy, demand.trail, demand.lead, strict=True)
                ),
                key=lambda row: (-row[2], row[0]),
            )
            pipe = self.pipe_of.get(engine.name, -1)
            first = self.first_lane.get(engine.name, -1)
            lanes = tuple(range(first, first + engine.units)) if first >= 0 else ()
            found.append(Load(lanes, pipe, self.share_of.get(engine.name, -1), engine.units, tuple(rows)))
        return found

    def _never_contended(self) -> bool:
        """Whether the transfers that could overlap never want more of a pipe than there is."""
        reach = [0] * self.n
        for i in self.topological:
            for p in self.problem.predecessors[i]:
                reach[i] |= reach[p] | 1 << p
        for pipe, units in enumerate(self.pipe_units):
            most: Counter[int] = Counter()
            for i, ways in enumerate(self.ways):
                for way in ways:
                    for used, asked, _ in way.pipes if way is not None else ():
                        if used == pipe:
                            most[i] = max(most[i], asked)
            chain = all(reach[i] >> j & 1 or reach[j] >> i & 1 for i in most for j in most if i != j)
            if most.total() > units and not chain:
                return False
        return True

    def _lane_users(self) -> list[int]:
        """For each lane the ops that some mode could put there."""
        found = [0] * self.lane_count
        for i, ways in enumerate(self.ways):
            for way in ways:
                if way is None:
                    continue
                if way.owner >= 0:
                    found[way.owner] |= 1 << i
                for ask in way.asks:
                    if ask is None:
                        continue
                    for u in ask.ids if ask.ids is not None else range(ask.among):
                        found[ask.first + u] |= 1 << i
        return found

    def _below(self) -> list[int]:
        """For each op itself and all that follows it."""
        found = [1 << i for i in range(self.n)]
        for i in reversed(self.topological):
            for after in self.problem.successors[i]:
                found[i] |= found[after]
        return found

    def _alone(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return ops of one mode without buffers or shares, which have no choice of lanes: the op and its lanes."""
        found = []
        for i, ways in enumerate(self.ways):
            way = ways[0]
            if len(ways) > 1 or way is None or way.owner >= 0 or self.buffers_of[i] or way.shares:
                continue
            lanes: list[int] = []
            for ask in way.asks:
                if ask is not None:
                    ids = ask.ids if ask.ids is not None else range(ask.among)
                    lanes += [ask.first + u for u in ids] if ask.units == len(ids) else [-1]
            if -1 not in lanes:
                found.append((i, tuple(lanes)))
        return found
