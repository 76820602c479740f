"""A pipeline made ready to be run step by step: names become numbers, and every reference is checked."""

from __future__ import annotations

import difflib
from collections import Counter
from itertools import chain
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.pipeline.index import (
    Guard,
    Index,
    Place,
    Trips,
    largest_number,
    parse_guard,
    parse_index,
    parse_place,
)
from hexloom.optimizer.pipeline.model import Barrier, Push, Run, Signal, WaitFor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hexloom.optimizer.pipeline.model import Action as Written
    from hexloom.optimizer.pipeline.model import Event, Pipeline, Queue, Thread

SECTIONS = ("prologue", "body", "epilogue")
MOST_SLOTS_IN_ALL = 100_000


class Access(NamedTuple):
    """Value ``index`` of ``buffer``, in the ``slots`` slots of the memory from ``first`` on."""

    buffer: int
    first: int
    slots: int
    where: Index


class Action(NamedTuple):
    """One line of a thread. ``target`` is a queue, an event or a barrier by its number; ``job`` also what is awaited.

    ``verb`` is ``run``, ``push``, ``pop`` (a queue), ``take``, ``reach`` (an event), ``signal`` or ``barrier``.
    """

    verb: str
    text: str
    guard: Guard
    target: int = -1
    times: int = 1
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    signals: tuple[int, ...] = ()
    job: Place | None = None
    by_name: bool = False


class Lines(NamedTuple):
    """What one thread does."""

    name: str
    prologue: tuple[Action, ...]
    body: tuple[Action, ...]
    epilogue: tuple[Action, ...]

    def all(self) -> Iterator[Action]:
        """Return every action, once each."""
        return chain(self.prologue, self.body, self.epilogue)


class Memory(NamedTuple):
    """Slots ``first`` to ``first + slots``; ``rolling`` where the values in them move with the iteration."""

    first: int
    slots: int
    rolling: bool


class Program(NamedTuple):
    """A pipeline in numbers.

    ``reach`` is how many iterations back a value is still read; from iteration ``settled`` on no guard looks at the
    number of an iteration but for its rest by ``period``.
    """

    name: str
    threads: tuple[Lines, ...]
    buffers: tuple[str, ...]
    memories: tuple[Memory, ...]
    home: tuple[int, ...]
    ready: tuple[bool, ...]
    queues: tuple[Queue, ...]
    events: tuple[Event, ...]
    barriers: tuple[tuple[int, ...], ...]
    barrier_names: tuple[str, ...]
    reach: int
    settled: int
    period: int

    @property
    def slots(self) -> int:
        """All slots of all memories."""
        return sum(memory.slots for memory in self.memories)

    def users(self, target: int, *verbs: str) -> list[int]:
        """Return the threads that use a queue, event or barrier in one of these ways."""
        return [
            t
            for t, lines in enumerate(self.threads)
            if any(action.target == target and action.verb in verbs for action in lines.all())
        ]

    @property
    def confluent(self) -> bool:
        """Whether no move can take away another: every queue has one pusher and one waiter, every counter one taker."""
        queues = range(len(self.queues))
        events = range(len(self.events))
        alone = [self.users(q, verb) for q in queues for verb in ("push", "pop")]
        return all(len(users) <= 1 for users in (*alone, *(self.users(e, "take") for e in events)))


def program_of(pipeline: Pipeline, source: str = "pipeline") -> Program:
    """Check every reference of ``pipeline`` and turn it into numbers.

    Raises
    ------
    InvalidInputError
        One line: which thread and action, what is wrong, and what to write.
    """
    try:
        return _Compiler(pipeline).program()
    except ValidationError as error:  # of one of the threads that a thread stands for
        raise InvalidInputError(f"{source}: {explain(error)}") from None
    except ValueError as error:
        raise InvalidInputError(f"{source}: {error}") from None


