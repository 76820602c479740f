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
        held: list[float] | None = None
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
                held = _held(state, load.lanes, load.pipe, load.units)
            end = _served(held, floor, work) + rest
            if end > best:
                best = end
    return best


def _held(state: State, lanes: tuple[int, ...], pipe: int, units: int) -> list[float]:
    """Return until when each unit of an engine is held at least, ascending."""
    now = state.now
    if pipe < 0:
        return sorted([max(now, state.lanes[lane]) for lane in lanes])
    taken = [until for until, count in state.pipes[pipe] for _ in range(count)]
    return [now] * (units - len(taken)) + taken


def _served(held: list[float], floor: float, work: int) -> float:
    """Return when the units can have done ``work``, begun when they are free and not before ``floor``."""
    total: float = work
    end: float = 0
    for count, until in enumerate(held, 1):
        free = until if until > floor else floor
        if count > 1 and free >= end:
            break
        total += free
        end = -(-total // count)
    return end
