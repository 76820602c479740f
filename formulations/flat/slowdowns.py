"""What ops lose to each other in the flat model: their durations as sums of overlap terms."""

from __future__ import annotations

from itertools import combinations
from math import floor
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from hexloom.formulations.configuration.order import Order
from hexloom.formulations.flat.overlap_terms import GRID, MOST_PARTNERS, Worker

if TYPE_CHECKING:
    from hexloom.formulations.flat.overlap_terms import OverlapTerms
    from hexloom.formulations.flat.overlaps import Overlaps
    from hexloom.formulations.flat.variables import FlatVars
    from hexloom.formulations.problem import Problem


def add_slowdowns(
    model: cp_model.CpModel,
    problem: Problem,
    terms: OverlapTerms,
    variables: FlatVars,
    overlaps: Overlaps,
) -> int:
    """Ensure that an op works for at least its base time and what its terms c_T say of its overlaps; return how many.

    In parts of `GRID`, with size = done - begin of floors, which is more than the real size less one:

        GRID * size  >=  floor(GRID * base) - GRID + 1 + sum of c_T * least_T (c_T > 0) + sum of c_T * most_T (c_T < 0)

    where ``least_T`` is no more than the real overlap and ``most_T`` no less. Both sides are whole, so "more than" is
    one more. A base that is no whole number of parts is rounded down; ``size >= floor(base)`` holds anyway. A term
    counts when all its modes are chosen.
    """
    order = Order(problem)
    count = 0
    for worker, kind in terms.kind_of.items():
        of = variables.ops[worker.op]
        assert of.work is not None
        chosen = of.modes[worker.mode].chosen
        base = problem.ops[worker.op].modes[worker.mode].latency_ticks / terms.alone[kind]
        coefficients = terms.terms(kind).of
        others = [w for w in terms.kind_of if w.op != worker.op and _together(terms, order, worker, w)]
        found: list[cp_model.IntVar] = []
        weights: list[int] = []
        for size in range(1, MOST_PARTNERS + 1):
            for partners in combinations(others, size):
                c = coefficients.get(tuple(sorted(terms.kind_of[w] for w in partners)), 0)
                if c == 0 or not all(
                    a.op != b.op and _together(terms, order, a, b) for a, b in combinations(partners, 2)
                ):
                    continue
                group = tuple(sorted((worker.op, *(w.op for w in partners))))
                overlap = overlaps.least(group) if c > 0 else overlaps.most(group)
                literals = [variables.ops[w.op].modes[w.mode].chosen for w in partners]
                for literal in literals:
                    if not isinstance(literal, bool):
                        overlap = _only_if(model, overlap, literal, exact=c < 0)
                found.append(overlap)
                weights.append(c)
        says = cp_model.LinearExpr.weighted_sum(found, weights) + (floor(GRID * base) - GRID + 1)
        rows = [of.work.size >= floor(base), GRID * of.work.size >= says]
        count += len(found)
        for row in rows:
            constraint = model.add(row)
            if chosen is not True:
                constraint.only_enforce_if(chosen)
    return count


def _together(terms: OverlapTerms, order: Order, a: Worker, b: Worker) -> bool:
    """Whether two modes of different ops can work at one time."""
    if order.before(a.op, b.op) or order.before(b.op, a.op):
        return False
    return terms.can_pair(terms.kind_of[a], terms.kind_of[b])


def _only_if(
    model: cp_model.CpModel, overlap: cp_model.IntVar, chosen: cp_model.IntVar, *, exact: bool
) -> cp_model.IntVar:
    """Return a variable that is at least ``overlap`` if ``chosen``, else free; or at most, and else 0 (``exact``)."""
    found = model.new_int_var_from_domain(overlap.domain, f"{overlap.name}:{chosen.name}")
    if exact:
        model.add(found <= overlap)
        model.add(found == 0).only_enforce_if(~chosen)
    else:
        model.add(found >= overlap).only_enforce_if(chosen)
    return found
