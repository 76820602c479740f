"""What a formulation decides: modes, units, an order of actions, guards and offsets. It holds no times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


@dataclass(frozen=True, slots=True)
class Decision:
    """A complete choice for a problem of n ops and b buffers; positions are those of the problem.

    Parameters
    ----------
    modes
        n positions into each op's modes.
    units
        n tuples, per use of the chosen mode the unit ids it holds (empty for pipes and uses of zero ticks).
    actions
        An order in which every queue meets its actions: ``i`` starts op i, ``~i`` lets the owner of DMA op i wait
        for its end. It agrees with every precedence and every guard.
    offsets
        b addresses in bytes. Two buffers that share addresses live one after the other in ``actions``.
    guards
        Pairs (before, after) of ops that are ordered although nothing else asks for it, because it pays.
    flows
        Under rule ``rigid``, pairs (before, after) by which users of a channel hand on their share of it: whatever the
        timing, ops that nothing orders never demand more than its capacity.
    """

    modes: tuple[int, ...]
    units: tuple[tuple[tuple[int, ...], ...], ...]
    actions: tuple[int, ...]
    offsets: tuple[int, ...]
    guards: tuple[tuple[int, int], ...] = ()
    flows: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Simulated:
    """What the simulator says of a decision, in ticks; one number per op.

    Whole numbers where nothing slows an op, else floats: the exact times are for those who quote them.

    ``start`` is where an op begins, ``transfer_start`` where a transfer takes its pipes (for other ops the start),
    ``done`` when the result exists, ``ended`` when that is known. ``late`` says that an op misses its deadline: such a
    decision is no solution.
    """

    makespan: float
    start: tuple[float, ...]
    transfer_start: tuple[float, ...]
    done: tuple[float, ...]
    ended: tuple[float, ...]
    late: bool = False


Evaluate = Callable[["Problem", Decision], Simulated]
"""The simulator as formulations see it."""
