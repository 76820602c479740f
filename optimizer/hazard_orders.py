"""From drafts of tasks to drafts whose ops are ordered where they touch the same bytes, maintenance included."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from hexloom.hwmodels import cost
from hexloom.optimizer.check_regions import ByPrecedences, check_regions
from hexloom.optimizer.draft import check_count
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.hazards import resolve
from hexloom.optimizer.maintenance import inserted, needed

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.draft import TaskDraft
    from hexloom.optimizer.hazards import Answer
    from hexloom.optimizer.maintenance import Upkeep

LEAST_US = Fraction(1, 1000)
"""What maintenance takes at least, in microseconds: an op of no time has no thread, and this one must be run."""


class Ordered(NamedTuple):
    """Drafts by task, and edges between their ops by the names that these have in the problem."""

    drafts: dict[str, TaskDraft]
    edges: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


class _Place(NamedTuple):
    task: str
    op: str


def in_order(drafts: dict[str, TaskDraft], answer: Answer, machine: Machine) -> Ordered:
    """Return ``drafts`` with what hazards among their ops ask for.

    Raises
    ------
    InvalidInputError
        Ops touch the same bytes, nothing orders them, and ``answer`` is to refuse that.
    """
    if not any(op.regions for draft in drafts.values() for op in draft.ops):
        return Ordered(drafts, (), ())
    places = [_Place(task, op.name) for task, draft in drafts.items() for op in draft.ops]
    index = {place: k for k, place in enumerate(places)}
    names = [place.op if len(drafts) == 1 else f"{place.task}/{place.op}" for place in places]
    every = [(task, op) for task, draft in drafts.items() for op in draft.ops]
    before = [[index[_Place(task, name)] for name in op.after] for task, op in every]
    resolved = resolve(names, before, [op.regions for _, op in every], answer)
    edges = [(names[first], names[second]) for first, second in resolved.edges]
    upkeeps = needed(resolved.crossing)
    us = max(cost.cache_range_us(machine), LEAST_US)
    by_task: dict[str, list[Upkeep]] = {}
    for upkeep in upkeeps:
        by_task.setdefault(places[upkeep.writer].task, []).append(upkeep)
    changed = dict(drafts)
    check_count(next(reversed(drafts)), len(places) + len(upkeeps))
    for task, of in by_task.items():
        changed[task], called = inserted(drafts[task], [(places[u.writer].op, u) for u in of], us)
        prefix = "" if len(drafts) == 1 else f"{task}/"
        edges += [(prefix + name, names[f]) for name, u in zip(called, of, strict=True) for f in u.followers]
    return Ordered(changed, tuple(edges), (*resolved.notes, *_told(upkeeps, us)))


def refuse_unordered(problem: Problem) -> None:
    """Refuse a problem whose precedences leave open what its accesses ask for: no plan of it could be accepted.

    Raises
    ------
    InvalidInputError
        With the first two ops, and how many more.
    """
    faults: list[str] = []
    check_regions(problem, ByPrecedences(problem), lambda _, __, text: faults.append(text))
    if faults:
        more = f" ({len(faults) - 1} more such pairs)" if len(faults) > 1 else ""
        raise InvalidInputError(
            f"problem {problem.name!r}: {faults[0]}{more}; add precedences and maintenance, or leave out the accesses"
        )


def _told(upkeeps: list[Upkeep], us: Fraction) -> tuple[str, ...]:
    if not upkeeps:
        return ()
    kinds = [upkeep.kind for upkeep in upkeeps]
    counts = {"clean_range": kinds.count("clean"), "invalidate": kinds.count("invalidate")}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return (f"cache maintenance between DMA and accesses through the cache: {told}, {float(us):g} us each",)
