"""Lower bounds on the makespan, each with a name and a reason; all hold for any start times.

A bound is arithmetic: anyone can recompute it from the problem without a solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hexloom.formulations.bound import Bound
from hexloom.formulations.heads_tails import (
    MOST_NUMBERS,
    Demand,
    Grid,
    HeadsTails,
    engine_demands,
    few_values,
    heads_and_tails,
)
from hexloom.formulations.lifetimes import least_lives, scratchpad_time, scratchpad_turns

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem, Rule

__all__ = ["Bound", "Bounds", "lower_bounds"]


@dataclass(frozen=True)
class Bounds:
    """All bounds of a problem, the best first, with the heads and tails they rest on."""

    found: tuple[Bound, ...]
    heads_tails: HeadsTails

    @property
    def best(self) -> Bound:
        """The largest bound; it names the bottleneck."""
        return self.found[0]


def lower_bounds(problem: Problem, rule: Rule = "none") -> Bounds:
    """Return engine work, channel bytes, path, heads and tails, steady interval, scratchpad time and turns.

    Channels count where ``rule`` shares them; otherwise all times are whole ticks, and what is left over is rounded up.
    """
    grid = Grid(problem, rule)
    demands = engine_demands(problem, grid)
    ht = heads_and_tails(problem, demands, grid)
    found = [_critical_path(problem, ht, grid)]
    for demand in demands:
        found += [_engine_work(problem, demand, grid), _heads_tails(problem, demand, ht, grid)]
        steady = _steady_interval(problem, demand, ht, grid)
        if steady is not None:
            found.append(steady)
    for _, view in problem.per_pool:
        lives = least_lives(view, demands, ht, grid)
        in_bytes = scratchpad_time(view, lives, grid), scratchpad_turns(view, lives, grid)
        found += [bound for bound in in_bytes if bound is not None]
    best: dict[str, Bound] = {}
    for bound in found:
        if bound.name not in best or (bound.ticks, bound.load) > (best[bound.name].ticks, best[bound.name].load):
            best[bound.name] = bound
    # Of equal bounds the simplest reason names the bottleneck.
    simplest = (
        "critical_path",
        "engine_work",
        "channel_bytes",
        "steady_interval",
        "heads_tails",
        "scratchpad",
        "turns",
    )
    return Bounds(tuple(sorted(best.values(), key=lambda b: (-b.ticks, simplest.index(b.name)))), ht.in_ticks(grid))


def _critical_path(problem: Problem, ht: HeadsTails, grid: Grid) -> Bound:
    """Longest path: for every op, makespan >= head + duration + tail along precedences alone."""
    reach: dict[int, int] = {}
    via: dict[int, int | None] = {}
    for i in problem.topological_order:
        before = max(problem.predecessors[i], key=lambda p: reach[p], default=None)
        via[i] = before
        reach[i] = (problem.entry_ticks * grid.scale if before is None else reach[before]) + int(ht.duration[i])
    last = max(reach, key=lambda i: reach[i])
    first, steps = last, 1
    while (previous := via[first]) is not None:
        first, steps = previous, steps + 1
    detail = f"{steps} ops in a row from {problem.ops[first].name} to {problem.ops[last].name}"
    if first == last:
        detail = f"op {problem.ops[first].name} alone"
    return Bound("critical_path", grid.ticks(reach[last]), None, detail)


def _engine_work(problem: Problem, demand: Demand, grid: Grid) -> Bound:
    """All work of an engine over its units: makespan >= entry + sum units x ticks / units."""
    work = grid.served(int(demand.energy.sum()), demand.units)
    if demand.kind == "pipe":
        name, detail = "channel_bytes", f"all transfers pass {demand.name}"
    elif demand.kind == "channel":
        name, detail = "channel_bytes", f"all bytes of {demand.name} at its full capacity"
    elif demand.kind == "share":
        name, detail = "channel_bytes", f"all demands on {demand.name}, each for the whole life of its op"
    else:
        name, detail = "engine_work", f"all work on {demand.name} over its {demand.units} units"
    return Bound(name, problem.entry_ticks + grid.ticks(work), demand.name, detail)


def _heads_tails(problem: Problem, demand: Demand, ht: HeadsTails, grid: Grid) -> Bound:
    """Window bound: for heads >= a and tails >= b, makespan >= a + energy / units + b."""
    head = ht.head[demand.ops] + demand.lead
    tail = ht.tail[demand.ops] + demand.trail
    order = np.argsort(-tail, kind="stable")
    heads, tails = few_values(head), tail[order]
    best, parts = -1, (0, 0, 0)
    step = max(1, MOST_NUMBERS // len(order))
    for some in (heads[at : at + step] for at in range(0, len(heads), step)):
        late = head[order] >= some[:, None]
        energy = np.cumsum(np.where(late, demand.energy[order], 0), axis=1)
        work = energy // demand.units if grid.shared else -(-energy // demand.units)
        values = np.where(late, some[:, None] + work + tails, -1)
        if int(values.max()) > best:
            row = int(values.max(axis=1).argmax())
            k = values.shape[1] - 1 - int(values[row, ::-1].argmax())
            best = int(values[row, k])
            parts = int(some[row]), grid.served(int(energy[row, k]), demand.units), int(tails[k])
    what = "channel" if demand.kind == "channel" else "engine"
    head_text, load_text, tail_text = (problem.in_words(grid.ticks(part)) for part in parts)
    detail = f"{what} {demand.name}: head {head_text} + load {load_text} + tail {tail_text}"
    return Bound("heads_tails", grid.ticks(best), demand.name, detail, grid.ticks(parts[1]))


def _steady_interval(problem: Problem, demand: Demand, ht: HeadsTails, grid: Grid) -> Bound | None:
    """Tiles of one task whose stages share an engine: first head + tiles x (sum of stage work) + last tail.

    The steady interval of a tile is at least the work that all its stages together bring to an engine:
    max(tA, tB + tD, tC) where stages B and D share one.
    """
    best: Bound | None = None
    rows: dict[str, list[int]] = {}
    for k, i in enumerate(demand.ops):
        rows.setdefault(problem.ops[i].task, []).append(k)
    for task, ks in rows.items():
        members = demand.ops[ks]
        stages = list(dict.fromkeys(problem.ops[i].stage for i in members))
        tiles = {problem.ops[i].tile for i in members}
        if len(stages) < 2 or len(tiles) < 2:
            continue
        work = grid.served(int(demand.energy[ks].sum()), demand.units)
        value = (
            int((ht.head[members] + demand.lead[ks]).min()) + work + int((ht.tail[members] + demand.trail[ks]).min())
        )
        if best is None or grid.ticks(value) > best.ticks:
            detail = f"stages {' + '.join(stages)} of {task} share {demand.name} over {len(tiles)} tiles"
            best = Bound("steady_interval", grid.ticks(value), demand.name, detail)
    return best
