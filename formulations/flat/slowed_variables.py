"""Variables of the flat model where ops slow each other: what an op takes is decided too.

Real times are fractions; the model has whole parts of a tick, each the floor of the real time. Floors keep every order
of starts and ends, so precedence and engines stay as they are, and what lasts a whole number of parts lasts as many.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from hexloom.formulations.flat.overlap_terms import Worker
from hexloom.formulations.flat.variables import FlatVars, ModeVars, OpVars, Work

if TYPE_CHECKING:
    from fractions import Fraction

    from ortools.sat.python import cp_model

    from hexloom.formulations.flat.overlap_terms import OverlapTerms
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Mode, Problem


def add_slowed_variables(
    model: cp_model.CpModel,
    problem: Problem,
    terms: OverlapTerms,
    ht: HeadsTails,
    upper: int,
    lower: int,
    scale: Fraction,
) -> FlatVars:
    """Create the variables of ``problem``, which is in parts; heads and tails bound every start.

    Ensures that each op has exactly one mode, ``known = start + overhead + size`` for ops, and for transfers ``moved >=
    start + issue`` and ``known >= moved + size + poll``, where ``size`` is the latency unless others can slow the mode.
    Where parts are larger than a tick the first is ``>=`` too: a sum of floors is less than the floor of a sum.
    """
    makespan = model.new_int_var(lower, upper, "makespan")
    exactly = scale.denominator == 1
    found: list[OpVars] = []
    for i, op in enumerate(problem.ops):
        earliest, tail = int(ht.head[i]), int(ht.tail[i])
        latest = max(earliest, upper - tail)
        start = model.new_int_var(earliest, latest, f"start:{op.name}")
        known = model.new_int_var(earliest, latest, f"known:{op.name}")
        modes = [
            ModeVars(True if len(op.modes) == 1 else model.new_bool_var(f"mode:{op.name}:{m}"), mode)
            for m, mode in enumerate(op.modes)
        ]
        if len(modes) > 1:
            model.add_exactly_one([m.chosen for m in modes])
        moved = None
        if any(mode.dma is not None for mode in op.modes):
            moved = model.new_int_var(earliest, latest, f"moved:{op.name}")
        life = model.new_int_var(0, upper, f"life:{op.name}")
        model.add(life == known - start)
        longest = max(_longest(terms, Worker(i, m), mode, upper) for m, mode in enumerate(op.modes))
        work = Work(
            model.new_int_var(earliest, latest, f"begin:{op.name}"),
            model.new_int_var(0, longest, f"size:{op.name}"),
            model.new_int_var(earliest, latest, f"done:{op.name}"),
        )
        model.add(work.done == work.begin + work.size)
        of = OpVars(start, moved, known, modes, life, work)
        for m, chosen in enumerate(modes):
            _bind(model, of, chosen, exactly, slowed=Worker(i, m) in terms.kind_of)
        model.add(makespan >= known + tail)
        found.append(of)
    return FlatVars(found, makespan)


def _longest(terms: OverlapTerms, worker: Worker, mode: Mode, upper: int) -> int:
    """Return the most parts that the work of a mode can take: at its least speed all the time, and a part more."""
    kind = terms.kind_of.get(worker)
    if kind is None:
        return mode.latency_ticks + 2
    least = terms.least_speed(kind) if terms.complete else 0
    return min(upper, ceil((mode.latency_ticks + 1) / (terms.alone[kind] * least)) + 1) if least else upper


def _bind(model: cp_model.CpModel, of: OpVars, m: ModeVars, exactly: bool, *, slowed: bool) -> None:
    assert of.work is not None
    mode, work, dma = m.mode, of.work, m.mode.dma
    rows = []
    if dma is None:
        rows.append(of.known == work.done)
        rows.append(
            work.begin == of.start + mode.overhead_ticks if exactly else work.begin >= of.start + mode.overhead_ticks
        )
        if of.moved is not None:
            rows.append(of.moved == of.start)
    else:
        assert of.moved is not None
        rows += [of.moved >= of.start + dma.issue_ticks, work.begin == of.moved, of.known >= work.done + dma.poll_ticks]
    if slowed or not exactly:
        rows.append(work.size >= mode.latency_ticks)
    else:
        rows.append(work.size == mode.latency_ticks)
    for row in rows:
        constraint = model.add(row)
        if m.chosen is not True:
            constraint.only_enforce_if(m.chosen)
