"""The answer about a pipeline in words, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexloom.optimizer.pipeline.deadlock import Deadlock
from hexloom.optimizer.pipeline.replay import Replay

if TYPE_CHECKING:
    from hexloom.optimizer.pipeline.decide import Answer
    from hexloom.optimizer.pipeline.model import Pipeline
    from hexloom.optimizer.pipeline.replay import Line

FIRST_LINES, LAST_LINES = 20, 60
"""Of a longer interleaving the middle is left out of the text."""

TITLES = {
    "read_before_write": "read before write",
    "overwrite": "overwrite of a live buffer",
    "two_writers": "two writers",
    "deadlock": "deadlock",
    "queue_full": "push on a full queue",
    "queue_empty": "wait on an empty queue",
    "not_queued": "wait for a job that is not in the queue",
    "unexpected": "another job than the code expects",
    "left_over": "pushes left at the end",
    "left_signals": "signals left at the end",
}
"""The kinds of fault in words."""


def report(pipeline: Pipeline, answer: Answer) -> str:
    """Return a proof or a fault as lines of text."""
    low, high = pipeline.trip_counts
    if answer.status == "safe":
        return f"{pipeline.name}: proven safe for {_trips(low, high)} ({_size(answer)})"
    broken = answer.broken
    assert broken is not None
    replay = Replay(answer.machine, broken)
    told = replay.told()
    lines = [f"{pipeline.name}: {TITLES[broken.fault.kind]}: {told.sentence}"]
    if broken.fault.kind == "deadlock":
        lines += _deadlock(Deadlock(replay))
    if told.mend:
        lines.append(f"to mend it: {told.mend}")
    shortest = "the shortest interleaving" if broken.shortest else "an interleaving, perhaps not the shortest,"
    lines.append(f"{shortest} that shows it, with n = {broken.trip_count}{_below(low, broken.trip_count)}:")
    return "\n".join([*lines, *_table(told.lines)])


def undecided(pipeline: Pipeline, answer: Answer) -> str:
    """Return what is known where the limit was reached, and what to change."""
    low, _ = pipeline.trip_counts
    known = f"not decided, not even for n = {low}"
    if answer.proven_to is not None:
        known = f"not decided up to the end: {_trips(low, answer.proven_to)} is safe, larger ones are open"
    change = "give it more with --time-limit" if answer.limit == "time" else "let the threads wait for each other more"
    return f"{known}; the limit was {answer.limit}: {change}"


def numbers(pipeline: Pipeline, answer: Answer) -> dict[str, Any]:
    """Return the answer as plain data."""
    low, high = pipeline.trip_counts
    found: dict[str, Any] = {
        "ok": answer.status == "safe",
        "status": answer.status,
        "iterations": [low, high],
        "proven_to": answer.proven_to,
        "states": answer.states,
        "violations": [],
    }
    broken = answer.broken
    if broken is not None:
        replay = Replay(answer.machine, broken)
        told = replay.told()
        deadlock = Deadlock(replay) if broken.fault.kind == "deadlock" else None
        violation = {
            "kind": broken.fault.kind,
            "parties": list(told.parties),
            "message": told.sentence,
            "mend": told.mend,
            "trip_count": broken.trip_count,
            "shortest": broken.shortest,
            "steps": [line._asdict() for line in told.lines],
            "waits": deadlock.lines() if deadlock else [],
            "cycle": list(deadlock.cycle()) if deadlock else [],
        }
        found["violations"].append(violation)
    return found


def headline(answer: Answer) -> str:
    """Return the fault in one line."""
    broken = answer.broken
    assert broken is not None
    replay = Replay(answer.machine, broken)
    sentence = replay.told().sentence
    if broken.fault.kind == "deadlock":
        sentence = "; ".join(Deadlock(replay).lines())
    steps = f"{len(broken.moves)} steps" if len(broken.moves) != 1 else "1 step"
    return f"{TITLES[broken.fault.kind]} with n = {broken.trip_count}, after {steps}: {sentence}"


def _trips(low: int, high: int) -> str:
    return f"n = {low}" if low == high else f"every trip count from {low} to {high}"


def _size(answer: Answer) -> str:
    threads = len(answer.machine.program.threads)
    orders = "one order stands for all" if answer.machine.program.confluent else "all orders of steps"
    return f"{threads} thread{'s' if threads > 1 else ''}, {answer.states} states, {orders}"


def _below(low: int, trip_count: int) -> str:
    if trip_count == low:
        return ""
    return f" ({_trips(low, trip_count - 1)} is safe)"


def _deadlock(deadlock: Deadlock) -> list[str]:
    cycle = deadlock.cycle()
    lines = [f"  {line}" for line in deadlock.lines()]
    if cycle:
        lines.append(f"  a cycle, each only after the one before: {' -> '.join([*cycle, cycle[0]])}")
    return lines


def _table(lines: tuple[Line, ...]) -> list[str]:
    who = max((len(line.who) for line in lines), default=0)
    where = max((len(line.where) for line in lines), default=0)
    table = [f"{line.number:4}  {line.who:{who}}  {line.where:{where}}  {line.what}" for line in lines]
    if len(table) > FIRST_LINES + LAST_LINES:
        table[FIRST_LINES:-LAST_LINES] = [f" ...  {len(table) - FIRST_LINES - LAST_LINES} steps (--json tells all)"]
    return table
