"""The tables of a periodic schedule: what comes before each loop, one lap of it, and what comes behind.

Every op of a lap is one of a *class*: the same op of every lap, and its like before and behind the loop. Each slice of
a class has an event of its own if anyone waits for it: one queue triggers it, in the order of iterations, so its count
says which iterations are over. A wait for iteration j of a class is for as many triggers as come up to that one; in a
lap or behind the loop the count grows with the laps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import product
from math import gcd, lcm
from typing import TYPE_CHECKING

from hexloom.emit import records
from hexloom.emit.awaited import awaited, events_of
from hexloom.emit.classes import Class, Classes
from hexloom.emit.descriptors import with_descriptors
from hexloom.emit.places import Places
from hexloom.emit.records import NONE
from hexloom.emit.rows import Advance, Await, Body, Entry, Header, Loop, Operand, Parameter, Queue, Tables, Task
from hexloom.emit.tables import ACTIONS, ENGINE_KINDS, kind_of, target_arch
from hexloom.emit.trips import tasks_to_cut
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.check_bounds import ONCE
from hexloom.optimizer.periodic.schedule import periodic_hash

if TYPE_CHECKING:
    from hexloom.emit.awaited import Awaited
    from hexloom.emit.fold import Key
    from hexloom.emit.orders import Step
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule

TAIL_KINDS = {"rows": records.TAIL_ROWS, "columns": records.TAIL_COLUMNS}
DRAINING = (2, 4)
"""Laps at the end that are tried to be none."""

MOST_TRIGGERS = 2**31 - 1
MOST_ITERATIONS = 2**32 - 2


@dataclass
class _Events:
    """Events by who triggers them: classes, and ops of no class that the same tasks wait for."""

    of_class: dict[Class, int] = field(default_factory=dict)
    of_op: dict[int, int] = field(default_factory=dict)
    first_of_loop: list[int] = field(default_factory=list)


def make_looped_tables(periodic: PeriodicSchedule, *, descriptors: bool = False) -> Tables:
    """Return the tables of a checked periodic schedule; their size does not depend on trip counts.

    The laps of each loop are a parameter: at least as many as the schedule has written down, for which the checker has
    looked at every pair of ops, and at most as many as counters can count.

    Raises
    ------
    PlanError
        When the plan orders less than the problem asks for, or never ends.
    InvalidInputError
        When the schedule cannot be folded, or a number does not fit into its field.
    """
    # Where single runs cannot be laps, whole periods may; where the last laps are awaited in another order, they are
    # written down; and where laps do not come out even, iterations are left out.
    ways = product((False, True), (0, *DRAINING), (False, True))
    reasons: list[InvalidInputError] = []
    for rounded, without, whole in ways:
        try:
            made = _Build(periodic, whole=whole, without=without, rounded=rounded)
            tables = made.tables()
            break
        except InvalidInputError as why:
            reasons.append(why)
    else:
        raise reasons[1]
    return with_descriptors(tables, made.problem, made.folded, periodic.tails) if descriptors else tables


class _Build(Classes):
    def __init__(self, periodic: PeriodicSchedule, *, whole: bool, without: int, rounded: bool) -> None:
        super().__init__(periodic, whole=whole, without=without)
        self.rounded = rounded
        ops = [self.problem.ops[i] for i in self.kept]
        self.groups = tuple(dict.fromkeys(op.task for op in ops))
        self.stages = tuple(dict.fromkeys((op.task, op.stage) for op in ops))
        self.places = Places(self.folded, self.kept)
        cut = tasks_to_cut(self.problem, self.folded.labels)
        self.to_cut = [g for g, group in enumerate(self.groups) if group in cut and self._runs_in_laps(group)]

    def tables(self) -> Tables:
        events, kinds = self._events()
        awaits = {i: self._awaited(i, kinds, events) for i in self.kept}
        slots = self._slots()
        tasks, operands = self._tasks(awaits, kinds, slots)
        queues, entries, bodies = self._queues(awaits)
        buffers, bindings = self.places.buffers, self.places.bindings
        loops = self._loops(kinds, len(events))
        laps = [self._parameter(k, kinds, events) for k in range(len(self.windows))]
        parameters = (*laps, *(self._trips(group, laps) for group in self.to_cut), *self._tails())
        advances = tuple(Advance(self.advance(k, group)) for k in range(len(self.windows)) for group in self.groups)
        tables = Tables(
            header=Header(
                target_arch=target_arch(self.folded.schedule.machine),
                task_count=len(tasks),
                operand_count=len(operands),
                event_count=len(events),
                queue_count=len(queues),
                entry_count=len(entries),
                buffer_count=len(buffers),
                binding_count=len(bindings),
                vtcm_bytes=bindings[0].bytes,
                schedule_hash=periodic_hash(self.periodic),
                loop_count=len(loops),
                body_count=len(bodies),
                parameter_count=len(parameters),
                advance_count=len(advances),
                group_count=len(self.groups),
                slot_count=max((first + count for first, count in slots.values()), default=0),
            ),
            tasks=tasks,
            operands=operands,
            events=events_of(events, awaits.values()),
            queues=queues,
            entries=entries,
            buffers=buffers,
            bindings=bindings,
            groups=self.groups,
            stages=self.stages,
            engines=tuple(engine.name for engine in self.problem.engines),
            markers=tuple(self.orders.markers),
            buffer_names=tuple(self.places.names),
            loops=loops,
            bodies=bodies,
            parameters=parameters,
            advances=advances,
        )
        return tables.sealed()

    def _events(self) -> tuple[list[int], _Events]:
        """Return how often each event is triggered outside of laps, and which event is whose."""
        waiters: dict[int, list[int]] = defaultdict(list)
        awaited: set[Class] = set()
        for op in self.kept:
            for producer, _ in self.folded.waits[op]:
                of = self.classes.get(producer)
                if of is not None:
                    awaited.add(of)
                elif op not in waiters[producer]:
                    waiters[producer].append(op)
        found = _Events()
        number: dict[tuple[int, ...], int] = {}
        triggers: list[int] = []
        for op in sorted(waiters):
            key = tuple(waiters[op])
            event = number.setdefault(key, len(number))
            if event == len(triggers):
                triggers.append(0)
            found.of_op[op] = event
            triggers[event] += self.slices[op]
        for k in range(len(self.windows)):
            found.first_of_loop.append(len(triggers))
            for of in sorted(awaited):
                if self.folded.loop_of[of.key.stretch] != k:
                    continue
                found.of_class[of] = len(triggers)
                triggers += [self._outside(of, piece) for piece in range(self.slices[self.members[of][0]])]
        return triggers, found

    def _outside(self, of: Class, piece: int) -> int:
        """Return how often a slice of a class triggers before and behind the laps, by where that entry stands."""
        count = 0
        for step in self.orders.lanes[self.lane_of[self.members[of][0], piece]].steps:
            if step.action != "start" and step.slice == piece and self.classes.get(step.op) == of:
                count += self.folded.segment(self.folded.moment(step))[0] % 2 == 0
        return count

    def _awaited(self, op: int, kinds: _Events, triggers: list[int]) -> Awaited:
        found: dict[int, int] = {}
        lanes_of: dict[int, set[int]] = defaultdict(set)
        for (producer, piece), lanes in self.folded.waits[op].items():
            of = self.classes.get(producer)
            if of is None:
                event = kinds.of_op[producer]
                found[event] = triggers[event]
            else:
                event = kinds.of_class[of] + piece
                found[event] = max(found.get(event, self.threshold(op, producer)), self.threshold(op, producer))
            lanes_of[event].update(lanes)
        return awaited({Await(event, threshold % 2**32): lanes_of[event] for event, threshold in found.items()})

    def _slots(self) -> dict[int, tuple[int, int]]:
        """Return first slot and number of slots of every kept transfer: those of a class share theirs."""
        found: dict[int, tuple[int, int]] = {}
        of_class: dict[Class, tuple[int, int]] = {}
        used = 0
        for i in self.kept:
            of = self.classes.get(i)
            if self.orders.modes[i].dma is None:
                continue
            if of is None or of not in of_class:
                mine = (used, 1 if of is None else self._under_way(of))
                used += mine[1]
                if of is not None:
                    of_class[of] = mine
            else:
                mine = of_class[of]
            found[i] = mine
        return found

    def _under_way(self, of: Class) -> int:
        """Return how many transfers of a class are under way at most; they are awaited in the order of their starts."""
        members = set(self.members[of])
        started: list[int] = []
        most = 0
        for step in self.orders.lanes[self.queue_of[self.members[of][0]]].steps:
            if step.op not in members:
                continue
            if step.action == "start":
                started.append(step.op)
                most = max(most, len(started))
            elif started.pop(0) != step.op:
                raise InvalidInputError(f"op {self.problem.ops[step.op].name!r} is not awaited in the order of starts")
        return most

    def _tasks(
        self, awaits: dict[int, Awaited], kinds: _Events, slots: dict[int, tuple[int, int]]
    ) -> tuple[tuple[Task, ...], tuple[Operand, ...]]:
        group_of = {name: k for k, name in enumerate(self.groups)}
        stage_of = {name: k for k, name in enumerate(self.stages)}
        chosen = {a.op: a.mode for a in self.folded.schedule.plan.assignments}
        used = [self.places.operands_of(i) for i in self.kept]
        operands: list[Operand] = []
        rings: list[Operand] = []
        total = sum(map(len, used))
        tasks: list[Task] = []
        for t, i in enumerate(self.kept):
            op, of, key = self.problem.ops[i], self.classes.get(i), self.folded.key(i)
            event = kinds.of_op.get(i, NONE) if of is None else kinds.of_class.get(of, NONE)
            flags = records.TASK_ASYNC if self.orders.late[i] else 0
            if of is not None and event != NONE and self.slices[i] > 1:
                flags |= records.TASK_APART
            if group_of[op.task] in self.to_cut and self.folded.labels[i][3] != ONCE:
                flags |= records.TASK_REPEATED
            step = 0 if key is None else self._tile_step(key)
            iteration = self.iteration(i)
            label = self.folded.labels[i]
            tasks.append(
                Task(
                    op=i,
                    kind=kind_of(self.orders.modes[i]),
                    flags=flags,
                    mode=chosen[op.name],
                    group=group_of[op.task],
                    stage=stage_of[op.task, op.stage],
                    tile=op.tile if label[3] == ONCE else op.tile - step * (label[3] - iteration),
                    queue=self.queue_of[i],
                    slice_count=self.slices[i],
                    first_operand=len(operands),
                    operand_count=len(used[t]),
                    wait_event=awaits[i].own.event,
                    wait_threshold=awaits[i].own.threshold,
                    trigger_event=event,
                    tile_step=step,
                    iteration=iteration,
                    first_slot=slots.get(i, (0, 0))[0],
                    slots=slots.get(i, (0, 0))[1],
                )
            )
            for places in used[t]:
                if len(places) == 1:
                    operands.append(places[0])
                else:
                    ring = replace(places[0], flags=records.OPERAND_RING, buffer=len(places))
                    operands.append(replace(ring, offset=total + len(rings)))
                    rings += places
        return tuple(tasks), (*operands, *rings)

    def _tile_step(self, key: Key) -> int:
        """Return the tiles from one iteration to the next, where they are numbered in step."""
        tiles = {self.folded.labels[i][3]: self.problem.ops[i].tile for i in self.at if self.folded.key(i) == key}
        first, last = min(tiles), max(tiles)
        step, rest = divmod(tiles[last] - tiles[first], max(1, last - first))
        if rest or step < 0 or any(tile != tiles[first] + step * (j - first) for j, tile in tiles.items()):
            raise InvalidInputError(f"stage {key.stage!r} of task {key.task!r}: its tiles are not numbered in step")
        return step

    def _queues(self, awaits: dict[int, Awaited]) -> tuple[tuple[Queue, ...], tuple[Entry, ...], tuple[Body, ...]]:
        queues: list[Queue] = []
        entries: list[Entry] = []
        bodies: list[Body] = []
        engine_of = {engine.name: k for k, engine in enumerate(self.problem.engines)}
        for q, lane in enumerate(self.orders.lanes):
            kind = records.DETACHED if lane.detached else ENGINE_KINDS.get(lane.engine, records.OTHER)
            first = len(entries)
            segments: dict[int, list[Entry]] = defaultdict(list)
            for step in lane.steps:
                segment, lap = self.folded.segment(self.folded.moment(step))
                if lap == 0:
                    segments[segment] += [] if step.action == "wait" else awaits[step.op].entries(q)
                    segments[segment].append(self._entry(step, in_lap=bool(segment % 2)))
            for segment in range(2 * len(self.windows) + 1):
                if segment % 2:
                    bodies.append(Body(len(entries), len(segments[segment])))
                entries += segments[segment]
            engine = engine_of.get(lane.engine, len(engine_of))
            queues.append(Queue(engine, lane.unit, kind, 0, first, len(entries) - first))
        return tuple(queues), tuple(entries), tuple(bodies)

    def _entry(self, step: Step, *, in_lap: bool) -> Entry:
        """Return an entry; who is awaited in a lap or after it may be an op of a lap that is not kept."""
        op, of = step.op, self.classes.get(step.op)
        if step.action == "wait" and of is not None and (in_lap or op not in self.task_of):
            op = self.stand_in[of]
        return Entry(self.task_of[op], ACTIONS[step.action], 0, step.slice)

    def _loops(self, kinds: _Events, events: int) -> tuple[Loop, ...]:
        found = []
        ends = [*kinds.first_of_loop, events][1:]  # none where every run is written down
        for k, (first, end) in enumerate(zip(kinds.first_of_loop, ends, strict=True)):
            mine = [t for t, i in enumerate(self.kept) if self.at[i][0] == 2 * k + 1]
            found.append(Loop(min(mine), len(mine), first, end - first, k))
        return tuple(found)

    def _parameter(self, loop: int, kinds: _Events, triggers: list[int]) -> Parameter:
        """Return the laps of a loop: at least those written down, at most what 32 bits can count.

        Fewer laps than are written down are proven by nothing, and needed for nothing: fewer iterations are.
        """
        window = self.windows[loop]
        usual = window.count + self.periodic.stretches[window.stretch].left_out // window.runs
        step = lcm(self._laps_apart(loop), window.per_period)
        first, end = kinds.first_of_loop[loop], [*kinds.first_of_loop, len(triggers)][loop + 1]
        most = min((MOST_TRIGGERS - n for n in triggers[first:end]), default=MOST_TRIGGERS)
        others = range(len(self.windows))
        for group in self.groups:
            # The other loops have their share of the iterations that can be counted, and may use it up.
            written = 1 + max(label[3] for label in self.folded.labels if label[0] == group)
            mine = self.advance(loop, group)
            if mine:
                sharing = sum(1 for k in others if self.advance(k, group))
                most = min(most, (MOST_ITERATIONS - written) // sharing // mine)
        if self.rounded and all(self.groups.index(task) in self.to_cut for task in window.advance):
            usual += (window.count - usual) % step
        if (usual - window.count) % step or usual > most:
            raise InvalidInputError(
                f"schedule {self.periodic.name!r}: loop {loop} makes {usual} laps; tables know {window.count} and "
                f"every {step} more up to {most}"
            )
        return Parameter(records.LAPS, loop, window.count, most - (most - window.count) % step, step, usual)

    def _runs_in_laps(self, group: str) -> bool:
        return any(self.advance(k, group) for k in range(len(self.windows)))

    def _trips(self, group: int, laps: list[Parameter]) -> Parameter:
        """Return the iterations of a group: none, or as many as laps make; in the usual ones as many as asked for."""
        name = self.groups[group]
        written = 1 + max(label[3] for label in self.folded.labels if label[0] == name)
        most = written + sum(self.advance(k, name) * (p.most - p.least) for k, p in enumerate(laps))
        return Parameter(records.TRIPS, group, 0, most, 1, self.periodic.trips[name])

    def _tails(self) -> list[Parameter]:
        """Return the rows or columns of last iterations."""
        return [
            Parameter(TAIL_KINDS[tail.counts], group, tail.least, tail.most, tail.step, tail.most)
            for group in self.to_cut
            for tail in self.periodic.tails
            if tail.task == self.groups[group]
        ]

    def _laps_apart(self, loop: int) -> int:
        """Return after how many laps more everything behind the loop is where it was."""
        apart = 1
        for group, period in self.places.fixed_behind(loop):
            advance = self.advance(loop, group)
            apart = lcm(apart, period // gcd(period, advance)) if advance else apart
        return apart
