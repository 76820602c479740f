"""ggml-hexagon profile logs: ops, batches, and the events of every thread, put together batch by batch.

A device prints a batch, its ops, then the events thread by thread. Cycles of ops and events are the low 32 bits of a
counter that wraps every 2.2 s; the start of the batch has all 64. Nothing is paired across batches.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from hexloom.optimizer.traces.clock import odd_ones, ratio_khz
from hexloom.optimizer.traces.ggml_lines import (
    HMX_THREAD,
    BadLine,
    BannerLine,
    EventLine,
    OldLine,
    OpLine,
    StateLine,
    parse_line,
)
from hexloom.optimizer.traces.numbers import decimal, scaled
from hexloom.optimizer.traces.pairing import Edge, paired
from hexloom.optimizer.traces.trace import ClassTotal, Trace

if TYPE_CHECKING:
    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source
    from hexloom.optimizer.traces.trace import Kind

WRAP = 1 << 32
DEFAULT_CAPACITY = 256
"""Records per thread when nobody sets another number."""

MOST_IN_BATCH = 2_000_000
"""Lines of one batch that are held together; a batch of 1,024 ops and eleven full threads has far fewer."""

PART = re.compile(r"(\w+) (\d{1,18}) us")
DMA = "DMA"


class _Batch:
    """Lines of one batch of one device."""

    def __init__(self, head: OpLine | None) -> None:
        self.head = head
        self.ops: list[OpLine] = []
        self.events: list[EventLine] = []
        self.after: list[int] = []
        self.saturated: set[int] = set()
        self.capacity: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether a further op is not of this batch; without its head, whether it has events: each op is followed by
        its own there.
        """
        stated = self.head.n_ops if self.head is not None else None
        return bool(self.events) if self.head is None else stated is not None and len(self.ops) >= stated


