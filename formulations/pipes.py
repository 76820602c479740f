"""What transfers have one after the other: the pipes of a mode, and with queued channels those too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.problem import Use

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem


class Pipes:
    """The pipes of a problem, with how many units each has, and what every transfer takes of them."""

    def __init__(self, problem: Problem, *, queued: bool) -> None:
        self.units = {engine.name: engine.units for engine in problem.engines if engine.kind == "pipe"}
        capacity = {channel.name: channel.capacity for channel in problem.channels if queued}
        self.units.update({_queue(name): 1 for name in capacity})
        self._uses: dict[int, dict[str, Use]] = {}
        for op in problem.ops:
            for mode in op.modes:
                if mode.dma is not None and id(mode) not in self._uses:
                    self._uses[id(mode)] = self._of(mode, capacity)
        taken = [set(uses) for uses in self._uses.values()]
        self.shared: set[str] = set.intersection(*taken) if taken else set()
        """Those that every transfer takes: while one is full nobody begins."""

    def _of(self, mode: Mode, capacity: dict[str, int]) -> dict[str, Use]:
        found = {use.engine: use for use in mode.uses if use.ticks > 0 and use.engine in self.units}
        for pull in mode.pulls:
            if pull.channel in capacity and pull.rate:
                name = _queue(pull.channel)
                found[name] = Use(engine=name, ticks=-(-mode.latency_ticks * pull.rate // capacity[pull.channel]))
        return found

    def uses(self, mode: Mode) -> dict[str, Use]:
        """Return the pipes that a transfer in ``mode`` takes."""
        return self._uses[id(mode)]


def _queue(channel: str) -> str:
    """Return a name for the queue of a channel that no pipe has."""
    return f"queue of channel {channel}"
