"""Fitting the numbers of a machine to observations: robust, and silent about what the data cannot tell.

Gauss-Newton on the logarithms of measured over expected, with Huber's weights. Directions in which the data hardly
change anything are left where the machine file has them; a number is determined only if it hardly takes part in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Model = Callable[[Floats], Floats]

STEP = 0.04
"""Step of a derivative; durations are whole ticks, so it must not be small."""

ROUNDS, STEPS = 3, 2
"""How often slopes are taken, and how many steps are made with each."""

ENOUGH = 1e-4
"""A step that lowers the cost by a smaller part is the last one."""

TRIED = (-0.3, -0.2, -0.1, 0.1, 0.2, 0.3)
"""What is added to the logarithm of a capacity."""

WORTH = 0.002
"""Part of the sum of errors that another capacity must save."""

OUT_OF_THE_WAY = 0.5
SURE = 2.5
"""Standard errors by which another explanation must be worse."""

NOTICED = 1e-6
LEAST_SCATTER = 0.004
"""Scatter below which no recorder can be trusted."""

HUBER = 1.345
LARGEST_STEP = 0.5
KNOWN = 0.015
"""Standard error up to which a number counts as determined: its 95 % interval is within 3 %."""

LOOSE = 0.02
"""Part of a number that may lie in directions the data do not determine."""


class Fit(NamedTuple):
    """The fitted point, standard errors, what is determined, and the scatter (all in logarithms).

    ``moved`` says which numbers change anything, ``spread`` is the scatter of the phases of the widest group that is
    usual, ``unseen`` the error of each residual where the other half alone is fitted.
    """

    point: Floats
    errors: Floats
    determined: NDArray[np.bool_]
    moved: NDArray[np.bool_]
    spread: float
    unseen: Floats


def fit(model: Model, start: Floats, groups: Ints, halves: NDArray[np.bool_], capacities: Sequence[int] = ()) -> Fit:
    """Return the point at which the residuals ``model(point)`` are smallest, begun at ``start``.

    Parameters
    ----------
    model
        Residuals at a point.
    groups
        A number for each residual; those of one group scatter alike, and count the less the wider that is.
    halves
        Which residuals are in the first of two halves; each half is predicted from the other.
    capacities
        Positions of numbers that act only below some value: no slope leads there, so values are tried.
    """
    point = start.copy()
    residuals = model(point)
    for _ in range(ROUNDS):
        point, residuals = _tried(model, point, residuals, capacities)
        slopes = _slopes(model, point)
        for _ in range(STEPS):
            scale = _scales(residuals, groups)
            step = np.clip(_step(slopes, residuals, scale), -LARGEST_STEP, LARGEST_STEP)
            after = model(point + step)
            if _cost(after, scale) > _cost(residuals, scale) * (1 - ENOUGH):
                break
            point, residuals = point + step, after
        else:
            continue
        break
    slopes = _slopes(model, point)
    scale = _scales(residuals, groups)
    errors, loose = _errors(slopes, residuals, scale)
    moved = np.abs(slopes).max(axis=0, initial=0.0) > NOTICED
    determined = moved & (errors <= KNOWN) & (loose <= LOOSE)
    for k in capacities:
        determined[k] = determined[k] and not _has_rival(model, point, residuals, slopes, groups, capacities, k)
    return Fit(point, errors, determined, moved, float(np.median(scale)), _unseen(slopes, residuals, scale, halves))


def _scales(residuals: Floats, groups: Ints) -> Floats:
    """Return the scatter of the group of each residual, from the middle of the group."""
    found = np.empty(len(residuals))
    for group in np.unique(groups):
        mine = groups == group
        middle = np.median(residuals[mine])
        found[mine] = max(LEAST_SCATTER, float(np.median(np.abs(residuals[mine] - middle))) * 1.4826)
    return found


def _cost(residuals: Floats, scale: Floats) -> float:
    """Return Huber's cost."""
    size = np.abs(residuals) / scale
    return float(np.where(size <= HUBER, size**2 / 2, HUBER * (size - HUBER / 2)).sum())


def _weights(residuals: Floats, scale: Floats) -> Floats:
    """Return what a residual and its slopes are multiplied by: one over the scatter, less for outliers."""
    return np.asarray(np.sqrt(1 / np.maximum(np.abs(residuals) / (HUBER * scale), 1.0)) / scale, dtype=np.float64)


def _tried(model: Model, point: Floats, residuals: Floats, capacities: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the best of the points where one capacity after the other has another value."""
    for k in capacities:
        for by in TRIED:
            other = point.copy()
            other[k] += by
            there = model(other)
            if np.abs(there).sum() < np.abs(residuals).sum() * (1 - WORTH):
                point, residuals = other, there
    return point, residuals


def _has_rival(
    model: Model, point: Floats, residuals: Floats, slopes: Floats, groups: Ints, capacities: Sequence[int], k: int
) -> bool:
    """Whether the data are explained about as well where capacity ``k`` is never full, and another one is."""
    other = point.copy()
    other[k] += OUT_OF_THE_WAY
    there = model(other)
    other, there = _tried(model, other, there, [c for c in capacities if c != k])
    step = _step(slopes, there, _scales(there, groups))
    step[k] = 0.0
    for by in (1.0, 0.5):
        after = model(other + by * step)
        if np.abs(after).sum() < np.abs(there).sum():
            there = after
    worse = np.abs(there) - np.abs(residuals)
    return float(worse.sum()) < SURE * float(np.sqrt((worse**2).sum()))


def _slopes(model: Model, point: Floats) -> Floats:
    """Return derivatives, as means of both sides: durations are maxima, and have kinks."""
    columns = []
    for k in range(len(point)):
        up, down = point.copy(), point.copy()
        up[k] += STEP
        down[k] -= STEP
        columns.append((model(up) - model(down)) / (2 * STEP))
    return np.column_stack(columns) if columns else np.empty((len(model(point)), 0))


def _kept(slopes: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return right singular vectors, singular values, and which of the directions the data determine."""
    _, values, vectors = np.linalg.svd(slopes, full_matrices=False)
    size = slopes.shape[1]
    if len(values) < size:
        _, values, vectors = np.linalg.svd(np.vstack([slopes, np.zeros((size, size))]), full_matrices=False)
    return vectors, values, values > 1 / (2 * KNOWN)


def _step(slopes: Floats, residuals: Floats, scale: Floats) -> Floats:
    weights = _weights(residuals, scale)
    weighted = slopes * weights[:, None]
    vectors, values, kept = _kept(weighted)
    found = np.zeros(slopes.shape[1])
    for value, vector in zip(values[kept], vectors[kept], strict=True):
        found -= vector * float((weighted @ vector) @ (residuals * weights)) / value**2
    return found


def _errors(slopes: Floats, residuals: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return standard errors inside the determined directions, and how much of each number lies outside them."""
    vectors, values, kept = _kept(slopes * _weights(residuals, scale)[:, None])
    inside = np.sqrt(((vectors[kept] / values[kept, None]) ** 2).sum(axis=0))
    return inside, np.sqrt((vectors[~kept] ** 2).sum(axis=0))


def _unseen(slopes: Floats, residuals: Floats, scale: Floats, halves: NDArray[np.bool_]) -> Floats:
    """Return the errors of each half where the other one alone is fitted, near the point of the whole fit."""
    errors = np.abs(residuals)
    for half in (halves, ~halves):
        if half.any() and not half.all():
            step = _step(slopes[half], residuals[half], scale[half])
            errors[~half] = np.abs(residuals[~half] + slopes[~half] @ step)
    return errors
