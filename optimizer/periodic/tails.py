"""Which tasks may have a shorter last iteration, and what of it is shorter then.

The task is lowered with a whole last iteration and with shorter ones. What differs must be rows, or bytes of rows, that
it touches in DDR, in proportion: then the tables can say how much a transfer moves by one number. What ops depend on
must be the same; some that touch nothing there may be missing. How long they take does not matter to a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.lower import lower
from hexloom.optimizer.periodic.check import labels_of
from hexloom.optimizer.periodic.roll import FEWEST
from hexloom.optimizer.periodic.schedule import Shrink, Tail

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem, Region
    from hexloom.optimizer.kernels.spec import LastTile
    from hexloom.optimizer.periodic.check import Label
    from hexloom.optimizer.periodic.trial import Source

    Asked = dict[Label, tuple[frozenset[Label], tuple[Region, ...]]]


def tails_of(source: Source) -> tuple[Tail, ...]:
    """Return the tasks of ``source`` whose last iteration is a whole one, and may be a shorter one."""
    found = []
    for task in source.trips:
        (spec,) = source.cut({task: FEWEST}).tasks
        tile = spec.last_tile(source.machine)
        if tile is not None and tile.have == tile.whole and (tail := _tail(source, task, tile)) is not None:
            found.append(tail)
    return tuple(found)


def _tail(source: Source, task: str, tile: LastTile) -> Tail | None:
    """Return the shortest last iteration, halved from the whole one, down to which it asks for the same."""
    whole = _asked(source, task, tile.whole)
    least, shrinks = tile.whole, None
    while least > tile.step:
        fewer = max(tile.step, least // 2 // tile.step * tile.step)
        found = _shrinks(whole, _asked(source, task, fewer), tile.whole, fewer, tile.step)
        if found is None or (shrinks is not None and found != shrinks):
            break
        least, shrinks = fewer, found
    if shrinks is None:
        return None
    return Tail(task=task, counts=tile.counts, least=least, most=tile.whole, step=tile.step, shrinks=shrinks)


def _asked(source: Source, task: str, count: int) -> Asked:
    """Return what every op depends on and touches in DDR, where the last iteration has so many rows or columns."""
    workload = source.cut({task: FEWEST})
    (spec,) = workload.tasks
    shorter = workload.model_copy(update={"tasks": (spec.with_last_tile(source.machine, count),)})
    problem: Problem = lower(shorter, source.machine, source.rule).problem
    labels = labels_of(problem, source.parts)
    touched: dict[str, list[Region]] = {}
    for access in problem.accesses:
        touched.setdefault(access.ops[0], []).extend(access.regions)
    return {
        labels[op.name]: (
            frozenset(labels[problem.ops[p].name] for p in problem.predecessors[i]),
            tuple(touched.get(op.name, ())),
        )
        for i, op in enumerate(problem.ops)
    }


def _shrinks(whole: Asked, shorter: Asked, most: int, count: int, step: int) -> tuple[Shrink, ...] | None:
    """Return what is less in proportion to ``count`` of ``most``; None where something else differs."""
    if shorter.keys() - whole.keys() or any(whole[label][1] for label in whole.keys() - shorter.keys()):
        return None
    found: list[Shrink] = []
    for label, (before, regions) in shorter.items():
        ordered, others = whole[label]
        if before != ordered & shorter.keys() or len(regions) != len(others):
            return None
        for k, (old, new) in enumerate(zip(others, regions, strict=True)):
            field = "rows" if old.rows != new.rows else "row_bytes"
            had, has = getattr(old, field), getattr(new, field)
            if _placed(old.model_copy(update={field: has})) != _placed(new):
                return None
            if had == has:
                continue
            if label[3] != FEWEST - 1 or had * count != has * most or had * step % most:
                return None
            found.append(Shrink(stage=label[1], part=label[2], region=k, field=field))
    return tuple(found)


def _placed(region: Region) -> tuple[object, ...]:
    """Return what a region is, whatever the rows of its tensor are apart: that is another parameter."""
    at = divmod(region.offset_bytes, region.stride_bytes) if region.stride_bytes else region.offset_bytes
    return region.tensor, region.kind, region.bypass, at, region.rows, region.row_bytes
