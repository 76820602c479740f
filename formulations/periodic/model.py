"""One interval, asked of CP-SAT: is there a modulo schedule with it, and which is the shortest.

``start = slot + II * stage`` with ``0 <= slot < II``. What an op holds for ``q * II + r`` ticks it holds ``q`` times
always and once for ``r`` ticks from its slot on. Time is a circle of II ticks: every interval stands twice, at its slot
and II later; a time in the second turn sees all that is held then.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING, TypeAlias

from hexloom.formulations.periodic.cycles import arcs_of, most_copies
from hexloom.formulations.periodic.lives import LifeVars, add_addresses, add_bytes, add_lives
from hexloom.formulations.periodic.schedule import ModuloSchedule
from hexloom.formulations.periodic.solver import solver_for, spent_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ortools.sat.python import cp_model

    from hexloom.formulations.mode import Engine, Use
    from hexloom.formulations.periodic.loop import Loop


@dataclass(frozen=True, slots=True)
class ModuloAnswer:
    """What comes back: a schedule, and the seconds it took, of the solver's own when the search is deterministic."""

    schedule: ModuloSchedule | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ModuloJob:
    """One interval of ``loop`` to try.

    Without ``addresses`` bytes are only counted. With ``shortest`` the end of the last op of an iteration is least,
    else any schedule will do. ``hint`` are starts by op.
    """

    loop: Loop
    ii: int
    addresses: bool
    shortest: bool
    seconds: float
    seed: int = 0
    workers: int = 2
    deterministic: bool = False
    presolve: bool = True
    hint: Mapping[str, int] | None = None

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"loop {self.loop.name!r} at II {self.ii}"

    def work(self, found: Callable[[ModuloAnswer], None]) -> tuple[str, int]:
        """Solve it; return the solver's word and the proven bound on the end of the last op."""
        return ModuloModel(self).solve(found)