class _Compiler:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.threads = [copy for thread in pipeline.threads for copy in thread.copies()]
        self.buffers = {b.name: k for k, b in enumerate(pipeline.buffers)}
        self.queues = {q.name: k for k, q in enumerate(pipeline.queues)}
        self.events = {e.name: k for k, e in enumerate(pipeline.events)}
        self.barriers: dict[str, int] = {}
        self.moving: dict[int, bool] = {}
        self._names_differ()
        self.memories, self.home = self._memories()

    def _names_differ(self) -> None:
        p = self.pipeline
        waited: list[Queue | Event] = [*p.queues, *p.events]
        for kind, names in (
            ("thread", [thread.name for thread in self.threads]),
            ("buffer", [buffer.name for buffer in p.buffers]),
            ("queue or event", [each.name for each in waited]),
        ):
            name, times = max(Counter(names).items(), key=lambda pair: pair[1], default=("", 0))
            if times > 1:
                raise ValueError(f"{kind} {name!r} is there {times} times; give each a name of its own")

    def _memories(self) -> tuple[list[tuple[int, int]], list[int]]:
        home: list[int] = []
        sizes: list[int] = []
        for b in self.pipeline.buffers:
            if b.shares is None:
                home.append(len(sizes))
                sizes.append(b.slots)
                continue
            other = self.buffers.get(b.shares)
            if other is None or other >= len(home) or self.pipeline.buffers[other].shares is not None:
                raise ValueError(f"buffer {b.name!r} shares {b.shares!r}; name a buffer above it that shares no other")
            if self.pipeline.buffers[other].slots != b.slots:
                have = self.pipeline.buffers[other].slots
                raise ValueError(f"buffer {b.name!r} has {b.slots} slots, but shares the {have} of {b.shares!r}")
            home.append(home[other])
        if sum(sizes) > MOST_SLOTS_IN_ALL:
            raise ValueError(f"the buffers have {sum(sizes)} slots, more than {MOST_SLOTS_IN_ALL}; use fewer")
        firsts = [sum(sizes[:k]) for k in range(len(sizes))]
        return list(zip(firsts, sizes, strict=True)), home

    def program(self) -> Program:
        lines = tuple(self._lines(thread) for thread in self.threads)
        self._one_use_of_each_event(lines)
        self._one_owner_of_each_ring(lines)
        guards = [action.guard for thread in lines for action in thread.all()]
        rests = [part.rest for guard in guards for part in guard.parts if part.rest]
        places = [a.where for t in lines for action in t.all() for a in (*action.reads, *action.writes)]
        settled, period = largest_number(guards), lcm(*rests) if rests else 1
        for thread in lines:
            _acts_for_ever(thread, settled, period)
        barriers = tuple(
            tuple(t for t, of in enumerate(lines) if any(a.verb == "barrier" and a.target == k for a in of.all()))
            for k in range(len(self.barriers))
        )
        return Program(
            name=self.pipeline.name,
            threads=lines,
            buffers=tuple(self.buffers),
            memories=tuple(Memory(f, n, self.moving.get(k, False)) for k, (f, n) in enumerate(self.memories)),
            home=tuple(self.home),
            ready=tuple(b.ready for b in self.pipeline.buffers),
            queues=self.pipeline.queues,
            events=self.pipeline.events,
            barriers=barriers,
            barrier_names=tuple(self.barriers),
            reach=max((-index.add for index in places), default=0),
            settled=settled,
            period=period,
        )

    def _lines(self, thread: Thread) -> Lines:
        sections = []
        for section in SECTIONS:
            actions: Sequence[Written] = getattr(thread, section)
            sections.append(tuple(self._placed(thread.name, section, k, each) for k, each in enumerate(actions)))
        if sections[2] and not sections[1]:
            raise ValueError(
                f"thread {thread.name!r} has an epilogue and no body; let it take part in the loop, or let another "
                "thread do this"
            )
        return Lines(thread.name, *sections)

    def _placed(self, thread: str, section: str, k: int, written: Written) -> Action:
        try:
            return self._action(written, section)
        except ValueError as error:
            raise ValueError(f"thread {thread!r}, {section}[{k}]: {error}") from None

    def _action(self, written: Written, section: str) -> Action:
        guard = parse_guard(written.if_)
        if section != "body" and any("i" in (part.left.base, part.right.base) for part in guard.parts):
            raise ValueError(f"guard {written.if_!r} asks for i, which only a body has; compare n with a number")
        match written:
            case Run():
                reads, writes = (self._accesses(texts, section) for texts in (written.reads, written.writes))
                return Action("run", written.run, guard, reads=reads, writes=writes, job=_label(written.run, section))
            case Push():
                reads, writes = (self._accesses(texts, section) for texts in (written.reads, written.writes))
                queue = _known(written.push, self.queues, "queue")
                signals = tuple(_known(name, self.events, "event") for name in written.signals)
                job = _job(written.job, section)
                if written.descriptors > 1 and self.pipeline.queues[queue].kind != "dma":
                    raise ValueError(f"push {written.push!r}: `descriptors` are for DMA rings; drop them")
                return Action("push", written.job, guard, queue, written.descriptors, reads, writes, signals, job)
            case WaitFor():
                return self._wait(written, guard, section)
            case Signal():
                event = _known(written.signal, self.events, "event")
                return Action("signal", written.signal, guard, event, written.times)
            case Barrier():
                barrier = self.barriers.setdefault(written.barrier, len(self.barriers))
                return Action("barrier", written.barrier, guard, barrier)

    def _wait(self, written: WaitFor, guard: Guard, section: str) -> Action:
        name = written.wait
        if name in self.queues:
            if written.round is not None or written.times != 1:
                raise ValueError(f"wait {name!r}: `round` and `times` are for events, and {name!r} is a queue")
            if written.for_ is not None and written.expect is not None:
                raise ValueError(f"wait {name!r}: `for` picks a job and `expect` tests the oldest; write one of them")
            wanted = written.for_ or written.expect
            job = None if wanted is None else _job(wanted, section)
            return Action("pop", name, guard, self.queues[name], job=job, by_name=written.for_ is not None)
        event = _known(name, self.events, "queue or event", [*self.queues, *self.events])
        if written.for_ is not None or written.expect is not None:
            raise ValueError(f"wait {name!r}: `for` and `expect` are for queues, and {name!r} is an event")
        if written.round is None:
            return Action("take", name, guard, event, written.times)
        if written.times != 1:
            raise ValueError(f"wait {name!r}: `round` counts whole rounds; drop `times`")
        index = parse_index(written.round)
        _fits(index, section, written.round)
        if section != "prologue" and not index.base:
            raise ValueError(
                f"wait {name!r}: round {written.round!r} is a number; in a {section} let it move with i or n"
            )
        return Action("reach", name, guard, event, job=Place(name, index))

    def _accesses(self, texts: Iterable[str], section: str) -> tuple[Access, ...]:
        return tuple(self._access(text, section) for text in texts)

    def _access(self, text: str, section: str) -> Access:
        place = parse_place(text)
        buffer = _known(place.name, self.buffers, "buffer")
        _fits(place.where, section, text)
        home = self.home[buffer]
        if section != "prologue" or place.where.base:
            moves = bool(place.where.base)
            if self.moving.setdefault(home, moves) != moves:
                raise ValueError(
                    f"{text!r} is one place and others of buffer {place.name!r} move with the loop; use two buffers"
                )
        return Access(buffer, *self.memories[home], place.where)

    def _one_use_of_each_event(self, lines: Iterable[Lines]) -> None:
        actions = [action for thread in lines for action in thread.all()]
        for name, event in self.events.items():
            ways = {action.verb for action in actions if action.target == event and action.verb in ("take", "reach")}
            if len(ways) > 1:
                raise ValueError(f"event {name!r} is waited for with `round` and without; use two events")

    def _one_owner_of_each_ring(self, lines: Iterable[Lines]) -> None:
        """Refuse a ring that several threads use: only the hardware thread that starts a transfer can poll it."""
        for q, queue in enumerate(self.pipeline.queues):
            verbs = ("push", "pop")
            users = [t.name for t in lines if any(a.target == q and a.verb in verbs for a in t.all())]
            if queue.kind == "dma" and len(users) > 1:
                raise ValueError(
                    f"queue {queue.name!r} is a DMA ring that {' and '.join(users)} use, but only the thread that "
                    "starts a transfer can wait for it; give each a ring of its own, and let it signal the others"
                )


