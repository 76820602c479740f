"""Many intervals refuted at once: a relaxation in which the interval is a variable.

Where ticks are fine, thousands of intervals lie between a bound and the answer. Here ``start = slot + II * stage`` is a
product of variables, units are only counted, bytes too, and what is held for longer than the least interval is left
out. So what it refutes has no schedule; what it finds need not be one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.periodic.cycles import most_copies
from hexloom.formulations.periodic.model import components, most_stages
from hexloom.formulations.periodic.solver import solver_for, spent_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ortools.sat.python import cp_model

    from hexloom.formulations.periodic.loop import Loop


@dataclass(frozen=True, slots=True)
class RangeJob:
    """The intervals of ``loop`` from ``lower`` to below ``upper``; with ``least`` the smallest that is not refuted."""

    loop: Loop
    lower: int
    upper: int
    least: bool
    seconds: float
    seed: int = 0
    workers: int = 2
    deterministic: bool = False

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"loop {self.loop.name!r} at II from {self.lower} to below {self.upper}"

    def work(self, found: Callable[[float], None]) -> tuple[str, int]:
        """Give the seconds it took to ``found``; return the solver's word, and below which interval all are refuted.

        Without ``least`` presolve is left out, so that it is another proof.
        """
        from ortools.sat.python import cp_model  # loads long: only where it solves

        ranged = _RangeModel(self)
        if self.least:
            ranged.model.minimize(ranged.ii)
        solver = solver_for(self, presolve=self.least)
        status = solver.solve(ranged.model)
        found(spent_s(self, solver))
        if status == cp_model.INFEASIBLE:
            return solver.status_name(status), self.upper
        return solver.status_name(status), max(
            self.lower, int(solver.best_objective_bound)
        ) if self.least else self.lower


class _RangeModel:
    def __init__(self, job: RangeJob) -> None:
        from ortools.sat.python import cp_model  # loads long: only where it solves

        self.loop, self.lower, self.most = job.loop, job.lower, job.upper - 1
        self.model = cp_model.CpModel()
        self.ii = self.model.new_int_var(self.lower, self.most, "ii")
        stages = 2 * most_stages(self.loop, self.lower, addresses=False)
        self.far = (stages + 1) * self.most
        placed = [self._on_circle(stages) for _ in self.loop.ops]
        self.slots, self.starts = [slot for slot, _, _ in placed], [start for _, _, start in placed]
        # As in the model of one interval: all slots turn together, and what is related is shifted together.
        work = [sum(use.ticks * use.units for use in op.uses) for op in self.loop.ops]
        self.model.add(self.slots[work.index(max(work))] == 0)
        for related in components(self.loop):
            self.model.add(placed[max(related, key=lambda i: work[i])][1] == stages // 2)
        for edge in self.loop.dependencies:
            before, after = (self.starts[self.loop.op_index[name]] for name in (edge.before, edge.after))
            self.model.add(after + edge.distance * self.ii >= before + self.loop.delay_ticks(edge))
        for holds, capacity in self._loads():
            self._add_load(holds, capacity)
        self._add_bytes()

    def _on_circle(self, stages: int) -> tuple[cp_model.IntVar, cp_model.IntVar, cp_model.IntVar]:
        """Return a slot below the interval, a stage up to ``stages``, and the time that they mean."""
        slot = self.model.new_int_var(0, self.most - 1, "")
        stage = self.model.new_int_var(0, stages, "")
        whole = self.model.new_int_var(0, stages * self.most, "")
        time = self.model.new_int_var(0, (stages + 1) * self.most, "")
        self.model.add(slot < self.ii)
        self.model.add_multiplication_equality(whole, [self.ii, stage])
        self.model.add(time == slot + whole)
        return slot, stage, time

    def _again(self, slot: cp_model.IntVar) -> cp_model.IntVar:
        """Return the same slot one interval later."""
        later = self.model.new_int_var(0, 2 * self.most, "")
        self.model.add(later == slot + self.ii)
        return later

    def _loads(self) -> Iterator[tuple[list[tuple[int, int, int]], int]]:
        """Return op, ticks and amount of all that is held of an engine or a rigid channel, and how much there is."""
        for engine in self.loop.engines:
            yield (
                [
                    (i, use.ticks, use.units)
                    for i, op in enumerate(self.loop.ops)
                    for use in op.uses
                    if use.engine == engine.name
                ],
                engine.units,
            )
        for channel in self.loop.channels if self.loop.rule == "rigid" else ():
            yield (
                [
                    (i, op.latency_ticks, pull.rate)
                    for i, op in enumerate(self.loop.ops)
                    for pull in op.mode.pulls
                    if pull.channel == channel.name
                ],
                channel.capacity,
            )

    def _add_load(self, holds: list[tuple[int, int, int]], capacity: int) -> None:
        rows, amounts = [], []
        for i, ticks, amount in holds:
            if ticks <= self.lower:
                for slot in (self.slots[i], self._again(self.slots[i])):
                    rows.append(self.model.new_fixed_size_interval_var(slot, ticks, ""))
                    amounts.append(amount)
        if all(2 * amount > capacity for amount in amounts):
            self.model.add_no_overlap(rows)
        else:
            self.model.add_cumulative(rows, amounts, capacity)

    def _add_bytes(self) -> None:
        """Ensure ``sum size * (intervals - 1 + resting) <= available``, and that rings have copies for their lives."""
        model, ops = self.model, self.loop.ops
        rows: list[cp_model.IntervalVar] = []
        amounts: list[cp_model.LinearExprT] = []
        byte_ticks: list[cp_model.LinearExprT] = []
        for buffer in self.loop.buffers:
            most = most_copies(self.loop, buffer)
            if most is None:
                continue
            begins = [self.starts[self.loop.op_index[u.op]] + u.distance * self.ii for u in buffer.users]
            ends = [
                begin + ops[self.loop.op_index[u.op]].latency_ticks
                for begin, u in zip(begins, buffer.users, strict=True)
            ]
            apart = max(u.distance for u in buffer.users)
            slot, _, born = self._on_circle(self.far // self.lower + apart)
            died = model.new_int_var(0, self.far + apart * self.most + max(op.latency_ticks for op in ops), "")
            model.add_min_equality(born, begins)
            model.add_max_equality(died, ends)
            intervals = model.new_int_var(0, most - 1, "")
            whole = model.new_int_var(0, most * self.most, "")
            rest = model.new_int_var(1, self.most, "")
            model.add(rest <= self.ii)
            model.add_multiplication_equality(whole, [self.ii, intervals])
            model.add(died - born == whole + rest)
            for first in (slot, self._again(slot)):
                end = model.new_int_var(0, 3 * self.most, "")
                rows.append(model.new_interval_var(first, rest, end, ""))
                amounts.append(buffer.occupied_bytes)
            rows.append(model.new_fixed_size_interval_var(0, 2 * self.most, ""))
            amounts.append(buffer.occupied_bytes * intervals)
            byte_ticks.append(buffer.occupied_bytes * (died - born))
        model.add_cumulative(rows, amounts, self.loop.scratchpad.available_bytes)
        model.add(sum(byte_ticks) <= self.ii * self.loop.scratchpad.available_bytes)
