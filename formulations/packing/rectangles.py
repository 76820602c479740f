"""Offsets by CP-SAT: rectangles in time and address that do not overlap."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from hexloom.formulations.packing.first_fit import ORDERS
from hexloom.formulations.packing.sections import cut

if TYPE_CHECKING:
    from collections.abc import Callable

    from ortools.sat.python import cp_model

    from hexloom.formulations.packing.block import Block


@dataclass(frozen=True, slots=True)
class RectanglesJob:
    """Blocks to pack below ``capacity``, and how to search; deterministic: ``seconds`` are the solver's own.

    ``order`` is one of `ORDERS`: of the blocks that can lie lowest, the first in this order gets its offset first.
    """

    blocks: tuple[Block, ...]
    capacity: int
    seconds: float
    seed: int = 0
    workers: int = 2
    deterministic: bool = False
    presolve: bool = True
    order: str = "life"

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"{len(self.blocks)} blocks"

    def work(self, found: Callable[[tuple[int, ...]], None]) -> tuple[str, int]:
        """Solve it."""
        return solve_rectangles(self, found)


def solve_rectangles(job: RectanglesJob, on_solution: Callable[[tuple[int, ...]], None]) -> tuple[str, int]:
    """Search; give the offsets to ``on_solution``, and return the solver's word.

    Lives count in sections, bytes in what sizes, alignments and pins have in common: in a packing in which every block
    lies as low as it can nothing lies elsewhere. The order decides whether the solver finds anything. With the
    longest-lived first it closes minimalloc's 11 instances, by area or with an order of its own most of them stay open;
    on others (``benchmarks/packing.py --orders``) life and area close as many, not the same ones, and size nearly none.
    """
    from ortools.sat.python import cp_model

    unit = gcd(*(n for b in job.blocks for n in (b.size, b.pin or 0, 0 if b.align == 1 else b.align)))
    model, units = _model(job, max(1, unit))
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.random_seed = job.seed
    parameters.num_workers = 1 if job.deterministic else job.workers
    parameters.cp_model_presolve = job.presolve
    parameters.ignore_subsolvers.append("packing_square_lns")  # known wrong answers on rectangles (or-tools #4582)
    if job.deterministic:
        parameters.max_deterministic_time = job.seconds
    else:
        parameters.max_time_in_seconds = job.seconds
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        steps = [b.align // gcd(b.align, max(1, unit)) * max(1, unit) for b in job.blocks]
        on_solution(tuple(solver.value(at) * step for at, step in zip(units, steps, strict=True)))
    return solver.status_name(status), 0


def _model(job: RectanglesJob, unit: int) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    rows: list[cp_model.IntervalVar] = []
    columns: list[cp_model.IntervalVar] = []
    places: list[cp_model.IntVar] = []
    for b, (block, (first, last)) in enumerate(zip(job.blocks, cut(job.blocks).spans, strict=True)):
        # Addresses in steps: multiples of the alignment, or of the unit where that is coarser.
        step = block.align // gcd(block.align, unit)
        place = model.new_int_var(0, max(0, (job.capacity - block.size) // (step * unit)), f"place{b}")
        if block.pin is not None:
            model.add(place * (step * unit) == block.pin)
        places.append(place)
        rows.append(model.new_fixed_size_interval_var(first, last - first, f"alive{b}"))
        columns.append(model.new_fixed_size_interval_var(place * step, block.size // unit, f"at{b}"))
    model.add_no_overlap_2d(rows, columns)
    order = sorted(range(len(job.blocks)), key=lambda b: (*ORDERS[job.order](job.blocks[b]), b))
    model.add_decision_strategy([places[b] for b in order], cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)
    return model, places