class ModuloModel:
    """All constraints of a job."""

    def __init__(self, job: ModuloJob) -> None:
        from ortools.sat.python import cp_model  # loads long: only where it solves

        self.job, self.loop, self.ii = job, job.loop, job.ii
        self.model = model = cp_model.CpModel()
        stages = most_stages(self.loop, self.ii, job.addresses) * (1 if job.shortest else 2)
        names = [op.name for op in self.loop.ops]
        self.slots = [model.new_int_var(0, self.ii - 1, f"slot:{name}") for name in names]
        self.stages = [model.new_int_var(0, stages - 1, f"stage:{name}") for name in names]
        self.starts = [model.new_int_var(0, stages * self.ii - 1, f"start:{name}") for name in names]
        for start, slot, stage in zip(self.starts, self.slots, self.stages, strict=True):
            model.add(start == slot + self.ii * stage)
        add_dependencies(model, self.loop, self.ii, self.starts)
        self.units = add_engines(model, self.loop, self.ii, self.slots)
        add_channels(model, self.loop, self.ii, self.slots)
        self.lives: list[LifeVars] = add_lives(model, self.loop, self.ii, self.starts, stages * self.ii - 1)
        add_bytes(model, self.loop, self.ii, self.lives)
        self.places = add_addresses(model, self.loop, self.ii, self.lives) if job.addresses else {}
        if job.shortest:
            self.length = model.new_int_var(0, (stages + 1) * self.ii + max(self._latencies()), "length")
            for start, latency in zip(self.starts, self._latencies(), strict=True):
                model.add(self.length >= start + latency)
            model.minimize(self.length)
        else:
            # All slots may be turned together, for which there is one stage more, and what nothing relates be shifted
            # by whole stages, so that one op of it stands in the middle.
            work = [sum(use.ticks * use.units for use in op.uses) for op in self.loop.ops]
            model.add(self.slots[work.index(max(work))] == 0)
            for related in components(self.loop):
                model.add(self.stages[max(related, key=lambda i: work[i])] == stages // 2)
        if job.hint is not None:
            for start, name in zip(self.starts, names, strict=True):
                model.add_hint(start, job.hint[name])

    def _latencies(self) -> list[int]:
        return [op.latency_ticks for op in self.loop.ops]

    def solve(self, found: Callable[[ModuloAnswer], None]) -> tuple[str, int]:
        """Search; give what was found to ``found``."""
        from ortools.sat.python import cp_model

        job = self.job
        solver = solver_for(job, presolve=job.presolve)
        status = solver.solve(self.model)
        schedule = self._read(solver) if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
        found(ModuloAnswer(schedule, spent_s(job, solver)))
        return solver.status_name(status), int(solver.best_objective_bound) if job.shortest else 0

    def _read(self, solver: cp_model.CpSolver) -> ModuloSchedule:
        starts = [solver.value(start) for start in self.starts]
        units: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = {}
        for (i, engine), turns in self.units.items():
            taken = [tuple(u for u, literal in of.items() if solver.value(literal)) for of in turns]
            # The model counts turns of the kernel: iteration j of the op is in turn j + stage.
            ring = tuple(taken[(j + starts[i] // self.ii) % len(taken)] for j in range(len(taken)))
            units.setdefault(self.loop.ops[i].name, {})[engine] = ring
        addresses = {}
        for life in self.lives:
            if life.buffer.name in self.places:
                copies, born = solver.value(life.copies), solver.value(life.born)
                at = [solver.value(a) * life.buffer.align_bytes for a in self.places[life.buffer.name]]
                addresses[life.buffer.name] = tuple(at[(j + born // self.ii) % copies] for j in range(copies))
        first = min(starts)
        names = [op.name for op in self.loop.ops]
        at_0 = {name: start - first for name, start in zip(names, starts, strict=True)}
        return ModuloSchedule(ii_ticks=self.ii, starts=at_0, units=units, addresses=addresses)


def most_stages(loop: Loop, ii: int, addresses: bool) -> int:
    """Return of how many stages a schedule never needs more, if there is one with interval ``ii`` at all.

    With the slots as they are, the stages are bounded from below by differences alone; the least ones are longest
    paths, on which every op counts once. Where a life decides of how many copies its ring is, it is kept as it is.
    """
    most = [0] * len(loop.ops)
    for arc in arcs_of(loop):
        most[arc.before] = max(most[arc.before], -(-(arc.delay + ii - 1) // ii) - arc.distance)
    for buffer in loop.buffers if addresses else ():
        copies = most_copies(loop, buffer)
        if buffer.depth is None and copies is not None and len(buffer.users) > 1:
            for user in buffer.users:
                i = loop.op_index[user.op]
                most[i] = max(most[i], copies + 1)
    return 2 + sum(most)


def components(loop: Loop) -> list[list[int]]:
    """Return the ops in groups that dependencies and buffers connect."""
    root = list(range(len(loop.ops)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = i = root[root[i]]
        return i

    pairs = [(edge.before, edge.after) for edge in loop.dependencies]
    pairs += [(buffer.users[0].op, user.op) for buffer in loop.buffers for user in buffer.users]
    for before, after in pairs:
        root[find(loop.op_index[after])] = find(loop.op_index[before])
    found: dict[int, list[int]] = {}
    for i in range(len(loop.ops)):
        found.setdefault(find(i), []).append(i)
    return list(found.values())


def add_dependencies(model: cp_model.CpModel, loop: Loop, ii: int, starts: Sequence[cp_model.IntVar]) -> None:
    """Ensure ``start(after) + II * distance >= start(before) + delay``."""
    for edge in loop.dependencies:
        if edge.before == edge.after:
            if loop.delay_ticks(edge) > ii * edge.distance:
                model.add_bool_or([])
            continue
        before, after = starts[loop.op_index[edge.before]], starts[loop.op_index[edge.after]]
        model.add(after + ii * edge.distance >= before + loop.delay_ticks(edge))


def add_load(
    model: cp_model.CpModel, ii: int, holds: Sequence[tuple[cp_model.IntVar, int, int]], capacity: int, name: str
) -> None:
    """Ensure that what is held at any time modulo ``ii`` is at most ``capacity``; holds are slot, ticks and amount."""
    always = sum(ticks // ii * amount for _, ticks, amount in holds)
    intervals, amounts = [], []
    for slot, ticks, amount in holds:
        if ticks % ii and amount:
            for turn in (0, ii):
                intervals.append(model.new_fixed_size_interval_var(slot + turn, ticks % ii, f"{name}:{turn}"))
                amounts.append(amount)
    if always > capacity:
        model.add_bool_or([])
    elif all(2 * amount > capacity - always for amount in amounts):
        if any(amount > capacity - always for amount in amounts):
            model.add_bool_or([])
        model.add_no_overlap(intervals)
    elif sum(amounts) // 2 > capacity - always:
        model.add_cumulative(intervals, amounts, capacity - always)


def add_channels(model: cp_model.CpModel, loop: Loop, ii: int, slots: Sequence[cp_model.IntVar]) -> None:
    """Ensure under rule ``rigid`` that no channel is asked for more than its capacity."""
    for channel in loop.channels if loop.rule == "rigid" else ():
        holds = [
            (slots[i], op.latency_ticks, pull.rate)
            for i, op in enumerate(loop.ops)
            for pull in op.mode.pulls
            if pull.channel == channel.name
        ]
        add_load(model, ii, holds, channel.capacity, channel.name)


UnitVars: TypeAlias = "dict[tuple[int, str], list[dict[int, cp_model.IntVar]]]"
"""By op and engine, for every turn of its ring whether it holds which unit."""


def add_engines(model: cp_model.CpModel, loop: Loop, ii: int, slots: Sequence[cp_model.IntVar]) -> UnitVars:
    """Ensure that no engine is held in more units than it has, and, where it matters, which they are."""
    units: UnitVars = {}
    for engine in loop.engines:
        uses = [(i, use) for i, op in enumerate(loop.ops) for use in op.uses if use.engine == engine.name]
        holds = [(slots[i], use.ticks, use.units) for i, use in uses]
        add_load(model, ii, holds, engine.units, engine.name)
        if loop.needs_units(engine):
            for (i, _), turns in zip(uses, _add_units(model, engine, ii, uses, slots), strict=True):
                units[i, engine.name] = turns
    return units


def _add_units(
    model: cp_model.CpModel,
    engine: Engine,
    ii: int,
    uses: Sequence[tuple[int, Use]],
    slots: Sequence[cp_model.IntVar],
) -> list[list[dict[int, cp_model.IntVar]]]:
    """Ensure that no unit is held twice: ring turns repeat after as many iterations as the op takes intervals.

    All uses are unrolled to the common period of their rings; there every occurrence has one interval per unit.
    """
    rings = [-(-use.ticks // ii) for _, use in uses]
    period = lcm(1, *rings)
    on: dict[int, list[cp_model.IntervalVar]] = {u: [] for u in range(engine.units)}
    found = []
    for (i, use), ring in zip(uses, rings, strict=True):
        turns: list[dict[int, cp_model.IntVar]] = []
        for k in range(ring):
            name = f"{i}:{engine.name}:{k}"
            of = {u: model.new_bool_var(f"{name}:{u}") for u in range(engine.units)}
            model.add(sum(of.values()) == use.units)
            for u in use.unit_ids or ():
                model.add(of[u] == 1)
            turns.append(of)
        for turn in range(period):
            for u, literal in turns[turn % ring].items():
                for again in (0, period * ii):
                    start = slots[i] + (turn * ii + again)
                    on[u].append(model.new_optional_fixed_size_interval_var(start, use.ticks, literal, f"{i}:{u}"))
        found.append(turns)
    for intervals in on.values():
        model.add_no_overlap(intervals)
    return found
