"""The least time at which any continuation of a state can end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.events.state import ARRIVED, FLYING, FRESH, ISSUING, OVER, POLLING, QUEUED, RUNNING

if TYPE_CHECKING:
    from hexloom.formulations.events.state import State
    from hexloom.formulations.events.tables import Tables


def least_end(tables: Tables, state: State) -> float:
    """Longest path with tails, and per engine the work that has not begun behind what holds its units."""
    now, phases = state.now, state.phase
    predecessors = tables.problem.predecessors
    tail = tables.tail
    best = now
    begins = [now] * tables.n
    ends = [now] * tables.n
    for i in tables.topological:
        phase = phases[i]
        if phase == OVER:
            continue
        if phase == FRESH:
            begin = now
            for p in predecessors[i]:
                if ends[p] > begin:
                    begin = ends[p]
            begins[i] = begin
            end = begin + tables.shortest[i]
        elif phase in (RUNNING, POLLING):
            end = state.when[i]
        else:
            way = tables.ways[i][state.mode[i]]
            assert way is not None
            if phase == ISSUING:
                end = state.when[i] + way.latency + way.poll
            elif phase == QUEUED:
                end = now + way.latency + way.poll
            elif phase == FLYING:
                end = state.when[i] + way.poll
            else:
                assert phase == ARRIVED
                end = now + way.poll
        ends[i] = end
        if end + tail[i] > best:
            best = end + tail[i]
    for load in tables.loads:
        work = 0
        floor: float = -1
        held: list[tuple[float, int]] | None = None
        for i, energy, rest, lead in load.rows:
            phase = phases[i]
            if phase == FRESH:
                begin = begins[i] + lead
            elif load.pipe >= 0 and (phase in (QUEUED, ISSUING)):
                begin = now
            else:
                continue
            work += energy
            if floor < 0 or begin < floor:
                floor = begin
            if held is None:
                if load.share >= 0:
                    held = _given(tables, state, load.share, ends)
                else:
                    held = _held(state, load.lanes, load.pipe, load.units)
            end = _served(held, floor, work) + rest
            if end > best:
                best = end
    return best


def _held(state: State, lanes: tuple[int, ...], pipe: int, units: int) -> list[tuple[float, int]]:
    """Return until when how many units of an engine are held at least, ascending."""
    now = state.now
    if pipe < 0:
        return [(until, 1) for until in sorted([max(now, state.lanes[lane]) for lane in lanes])]
    free = units - sum([count for _, count in state.pipes[pipe]])
    return [(now, free), *state.pipes[pipe]] if free else state.pipes[pipe]


def _given(tables: Tables, state: State, share: int, ends: list[float]) -> list[tuple[float, int]]:
    """Return until when how much of a share is held at least, ascending."""
    held: list[tuple[float, int]] = [(state.now, state.shares[share])] if state.shares[share] else []
    for i, phase in enumerate(state.phase):
        if phase not in (FRESH, OVER):
            way = tables.ways[i][state.mode[i]]
            assert way is not None
            held += [(ends[i], amount) for taken, amount in way.shares if taken == share]
    held.sort()
    return held


def _served(held: list[tuple[float, int]], floor: float, work: int) -> float:
    """Return when the units can have done ``work``, begun when they are free and not before ``floor``."""
    total: float = work
    end: float = 0
    count = 0
    for until, units in held:
        free = until if until > floor else floor
        if count and free >= end:
            break
        total += free * units
        count += units
        end = -(-total // count)
    return end
