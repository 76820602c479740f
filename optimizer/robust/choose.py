"""The plan that holds up best when durations scatter, chosen among many orders that are nearly as good.

All orders see the same runs (common random numbers). Some runs leave the better half, and so on until the
last ones have seen all; who is best by then is held against the nominal plan on as many fresh runs, and taken only if
the 95 % interval of what its 95th percentile gains lies above 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.robust.durations import p95
from hexloom.optimizer.robust.pool import pool_of
from hexloom.optimizer.robust.replay import Replay
from hexloom.optimizer.robust.report import CriticalOp, Makespans, Robustness

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.robust.durations import Durations
    from hexloom.optimizer.schedule import Schedule

ORDERS = 60
"""Distinct orders that are looked for."""

WITHIN = 0.02
"""Part of the best makespan by which they may take longer when all goes as predicted."""

SAMPLES = 1000
ROUNDS = (0.05, 0.1, 0.25, 0.5, 1.0)
"""After these parts of the samples the better half stays."""

RUNS_EACH = 0.22
"""Runs that an order sees on average, as a part of the samples, when half of them leave at each round."""

MOST_WORK = 8_000_000
"""Most runs times ops, some minutes: of larger plans fewer orders are looked for. A count, so that seeds hold."""

RESAMPLED = 1000
MOST_CRITICAL = 12


@dataclass(frozen=True)
class Scatter:
    """How robust plans are chosen: what scatters, and how much is tried."""

    durations: Durations
    within: float = WITHIN
    orders: int = ORDERS
    samples: int = SAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.within <= 1:
            raise InvalidInputError(f"robust: within {self.within} is no part; write 0.02 for 2 %")
        if self.orders < 1 or not 20 <= self.samples <= 10**6:
            raise InvalidInputError("robust: write at least 1 order and from 20 to 1,000,000 samples")


class _Contender:
    """A plan, what it takes when all goes as predicted, and what its runs took so far."""

    def __init__(self, problem: Problem, rule: Rule, plan: Plan, predicted: float) -> None:
        self.plan, self.predicted = plan, predicted
        self.replay = Replay(problem, plan, rule)
        self.took: list[float] = []

    def run(self, factors: NDArray[np.float64]) -> None:
        """See further runs."""
        self.took += [self.replay.makespan(row) for row in factors[len(self.took) :].tolist()]


def choose(
    problem: Problem, rule: Rule, best: tuple[Decision, Simulated], scatter: Scatter
) -> tuple[Robustness, tuple[Decision, Simulated]]:
    """Return what scattering durations do to the plan of ``best``, and the plan that bears them best.

    Raises
    ------
    InvalidInputError
        If the durations are of other ops.
    """
    judge = evaluator(rule)
    factors = scatter.durations.factors(problem, scatter.samples, 2 * scatter.seed)
    orders = pool_of(problem, judge, best, scatter.within, _wanted(scatter, len(problem.ops)), scatter.seed)
    contenders = [_Contender(problem, rule, order.plan, order.makespan) for order in orders]
    nominal, left = contenders[0], contenders
    for part in ROUNDS:
        seen = factors[: max(20, round(part * scatter.samples))]
        for contender in left:
            contender.run(seen)
        left = sorted(left, key=lambda one: (p95(np.array(one.took)), one.predicted))
        if part < 1:
            left = left[: max(2, -(-len(left) // 2))]
    winner = left[0]
    fresh = scatter.durations.factors(problem, scatter.samples, 2 * scatter.seed + 1)
    runs, critical = _observed(nominal, fresh)
    others, of_winner = (runs, critical) if winner is nominal else _observed(winner, fresh)
    gain, low, high = _gain(runs, others, scatter.seed)
    kept = winner is nominal or low <= 0
    chosen = nominal if kept else winner
    found = _report(
        problem, scatter, len(orders), (nominal, runs), (chosen, runs if kept else others), (gain, low, high), kept=kept
    )
    found = found.model_copy(update={"critical": _most(problem, critical if kept else of_winner, scatter.samples)})
    if kept:
        return found, best
    decision = orders[contenders.index(chosen)].decision
    return found, (decision, judge(problem, decision))


def _wanted(scatter: Scatter, ops: int) -> int:
    """Return how many orders can be judged on all samples."""
    runs = MOST_WORK / ops - 2 * scatter.samples
    return min(scatter.orders, max(2, int(runs / (RUNS_EACH * scatter.samples))))


def monte_carlo(schedule: Schedule, durations: Durations, *, samples: int = SAMPLES, seed: int = 0) -> Robustness:
    """Return what scattering durations do to a finished schedule, whose plan stays.

    Raises
    ------
    InvalidInputError
        If the durations are of other ops.
    """
    scatter = Scatter(durations, 0.0, 1, samples, seed)
    problem = schedule.problem.under(schedule.contention)
    factors = durations.factors(problem, samples, 2 * seed + 1)
    only = _Contender(problem, schedule.contention, schedule.plan, float(schedule.makespan))
    runs, critical = _observed(only, factors)
    found = _report(problem, scatter, 1, (only, runs), (only, runs), (0.0, 0.0, 0.0), kept=True)
    return found.model_copy(update={"critical": _most(problem, critical, samples)})


def _observed(contender: _Contender, factors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the makespans of fresh runs, and for each op how many of them hang on it."""
    count = np.zeros(factors.shape[1], dtype=np.int64)
    took = []
    for row in factors.tolist():
        took.append(contender.replay.makespan(row))
        count[contender.replay.critical()] += 1
    return np.array(took), count


