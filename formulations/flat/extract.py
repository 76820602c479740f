"""From a solution of the flat model, which has times, to a decision, which has an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision
from hexloom.formulations.packing import pack

if TYPE_CHECKING:
    from hexloom.formulations.flat.model import FlatSolution
    from hexloom.formulations.problem import Problem


def decision_of(problem: Problem, solution: FlatSolution) -> Decision | None:
    """Return the decision with the order, the units and the addresses of ``solution``.

    None when the solution only counts bytes and its lifetimes cannot be packed. Of what happens at one instant, what
    takes no time comes first; of that, ends of earlier transfers, then predecessors before successors: so every end
    that a start relies on, be it for its inputs or its addresses, is in front.
    """
    offsets = _offsets(problem, solution)
    if offsets is None:
        return None
    rank = {op: k for k, op in enumerate(problem.topological_order)}
    actions: list[tuple[int, bool, bool, int, int]] = []
    for i, op in enumerate(problem.ops):
        mode = op.modes[solution.mode[i]]
        if mode.dma is None:
            actions.append((solution.start[i], mode.duration_ticks > 0, True, 2 * rank[i], i))
        else:
            poll, start = mode.dma.poll_ticks, solution.start[i]
            looked = solution.known[i] - poll
            actions.append((start, mode.dma.issue_ticks > 0, True, 2 * rank[i], i))
            actions.append((looked, poll > 0, looked == start, 2 * rank[i] + 1, ~i))
    return Decision(
        modes=solution.mode,
        units=_units(problem, solution),
        actions=tuple(action for *_, action in sorted(actions)),
        offsets=offsets,
    )


def _offsets(problem: Problem, solution: FlatSolution) -> tuple[int, ...] | None:
    if solution.offsets is not None:
        return tuple(solution.offsets.get(b, buffer.address or 0) for b, buffer in enumerate(problem.buffers))
    lives = []
    for buffer in problem.buffers:
        users = [problem.op_index[name] for name in buffer.ops]
        if buffer.resident:
            lives.append((-1, solution.makespan + 1))
        elif users:
            lives.append((min(solution.start[u] for u in users), max(solution.known[u] for u in users)))
        else:
            lives.append((0, 0))
    return pack(problem, lives)


def _units(problem: Problem, solution: FlatSolution) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Take the units that the model chose; give the others the lowest free ones in order of start."""
    engines = {engine.name: engine for engine in problem.engines}
    busy_until = {engine.name: [0] * engine.units for engine in problem.engines}
    found: list[tuple[tuple[int, ...], ...]] = [()] * len(problem.ops)
    for i in sorted(range(len(problem.ops)), key=lambda i: solution.start[i]):
        mode = problem.ops[i].modes[solution.mode[i]]
        mine: list[tuple[int, ...]] = []
        for k, use in enumerate(mode.uses):
            if use.ticks == 0 or engines[use.engine].kind == "pipe":
                mine.append(())
                continue
            lanes = busy_until[use.engine]
            ids = solution.units.get((i, k)) or use.unit_ids
            if ids is None:
                ids = tuple([u for u, until in enumerate(lanes) if until <= solution.start[i]][: use.units])
            thread = engines[use.engine].kind == "worker"
            for u in ids:
                lanes[u] = solution.start[i] + (mode.overhead_ticks + use.ticks if thread else mode.duration_ticks)
            mine.append(ids)
        found[i] = tuple(mine)
    return tuple(found)
