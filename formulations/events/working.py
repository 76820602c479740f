"""How a run goes on where ops share channels: what each has done, and how fast it goes until the next event.

The rounds are those of `hexloom.formulations.events.state`, but all that is under way is kept by what it has done, not
by when it will end. An op has steps (a thread is released, a pipe is free, the result exists) at amounts of work;
while it works it goes at the speed that the others leave it, in any other phase it does a tick in a tick. Speeds
change only when an op begins or ends to work, so between events all is linear.

Times are floats. What differs by less than `BLUR` of the time passed belongs to one instant, as in the simulator;
amounts that differ by less than `GRAIN` of the horizon make no difference to what the future is.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.events.prices import Prices
from hexloom.formulations.events.remaining import Remaining
from hexloom.formulations.events.state import (
    ARRIVED,
    FLYING,
    FRESH,
    IDLE,
    ISSUING,
    OVER,
    POLLING,
    QUEUED,
    RUNNING,
    State,
    begin,
    first_state,
    known,
)
from hexloom.formulations.speeds import NOT_SHARING

if TYPE_CHECKING:
    from hexloom.formulations.events.tables import Tables, Way
    from hexloom.formulations.problem import Mode
    from hexloom.formulations.speeds import Speeds

PREPARING = 8
"""The overhead of an op that shares, before it works; one more phase than where nothing is slowed."""

UNDER_WAY = (False, True, True, False, True, False, True, False, True)
"""Per phase, whether it goes on by itself."""

BLUR = 1e-9

GRAIN = 1e-9

LATE = 1e-9
"""What a deadline may be missed by in floating point."""

END = -1
"""The step at which the result exists; another step is the position of an ask or a pipe of the mode."""


class Course(NamedTuple):
    """How a mode goes: its load, ticks before it works, and its steps as (amount, which), ascending."""

    load: int
    prepare: int
    steps: tuple[tuple[float, int], ...]


class WorkingState(State):
    """A state in which ``done`` is what each op has done in its phase, ``step`` its next step.

    ``held`` are the lanes of what runs, per ask of its mode, ``room`` the free units of the pipes. A busy lane has the
    op that holds it.
    """

    __slots__ = ("done", "held", "room", "step")

    done: list[float]
    step: list[int]
    held: list[tuple[tuple[int, ...], ...]]
    room: list[int]

    def copy(self) -> WorkingState:
        """Return an independent copy."""
        new = super().copy()
        assert isinstance(new, WorkingState)
        new.done = self.done[:]
        new.step = self.step[:]
        new.held = self.held[:]
        new.room = self.room[:]
        return new


class Working:
    """The moves of a run under a rule that shares channels."""

    def __init__(self, tables: Tables, speeds: Speeds) -> None:
        self.tables = tables
        self.speeds = speeds
        problem = tables.problem
        tables.monotone = False
        tables.deadline = [None if d is None else d * (1 + LATE) for d in tables.deadline]
        self.grain = GRAIN * max(1, problem.horizon_ticks)
        self.courses: list[list[Course | None]] = [
            [None if way is None else self._course(mode, way) for mode, way in zip(op.modes, ways, strict=True)]
            for op, ways in zip(problem.ops, tables.ways, strict=True)
        ]
        self._remaining = Remaining(tables, speeds)
        self._prices = Prices(tables, self.courses, speeds)

    def _course(self, mode: Mode, way: Way) -> Course:
        load = self.speeds.load_of(mode)
        if way.owner >= 0:
            steps = [(float(ticks), pipe) for pipe, (_, _, ticks) in enumerate(way.pipes)]
            return Course(load, 0, (*sorted(steps), (float(way.latency), END)))
        prepare = mode.overhead_ticks if load != NOT_SHARING else 0
        end = way.duration - prepare
        # A unit without a thread is held until the result is known, as its ask says.
        steps = [(float(ask.ticks - prepare), a) for a, ask in enumerate(way.asks) if ask is not None]
        return Course(load, prepare, (*sorted(steps), (float(end), END)))

    def first(self, used: int) -> State:
        """Return the state in which the plan is entered, ``used`` bytes being held from the start."""
        plain = first_state(self.tables, used)
        state = WorkingState.__new__(WorkingState)
        for name in State.__slots__:
            setattr(state, name, getattr(plain, name))
        n = self.tables.n
        state.done, state.step, state.held = [0.0] * n, [0] * n, [()] * n
        state.room = self.tables.pipe_units[:]
        return state

    def start(self, state: State, i: int, m: int, way: Way, lanes: tuple[tuple[int, ...], ...]) -> None:
        """Let op ``i`` begin in mode ``m`` on ``lanes``, per ask of the mode."""
        assert isinstance(state, WorkingState)
        begin(self.tables, state, i, m, way)
        if way.owner >= 0:
            if way.issue == 0:
                self._queue(state, i, way)
            else:
                self._enter(state, i, ISSUING)
                state.lanes[way.owner] = i
                state.released &= ~(1 << way.owner)
            return
        course = self.courses[i][m]
        assert course is not None
        state.held[i] = lanes
        for mine in lanes:
            for lane in mine:
                state.lanes[lane] = i
                state.released &= ~(1 << lane)
        if course.prepare:
            self._enter(state, i, PREPARING)
        elif way.duration == 0 and course.load == NOT_SHARING:
            known(self.tables, state, i)
        else:
            self._enter(state, i, RUNNING)

    def wait(self, state: State, i: int, way: Way) -> None:
        """Let the owner of transfer ``i`` wait for it."""
        assert isinstance(state, WorkingState)
        state.rank += 1
        state.released &= ~(1 << way.owner)
        if state.phase[i] == ARRIVED:
            self._poll(state, i, way)
        else:
            state.lanes[way.owner] = -2 - i

    def next_round(self, state: State) -> bool:
        """Go to the next round in which something observable happens; False when nothing is under way."""
        assert isinstance(state, WorkingState)
        while True:
            if state.pending:
                self._choose_transfers(state)
            pace = self._pace(state)
            least = -1.0
            for i, speed in pace:
                left = self._amount(state, i) - state.done[i]
                if left <= 0:
                    least = 0.0
                elif speed > 0 and (least < 0 or left / speed < least):
                    least = left / speed
            if least < 0:
                return False
            state.now += least
            state.seen = state.released = state.returned = 0
            state.freed = state.entry = False
            blur = BLUR * (1 + state.now)
            for i, speed in pace:
                state.done[i] += speed * least
                if self._amount(state, i) <= state.done[i] + speed * blur:
                    self._reach(state, i, state.done[i] + speed * blur)
            if state.seen or state.released:
                return True

    def _pace(self, state: WorkingState) -> list[tuple[int, float]]:
        """Return the speed of all that is under way."""
        found: list[tuple[int, float]] = []
        sharing: list[int] = []
        loads: list[int] = []
        for i, phase in enumerate(state.phase):
            if not UNDER_WAY[phase]:
                continue
            found.append((i, 1.0))
            if phase in (RUNNING, FLYING):
                course = self.courses[i][state.mode[i]]
                assert course is not None
                if course.load != NOT_SHARING:
                    sharing.append(len(found) - 1)
                    loads.append(course.load)
        for k, speed in zip(sharing, self.speeds.speeds(tuple(loads)), strict=True):
            found[k] = found[k][0], float(speed)
        return found

    def _amount(self, state: WorkingState, i: int) -> float:
        """Return how much op ``i`` will have done in its phase at its next step."""
        phase, m = state.phase[i], state.mode[i]
        course, way = self.courses[i][m], self.tables.ways[i][m]
        assert course is not None and way is not None
        if phase in (RUNNING, FLYING):
            return course.steps[state.step[i]][0]
        if phase == PREPARING:
            return course.prepare
        return way.issue if phase == ISSUING else way.poll

    def _reach(self, state: WorkingState, i: int, done: float) -> None:
        """Let the steps of op ``i`` happen up to what it has ``done``."""
        phase, m = state.phase[i], state.mode[i]
        course, way = self.courses[i][m], self.tables.ways[i][m]
        assert course is not None and way is not None
        if phase == PREPARING:
            self._enter(state, i, RUNNING)
        elif phase == ISSUING:
            self._queue(state, i, way)
        elif phase == POLLING:
            self._release(state, (way.owner,))
            known(self.tables, state, i)
        else:
            while state.phase[i] == phase and course.steps[state.step[i]][0] <= done:
                which = course.steps[state.step[i]][1]
                state.step[i] += 1
                if which != END and phase == RUNNING:
                    self._release(state, state.held[i][which])
                elif which != END:
                    state.room[way.pipes[which][0]] += way.pipes[which][1]
                elif phase == RUNNING:
                    known(self.tables, state, i)
                else:
                    state.phase[i] = ARRIVED
                    if state.lanes[way.owner] == -2 - i:
                        self._poll(state, i, way)

    def _enter(self, state: WorkingState, i: int, phase: int) -> None:
        state.phase[i] = phase
        state.done[i] = 0.0
        state.step[i] = 0

    def _release(self, state: WorkingState, lanes: tuple[int, ...]) -> None:
        for lane in lanes:
            state.lanes[lane] = IDLE
            state.released |= 1 << lane

    def _queue(self, state: WorkingState, i: int, way: Way) -> None:
        state.phase[i] = QUEUED
        insort(state.pending, (state.now, i))
        self._release(state, (way.owner,))

    def _poll(self, state: WorkingState, i: int, way: Way) -> None:
        if way.poll == 0:
            self._release(state, (way.owner,))
            known(self.tables, state, i)
        else:
            self._enter(state, i, POLLING)
            state.lanes[way.owner] = i

    def _choose_transfers(self, state: WorkingState) -> None:
        left: list[tuple[float, int]] = []
        for item in state.pending:
            i = item[1]
            way = self.tables.ways[i][state.mode[i]]
            assert way is not None
            if any(state.room[pipe] < units for pipe, units, _ in way.pipes):
                left.append(item)
                continue
            for pipe, units, _ in way.pipes:
                state.room[pipe] -= units
            self._enter(state, i, FLYING)
        state.pending = left

    def key(self, state: State) -> tuple[object, ...]:
        """Return what the future depends on: equal for states that differ by alike lanes or by a grain only."""
        assert isinstance(state, WorkingState)
        grain, released, special = self.grain, state.released, self.tables.special
        ops: list[int] = []
        for phase, done, mode in zip(state.phase, state.done, state.mode, strict=True):
            if phase in (FRESH, OVER):
                ops.append(-phase)
            else:
                doing = round(done / grain) if UNDER_WAY[phase] else 0
                ops.append((doing * 65536 + mode) * 16 + phase)
        lanes: list[int] = []
        for first, count in self.tables.groups:
            alike: list[int] = []
            for lane in range(first, first + count):
                holder = int(state.lanes[lane])
                value = holder if holder < IDLE else holder + 2 if holder >= 0 else released >> lane & 1
                if special >> lane & 1:
                    lanes.append(value)
                else:
                    alike.append(value)
            alike.sort()
            lanes += alike
        flags = -1 if state.entry else int(state.seen != 0)
        pending = tuple([(issued == state.now, i) for issued, i in state.pending])
        places = tuple(sorted(state.places.items())) if state.places else ()
        return tuple(ops), tuple(lanes), flags, pending, places

    def least_end(self, state: State) -> float:
        """Return the least time at which any continuation can end."""
        assert isinstance(state, WorkingState)
        return max(self._remaining.least_end(state), state.now + self._prices.least_left(state))

    def sharpened(self, state: State) -> float:
        """Return what can be said at more cost."""
        assert isinstance(state, WorkingState)
        return state.now + self._prices.sharpened(state)
