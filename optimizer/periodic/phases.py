"""From a mix of bodies to phases, one after the other, and to the decision that they are for so many iterations.

The times of the modulo schedules only give an order: the plan runs by its waits, and the simulator says how long it
takes. A phase begins where its predecessor has issued its last iteration, so that its first stages fill what the last
stages of the other leave, or later where bytes are handed over.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.decision import Decision
from hexloom.formulations.flows import moments_of, share_flows
from hexloom.formulations.periodic.corun import copy_name
from hexloom.formulations.periodic.modulo import length_of
from hexloom.optimizer.periodic.roll import FINER, START, WAIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexloom.formulations.mode import Use
    from hexloom.formulations.periodic.corun import Body, Mix
    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.periodic.roll import Key, Rolled


@dataclass(frozen=True, slots=True)
class Phase:
    """A body that runs again and again: ``times`` iterations of every task in each run, ``count`` in all.

    Its first run begins ``later_parts`` of ticks after the one that its predecessor would have made next.
    """

    body: Body
    tasks: tuple[str, ...]
    count: tuple[int, ...]
    later_parts: int = 0

    @property
    def times(self) -> dict[str, int]:
        """Iterations of every task in one run, of those that it has at all."""
        return {task: n for task, n in zip(self.tasks, self.body.times, strict=True) if n}

    @property
    def runs(self) -> int:
        """How often the body runs; in the last runs some of its tasks may have no iterations left."""
        pairs = zip(self.count, self.body.times, strict=True)
        return max(-(-count // times) for count, times in pairs if times)

    def shortened(self, runs: int) -> Phase:
        """Return the phase without so many whole runs."""
        pairs = zip(self.count, self.body.times, strict=True)
        return replace(self, count=tuple(count - runs * times for count, times in pairs))

    @property
    def whole_runs(self) -> int:
        """Runs in which every task has all its iterations."""
        return min(c // t for c, t in zip(self.count, self.body.times, strict=True) if t)


def phases_of(mix: Mix, tasks: Sequence[str], trips: Sequence[int]) -> tuple[Phase, ...]:
    """Return the phases of ``mix``: bodies with the most tasks first, each the whole part of its runs.

    What is left of a task comes in the last phase that has it, so that every phase is one stretch of equal runs.
    """
    bodies = sorted(mix.runs, key=lambda run: (-sum(n > 0 for n in run[0].times), run[0].times))
    left = list(trips)
    phases = []
    for k, (body, runs) in enumerate(bodies):
        count = []
        for t, times in enumerate(body.times):
            last = times and not any(later.times[t] for later, _ in bodies[k + 1 :])
            mine = left[t] if last else min(left[t], times * int(runs))
            left[t] -= mine
            count.append(mine)
        if any(count):
            phases.append(Phase(body, tuple(tasks), tuple(count)))
    return tuple(phases)


class At(NamedTuple):
    """Where an iteration of a task is: phase, run of its body, and copy in it."""

    phase: int
    run: int
    copy: int


def iteration_places(phases: Sequence[Phase], task: str) -> list[At]:
    """Return the place of every iteration of ``task``, in their order."""
    found = []
    for p, phase in enumerate(phases):
        times = phase.times.get(task)
        if times:
            count = phase.count[phase.tasks.index(task)]
            found += [At(p, *divmod(j, times)) for j in range(count)]
    return found


class Unrolled:
    """The decision that ``phases`` are for ``problem``, whose ops are those of ``rolled``.

    Parameters
    ----------
    problem
        The problem of ``rolled``, with what the rule for channels adds to it.
    kept
        Addresses of the buffers that no body has as a ring of its own.
    strictly
        Whether all that a loop waits for comes before any of its iterations: buffers of both share bytes.
    """

    def __init__(
        self, rolled: Rolled, problem: Problem, phases: Sequence[Phase], kept: dict[int, int], *, strictly: bool
    ) -> None:
        self.strictly = strictly
        self.rolled, self.problem, self.phases, self.kept = rolled, problem, phases, kept
        self.places = {task: iteration_places(phases, task) for task in rolled.iterations}
        self.modes = problem.fastest_modes
        self.begins = self._begins()

    def decision(self) -> Decision:
        """Return modes, units, order and addresses.

        Raises
        ------
        PlanError
            From whoever makes the plan: where phases meet, bytes may be taken before they are free.
        """
        starts, ends = self._times()
        order = self._order(starts, ends)
        units = tuple(self._units(i) for i in range(len(self.problem.ops)))
        offsets = tuple(self._offset(b) for b in range(len(self.problem.buffers)))
        flows = share_flows(self.problem, self.modes, units, moments_of(self.problem, self.modes, order))
        return Decision(self.modes, units, order, offsets, self._guards(order, units, starts, ends), flows)

    def _guards(
        self,
        order: Sequence[int],
        units: Sequence[tuple[tuple[int, ...], ...]],
        starts: Mapping[int, int],
        ends: Mapping[int, int],
    ) -> tuple[tuple[int, int], ...]:
        """Return what paces bodies, and what keeps a phase from running beside the one before it.

        What comes first on every thread and unit waits for the last op of the phase before that is over by then.
        """
        phase_of = {i: self.places[place[0].task][place[1]].phase for i, place in enumerate(self.rolled.place) if place}
        first = [min((starts[i] for i, q in phase_of.items() if q == p), default=0) for p in range(len(self.phases))]
        guards = list(self._pace(starts, ends))
        seen: set[tuple[int, str, int]] = set()
        for p in range(1, len(self.phases)):
            over = [(starts[i], i) for i, q in phase_of.items() if q == p - 1 and ends[i] <= first[p]]
            anchor = max(over)[1]
            for i in order:
                lanes = {(p, *lane) for lane in self._lanes(i, units)} if i >= 0 and phase_of.get(i) == p else set()
                if lanes - seen:
                    seen |= lanes
                    guards.append((anchor, i))
        return tuple(guards)

    def _pace(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield, in paced bodies, who of the busiest engine is over before an op that waits for nobody of its run."""
        for p, phase in enumerate(self.phases):
            if not phase.body.paced:
                continue
            runs = run_of(self.rolled, self.phases, p)
            work = {i: self._busiest(i) for i in runs}
            most = max(work.values())
            first = min(runs[i][2] for i in runs)
            leader = min(runs[i][:2] for i in runs if work[i] == most and runs[i][2] == first)
            beats = sorted((ends[i], i) for i in runs if runs[i][:2] == leader)
            for i in runs:
                before = self.problem.predecessors[i]
                if runs[i][:2] != leader and not any(q in runs and runs[q][2] == runs[i][2] for q in before):
                    yield from _last_before(beats, starts[i], i)
            if phase.body.tied:
                yield from self._ties(runs, leader, starts, ends)

    def _ties(
        self,
        runs: Mapping[int, tuple[Key, int, int]],
        leader: tuple[Key, int],
        starts: Mapping[int, int],
        ends: Mapping[int, int],
    ) -> Iterator[tuple[int, int]]:
        """Yield, of all that nobody of its run waits for, who is over before the leader begins once more."""
        last: dict[tuple[Key, int], list[tuple[int, int]]] = {}
        for i in runs:
            after = self.problem.successors[i]
            if runs[i][:2] != leader and not any(q in runs and runs[q][2] == runs[i][2] for q in after):
                last.setdefault(runs[i][:2], []).append((ends[i], i))
        for over in last.values():
            over.sort()
            for i in runs:
                if runs[i][:2] == leader:
                    yield from _last_before(over, starts[i], i)

    def _busiest(self, i: int) -> int:
        """Return for how long an op holds all of some engine."""
        units = {engine.name: engine.units for engine in self.problem.engines}
        mode = self.problem.ops[i].modes[self.modes[i]]
        return max((use.ticks for use in mode.uses if use.units == units[use.engine]), default=0)

    def _lanes(self, i: int, units: Sequence[tuple[tuple[int, ...], ...]]) -> set[tuple[str, int]]:
        mode = self.problem.ops[i].modes[self.modes[i]]
        if mode.dma is not None:
            return {(mode.dma.owner_engine, mode.dma.owner_unit)}
        return {(use.engine, u) for use, ids in zip(mode.uses, units[i], strict=True) for u in ids}

    def _order(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> tuple[int, ...]:
        """Return the actions by their times; at one time ends are looked for first, then transfers begin.

        Nothing comes before what it waits for, whatever the times say: of an op without length they say nothing.
        """
        problem = self.problem
        missing = [len(before) for before in problem.predecessors]

        def key(action: int) -> tuple[int, int, int]:
            i = action if action >= 0 else ~action
            kind = 0 if action < 0 else 1 if self._transfer(i) else 2
            return (ends[i] if action < 0 else starts[i], kind, i)

        ready = [(key(i), i) for i, count in enumerate(missing) if count == 0]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, action = heapq.heappop(ready)
            order.append(action)
            i = action if action >= 0 else ~action
            if action >= 0 and self._transfer(i):
                heapq.heappush(ready, (key(~i), ~i))
                continue
            for after in problem.successors[i]:
                missing[after] -= 1
                if missing[after] == 0:
                    heapq.heappush(ready, (key(after), after))
        return tuple(self._awaited(order)) if problem.shares else tuple(order)

    def _awaited(self, order: Sequence[int]) -> Iterator[int]:
        """Yield the actions, with transfers awaited, the oldest first, before what they hold of a share is needed.

        A body gives that back when a transfer ends, a plan when its owner has looked.
        """
        held: dict[int, dict[str, int]] = {}
        for action in order:
            if action < 0:
                if held.pop(~action, None) is not None:
                    yield action
                continue
            needs = {
                use.engine: use.units
                for use in self.problem.share_uses(self.problem.ops[action].modes[self.modes[action]])
            }
            for share, units in needs.items():
                while sum(of.get(share, 0) for of in held.values()) + units > self.problem.shares[share]:
                    oldest = next(i for i, of in held.items() if share in of)
                    del held[oldest]
                    yield ~oldest
            if self._transfer(action):
                held[action] = needs
            yield action

    def _begins(self) -> list[int]:
        begins, at = [], 0
        for phase in self.phases:
            at += phase.later_parts
            begins.append(at)
            at += phase.runs * phase.body.schedule.ii_ticks
        return begins

    def _body_time(self, name: str, at: At) -> int:
        schedule = self.phases[at.phase].body.schedule
        return self.begins[at.phase] + at.run * schedule.ii_ticks + schedule.starts[copy_name(name, at.copy)]

    def _times(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return when ops start, and when their ends are looked for.

        What a loop waits for comes before it, as late as it may; all else that runs once, after what it waits for. An
        owner looks for the end of a transfer when somebody needs it, and no earlier: it may be late.
        """
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        for i, place in enumerate(self.rolled.place):
            if place is not None:
                key, j = place
                at = self.places[key.task][j]
                if self._transfer(i):
                    starts[i] = self._body_time(f"{key}{START}", at)
                    ends[i] = self._body_time(f"{key}{WAIT}", at)
                else:
                    starts[i] = self._body_time(str(key), at)
                    ends[i] = starts[i] + self._ticks(i)
        order = self.problem.topological_order
        before = sum(self._ticks(i) for i in self.rolled.once) + 1 if self.strictly else 0
        for i in reversed(order):
            followers = [starts[s] for s in self.problem.successors[i] if s in starts]
            if i not in starts and followers:
                ends[i] = min(followers) - (before if min(followers) >= 0 else 0)
                starts[i] = ends[i] - self._ticks(i)
        for i in order:
            if i not in starts:
                starts[i] = max((ends[p] for p in self.problem.predecessors[i]), default=0)
                ends[i] = starts[i] + self._ticks(i)
        for i in order if not self.rolled.rings else ():
            if self._punctual(i):
                continue
            if self._transfer(i) and self.problem.predecessors[i]:
                starts[i] = min(starts[i], max(ends[p] for p in self.problem.predecessors[i]))
            if self._transfer(i) and self.problem.successors[i]:
                ends[i] = max(ends[i], min(starts[s] for s in self.problem.successors[i]))
        return starts, ends

    def _punctual(self, i: int) -> bool:
        place = self.rolled.place[i]
        return place is not None and self.phases[self.places[place[0].task][place[1]].phase].body.punctual

    def _transfer(self, i: int) -> bool:
        return self.problem.ops[i].modes[self.modes[i]].dma is not None

    def _ticks(self, i: int) -> int:
        return self.problem.ops[i].modes[self.modes[i]].duration_ticks * FINER

    def _units(self, i: int) -> tuple[tuple[int, ...], ...]:
        kinds = {engine.name: engine.kind for engine in self.problem.engines}
        found: list[tuple[int, ...]] = []
        for use in self.problem.ops[i].modes[self.modes[i]].uses:
            if kinds[use.engine] in ("pipe", "share") or use.ticks == 0:
                found.append(())
            else:
                found.append(use.unit_ids or self._ring_units(i, use))
        return tuple(found)

    def _ring_units(self, i: int, use: Use) -> tuple[int, ...]:
        place = self.rolled.place[i]
        if place is None:
            return tuple(range(use.units))
        key, j = place
        at = self.places[key.task][j]
        given = self.phases[at.phase].body.schedule.units.get(copy_name(str(key), at.copy), {}).get(use.engine)
        return tuple(range(use.units)) if given is None else given[at.run % len(given)]

    def _offset(self, b: int) -> int:
        if b in self.kept:
            return self.kept[b]
        name, j = self.rolled.rings[b]
        at = self.places[name.split("/", 1)[0]][j]
        ring = self.phases[at.phase].body.schedule.addresses[copy_name(name, at.copy)]
        return ring[at.run % len(ring)]


def _last_before(over: Sequence[tuple[int, int]], moment: int, i: int) -> Iterator[tuple[int, int]]:
    """Yield the last of ``over`` that has ended at ``moment``, as what op ``i`` waits for; none where there is none."""
    at = bisect_right(over, moment, key=lambda pair: pair[0]) - 1
    if at >= 0:
        yield over[at][1], i


def handovers(phases: Sequence[Phase]) -> list[tuple[Phase, ...]]:
    """Return the phases with beginnings in question: at once, up to after the longest iteration of the one before."""
    found = []
    for eighths in (0, 2, 4, 8):
        moved = [phases[0]]
        for before, phase in pairwise(phases):
            body = before.body
            rest = max(0, length_of(body.loop, body.schedule) - body.schedule.ii_ticks)
            moved.append(replace(phase, later_parts=rest * eighths // 8))
        found.append(tuple(moved))
    return found if len(phases) > 1 else found[:1]


def run_of(rolled: Rolled, phases: Sequence[Phase], p: int) -> dict[int, tuple[Key, int, int]]:
    """Return for every op of phase ``p`` its key, its copy in the body, and its run."""
    places = {task: iteration_places(phases, task) for task in rolled.iterations}
    found = {}
    for i, place in enumerate(rolled.place):
        if place is not None:
            key, j = place
            at = places[key.task][j]
            if at.phase == p:
                found[i] = key, at.copy, at.run
    return found
