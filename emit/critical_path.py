"""Why every op of a schedule begins when it does, and the chain of these reasons that ends with the makespan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.emit.lanes import View
    from hexloom.formulations.problem import Mode
    from hexloom.formulations.ticks import Moment

Why = Literal["entry", "result", "unit", "address", "pipe", "order", "self", "unknown"]
Doing = Literal["run", "start", "flight", "wait"]

WORDS: dict[Why, str] = {
    "entry": "begins with the plan",
    "result": "needs the result of",
    "unit": "follows on the same unit:",
    "address": "takes over bytes of",
    "pipe": "follows on the same pipe:",
    "order": "is ordered behind",
    "self": "goes on:",
    "unknown": "may begin: nothing ends then",
}
"""What an op, "it", does then; of most kinds the name of another op completes the sentence."""


class Cause(NamedTuple):
    """What ended at the moment at which something began; ``op`` is its position, None for the entry of the plan."""

    why: Why
    op: int | None
    doing: Doing


UNKNOWN = Cause("unknown", None, "run")


class Step(NamedTuple):
    """One link of the chain: ``op`` is ``doing`` something during ``[start, end)`` ticks, and why it began then."""

    op: int
    doing: Doing
    start: Moment
    end: Moment
    cause: Cause


class Causes:
    """The reasons, read off the recorded times: what ends exactly when something begins is what it waited for.

    A plan starts its ops at events, so there is always such an end; where the file says otherwise the reason is
    ``unknown``. Of several a result comes first, then the unit, then what else the plan waits for.
    """

    def __init__(self, view: View) -> None:
        self.view, self.problem = view, view.schedule.problem
        index = self.problem.op_index
        released = self._releases()
        self.before: dict[tuple[int, str], list[tuple[int, Doing, Moment]]] = {}
        for queue in view.schedule.plan.queues:
            actions = [(index[entry.op], entry.action) for entry in queue.entries]
            for k, action in enumerate(actions[1:]):
                p, did = actions[k]
                end = released.get((p, did, queue.engine, queue.unit), view.rows[p].start)
                self.before.setdefault(action, []).append((p, did, end))
        self.waits: dict[int, list[int]] = {}
        for wait in view.schedule.plan.waits:
            self.waits.setdefault(index[wait.after], []).append(index[wait.before])
        self.on_pipe: dict[Moment, list[int]] = {}
        for lane in view.lanes():
            for piece in lane.slices:
                if piece.kind == "transfer":
                    self.on_pipe.setdefault(piece.end, []).append(piece.op)
        self.lives = {life.buffer: life for life in view.lives()}

    def _releases(self) -> dict[tuple[int, str, str, int], Moment]:
        """Return when each unit is through with what its queue says: an op may give a unit back before it ends."""
        doing = {"run": "run", "dma_start": "start", "dma_wait": "wait"}
        return {
            (piece.op, doing[piece.kind], lane.engine, lane.unit): piece.end
            for lane in self.view.lanes()
            for piece in lane.slices
            if piece.kind in doing
        }

    def of(self, i: int) -> Cause:
        """Return why op ``i`` begins when it does."""
        row = self.view.rows[i]
        at = row.start
        if at <= self.problem.entry_ticks:
            return Cause("entry", None, "run")
        for p in self.problem.predecessors[i]:
            if self.view.rows[p].observed == at:
                return Cause("result", p, self._last(p))
        action = "start" if self.view.modes[i].dma is not None else "run"
        queued = self._queued(i, action, at)
        if queued is not None:
            return queued
        for p in self.waits.get(i, ()):
            if self.view.rows[p].observed == at:
                return Cause(self._why(p, i), p, self._last(p))
        return UNKNOWN

    def chain(self) -> list[Step]:
        """Return the steps from the first one to the end of the last op: each ends where the next one begins."""
        rows = self.view.rows
        ends = [max(row.observed, row.end) for row in rows]
        last = max(range(len(rows)), key=lambda i: (ends[i], -i))
        at: int | None = last
        until, doing = ends[last], self._last(last)
        steps: list[Step] = []
        while at is not None and len(steps) <= 4 * len(rows):
            start, cause = self._began(at, doing)
            steps.append(Step(at, doing, start, until, cause))
            at, doing, until = cause.op, cause.doing, start
        return steps[::-1]

    def _began(self, i: int, doing: Doing) -> tuple[Moment, Cause]:
        row = self.view.rows[i]
        if doing == "wait":
            if row.wait_start >= row.done:
                return row.wait_start, self._queued(i, "wait", row.wait_start) or UNKNOWN
            return row.done, Cause("self", i, "flight")
        if doing == "flight":
            if row.transfer_start == row.end:
                return row.transfer_start, Cause("self", i, "start")
            other = next((p for p in self.on_pipe.get(row.transfer_start, ()) if p != i), None)
            return row.transfer_start, UNKNOWN if other is None else Cause("pipe", other, "flight")
        return row.start, self.of(i)

    def _last(self, i: int) -> Doing:
        return "run" if self.view.modes[i].dma is None else "wait"

    def _queued(self, i: int, action: str, at: Moment) -> Cause | None:
        return next((Cause("unit", p, did) for p, did, end in self.before.get((i, action), ()) if end == at), None)

    def _why(self, p: int, i: int) -> Why:
        if _units(self.view.modes[p], self.view.units[p]) & _units(self.view.modes[i], self.view.units[i]):
            return "unit"
        return "address" if self._share_bytes(p, i) else "order"

    def _share_bytes(self, p: int, i: int) -> bool:
        return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in self._bytes_of(p) for b in self._bytes_of(i))

    def _bytes_of(self, i: int) -> Iterator[tuple[str | None, int, int]]:
        for b in self.problem.op_buffers[i]:
            if b in self.lives:
                buffer, address = self.problem.buffers[b], self.lives[b].address
                yield buffer.pool, address, address + buffer.occupied_bytes


def _units(mode: Mode, units: dict[str, tuple[int, ...]]) -> set[tuple[str, int]]:
    return {(use.engine, unit) for use in mode.uses if use.ticks for unit in units.get(use.engine, ())}
