"""What a plan must respect of shares (under rule ``rigid``, the channels): no timing asks for more than there is.

Ops that nothing orders can all run at once under some timing. So the heaviest set of them, an antichain of the
happens-before order, must not hold more of a share than its amount. By duality it weighs the sum of all holds less
the most that users can hand on to users that start after their end: a maximum flow through the happens-before graph.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hexloom.formulations.problem import Engine, Mode, Problem
    from hexloom.optimizer.check_memory import Report
    from hexloom.optimizer.happens_before import HappensBefore
    from hexloom.optimizer.schedule import OpRow


def check_share_order(problem: Problem, modes: Mapping[str, Mode], order: HappensBefore, report: Report) -> None:
    """Of no share do ops that may run at once hold more than there is."""
    for share in _shares(problem):
        amounts = _amounts(modes, share)
        if sum(amounts.values()) <= share.units:
            continue
        together = _heaviest(order, amounts, share.units)
        wanted = sum(amounts[op] for op in together)
        if wanted > share.units:
            names = " and ".join(repr(op) for op in together)
            want, have = _in_words(problem, share, wanted), _in_words(problem, share, share.units)
            text = f"ops {names} demand {want} of {share.name!r}, which has {have}, but nothing in the plan orders them"
            report("share_unordered", together, text)


def check_share_times(problem: Problem, modes: Mapping[str, Mode], rows: Mapping[str, OpRow], report: Report) -> None:
    """In the predicted times ops between their start and their known end never hold more of a share than there is."""
    for share in _shares(problem):
        amounts = _amounts(modes, share)
        starts = [(rows[op].start, units) for op, units in amounts.items()]
        ends = [(rows[op].observed, -units) for op, units in amounts.items()]
        held = 0
        # At one instant the ends come first: what is negative sorts before.
        for moment, change in sorted(starts + ends):
            held += change
            if held > share.units:
                users = tuple(op for op in amounts if rows[op].start <= moment < rows[op].observed)
                wanted = sum(amounts[op] for op in users)
                names = " and ".join(repr(op) for op in users)
                want, have = _in_words(problem, share, wanted), _in_words(problem, share, share.units)
                text = f"ops {names} demand {want} of {share.name!r}, which has {have}, at tick {moment}"
                report("share_overload", users, text)
                break


def _shares(problem: Problem) -> list[Engine]:
    return [engine for engine in problem.engines if engine.kind == "share"]


def _amounts(modes: Mapping[str, Mode], share: Engine) -> dict[str, int]:
    """Return what each op holds of ``share``."""
    return {
        op: use.units for op, mode in modes.items() for use in mode.uses if use.engine == share.name and use.ticks > 0
    }


def _in_words(problem: Problem, share: Engine, amount: int) -> str:
    """Return an amount in the numbers of the channel that the share stands for, if it stands for one."""
    for channel in problem.channels:
        if share.name.startswith(channel.name) and share.name.removeprefix(channel.name) in ("", " channel"):
            return channel.in_words(amount * channel.capacity // share.units)
    return str(amount)


def _heaviest(order: HappensBefore, amounts: Mapping[str, int], units: int) -> tuple[str, ...]:
    """Return the ops of a heaviest antichain of the users; none if it is seen before that ``units`` are enough.

    Users give from their known ends and take at their starts. An op gives nothing and takes nothing across a minimum
    cut exactly if it is in the antichain.
    """
    users = list(amounts)
    bit = {order.bit[op]: u for u, op in enumerate(users)}
    behind = [_positions(order.after(op), bit) for op in users]
    gives, takes = list(amounts.values()), list(amounts.values())
    given: list[dict[int, int]] = [{} for _ in users]  # to whom it takes, who gives how much
    open_units = sum(gives)
    # Whoever is before another one has more users behind it; each takes first from those whom the fewest can follow.
    ranked = sorted(range(len(users)), key=lambda u: -behind[u].bit_count())
    for k, taker in enumerate(ranked):
        for giver in reversed(ranked[:k]):
            if takes[taker] and gives[giver] and behind[giver] >> taker & 1:
                amount = min(takes[taker], gives[giver])
                _give(given, gives, takes, giver, taker, amount)
                open_units -= amount
    while open_units > units:
        givers, path = _path(behind, given, gives, takes)
        if path is None:
            taking = {taker for giver in givers for taker in _ones(behind[giver])}
            return tuple(op for u, op in enumerate(users) if u in givers and u not in taking)
        amount = min(gives[path[0]], takes[path[-1]])
        for taker, giver in zip(path[1::2], path[2::2], strict=False):
            amount = min(amount, given[taker][giver])
        for giver, taker in zip(path[::2], path[1::2], strict=True):
            given[taker][giver] = given[taker].get(giver, 0) + amount
        for taker, giver in zip(path[1::2], path[2::2], strict=False):
            given[taker][giver] -= amount
        gives[path[0]] -= amount
        takes[path[-1]] -= amount
        open_units -= amount
    return ()


def _give(given: list[dict[int, int]], gives: list[int], takes: list[int], giver: int, taker: int, amount: int) -> None:
    given[taker][giver] = given[taker].get(giver, 0) + amount
    gives[giver] -= amount
    takes[taker] -= amount


def _path(
    behind: list[int], given: list[dict[int, int]], gives: list[int], takes: list[int]
) -> tuple[set[int], list[int] | None]:
    """Return a way to hand on more: giver, taker, who gave to that one, taker, ...; or None, and all who would give."""
    came: dict[int, tuple[int, int] | None] = {u: None for u, left in enumerate(gives) if left}
    queue = deque(came)
    seen = 0
    while queue:
        giver = queue.popleft()
        for taker in _ones(behind[giver] & ~seen):
            seen |= 1 << taker
            if takes[taker]:
                path = [taker, giver]
                while (step := came[path[-1]]) is not None:
                    path += step
                return set(came), path[::-1]
            for other, amount in given[taker].items():
                if amount and other not in came:
                    came[other] = taker, giver
                    queue.append(other)
    return set(came), None


def _positions(mask: int, bit: Mapping[int, int]) -> int:
    """Return those of the users who are in ``mask``, by their positions."""
    return sum(1 << u for one, u in bit.items() if mask & one)


def _ones(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
