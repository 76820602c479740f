"""The rules of a plan and of its times, checked plainly: what the oracle searches by, and the checker is held to.

Nothing here is shared with the product but the data of `Problem`.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.formulations.problem import Buffer, Mode, Problem
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.simulate import OpTimes


def demands(problem: Problem, rigid: bool = False) -> list[tuple[str, int, list[list[int]]]]:
    """Return for every share, ring and rigid channel: name, amount, and what each mode of each op demands of it."""
    found = []
    for engine in problem.engines:
        if engine.depth is not None:
            rows = [
                [
                    mode.dma.descriptors
                    if mode.dma and mode.latency_ticks and any(u.engine == engine.name and u.ticks for u in mode.uses)
                    else 0
                    for mode in op.modes
                ]
                for op in problem.ops
            ]
            found.append((engine.name, engine.depth, rows))
    for engine in problem.engines:
        if engine.kind == "share":
            rows = [
                [sum(use.units for use in mode.uses if use.engine == engine.name and use.ticks) for mode in op.modes]
                for op in problem.ops
            ]
            found.append((engine.name, engine.units, rows))
    for channel in problem.channels if rigid else ():
        rows = [
            # What works for no time demands nothing.
            [sum(p.rate for p in mode.pulls if p.channel == channel.name and mode.latency_ticks) for mode in op.modes]
            for op in problem.ops
        ]
        found.append((channel.name, channel.capacity, rows))
    return found


def order_graph(problem: Problem, plan: Plan) -> nx.DiGraph:
    """Return what happens before what under any timing: nodes ("start", op) and ("known", op), the end of an op.

    A thread goes on from an op to the next entry; that tells the end of the op only if all its threads are held to
    the end of its result.
    """
    modes = chosen_modes(problem, plan)
    workers = {e.name for e in problem.engines if e.kind == "worker"}
    graph = nx.DiGraph()
    for op in problem.ops:
        graph.add_edge(("start", op.name), ("known", op.name))
    for queue in plan.queues:
        previous = None
        for entry in queue.entries:
            here = ("known" if entry.action == "wait" else "start", entry.op)
            if previous is not None:
                graph.add_edge(previous, here)
            mode = modes[entry.op]
            whole = all(use.ticks in (0, mode.latency_ticks) for use in mode.uses if use.engine in workers)
            previous = ("known", entry.op) if entry.action == "run" and whole else here
    for wait in plan.waits:
        graph.add_edge(("known", wait.before), ("start", wait.after))
    return graph


def chosen_modes(problem: Problem, plan: Plan) -> dict[str, Mode]:
    """Return the mode of every op."""
    assigned = {a.op: a.mode for a in plan.assignments}
    return {op.name: op.modes[assigned[op.name]] for op in problem.ops}


def shared_bytes(problem: Problem, plan: Plan) -> list[tuple[Buffer, Buffer]]:
    """Return the pairs of buffers that are used and have bytes in common."""
    used = [b for b in problem.buffers if size(b) and (b.ops or b.resident) and b.name in plan.addresses]
    at = plan.addresses
    return [
        (a, b)
        for a, b in combinations(used, 2)
        if a.pool == b.pool and at[a.name] < at[b.name] + size(b) and at[b.name] < at[a.name] + size(a)
    ]


def written_over(plan: Plan, old: Buffer, new: Buffer) -> bool:
    """Whether ``new`` lies where ``old`` does, as it may."""
    return new.overwrites == old.name and plan.addresses[old.name] == plan.addresses[new.name]


def plan_faults(problem: Problem, plan: Plan, *, rigid: bool = False) -> list[str]:
    """Return what can go wrong with a plan under some timing, one line each: the rules, checked plainly."""
    found = _address_faults(problem, plan)
    names = [op.name for op in problem.ops]
    if sorted(a.op for a in plan.assignments) != sorted(names):
        return [*found, "not every op is assigned once"]
    if any(not 0 <= a.mode < len(op.modes) for a in plan.assignments for op in problem.ops if op.name == a.op):
        return [*found, "a mode does not exist"]
    modes = chosen_modes(problem, plan)
    kinds = {e.name: e.kind for e in problem.engines}
    count = {e.name: e.units for e in problem.engines}
    expected: list[tuple[str, int, str, str]] = []
    holders: dict[tuple[str, int], list[str]] = defaultdict(list)
    for assignment in plan.assignments:
        name, mode = assignment.op, modes[assignment.op]
        if mode.dma is not None:
            owner = (mode.dma.owner_engine, mode.dma.owner_unit)
            expected += [(*owner, "start", name), (*owner, "wait", name)]
        asked = {use.engine: use for use in mode.uses if use.ticks > 0 and kinds[use.engine] not in ("pipe", "share")}
        if {engine for engine, ids in assignment.units.items() if ids} != set(asked):
            found.append(f"{name} holds other engines than it asks for")
        for engine, ids in assignment.units.items():
            use = asked.get(engine)
            if use is None:
                continue
            if len(ids) != use.units or len(set(ids)) != use.units or not all(0 <= u < count[engine] for u in ids):
                found.append(f"{name} holds units {ids} of {engine}")
            if use.unit_ids is not None and set(ids) != set(use.unit_ids):
                found.append(f"{name} holds units {ids} of {engine}, not {use.unit_ids}")
            for u in ids:
                if kinds[engine] == "worker":
                    expected.append((engine, u, "run", name))
                else:
                    holders[engine, u].append(name)
    actual = [(queue.engine, queue.unit, e.action, e.op) for queue in plan.queues for e in queue.entries]
    lanes = [(queue.engine, queue.unit) for queue in plan.queues]
    if sorted(expected) != sorted(actual) or len(set(lanes)) != len(lanes):
        return [*found, "the queues do not hold every step once, where it belongs"]
    if not {name for wait in plan.waits for name in (wait.before, wait.after)} <= set(names):
        return [*found, "a wait names no op"]
    graph = order_graph(problem, plan)
    if not nx.is_directed_acyclic_graph(graph):
        return [*found, "the order of the plan is a cycle"]
    reach = {node: nx.descendants(graph, node) for node in graph}

    def ordered(a: str, b: str) -> bool:
        return ("start", b) in reach["known", a]

    for lane, users in holders.items():
        found += [
            f"{a} and {b} share {lane} without an order"
            for a, b in combinations(users, 2)
            if not ordered(a, b) and not ordered(b, a)
        ]
    assigned = {a.op: a.mode for a in plan.assignments}
    for channel, amount, rows in demands(problem, rigid):
        held = {op.name: row[assigned[op.name]] for op, row in zip(problem.ops, rows, strict=True)}
        for size in range(1, len(names) + 1):
            for group in combinations([name for name in names if held[name]], size):
                apart = any(ordered(a, b) or ordered(b, a) for a, b in combinations(group, 2))
                if not apart and sum(held[name] for name in group) > amount:
                    found.append(f"{group} can demand more than {amount} of {channel} at once")
    found += [f"{e.after} does not wait for {e.before}" for e in problem.precedences if not ordered(e.before, e.after)]
    for first, second in shared_bytes(problem, plan):
        apart = any(
            before.resident not in (True, "to_end")
            and after.resident not in (True, "from_start")
            and all(
                ordered(x, y) or (x == y and written_over(plan, before, after)) for x in before.ops for y in after.ops
            )
            for before, after in ((first, second), (second, first))
        )
        if not apart:
            found.append(f"{first.name} and {second.name} share bytes without an order")
    return found


def _address_faults(problem: Problem, plan: Plan) -> list[str]:
    found: list[str] = []
    if set(plan.addresses) != {buffer.name for buffer in problem.buffers}:
        return ["not every buffer has an address"]
    for buffer in problem.buffers:
        at = plan.addresses[buffer.name]
        if at % buffer.align_bytes or buffer.address not in (None, at):
            found.append(f"{buffer.name} may not lie at {at}")
        if at < 0 or at + size(buffer) > room_of(problem, buffer):
            found.append(f"{buffer.name} ends at {at + size(buffer)}, beyond {room_of(problem, buffer)}")
    for k, buffer in enumerate(problem.buffers):
        before = [b for b in problem.buffers[:k] if b.part_of is not None and b.part_of == buffer.part_of]
        if before and plan.addresses[buffer.name] != plan.addresses[before[-1].name] + size(before[-1]):
            found.append(f"{buffer.name} does not lie right behind {before[-1].name}")
    return found


def share_faults(problem: Problem, plan: Plan, times: Mapping[str, OpTimes], *, rigid: bool = False) -> list[str]:
    """Return the instants at which ops between start and known end demand more of a share than there is."""
    assigned = {a.op: a.mode for a in plan.assignments}
    found: list[str] = []
    for channel, amount, rows in demands(problem, rigid):
        held = {op.name: row[assigned[op.name]] for op, row in zip(problem.ops, rows, strict=True)}
        for moment in {times[name].start for name in held}:
            if sum(held[name] for name in held if times[name].start <= moment < times[name].observed) > amount:
                found.append(f"more than {amount} of {channel} is demanded at {moment}")
    return found


def time_faults(problem: Problem, plan: Plan, times: Mapping[str, OpTimes], *, rigid: bool = False) -> list[str]:
    """Return what is wrong with the times of a sound plan, one line each."""
    found = share_faults(problem, plan, times, rigid=rigid)
    shares = {engine.name for engine in problem.engines if engine.kind == "share"}
    modes = chosen_modes(problem, plan)
    lanes: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    pipes: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for assignment in plan.assignments:
        name, mode, at = assignment.op, modes[assignment.op], times[assignment.op]
        if at.start < problem.entry_ticks:
            found.append(f"{name} starts before the entry is over")
        if mode.dma is None:
            held = [mode.overhead_ticks + use.ticks for use in mode.uses if use.ticks > 0 and use.engine not in shares]
            done = at.start + mode.overhead_ticks + mode.latency_ticks
            right = (at.start + max(held, default=0), at.start, done, done, done)
            if right != (at.end, at.transfer_start, at.done, at.wait_start, at.observed):
                found.append(f"{name} does not take its duration")
            for use in mode.uses:
                for u in assignment.units.get(use.engine, ()):
                    lanes[use.engine, u].append((at.start, at.start + mode.overhead_ticks + use.ticks))
            continue
        dma = mode.dma
        seen = max(at.done, at.wait_start) + dma.poll_ticks
        if (at.start + dma.issue_ticks, at.transfer_start + mode.latency_ticks, seen) != (at.end, at.done, at.observed):
            found.append(f"{name} does not take its issue, its latency or its poll")
        if at.transfer_start < at.end or at.wait_start < at.end:
            found.append(f"{name} moves or is awaited before it is issued")
        lanes[dma.owner_engine, dma.owner_unit] += [(at.start, at.end), (at.wait_start, at.observed)]
        for use in mode.uses:
            if use.engine in shares:
                continue
            pipes[use.engine].append((at.transfer_start, at.transfer_start + use.ticks, use.units))
    for lane, busy in lanes.items():
        long = sorted(span for span in busy if span[0] < span[1])
        found += [f"{lane} does two things at once: {a}, {b}" for a, b in combinations(long, 2) if b[0] < a[1]]
    for engine in problem.engines:
        moved = pipes[engine.name]
        for moment in {start for start, _, _ in moved}:
            if sum(u for start, end, u in moved if start <= moment < end) > engine.units:
                found.append(f"{engine.name} has more than {engine.units} units in use at {moment}")
    orders = [(w.before, w.after) for w in plan.waits] + [(e.before, e.after) for e in problem.precedences]
    found += [f"{b} starts before {a} is known" for a, b in orders if times[b].start < times[a].observed]
    for queue in plan.queues:
        begins = [times[e.op].wait_start if e.action == "wait" else times[e.op].start for e in queue.entries]
        if begins != sorted(begins):
            found.append(f"{queue.engine}[{queue.unit}] does not keep its order")
    last = max(max(t.observed, t.end) for t in times.values())
    for first, second in shared_bytes(problem, plan):
        spans = [
            (
                0 if b.resident in (True, "from_start") else min(times[name].start for name in b.ops),
                last if b.resident in (True, "to_end") else max(times[name].observed for name in b.ops),
            )
            for b in (first, second)
        ]
        for k, (old, new) in enumerate(((first, second), (second, first))):
            if written_over(plan, old, new):
                # Nothing is new but what the common op has written by its end.
                (both,) = set(old.ops) & set(new.ops)
                later = [times[name].start for name in new.ops if name != both]
                spans[1 - k] = (min([times[both].observed, *later]), spans[1 - k][1])
        if max(start for start, _ in spans) < min(end for _, end in spans):
            found.append(f"{first.name} and {second.name} share bytes while both are alive")
    return found


def faults(problem: Problem, plan: Plan, times: Mapping[str, OpTimes], *, rigid: bool = False) -> list[str]:
    """Return what is wrong with a plan and its times."""
    return plan_faults(problem, plan, rigid=rigid) or time_faults(problem, plan, times, rigid=rigid)


def room_of(problem: Problem, buffer: Buffer) -> int:
    """Bytes of the place in which a buffer lies: each has addresses of its own."""
    places = [problem.scratchpad] if buffer.pool is None else [p for p in problem.pools if p.name == buffer.pool]
    return max(0, places[0].total_bytes - places[0].reserved_bytes)


def size(buffer: Buffer) -> int:
    return -(-buffer.size_bytes // buffer.granule_bytes) * buffer.granule_bytes
