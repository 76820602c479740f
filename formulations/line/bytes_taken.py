"""How many bytes are taken from when to when, and when so many more are free."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

LONGEST = 128
"""With more changes than so many what is past should be forgotten."""


class Bytes:
    """The bytes taken: ``used[k]`` from ``times[k]`` to the next of ``times``, the last for good."""

    __slots__ = ("room", "times", "used")

    def __init__(self, room: int, held: int) -> None:
        self.room = room
        self.times, self.used = [0], [held]

    def copy(self) -> Bytes:
        """Return bytes that are taken apart from these."""
        twin = Bytes.__new__(Bytes)
        twin.room, twin.times, twin.used = self.room, self.times[:], self.used[:]
        return twin

    def shift(self, by: int) -> None:
        """Move all times."""
        self.times = [at + by for at in self.times]

    def like(self, other: Bytes, floor: int, shift: int) -> bool:
        """Whether from ``floor`` on all is as in ``other``, only ``shift`` later."""
        k, m = bisect_right(self.times, floor) - 1, bisect_right(other.times, floor - shift) - 1
        return self.used[k:] == other.used[m:] and [at - shift for at in self.times[k + 1 :]] == other.times[m + 1 :]

    def add(self, at: int, size: int) -> bool:
        """Take ``size`` bytes more from ``at`` on, for good; whether there are so many changes that some should go."""
        times, used = self.times, self.used
        k = bisect_left(times, at)
        if k == len(times) or times[k] != at:
            times.insert(k, at)
            used.insert(k, used[k - 1] if k else 0)
        for j in range(k, len(times)):
            used[j] += size
        return len(times) > LONGEST

    def forget(self, floor: int) -> None:
        """Forget what was before ``floor``."""
        past = bisect_right(self.times, floor) - 1
        if past > 0:
            del self.times[:past], self.used[:past]

    def fits(self, at: int, need: int) -> int | None:
        """Return the first moment from ``at`` on from which ``need`` bytes are free for good."""
        room, used, times = self.room - need, self.used, self.times
        j = len(used) - 1
        if used[j] > room:
            return None
        while times[j] > at and j:
            j -= 1
            if used[j] > room:
                return max(at, times[j + 1])
        return at

    def fits_while(self, at: int, ticks: int, need: int, later: int) -> int | None:
        """Return the first moment from ``at`` on with ``need`` bytes for ``ticks``, and ``later`` bytes after that."""
        found = self.fits(at, max(0, later))
        times, room = self.times, self.room - need
        while found is not None:
            j = bisect_left(times, found + max(1, ticks)) - 1
            while j >= 0 and self.used[j] <= room and times[j] > found:
                j -= 1
            if j < 0 or self.used[j] <= room:
                return found
            found = times[j + 1] if j + 1 < len(times) else None
        return None
