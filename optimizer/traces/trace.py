"""The neutral form of a measured trace: events with integer times, in columns, so that millions fit into memory."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from hexloom.optimizer.traces.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hexloom.optimizer.traces.domains import Domain
    from hexloom.optimizer.traces.intervals import Ints

Clock = Literal["ns", "cycles", "ticks_19m2"]
"""What times count: nanoseconds, cycles of the core, or ticks of the 19.2 MHz system timer."""

Kind = Literal["op", "work", "transfer", "issue", "wait", "overhead", "sync", "batch"]
"""``op`` spans a whole op, whatever works for it; ``transfer`` is in flight, ``issue`` and ``wait`` are its owner."""

KINDS: tuple[Kind, ...] = get_args(Kind)

_KIND_NUMBER = {kind: k for k, kind in enumerate(KINDS)}

TICK_KHZ = 19_200
"""Rate of the system timer behind ``ticks_19m2``."""

LARGEST = 2**61
"""Times beyond it are refused: they are no clock's, and differences of them leave 64 bits."""

LONGEST = 2**52
"""Durations beyond it are refused: 52 days in nanoseconds."""

MOST_EVENTS = 20_000_000
"""Events that are kept: some 50 bytes each here, and three times as many while they are summed up."""

MOST_NAMES = 1_000_000
"""Different names that are kept apart; later ones share one name."""

NO_START = -(2**63)
"""Start of an event of which only the duration is known."""


class Event(NamedTuple):
    """One thing that was measured; ``[start, start + ticks)`` in units of the clock of its trace.

    ``start`` is None where only a duration was recorded. ``exact`` is False where the end is when somebody looked, not
    when it happened. ``op`` is the position of the event that spans it, -1 for none; ``khz`` the clock that its own
    record states, 0 for none; ``key`` an identifier, ``detail`` what else identifies the work (shapes, types).
    """

    name: str
    kind: Kind
    engine: str
    lane: str
    start: int | None
    ticks: int
    exact: bool
    batch: int
    op: int
    khz: int
    key: str
    detail: str

    @property
    def end(self) -> int | None:
        """When it ends; None where only a duration was recorded."""
        return None if self.start is None else self.start + self.ticks


class Edge(NamedTuple):
    """A dependency that the trace states: positions of two events, and what says so."""

    before: int
    after: int
    kind: str


@dataclass(frozen=True, slots=True)
class ClassTotal:
    """A sum over events that the trace does not hold one by one; None where it is not stated."""

    name: str
    group: str
    count: int
    ticks: int | None
    ns: int | None


class Columns(NamedTuple):
    """Events as arrays; ``start`` is `NO_START` where only a duration is known, texts and lanes are numbers."""

    start: Ints
    ticks: Ints
    op: Ints
    name: NDArray[np.int32]
    detail: NDArray[np.int32]
    lane: NDArray[np.int32]
    batch: NDArray[np.int32]
    kind: NDArray[np.int8]
    exact: NDArray[np.int8]


