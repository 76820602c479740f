"""What contention costs in a schedule: per channel, and by whom each op was slowed.

The cost of a channel is what the same plan would save if that channel had no limit; costs of several channels do not
add up, since one may take over where another no longer binds. A cost is less than nothing where the plan would take
longer without: an op that nothing slows may take more of another channel from one that matters more.

What an op loses while it works is laid at the door of those who work beside it: a loss by interference at those who
interfere, in equal parts; a loss by a full channel at those who use it, by the part of it they get.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.problem import slows
from hexloom.optimizer.progress import Progress
from hexloom.optimizer.sharing import Sharing
from hexloom.optimizer.simulate import simulate_fast

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem
    from hexloom.optimizer.schedule import Schedule

OpGroup = tuple[str, str]
"""(task, stage); an op without a stage stands for itself."""

NOISE = 1e-5
"""Part of the makespan below which a cost counts as none."""

FULL = 1 - 1e-9
"""Part of a channel's capacity from which on it counts as full, in floats."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """Two groups of ops that slow each other (or one, whose own ops do), and the ticks of work both lose by that."""

    groups: tuple[OpGroup, OpGroup]
    ticks: float


@dataclass(frozen=True, slots=True)
class Contention:
    """``channels``: ticks that each costs; ``interference``: ticks that it costs; ``rivals``: who loses most first."""

    channels: dict[str, float]
    interference: float
    rivals: tuple[Rivals, ...]


def contention_of(schedule: Schedule) -> Contention | None:
    """Return what contention costs in ``schedule``; None where its rule or its problem knows of none."""
    problem, rule = schedule.problem, schedule.contention
    if not slows(rule) or not (problem.channels or problem.interference):
        return None

    def saved(changed: Problem) -> float:
        without = simulate_fast(changed, schedule.plan, Sharing(changed, rule, exact=False)).makespan
        return float(schedule.makespan) - without

    most: dict[str, list[int]] = {channel.name: [] for channel in problem.channels}
    for pull in (pull for op in problem.ops for mode in op.modes for pull in mode.pulls):
        most[pull.channel].append(pull.rate)
    channels = {}
    for c, channel in enumerate(problem.channels):
        # As much as all ops together could ask for: the largest capacity that a file may state can still be full.
        endless = channel.model_copy(update={"capacity": channel.capacity + sum(most[channel.name])})
        others = (*problem.channels[:c], endless, *problem.channels[c + 1 :])
        channels[channel.name] = _above_noise(saved(problem.model_copy(update={"channels": others})), schedule)
    interference = 0.0
    if problem.interference:
        interference = _above_noise(saved(problem.model_copy(update={"interference": ()})), schedule)
    return Contention(channels, interference, _rivals(schedule))


def _above_noise(ticks: float, schedule: Schedule) -> float:
    return ticks if abs(ticks) > NOISE * float(schedule.makespan) else 0.0


def _rivals(schedule: Schedule) -> tuple[Rivals, ...]:
    problem = schedule.problem
    chosen = {a.op: problem.ops[problem.op_index[a.op]].modes[a.mode] for a in schedule.plan.assignments}
    progress = Progress(problem, schedule.contention, chosen, {row.op: row for row in schedule.rows})
    groups = {op.name: (op.task, op.stage or op.name) for op in problem.ops}
    blame = _Blame(problem)
    lost: dict[tuple[OpGroup, OpGroup], float] = {}
    for span in progress.spans:
        took = float(span.end - span.start)
        for victim, cause, part in blame.of(tuple(chosen[name] for name in span.ops), span.speeds):
            a, b = sorted((groups[span.ops[victim]], groups[span.ops[cause]]))
            lost[a, b] = lost.get((a, b), 0.0) + part * took
    order = sorted(lost.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Rivals(pair, ticks) for pair, ticks in order)


class _Blame:
    """Who takes how much of whose speed, remembered by what works together."""

    def __init__(self, problem: Problem) -> None:
        self.capacity = {channel.name: channel.capacity for channel in problem.channels}
        self.factors: dict[tuple[str, str], float] = {}
        for known in problem.interference:
            pair = known.victim, known.cause
            self.factors[pair] = self.factors.get(pair, 1.0) * float(Fraction(known.factor))
        self.known: dict[tuple[int, ...], list[tuple[int, int, float]]] = {}

    def of(self, modes: tuple[Mode, ...], speeds: tuple[int | float | Fraction, ...]) -> list[tuple[int, int, float]]:
        """Return (victim, cause, part of its full speed that the victim loses to the cause)."""
        key = tuple(id(mode) for mode in modes)
        if key not in self.known:
            self.known[key] = self._find(modes, [float(speed) for speed in speeds])
        return self.known[key]

    def _find(self, modes: tuple[Mode, ...], speeds: list[float]) -> list[tuple[int, int, float]]:
        if min(speeds, default=1.0) >= 1:
            return []
        served: dict[str, dict[int, float]] = {}
        for i, mode in enumerate(modes):
            for pull in mode.pulls:
                served.setdefault(pull.channel, {})[i] = pull.rate * speeds[i]
        full = {c: of for c, of in served.items() if sum(of.values()) >= self.capacity[c] * FULL}
        found: list[tuple[int, int, float]] = []
        for i, mode in enumerate(modes):
            disturbing = [
                j for j, other in enumerate(modes) if j != i and (mode.op_class, other.op_class) in self.factors
            ]
            undisturbed = 1.0
            for j in disturbing:
                undisturbed *= self.factors[mode.op_class, modes[j].op_class]
            found += [(i, j, (1 - undisturbed) / len(disturbing)) for j in disturbing]
            weight: dict[int, float] = {}
            for pull in mode.pulls:
                for j, rate in full.get(pull.channel, {}).items() if pull.rate else ():
                    if j != i:
                        weight[j] = weight.get(j, 0.0) + rate / self.capacity[pull.channel]
            total = sum(weight.values())
            if total > 0 and undisturbed > speeds[i]:
                found += [(i, j, (undisturbed - speeds[i]) * w / total) for j, w in weight.items() if w > 0]
        return found
