"""The pipes that transfers take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem, Use


class Pipes:
    """The pipes of a problem, with how many units each has, and what every transfer takes of them."""

    def __init__(self, problem: Problem) -> None:
        self.units = {engine.name: engine.units for engine in problem.engines if engine.kind == "pipe"}
        self._uses: dict[int, dict[str, Use]] = {}
        for op in problem.ops:
            for mode in op.modes:
                if mode.dma is not None and id(mode) not in self._uses:
                    self._uses[id(mode)] = {
                        use.engine: use for use in mode.uses if use.ticks > 0 and use.engine in self.units
                    }
        taken = [set(uses) for uses in self._uses.values()]
        self.shared: set[str] = set.intersection(*taken) if taken else set()
        """Those that every transfer takes: while one is full nobody begins."""

    def uses(self, mode: Mode) -> dict[str, Use]:
        """Return the pipes that a transfer in ``mode`` takes."""
        return self._uses[id(mode)]
