"""The answer "cannot fit": who holds what, need, have, short, what excludes what, and what would make it fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import ConfigDict, Field

from hexloom.formulations.problem import Frozen
from hexloom.formulations.shares import amount_in_words, engine_in_words
from hexloom.hwmodels import format_bytes

if TYPE_CHECKING:
    from hexloom.formulations.feasibility import Shortfall
    from hexloom.formulations.problem import Problem


class Holder(Frozen):
    """A buffer that asks for bytes; ``address`` when it is pinned."""

    buffer: str
    size_bytes: int
    address: int | None = None


class Member(Frozen):
    """One of the groups of constraints that exclude each other, named by its kind and the objects it is about.

    ``without`` says what the other members allow once this one is dropped: ``feasible`` (a checked schedule), or
    ``open`` (not decided in time).
    """

    kind: str
    names: tuple[str, ...]
    text: str
    without: Literal["feasible", "open"]


class Lever(Frozen):
    """A change of the input, and what came of solving the changed input again.

    ``outcome``: ``feasible`` (a checked schedule of ``makespan`` in the time unit), ``infeasible`` (the change alone is
    not enough: proven), ``open`` (not decided in time), or ``not_asked``. ``need`` is what must be there instead of
    ``have``, in ``unit``; ``least`` says that any less was proven not to be enough. ``saved_bytes`` are what the
    hungriest op, or else all buffers together, do without after the change. ``cost`` is the makespan less that of the
    input with room for everything.
    """

    text: str
    resource: str = ""
    need: int | None = None
    have: int | None = None
    unit: str = ""
    outcome: Literal["feasible", "infeasible", "open", "not_asked"] = "not_asked"
    makespan: int | float | None = None
    least: bool = False
    saved_bytes: int | None = None
    cost: int | float | None = None


class Infeasibility(Frozen):
    """A proof that no schedule exists, in numbers of ``unit``, with levers: changes that would make it fit.

    ``conflict`` is a set of groups of constraints that exclude each other; ``conflict_proven`` says that this was shown
    for the set alone. Where every member's ``without`` is ``feasible`` the set is inclusion-minimal: ``minimal``.
    """

    schema_: Literal["hexloom.infeasibility/1"] = Field(default="hexloom.infeasibility/1", alias="schema")
    kind: str
    op: str | None
    resource: str
    need: int
    have: int
    short: int
    unit: str
    time_unit: Literal["us", "ticks"] = "ticks"
    holders: tuple[Holder, ...] = ()
    rounding_bytes: int = 0
    message: str
    conflict: tuple[Member, ...] = ()
    conflict_proven: bool = False
    minimal: bool = False
    levers: tuple[Lever, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    def to_json(self) -> str:
        """Return the explanation as JSON."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read an explanation; raises pydantic.ValidationError when it is none."""
        return cls.model_validate_json(text)


LISTED = 12
"""How many buffers a message names; all stand in ``holders``."""


def shortfall_message(problem: Problem, found: Shortfall, what: str | None = None) -> str:
    """Return ``found`` in words, without levers; ``what`` asks, if not the op."""
    what = what or (f"op {found.op!r}" if found.op is not None else _at_an_edge(problem, found))
    if found.kind == "units" and found.resource in problem.shares:
        need, have = (amount_in_words(problem, found.resource, amount) for amount in (found.need, found.have))
        return f"{what} needs {need} of {engine_in_words(problem, found.resource)} at once, which has {have}"
    if found.kind == "units":
        return f"{what} needs {found.need} units of {found.resource} at once, the machine has {found.have}"
    if found.kind == "channel":
        channel = next(one for one in problem.channels if one.name == found.resource)
        need, have = channel.in_words(found.need), channel.in_words(found.have)
        return f"{what} demands {need} of channel {found.resource!r}, whose capacity is {have}"
    if found.kind == "deadline":
        need, have = problem.in_words(found.need), problem.in_words(found.have)
        return f"{what} cannot end before {need}, its deadline is {have}"
    if found.kind == "overload":
        need, have = problem.in_words(found.need), problem.in_words(found.have)
        engine = engine_in_words(problem, found.resource)
        return f"{engine} cannot end before {need} what deadlines want of it by {have}"
    if found.kind == "order":
        return (
            f"in no order do the buffers fit: the best order found needs {format_bytes(found.need)} of scratchpad, "
            f"{format_bytes(found.have)} are available: short {format_bytes(found.short)}"
        )
    if found.kind == "search":
        return f"no {found.resource} exists: searched to the end"
    return _bytes_message(problem, found, what)


def _at_an_edge(problem: Problem, found: Shortfall) -> str:
    """Return what needs bytes while no op runs."""
    held = {name for name, _, _ in found.holders}
    buffers = [*((buffer, 1) for buffer in problem.buffers), *((b, len(parts)) for b, parts in problem.buffers_as_one)]
    lives = {buffer.resident for buffer, _ in buffers if buffer.name in held} - {True, False}
    if not lives:
        if any(held == {buffer.name} and parts > 1 and not buffer.resident for buffer, parts in buffers):
            return f"buffer {found.holders[0][0]!r}"
        return "the resident buffers"
    return "what is alive from the start" if "from_start" in lives else "what is alive at the end"


def _bytes_message(problem: Problem, found: Shortfall, what: str) -> str:
    held = [f"{n}@{a}+{s}" if a is not None else f"{n} {format_bytes(s)}" for n, s, a in found.holders]
    if found.kind == "largest_gap":
        pad = next((pool for pool in problem.pools if pool.label == found.resource), problem.scratchpad)
        free = pad.available_bytes - sum(size for _, size, _ in found.holders[1:])
        return (
            f"{what}: no room for buffer {found.holders[0][0]!r} in one piece beside the pinned {', '.join(held[1:])}: "
            f"wanted {_plain_bytes(found.need)}, largest gap {_plain_bytes(found.have)}, "
            f"short {_plain_bytes(found.short)}, free {_plain_bytes(free)} in all"
        )
    if found.kind == "pin":
        short = _plain_bytes(found.short)
        place = "the scratchpad" if found.resource == "scratchpad" else found.resource
        if len(found.holders) == 1:
            return f"pinned {held[0]} ends at {found.need}, {place} at {found.have}: short {short}"
        return f"{what}: pinned {held[0]} and {held[1]} share {short} while both are alive"
    text = (
        f"{what} needs {format_bytes(found.need)} of {found.resource} at once, {format_bytes(found.have)} are "
        f"available: short {format_bytes(found.short)}"
    )
    if found.rounding:
        text += f"; {format_bytes(found.rounding)} of the need is rounding"
    more = f" and {len(held) - LISTED} more" if len(held) > LISTED else ""
    return f"{text}; it holds {', '.join(held[:LISTED])}{more}"


def _plain_bytes(n: int) -> str:
    """Write a size without separators where it stands beside addresses, which have none."""
    number, rest = format_bytes(n).split(" ", 1)
    return f"{number.replace(',', '')} {rest}"
