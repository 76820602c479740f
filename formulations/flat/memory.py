"""The scratchpad in the flat model: bytes over time, and addresses when bytes alone are not enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from hexloom.formulations.flat.variables import FlatVars
    from hexloom.formulations.problem import Problem


@dataclass
class Life:
    """Lifetime of one buffer: an interval from the start of its first user to the end of the last."""

    buffer: int
    interval: cp_model.IntervalVar
    born: cp_model.IntVar
    size: cp_model.IntVar
    died: cp_model.IntVar


def add_lifetimes(model: cp_model.CpModel, problem: Problem, variables: FlatVars, upper: int) -> list[Life]:
    """Create a lifetime per buffer with ``born <= start(u)`` and ``died >= known(u)`` for every user u."""
    lives: list[Life] = []
    for b, buffer in enumerate(problem.buffers):
        if buffer.resident or not buffer.ops or buffer.occupied_bytes == 0:
            continue
        users = [variables.ops[problem.op_index[name]] for name in dict.fromkeys(buffer.ops)]
        born = model.new_int_var(0, upper, f"born:{buffer.name}")
        died = model.new_int_var(0, upper, f"died:{buffer.name}")
        size = model.new_int_var(0, upper, f"life:{buffer.name}")
        for user in users:
            model.add(born <= user.start)
            model.add(died >= user.known)
        lives.append(Life(b, model.new_interval_var(born, size, died, f"alive:{buffer.name}"), born, size, died))
    return lives


def add_bytes(model: cp_model.CpModel, problem: Problem, lives: list[Life]) -> None:
    """Ensure that at any time the bytes alive, residents included, fit: a relaxation of addresses."""
    resident = sum(b.occupied_bytes for b in problem.buffers if b.resident)
    sizes = [problem.buffers[life.buffer].occupied_bytes for life in lives]
    if lives and sum(sizes) + resident > problem.scratchpad.available_bytes:
        model.add_cumulative([life.interval for life in lives], sizes, problem.scratchpad.available_bytes - resident)


def add_addresses(
    model: cp_model.CpModel, problem: Problem, lives: list[Life], upper: int
) -> dict[int, cp_model.IntVar]:
    """Ensure that no two buffers overlap in time and address; return the address of each in units of its alignment.

    ``align * unit <= available - size``; pinned buffers are fixed, resident ones live for longer than the horizon.
    """
    rows: list[cp_model.IntervalVar] = []
    columns: list[cp_model.IntervalVar] = []
    units: dict[int, cp_model.IntVar] = {}
    available = problem.scratchpad.available_bytes
    alive = {life.buffer: life.interval for life in lives}
    for b, buffer in enumerate(problem.buffers):
        size = buffer.occupied_bytes
        if size == 0 or not (buffer.resident or b in alive):
            continue
        top = (available - size) // buffer.align_bytes
        unit = model.new_int_var(0, top, f"unit:{buffer.name}")
        if buffer.address is not None:
            model.add(unit == buffer.address // buffer.align_bytes)
        units[b] = unit
        columns.append(model.new_fixed_size_interval_var(unit * buffer.align_bytes, size, f"at:{buffer.name}"))
        # What has no length at the edge of a life does not overlap it: what is resident has no edge in sight.
        row = alive[b] if b in alive else model.new_fixed_size_interval_var(-1, upper + 2, f"all:{buffer.name}")
        rows.append(row)
    model.add_no_overlap_2d(rows, columns)
    # Two lives of no length never overlap, but an op needs all its buffers at once.
    column = dict(zip(units, columns, strict=True))
    for i, op in enumerate(problem.ops):
        mine = [column[b] for b in problem.op_buffers[i] if b in column]
        if len(mine) > 1 and any(mode.duration_ticks == 0 for mode in op.modes):
            model.add_no_overlap(mine)
    return units
