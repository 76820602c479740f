"""The scratchpad in the flat model: bytes over time, and addresses when bytes alone are not enough."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ortools.sat.python import cp_model

    from hexloom.formulations.flat.variables import Affine, FlatVars
    from hexloom.formulations.memory import Takeover
    from hexloom.formulations.problem import Problem

MOST_USERS = 8
"""Of a buffer with more users it is not asked who must be first or last."""


@dataclass
class Life:
    """Lifetime of one buffer: an interval from the start of its first user to the end of the last.

    ``own`` are the variables made for it, with what they stand for: ``born``, ``died``, ``size``, or ``over``: whether
    it lies on the buffer that it may overwrite, and lives from the end of the op that uses both.
    """

    buffer: int
    interval: cp_model.IntervalVar
    own: dict[str, cp_model.IntVar]


Ends = tuple[int | None, int | None]
"""The op that starts first and the one that ends last, where this is known beforehand."""


def ends_by_precedence(problem: Problem, users: Sequence[int]) -> Ends:
    """Return the user that all other users wait for, and the one that waits for all others, each directly."""
    if len(users) > MOST_USERS:
        return None, None
    first = [u for u in users if all(u == other or u in problem.predecessors[other] for other in users)]
    last = [u for u in users if all(u == other or other in problem.predecessors[u] for other in users)]
    return next(iter(first), None), next(iter(last), None)


def add_lifetimes(
    model: cp_model.CpModel,
    problem: Problem,
    variables: FlatVars,
    upper: int,
    ends: Callable[[Problem, Sequence[int]], Ends] = ends_by_precedence,
) -> list[Life]:
    """Create a lifetime per buffer with ``born <= start(u)`` and ``died >= known(u)`` for every user u.

    Where ``ends`` knows who is first or last, the life begins and ends with these, and needs no variable for it. What
    is alive from the start or to the end is so before time 0 or after ``upper``.
    """
    lives: list[Life] = []
    for b, buffer in enumerate(problem.buffers):
        if buffer.always or not buffer.ops or buffer.occupied_bytes == 0:
            continue
        users = [problem.op_index[name] for name in dict.fromkeys(buffer.ops)]
        first, last = ends(problem, users)
        longest = upper + int(buffer.from_start) + int(buffer.to_end)
        over = next((one for one in problem.takeovers if one.new == b), None)
        own = {"size": model.new_int_var(0, longest, f"life:{buffer.name}")}
        born: Affine
        died: Affine
        if buffer.from_start:
            born = -1
        elif over is not None:
            born = own["born"] = model.new_int_var(0, upper, f"born:{buffer.name}")
            own["over"] = _overwriting(model, problem, variables, over, born)
        elif first is None:
            born = own["born"] = model.new_int_var(0, upper, f"born:{buffer.name}")
            for u in users:
                model.add(born <= variables.ops[u].start)
        else:
            born = variables.ops[first].start
        if buffer.to_end:
            died = upper + 1
        elif last is None:
            died = own["died"] = model.new_int_var(0, upper, f"died:{buffer.name}")
            for u in users:
                model.add(died >= variables.ops[u].known)
        else:
            died = variables.ops[last].known
        lives.append(Life(b, model.new_interval_var(born, own["size"], died, f"alive:{buffer.name}"), own))
    over_old: dict[int, list[cp_model.IntVar]] = {}
    for life in lives:
        if "over" in life.own:
            old = next(one.old for one in problem.takeovers if one.new == life.buffer)
            over_old.setdefault(old, []).append(life.own["over"])
    for literals in over_old.values():
        # Two that overwrite one buffer would lie on each other: only this says so where their lives have no length.
        model.add_at_most_one(literals)
    return lives


def _overwriting(
    model: cp_model.CpModel, problem: Problem, variables: FlatVars, one: Takeover, born: cp_model.IntVar
) -> cp_model.IntVar:
    """Ensure that who overwrites is the last user of the old buffer and the first of the new one, or that both live.

    ``over => known(x) <= start(op), born <= known(op) <= start(y)`` for other users x of the old and y of the new one;
    ``not over => born <= start(op)``; ``born <= start(y)`` in any case.
    """
    over = model.new_bool_var(f"over:{problem.buffers[one.new].name}")
    op = variables.ops[one.op]
    model.add(born <= op.known)
    model.add(born <= op.start).only_enforce_if(~over)
    for name in dict.fromkeys(problem.buffers[one.new].ops):
        if (y := problem.op_index[name]) != one.op:
            model.add(born <= variables.ops[y].start)
            model.add(op.known <= variables.ops[y].start).only_enforce_if(over)
    for name in dict.fromkeys(problem.buffers[one.old].ops):
        if (x := problem.op_index[name]) != one.op:
            model.add(variables.ops[x].known <= op.start).only_enforce_if(over)
    return over


def add_bytes(model: cp_model.CpModel, problem: Problem, lives: list[Life]) -> None:
    """Ensure that at any time the bytes alive, residents included, fit into each pool: a relaxation of addresses."""
    for mine, view in problem.per_pool:
        available = view.scratchpad.available_bytes
        resident = sum(b.occupied_bytes for b in view.buffers if b.always)
        here = [life for life in lives if life.buffer in mine] if problem.pools else lives
        sizes = [problem.buffers[life.buffer].occupied_bytes for life in here]
        if here and sum(sizes) + resident > available:
            model.add_cumulative([life.interval for life in here], sizes, available - resident)


def add_addresses(
    model: cp_model.CpModel, problem: Problem, lives: list[Life], upper: int
) -> dict[int, cp_model.IntVar]:
    """Ensure that no two buffers overlap in time and address; return the address of each in units of its alignment.

    ``align * unit <= available - size``; pinned buffers are fixed, resident ones live for longer than the horizon.
    What lies in different pools never overlaps. Parts of a range keep their distances: ``at(part) = at(head) + shift``.
    """
    alive = {life.buffer: life.interval for life in lives}
    units: dict[int, cp_model.IntVar] = {}
    over = {life.buffer: life.own["over"] for life in lives if "over" in life.own}
    for mine, view in problem.per_pool:
        units.update(_addresses_in(model, problem, mine, view.scratchpad.available_bytes, alive, over, upper))
    for new, old, _ in problem.takeovers:
        if new in over:
            at, there = (units[b] * problem.buffers[b].align_bytes for b in (new, old))
            model.add(at == there).only_enforce_if(over[new])
    return units


def _beside_takeovers(
    model: cp_model.CpModel,
    problem: Problem,
    units: Mapping[int, cp_model.IntVar],
    alive: Mapping[int, cp_model.IntervalVar],
    over: Mapping[int, cp_model.IntVar],
) -> None:
    """Ensure that a life of no length at the very instant at which one buffer takes over another is beside them.

    One of the two is alive at that instant, whoever comes first; rectangles that only touch it do not say so.
    ``over, born(b) = died(b) = born(new) => [at(b), at(b) + size(b)) is apart from the bytes that both have``.
    """
    timeless = {i for i, op in enumerate(problem.ops) if any(mode.duration_ticks == 0 for mode in op.modes)}
    for new, old, op in problem.takeovers:
        if new not in over or new not in units or old not in units:
            continue
        common = min(problem.buffers[new].occupied_bytes, problem.buffers[old].occupied_bytes)
        moment: Any = alive[new].start_expr()
        for b in sorted(units.keys() & alive.keys() - {new, old}):
            users = {problem.op_index[name] for name in problem.buffers[b].ops}
            if not users <= timeless or op in users:
                continue
            earlier, later, beside = (
                model.new_bool_var(f"{what}:{b}:{new}") for what in ("earlier", "later", "beside")
            )
            model.add(alive[b].start_expr() < moment).only_enforce_if(earlier)
            model.add(alive[b].end_expr() > moment).only_enforce_if(later)
            model.add_bool_or(~over[new], earlier, later, beside)
            places = (
                model.new_optional_fixed_size_interval_var(
                    units[x] * problem.buffers[x].align_bytes, size, beside, f"beside:{x}:{b}:{new}"
                )
                for x, size in ((b, problem.buffers[b].occupied_bytes), (new, common))
            )
            model.add_no_overlap(list(places))


def _addresses_in(
    model: cp_model.CpModel,
    problem: Problem,
    buffers: Sequence[int],
    available: int,
    alive: Mapping[int, cp_model.IntervalVar],
    over: Mapping[int, cp_model.IntVar],
    upper: int,
) -> dict[int, cp_model.IntVar]:
    rows: list[cp_model.IntervalVar] = []
    column: dict[int, cp_model.IntervalVar] = {}
    units: dict[int, cp_model.IntVar] = {}
    for b in buffers:
        buffer = problem.buffers[b]
        size, whole = buffer.occupied_bytes, problem.wholes.get(b)
        idle = size == 0 or not (buffer.always or b in alive)
        if idle and whole is None:
            continue
        top = max(0, (available - size) // buffer.align_bytes)
        unit = model.new_int_var(0, top, f"unit:{buffer.name}")
        if buffer.address is not None:
            model.add(unit == buffer.address // buffer.align_bytes)
        if size > available:
            model.add_bool_or([])
        if whole is not None and b != whole.head:
            head = units[whole.head] * problem.buffers[whole.head].align_bytes
            model.add(unit == head + whole.shifts[whole.parts.index(b)])
        units[b] = unit
        if idle:
            continue
        column[b] = model.new_fixed_size_interval_var(unit * buffer.align_bytes, size, f"at:{buffer.name}")
        # What has no length at the edge of a life does not overlap it: what is resident has no edge in sight.
        row = alive[b] if b in alive else model.new_fixed_size_interval_var(-1, upper + 2, f"all:{buffer.name}")
        rows.append(row)
    model.add_no_overlap_2d(rows, list(column.values()))
    _beside_takeovers(model, problem, units, alive, over)
    # Two lives of no length never overlap, but an op needs all its buffers at once.
    for i, op in enumerate(problem.ops):
        mine = [b for b in problem.op_buffers[i] if b in column]
        if len(mine) < 2 or not any(mode.duration_ticks == 0 for mode in op.modes):
            continue
        lying = {one.new: one.old for one in problem.takeovers if one.op == i and one.new in over}
        if not lying:
            model.add_no_overlap([column[b] for b in mine])
        for a, b in combinations(mine, 2) if lying else ():
            new, old = (a, b) if lying.get(a) == b else (b, a)
            if lying.get(new) == old:
                at, size = units[new] * problem.buffers[new].align_bytes, problem.buffers[new].occupied_bytes
                beside = model.new_optional_fixed_size_interval_var(at, size, ~over[new], f"beside:{new}")
                model.add_no_overlap([beside, column[old]])
            else:
                model.add_no_overlap([column[a], column[b]])
    return units
