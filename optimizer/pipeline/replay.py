"""An interleaving in words: what each of its steps does, and what is wrong with the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.pipeline.index import Index, Trips
from hexloom.optimizer.pipeline.machine import EVERY, FLYING, RETIRED, Fault
from hexloom.optimizer.pipeline.shortest import after

if TYPE_CHECKING:
    from hexloom.optimizer.pipeline.machine import Job, Machine, Move, State, Step, Touch, Value
    from hexloom.optimizer.pipeline.shortest import Broken


ONLY = Index("", 0)
"""The number of a value that is the only one of its buffer."""


class Line(NamedTuple):
    """One step: its number, who does it, in which iteration (or before or after the loop), and what."""

    number: int
    who: str
    where: str
    what: str


class Told(NamedTuple):
    """An interleaving told: its lines, one sentence with what is wrong, those at fault, and what would mend it."""

    lines: tuple[Line, ...]
    sentence: str
    parties: tuple[str, ...]
    mend: str


class Replay:
    """Does the moves of a broken pipeline again and keeps book of who did what."""

    def __init__(self, machine: Machine, broken: Broken) -> None:
        self.machine = machine
        self.program = machine.program
        self.trips = Trips(broken.trip_count, True)
        self.fault = broken.fault
        self.lines: list[Line] = []
        self.number: dict[tuple[int, int], int] = {}
        self.written: dict[int, tuple[int, str]] = {}
        actions = [action for lines in self.program.threads for action in lines.all()]
        accesses = [access for action in actions for access in (*action.reads, *action.writes)]
        self.numbered = {access.buffer for access in accesses if access.where != ONLY}
        state = machine.start()
        for k, move in enumerate(broken.moves, 1):
            then = after(machine, state, move, self.trips)
            self._note(state, k, move)
            if then is None or isinstance(then, Fault):
                break
            state = then
        self.state: State = state

    def told(self) -> Told:
        """Return the whole story."""
        sentence, parties = self._sentence()
        return Told(tuple(self.lines), sentence, parties, self._mend(parties))

    def _mend(self, parties: tuple[str, ...]) -> str:
        kind = self.fault.kind
        if kind == "overwrite":
            buffer = self.program.buffers[self.program.home.index(self.program.home[self.fault.wanted[0]])]
            first, second = parties if self._other()[0] and not self._reads_what_is_written() else parties[::-1]
            return f"let {second} wait for {first}, or give {buffer} another slot"
        if kind in ("read_before_write", "two_writers") and self._other()[0]:
            return f"let {parties[1]} wait for {parties[0]}"
        texts = {
            "read_before_write": f"write {parties[0]} before {parties[-1]}, and let it wait for that",
            "queue_full": f"wait for the oldest job of {parties[-1]} before this push, or give it more entries",
            "unexpected": f"push {parties[0]} before {parties[-1]}, or wait for it by name (for)",
            "left_over": "wait for them in the epilogue",
        }
        return texts.get(kind, "")

    # --- steps

    def step(self, t: int, at: int) -> Step:
        """Return the step of thread ``t`` at ``at``."""
        return self.machine.step_at(t, at, self.trips)

    def _note(self, state: State, number: int, move: Move) -> None:
        if move.actor < 0:
            queue = self.program.queues[-1 - move.actor].name
            step = self.step(move.of, move.at)
            signals = ", ".join(self.program.events[e].name for e in step.action.signals)
            self.lines.append(Line(number, queue, "", f"{name_of(step)} ends and signals {signals}"))
            return
        step = self.step(move.actor, move.at)
        for slot, _, _ in step.writes:
            self.written[slot] = (number, name_of(step))
        self.number[move.actor, move.at] = number
        who, where = self.program.threads[move.actor].name, where_of(step)
        self.lines.append(Line(number, who, where, self._what(state, step, move)))

    def _what(self, state: State, step: Step, move: Move) -> str:
        verb, action = step.action.verb, step.action
        if verb == "run":
            return f"{name_of(step)}{self._touches(step)}"
        if verb == "push":
            return f"push {self.program.queues[action.target].name}: {name_of(step)}{self._touches(step)}"
        if verb == "pop":
            return self._popped(state, step, move)
        if verb == "barrier":
            party = [self.program.threads[t].name for t in self.program.barriers[action.target]]
            return f"barrier {action.text}: {', '.join(party)} go on"
        event = self.program.events[action.target].name
        if verb == "reach":
            return f"wait {event}: {step.times} signals came"
        many = "" if step.times == 1 else f" {step.times} times"
        return f"signal {event}{many}" if verb == "signal" else f"wait {event}{many}: there"

    def _popped(self, state: State, step: Step, move: Move) -> str:
        queue = self.program.queues[step.action.target].name
        asked = f" for {named(step.job)}" if step.job is not None and step.action.by_name else ""
        then = after(self.machine, state, move, self.trips)
        if then is None or isinstance(then, Fault):
            return f"wait {queue}{asked}"
        held = [job for job in state.queues[step.action.target] if job.status != RETIRED]
        if asked:
            return f"wait {queue}{asked}: it has ended"
        return f"wait {queue}: the oldest, {name_of(self.step(held[0].thread, held[0].at))}, has ended"

    def _touches(self, step: Step) -> str:
        parts = [
            f"{verb} {', '.join(self.value_at(touch) for touch in touches)}"
            for verb, touches in (("reads", step.reads), ("writes", step.writes))
            if touches
        ]
        return f"; {'; '.join(parts)}" if parts else ""

    def value_at(self, touch: Touch) -> str:
        """Return a value with its slot where there are several."""
        slot, buffer, number = touch
        first, slots, _ = self.program.memories[self.program.home[buffer]]
        return self.value((buffer, number)) + (f" (slot {slot - first})" if slots > 1 else "")

    def value(self, value: Value) -> str:
        """Return the name of a value."""
        alone = value[1] == EVERY or value[0] not in self.numbered
        return self.program.buffers[value[0]] + ("" if alone else f"[{value[1]}]")

    # --- what is wrong

    def _sentence(self) -> tuple[str, tuple[str, ...]]:
        fault = self.fault
        if fault.slot >= 0:
            return self._memory()
        if fault.kind == "left_signals":
            event = self.program.events[fault.queue]
            has = self.state.counts[fault.queue]
            return f"all threads have ended and event {event.name} is at {has}, not {event.initial}", (event.name,)
        if fault.kind == "deadlock":
            return "no thread can go on", self._blocked()
        return self._queue()

    def _blocked(self) -> tuple[str, ...]:
        """Return the threads that are not at their end."""
        next_of, at = self.machine.next_of, self.state.at
        threads = enumerate(self.program.threads)
        return tuple(lines.name for t, lines in threads if next_of(t, at[t], self.trips) is not None)

    def _queue(self) -> tuple[str, tuple[str, ...]]:
        fault = self.fault
        queue = self.program.queues[fault.queue]
        held = [job for job in self.state.queues[fault.queue] if job.status != RETIRED]
        holds = ", ".join(self.job(job) for job in held) or "nothing"
        if fault.kind == "left_over" or fault.move is None:
            names = tuple(name_of(self.step(job.thread, job.at)) for job in held)
            return f"all threads have ended and nobody has waited for what {queue.name} holds: {holds}", names
        step = self.step(fault.move.actor, fault.move.at)
        who = self.program.threads[fault.move.actor].name
        if fault.kind == "queue_full":
            many = f" ({step.times} descriptors)" if step.times > 1 else ""
            taken = sum(self.step(job.thread, job.at).times for job in self.state.queues[fault.queue])
            text = f"{who} pushes {name_of(step)}{many} to {queue.name}, which has {queue.entries - taken} of "
            return f"{text}{queue.entries} entries free: it holds {holds}", (name_of(step), queue.name)
        if fault.kind == "unexpected":
            oldest = name_of(self.step(held[0].thread, held[0].at))
            text = f"{who} takes the oldest job of {queue.name} for {named(step.job)}, but it is {oldest}: {holds}"
            return text, (named(step.job), oldest)
        wanted = f"{named(step.job)} in {queue.name}" if step.action.by_name else f"a job of {queue.name}"
        return f"{who} waits for {wanted}, which holds {holds}", (who, queue.name)

    def job(self, job: Job) -> str:
        """Return a job with the step that pushed it."""
        return f"{name_of(self.step(job.thread, job.at))} (step {self.number[job.thread, job.at]})"

    def _memory(self) -> tuple[str, tuple[str, ...]]:
        fault = self.fault
        assert fault.move is not None
        step = self.step(fault.move.actor, fault.move.at)
        me = name_of(step)
        wanted, found = self.value(fault.wanted), "" if fault.found[0] < 0 else self.value(fault.found)
        place = self._place(fault)
        other, at = self._other()
        if fault.kind == "two_writers":
            return f"{me} writes {wanted} to {place} while {other} ({at}) may still be writing {found} there", (
                other,
                me,
            )
        if other and fault.kind == "read_before_write":
            return f"{me} reads {wanted} in {place} while {other} ({at}) may still be writing it", (other, me)
        if other and self._reads_what_is_written():
            return f"{me} reads {wanted} in {place} while {other} ({at}) may be writing {found} over it", (other, me)
        if other:
            return f"{me} writes {wanted} to {place} while {other} ({at}) may still be reading {found} there", (
                other,
                me,
            )
        if fault.slot not in self.written:
            return f"{me} reads {wanted} in {place}, where nothing has been written yet", (wanted, me)
        number, writer = self.written[fault.slot]
        if fault.kind == "overwrite":
            return f"{me} reads {wanted} in {place}, but {writer} (step {number}) has written {found} over it", (
                writer,
                me,
            )
        return f"{me} reads {wanted} in {place}, which still holds {found} of {writer} (step {number})", (wanted, me)

    def _reads_what_is_written(self) -> bool:
        """Whether the last move reads a slot that the other one is writing."""
        fault = self.fault
        assert fault.move is not None
        t, at = (
            (fault.job.thread, fault.job.at) if fault.job is not None else (fault.thread, self.state.at[fault.thread])
        )
        mine, theirs = self.step(fault.move.actor, fault.move.at), self.step(t, at)
        return any(touch[0] == fault.slot for touch in mine.reads) and any(
            touch[0] == fault.slot for touch in theirs.writes
        )

    def _other(self) -> tuple[str, str]:
        """Return who else is at the slot and since which step; nobody: two empty texts."""
        fault = self.fault
        if fault.job is not None:
            assert fault.job.status == FLYING
            step = self.step(fault.job.thread, fault.job.at)
            queue = self.program.queues[fault.queue].name
            number = self.number[fault.job.thread, fault.job.at]
            return name_of(step), f"pushed to {queue} at step {number}, not yet waited for"
        if fault.thread < 0:
            return "", ""
        at = self.state.at[fault.thread]
        return name_of(self.step(fault.thread, at)), (
            f"{self.program.threads[fault.thread].name}, step {self.number[fault.thread, at]}"
        )

    def _place(self, fault: Fault) -> str:
        home = self.program.home[fault.wanted[0]]
        first = self.program.memories[home].first
        name = self.program.buffers[self.program.home.index(home)]
        return f"slot {fault.slot - first} of {name}"


def name_of(step: Step) -> str:
    """Return what a run or a job is called in its iteration."""
    return step.action.text if step.job is None else named(step.job)


def named(job: tuple[str, int] | None) -> str:
    """Return a job as it is written."""
    return "" if job is None else f"{job[0]}[{job[1]}]"


def where_of(step: Step) -> str:
    """Return the iteration, or the part before or after the loop."""
    return f"i={step.i}" if step.section == "body" else step.section
