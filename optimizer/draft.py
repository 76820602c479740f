"""What kernels and explicit tasks produce: ops and buffers in exact microseconds, before they become integers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.errors import TooManyOpsError

if TYPE_CHECKING:
    from hexloom.formulations.problem import Region

MAX_OPS = 100_000
"""Largest plan: a mistyped count must not fill the memory before anyone sees it."""


def check_count(task: str, count: int) -> None:
    """Raise TooManyOpsError when ``task`` brings the plan to more ops than it may have."""
    if count > MAX_OPS:
        raise TooManyOpsError(
            f"task {task!r} brings the plan above {MAX_OPS:,} ops; use larger blocks or chunks, a smaller count, or "
            "fewer copies"
        )


@dataclass(frozen=True, slots=True)
class UseDraft:
    """``units`` units of ``engine`` (or the named ``unit_ids``) held for ``us`` microseconds."""

    engine: str
    us: Fraction
    units: int = 1
    unit_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ModeDraft:
    """One way to run an op; ``given`` says that the user wrote its duration, which is then never rounded.

    ``owner`` (engine, unit) makes it a DMA op; ``issue_us`` and ``poll_us`` then hold the owner, and ``descriptors``
    are its places in a ring. ``moves`` are the bytes that it moves through channels while it works (a fraction where a
    rate was written, times the latency), ``op_class`` is what `interference` calls it.
    """

    uses: tuple[UseDraft, ...]
    latency_us: Fraction
    overhead_us: Fraction = Fraction(0)
    owner: tuple[str, int] | None = None
    issue_us: Fraction = Fraction(0)
    poll_us: Fraction = Fraction(0)
    descriptors: int = 1
    name: str = "default"
    given: bool = False
    moves: tuple[tuple[str, int | Fraction], ...] = ()
    op_class: str = ""


@dataclass(frozen=True, slots=True)
class OpDraft:
    """One op; ``after`` and ``buffers`` are names inside the task, ``in_place`` those of its buffers it overwrites.

    ``may_overwrite`` are pairs of its buffers: the first may take the address of the second. ``frees`` are buffers and
    how many bytes more of their low end nobody needs after it. ``regions`` are what it touches in DDR. ``part`` says
    which part of the tensors of its task it works on, as its kernel writes it down for its stage; plans do not need it.
    """

    name: str
    modes: tuple[ModeDraft, ...]
    stage: str = ""
    tile: int = 0
    after: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    deadline_us: Fraction | None = None
    pieces: int = 1
    regions: tuple[Region, ...] = ()
    in_place: tuple[str, ...] = ()
    may_overwrite: tuple[tuple[str, str], ...] = ()
    frees: tuple[tuple[str, int], ...] = ()
    part: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BufferDraft:
    """One buffer; its users are the ops that name it."""

    name: str
    size_bytes: int
    align_bytes: int
    granule_bytes: int = 1
    address: int | None = None
    resident: bool | Literal["from_start", "to_end"] = False
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A task as tiles of work.

    ``loop`` is the order in which the loop people run today meets its ops (all of them, once);
    ``one_stage_at_a_time`` says that this loop overlaps nothing.
    """

    ops: tuple[OpDraft, ...]
    buffers: tuple[BufferDraft, ...] = ()
    loop: tuple[str, ...] = ()
    one_stage_at_a_time: bool = False


def in_class(draft: TaskDraft, name: str) -> TaskDraft:
    """Return ``draft`` with all its ops in a class of `interference`; the empty name leaves it as it is."""
    if not name:
        return draft
    # Ops share their modes, and lowering knows them by identity: each is changed once.
    changed: dict[int, ModeDraft] = {}
    ops = []
    for op in draft.ops:
        for mode in op.modes:
            if id(mode) not in changed:
                changed[id(mode)] = replace(mode, op_class=name)
        ops.append(replace(op, modes=tuple(changed[id(mode)] for mode in op.modes)))
    return replace(draft, ops=tuple(ops))


@dataclass
class Builder:
    """Collects the ops and buffers of one task; a buffer is declared where it is first used."""

    name: str
    ops: list[OpDraft] = field(default_factory=list)
    buffers: dict[str, BufferDraft] = field(default_factory=dict)

    def buffer(self, name: str, size_bytes: int, align_bytes: int, granule_bytes: int = 1) -> str:
        """Declare a buffer once and return its name."""
        self.buffers.setdefault(name, BufferDraft(name, size_bytes, align_bytes, granule_bytes))
        return name

    def op(
        self,
        name: str,
        mode: ModeDraft | tuple[ModeDraft, ...],
        *,
        stage: str,
        tile: int,
        after: tuple[str | None, ...] = (),
        buffers: tuple[str, ...] = (),
        regions: tuple[Region, ...] = (),
        part: tuple[int, ...] = (),
    ) -> str:
        """Add an op and return its name; None in ``after`` is a neighbour that does not exist."""
        check_count(self.name, len(self.ops) + 1)
        real = tuple(dict.fromkeys(a for a in after if a is not None))
        modes = mode if isinstance(mode, tuple) else (mode,)
        self.ops.append(OpDraft(name, modes, stage, tile, real, buffers, regions=regions, part=part))
        return name

    def task(self, loop: list[str]) -> TaskDraft:
        """Return what was collected."""
        return TaskDraft(tuple(self.ops), tuple(self.buffers.values()), tuple(loop))
