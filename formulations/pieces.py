"""Progress events: an op cut in two, so that others can begin when a part of it is done.

In an event-driven plan an op begins when another ends, never in the middle of one. Where one should, an op that is
under way then and whose work can be told apart (the descriptors of a transfer) is cut there: the end of its first part
is the event. What is gained is tried, not assumed: the search goes on in the problem with the cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.event_order_lp import polished
from hexloom.formulations.limit import Limit
from hexloom.formulations.memory import still_overwriting
from hexloom.formulations.problem import Op, Precedence, Problem
from hexloom.formulations.shared_search import SharedSearch

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.mode import Mode, Rule

T = TypeVar("T")

WORTH = 0.005
"""What a cut must save, as a part of the makespan: it costs an entry in a queue."""

MOST_OPS = 60
"""Up to so many ops it is tried whether a cut pays."""

LONGEST = 4
"""How many of the longest ops are cut in halves, besides the cuts that the best times of the order show."""

TRIES = 8
"""A try takes at least one part in so many of the time."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Op ``op`` is cut after ``pieces`` of its pieces."""

    op: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Pieced:
    """A problem with cuts, the names of the parts of every op that was cut, and the best plan found."""

    problem: Problem
    parts: dict[str, tuple[str, ...]]
    best: tuple[Decision, Simulated]


def cut_op(problem: Problem, cut: Cut) -> Problem:
    """Return ``problem`` with an op in two parts, at its position and the next.

    Parts of a transfer are transfers of their own, in any order; else the second part follows the first. Others may
    come in between.
    """
    op = problem.ops[cut.op]
    first, second = names = _names(problem, op.name)
    in_order = any(mode.dma is None for mode in op.modes)
    halves = [_halves(mode, cut.pieces, op.pieces) for mode in op.modes]
    given = {"task": op.task, "stage": op.stage, "tile": op.tile}
    one = {"name": first, "modes": [h[0] for h in halves], "pieces": cut.pieces}
    two = {"name": second, "modes": [h[1] for h in halves], "pieces": op.pieces - cut.pieces}
    late = op.deadline_ticks
    parts = (
        Op(**given, **one, deadline_ticks=None if in_order else late),
        Op(**given, **two, deadline_ticks=late),
    )
    leaving, entering = names[1:] if in_order else names, names[:1] if in_order else names
    edges = [
        Precedence(before=before, after=after)
        for edge in problem.precedences
        for before in (leaving if edge.before == op.name else (edge.before,))
        for after in (entering if edge.after == op.name else (edge.after,))
    ]
    if in_order:
        edges.append(Precedence(before=first, after=second))
    buffers = still_overwriting(
        buffer.model_copy(
            update={"ops": tuple(n for name in buffer.ops for n in (names if name == op.name else (name,)))}
        )
        for buffer in problem.buffers
    )
    accesses = tuple(
        access.model_copy(
            update={"ops": tuple(n for name in access.ops for n in (names if name == op.name else (name,)))}
        )
        for access in problem.accesses
    )
    ops = (*problem.ops[: cut.op], *parts, *problem.ops[cut.op + 1 :])
    return problem.changed(ops=ops, precedences=tuple(edges), buffers=buffers, accesses=accesses)


def _names(problem: Problem, name: str) -> tuple[str, str]:
    """Return names for the parts of an op that no op has."""
    taken, mark = set(problem.op_index), "+"
    while f"{name}{mark}1" in taken or f"{name}{mark}2" in taken:
        mark += "+"
    return f"{name}{mark}1", f"{name}{mark}2"


def _halves(mode: Mode, pieces: int, of: int) -> tuple[Mode, Mode]:
    """Cut a mode: the overhead comes before the first part, and units are held until what they did is done."""
    at = round(Fraction(mode.latency_ticks * pieces, of))

    def part(low: int, high: int, overhead: int) -> Mode:
        uses = tuple(use.model_copy(update={"ticks": min(max(use.ticks - low, 0), high - low)}) for use in mode.uses)
        return mode.model_copy(update={"uses": uses, "latency_ticks": high - low, "overhead_ticks": overhead})

    return part(0, at, mode.overhead_ticks), part(at, mode.latency_ticks, 0)


