"""Addresses of ring copies whose starts are fixed, by CP-SAT: where first fit fails, and before starts move for it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from hexloom.formulations.periodic.model import ModuloAnswer
from hexloom.formulations.periodic.place import meet, rings_of
from hexloom.formulations.periodic.solver import solver_for, spent_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.periodic.loop import Loop
    from hexloom.formulations.periodic.schedule import ModuloSchedule


@dataclass(frozen=True, slots=True)
class FixedStarts:
    """Addresses for ``schedule`` as it is, if there are any."""

    loop: Loop
    schedule: ModuloSchedule
    seconds: float
    seed: int = 0
    workers: int = 2
    deterministic: bool = False

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"addresses of loop {self.loop.name!r} at II {self.schedule.ii_ticks}"

    def work(self, found: Callable[[ModuloAnswer], None]) -> tuple[str, int]:
        """Ensure that of two copies that are ever alive together one lies below the other."""
        from ortools.sat.python import cp_model  # loads long: only where it solves

        model = cp_model.CpModel()
        available, ii = self.loop.scratchpad.available_bytes, self.schedule.ii_ticks
        rings = rings_of(self.loop, ii, self.schedule.starts)
        units = [
            [
                model.new_int_var(0, (available - ring.buffer.occupied_bytes) // ring.buffer.align_bytes, f"{b}:{k}")
                for k in range(ring.copies)
            ]
            for b, ring in enumerate(rings)
        ]
        copies = [(ring, k, units[b][k]) for b, ring in enumerate(rings) for k in range(ring.copies)]
        for (one, k, low), (two, j, high) in combinations(copies, 2):
            if one.buffer.occupied_bytes and two.buffer.occupied_bytes and meet(one, k, two, j, ii):
                below = model.new_bool_var("")
                lower, upper = low * one.buffer.align_bytes, high * two.buffer.align_bytes
                model.add(lower + one.buffer.occupied_bytes <= upper).only_enforce_if(below)
                model.add(upper + two.buffer.occupied_bytes <= lower).only_enforce_if(~below)
        solver = solver_for(self)
        status = solver.solve(model)
        placed = None
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            addresses = {
                ring.buffer.name: tuple(solver.value(unit) * ring.buffer.align_bytes for unit in units[b])
                for b, ring in enumerate(rings)
            }
            placed = self.schedule.model_copy(update={"addresses": addresses})
        found(ModuloAnswer(placed, spent_s(self, solver)))
        return solver.status_name(status), 0
