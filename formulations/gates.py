"""What must be free before any of the ops that want the same units need be asked whether they can start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hexloom.formulations.problem import Mode
    from hexloom.formulations.share_state import ShareState

Gate = tuple[list[float], int | None] | str
"""Until when the units of an engine are busy, and which of them it must be (None: any); or the name of a share."""


class Gates:
    """Who need not be asked: while a gate is shut its ops would be refused, and keep nothing that others could take.

    ``busy_until`` says of every unit when it is free. With a cap transfers have no gates: they are to be seen waiting.
    """

    def __init__(self, busy_until: dict[str, list[float]], shares: ShareState, *, capped: bool) -> None:
        self._busy_until = busy_until
        self._shares = shares
        self._capped = capped
        self._of: dict[Hashable, tuple[Gate, ...]] = {}

    def set(self, wish: Hashable, mode: Mode, *, observed: bool = False) -> None:
        """Learn that ops with this ``wish`` want, in their only mode, what ``mode`` does; or that of its end."""
        self._of[wish] = self._gates(mode, observed)

    def shut(self, wish: Hashable, now: float) -> bool:
        """Whether no op with this wish can start now."""
        for gate in self._of.get(wish, ()):
            if isinstance(gate, str):
                if not self._shares.left[gate]:
                    return True
            elif (min(gate[0]) if gate[1] is None else gate[0][gate[1]]) > now:
                return True
        return False

    def _gates(self, mode: Mode, observed: bool) -> tuple[Gate, ...]:
        if mode.dma is not None:
            owners = self._busy_until[mode.dma.owner_engine]
            return () if self._capped and not observed else ((owners, mode.dma.owner_unit),)
        wanted = self._shares.wants(mode)
        if wanted:
            return (wanted[0].engine,) if len(wanted) == 1 else ()
        held = [use for use in mode.uses if use.ticks > 0]
        busy = [self._busy_until[use.engine] for use in held]
        if len(held) > 1 and any(len(of) > 1 and use.units > 1 for of, use in zip(busy, held, strict=True)):
            return ()  # some of the units it wants may be free: it keeps them
        return tuple((of, None) for of in busy)