def _resampled(runs: Sequence[NDArray[np.float64]], seed: int) -> NDArray[np.float64]:
    """Return the 95th percentile of each of ``runs``, of the same runs drawn again and again."""
    source = np.random.default_rng(seed)
    found = np.empty((RESAMPLED, len(runs)))
    size = len(runs[0])
    for k in range(RESAMPLED):
        drawn = source.integers(0, size, size)
        found[k] = [p95(of[drawn]) for of in runs]
    return found


def _gain(nominal: NDArray[np.float64], other: NDArray[np.float64], seed: int) -> tuple[float, float, float]:
    """Return by how much the 95th percentile of ``other`` is lower, and the 95 % interval of that."""
    drawn = _resampled((nominal, other), seed)
    low, high = np.quantile(drawn[:, 0] - drawn[:, 1], (0.025, 0.975))
    return p95(nominal) - p95(other), float(low), float(high)


def _makespans(of: tuple[_Contender, NDArray[np.float64]], scale: float, seed: int) -> Makespans:
    contender, runs = of
    low, high = np.quantile(_resampled((runs,), seed)[:, 0], (0.025, 0.975))
    values = [contender.predicted, float(np.median(runs)), float(runs.mean()), p95(runs), float(low), float(high)]
    return Makespans(**dict(zip(Makespans.model_fields, (value * scale for value in values), strict=True)))


def _most(problem: Problem, count: NDArray[np.int64], runs: int) -> tuple[CriticalOp, ...]:
    order = sorted(range(len(count)), key=lambda i: (-count[i], i))[:MOST_CRITICAL]
    return tuple(CriticalOp(op=problem.ops[i].name, part=float(count[i] / runs)) for i in order if count[i])


def _report(
    problem: Problem,
    scatter: Scatter,
    orders: int,
    nominal: tuple[_Contender, NDArray[np.float64]],
    chosen: tuple[_Contender, NDArray[np.float64]],
    gain: tuple[float, float, float],
    *,
    kept: bool,
) -> Robustness:
    tick: Fraction | None = problem.tick
    scale = 1.0 if tick is None else float(tick)
    unit: Literal["us", "ticks"] = "ticks" if tick is None else "us"
    was, now = _makespans(nominal, scale, scatter.seed), _makespans(chosen, scale, scatter.seed)
    waits = {(w.before, w.after) for w in nominal[0].plan.waits}
    added = tuple((w.before, w.after) for w in chosen[0].plan.waits if (w.before, w.after) not in waits)
    if orders == 1:
        text = f"in {scatter.samples:,} runs median {was.median:,.3f} {unit}, p95 {was.p95:,.3f} {unit}"
    elif kept:
        text = (
            f"no other of {orders} orders within {scatter.within:.0%} has a lower p95 than {was.p95:,.3f} {unit} "
            "beyond chance: the plan stays"
        )
    else:
        text = (
            f"another of {orders} orders within {scatter.within:.0%} has p95 {now.p95:,.3f} {unit} instead of "
            f"{was.p95:,.3f}, and takes {now.predicted:,.3f} instead of {was.predicted:,.3f} when all goes as predicted"
        )
    return Robustness(
        name=problem.name,
        unit=unit,
        durations=scatter.durations.source or "given",
        seed=scatter.seed,
        within=scatter.within,
        orders=orders,
        samples=scatter.samples,
        fresh=scatter.samples,
        nominal=was,
        chosen=now,
        kept=kept,
        p95_gain=gain[0] * scale,
        p95_gain_low=gain[1] * scale,
        p95_gain_high=gain[2] * scale,
        guards=added,
        critical=(),
        text=text,
    )
