"""A second opinion on small problems: one mixed-integer program, time-indexed, by CBC or HiGHS through PuLP.

It shares nothing with the flat model but the problem: a binary variable says that an op starts in a mode, on concrete
units where they matter, at a tick.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import pulp

from hexloom.formulations.mip_solver import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.mip_solver import Answer, SolverName
    from hexloom.formulations.problem import Mode, Op, Problem

MAX_COLUMNS = 20_000
"""Above so many start variables the program is not built: it would not be solved either."""

MAX_WAYS = 64
"""Most ways to give one op concrete units; only engines on which some op fixes its units ask for them."""

TOLERANCE = 1e-6
"""What a bound in floating point may be off; the makespan is a whole number of ticks."""


@dataclass(frozen=True, slots=True)
class MilpResult:
    """What a solver proved: no schedule is shorter than ``bound``; ``value`` is the makespan it found, if any.

    ``proven``: the two meet, or nothing fits at all (``infeasible``: no schedule ends by ``upper``).
    """

    bound: int
    value: int | None
    proven: bool
    infeasible: bool = False
    solver: str = ""


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to run an op: a mode and, on engines where they matter, its units. ``holds``: (engine, unit or None,
    units, ticks).
    """

    mode: Mode
    holds: tuple[tuple[str, int | None, int, int], ...]


def accepts(problem: Problem) -> str | None:
    """Return why `cross_check` doesn't take ``problem``, or None when it does.

    It takes problems without transfers: their owners observe the end at a time of their own, and pipes have a memory.
    Every used buffer must live for at least a tick: only ticks have bytes.
    """
    for op in problem.ops:
        for mode in op.modes:
            if mode.dma is not None:
                return f"op {op.name!r}, mode {mode.name!r} is a transfer"
        if not 0 < sum(1 for _ in _ways(problem, op)) <= MAX_WAYS:
            return f"op {op.name!r} has no way to run, or more than {MAX_WAYS}"
    if problem.pools:
        return "its buffers lie in several pools"
    for buffer in problem.buffers:
        if buffer.overwrites is not None:
            return f"buffer {buffer.name!r} may overwrite another one"
        if buffer.part_of is not None:
            return f"buffer {buffer.name!r} is part of {buffer.part_of!r}"
        users = [problem.ops[problem.op_index[name]] for name in buffer.ops]
        if buffer.occupied_bytes and users and not buffer.always:
            shortest = max(min(mode.duration_ticks for mode in op.modes) for op in users)
            if shortest == 0:
                return f"buffer {buffer.name!r} may live for no time"
    return None


def cross_check(
    problem: Problem,
    upper: int | None = None,
    seconds: float = 30.0,
    solver: SolverName | None = None,
) -> MilpResult:
    """Return the least makespan of ``problem`` as a mixed-integer solver sees it, among those of at most ``upper``.

    Parameters
    ----------
    upper
        Largest makespan of interest; the horizon if None.
    solver
        ``highs`` needs the module highspy; None takes it where it is installed, else the CBC that comes with PuLP.

    Raises
    ------
    ValueError
        `accepts` names a reason, or the program would have more than `MAX_COLUMNS` starts.
    """
    reason = accepts(problem)
    if reason is not None:
        raise ValueError(f"the cross-check does not take this problem: {reason}")
    with warnings.catch_warnings():
        # PuLP 3 warns that PuLP 4 makes variables and rows in another way.
        warnings.simplefilter("ignore", DeprecationWarning)
        model = _Program(problem, problem.horizon_ticks if upper is None else upper)
        if model.nothing_fits:
            return MilpResult(model.upper + 1, None, True, infeasible=True, solver="arithmetic")
        return _read(model, run(model.program, seconds, solver))


def _ways(problem: Problem, op: Op) -> Iterator[_Way]:
    """Enumerate the modes, with concrete units on engines where some op fixes only a part of them."""
    engines = {engine.name: engine for engine in problem.engines}
    fixed = {
        use.engine
        for other in problem.ops
        for mode in other.modes
        for use in mode.uses
        if use.unit_ids is not None and use.ticks and use.units < engines[use.engine].units
    }
    for mode in op.modes:
        choices: list[list[tuple[tuple[str, int | None, int, int], ...]]] = []
        for use in mode.uses:
            if use.ticks == 0:
                continue
            engine = engines[use.engine]
            # A unit without a thread, or a part of a share, is free for others only when the result is known.
            late = engine.kind in ("resource", "share")
            ticks = mode.duration_ticks if late else mode.overhead_ticks + use.ticks
            if engine.name not in fixed:
                choices.append([((engine.name, None, use.units, ticks),)])
                continue
            sets = [use.unit_ids] if use.unit_ids is not None else combinations(range(engine.units), use.units)
            choices.append([tuple((engine.name, u, 1, ticks) for u in units) for units in sets])
        for chosen in product(*choices):
            holds = tuple(hold for part in chosen for hold in part)
            if all(hold[2] <= engines[hold[0]].units for hold in holds):
                yield _Way(mode, holds)


