"""Loops: bound <= II = brute force, the checker accepts what is found and refuses what is corrupted."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from hypothesis import event, given
from in_process import InProcess
from loops import loops
from oracle_periodic import smallest_interval

from hexloom.formulations.periodic.modulo import ModuloResult, modulo_schedule
from hexloom.optimizer.check_periodic import check_modulo

if TYPE_CHECKING:
    from hexloom.formulations.periodic.loop import Loop

UPTO = 6


def solved(loop: Loop, shortest: bool = False) -> ModuloResult:
    return modulo_schedule(loop, 20.0, seed=1, shortest=shortest, guard=InProcess())  # type: ignore[arg-type]


@given(loops(3))
def test_the_interval_is_that_of_brute_force(loop: Loop) -> None:
    result = solved(loop)
    event(result.status)
    assert result.status in ("OPTIMAL", "INFEASIBLE")
    found = result.ii_ticks
    upto = UPTO if found is None else min(UPTO, found)
    assert smallest_interval(loop, upto) == (found if found is not None and found <= upto else None)
    if result.schedule is not None:
        assert check_modulo(loop, result.schedule) == []
        assert all(ceil(bound.ticks) <= result.schedule.ii_ticks for bound in result.bounds)
