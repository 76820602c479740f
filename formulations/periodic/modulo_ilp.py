"""A second opinion on one interval: an integer program over slots, by CBC or HiGHS through PuLP.

It shares nothing with the CP-SAT model but the loop. A binary variable says that an op starts in a slot modulo II, an
integer one in which stage; bytes are only counted, so that it refutes less where addresses decide. The objective is to
give up, which is always possible: PuLP tells an optimum from a time limit, but not CBC's "integer infeasible".
"""

from __future__ import annotations

import warnings
from itertools import product
from math import lcm
from typing import TYPE_CHECKING, Any, Literal

import pulp

from hexloom.formulations.mip_solver import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.mip_solver import SolverName
    from hexloom.formulations.mode import Engine, Use
    from hexloom.formulations.periodic.loop import Loop, LoopBuffer

MAX_COLUMNS = 50_000
"""Above so many slots of all ops and units the program is not built: it would not be solved either."""


def ask_ilp(
    loop: Loop, ii: int, seconds: float = 30.0, solver: SolverName | None = None
) -> Literal["FEASIBLE", "INFEASIBLE", "UNKNOWN"]:
    """Return whether ``loop`` has a modulo schedule of interval ``ii`` if bytes are only counted.

    Raises
    ------
    ValueError
        The program would have more than `MAX_COLUMNS` slots.
    """
    columns = ii * sum(1 + sum(_turns(loop, use, ii) for use in op.uses) for op in loop.ops)
    if columns > MAX_COLUMNS:
        raise ValueError(f"the integer program takes at most {MAX_COLUMNS} slots, this interval has {columns}")
    for channel in loop.channels if loop.rule == "fluid" else ():
        moved = (p.rate * op.latency_ticks for op in loop.ops for p in op.mode.pulls if p.channel == channel.name)
        if sum(moved) > channel.capacity * ii:
            return "INFEASIBLE"
    with warnings.catch_warnings():
        # PuLP 3 warns that PuLP 4 makes variables and rows in another way.
        warnings.simplefilter("ignore", DeprecationWarning)
        program = _Program(loop, ii)
        answer = run(program.program, seconds, solver)
        given_up = answer.solution and program.given_up.value() > 0.5
    if answer.solution and not given_up:
        return "FEASIBLE"
    return "INFEASIBLE" if answer.optimal else "UNKNOWN"


