"""Engines in the flat model: units, hardware threads and pipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.exclusive import exclusive_sets

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from hexloom.formulations.flat.variables import Affine, FlatVars, Literal
    from hexloom.formulations.problem import Engine, Problem


@dataclass
class Hold:
    """``units`` units of an engine held for ``ticks`` from ``start`` (to ``end`` where that varies), if ``present``."""

    op: int
    use: int
    start: Affine
    ticks: Affine
    units: int
    unit_ids: tuple[int, ...] | None
    present: Literal | bool
    end: Affine | None = None


@dataclass
class UnitChoice:
    """Literals, by unit, that say which units a hold got."""

    op: int
    mode: int
    use: int
    literals: dict[int, Literal]


def add_engines(model: cp_model.CpModel, problem: Problem, variables: FlatVars) -> list[UnitChoice]:
    """Ensure that at no time an engine gives more units than it has, and that no unit has two holders.

    Engines of one unit: no two holds overlap. Engines whose holds are all free to take any unit: the sum of units
    held is at most the number of units; such holds can always be given concrete units afterwards. Else every hold
    chooses its units, and no two holds of a unit overlap. A DMA owner is held for the issue and for the observation.
    A unit without a thread is held until the result is known: nothing else tells the next user that it is free. So is
    a share, from the start on: ``sum of amounts of ops with start <= t < known <= amount`` at every t.
    """
    choices: list[UnitChoice] = []
    for engine in problem.engines:
        if engine.kind == "share":
            _add_share(model, variables, engine)
            continue
        holds = _holds(problem, variables, engine)
        if not holds:
            continue
        if engine.units == 1:
            model.add_no_overlap([_interval(model, h, h.present, engine.name) for h, _ in holds])
        elif all(h.unit_ids is None or h.units == engine.units for h, _ in holds):
            intervals = [_interval(model, h, h.present, engine.name) for h, _ in holds]
            model.add_cumulative(intervals, [h.units for h, _ in holds], engine.units)
        else:
            choices += _by_unit(model, engine, holds)
    return choices


def add_exclusive(model: cp_model.CpModel, problem: Problem, variables: FlatVars) -> None:
    """Ensure that ops of which no two can work at the same time follow each other; engines that are counted imply it.

    ``end_i <= start_j or end_j <= start_i`` for all i, j of a set.
    """
    for one in exclusive_sets(problem):
        model.add_no_overlap(
            [
                model.new_fixed_size_interval_var(variables.ops[i].start, ticks, f"exclusive:{i}")
                for i, ticks in zip(one.ops, one.ticks, strict=True)
            ]
        )


def _holds(problem: Problem, variables: FlatVars, engine: Engine) -> list[tuple[Hold, int]]:
    """Return everything that holds the engine, each with the mode it belongs to."""
    found: list[tuple[Hold, int]] = []
    for i, op in enumerate(variables.ops):
        for m, mode_vars in enumerate(op.modes):
            mode, present = mode_vars.mode, mode_vars.chosen
            for k, use in enumerate(mode.uses):
                if use.engine != engine.name or use.ticks == 0:
                    continue
                start = op.start if mode.dma is None else op.moved
                assert start is not None
                ids = tuple(range(engine.units)) if use.units == engine.units else use.unit_ids
                ticks: Affine = use.ticks + mode.overhead_ticks if engine.kind != "resource" else mode.duration_ticks
                end: Affine | None = None
                if op.work is not None and (engine.kind == "resource" or use.ticks == mode.latency_ticks):
                    # Who is slowed holds for longer; who releases a thread before its end, at least as long as alone.
                    assert op.life is not None
                    ticks, end = (op.life, op.known) if mode.dma is None else (op.work.size, op.work.done)
                found.append((Hold(i, k, start, ticks, use.units, ids, present, end), m))
            dma = mode.dma
            if dma is not None and dma.owner_engine == engine.name:
                owner = (dma.owner_unit,)
                found.append((Hold(i, -1, op.start, dma.issue_ticks, 1, owner, present), m))
                found.append((Hold(i, -1, op.known - dma.poll_ticks, dma.poll_ticks, 1, owner, present), m))
    return found


def _add_share(model: cp_model.CpModel, variables: FlatVars, engine: Engine) -> None:
    intervals: list[cp_model.IntervalVar] = []
    amounts: list[int] = []
    for i, op in enumerate(variables.ops):
        for mode_vars in op.modes:
            mode = mode_vars.mode
            for k, use in enumerate(mode.uses):
                if use.engine != engine.name or use.ticks == 0:
                    continue
                if mode.dma is None and op.work is None:
                    hold = Hold(i, k, op.start, mode.duration_ticks, use.units, None, mode_vars.chosen)
                    intervals.append(_interval(model, hold, hold.present, engine.name))
                else:
                    assert op.life is not None
                    span, label = (op.start, op.life, op.known), f"{engine.name}:{i}:{k}"
                    if isinstance(mode_vars.chosen, bool):
                        intervals.append(model.new_interval_var(*span, label))
                    else:
                        intervals.append(model.new_optional_interval_var(*span, mode_vars.chosen, label))
                amounts.append(use.units)
    if intervals:
        model.add_cumulative(intervals, amounts, engine.units)


def _interval(model: cp_model.CpModel, hold: Hold, present: Literal | bool, name: str) -> cp_model.IntervalVar:
    label = f"{name}:{hold.op}:{hold.use}"
    if hold.end is not None:
        return model.new_optional_interval_var(hold.start, hold.ticks, hold.end, present, label)
    assert isinstance(hold.ticks, int)
    if present is True:
        return model.new_fixed_size_interval_var(hold.start, hold.ticks, label)
    return model.new_optional_fixed_size_interval_var(hold.start, hold.ticks, present, label)


def _by_unit(model: cp_model.CpModel, engine: Engine, holds: list[tuple[Hold, int]]) -> list[UnitChoice]:
    lanes: list[list[cp_model.IntervalVar]] = [[] for _ in range(engine.units)]
    choices: list[UnitChoice] = []
    for hold, mode in holds:
        if hold.unit_ids is not None:
            for u in hold.unit_ids:
                lanes[u].append(_interval(model, hold, hold.present, engine.name))
            continue
        literals = {u: model.new_bool_var(f"unit:{engine.name}:{hold.op}:{mode}:{u}") for u in range(engine.units)}
        wanted = hold.units if hold.present is True else hold.units * hold.present
        model.add(sum(literals.values()) == wanted)
        for u, literal in literals.items():
            lanes[u].append(_interval(model, hold, literal, engine.name))
        choices.append(UnitChoice(hold.op, mode, hold.use, literals))
    for lane in lanes:
        model.add_no_overlap(lane)
    # Implied by the lanes, but propagates much better.
    model.add_cumulative(
        [_interval(model, h, h.present, engine.name) for h, _ in holds], [h.units for h, _ in holds], engine.units
    )
    return choices
