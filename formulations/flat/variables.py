"""Variables of the flat model: a start per op, a literal per mode, for transfers also when they move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

if TYPE_CHECKING:
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Mode, Problem

Literal = cp_model.IntVar
Affine = cp_model.LinearExpr | cp_model.IntVar | int


@dataclass
class ModeVars:
    """One mode of one op: the literal that says it is chosen, and the mode itself."""

    chosen: Literal | bool
    mode: Mode


@dataclass
class Work:
    """The work of an op that others can slow: ``size = done - begin`` is what the solver decides."""

    begin: cp_model.IntVar
    size: cp_model.IntVar
    done: cp_model.IntVar


@dataclass
class OpVars:
    """One op; where a part of the schedule is fixed, its times are numbers or differ by a constant from a variable.

    ``start``: it begins (a transfer: its issue). ``moved``: a transfer takes its pipes (else None). ``known``: the
    result can be used; for a transfer its owner has observed the end. ``life``: the time between, of a transfer that
    holds a share, and of any op that has ``work``: one that others can slow.
    """

    start: Affine
    moved: Affine | None
    known: Affine
    modes: list[ModeVars]
    life: Affine | None = None
    work: Work | None = None


@dataclass
class FlatVars:
    """All variables of the model, by position of the op."""

    ops: list[OpVars]
    makespan: cp_model.IntVar


def add_variables(model: cp_model.CpModel, problem: Problem, ht: HeadsTails, upper: int, lower: int) -> FlatVars:
    """Create the variables; heads and tails bound every start, ``lower <= makespan <= upper``.

    Ensures that each op has exactly one mode, ``known = start + overhead + latency`` for ops, and for transfers
    ``moved >= start + issue`` and ``known >= moved + latency + poll``.
    """
    makespan = model.new_int_var(lower, upper, "makespan")
    found: list[OpVars] = []
    for i, op in enumerate(problem.ops):
        earliest, tail = int(ht.head[i]), int(ht.tail[i])
        latest = max(earliest, upper - tail)
        start = model.new_int_var(earliest, latest, f"start:{op.name}")
        modes = [
            ModeVars(True if len(op.modes) == 1 else model.new_bool_var(f"mode:{op.name}:{m}"), mode)
            for m, mode in enumerate(op.modes)
        ]
        if len(modes) > 1:
            model.add_exactly_one([m.chosen for m in modes])
        known: Affine
        moved: cp_model.IntVar | None = None
        if len(modes) == 1 and modes[0].mode.dma is None:
            known = start + modes[0].mode.duration_ticks
        else:
            known = model.new_int_var(earliest, latest, f"known:{op.name}")
            if any(m.mode.dma is not None for m in modes):
                moved = model.new_int_var(earliest, latest, f"moved:{op.name}")
            for m in modes:
                bind(model, m, start, moved, known)
        model.add(makespan >= known + tail)
        life: cp_model.IntVar | None = None
        if any(m.mode.dma is not None and problem.share_uses(m.mode) for m in modes):
            life = model.new_int_var(0, upper, f"life:{op.name}")
            model.add(life == known - start)
        found.append(OpVars(start, moved, known, modes, life))
    return FlatVars(found, makespan)


def bind(
    model: cp_model.CpModel, m: ModeVars, start: cp_model.IntVar, moved: cp_model.IntVar | None, known: cp_model.IntVar
) -> None:
    """Ensure that, when ``m`` is chosen, an op takes its duration, and a transfer at least what its steps take."""
    dma = m.mode.dma
    if dma is None:
        rows = [known == start + m.mode.duration_ticks]
        if moved is not None:
            rows.append(moved == start)
    else:
        assert moved is not None
        rows = [moved >= start + dma.issue_ticks, known >= moved + m.mode.latency_ticks + dma.poll_ticks]
    for row in rows:
        constraint = model.add(row)
        if m.chosen is not True:
            constraint.only_enforce_if(m.chosen)


def hint_to(model: cp_model.CpModel, of: Affine | None, value: int) -> None:
    """Hint ``value`` for a time of an op that is a variable of its own."""
    if isinstance(of, cp_model.IntVar):
        model.add_hint(of, value)


def hint_times(model: cp_model.CpModel, op: OpVars, start: int, moved: int, known: int) -> None:
    """Hint the times of an op, each variable once: an op of no length ends with its start."""
    hint_to(model, op.start, start)
    hint_to(model, op.moved, moved)
    if op.known is not op.start:
        hint_to(model, op.known, known)
    hint_to(model, op.life, known - start)
