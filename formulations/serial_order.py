"""An order in which ops fit into the scratchpad one after the other: the last resort, and a proof when there is none.

If any schedule fits in bytes, the order of its starts fits as a serial schedule: when an op runs alone, every buffer
that is alive then is alive in the schedule too. So an exhausted search proves that nothing fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.memory import Takeover
    from hexloom.formulations.problem import Problem

STATE_LIMIT = 50_000

STEP_STATES = 2_000
"""Sets of finished ops for one of the twenty or so questions on the way to the fewest bytes."""


class SearchLimit(Exception):
    """The search was given up; nothing is known."""


def least_bytes(problem: Problem) -> int:
    """Return the fewest bytes of scratchpad for which an order of the ops is found that fits, residents included."""
    low, high = problem.scratchpad.available_bytes, sum(b.occupied_bytes for b in problem.buffers)
    while low + 1 < high:
        middle = (low + high) // 2
        try:
            fits = serial_order(problem, STEP_STATES, middle) is not None
        except SearchLimit:
            fits = False
        low, high = (low, middle) if fits else (middle, high)
    return high


def serial_order(
    problem: Problem, state_limit: int = STATE_LIMIT, available_bytes: int | None = None
) -> tuple[int, ...] | None:
    """Return op positions in an order that fits in bytes, or None when there is none.

    ``available_bytes`` replaces what the scratchpad has; every pool
    counts its own bytes.

    Raises
    ------
    SearchLimit
        After ``state_limit`` sets of finished ops.
    """
    n = len(problem.ops)
    users = [[problem.op_index[name] for name in set(b.ops)] for b in problem.buffers]
    home = {b: k for k, (mine, _) in enumerate(problem.per_pool) for b in mine}
    capacity = [view.scratchpad.available_bytes for _, view in problem.per_pool]
    capacity[0] = capacity[0] if available_bytes is None else available_bytes
    over: dict[int, list[Takeover]] = {}
    for one in problem.takeovers:
        over.setdefault(one.op, []).append(one)
    seen: set[int] = set()
    path: list[int] = []
    alive_users = [0] * len(users)
    live_bytes = [sum(b.occupied_bytes for b in view.buffers if b.from_start) for _, view in problem.per_pool]
    if any(live > room for live, room in zip(live_bytes, capacity, strict=True)):
        return None

    def born(i: int) -> list[int]:
        return [b for b in problem.op_buffers[i] if alive_users[b] == 0 and not problem.buffers[b].from_start]

    def shared(i: int) -> dict[int, int]:
        # What may be overwritten by a newer buffer takes bytes once while the op runs, if no user is left.
        olds: dict[int, int] = {}
        for new, old, _ in over.get(i, ()):
            if alive_users[new] == 0 and alive_users[old] == len(users[old]) - 1:
                olds[old] = max(olds.get(old, 0), problem.buffers[new].occupied_bytes)
        found: dict[int, int] = {}
        for old, size in olds.items():
            found[home[old]] = found.get(home[old], 0) + size
        return found

    def freed(i: int) -> list[int]:
        return [b for b in problem.op_buffers[i] if alive_users[b] == len(users[b]) and not problem.buffers[b].to_end]

    def born_bytes(i: int) -> int:
        return sum(problem.buffers[b].occupied_bytes for b in born(i))

    def count(buffers: list[int], sign: int) -> None:
        for b in buffers:
            live_bytes[home[b]] += sign * problem.buffers[b].occupied_bytes

    missing = [len(p) for p in problem.predecessors]
    ready = [i for i in range(n) if missing[i] == 0]
    # An explicit stack of choices still to try, because thousands of ops must not hit the recursion limit.
    choices: list[list[int]] = [sorted(ready, key=lambda i: (born_bytes(i), i), reverse=True)]
    done = 0
    while len(path) < n:
        if not choices[-1]:
            choices.pop()
            if not path:
                return None
            i = path.pop()
            done &= ~(1 << i)
            count(freed(i), 1)
            for b in problem.op_buffers[i]:
                alive_users[b] -= 1
            count(born(i), -1)
            for s in problem.successors[i]:
                missing[s] += 1
            continue
        i = choices[-1].pop()
        state = done | 1 << i
        if state in seen:
            continue
        new, once = born(i), shared(i)
        count(new, 1)
        if any(live - once.get(k, 0) > capacity[k] for k, live in enumerate(live_bytes)):
            count(new, -1)
            continue
        seen.add(state)
        if len(seen) > state_limit + n:
            raise SearchLimit
        for b in problem.op_buffers[i]:
            alive_users[b] += 1
        count(freed(i), -1)
        done = state
        path.append(i)
        fresh = []
        for s in problem.successors[i]:
            missing[s] -= 1
            if missing[s] == 0:
                fresh.append(s)
        open_ops = [c for c in range(n) if not done >> c & 1 and missing[c] == 0]
        # What goes on with buffers that are alive first: it ends their lives and leaves no holes between them.
        choices.append(sorted(open_ops, key=lambda c: (c not in fresh, born_bytes(c), c), reverse=True))
    return tuple(path)
