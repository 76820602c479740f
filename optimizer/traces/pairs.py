"""What two classes of ops leave each other: a two-phase law (co-run, then solo), regressed over load ratios.

An op that works ``together`` microseconds of its time beside one of the other class has done, when it ends, what takes
it ``alone = (took - together) + speed * together`` by itself. Over runs at several load ratios (Tacker takes 10, 20,
180 and 190 %) that is a line through the origin in ``together``, whose slope is what is lost, ``1 - speed``. Where only
the end of both is recorded the two speeds follow from the totals: `by_totals`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hexloom.formulations.problem import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

LEAST_RUNS, LEAST_RATIOS = 6, 2
LEAST_TOGETHER = 0.05
"""Part of its time that an op must share, or it says nothing."""

SLOWEST = 0.05
DEGENERATE = 0.05
"""How far from one line two must be."""

HUBER = 1.345
ROUNDS = 20
WIDEST = 0.1
"""Scatter of the speed of one run above which the middle is none."""


class Shared(NamedTuple):
    """One op of a run: what it takes alone, what it took, and how much of that beside the other class; microseconds.

    ``other_us`` is what the other class had to do; it tells one load ratio from another.
    """

    alone_us: float
    took_us: float
    together_us: float
    other_us: float


class PairRow(Frozen):
    """The speed that is left to an op of ``victim`` beside one of ``cause``; the interval is two standard errors.

    ``residual`` is the median error of an op's time with that speed, ``unseen`` with the speed that all other load
    ratios say, ``without`` as if they did not slow each other. ``refused`` says why it is no number, "" where it is.
    """

    victim: str
    cause: str
    speed: float
    low: float
    high: float
    runs: int
    ratios: int
    residual: float
    unseen: float
    without: float
    refused: str = ""


def pair_row(victim: str, cause: str, seen: Sequence[Shared]) -> PairRow:
    """Return what ``seen`` says of ``victim`` beside ``cause``."""
    rows = np.array([one for one in seen if one.together_us >= LEAST_TOGETHER * one.took_us], dtype=float)
    rows = rows.reshape(-1, 4)
    ratios = np.round(np.log2(np.maximum(rows[:, 3], 1e-9) / np.maximum(rows[:, 0], 1e-9)) * 2).astype(int)
    kinds = np.unique(ratios)
    speed, error = _speed(rows)
    unseen = np.empty(len(rows))
    for kind in kinds:
        mine = ratios == kind
        left = _speed(rows[~mine])[0] if len(kinds) > 1 else speed
        unseen[mine] = _errors(rows[mine], left)
    refused = ""
    if len(rows) < LEAST_RUNS or len(kinds) < LEAST_RATIOS:
        refused = f"{len(rows)} runs at {len(kinds)} load ratios are too few"
    elif error * np.sqrt(len(rows)) > WIDEST:
        refused = "the speed differs from run to run"
    middle = float(np.median(np.abs(_errors(rows, speed)))) if len(rows) else 0.0
    return PairRow(
        victim=victim,
        cause=cause,
        speed=speed,
        low=max(SLOWEST, speed - 2 * error),
        high=min(1.0, speed + 2 * error),
        runs=len(rows),
        ratios=len(kinds),
        residual=middle,
        unseen=float(np.median(np.abs(unseen))) if len(rows) else 0.0,
        without=float(np.median(np.abs(_errors(rows, 1.0)))) if len(rows) else 0.0,
        refused=refused,
    )


def _errors(rows: NDArray[np.float64], speed: float) -> NDArray[np.float64]:
    """Return how far the two-phase law is from the time that each op took, as a part of it.

    What was done together is done at ``speed``; the rest, alone, is what is left to do.
    """
    alone, took, together, _ = rows.T
    told = np.where(together >= took * (1 - 1e-9), alone / speed, together + np.maximum(0.0, alone - speed * together))
    return np.asarray(told / took - 1, dtype=np.float64)


def _speed(rows: NDArray[np.float64]) -> tuple[float, float]:
    """Return the slope of what is done over time together, robust, and its standard error."""
    if not len(rows):
        return 1.0, 0.0
    alone, took, together, _ = rows.T
    done = alone - (took - together)
    speed = float(np.median(done / together))
    scale = 0.0
    for _ in range(ROUNDS):
        off = (done - speed * together) / together
        scale = max(1e-6, float(np.median(np.abs(off - np.median(off)))) * 1.4826)
        weights = together**2 / np.maximum(np.abs(off) / (HUBER * scale), 1.0)
        better = float((weights * done / together).sum() / weights.sum())
        if abs(better - speed) < 1e-9:
            break
        speed = better
    return min(1.0, max(SLOWEST, speed)), scale / float(np.sqrt(len(rows)))


class Totals(NamedTuple):
    """Two ops started together: what each takes alone, and when both were done; microseconds."""

    first_us: float
    second_us: float
    both_us: float


def by_totals(points: Sequence[Totals]) -> tuple[float, float, float]:
    """Return the speeds of the first and of the second beside each other, and the median error; from totals alone.

    ``both = co-run + solo``: the co-run ends with the op that has less to do at its speed, the solo phase is the rest
    of the other one. Where the second ends first, ``both = first + second (1 - a) / b`` with the speeds a and b, and
    the other way round: two lines in a and b.

    Raises
    ------
    ValueError
        Without runs in which either op ends first, or where the lines are one: with ``a + b`` about 1 nothing is gained
        side by side, whatever a is.
    """
    rows = np.array(points, dtype=float).reshape(-1, 3)
    first_ends = rows[:, 0] < rows[:, 1]
    a = b = 1.0
    for _ in range(ROUNDS):
        if first_ends.all() or not first_ends.any():
            raise ValueError("totals tell the speeds only where either op is the longer one in some runs")
        mine, other = rows[~first_ends], rows[first_ends]
        loss = float(np.median((mine[:, 2] - mine[:, 0]) / mine[:, 1]))  # (1 - a) / b
        other_loss = float(np.median((other[:, 2] - other[:, 1]) / other[:, 0]))  # (1 - b) / a
        if abs(1 - loss * other_loss) < DEGENERATE:
            raise ValueError("totals do not tell the speeds apart: side by side nothing is gained; record both ends")
        a, b = (1 - loss) / (1 - loss * other_loss), (1 - other_loss) / (1 - loss * other_loss)
        a, b = min(1.0, max(SLOWEST, a)), min(1.0, max(SLOWEST, b))
        again = rows[:, 0] / a < rows[:, 1] / b
        if (again == first_ends).all():
            break
        first_ends = again
    ends = np.minimum(rows[:, 0] / a, rows[:, 1] / b)
    told = ends + np.maximum(rows[:, 0] - a * ends, rows[:, 1] - b * ends)
    return a, b, float(np.median(np.abs(told / rows[:, 2] - 1)))


def together_us(
    times: Mapping[str, tuple[float, float]], classes: Mapping[str, str]
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return, for each op and each other class that worked beside it, the time together, and that class's in all.

    An op that two others were beside at once says nothing of either; it is left out.
    """
    found: dict[tuple[str, str], tuple[float, float]] = {}
    names = sorted(times)
    for name in names:
        start, end = times[name]
        beside = [o for o in names if o != name and times[o][0] < end and start < times[o][1]]
        spans = sorted(times[o] for o in beside)
        if any(a[1] > b[0] + 1e-9 for a, b in pairwise(spans)):
            continue
        kinds = {classes[o] for o in beside if classes[o]}
        if len(kinds) == 1 and all(classes[o] for o in beside):
            shared = sum(min(end, times[o][1]) - max(start, times[o][0]) for o in beside)
            found[name, kinds.pop()] = shared, sum(times[o][1] - times[o][0] for o in beside)
    return found