def _turns(loop: Loop, use: Use, ii: int) -> int:
    """Return how many variables per slot say which units a use holds, one per unit and turn of its ring."""
    engine = next(e for e in loop.engines if e.name == use.engine)
    return engine.units * -(-use.ticks // ii) if loop.needs_units(engine) else 0


class _Program:
    """``at[i][s]`` is 1 when op i starts in slot s; its start is ``sum s * at[i][s] + II * stage[i]``.

    Who gives up starts nothing, and need not respect what relates starts.
    """

    def __init__(self, loop: Loop, ii: int) -> None:
        self.loop, self.ii = loop, ii
        self.program = pulp.LpProblem("modulo", pulp.LpMinimize)
        slots, ops = range(ii), range(len(loop.ops))
        self.at = [[pulp.LpVariable(f"at_{i}_{s}", cat=pulp.LpBinary) for s in slots] for i in ops]
        self.far = self._farthest()
        self.stage = [pulp.LpVariable(f"stage_{i}", -self.far, self.far, cat=pulp.LpInteger) for i in ops]
        self.given_up = pulp.LpVariable("given_up", cat=pulp.LpBinary)
        self.program += self.given_up
        for row in self.at:
            self.program += pulp.lpSum(row) == 1 - self.given_up
        # All may be turned and shifted together.
        self.program += self.at[0][0] == 1 - self.given_up
        self.program += self.stage[0] == 0
        self.start = [pulp.lpSum(s * x for s, x in enumerate(self.at[i])) + ii * self.stage[i] for i in ops]
        self._dependencies()
        self._loads()
        for engine in loop.engines:
            if loop.needs_units(engine):
                self._units(engine)
        self._bytes()

    def _farthest(self) -> int:
        """Return how many stages two ops need never be further apart: on a longest path every op counts once."""
        ticks = [op.latency_ticks for op in self.loop.ops]
        for edge in self.loop.dependencies:
            before = self.loop.op_index[edge.before]
            ticks[before] = max(ticks[before], self.loop.delay_ticks(edge))
        spans = [max(user.distance for user in buffer.users) for buffer in self.loop.buffers]
        return sum(1 + -(-most // self.ii) for most in ticks) + sum(spans)

    def _relate(self, difference: Any, least: int, most: int) -> None:
        """Ensure ``difference >= least`` unless given up; the difference is never below ``-most``."""
        self.program += difference + (least + most) * self.given_up >= least

    def _dependencies(self) -> None:
        for edge in self.loop.dependencies:
            before, after = self.loop.op_index[edge.before], self.loop.op_index[edge.after]
            least = self.loop.delay_ticks(edge) - self.ii * edge.distance
            difference = 0 if before == after else self.start[after] - self.start[before]
            self._relate(difference, least, (2 * self.far + 1) * self.ii)

    def _loads(self) -> None:
        """At every tick modulo II, what is held of an engine, or asked of a channel under ``rigid``, is there."""
        holds: dict[str, list[tuple[int, int, int]]] = {}
        room = {engine.name: engine.units for engine in self.loop.engines}
        for i, op in enumerate(self.loop.ops):
            for use in op.uses:
                holds.setdefault(use.engine, []).append((i, use.ticks, use.units))
            for pull in op.mode.pulls if self.loop.rule == "rigid" else ():
                holds.setdefault(pull.channel, []).append((i, op.latency_ticks, pull.rate))
        room |= {channel.name: channel.capacity for channel in self.loop.channels}
        for name, mine in holds.items():
            for now in range(self.ii):
                load = pulp.lpSum(
                    amount * self._times(ticks, slot, now) * self.at[i][slot]
                    for i, ticks, amount in mine
                    for slot in range(self.ii)
                )
                self.program += load <= room[name]

    def _times(self, ticks: int, slot: int, now: int) -> int:
        """Return how many iterations hold at tick ``now`` modulo II what each holds for ``ticks`` from ``slot`` on."""
        return -(-(ticks - (now - slot) % self.ii) // self.ii)

    def _units(self, engine: Engine) -> None:
        """Ensure that no unit is held twice in the common period of the rings; one variable per slot, turn and unit."""
        ii = self.ii
        uses = [(i, use) for i, op in enumerate(self.loop.ops) for use in op.uses if use.engine == engine.name]
        rings = [-(-use.ticks // ii) for _, use in uses]
        period = lcm(1, *rings) * ii
        taken: dict[tuple[int, int], list[Any]] = {}
        for (i, use), ring in zip(uses, rings, strict=True):
            for slot, turn in product(range(ii), range(ring)):
                allowed = range(engine.units) if use.unit_ids is None else use.unit_ids
                on = {u: pulp.LpVariable(f"on_{engine.name}_{i}_{slot}_{turn}_{u}", cat=pulp.LpBinary) for u in allowed}
                self.program += pulp.lpSum(on.values()) == use.units * self.at[i][slot]
                for u, literal in on.items():
                    for first in range(slot + turn * ii, slot + period, ring * ii):
                        for tick in range(first, first + use.ticks):
                            taken.setdefault((u, tick % period), []).append(literal)
        for literals in taken.values():
            self.program += pulp.lpSum(literals) <= 1

    def _bytes(self) -> None:
        """Ensure that rings suffice, and that at every tick modulo II the bytes of all copies alive fit."""
        alive: list[tuple[int, list[Any]]] = []
        for b, buffer in enumerate(self.loop.buffers):
            begins, ends = self._ends(buffer)
            if buffer.depth is not None:
                for begin, end in product(begins, ends):
                    self._relate(self.ii * buffer.depth + begin - end, 0, self._life(buffer) * self.ii)
            if buffer.occupied_bytes:
                copies = [pulp.LpVariable(f"copies_{b}_{now}", 0, cat=pulp.LpInteger) for now in range(self.ii)]
                alive.append((buffer.occupied_bytes, copies))
                users = [(self.loop.op_index[u.op], u.distance) for u in buffer.users]
                for now, (first, d), (last, e) in product(range(self.ii), users, users):
                    latency = self.loop.ops[last].latency_ticks
                    alive_now = self._since(last, latency, now) + e - self._since(first, 0, now) - d
                    self._relate(copies[now] - alive_now, 0, self._life(buffer))
        for now in range(self.ii):
            if alive:
                total = pulp.lpSum(size * copies[now] for size, copies in alive)
                self.program += total <= self.loop.scratchpad.available_bytes

    def _life(self, buffer: LoopBuffer) -> int:
        """Return more intervals than it ever lives."""
        longest = max(self.loop.ops[self.loop.op_index[user.op]].latency_ticks for user in buffer.users)
        return 2 * self.far + 3 + longest // self.ii + max(user.distance for user in buffer.users)

    def _ends(self, buffer: LoopBuffer) -> tuple[Sequence[Any], Sequence[Any]]:
        at = self.loop.op_index
        begins = [self.start[at[user.op]] + self.ii * user.distance for user in buffer.users]
        ends = [
            begin + self.loop.ops[at[user.op]].latency_ticks for begin, user in zip(begins, buffer.users, strict=True)
        ]
        return begins, ends

    def _since(self, i: int, later: int, now: int) -> Any:
        """Return the number of intervals after which tick ``now`` is first not before ``later`` ticks after start i.

        ``ceil((start + later - now) / II)``, which is linear: of the slot it is a constant per slot.
        """
        return self.stage[i] + pulp.lpSum(-(-(slot + later - now) // self.ii) * x for slot, x in enumerate(self.at[i]))
