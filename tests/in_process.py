"""The solver of the flat model in this process, for tests that solve many problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexloom.formulations.flat.child import model_of
from hexloom.formulations.flat.guard import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.flat.guard import Errand, Job
    from hexloom.formulations.flat.solution import FlatSolution


class InProcess:
    """The guard without its process: a new one for every example would take a second each."""

    def __init__(self, *, lazy: bool = False) -> None:
        self.spent = 0.0
        self.stopped = False
        self.prepared = not lazy

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def prepare(self) -> None:
        self.prepared = True

    def stop(self) -> None:
        self.stopped = True

    def solve(self, job: Job, on_solution: Callable[[FlatSolution], None] | None = None) -> Outcome:
        flat = model_of(job)
        if job.incumbent is not None:
            flat.hint(*job.incumbent)
        seen: list[FlatSolution] = []

        def take(solution: FlatSolution) -> None:
            seen.append(solution)
            if on_solution is not None:
                on_solution(solution)

        assert flat.model.validate() == ""
        status, bound = flat.solve(take)
        self.spent += flat.spent
        return Outcome(status, bound, seen[-1] if seen else None)

    def run(self, errand: Errand) -> tuple[str, int, Any]:
        found: list[Any] = []
        status, bound = errand.work(found.append)
        return status, bound, found[-1] if found else None