def _acts_for_ever(thread: Lines, settled: int, period: int) -> None:
    """Refuse a loop that does nothing far from both its ends: a thread must not run through it for nothing."""
    far = Trips(1 << 62, False)
    spans = range(settled, settled + period)
    if thread.body and not any(action.guard.holds(i, far) for action in thread.body for i in spans):
        raise ValueError(
            f"thread {thread.name!r} does nothing in its body from iteration {settled} on; write what it does before "
            "or after that into its prologue or epilogue, without the body"
        )


def _known(name: str, among: dict[str, int], kind: str, offered: Iterable[str] = ()) -> int:
    if name in among:
        return among[name]
    near = difflib.get_close_matches(name, [*offered] or [*among], 1, 0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join([*offered] or among) or 'none'}"
    raise ValueError(f"there is no {kind} {name!r} ({hint})")


def _fits(index: Index, section: str, text: str) -> None:
    """Refuse i outside a body and n outside an epilogue, where they have no value yet or any more."""
    allowed = {"prologue": "", "body": "i", "epilogue": "n"}[section]
    if index.base and index.base != allowed:
        instead = {"prologue": "a number", "body": "i, such as i+1", "epilogue": "n, such as n-1"}[section]
        raise ValueError(f"{text!r} uses {index.base}, which has no value in a {section}; write {instead}")


def _label(text: str, section: str) -> Place | None:
    """Read the name of a run as that of a job where it is one; any other text will do too."""
    if section != "body" and "[" not in text:
        return None
    try:
        return _job(text, section)
    except ValueError:
        return None


def _job(text: str, section: str) -> Place:
    """Read the name of a job; without an index it is that of the iteration."""
    place = parse_place(text)
    if "[" not in text:
        bases = {"prologue": Index("", 0), "body": Index("i", 0), "epilogue": Index("n", 0)}
        return Place(place.name, bases[section])
    _fits(place.where, section, text)
    if section != "prologue" and not place.where.base:
        raise ValueError(f"job {text!r} is the same for every iteration and trip count; let its index move with i or n")
    return place
