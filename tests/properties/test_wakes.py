"""Nobody sleeps for ever on an event that has come: every interleaving of waiting, triggering and stopping.

A model of `hexloom_wait.c` and of `ring` and `trigger` in `hexloom_run.h`, step by step, with memory in one order; that
the machine's may be weaker is answered there by read-modify-writes that acquire and release. Sleeping has no deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Line:
    """The words of one event, whether the run is stopped, and where each thread stands.

    A waiter is at: "add" (to the sleepers), "read" (the bell), "look" (at the counter and the stop), "sleep" (about
    to), "asleep", "done". A ringer at: its first step, "ask" (for sleepers), "bell", "wake", "done".
    """

    count: int = 0
    sleepers: int = 0
    bell: int = 0
    stop: bool = False
    waiters: tuple[tuple[str, int], ...] = ()
    ringers: tuple[str, ...] = ()


def with_waiter(line: Line, k: int, at: str, seen: int | None = None) -> Line:
    waiters = list(line.waiters)
    waiters[k] = (at, waiters[k][1] if seen is None else seen)
    return replace(line, waiters=tuple(waiters))


def with_ringer(line: Line, k: int, at: str) -> Line:
    return replace(line, ringers=(*line.ringers[:k], at, *line.ringers[k + 1 :]))


def steps(line: Line, needed: int, bug: str) -> Iterator[Line]:
    for k, (at, seen) in enumerate(line.waiters):
        over = line.count >= needed or line.stop
        if at == "add":
            yield with_waiter(replace(line, sleepers=line.sleepers + 1), k, "look" if bug == "looks first" else "read")
        elif at == "read":
            yield with_waiter(line, k, "sleep" if bug == "looks first" else "look", line.bell)
        elif at == "look":
            go_on = "read" if bug == "looks first" else "sleep"
            yield with_waiter(line, k, "done" if over else go_on)
        elif at == "sleep":
            yield with_waiter(line, k, "asleep" if line.bell == seen else "read" if bug != "looks first" else "look")
    for k, at in enumerate(line.ringers):
        if at == "trigger":
            yield with_ringer(replace(line, count=line.count + 1), k, "wake" if bug == "no bell" else "ask")
        elif at == "stop":
            yield with_ringer(replace(line, stop=True), k, "ask")
        elif at == "asks first":  # a mistake: the sleepers are counted before the event is
            yield with_ringer(line, k, "late" if line.sleepers == 0 else "trigger")
        elif at == "late":
            yield with_ringer(replace(line, count=line.count + 1), k, "done")
        elif at == "ask":
            yield with_ringer(line, k, "done" if line.sleepers == 0 else "bell")
        elif at == "bell":
            yield with_ringer(replace(line, bell=line.bell + 1), k, "wake")
        elif at == "wake":
            again = "look" if bug == "looks first" else "read"
            woken = tuple((again, seen) if at == "asleep" else (at, seen) for at, seen in line.waiters)
            yield with_ringer(replace(line, waiters=woken), k, "done")


def lost(waiters: int, ringers: tuple[str, ...], needed: int, bug: str = "") -> tuple[int, int]:
    """Return how many states can be reached, and in how many of them somebody sleeps whom nobody will wake."""
    start = Line(waiters=(("add", 0),) * waiters, ringers=ringers)
    seen, waiting, stuck = {start}, [start], 0
    while waiting:
        line = waiting.pop()
        after = set(steps(line, needed, bug))
        stuck += not after and any(at != "done" for at, _ in line.waiters)
        waiting += after - seen
        seen |= after
    return len(seen), stuck


@pytest.mark.parametrize(
    ("waiters", "ringers", "needed"),
    [
        (1, ("trigger",), 1),
        (2, ("trigger", "trigger"), 2),
        (3, ("trigger",), 1),
        (2, ("trigger", "stop"), 2),
        (2, ("stop", "stop"), 1),
        (2, ("trigger", "trigger", "stop"), 2),
    ],
)
def test_no_wake_is_lost(waiters: int, ringers: tuple[str, ...], needed: int) -> None:
    states, stuck = lost(waiters, ringers, needed)
    assert stuck == 0
    assert states > 10


@pytest.mark.parametrize(
    ("ringers", "bug"),
    [(("asks first",), ""), (("trigger",), "no bell"), (("trigger",), "looks first")],
    ids=["asks for sleepers first", "rings no bell", "looks before it reads the bell"],
)
def test_what_could_be_lost_is_found(ringers: tuple[str, ...], bug: str) -> None:
    assert lost(2, ringers, 1, bug)[1] > 0
