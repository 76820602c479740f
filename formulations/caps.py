"""How many transfers the dispatcher lets in at a time: plans in which contention is bounded, though not excluded.

Transfers that all begin at once slow each other, and then all end at once: what waits for the first of them idles, and
after that the channel does. Let few of them in, and they come in one after the other while the channel stays full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem


class Caps:
    """What transfers under way demand of each channel, at most ``cap`` times its capacity; None for no cap.

    A plan holds no times, so a transfer that was not let in waits for the end of the one after which it was: those are
    the ``guards``.
    """

    def __init__(self, problem: Problem, cap: float | None) -> None:
        self.guards: list[tuple[int, int]] = []
        self._most = {} if cap is None else {channel.name: channel.capacity * cap for channel in problem.channels}
        self._asked = dict.fromkeys(self._most, 0)
        self._under_way: dict[int, Mode] = {}
        self._kept_out: set[int] = set()
        self._ended: int | None = None
        self._full = False

    def look_again(self) -> None:
        """Begin to ask transfers from the most urgent on: whoever is kept out keeps the less urgent out."""
        self._full = False

    def admit(self, i: int, mode: Mode) -> bool:
        """Whether transfer ``i`` may begin beside those under way; alone it always may."""
        if not self._most or mode.dma is None or not self._under_way:
            return True
        if not self._full and all(
            self._asked[pull.channel] + pull.rate <= self._most[pull.channel] for pull in mode.pulls
        ):
            return True
        self._kept_out.add(i)
        self._full = True
        return False

    def start(self, i: int, mode: Mode) -> None:
        """Count op ``i``, which has begun."""
        if not self._most or mode.dma is None:
            return
        self._under_way[i] = mode
        for pull in mode.pulls:
            self._asked[pull.channel] += pull.rate
        if i in self._kept_out and self._ended is not None:
            self.guards.append((self._ended, i))

    def end(self, i: int) -> None:
        """Forget op ``i``, whose end is known."""
        mode = self._under_way.pop(i, None)
        if mode is not None:
            self._ended = i
            for pull in mode.pulls:
                self._asked[pull.channel] -= pull.rate