class _Names:
    """Numbers for texts, at most `MOST_NAMES` of them."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._number: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        found = self._number.get(text)
        if found is None:
            if len(self.texts) >= MOST_NAMES:
                text = "(further names)"
                found = self._number.get(text)
                if found is not None:
                    return found
            found = self._number[text] = len(self.texts)
            self.texts.append(text)
        return found


class Trace:
    """All events of one trace, and what was found while reading it.

    Parameters
    ----------
    form
        Name of the format.
    clock
        Unit of all starts and durations.

    Notes
    -----
    ``khz`` is the rate of a ``cycles`` clock where the trace states one for all its events. ``batches`` counts separate
    runs; times of different batches are never compared. ``meta`` holds what the file says of itself, as text.
    ``domains`` are the clocks of lanes that have one of their own; their readings have become nanoseconds.
    """

    def __init__(self, form: str, clock: Clock, findings: Findings | None = None) -> None:
        self.form = form
        self.clock = clock
        self.khz: int | None = TICK_KHZ if clock == "ticks_19m2" else None
        self.findings = findings or Findings()
        self.meta: dict[str, str] = {}
        self.edges: list[Edge] = []
        self.counters: dict[str, list[tuple[int, int]]] = {}
        self.totals: list[ClassTotal] = []
        self.values: dict[int, tuple[int, ...]] = {}
        self.domains: dict[int, Domain] = {}
        self.lanes: list[tuple[str, str]] = []
        self._lane_number: dict[Any, int] = {}
        self._lane_keys: list[Any] = []
        self._names = _Names()
        self._start, self._ticks = array("q"), array("q")
        self._name, self._key, self._detail = array("i"), array("i"), array("i")
        self._lane, self._batch, self._op, self._khz = array("i"), array("i"), array("q"), array("i")
        self._kind, self._exact = array("b"), array("b")

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._start)

    def lane(self, key: Any, engine: str, label: str) -> int:
        """Return the number of the lane ``key``, made at its first use; `name_lane` may rename it later."""
        found = self._lane_number.get(key)
        if found is None:
            found = self._lane_number[key] = len(self.lanes)
            self.lanes.append((engine, label))
            self._lane_keys.append(key)
        return found

    def track_of(self, number: int) -> tuple[str, str] | None:
        """Return process and thread of a lane that is the track of a Chrome trace."""
        key = self._lane_keys[number]
        return key[:2] if isinstance(key, tuple) and len(key) in (2, 3) else None

    def shift(self, by: int) -> int:
        """Move all starts and counter values, unless they leave the range of times; return by how many units."""
        of = np.frombuffer(self._start, np.int64)
        timed = of != NO_START
        if not by or not timed.any():
            return 0
        low, high = int(of[timed].min()) + by, int(of[timed].max()) + by
        if low > -LARGEST and high < LARGEST:
            of[timed] += by
            self.counters = {name: [(at + by, value) for at, value in of] for name, of in self.counters.items()}
            return by
        self.findings.add("rejected", f"a base time of {by}")
        return 0

    def name_lane(self, number: int, engine: str, label: str) -> None:
        """Give a lane the name that the trace stated only after its events."""
        self.lanes[number] = engine, label

    def add(
        self,
        name: str,
        kind: Kind,
        lane: int,
        start: int | None,
        ticks: int,
        *,
        exact: bool = True,
        batch: int = 0,
        op: int = -1,
        khz: int = 0,
        key: str = "",
        detail: str = "",
    ) -> int:
        """Add one event and return its position; -1, and counted as rejected, when its times are no times."""
        if ticks < 0 or ticks >= LONGEST or (start is not None and not -LARGEST < start < LARGEST):
            self.findings.add("rejected", f"{name}: start {start}, length {ticks}")
            return -1
        if len(self._start) >= MOST_EVENTS:
            self.findings.add("limit", f"more than {MOST_EVENTS} events; the first ones are kept")
            return -1
        self._start.append(NO_START if start is None else start)
        self._ticks.append(ticks)
        self._name.append(self._names.number(name))
        self._key.append(self._names.number(key))
        self._detail.append(self._names.number(detail))
        self._lane.append(lane)
        self._batch.append(batch)
        self._op.append(op)
        self._khz.append(min(khz, 2**31 - 1))
        self._kind.append(_KIND_NUMBER[kind])
        self._exact.append(exact)
        return len(self._start) - 1

    def __getitem__(self, i: int) -> Event:
        """Return the event at position ``i``."""
        texts = self._names.texts
        start = self._start[i]
        engine, lane = self.lanes[self._lane[i]]
        return Event(
            name=texts[self._name[i]],
            kind=KINDS[self._kind[i]],
            engine=engine,
            lane=lane,
            start=None if start == NO_START else start,
            ticks=self._ticks[i],
            exact=bool(self._exact[i]),
            batch=self._batch[i],
            op=self._op[i],
            khz=self._khz[i],
            key=texts[self._key[i]],
            detail=texts[self._detail[i]],
        )

    def __iter__(self) -> Iterator[Event]:
        """Yield all events in the order of the file."""
        return (self[i] for i in range(len(self)))

    @property
    def columns(self) -> Columns:
        """All events as arrays, without a copy; none may be added while they are in use."""
        return Columns(
            start=np.frombuffer(self._start, np.int64),
            ticks=np.frombuffer(self._ticks, np.int64),
            op=np.frombuffer(self._op, np.int64),
            name=np.frombuffer(self._name, np.int32),
            detail=np.frombuffer(self._detail, np.int32),
            lane=np.frombuffer(self._lane, np.int32),
            batch=np.frombuffer(self._batch, np.int32),
            kind=np.frombuffer(self._kind, np.int8),
            exact=np.frombuffer(self._exact, np.int8),
        )

    def in_time(self) -> Ints:
        """Return the positions of all events with a start: by batch and time, of equal starts the longer one first."""
        of = self.columns
        timed = np.flatnonzero(of.start != NO_START)
        return timed[np.lexsort((timed, -of.ticks[timed], of.start[timed], of.batch[timed]))]

    def text(self, number: int) -> str:
        """Return the text behind a number in a column."""
        return self._names.texts[number]

    def lane_of(self, i: int) -> int:
        """Return the number of the lane of an event."""
        return self._lane[i]

    @property
    def batches(self) -> int:
        """Number of separate runs."""
        return max(self._batch, default=-1) + 1
