"""What can happen next in a pipeline, and what is wrong with it.

A state holds no clock. Three facts make its steps few, and none of them loses a fault (the tests' oracle has them not):

- What a thread runs may take any time, so it lasts at worst until the next action of the thread. It begins with its
  own step and ends with the next.
- A job may start at once, and may last until somebody knows that it has ended. It begins with its push and ends with
  the wait that retires it, or a later job of the same queue if that is in order. Jobs of one ``fifo`` never overlap.
- Only a job that signals ends in a step of its own, since that is when others may go on.

Everything that could overlap some access in some timing then does overlap it in some order of these steps, and what
does overlap could do so: the work that is under way is slow, the work that begins is early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.pipeline.index import Trips
    from hexloom.optimizer.pipeline.program import Access, Action, Program

T = TypeVar("T")

FLYING, DONE, RETIRED = range(3)

Value = tuple[int, int]
"""A buffer and the number of what it holds."""

NOTHING: Value = (-1, 0)
OLD: Value = (-1, -1)
"""Too old for anybody to ask for it: which one it was makes no difference."""

Touch = tuple[int, int, int]
"""A slot, and the value there: its buffer and its number."""


class Job(NamedTuple):
    """A pushed job: what thread ``thread`` did at its place ``at``."""

    thread: int
    at: int
    status: int


class State(NamedTuple):
    """The last action of every thread, the values in the slots, the queues from the oldest on, and the counters."""

    at: tuple[int, ...]
    memory: tuple[Value, ...]
    queues: tuple[tuple[Job, ...], ...]
    counts: tuple[int, ...]


class Step(NamedTuple):
    """An action in one iteration; ``reads`` and ``writes`` also as bit sets of slots."""

    action: Action
    section: str
    i: int
    times: int
    job: tuple[str, int] | None
    reads: tuple[Touch, ...]
    writes: tuple[Touch, ...]
    read_bits: int
    write_bits: int


class Move(NamedTuple):
    """Thread ``actor`` does what stands at ``at``, or job (``of``, ``at``) of queue ``-1 - actor`` ends."""

    actor: int
    at: int
    of: int = -1


class Fault(NamedTuple):
    """What is wrong with ``move``: at which slot, what was wanted and what is there, and who else is at it."""

    kind: str
    move: Move | None
    slot: int = -1
    wanted: Value = NOTHING
    found: Value = NOTHING
    thread: int = -1
    queue: int = -1
    job: Job | None = None


Outcome = tuple[Move, State | Fault]


class Machine:
    """The moves of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._before = [len(lines.prologue) for lines in program.threads]
        self._length = [len(lines.body) for lines in program.threads]
        self._inside: list[dict[int, Step]] = [{} for _ in program.threads]
        self._behind: dict[tuple[int, int, int], Step] = {}
        self._next: dict[tuple[int, int, Trips], tuple[int, Step] | None] = {}
        self.signalling = [
            any(a.verb == "push" and a.target == q and a.signals for lines in program.threads for a in lines.all())
            for q in range(len(program.queues))
        ]
        self.by_rounds = [bool(program.users(e, "reach")) for e in range(len(program.events))]

    def start(self) -> State:
        """Return the state before the first action."""
        p = self.program
        memory = [NOTHING] * p.slots
        for buffer, ready in enumerate(p.ready):
            first, slots, _ = p.memories[p.home[buffer]]
            if ready:
                memory[first : first + slots] = [(buffer, EVERY)] * slots
        counts = tuple(event.initial for event in p.events)
        return State((-1,) * len(p.threads), tuple(memory), ((),) * len(p.queues), counts)

    # --- where a thread is

    def step_at(self, t: int, at: int, trips: Trips) -> Step:
        """Return what thread ``t`` does at ``at``, a place that it reaches for this trip count."""
        before, length = self._before[t], self._length[t]
        if at < before + trips.least * length:
            found = self._inside[t].get(at)
            if found is None:
                found = self._inside[t][at] = self._inside_step(t, at)
            return found
        if length:
            trips.above((at - before) // length)  # raises where this may still be in the loop
        found = self._behind.get((t, at, trips.least))
        if found is None:
            action = self.program.threads[t].epilogue[at - before - trips.least * length]
            found = self._behind[t, at, trips.least] = self._step(action, "epilogue", 0, trips.least)
        return found

    def _inside_step(self, t: int, at: int) -> Step:
        lines = self.program.threads[t]
        if at < len(lines.prologue):
            return self._step(lines.prologue[at], "prologue", 0, 0)
        i, k = divmod(at - len(lines.prologue), len(lines.body))
        return self._step(lines.body[k], "body", i, 0)

    def _step(self, action: Action, section: str, i: int, n: int) -> Step:
        reads = tuple(_touch(access, i, n) for access in action.reads)
        writes = tuple(_touch(access, i, n) for access in action.writes)
        job = None if action.job is None else (action.job.name, action.job.where.at(i, n))
        times = action.times
        if action.verb == "reach" and job is not None:
            times = self.program.events[action.target].per_round * (job[1] + 1)
        return Step(action, section, i, times, job, reads, writes, _bits(reads), _bits(writes))

    def next_of(self, t: int, at: int, trips: Trips) -> tuple[int, Step] | None:
        """Return the place and the step that thread ``t`` comes to after ``at``; None at its end.

        Raises
        ------
        Undecided
            The trip count must be known better.
        """
        key = (t, at, trips)
        if key not in self._next:
            self._next[key] = self._after(t, at, trips)
        return self._next[key]

    def _after(self, t: int, at: int, trips: Trips) -> tuple[int, Step] | None:
        lines = self.program.threads[t]
        before, length = len(lines.prologue), len(lines.body)
        while True:
            at += 1
            if at >= before:
                if not length:
                    return None
                i = (at - before) // length
                if not trips.above(i) and at - before - trips.least * length >= len(lines.epilogue):
                    return None
            step = self.step_at(t, at, trips)
            if step.action.guard.holds(step.i, trips):
                return at, step

    def iteration_of(self, t: int, at: int) -> int:
        """Return in which iteration thread ``t`` is; 0 before the loop, n or more after it."""
        lines = self.program.threads[t]
        return max(0, (at - len(lines.prologue)) // len(lines.body)) if lines.body else 0

    # --- what can happen

    def moves(self, state: State, trips: Trips) -> Iterator[Outcome]:
        """Return every move that is possible in ``state`` with what it leads to."""
        for t in range(len(state.at)):
            outcome = self.of_thread(state, t, trips)
            if outcome is not None:
                yield outcome
        yield from self.endings(state, trips)

    def endings(self, state: State, trips: Trips) -> Iterator[Outcome]:
        """Return the ends of jobs that signal."""
        for q, jobs in enumerate(state.queues):
            if not self.signalling[q]:
                continue
            for k, job in enumerate(jobs):
                if job.status == FLYING and self.step_at(job.thread, job.at, trips).action.signals:
                    yield Move(-1 - q, job.at, job.thread), self._ended(state, q, k, trips)
                    if self.program.queues[q].kind == "fifo":
                        break

    def _ended(self, state: State, q: int, k: int, trips: Trips) -> State:
        jobs = list(state.queues[q])
        first = 0 if self.program.queues[q].kind == "fifo" else k
        for j in range(first, k + 1):
            if jobs[j].status == FLYING:
                jobs[j] = jobs[j]._replace(status=DONE)
        counts = list(state.counts)
        for event in self.step_at(jobs[k].thread, jobs[k].at, trips).action.signals:
            counts[event] += 1
        return state._replace(queues=_with(state.queues, q, tuple(jobs)), counts=tuple(counts))

    def of_thread(self, state: State, t: int, trips: Trips) -> Outcome | None:
        """Return the next move of thread ``t``; None where it must wait or is at its end."""
        come = self.next_of(t, state.at[t], trips)
        if come is None:
            return None
        at, step = come
        move = Move(t, at)
        verb = step.action.verb
        after: State | Fault | None
        if verb == "run":
            after = self._begin(state, step, move, -1, trips)
        elif verb == "push":
            after = self._push(state, step, move, trips)
        elif verb == "pop":
            after = self._pop(state, step, move, trips)
        elif verb == "barrier":
            return self._barrier(state, step, move, trips)
        else:
            after = _count(state, step)
        if after is None or isinstance(after, Fault):
            return None if after is None else (move, after)
        return move, after._replace(at=_with(after.at, t, at))

    def _barrier(self, state: State, step: Step, move: Move, trips: Trips) -> Outcome | None:
        party = self.program.barriers[step.action.target]
        if move.actor != party[0]:
            return None  # the first of them moves all
        at = list(state.at)
        for t in party:
            come = self.next_of(t, state.at[t], trips)
            if come is None or come[1].action.verb != "barrier" or come[1].action.target != step.action.target:
                return None
            at[t] = come[0]
        return move, state._replace(at=tuple(at))

    def _push(self, state: State, step: Step, move: Move, trips: Trips) -> State | Fault | None:
        q = step.action.target
        queue = self.program.queues[q]
        taken = sum(self.step_at(job.thread, job.at, trips).times for job in state.queues[q])
        if taken + step.times > queue.entries:
            return None if queue.when_full == "wait" else Fault("queue_full", move, queue=q)
        after = self._begin(state, step, move, q if queue.kind == "fifo" else -1, trips)
        if isinstance(after, Fault):
            return after
        jobs = (*state.queues[q], Job(move.actor, move.at, FLYING))
        return after._replace(queues=_with(state.queues, q, jobs))

    def _pop(self, state: State, step: Step, move: Move, trips: Trips) -> State | Fault | None:
        q, jobs = step.action.target, list(state.queues[step.action.target])
        steps = [self.step_at(job.thread, job.at, trips) for job in jobs]
        held = [k for k, job in enumerate(jobs) if job.status != RETIRED]
        if step.action.by_name:
            held = [k for k in held if steps[k].job == step.job]
        if not held:
            return Fault("not_queued" if step.action.by_name and jobs else "queue_empty", move, queue=q)
        k = held[0]
        if step.job is not None and steps[k].job != step.job:
            return Fault("unexpected", move, queue=q, job=jobs[k])
        first = 0 if self.program.queues[q].kind == "fifo" else k
        if any(jobs[j].status == FLYING and steps[j].action.signals for j in range(first, k + 1)):
            return None
        for j in range(first, k):
            jobs[j] = jobs[j]._replace(status=max(jobs[j].status, DONE))
        jobs[k] = jobs[k]._replace(status=RETIRED)
        while jobs and jobs[0].status == RETIRED:
            del jobs[0]
        return state._replace(queues=_with(state.queues, q, tuple(jobs)))

    # --- memory

    def _begin(self, state: State, step: Step, move: Move, own: int, trips: Trips) -> State | Fault:
        """Begin the accesses of ``step``; jobs of queue ``own`` come before it by themselves."""
        if not step.read_bits and not step.write_bits:
            return state
        for t, q, job, other in self.under_way(state, trips):
            clash = step.write_bits & (other.read_bits | other.write_bits) | step.read_bits & other.write_bits
            if clash and t != move.actor and (q < 0 or q != own):
                return _clash(step, move, other, t, q, job)
        for slot, buffer, number in step.reads:
            found = state.memory[slot]
            if found != (buffer, number) and found != (buffer, EVERY):
                newer = found not in (NOTHING, OLD) and (found[0] != buffer or found[1] > number)
                kind = "overwrite" if newer else "read_before_write"
                return Fault(kind, move, slot, (buffer, number), found)
        if not step.writes:
            return state
        memory = list(state.memory)
        for slot, buffer, number in step.writes:
            memory[slot] = (buffer, number)
        return state._replace(memory=tuple(memory))

    def under_way(self, state: State, trips: Trips) -> Iterator[tuple[int, int, Job | None, Step]]:
        """Return all work that may be going on: (thread, -1, None, step) and (-1, queue, job, step)."""
        for t, at in enumerate(state.at):
            if at >= 0:
                step = self.step_at(t, at, trips)
                if step.action.verb == "run":
                    yield t, -1, None, step
        for q, jobs in enumerate(state.queues):
            for job in jobs:
                if job.status == FLYING:
                    yield -1, q, job, self.step_at(job.thread, job.at, trips)

    # --- the end

    def finished(self, state: State, trips: Trips) -> bool:
        """Whether every thread is at its end."""
        return all(self.next_of(t, at, trips) is None for t, at in enumerate(state.at))

    def at_rest(self, state: State, trips: Trips) -> Fault | None:
        """Return what is wrong with a state in which nothing can move."""
        if not self.finished(state, trips):
            return Fault("deadlock", None)
        for q, jobs in enumerate(state.queues):
            left = [job for job in jobs if job.status != RETIRED]
            if left:
                return Fault("left_over", None, queue=q, job=left[0])
        for e, event in enumerate(self.program.events):
            if state.counts[e] > event.initial and self.program.users(e, "take"):
                return Fault("left_signals", None, queue=e)
        return None


EVERY = 1 << 62
"""The number of a value that is every value of its buffer."""


def _touch(access: Access, i: int, n: int) -> Touch:
    number = access.where.at(i, n)
    return access.first + number % access.slots, access.buffer, number


def _bits(touches: tuple[Touch, ...]) -> int:
    found = 0
    for slot, _, _ in touches:
        found |= 1 << slot
    return found


def _count(state: State, step: Step) -> State | None:
    event = step.action.target
    count = state.counts[event]
    if step.action.verb == "signal":
        return state._replace(counts=_with(state.counts, event, count + step.times))
    if count < step.times:
        return None
    left = count if step.action.verb == "reach" else count - step.times
    return state._replace(counts=_with(state.counts, event, left))


def _clash(step: Step, move: Move, other: Step, t: int, q: int, job: Job | None) -> Fault:
    theirs = {slot: (buffer, number) for slot, buffer, number in other.writes}
    for slot, buffer, number in step.writes:
        if slot in theirs:
            return Fault("two_writers", move, slot, (buffer, number), theirs[slot], t, q, job)
    for slot, buffer, number in step.reads:
        if slot in theirs:
            kind = "read_before_write" if theirs[slot] == (buffer, number) else "overwrite"
            return Fault(kind, move, slot, (buffer, number), theirs[slot], t, q, job)
    read = {slot: (buffer, number) for slot, buffer, number in other.reads}
    slot, buffer, number = next(touch for touch in step.writes if touch[0] in read)
    return Fault("overwrite", move, slot, (buffer, number), read[slot], t, q, job)


def _with(items: tuple[T, ...], k: int, item: T) -> tuple[T, ...]:
    return (*items[:k], item, *items[k + 1 :])