class GgmlReader:
    """Reads one log; several devices may be mixed in it."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source, self.findings = source, findings
        self.trace = Trace("ggml-hexagon", "cycles", findings)
        self._open: dict[str, _Batch] = {}
        self._batches = 0
        self._clocks: list[tuple[int, int]] = []
        self._old = False

    def read(self) -> Trace:
        """Return the trace of all batches."""
        for line in self.source.lines(self.findings):
            parsed = parse_line(line)
            if isinstance(parsed, OpLine):
                self._op(parsed)
            elif isinstance(parsed, EventLine):
                self._event(parsed)
            elif isinstance(parsed, StateLine):
                batch = self._open.setdefault(parsed.device, _Batch(None))
                batch.saturated |= set(parsed.threads)
                batch.capacity = parsed.capacity
            elif isinstance(parsed, OldLine):
                self._old_op(parsed)
            elif isinstance(parsed, BannerLine):
                self.trace.meta.setdefault(parsed.what, parsed.text[:400])
            elif isinstance(parsed, BadLine):
                self.findings.add("malformed", parsed.text)
        for device in list(self._open):
            self._close(device)
        self._clock()
        return self.trace

    def _op(self, line: OpLine) -> None:
        batch = self._open.get(line.device)
        if line.op == "OPBATCH":
            if batch is not None:
                self._close(line.device)
            self._open[line.device] = _Batch(line)
            return
        if batch is not None and batch.is_full:
            self._close(line.device)
            batch = None
        if batch is None:
            batch = self._open[line.device] = _Batch(None)
        self._hold(batch, line.device).ops.append(line)

    def _event(self, line: EventLine) -> None:
        batch = self._open.get(line.device)
        if batch is None:
            batch = self._open[line.device] = _Batch(None)
        batch = self._hold(batch, line.device)
        batch.events.append(line)
        batch.after.append(len(batch.ops) - 1)

    def _hold(self, batch: _Batch, device: str) -> _Batch:
        if len(batch.ops) + len(batch.events) < MOST_IN_BATCH:
            return batch
        self.findings.add("limit", f"a batch of more than {MOST_IN_BATCH} lines is cut")
        self._close(device)
        self._open[device] = _Batch(None)
        return self._open[device]

    def _old_op(self, line: OldLine) -> None:
        """Take an op of v0: durations, and how long its parts took."""
        lane = self.trace.lane((line.device, "ops"), "op", line.device)
        self.trace.add(line.op, "op", lane, None, line.cycles, khz=_khz(line.cycles, line.usec), detail=line.names)
        self._clocks.append((line.cycles, line.usec))
        for name, us in PART.findall(line.parts):
            ns = scaled(decimal(us), 1000)
            self._old = True
            self.trace.totals.append(ClassTotal(name, f"part of {line.op}", 1, None, ns))

    # --- one batch

    def _close(self, device: str) -> None:
        batch = self._open.pop(device)
        number = self._batches
        self._batches += 1
        starts = _unwrapped(batch)
        lane = self.trace.lane((device, "ops"), "op", device)
        if batch.head is not None:
            self._batch_event(batch.head, number, len(batch.ops), device)
        positions: list[tuple[int, int]] = []
        for line, start in zip(batch.ops, starts, strict=True):
            i = self._add_op(line, start, lane, number)
            if i >= 0 and start is not None:
                positions.append((start, i))
        self._add_events(batch, starts, sorted(positions), number, device)
        self._report_full(batch, device)

    def _batch_event(self, head: OpLine, number: int, ops: int, device: str) -> None:
        lane = self.trace.lane((device, "batches"), "batch", f"{device} batches")
        self.trace.add("OPBATCH", "batch", lane, head.start, head.cycles, batch=number, khz=head.khz)
        if head.n_ops is not None and head.n_ops != ops:
            self.findings.add("incomplete", f"batch {number} of {device} states {head.n_ops} ops, and has {ops}")

    def _add_op(self, line: OpLine, start: int | None, lane: int, number: int) -> int:
        detail = "|".join((line.dims, line.types, line.params))
        i = self.trace.add(
            line.op,
            "op",
            lane,
            start,
            line.cycles,
            batch=number,
            khz=line.khz or _khz(line.cycles, line.usec),
            key=line.names,
            detail=detail,
        )
        self._clocks.append((line.cycles, line.usec))
        if line.pmu and i >= 0:
            self.trace.values[i] = line.pmu
        return i

    def _add_events(
        self, batch: _Batch, starts: list[int | None], ops: list[tuple[int, int]], number: int, device: str
    ) -> None:
        edges = [
            Edge((line.thread, line.event, line.info), line.stops, at, first_in_first_out=line.event == DMA)
            for line, at in zip(batch.events, _event_times(batch, starts), strict=True)
        ]
        for (thread, name, _), start, end in paired(edges, self.findings):
            kind, engine = _engine(name, thread)
            label = f"{device} T{thread}" if thread != HMX_THREAD else f"{device} HMX"
            lane = self.trace.lane((device, thread, engine, ""), engine, label)
            k = bisect_right(ops, (start, len(self.trace))) - 1
            op = ops[k][1] if k >= 0 else -1
            if op < 0 and kind != "overhead":  # a batch is set up before its first op
                self.findings.add("outside", f"{name} of thread {thread} at {start}")
            transfer = kind == "transfer"
            if transfer:
                self.findings.add("bounds", "a DMA span ends when its ring entry was popped")
            self.trace.add(name, kind, lane, start, end - start, exact=not transfer, batch=number, op=op)

    def _report_full(self, batch: _Batch, device: str) -> None:
        held: dict[int, int] = {}
        for line in batch.events:
            held[line.thread] = held.get(line.thread, 0) + 1
        counts = batch.head.counts if batch.head is not None else ()
        capacity = batch.capacity or DEFAULT_CAPACITY
        for thread, count in enumerate(counts):
            lost = count - held.get(thread, 0)
            full = thread in batch.saturated or (count >= capacity and lost > 0) or count == capacity
            if full:
                self.findings.add("saturated", f"thread {thread} of {device}, {count} records")
            if lost > 0:
                self.findings.add(
                    "dropped", f"thread {thread} of {device} states {count}, printed {count - lost}", lost
                )
        for thread in batch.saturated:
            if thread >= len(counts):
                self.findings.add("saturated", f"thread {thread} of {device}")

    def _clock(self) -> None:
        """State the clock of the whole log, and that ops disagree with it."""
        khz = ratio_khz(self._clocks)
        if khz is None:
            return
        self.trace.khz = khz
        odd = odd_ones(self._clocks, khz)
        if odd:
            cycles, us = self._clocks[odd[0]]
            self.findings.add("clock", f"{cycles} cycles in {us} us beside {khz / 1000:.1f} MHz on average", len(odd))
        none = sum(1 for _, us in self._clocks if us == 0)
        if none:
            self.findings.add("ignored", "ops of 0 us say nothing about the clock", none)


def _khz(cycles: int, usec: int) -> int:
    return min((cycles * 2000 + usec) // (usec * 2), 2**31 - 1) if usec else 0


def _near(low: int, reference: int) -> int:
    """Return the time with these low 32 bits that is nearest to ``reference``."""
    return reference + (low - reference + WRAP // 2) % WRAP - WRAP // 2


def _unwrapped(batch: _Batch) -> list[int | None]:
    """Return the full starts of the ops: each is taken nearest to where the one before it ended."""
    reference = batch.head.start if batch.head is not None else None
    found: list[int | None] = []
    for line in batch.ops:
        if line.start is None:
            found.append(None)
            continue
        start = line.start if reference is None else _near(line.start, reference)
        found.append(start)
        reference = start + line.cycles
    return found


def _event_times(batch: _Batch, starts: list[int | None]) -> list[int]:
    """Return the full times of the events.

    On one thread they come in order, so each is nearest to the one before it; the first one of a thread, to the start
    of the batch, or of the op that was printed before it.
    """
    last: dict[int, int] = {}
    found = []
    head = batch.head.start if batch.head is not None else None
    for line, k in zip(batch.events, batch.after, strict=True):
        reference = last.get(line.thread, head)
        if reference is None:
            reference = starts[k] if k >= 0 else None
        at = line.cycles if reference is None else _near(line.cycles, reference)
        last[line.thread] = at
        found.append(at)
    return found


def _engine(name: str, thread: int) -> tuple[Kind, str]:
    if name == DMA:
        return "transfer", "dma"
    if name.startswith("HMX") or (thread == HMX_THREAD and not name.startswith("HVX")):
        return ("work", "hmx") if name.startswith("HMX") else ("overhead", "hmx")
    if name.startswith("HVX"):
        return "work", "hvx"
    return "overhead", "hvx"
