"""Guards that keep contention as predicted when ops take other times than told.

A plan holds no times. Two ops that never work together in the prediction, because the one ends before the other
begins, may do so in a run in which something before them was faster: then they slow each other, and what waits for the
more urgent one is late. A guard that the prediction satisfies anyway costs it nothing and rules that out; it is added
where runs with other durations end earlier with it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.mode import Mode
    from hexloom.formulations.problem import Op, Problem

SAMPLES = 16
"""Runs with other durations that are compared."""

FASTEST = 0.4
"""Ops take between this part of their time and all of it: predictions are of the slow side, and haste does the harm."""

WORST = 4
"""One run in so many counts, the worst: that is what guards are for."""

HELPS = 0.005
"""What the worst runs must gain, as a part."""

MOST_OPS = 200
"""Up to so many ops it is tried; of more a plan has guards enough."""

CLOSE = 1e-9
"""Makespans that differ by less than this part are equal."""


def steadied(problem: Problem, best: tuple[Decision, Simulated], evaluate: Evaluate) -> tuple[Decision, Simulated]:
    """Return the plan with guards between ops that would slow each other if they met, where that helps.

    The predicted makespan stays what it is.
    """
    decision, nominal = best
    wanted = tuple(pair for pair in _apart(problem, decision, nominal) if pair not in set(decision.guards))
    if len(problem.ops) > MOST_OPS or not wanted:
        return best
    guarded = replace(decision, guards=(*decision.guards, *wanted))
    simulated = evaluate(problem, guarded)
    if simulated.late or simulated.makespan > nominal.makespan * (1 + CLOSE):
        return best
    source = random.Random(0)
    others = [_hastened(problem, source) for _ in range(SAMPLES)]
    without, with_guards = (_worst([evaluate(other, d).makespan for other in others]) for d in (decision, guarded))
    return (guarded, simulated) if with_guards < without * (1 - HELPS) else best


def _apart(problem: Problem, decision: Decision, nominal: Simulated) -> list[tuple[int, int]]:
    """Return, for every op that pulls, the one that would slow it and ended last before it began."""
    capacity = {channel.name: channel.capacity for channel in problem.channels}
    rates = [
        {pull.channel: pull.rate for pull in op.modes[m].pulls if pull.rate}
        for op, m in zip(problem.ops, decision.modes, strict=True)
    ]
    place = {action: k for k, action in enumerate(decision.actions)}
    ended = sorted((end, i) for i, end in enumerate(nominal.ended) if rates[i])
    found = []
    for x, mine in enumerate(rates):
        start = nominal.start[x]
        rivals = [
            i
            for end, i in ended
            if i != x
            and place.get(~i, place[i]) < place[x]
            and end <= start
            and any(mine.get(c, 0) and mine[c] + rate > capacity[c] for c, rate in rates[i].items())
        ]
        if rivals and rivals[-1] not in problem.predecessors[x]:
            found.append((rivals[-1], x))
    return found


def _hastened(problem: Problem, source: random.Random) -> Problem:
    """Return the problem with every op faster by a part of its own."""
    return problem.changed(ops=tuple(_faster(op, source.uniform(FASTEST, 1.0)) for op in problem.ops))


def _faster(op: Op, factor: float) -> Op:
    def of(mode: Mode) -> Mode:
        latency = round(mode.latency_ticks * factor)
        uses = tuple(use.model_copy(update={"ticks": min(latency, round(use.ticks * factor))}) for use in mode.uses)
        return mode.model_copy(update={"uses": uses, "latency_ticks": latency})

    return op.model_copy(update={"modes": tuple(of(mode) for mode in op.modes)})


def _worst(makespans: list[float]) -> float:
    """Return the mean of the worst."""
    worst = sorted(makespans, reverse=True)[: max(1, len(makespans) // WORST)]
    return sum(worst) / len(worst)
