"""What the dispatcher of list scheduling is told: urgency, modes, and how scratchpad bytes are shared out."""

from __future__ import annotations

from dataclasses import dataclass

ANY = -1


@dataclass(frozen=True, slots=True)
class Policy:
    """What the dispatcher is told: one number per op, larger first; a mode per op; extra orderings.

    Mode `ANY` leaves the choice to the moment of the start: the mode that ends first of those that can start, and
    of equals the one whose pipes have served least.

    ``lazy`` transfers are issued as late as they do no harm: when their owner is about to join a job of all workers,
    so that they move while the workers are busy, or when someone waits for nothing else. ``careful`` lets nobody
    take scratchpad bytes that others need to end what they have begun. At most ``depth`` tiles of a task hold bytes.
    The buffers of ``turns`` are alive one after the other. With ``foresight`` priorities are latest starts, negative,
    and nobody delays a more urgent job of all units that is about to be ready. ``rings`` are numbers of slots per turn
    and kind of buffer: addresses come from these.
    ``cap`` is how many times a channel the transfers may demand that are under way together.
    """

    priority: tuple[float, ...]
    modes: tuple[int, ...]
    guards: tuple[tuple[int, int], ...] = ()
    lazy: frozenset[int] = frozenset()
    careful: bool = False
    depth: int | None = None
    turns: tuple[int, ...] = ()
    foresight: bool = False
    rings: tuple[tuple[int, ...], ...] = ()
    reserve: bool = False
    cap: float | None = None
