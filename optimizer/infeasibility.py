"""The answer "cannot fit": who holds what, need, have, short, and what would make it fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.problem import Frozen
from hexloom.hwmodels import format_bytes

if TYPE_CHECKING:
    from hexloom.formulations.feasibility import Shortfall
    from hexloom.formulations.problem import Problem


class Holder(Frozen):
    """A buffer that asks for bytes; ``address`` when it is pinned."""

    buffer: str
    size_bytes: int
    address: int | None = None


class Infeasibility(Frozen):
    """A proof that no schedule exists, in numbers of ``unit``, with levers: changes that would make it fit."""

    kind: str
    op: str | None
    resource: str
    need: int
    have: int
    short: int
    unit: str
    holders: tuple[Holder, ...] = ()
    rounding_bytes: int = 0
    message: str
    levers: tuple[str, ...] = ()


def explain_shortfall(problem: Problem, found: Shortfall) -> Infeasibility:
    """Return ``found`` in words."""
    what = f"op {found.op!r}" if found.op is not None else "the resident buffers"
    levers: list[str] = []
    if found.kind == "units":
        message = f"{what} needs {found.need} units of {found.resource} at once, the machine has {found.have}"
        levers.append(f"split {what} into parts of at most {found.have} units")
    elif found.kind == "deadline":
        message = f"{what} cannot end before {_time(problem, found.need)}, its deadline is {_time(problem, found.have)}"
        levers.append("move the deadline, or shorten what comes before it")
    elif found.kind == "order":
        message = (
            f"in no order do the buffers fit: every order needs more than {format_bytes(found.have)} of scratchpad"
        )
        levers.append("make a buffer smaller, or shorten a lifetime")
    else:
        message = _bytes_message(found, what)
        levers += _bytes_levers(found)
    return Infeasibility(
        kind=found.kind,
        op=found.op,
        resource=found.resource,
        need=found.need,
        have=found.have,
        short=found.short,
        unit=found.unit,
        holders=tuple(Holder(buffer=n, size_bytes=s, address=a) for n, s, a in found.holders),
        rounding_bytes=found.rounding,
        message=message + (f"; {'; '.join(levers)}" if levers else ""),
        levers=tuple(levers),
    )


def _bytes_message(found: Shortfall, what: str) -> str:
    held = [f"{n}@{a}+{s}" if a is not None else f"{n} {format_bytes(s)}" for n, s, a in found.holders]
    if found.kind == "largest_gap":
        residents = ", ".join(held[1:]) or "none"
        return (
            f"{what}: buffer {found.holders[0][0]!r} wants {found.need} B in one piece, the largest gap is "
            f"{found.have} B beside the pinned {residents}: short {found.short} B"
        )
    if found.kind == "pin":
        if len(found.holders) == 1:
            return f"pinned {held[0]} ends at {found.need}, the scratchpad at {found.have}: short {found.short} B"
        return f"{what}: pinned {held[0]} and {held[1]} share {found.short} B while both are alive"
    text = (
        f"{what} needs {format_bytes(found.need)} of scratchpad at once, {format_bytes(found.have)} are available: "
        f"short {format_bytes(found.short)}"
    )
    if found.rounding:
        text += f"; {format_bytes(found.rounding)} of the need is rounding"
    return f"{text}; it holds {', '.join(held)}"


def _bytes_levers(found: Shortfall) -> list[str]:
    if found.kind == "pin":
        return ["move the pin"]
    largest = max(found.holders, key=lambda h: h[1])
    if found.kind == "largest_gap":
        return [f"the largest that fits is {format_bytes(found.have)}", "move a pin, or split the buffer"]
    others = found.need - largest[1]
    room = found.have - others
    if room <= 0:
        return [f"free {format_bytes(found.short)}: split the op"]
    pieces = -(-largest[1] // room)
    lever = f"the largest {largest[0]!r} that fits is {format_bytes(room)}"
    return [lever, f"split it into {pieces} pieces or more ({2 * pieces} when double-buffered)"]


def _time(problem: Problem, ticks: int) -> str:
    if problem.tick is None:
        return f"{ticks} ticks"
    return f"{float(ticks * problem.tick):g} us"
