"""Who holds how much of which share while ops are dispatched, and in which order they took it and gave it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem, Use


class ShareState:
    """Amounts left, and the ``moments`` of the run so far: ``i`` where op i started, ``~i`` where its end was known."""

    def __init__(self, problem: Problem) -> None:
        self.left = dict(problem.shares)
        self.moments: list[int] = []
        # Asked for at every instant, by the identity of a mode: thousands of ops share a few.
        self._wants = {id(mode): problem.share_uses(mode) for op in problem.ops for mode in op.modes}
        self._holders: dict[int, tuple[float, tuple[Use, ...]]] = {}

    def wants(self, mode: Mode) -> tuple[Use, ...]:
        """Return what ``mode`` holds of shares."""
        return self._wants[id(mode)]

    def offer(self, mode: Mode, now: float, reserved: dict[str, float]) -> bool | None:
        """Return whether there is enough for ``mode``; None if only for something shorter.

        What is short is ``reserved`` until the time at which there may be enough: less urgent ops that take longer are
        kept off it.
        """
        enough = True
        for use in self._wants[id(mode)]:
            limit = reserved.get(use.engine)
            if use.units > self.left[use.engine]:
                enough = False
                until = self._enough_at(use, now)
                reserved[use.engine] = until if limit is None else min(until, limit)
            elif limit is not None and now + mode.duration_ticks > limit:
                return None
        return enough

    def _enough_at(self, use: Use, now: float) -> float:
        """Return when holders will have given back what ``use`` wants, as far as their modes tell."""
        left = self.left[use.engine]
        for until, uses in sorted(self._holders.values(), key=lambda held: held[0]):
            for held in uses:
                if held.engine == use.engine:
                    left += held.units
            if left >= use.units:
                return max(until, now)
        return now

    def start(self, i: int, mode: Mode, now: float) -> None:
        """Let op ``i`` take what ``mode`` holds."""
        self.moments.append(i)
        uses = self._wants[id(mode)]
        if uses:
            self._holders[i] = now + mode.duration_ticks, uses
            for use in uses:
                self.left[use.engine] -= use.units

    def end(self, i: int) -> None:
        """Let op ``i`` give back what it holds."""
        self.moments.append(~i)
        _, uses = self._holders.pop(i, (0, ()))
        for use in uses:
            self.left[use.engine] += use.units
