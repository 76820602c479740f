"""Buffers of a loop in CP-SAT: how long they live, bytes modulo II, addresses of all copies.

A life of ``(copies - 1) * II + rest`` ticks with ``0 < rest <= II`` has ``copies`` of the buffer alive at once, and at
any time one fewer at least. A ring of free depth has just as many copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from hexloom.formulations.periodic.cycles import most_copies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ortools.sat.python import cp_model

    from hexloom.formulations.periodic.loop import Loop, LoopBuffer

    Affine = cp_model.LinearExprT

MOST_FREE_COPIES = 6
"""Copies of a ring of free depth for which addresses are searched; `addresses_are_complete` says where it matters."""


MOST_PAIRS = 100_000
"""Above so many `pairs_to_part` the model with addresses is not built: it would take longer than it may."""


@dataclass(frozen=True, slots=True)
class LifeVars:
    """When the buffer of iteration 0 is born, in which slot that is, for how many intervals it lives, and the rest.

    ``copies`` are those of its ring, a variable where it has no depth.
    """

    buffer: LoopBuffer
    born: cp_model.IntVar
    slot: cp_model.IntVar
    intervals: cp_model.IntVar
    rest: cp_model.IntVar
    copies: Affine
    most: int


def add_lives(
    model: cp_model.CpModel, loop: Loop, ii: int, starts: Sequence[cp_model.IntVar], last: int
) -> list[LifeVars]:
    """Ensure that every ring has the copies for its lives; buffers without bytes or depth say nothing.

    ``last`` is the latest start.
    """
    found = []
    for buffer in loop.buffers:
        most = most_copies(loop, buffer)
        if most is None:
            continue
        at = loop.op_index
        begins = [starts[at[user.op]] + ii * user.distance for user in buffer.users]
        ends = [begin + loop.ops[at[user.op]].latency_ticks for begin, user in zip(begins, buffer.users, strict=True)]
        name = buffer.name
        far = last + max(ii * user.distance + loop.ops[at[user.op]].latency_ticks for user in buffer.users)
        born = model.new_int_var(0, far, f"born:{name}")
        died = model.new_int_var(0, far, f"died:{name}")
        model.add_min_equality(born, begins)
        model.add_max_equality(died, ends)
        slot = model.new_int_var(0, ii - 1, f"born_slot:{name}")
        stage = model.new_int_var(0, far // ii, f"born_stage:{name}")
        model.add(born == slot + ii * stage)
        intervals = model.new_int_var(1, most, f"intervals:{name}")
        rest = model.new_int_var(1, ii, f"rest:{name}")
        model.add(died - born == ii * (intervals - 1) + rest)
        copies: Affine = intervals if buffer.depth is None else buffer.depth
        found.append(LifeVars(buffer, born, slot, intervals, rest, copies, most))
    return found


def add_bytes(model: cp_model.CpModel, loop: Loop, ii: int, lives: Sequence[LifeVars]) -> None:
    """Ensure that at any time modulo II the bytes alive fit: ``sum size * (intervals - 1 + resting) <= available``."""
    rows: list[cp_model.IntervalVar] = []
    amounts: list[Affine] = []
    most = 0
    for life in lives:
        size, name = life.buffer.occupied_bytes, life.buffer.name
        if not size:
            continue
        most += life.most * size
        for turn in (0, ii):
            end = model.new_int_var(0, 3 * ii, f"rest_end:{name}:{turn}")
            rows.append(model.new_interval_var(life.slot + turn, life.rest, end, f"rest:{name}:{turn}"))
            amounts.append(size)
        if life.most > 1:
            rows.append(model.new_fixed_size_interval_var(0, 2 * ii, f"always:{name}"))
            amounts.append(size * (life.intervals - 1))
    if most > loop.scratchpad.available_bytes:
        model.add_cumulative(rows, amounts, loop.scratchpad.available_bytes)
        # The same added up over all ticks, for the linear relaxation.
        byte_ticks = sum(life.buffer.occupied_bytes * (ii * (life.intervals - 1) + life.rest) for life in lives)
        model.add(byte_ticks <= ii * loop.scratchpad.available_bytes)


def pairs_to_part(loop: Loop) -> int:
    """Return how many clauses `add_addresses` would make for two rings, over all numbers of copies they may have."""
    rings = []
    for buffer in loop.buffers:
        most = most_copies(loop, buffer)
        if most is not None and buffer.occupied_bytes:
            top = min(most, MOST_FREE_COPIES) if buffer.depth is None else buffer.depth
            rings.append((range(1 if buffer.depth is None else top, top + 1), min(most, top)))
    return sum(
        (1 + longest + other) * sum(n * m // gcd(n, m) for n in sizes for m in others)
        for k, (sizes, longest) in enumerate(rings)
        for others, other in rings[k + 1 :]
    )


def addresses_are_complete(loop: Loop) -> bool:
    """Whether no ring of free depth may have more copies than are searched."""
    free = [b for b in loop.buffers if b.depth is None and b.occupied_bytes]
    return all((most_copies(loop, buffer) or 0) <= MOST_FREE_COPIES for buffer in free)


def add_addresses(
    model: cp_model.CpModel, loop: Loop, ii: int, lives: Sequence[LifeVars]
) -> dict[str, list[cp_model.IntVar]]:
    """Ensure that copies that are alive together share no byte; return their addresses in units of the alignment.

    Turn ``a`` of a ring is born at ``slot + a * II`` and lies at its copy ``a`` modulo its copies. Of two rings, turns
    ``a`` and ``a - shift`` meet unless one ends before the other begins. Which copies that concerns follows from
    ``shift`` modulo the greatest common divisor of the rings, for each number of copies that they may have.
    """
    mine = [life for life in lives if life.buffer.occupied_bytes]
    available = loop.scratchpad.available_bytes
    places: dict[str, list[cp_model.IntVar]] = {}
    for life in mine:
        top = (available - life.buffer.occupied_bytes) // life.buffer.align_bytes
        sizes = _sizes(life)
        if life.buffer.depth is None and life.most > max(sizes):
            model.add(life.intervals <= max(sizes))
        places[life.buffer.name] = [
            model.new_int_var(0, top, f"unit:{life.buffer.name}:{k}") for k in range(max(sizes))
        ]
    apart = _Apart(model, places, mine)
    for x, one in enumerate(mine):
        has_one = _has(model, one)
        for n in _sizes(one):
            for k in range(n):
                for other in range(k):
                    # Both ways around the ring: the nearer turns meet if any do.
                    alive = _more_than(model, one, min(k - other, n - (k - other)))
                    model.add_bool_or([*apart.ways(one, k, one, other), ~has_one[n], ~alive])
        for two in mine[x + 1 :]:
            has_two = _has(model, two)
            for shift in range(-_most_intervals(one), _most_intervals(two) + 1):
                clear = [
                    model.new_bool_var(f"{way}:{one.buffer.name}:{two.buffer.name}") for way in ("after", "before")
                ]
                ends = [life.slot + ii * (life.intervals - 1) + life.rest for life in (one, two)]
                model.add(one.slot + shift * ii >= ends[1]).only_enforce_if(clear[0])
                model.add(ends[0] + shift * ii <= two.slot).only_enforce_if(clear[1])
                for n in _sizes(one):
                    for m in _sizes(two):
                        common = gcd(n, m)
                        for k in range(n):
                            for j in range(m):
                                if (k - j - shift) % common == 0:
                                    ways = apart.ways(one, k, two, j)
                                    model.add_bool_or([*clear, *ways, ~has_one[n], ~has_two[m]])
    return places


def _sizes(life: LifeVars) -> range:
    """Numbers of copies that the ring may have."""
    if life.buffer.depth is not None:
        return range(life.buffer.depth, life.buffer.depth + 1)
    return range(1, min(life.most, MOST_FREE_COPIES) + 1)


def _most_intervals(life: LifeVars) -> int:
    """For how many intervals it may live."""
    return min(life.most, _sizes(life)[-1])


def _has(model: cp_model.CpModel, life: LifeVars) -> dict[int, cp_model.IntVar]:
    """Return for each number of copies whether the ring has it."""
    sizes = _sizes(life)
    literals = {n: model.new_bool_var(f"copies:{life.buffer.name}:{n}") for n in sizes}
    model.add_exactly_one(literals.values())
    model.add(life.copies == sum(n * literal for n, literal in literals.items()))
    return literals


def _more_than(model: cp_model.CpModel, life: LifeVars, turns: int) -> cp_model.IntVar:
    """Return a literal that is true where the buffer lives for more than ``turns`` intervals."""
    literal = model.new_bool_var(f"longer:{life.buffer.name}:{turns}")
    model.add(life.intervals <= turns).only_enforce_if(~literal)
    return literal


class _Apart:
    """For two copies, literals that say which lies below the other; made once."""

    def __init__(
        self, model: cp_model.CpModel, places: dict[str, list[cp_model.IntVar]], lives: Sequence[LifeVars]
    ) -> None:
        self._model = model
        self._at = {
            (life.buffer.name, k): (at * life.buffer.align_bytes, life.buffer.occupied_bytes)
            for life in lives
            for k, at in enumerate(places[life.buffer.name])
        }
        self._made: dict[tuple[str, int, str, int], list[cp_model.IntVar]] = {}

    def ways(self, one: LifeVars, k: int, two: LifeVars, j: int) -> list[cp_model.IntVar]:
        """Return literals: copy ``k`` of ``one`` ends below copy ``j`` of ``two``; the reverse."""
        key = (one.buffer.name, k, two.buffer.name, j)
        if key not in self._made:
            (low, size), (high, other) = self._at[key[:2]], self._at[key[2:]]
            below, above = (self._model.new_bool_var(f"{way}:{key}") for way in ("below", "above"))
            self._model.add(low + size <= high).only_enforce_if(below)
            self._model.add(high + other <= low).only_enforce_if(above)
            self._made[key] = [below, above]
        return self._made[key]
