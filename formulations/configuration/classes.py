"""Classes of ops that pay one price, and what can run together: the sets S of the configuration LP.

A set is feasible if the units of every lane suffice, no two classes in it are ordered, no class has more parts in it
than it can have at once, and the bytes that its ops keep alive fit. With classes of several ops this admits sets
that no schedule can reach, which keeps the bound below the optimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from hexloom.formulations.configuration.parts import Lane, Merged, lanes_of, ways_of
from hexloom.formulations.speeds import NOT_SHARING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.configuration.order import Order
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem
    from hexloom.formulations.speeds import Speeds

Rate = int | Fraction
"""A speed, or the sum of several: a part of full speed, exact."""

Set = tuple[tuple[int, int], ...]
"""Parts that run together, as (position of the item, how many of it), ascending."""

LIVE_LIMIT = 512
"""Up to so many ops a buffer also counts for ops that run between its first and its last user."""


@dataclass(frozen=True, slots=True)
class Item:
    """One part of one way to run a class; ``head`` and ``tail`` are the least of its ops, for this part.

    ``takes`` are (lane, units), ``pulls`` (channel, rate), by position; ``load`` is what others notice of it, ``full``
    its speed in an empty machine.
    """

    op_class: int
    ticks: int
    head: int
    tail: int
    takes: tuple[tuple[int, int], ...]
    load: int = NOT_SHARING
    pulls: tuple[tuple[int, int], ...] = ()
    full: Rate = 1


@dataclass(frozen=True, slots=True)
class OpClass:
    """Ops that can run in the same ways.

    ``items`` are the positions of its parts per way. ``width`` ops of it can run at once. ``own_bytes`` are taken by
    each op of it, the buffers in ``shared`` once by all.
    """

    ops: tuple[int, ...]
    items: tuple[tuple[int, ...], ...]
    width: int
    own_bytes: int
    shared: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Configurations:
    """All that decides which sets are feasible.

    ``conflicts`` has one mask per class, of the classes ordered against it; ``capacity`` one number per lane,
    ``whole`` whether it is a whole engine;
    ``shared_bytes`` the sizes of the buffers that `OpClass.shared` names.
    ``joiners`` are the items that can lift others when they join them, whatever they pay themselves.
    ``entry`` is the first tick of a schedule, ``longest`` the end of a very long one.
    """

    classes: tuple[OpClass, ...]
    items: tuple[Item, ...]
    conflicts: tuple[int, ...]
    capacity: tuple[int, ...]
    whole: tuple[bool, ...]
    room_bytes: int
    shared_bytes: dict[int, int]
    entry: int
    longest: int
    speeds: Speeds
    channels: tuple[int, ...]
    joiners: tuple[int, ...]

    def working(self, chosen: Set) -> list[int]:
        """Return the items of ``chosen`` that others can slow, each as often as it is in it, in the order for speeds.

        Who comes first decides under rule priority; there every op is a class, and items are in the order of ops. Else
        the order is that of loads, so that alike sets are looked up once.
        """
        found = [k for k, copies in chosen if self.items[k].load != NOT_SHARING for _ in range(copies)]
        return found if self.speeds.rule == "priority" else sorted(found, key=lambda k: self.items[k].load)

    def rates(self, chosen: Set) -> list[tuple[int, Rate]]:
        """Return the work per tick that each item gets while ``chosen`` runs: x_im(S), summed over its copies."""
        working = self.working(chosen)
        if not working:
            return list(chosen)
        speeds = cast("tuple[Fraction, ...]", self.speeds.speeds(tuple(self.items[k].load for k in working)))
        found: dict[int, Rate] = {k: copies for k, copies in chosen if self.items[k].load == NOT_SHARING}
        for k, speed in zip(working, speeds, strict=True):
            found[k] = found.get(k, 0) + speed
        return sorted(found.items())


def configurations(
    problem: Problem,
    order: Order,
    ht: HeadsTails,
    partition: Sequence[tuple[int, ...]],
    merged: Merged | None,
    speeds: Speeds,
) -> Configurations:
    """Return what can run together, for classes of ops that run in equal ways. Ops left out never run."""
    lanes = lanes_of(problem, merged, speeds)
    channel = {one.name: c for c, one in enumerate(problem.channels)}
    number: dict[Lane, int] = {lane: k for k, lane in enumerate(lanes.capacity)}
    memory = _Memory(problem, order, partition)
    classes: list[OpClass] = []
    items: list[Item] = []
    for c, ops in enumerate(partition):
        head, tail = min(int(ht.head[i]) for i in ops), min(int(ht.tail[i]) for i in ops)
        rows: list[tuple[int, ...]] = []
        for parts in ways_of(problem, problem.ops[ops[0]], lanes):
            rows.append(tuple(range(len(items), len(items) + len(parts))))
            for part in parts:
                takes = tuple((number[lane], units) for lane, units in part.takes)
                pulls = tuple((channel[name], rate) for name, rate in part.pulls)
                full = Fraction(speeds.speeds((part.load,))[0]) if part.load != NOT_SHARING else 1
                row = (c, part.ticks, head + part.lead, tail + part.trail, takes, part.load, pulls, full)
                items.append(Item(*row))
        classes.append(OpClass(ops, tuple(rows), order.width(ops), memory.own(c), memory.shared(c)))
    conflicts = [0] * len(classes)
    for a in range(len(classes)):
        for b in range(a):
            if order.all_ordered(partition[a], partition[b]):
                conflicts[a] |= 1 << b
                conflicts[b] |= 1 << a
    # Longer than any plan: one op after the other, each at the speed it has alone.
    slowest = math.ceil(1 / min([Fraction(1), *(Fraction(item.full) for item in items)]))
    sizes = {b: problem.buffers[b].occupied_bytes for one in classes for b in one.shared}
    return Configurations(
        tuple(classes),
        tuple(items),
        tuple(conflicts),
        tuple(lanes.capacity.values()),
        tuple(unit is None for _, unit in lanes.capacity),
        memory.room,
        sizes,
        problem.entry_ticks,
        problem.horizon_ticks * slowest,
        speeds,
        tuple(one.capacity for one in problem.channels),
        tuple(k for k, item in enumerate(items) if item.load != NOT_SHARING) if speeds.lifts else (),
    )


class _Memory:
    """Bytes that the ops of each class keep alive.

    A buffer lives while any of its users runs, and while an op runs that has a user before and a user after it. If
    the ops that keep it alive make up whole classes it is shared: its bytes count once for all of them. If not, each
    of these ops counts an equal share of it, so small that no set of them counts more than the whole. Buffers
    that are always resident take their room; of other resident ones only the life among their users counts. What
    lies in other pools counts for nothing: the bound stays one.
    """

    def __init__(self, problem: Problem, order: Order, partition: Sequence[tuple[int, ...]]) -> None:
        pad = problem.scratchpad.available_bytes
        self.room = pad - sum(b.occupied_bytes for b in problem.buffers if b.always and b.pool is None)
        self._shared: list[list[int]] = [[] for _ in partition]
        self._own = [0] * len(partition)
        moving = [
            b
            for b, buffer in enumerate(problem.buffers)
            if not buffer.always and buffer.occupied_bytes > 0 and buffer.pool is None
        ]
        if sum(problem.buffers[b].occupied_bytes for b in moving) <= self.room:
            return
        home = {i: c for c, ops in enumerate(partition) for i in ops}
        shares: list[dict[int, int]] = [{} for _ in partition]
        for b in moving:
            keepers = keep_alive(problem, order, b)
            inside = [i for i in keepers if i in home]
            touched = sorted({home[i] for i in inside})
            if sum(len(partition[c]) for c in touched) == len(inside):
                for c in touched:
                    self._shared[c].append(b)
            else:
                each = problem.buffers[b].occupied_bytes // order.width(keepers)
                for i in inside:
                    shares[home[i]][i] = shares[home[i]].get(i, 0) + each
        for c, ops in enumerate(partition):
            self._own[c] = min(shares[c].get(i, 0) for i in ops)

    def own(self, c: int) -> int:
        return self._own[c]

    def shared(self, c: int) -> tuple[int, ...]:
        return tuple(self._shared[c])


def keep_alive(problem: Problem, order: Order, b: int) -> list[int]:
    """Return the ops during which buffer ``b`` is alive, whatever the schedule."""
    users = sorted(problem.needed_by[b])
    if len(problem.ops) > LIVE_LIMIT:
        return users
    found = []
    for i in range(len(problem.ops)):
        after = i in users or any(order.before(u, i) for u in users)
        if after and (i in users or any(order.before(i, u) for u in users)):
            found.append(i)
    return found
