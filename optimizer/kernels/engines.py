"""Modes of the machine's engines, with their costs: what every kernel builds its ops from."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hexloom.hwmodels import cost
from hexloom.optimizer.draft import ModeDraft, UseDraft

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine

HVX, HMX, DMA = "hvx", "hmx", "dma"
DMA_QUEUE = "dma_queue"
DDR, L2_READ, L2_WRITE = "ddr", "l2_read", "l2_write"

Moves = tuple[tuple[str, int], ...]
"""(channel, bytes)."""

Direction = Literal["read", "write"]


def dma_queue(unit: int) -> str:
    """Name of the pipe that is the DMA queue of HVX worker ``unit``."""
    return f"{DMA_QUEUE}{unit}"


def through_l2(*, read: int = 0, written: int = 0) -> Moves:
    """Return the moves of vector work that reads and writes DDR through L2: the bytes pass L2 and DDR."""
    found = ((DDR, read + written), (L2_READ, read), (L2_WRITE, written))
    return tuple((channel, n_bytes) for channel, n_bytes in found if n_bytes)


def hvx_gang(machine: Machine, us: Fraction, workers: int, *, given: bool = False, moves: Moves = ()) -> ModeDraft:
    """Run one job on all ``workers`` together, who meet at its end: it costs a fork and a join."""
    uses = (UseDraft(HVX, us, workers, tuple(range(workers))),)
    return ModeDraft(uses, us, overhead_us=cost.overhead_us(machine, "fork_join"), given=given, moves=moves)


def hvx_slice(us: Fraction, worker: int, moves: Moves = ()) -> ModeDraft:
    """Run one worker's own part; nothing is forked or joined."""
    return ModeDraft((UseDraft(HVX, us, 1, (worker,)),), us, moves=moves)


def handover_us(machine: Machine) -> Fraction:
    """Return the cost of handing a job to the HMX thread of a plan, in microseconds.

    That thread walks its own list and spins on events, whatever the kernels of today do on this machine; where they
    sleep on a futex between jobs (up to v79), the baselines are too kind to them by that much.
    """
    return cost.overhead_us(machine, "hmx_handover_spin")


def hmx_job(machine: Machine, us: Fraction, *, given: bool = False) -> ModeDraft:
    """Hand one job over to the HMX thread."""
    return ModeDraft((UseDraft(HMX, us),), us, overhead_us=handover_us(machine), given=given)


def marker() -> ModeDraft:
    """Run nothing: a point at which several ops are known to have ended."""
    return ModeDraft((), Fraction(0))


def transfer(
    machine: Machine, owner: int, row_bytes: int, rows: int, direction: Direction, stride_bytes: int | None = None
) -> ModeDraft:
    """Transfer ``rows`` rows, ``stride_bytes`` apart (None: without a gap), on the queue of HVX worker ``owner``.

    The queue is busy for every row and its fixed cost, the pipe all queues share only for the bytes; so several
    queues together can fill the pipe although one alone cannot. DMA goes past L2, so its bytes load DDR alone. What
    does not fit the fields of one descriptor takes several, each with its cost of issue.
    """
    descriptors = len(cost.dma_descriptors(machine, row_bytes, rows, stride_bytes or row_bytes))
    queue_us = cost.dma_queue_us(machine, row_bytes, rows)
    pipe_us = cost.dma_pipe_us(machine, row_bytes * rows, direction)
    latency = max(queue_us, pipe_us)
    return ModeDraft(
        (UseDraft(DMA, pipe_us), UseDraft(dma_queue(owner), queue_us)),
        latency,
        owner=(HVX, owner),
        issue_us=descriptors * cost.overhead_us(machine, "dma_issue"),
        poll_us=cost.overhead_us(machine, "event_poll"),
        descriptors=descriptors,
        name=f"owner{owner}",
        moves=((DDR, row_bytes * rows),),
    )


class Transfers:
    """The transfers of one task: equal ones share one mode, since a task has thousands."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[tuple[int, int, int, Direction], ModeDraft] = {}

    def __call__(self, owner: int, row_bytes: int, rows: int, direction: Direction) -> ModeDraft:
        """Return the mode of `transfer` with these arguments."""
        key = owner, row_bytes, rows, direction
        if key not in self._known:
            self._known[key] = transfer(self._machine, *key)
        return self._known[key]
