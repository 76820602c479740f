"""Exact best plans of small problems whose ops share channels, found in two plain ways, in fractions throughout.

Nothing here is shared with the product but the data of `Problem` and `Plan`; no buffers and no deadlines. The model:

* Thread and units of an op are its own from its begin. Its overhead passes first. Then it works: it does ``speed``
  ticks of work in a tick, and at amounts of work its threads are released and its result exists. A transfer works from
  the moment it has its pipes. An op that shares nothing has speed 1.
* The speeds of all that works follow from who works, `speeds_of`.
* An instant has rounds. In a round, all that is due happens, and all that this lets begin; then transfers that were
  asked for take their pipes, first come first served, one that finds them taken lets later ones pass. What takes no
  time is due in the next round of the same instant, but an op that shares nothing and takes none ends in its own round.

`replay` runs a plan. `best_plan` replays every plan: every choice of modes and units, all orders of every queue, all
partial orders of waits. `best_run` searches over events and remembers states: something begins at entry, or when the
end of an op becomes known, or when one of its own threads is released.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations, permutations, product
from typing import TYPE_CHECKING, Any, NamedTuple

from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.problem import Mode, Problem

MOST_STATES = 8_000

FRESH, PREPARE, WORK, ISSUE, ASKED, THERE, POLL, KNOWN = range(8)

END = "end"
"""What a mark means, beside a lane that is released and a pipe that is free (its name and units)."""


class TooMany(Exception):
    """Nothing is known: there are too many plans or states."""


# --- speeds ---------------------------------------------------------------------------------------------


def shares(problem: Problem, mode: Mode) -> bool:
    """Whether the mode can slow another or be slowed."""
    involved = {name for entry in problem.interference for name in (entry.victim, entry.cause)}
    return any(pull.rate > 0 for pull in mode.pulls) or mode.op_class in involved


def speeds_of(problem: Problem, rule: str, working: list[Mode]) -> list[Fraction]:
    """Return the speeds of modes that work at the same time, in the order of their ops."""
    full = []
    for i, mode in enumerate(working):
        factor = Fraction(1)
        for j, other in enumerate(working):
            for entry in problem.interference:
                if i != j and (entry.victim, entry.cause) == (mode.op_class, other.op_class):
                    factor *= Fraction(entry.factor)
        full.append(factor)
    capacity = {channel.name: Fraction(channel.capacity) for channel in problem.channels}
    demand = [
        {pull.channel: factor * pull.rate for pull in mode.pulls if pull.rate > 0}
        for mode, factor in zip(working, full, strict=True)
    ]
    levels = {"fluid": _max_min, "proportional": _scaled, "priority": _first_takes}[rule](capacity, demand)
    return [factor * level for factor, level in zip(full, levels, strict=True)]


def _max_min(capacity: dict[str, Fraction], demand: list[dict[str, Fraction]]) -> list[Fraction]:
    """The level of the water: raise it to the next height at which some channel is full, stop its users there."""
    level: dict[int, Fraction] = {}

    def full_at(name: str) -> Fraction | None:
        fixed = sum((level[i] * d.get(name, 0) for i, d in enumerate(demand) if i in level), Fraction(0))
        rising = sum((d.get(name, 0) for i, d in enumerate(demand) if i not in level), Fraction(0))
        return (capacity[name] - fixed) / rising if rising else None

    while len(level) < len(demand):
        heights = {name: height for name in capacity if (height := full_at(name)) is not None}
        lowest = min([Fraction(1), *heights.values()])
        full = {name for name, height in heights.items() if height == lowest}
        stopped = [i for i, d in enumerate(demand) if i not in level and (lowest == 1 or full & set(d))]
        level.update(dict.fromkeys(stopped, lowest))
    return [level[i] for i in range(len(demand))]


def _scaled(capacity: dict[str, Fraction], demand: list[dict[str, Fraction]]) -> list[Fraction]:
    total = {name: sum((d.get(name, Fraction(0)) for d in demand), Fraction(0)) for name in capacity}
    return [min([Fraction(1), *(capacity[name] / total[name] for name in d)]) for d in demand]


def _first_takes(capacity: dict[str, Fraction], demand: list[dict[str, Fraction]]) -> list[Fraction]:
    levels = []
    left = dict(capacity)
    for d in demand:
        levels.append(min([Fraction(1), *(left[name] / rate for name, rate in d.items())]))
        left = {name: have - levels[-1] * d.get(name, 0) for name, have in left.items()}
    return levels


# --- a run ----------------------------------------------------------------------------------------------


class Facts:
    """What does not change in a run."""

    def __init__(self, problem: Problem, rule: str) -> None:
        self.problem, self.rule = problem, rule
        place = {op.name: i for i, op in enumerate(problem.ops)}
        self.before: list[set[int]] = [set() for _ in problem.ops]
        for edge in problem.precedences:
            self.before[place[edge.after]].add(place[edge.before])
        self.lanes = [(e.name, u) for e in problem.engines if e.kind != "pipe" for u in range(e.units)]
        self.workers = {e.name for e in problem.engines if e.kind == "worker"}
        self.units = {e.name: e.units for e in problem.engines}
        self.pipes = {e.name for e in problem.engines if e.kind == "pipe"}
        self.known_speeds: dict[tuple[tuple[int, int], ...], list[Fraction]] = {}


class Run:
    """A run up to some instant. ``marks`` of an op: what is left until something happens to it."""

    def __init__(self, facts: Facts) -> None:
        n = len(facts.problem.ops)
        self.facts = facts
        self.now = Fraction(facts.problem.entry_ticks)
        self.phase = [FRESH] * n
        self.mode = [0] * n
        self.marks: list[tuple[tuple[Fraction, Any], ...]] = [()] * n
        self.lane: dict[Any, int | None] = dict.fromkeys(facts.lanes)
        """Who holds a lane; ``~i`` holds one whose thread waits for transfer i."""
        self.room = {name: facts.units[name] for name in facts.pipes}
        self.asked: list[tuple[bool, int]] = []
        """(asked for in this very instant, transfer), first come first."""
        self.entry, self.news, self.freed = True, set[int](), set[Any]()
        """Of this round: the entry, ends that became known, lanes that were released."""
        self.times: list[dict[str, Fraction]] = [{} for _ in range(n)]

    def copy(self) -> Run:
        new = object.__new__(Run)
        new.facts, new.now, new.entry = self.facts, self.now, self.entry
        new.phase, new.mode, new.marks = self.phase[:], self.mode[:], self.marks[:]
        new.lane, new.room, new.asked = dict(self.lane), dict(self.room), self.asked[:]
        new.news, new.freed = set(self.news), set(self.freed)
        new.times = [dict(row) for row in self.times]
        return new

    def chosen(self, i: int) -> Mode:
        return self.facts.problem.ops[i].modes[self.mode[i]]

    def owner(self, i: int) -> tuple[str, int]:
        dma = self.chosen(i).dma
        assert dma is not None
        return dma.owner_engine, dma.owner_unit

    def begin(self, i: int, m: int, lanes: list[tuple[str, int]]) -> None:
        self.mode[i] = m
        mode = self.chosen(i)
        self.times[i]["start"] = self.now
        if mode.dma is not None:
            self._hold(i, [self.owner(i)])
            self._enter(i, ISSUE, [(Fraction(mode.dma.issue_ticks), END)])
            return
        self._hold(i, lanes)
        self.times[i]["transfer_start"] = self.now
        if not shares(self.facts.problem, mode):
            marks = self._work_marks(i)
            self._enter(i, WORK, [(mode.overhead_ticks + amount, what) for amount, what in marks])
        elif mode.overhead_ticks:
            self._enter(i, PREPARE, [(Fraction(mode.overhead_ticks), END)])
        else:
            self._work(i)

    def _work_marks(self, i: int) -> list[tuple[Fraction, Any]]:
        mode = self.chosen(i)
        if mode.dma is not None:
            marks: list[tuple[Fraction, Any]] = [
                (Fraction(use.ticks), (use.engine, use.units)) for use in mode.uses if use.ticks > 0
            ]
        else:
            # Who else could use a unit without a thread sees only that the result exists.
            ticks = {use.engine: use.ticks for use in mode.uses}
            held = [lane for lane, who in self.lane.items() if who == i]
            marks = [(Fraction(ticks[e] if e in self.facts.workers else mode.latency_ticks), (e, u)) for e, u in held]
        return [*marks, (Fraction(mode.latency_ticks), END)]

    def _work(self, i: int) -> None:
        """Begin to work; what takes no work at all is due in the next round."""
        self.phase[i], self.marks[i] = WORK, tuple(self._work_marks(i))

    def wait_for(self, i: int) -> None:
        self.lane[self.owner(i)] = ~i
        self.freed.discard(self.owner(i))
        self.times[i]["wait_start"] = self.now
        self._look(i)

    def _hold(self, i: int, lanes: list[tuple[str, int]]) -> None:
        for lane in lanes:
            self.lane[lane] = i
            self.freed.discard(lane)

    def _look(self, i: int) -> None:
        """Poll transfer ``i`` if it is there and its owner waits for it."""
        if self.phase[i] == THERE and self.lane[self.owner(i)] == ~i:
            dma = self.chosen(i).dma
            assert dma is not None
            self._enter(i, POLL, [(Fraction(dma.poll_ticks), END)])

    def _enter(self, i: int, phase: int, marks: list[tuple[Fraction, Any]]) -> None:
        self.phase[i], self.marks[i] = phase, tuple(marks)
        self._due(i)

    def _due(self, i: int) -> None:
        """Let happen to op ``i`` what nothing is left of."""
        phase = self.phase[i]
        due = [what for left, what in self.marks[i] if left == 0]
        self.marks[i] = tuple(mark for mark in self.marks[i] if mark[0] > 0)
        for what in due:
            if what == END:
                self._end(i, phase)
            elif what in self.lane:
                self.lane[what] = None
                self.freed.add(what)
            else:
                self.room[what[0]] += what[1]

    def _end(self, i: int, phase: int) -> None:
        mode = self.chosen(i)
        if phase == PREPARE:
            self._work(i)
        elif phase == ISSUE:
            self._free_owner(i)
            self.phase[i], self.marks[i] = ASKED, ()
            self.asked.append((True, i))
            # Those of one instant come in the order of the problem.
            self.asked = [a for a in self.asked if not a[0]] + sorted(a for a in self.asked if a[0])
        elif phase == WORK and mode.dma is not None:
            self.phase[i] = THERE
            self.times[i]["done"] = self.now
            self._look(i)
        else:
            if phase == POLL:
                self._free_owner(i)
            else:
                self.times[i]["done"] = self.times[i]["wait_start"] = self.now
            self.phase[i] = KNOWN
            self.times[i]["observed"] = self.now
            self.news.add(i)

    def _free_owner(self, i: int) -> None:
        self.lane[self.owner(i)] = None
        self.freed.add(self.owner(i))

    def go_on(self) -> bool:
        """Close the round: transfers take pipes, time passes to the next round. False when nothing is under way."""
        waiting = []
        for fresh, i in self.asked:
            mode = self.chosen(i)
            uses = [use for use in mode.uses if use.ticks > 0]
            if any(self.room[use.engine] < use.units for use in uses):
                waiting.append((fresh, i))
                continue
            for use in uses:
                self.room[use.engine] -= use.units
            self.times[i]["transfer_start"] = self.now
            self._work(i)
        speed = self._speeds()
        if not speed:
            return False
        # What is done needs no speed to be done.
        nearest = {i: min(left for left, _ in self.marks[i]) for i in speed}
        step = min(left / (speed[i] or 1) for i, left in nearest.items() if left == 0 or speed[i] > 0)
        self.now += step
        self.asked = [(fresh and step == 0, i) for fresh, i in waiting]
        self.entry, self.news, self.freed = False, set(), set()
        for i, pace in speed.items():
            self.marks[i] = tuple((left - step * pace, what) for left, what in self.marks[i])
        for i in speed:
            self._due(i)
        return True

    def _speeds(self) -> dict[int, Fraction]:
        moving = {i: Fraction(1) for i, phase in enumerate(self.phase) if phase in (PREPARE, WORK, ISSUE, POLL)}
        working = [i for i in moving if self.phase[i] == WORK and shares(self.facts.problem, self.chosen(i))]
        key = tuple((i, self.mode[i]) for i in working)
        if key not in self.facts.known_speeds:
            modes = [self.chosen(i) for i in working]
            self.facts.known_speeds[key] = speeds_of(self.facts.problem, self.facts.rule, modes)
        moving.update(zip(working, self.facts.known_speeds[key], strict=True))
        return moving


# --- plans ----------------------------------------------------------------------------------------------


def replay(problem: Problem, plan: Plan, rule: str, facts: Facts | None = None) -> Run | None:
    """Return the run of a plan to its end, None if it blocks itself."""
    run = Run(facts or Facts(problem, rule))
    place = {op.name: i for i, op in enumerate(problem.ops)}
    queue = {(q.engine, q.unit): [(place[e.op], e.action) for e in q.entries] for q in plan.queues}
    chosen = {place[a.op]: a for a in plan.assignments}
    awaited: list[set[int]] = [set() for _ in problem.ops]
    for wait in plan.waits:
        awaited[place[wait.after]].add(place[wait.before])

    def can_begin(i: int) -> bool:
        if run.phase[i] != FRESH or any(run.phase[b] != KNOWN for b in awaited[i]):
            return False
        mode = problem.ops[i].modes[chosen[i].mode]
        lanes = _threads(run.facts, mode, chosen[i])
        action = "run" if mode.dma is None else "start"
        return all(run.lane[lane] is None and queue[lane][:1] == [(i, action)] for lane in lanes)

    def act() -> bool:
        """Do one thing that can be done now."""
        for i in range(len(problem.ops)):
            if can_begin(i):
                mode = problem.ops[i].modes[chosen[i].mode]
                for lane in _threads(run.facts, mode, chosen[i]):
                    del queue[lane][0]
                run.begin(i, chosen[i].mode, _all_lanes(mode, chosen[i]))
                return True
        for lane, entries in queue.items():
            if entries and entries[0][1] == "wait" and run.lane[lane] is None:
                run.wait_for(entries.pop(0)[0])
                return True
        return False

    while True:
        while act():
            pass
        if not run.go_on():
            return run if all(phase == KNOWN for phase in run.phase) else None


def _all_lanes(mode: Mode, assignment: Assignment) -> list[tuple[str, int]]:
    return [(use.engine, u) for use in mode.uses for u in assignment.units.get(use.engine, ())]


def _threads(facts: Facts, mode: Mode, assignment: Assignment) -> list[tuple[str, int]]:
    if mode.dma is not None:
        return [(mode.dma.owner_engine, mode.dma.owner_unit)]
    return [lane for lane in _all_lanes(mode, assignment) if lane[0] in facts.workers]


def best_plan(problem: Problem, rule: str, most: int = 60_000) -> Fraction | None:
    """Return the makespan of the shortest of all plans.

    Raises
    ------
    TooMany
        When there are more than ``most`` plans to replay.
    """
    facts = Facts(problem, rule)
    best: Fraction | None = None
    orders = list(_partial_orders(problem))
    count = 0
    for assignments, queues in _queue_orders(problem, facts):
        count += len(orders)
        if count > most:
            raise TooMany
        for waits in orders:
            plan = Plan(assignments=assignments, queues=queues, waits=waits, addresses={})
            if _shares_a_unit(facts, problem, plan):
                continue
            run = replay(problem, plan, rule, facts)
            if run is not None and (best is None or run.now < best):
                best = run.now
    return best


def _partial_orders(problem: Problem) -> Iterator[tuple[Wait, ...]]:
    """Every transitive, acyclic set of waits that holds the precedences, without what others imply."""
    names = [op.name for op in problem.ops]
    n = len(names)
    place = {name: i for i, name in enumerate(names)}
    given = {(place[e.before], place[e.after]) for e in problem.precedences}
    pairs = list(combinations(range(n), 2))
    for signs in product((0, 1, 2), repeat=len(pairs)):
        order = {(a, b) if s == 1 else (b, a) for (a, b), s in zip(pairs, signs, strict=True) if s}
        if not given <= order:
            continue
        joined = {(a, d) for a, b in order for c, d in order if b == c}
        if joined <= order:
            yield tuple(Wait(before=names[a], after=names[b]) for a, b in sorted(order - joined))


def _queue_orders(problem: Problem, facts: Facts) -> Iterator[tuple[tuple[Assignment, ...], tuple[Queue, ...]]]:
    for modes in product(*(range(len(op.modes)) for op in problem.ops)):
        for units in product(*(_unit_choices(facts, op.modes[m]) for op, m in zip(problem.ops, modes, strict=True))):
            assigned = tuple(
                Assignment(op=op.name, mode=m, units=u) for op, m, u in zip(problem.ops, modes, units, strict=True)
            )
            lanes: dict[tuple[str, int], list[tuple[str, str]]] = {}
            for op, m, assignment in zip(problem.ops, modes, assigned, strict=True):
                steps = ["run"] if op.modes[m].dma is None else ["start", "wait"]
                for lane in _threads(facts, op.modes[m], assignment):
                    lanes.setdefault(lane, []).extend((op.name, step) for step in steps)
            for chosen in product(*(permutations(steps) for steps in lanes.values())):
                sane = all(
                    steps.index((name, "start")) < k
                    for steps in chosen
                    for k, (name, action) in enumerate(steps)
                    if action == "wait"
                )
                if sane:
                    yield (
                        assigned,
                        tuple(
                            Queue(engine=e, unit=u, entries=tuple(QueueEntry(op=o, action=a) for o, a in steps))  # type: ignore[arg-type]
                            for (e, u), steps in zip(lanes, chosen, strict=True)
                        ),
                    )


def _unit_choices(facts: Facts, mode: Mode) -> list[dict[str, tuple[int, ...]]]:
    uses = [use for use in mode.uses if use.ticks > 0 and use.engine not in facts.pipes]
    options = [
        [use.unit_ids] if use.unit_ids is not None else list(combinations(range(facts.units[use.engine]), use.units))
        for use in uses
    ]
    return [{use.engine: ids for use, ids in zip(uses, chosen, strict=True)} for chosen in product(*options)]


def _shares_a_unit(facts: Facts, problem: Problem, plan: Plan) -> bool:
    """Whether two ops use one unit without a thread and neither waits for the other, directly or not."""
    users: dict[Any, list[str]] = {}
    for assignment in plan.assignments:
        for lane in chain.from_iterable(((e, u) for u in ids) for e, ids in assignment.units.items()):
            if lane[0] not in facts.workers:
                users.setdefault(lane, []).append(assignment.op)
    reach = {op.name: {op.name} for op in problem.ops}
    for _ in problem.ops:
        for wait in plan.waits:
            reach[wait.before] |= reach[wait.after]
    return any(a not in reach[b] and b not in reach[a] for mine in users.values() for a, b in combinations(mine, 2))


# --- events ---------------------------------------------------------------------------------------------


class Action(NamedTuple):
    """Begin op ``op`` in a mode on lanes, or (``mode`` -1) let its owner wait for it."""

    op: int
    mode: int
    lanes: tuple[tuple[str, int], ...]


def best_run(problem: Problem, rule: str, most: int = MOST_STATES) -> Fraction | None:
    """Return the earliest end of a run in which everything begins at an event, None if none ends.

    Raises
    ------
    TooMany
        After ``most`` states.
    """
    facts = Facts(problem, rule)
    best: Fraction | None = None
    seen: dict[Any, Fraction] = {}
    stack = [Run(facts)]
    while stack:
        state = stack.pop()
        rounds = {_name(state): state}
        open_ = [state]
        while open_:
            at = open_.pop()
            for action in _actions(at):
                after = at.copy()
                if action.mode < 0:
                    after.wait_for(action.op)
                else:
                    after.begin(action.op, action.mode, list(action.lanes))
                if _name(after) not in rounds:
                    rounds[_name(after)] = after
                    open_.append(after)
        for after in rounds.values():
            following = after.copy()
            if not following.go_on():
                if all(phase == KNOWN for phase in following.phase) and (best is None or following.now < best):
                    best = following.now
                continue
            if best is not None and following.now + _path(following) >= best:
                continue
            name = _name(following)
            if name not in seen or following.now < seen[name]:
                seen[name] = following.now
                stack.append(following)
                if len(seen) > most:
                    raise TooMany
    return best


def _name(run: Run) -> Any:
    """All that the future depends on, relative to now."""
    room = tuple(sorted(run.room.items()))
    news = (run.entry, bool(run.news), frozenset(run.freed))
    return tuple(run.phase), tuple(run.mode), tuple(run.marks), tuple(run.lane.items()), room, tuple(run.asked), news


def _path(run: Run) -> Fraction:
    """Return the longest way through what has not begun, at full speed."""
    length: dict[int, int] = {}

    def way(i: int) -> int:
        if i not in length:
            op = run.facts.problem.ops[i]
            own = min(m.duration_ticks for m in op.modes) if run.phase[i] == FRESH else 0
            length[i] = own + max([way(b) for b in run.facts.before[i]], default=0)
        return length[i]

    return Fraction(max(way(i) for i in range(len(run.phase))))


def _actions(run: Run) -> Iterator[Action]:
    facts = run.facts
    for i, phase in enumerate(run.phase):
        if phase in (ASKED, THERE) or (phase == WORK and run.chosen(i).dma is not None):
            lane = run.owner(i)
            if run.lane[lane] is None and lane in run.freed:
                yield Action(i, -1, ())
        if phase != FRESH or any(run.phase[b] != KNOWN for b in facts.before[i]):
            continue
        for m, mode in enumerate(facts.problem.ops[i].modes):
            for units in _unit_choices(facts, mode):
                lanes = tuple((engine, u) for engine, ids in units.items() for u in ids)
                mine = lanes if mode.dma is None else ((mode.dma.owner_engine, mode.dma.owner_unit),)
                if any(run.lane[lane] is not None for lane in mine):
                    continue
                if run.entry or run.news or any(lane in run.freed for lane in mine):
                    yield Action(i, m, lanes)
