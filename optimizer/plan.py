"""The plan: what every hardware thread does in which order, what it waits for, and where buffers lie. No times."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hexloom.formulations.problem import Frozen


class Assignment(Frozen):
    """The chosen mode of an op, by position, and the unit ids it holds per engine (none on pipes)."""

    op: str
    mode: int = 0
    units: dict[str, tuple[int, ...]] = Field(default_factory=dict)


class QueueEntry(Frozen):
    """One step of a hardware thread.

    ``run`` executes an op (on all its threads at once), ``start`` issues a DMA op, ``wait`` blocks the owner until
    the transfer is done and observes it.
    """

    op: str
    action: Literal["run", "start", "wait"]


class Queue(Frozen):
    """The ordered list that one hardware thread executes: unit ``unit`` of engine ``engine``."""

    engine: str
    unit: int
    entries: tuple[QueueEntry, ...]


class Wait(Frozen):
    """``after`` starts only once ``before`` has ended (for DMA: once its owner has observed the end)."""

    before: str
    after: str


class Plan(Frozen):
    """Queues, waits and addresses; valid for any durations of the ops.

    ``waits`` is the transitive reduction of what the queues do not order by themselves: dependencies, users of one
    resource unit, buffers that share addresses, and guards.
    """

    assignments: tuple[Assignment, ...]
    queues: tuple[Queue, ...]
    waits: tuple[Wait, ...]
    addresses: dict[str, int]