def cut_decision(decision: Decision, problem: Problem, cut: Cut) -> Decision:
    """Return the decision for ``problem`` with the cut made: both parts where the op was."""
    op, second = cut.op, cut.op + 1
    in_order = any(mode.dma is None for mode in problem.ops[op].modes)

    def place(i: int) -> int:
        return i if i <= op else i + 1

    actions: list[int] = []
    for action in decision.actions:
        i = action if action >= 0 else ~action
        of = (op, second) if i == op else (place(i),)
        actions += [k if action >= 0 else ~k for k in of]

    def doubled(values: tuple[T, ...]) -> tuple[T, ...]:
        return (*values[:second], values[op], *values[second:])

    guards: list[tuple[int, int]] = []
    for before, after in decision.guards:
        befores = (op, second) if before == op and not in_order else (second if before == op else place(before),)
        afters = (op, second) if after == op and not in_order else (place(after),)
        guards += [(a, b) for a in befores for b in afters]
    return replace(
        decision,
        modes=doubled(decision.modes),
        units=doubled(decision.units),
        actions=tuple(actions),
        guards=tuple(guards),
    )


def can_be_cut(problem: Problem) -> bool:
    """Whether it is tried where a cut pays: the user offers pieces, and a try is fast."""
    return len(problem.ops) <= MOST_OPS and any(op.pieces > 1 for op in problem.ops)


def search_in_pieces(
    problem: Problem,
    rule: Rule,
    evaluate: Evaluate,
    best: tuple[Decision, Simulated],
    seconds: float,
    seed: int | None,
) -> Pieced | None:
    """Cut ops one after the other where that shortens the plan, for at most ``seconds``; None when nothing is gained.

    With a ``seed`` time is counted in work.
    """
    if not can_be_cut(problem):
        return None
    limit = Limit(seconds, deterministic=seed is not None)
    found: Pieced | None = None
    parts: dict[str, tuple[str, ...]] = {}
    improved = True
    while improved:
        improved = False
        for cut in _worth_trying(problem, rule, best):
            if limit.reached:
                return found
            tried = cut_op(problem, cut)
            share = Limit(seconds / TRIES, deterministic=seed is not None)
            search = SharedSearch(tried, rule, lower_bounds(tried, rule), evaluate, share, seed or 0)
            search.run([cut_decision(best[0], problem, cut)])
            limit.spend(share.spent_ops)
            limit.interrupted = share.interrupted
            if search.best is not None and search.best[1].makespan < best[1].makespan * (1 - WORTH):
                parts = _with_parts(parts, problem, tried, cut)
                problem, best, improved = tried, search.best, True
                found = Pieced(problem, parts, best)
                break
    return found


def _with_parts(
    parts: dict[str, tuple[str, ...]], problem: Problem, tried: Problem, cut: Cut
) -> dict[str, tuple[str, ...]]:
    name = problem.ops[cut.op].name
    halves = tried.ops[cut.op].name, tried.ops[cut.op + 1].name
    for whole, of in parts.items():
        if name in of:
            k = of.index(name)
            return {**parts, whole: (*of[:k], *halves, *of[k + 1 :])}
    return {**parts, name: halves}


def _worth_trying(problem: Problem, rule: Rule, best: tuple[Decision, Simulated]) -> list[Cut]:
    """Return cuts where the best times of the order have an op begin inside another, then the longest ops in halves."""
    found: list[Cut] = []
    for cut in polished(problem, *best, rule).cuts:
        op = problem.ops[cut.op]
        latency = op.modes[best[0].modes[cut.op]].latency_ticks
        if op.pieces > 1:
            found.append(Cut(cut.op, min(max(round(cut.amount / latency * op.pieces), 1), op.pieces - 1)))
    pulling = [
        (best[1].done[i] - best[1].transfer_start[i], i)
        for i, op in enumerate(problem.ops)
        if op.pieces > 1 and any(pull.rate for pull in op.modes[best[0].modes[i]].pulls)
    ]
    found += [Cut(i, problem.ops[i].pieces // 2) for _, i in sorted(pulling, reverse=True)[:LONGEST]]
    return list(dict.fromkeys(found))
