"""How far a run is from its prediction, and which part of that is the clock's: cycles are compared, where known."""

from __future__ import annotations

from fractions import Fraction

from hexloom.formulations.problem import Frozen

SMALL = Fraction(1, 200)
"""Deviations below it are called none: one rounding of a microsecond makes as much."""


class Deviation(Frozen):
    """One run against its prediction, as parts of it.

    ``time = (1 + cycles) / (1 + clock) - 1``: a run of as many cycles as predicted that took longer had a slower clock,
    and the model was right.
    """

    cycles: float
    clock: float
    time: float
    khz: int
    text: str


def deviation(predicted_cycles: int, reference_khz: int, cycles: int, us: int) -> Deviation:
    """Return the deviation of a run of ``cycles`` in ``us`` microseconds from a prediction at ``reference_khz``.

    All arguments are above 0.
    """
    khz = Fraction(cycles * 1000, us)
    by_cycles = Fraction(cycles, predicted_cycles) - 1
    by_clock = khz / reference_khz - 1
    in_time = (1 + by_cycles) / (1 + by_clock) - 1
    clock = f"the clock ran at {float(khz) / 1000:,.1f} MHz ({float(by_clock):+.1%})"
    if max(abs(by_cycles), abs(by_clock)) < SMALL:
        text = "as predicted"
    elif abs(by_cycles) < SMALL:
        text = f"cycles as predicted; {clock}: not the model"
    elif abs(by_clock) < SMALL:
        text = f"{float(by_cycles):+.1%} in cycles: the model"
    else:
        text = f"{float(by_cycles):+.1%} in cycles is the model's; {clock}"
    return Deviation(cycles=float(by_cycles), clock=float(by_clock), time=float(in_time), khz=round(khz), text=text)
