"""What a plan must respect of shares (under rule ``rigid``, the channels): no timing asks for more than there is.

Ops that nothing orders can all run at once under some timing. So the heaviest set of them, an antichain of the
happens-before order, must not hold more of a share than its amount. By duality it weighs the sum of all holds less
the most that users can hand on to users that start after their end: a maximum flow through the happens-before graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import networkx as nx

    from hexloom.formulations.problem import Engine, Mode, Problem
    from hexloom.optimizer.check_memory import Report
    from hexloom.optimizer.happens_before import HappensBefore
    from hexloom.optimizer.schedule import OpRow


def check_share_order(problem: Problem, modes: Mapping[str, Mode], order: HappensBefore, report: Report) -> None:
    """Of no share do ops that may run at once hold more than there is."""
    for share in _shares(problem):
        amounts = _amounts(modes, share)
        if sum(amounts.values()) <= share.units or _handed_on(order, amounts, share.units):
            continue
        together = _heaviest(order, amounts)
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
        for moment in sorted({rows[op].start for op in amounts}):
            users = tuple(op for op in amounts if rows[op].start <= moment < rows[op].observed)
            wanted = sum(amounts[op] for op in users)
            if wanted > share.units:
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


def _handed_on(order: HappensBefore, amounts: Mapping[str, int], units: int) -> bool:
    """Whether ``units`` are enough as they are handed on from users to users that start after their end.

    Then no antichain holds more. Each takes first what the fewest others could take; where that does not work out,
    another way to hand on may.
    """
    behind = {op: order.after(op) for op in amounts}
    left: list[tuple[int, str]] = []
    unused = units
    # Whoever is before another one has more ops behind it.
    for op in sorted(amounts, key=lambda op: -behind[op].bit_count()):
        wanted = amounts[op]
        kept: list[tuple[int, str]] = []
        for count, user in reversed(left):
            taken = min(count, wanted) if behind[user] & order.bit[op] else 0
            wanted -= taken
            if count > taken:
                kept.append((count - taken, user))
        if wanted > unused:
            return False
        unused -= wanted
        left = [*reversed(kept), (amounts[op], op)]
    return True


def _heaviest(order: HappensBefore, amounts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the ops of a heaviest antichain of the users.

    Users give from their known ends and take at their starts. An op gives nothing and takes nothing across a minimum
    cut exactly if it is in the antichain.
    """
    # Loaded where it is needed: most problems have no shares, and it takes as long as all else of a check.
    from networkx import DiGraph, minimum_cut
    from networkx.algorithms.flow import preflow_push

    graph: nx.DiGraph[object] = DiGraph()
    graph.add_edges_from(order.graph.edges)
    for op, amount in amounts.items():
        graph.add_edge("all", ("observed", op), capacity=amount)
        graph.add_edge(("start", op), "none", capacity=amount)
    _, (giving, _) = minimum_cut(graph, "all", "none", flow_func=preflow_push)
    return tuple(op for op in amounts if ("observed", op) in giving and ("start", op) not in giving)
