"""A study: the four groups of a workload or a problem, solved op by op or as loops, and what each thing is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexloom.formulations.problem import Problem
from hexloom.optimizer.errors import NoPlanError
from hexloom.optimizer.periodic.choose import source_for
from hexloom.optimizer.periodic.roll import ImpossibleLoopError, NotALoopError
from hexloom.optimizer.solve import machine_of, rule_named, solve
from hexloom.optimizer.study.ablations import ablate
from hexloom.optimizer.study.groups import study_of
from hexloom.optimizer.study.loops import study_of_loops
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.solve import Progress
    from hexloom.optimizer.study.report import Study

ABLATION_SHARE = 0.5
"""Part of the time limit that each ablation gets."""


def study(
    work: Workload | Problem,
    hw: Machine | str | None = None,
    *,
    time_limit_s: float = 10.0,
    contention: str = "fluid",
    seed: int | None = None,
    ablations: Sequence[str] = (),
    on_progress: Progress | None = None,
) -> Study:
    """Solve ``work`` and put the plan beside what people run today, with and without concurrency.

    Parameters
    ----------
    work, hw, time_limit_s, contention, seed, on_progress
        As for `hexloom.optimizer.solve.solve`.
    ablations
        Names of what to leave out, one at a time, of `hexloom.optimizer.study.ablations.ABLATIONS`.

    Raises
    ------
    InvalidInputError
        The input is wrong.
    NoPlanError
        There is no plan to compare.
    """
    machine = None if isinstance(work, Problem) else machine_of(work, hw)
    found = None
    notes: tuple[str, ...] = ()
    if isinstance(work, Workload) and machine is not None:
        source, _ = source_for(work, machine, rule_named(contention))
        try:
            found = None if source is None else study_of_loops(source, time_limit_s=time_limit_s, seed=seed)[0]
        except ImpossibleLoopError as why:
            raise NoPlanError(f"{work.name}: there is no plan to compare with: {why}", proven=True) from None
        except NotALoopError as why:
            notes = (f"not as loops: {why}",)
    if found is None:
        how: dict[str, Any] = {"contention": contention, "seed": seed, "on_progress": on_progress}
        found = study_of(solve(work, machine, time_limit_s=time_limit_s, **how), work.name)
        found = found.model_copy(update={"notes": (*notes, *found.notes)})
    if not ablations:
        return found
    plan = found.makespan("plan")
    assert plan is not None
    rows = tuple(
        ablate(name, work, machine, plan, time_limit_s * ABLATION_SHARE, contention, seed) for name in ablations
    )
    return found.model_copy(update={"ablations": rows})
