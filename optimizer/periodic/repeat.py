"""Exact repeats: from when on a phase does the same again and again, every so many runs, so many ticks later.

A plan is deterministic. What it will do is said by what is at work and how much of it is left, by the place of every
queue, and by what has ended: and all that is in the times of the runs that are under way, while nothing else is. So if
a stretch of runs, as long as any run reaches into others, has the same times as the stretch ``period`` runs before, all
of them ``ticks`` later, the next runs do so too, until the phase ends; and with ``period`` runs more the whole takes
``ticks`` more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.roll import Key
    from hexloom.optimizer.simulate import OpTimes

MOST_PERIODS = 6
"""Periods of up to so many repetitions of all rings are looked for."""


class Repeat(NamedTuple):
    """From run ``first`` on, run ``k + period`` does what run ``k`` did, ``ticks`` later."""

    first: int
    period: int
    ticks: Moment


def find_repeat(
    times: Mapping[int, OpTimes[int | Fraction]],
    runs: Mapping[int, tuple[Key, int, int]],
    whole: int,
    rings: int,
    reach: int,
    others: Sequence[tuple[Moment, Moment]] = (),
) -> Repeat | None:
    """Return the first exact repeat of a phase, None if there is none in its runs.

    Parameters
    ----------
    times
        Of every op of the phase, by its position.
    runs
        Key, copy and run of every op of the phase.
    whole
        Runs in which every task has all its iterations; later ones are no measure.
    rings
        Runs after which all rings are at their beginning: the period is a multiple.
    reach
        Runs that dependencies and rings reach back.
    others
        When ops of no run of this phase are at work: what is compared must not lie beside any.
    """
    by_run: dict[int, dict[tuple[Key, int], OpTimes[int | Fraction]]] = defaultdict(dict)
    for i, (key, copy, run) in runs.items():
        by_run[run][key, copy] = times[i]
    names = sorted(by_run[0])
    complete = next((k for k in range(whole) if by_run[k].keys() != by_run[0].keys()), whole)
    rows = [_row([by_run[k][name] for name in names]) for k in range(complete)]
    window = reach + _under_way(rows)
    for period in range(rings, MOST_PERIODS * rings + 1, rings):
        same, before = 0, rows[period][0] - rows[0][0] if period < complete else 0
        for k in range(complete - period):
            ahead = rows[k + period][0] - rows[k][0]
            repeats = _shifted(rows[k], ahead) == rows[k + period] and (ahead == before or not same)
            same, before = same + 1 if repeats else 0, ahead
            if same >= window + period:
                begin, end = min(rows[k - window - period + 1]), max(rows[k + period])
                if not any(start < end and begin < over for start, over in others):
                    return Repeat(k - same + 1, period, ahead)
    return None


def _row(times: list[OpTimes[int | Fraction]]) -> list[int | Fraction]:
    return [moment for t in times for moment in (t.start, t.end, t.transfer_start, t.done, t.wait_start, t.observed)]


def _shifted(row: list[int | Fraction], ahead: int | Fraction) -> list[int | Fraction]:
    return [moment + ahead for moment in row]


def _under_way(rows: list[list[int | Fraction]]) -> int:
    """Return how many later runs have begun at most before a run is over."""
    most, first = 0, [min(row) for row in rows]
    for k, row in enumerate(rows):
        over = max(row)
        most = max(most, sum(1 for begin in first[k + 1 :] if begin < over))
    return most + 1