class _Program:
    """The program: ``start[i, w, t]`` is 1 when op i starts in way w at tick t."""

    def __init__(self, problem: Problem, upper: int) -> None:
        self.problem = problem
        self.upper = upper
        self.ticks = range(problem.entry_ticks, upper + 1)
        self.program = pulp.LpProblem("cross_check", pulp.LpMinimize)
        self.makespan = pulp.LpVariable("makespan", problem.entry_ticks, upper)
        self.program += self.makespan
        self.nothing_fits = False
        self.ways = [list(_ways(problem, op)) for op in problem.ops]
        columns = sum(len(ways) for ways in self.ways) * len(self.ticks)
        if columns > MAX_COLUMNS:
            raise ValueError(f"the cross-check takes at most {MAX_COLUMNS} starts, this problem has {columns}")
        self.start: dict[tuple[int, int, int], Any] = {}
        self.begun: list[list[Any]] = []
        self.ended: list[list[Any]] = []
        self._starts()
        if not self.nothing_fits:
            self._order()
            self._engines()
            self._scratchpad()

    def _starts(self) -> None:
        """Every op starts once, in time for its deadline; ``begun`` and ``ended`` count up to a tick."""
        for i, op in enumerate(self.problem.ops):
            last = self.upper if op.deadline_ticks is None else min(self.upper, op.deadline_ticks)
            mine = {
                (i, w, t): pulp.LpVariable(f"s_{i}_{w}_{t}", cat=pulp.LpBinary)
                for w, way in enumerate(self.ways[i])
                for t in self.ticks
                if t + way.mode.duration_ticks <= last
            }
            if not mine:
                self.nothing_fits = True
                return
            self.start |= mine
            length = {key: self.ways[i][key[1]].mode.duration_ticks for key in mine}
            self.program += pulp.lpSum(mine.values()) == 1
            self.program += self.makespan >= pulp.lpSum((key[2] + length[key]) * x for key, x in mine.items())
            begun, ended = [], []
            for t in self.ticks:
                begun.append(pulp.lpSum(x for key, x in mine.items() if key[2] <= t))
                ended.append(pulp.lpSum(x for key, x in mine.items() if key[2] + length[key] <= t))
            self.begun.append(begun)
            self.ended.append(ended)

    def _order(self) -> None:
        """Ensure that what has begun by a tick has all its predecessors ended by then."""
        for after, befores in enumerate(self.problem.predecessors):
            for before in befores:
                for begun, ended in zip(self.begun[after], self.ended[before], strict=True):
                    self.program += begun <= ended

    def _engines(self) -> None:
        units = {engine.name: engine.units for engine in self.problem.engines}
        taken: dict[tuple[str, int | None, int], list[tuple[Any, int]]] = {}
        for (i, w, t), x in self.start.items():
            for engine, unit, count, ticks in self.ways[i][w].holds:
                for at in range(t, t + ticks):
                    taken.setdefault((engine, unit, at), []).append((x, count))
        for (engine, unit, _), rows in taken.items():
            self.program += pulp.lpSum(count * x for x, count in rows) <= (units[engine] if unit is None else 1)

    def _scratchpad(self) -> None:
        """Addresses of all buffers; of two that are alive at one tick one lies below the other."""
        problem, room = self.problem, self.problem.scratchpad.available_bytes
        at: dict[int, Any] = {}
        alive: dict[int, list[Any]] = {}
        for b, buffer in enumerate(problem.buffers):
            size, align = buffer.occupied_bytes, buffer.align_bytes
            if size > room or (buffer.address is not None and buffer.address + size > room):
                self.nothing_fits = True
                return
            if not size:
                continue
            if buffer.address is not None:
                at[b] = buffer.address
            else:
                at[b] = align * pulp.LpVariable(f"unit_{b}", 0, (room - size) // align, cat=pulp.LpInteger)
            if buffer.always:
                alive[b] = [1] * len(self.ticks)
            elif buffer.ops:
                alive[b] = self._life(b)
        for k, _ in enumerate(self.ticks):
            bytes_now = [problem.buffers[b].occupied_bytes * row[k] for b, row in alive.items()]
            if bytes_now and any(not isinstance(term, int) for term in bytes_now):
                self.program += pulp.lpSum(bytes_now) <= room
        for a, b in combinations(alive, 2):
            below = [pulp.LpVariable(f"below_{p}_{q}", cat=pulp.LpBinary) for p, q in ((a, b), (b, a))]
            for (p, q), lower in zip(((a, b), (b, a)), below, strict=True):
                size = problem.buffers[p].occupied_bytes
                self.program += at[p] + size <= at[q] + room * (1 - lower)
            for now_a, now_b in zip(alive[a], alive[b], strict=True):
                self.program += below[0] + below[1] >= now_a + now_b - 1

    def _life(self, b: int) -> list[Any]:
        """Return per tick a variable that is 1 from the first start of a user to the last end."""
        buffer = self.problem.buffers[b]
        users = [self.problem.op_index[name] for name in dict.fromkeys(buffer.ops)]
        row = []
        for k, t in enumerate(self.ticks):
            now = pulp.LpVariable(f"alive_{b}_{t}", 0, 1)
            for first, last in product(users, users):
                begun = 1 if buffer.from_start else self.begun[first][k]
                self.program += now >= begun - (0 if buffer.to_end else self.ended[last][k])
            row.append(now)
        return row


def _read(model: _Program, answer: Answer) -> MilpResult:
    if answer.infeasible:
        return MilpResult(model.upper + 1, None, True, infeasible=True, solver=answer.solver)
    value = _makespan(model) if answer.solution else None
    entry = model.problem.entry_ticks
    lower = entry if answer.bound is None else max(entry, math.ceil(answer.bound - TOLERANCE))
    return MilpResult(lower, value, answer.optimal and value is not None and lower >= value, solver=answer.solver)


def _makespan(model: _Program) -> int:
    """Return the end of the last op in the solution, from the starts alone."""
    chosen = [key for key, x in model.start.items() if (x.value() or 0) > 0.5]
    return max(t + model.ways[i][w].mode.duration_ticks for i, w, t in chosen)
