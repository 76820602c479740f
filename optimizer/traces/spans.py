"""When engines work, in exact ticks: the small-number twin of `intervals`, for times that are fractions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.formulations.problem import Mode, Problem
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.simulate import OpTimes

Span = tuple["Moment", "Moment"]


def engine_spans(
    problem: Problem, modes: Mapping[str, Mode], times: Mapping[str, OpTimes[Moment]], engine: str
) -> list[Span]:
    """Return when ops hold ``engine``: transfers their pipes while they are in flight, other ops from start to end."""
    found: list[Span] = []
    for name, at in times.items():
        mode = modes[name]
        if any(use.engine == engine and use.ticks for use in mode.uses) and engine not in problem.shares:
            found.append((at.start, at.end) if mode.dma is None else (at.transfer_start, at.done))
    return found


def united(spans: Sequence[Span]) -> list[Span]:
    """Return what ``spans`` cover as intervals that do not touch, in order."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def busy(spans: Sequence[Span]) -> Moment:
    """Return the time that ``spans`` cover."""
    total: Moment = 0
    for start, end in united(spans):
        total += end - start
    return total


def common_ticks(a: Sequence[Span], b: Sequence[Span]) -> Moment:
    """Return the time that two lists of spans share."""
    return busy(a) + busy(b) - busy([*a, *b])
