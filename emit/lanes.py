"""What a schedule does on every unit, as plain intervals: the one reading of it that all pictures share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hexloom.formulations.problem import Mode, Op
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import OpRow, Schedule
    from hexloom.optimizer.sharing import Number

Kind = Literal["run", "transfer", "dma_start", "dma_wait"]


@dataclass(frozen=True, slots=True)
class Slice:
    """One op on one unit during ``[start, end)`` ticks; the part before ``work_start`` is overhead.

    ``transfer`` is a DMA op on a pipe for the ticks it holds it; ``dma_start`` and ``dma_wait`` are the owner of a
    transfer issuing it and waiting for it.
    """

    op: int
    kind: Kind
    start: Moment
    work_start: Moment
    end: Moment

    @property
    def ticks(self) -> Moment:
        """Length, overhead included."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Lane:
    """Everything one unit does, in order of time; no two slices overlap.

    ``position`` is that of the engine in the problem. ``queued`` says whether the unit is a hardware thread that
    executes a queue of the plan.
    """

    position: int
    engine: str
    unit: int
    label: str
    queued: bool
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Life:
    """A buffer at its address, alive during ``[birth, death)`` ticks; ``op`` is its first user, None for none."""

    buffer: int
    address: int
    birth: Moment
    death: Moment
    op: int | None


