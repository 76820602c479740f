"""The answer "cannot fit": who holds what, need, have, short, and what would make it fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.problem import Frozen
from hexloom.hwmodels import format_bytes

if TYPE_CHECKING:
    from hexloom.formulations.feasibility import Shortfall
    from hexloom.formulations.problem import Buffer, Problem


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


LISTED = 12
"""How many buffers a message names; all stand in ``holders``."""


def explain_shortfall(
    problem: Problem, found: Shortfall, what: str | None = None, help_with: tuple[str, ...] | None = None
) -> Infeasibility:
    """Return ``found`` in words; ``what`` asks, if not the op, and ``help_with`` are levers in place of the usual."""
    what = what or (f"op {found.op!r}" if found.op is not None else "the resident buffers")
    levers: list[str] = []
    if found.kind == "units":
        message = f"{what} needs {found.need} units of {found.resource} at once, the machine has {found.have}"
        levers.append(f"split {what} into parts of at most {found.have} units")
    elif found.kind == "channel":
        message = f"{what} demands {found.need} of channel {found.resource!r}, whose capacity is {found.have}"
        levers.append("use contention fluid, or give it a mode with a lower demand")
    elif found.kind == "deadline":
        message = (
            f"{what} cannot end before {problem.in_words(found.need)}, its deadline is {problem.in_words(found.have)}"
        )
        levers.append("move the deadline, or shorten what comes before it")
    elif found.kind == "order":
        message = (
            f"in no order do the buffers fit: the best order found needs {format_bytes(found.need)} of scratchpad, "
            f"{format_bytes(found.have)} are available: short {format_bytes(found.short)}"
        )
        levers.append("make a buffer smaller, or shorten a lifetime")
    elif found.kind == "search":
        message = (
            "no schedule exists: addresses, pins and deadlines exclude each other; "
            "searched to the end twice, with and without presolve"
        )
        levers.append("move a pin or a deadline, or enlarge the scratchpad")
    else:
        message = _bytes_message(problem, found, what)
        levers += _bytes_levers(problem, found, what) if help_with is None else help_with
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


def _bytes_message(problem: Problem, found: Shortfall, what: str) -> str:
    held = [f"{n}@{a}+{s}" if a is not None else f"{n} {format_bytes(s)}" for n, s, a in found.holders]
    if found.kind == "largest_gap":
        free = problem.scratchpad.available_bytes - sum(size for _, size, _ in found.holders[1:])
        return (
            f"{what}: no room for buffer {found.holders[0][0]!r} in one piece beside the pinned {', '.join(held[1:])}: "
            f"wanted {_plain_bytes(found.need)}, largest gap {_plain_bytes(found.have)}, "
            f"short {_plain_bytes(found.short)}, free {_plain_bytes(free)} in all"
        )
    if found.kind == "pin":
        short = _plain_bytes(found.short)
        if len(found.holders) == 1:
            return f"pinned {held[0]} ends at {found.need}, the scratchpad at {found.have}: short {short}"
        return f"{what}: pinned {held[0]} and {held[1]} share {short} while both are alive"
    text = (
        f"{what} needs {format_bytes(found.need)} of scratchpad at once, {format_bytes(found.have)} are available: "
        f"short {format_bytes(found.short)}"
    )
    if found.rounding:
        text += f"; {format_bytes(found.rounding)} of the need is rounding"
    more = f" and {len(held) - LISTED} more" if len(held) > LISTED else ""
    return f"{text}; it holds {', '.join(held[:LISTED])}{more}"


def _plain_bytes(n: int) -> str:
    """Write a size without separators where it stands beside addresses, which have none."""
    number, rest = format_bytes(n).split(" ", 1)
    return f"{number.replace(',', '')} {rest}"


def _bytes_levers(problem: Problem, found: Shortfall, what: str) -> list[str]:
    if found.kind == "pin":
        return ["move the pin"]
    buffers = {b.name: b for b in problem.buffers}
    if found.kind == "largest_gap":
        wanted = buffers[found.holders[0][0]]
        return [
            f"the largest that fits is {format_bytes(_whole(wanted, found.have))}",
            "move a pin, or split the buffer",
        ]
    own = [buffers[name] for name, _, _ in found.holders if not buffers[name].resident]
    room = found.have - sum(b.occupied_bytes for b in problem.buffers if b.resident)
    pieces = _pieces(own, room)
    if pieces is None:
        return [f"free {format_bytes(found.short)}"]
    largest = max(own, key=lambda b: b.occupied_bytes)
    beside = room - sum(b.occupied_bytes for b in own if b is not largest)
    alone = _pieces([largest], beside)
    if alone is None:
        return [f"split {what} into {pieces} pieces or more: its buffers are then small enough together"]
    lever = f"the largest {largest.name!r} that fits is {format_bytes(_whole(largest, beside))}"
    return [lever, f"split it into {alone} pieces or more ({2 * alone} when double-buffered)"]


def _whole(buffer: Buffer, room: int) -> int:
    """Return the largest size of ``buffer`` that is at most ``room`` after rounding to its granule."""
    return room // buffer.granule_bytes * buffer.granule_bytes


def _pieces(buffers: list[Buffer], room: int) -> int | None:
    """Into how many pieces each of ``buffers`` must be cut so that one of each fits into ``room``; None: no number."""

    def need(pieces: int) -> int:
        cut = (b.model_copy(update={"size_bytes": -(-b.size_bytes // pieces)}) for b in buffers)
        return sum(b.occupied_bytes for b in cut)

    low, high = 0, max((b.size_bytes for b in buffers), default=0)
    if high == 0 or need(high) > room:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if need(middle) <= room else (middle, high)
    return high