class View:
    """The ops of a schedule with the mode and the times that were chosen for them, by position."""

    def __init__(self, schedule: Schedule) -> None:
        rows = {row.op: row for row in schedule.rows}
        chosen = {assignment.op: assignment for assignment in schedule.plan.assignments}
        self.schedule = schedule
        self.ops: tuple[Op, ...] = schedule.problem.ops
        self.rows: list[OpRow] = [rows[op.name] for op in self.ops]
        self.modes: list[Mode] = [op.modes[chosen[op.name].mode] for op in self.ops]
        chosen_modes = {op.name: mode for op, mode in zip(self.ops, self.modes, strict=True)}
        self.progress = Progress(schedule.problem, schedule.contention, chosen_modes, rows)
        self.units: list[dict[str, tuple[int, ...]]] = [chosen[op.name].units for op in self.ops]

    def lanes(self) -> tuple[Lane, ...]:
        """Return one lane per unit of every engine whose units have names, in the order of the problem."""
        return self._lanes

    @cached_property
    def _lanes(self) -> tuple[Lane, ...]:
        engines = self.schedule.problem.engines
        found: dict[tuple[str, int], list[Slice]] = {
            (e.name, u): [] for e in engines if e.kind != "share" for u in range(e.units)
        }
        for i, (mode, row) in enumerate(zip(self.modes, self.rows, strict=True)):
            if mode.dma is not None:
                owner = found[mode.dma.owner_engine, mode.dma.owner_unit]
                owner.append(Slice(i, "dma_start", row.start, row.start, row.end))
                owner.append(Slice(i, "dma_wait", row.wait_start, row.wait_start, row.observed))
                continue
            for use in mode.uses:
                if use.ticks == 0:
                    continue
                work = row.start + mode.overhead_ticks
                end = self.progress.reached(self.ops[i].name, use.ticks)
                for unit in self.units[i].get(use.engine, ()):
                    found[use.engine, unit].append(Slice(i, "run", row.start, work, end))
        for engine in engines:
            if engine.kind == "pipe":
                for unit, piece in self._on_pipe(engine.name, engine.units):
                    found[engine.name, unit].append(piece)
        queued = {(queue.engine, queue.unit) for queue in self.schedule.plan.queues}
        return tuple(
            Lane(
                position=position,
                engine=engine.name,
                unit=unit,
                label=unit_label(engine.name, unit, engine.units),
                queued=(engine.name, unit) in queued,
                slices=tuple(sorted(found[engine.name, unit], key=lambda s: (s.start, s.end, s.op))),
            )
            for position, engine in enumerate(engines)
            if engine.kind != "share"
            for unit in range(engine.units)
        )

    def _on_pipe(self, name: str, units: int) -> Iterator[tuple[int, Slice]]:
        """Give transfers units of their pipe: the hardware does not say which, so the lowest that are free."""
        held = [
            (self.rows[i].transfer_start, i, use)
            for i, mode in enumerate(self.modes)
            if mode.dma is not None
            for use in mode.uses
            if use.engine == name and use.ticks > 0
        ]
        free_at: list[Moment] = [0] * units
        for start, i, use in sorted(held, key=lambda h: (h[0], h[1])):
            end = self.progress.reached(self.ops[i].name, use.ticks)
            for unit in [u for u in range(units) if free_at[u] <= start][: use.units]:
                free_at[unit] = end
                yield unit, Slice(i, "transfer", start, start, end)

    def transfers(self) -> list[int]:
        """Return the positions of the DMA ops in order of issue."""
        found = (i for i, mode in enumerate(self.modes) if mode.dma is not None)
        return sorted(found, key=lambda i: (self.rows[i].start, i))

    def lives(self) -> list[Life]:
        """Return the buffers that ever live; a resident one lives from time 0, or until the last op has ended."""
        problem = self.schedule.problem
        found: list[Life] = []
        for b, buffer in enumerate(problem.buffers):
            users = sorted((problem.op_index[name] for name in buffer.ops), key=lambda i: (self.rows[i].start, i))
            first = users[0] if users else None
            address = self.schedule.plan.addresses.get(buffer.name, buffer.address or 0)
            over = self._overwriting(b)
            if users or buffer.always:
                birth = 0 if buffer.from_start else min(self.rows[i].start for i in users)
                death = self.schedule.makespan if buffer.to_end else max(self.rows[i].observed for i in users)
                if over is not None:
                    # Until the op ends that overwrites another buffer, its bytes are those of that one.
                    birth = min([self.rows[over].observed, *(self.rows[i].start for i in users if i != over)])
                found.append(Life(b, address, birth, death, first))
        return found

    def _overwriting(self, b: int) -> int | None:
        """Return the op in which buffer ``b`` takes the address of another one, if it does."""
        at, buffers = self.schedule.plan.addresses, self.schedule.problem.buffers
        return next(
            (
                i
                for new, old, i in self.schedule.problem.takeovers
                if new == b and at.get(buffers[new].name) == at.get(buffers[old].name)
            ),
            None,
        )

    def live_bytes(self, pool: str | None = None) -> list[tuple[Moment, int]]:
        """Return (tick, bytes alive from it on), one pair per change: of the scratchpad, or of a pool."""
        buffers = self.schedule.problem.buffers
        lives = (life for life in self.lives() if buffers[life.buffer].pool == pool)
        return levels((life.birth, life.death, buffers[life.buffer].occupied_bytes) for life in lives)

    def in_flight(self) -> list[tuple[Moment, int]]:
        """Return (tick, transfers in flight from it on), one pair per change."""
        rows = (self.rows[i] for i in self.transfers())
        return levels((row.transfer_start, row.done, 1) for row in rows)

    def served(self) -> dict[str, list[tuple[Moment, float]]]:
        """Return for each channel (tick, what those who work get of it from then on), one pair per change.

        Under rules that slow nobody that is what they ask for, which may be more than the channel has.
        """
        index = self.schedule.problem.op_index
        speeds: dict[int, list[tuple[Moment, Moment, Number]]] = {}
        for span in self.progress.spans:
            for name, speed in zip(span.ops, span.speeds, strict=True):
                speeds.setdefault(index[name], []).append((span.start, span.end, speed))
        found: dict[str, list[tuple[Moment, Moment, int]]] = {c.name: [] for c in self.schedule.problem.channels}
        for i, (mode, row) in enumerate(zip(self.modes, self.rows, strict=True)):
            begun = self.progress.begun[self.ops[i].name]
            for pull in mode.pulls:
                for start, end, speed in speeds.get(i, [(begun, row.done, 1)]):
                    # In thousandths, so that what comes and goes adds up to nothing.
                    found[pull.channel].append((start, end, round(speed * pull.rate * 1000)))
        return {name: [(tick, level / 1000) for tick, level in levels(spans)] for name, spans in found.items()}


def unit_label(engine: str, unit: int, units: int) -> str:
    """Return the name of a unit: that of the engine when it has only one."""
    return engine if units == 1 else f"{engine}[{unit}]"


def levels(spans: Iterable[tuple[Moment, Moment, int]]) -> list[tuple[Moment, int]]:
    """Return the sum of weights over time from (start, end, weight) spans, one pair per change, from tick 0 on."""
    steps: dict[Moment, int] = {0: 0}
    for start, end, weight in spans:
        steps[start] = steps.get(start, 0) + weight
        steps[end] = steps.get(end, 0) - weight
    found: list[tuple[Moment, int]] = []
    level = 0
    for tick in sorted(steps):
        level += steps[tick]
        if not found or found[-1][1] != level:
            found.append((tick, level))
    return found
