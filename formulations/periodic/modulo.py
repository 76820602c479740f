"""Modulo scheduling: the smallest interval of a loop, every smaller one refuted; then the shortest iteration.

Whether an interval does is not monotone in it, so that they are tried one by one, from the best bound on. Each is first
offered to a list schedule, which needs no solver, then to the model that only counts bytes: what that refutes no rings
of any length can save. Then addresses are given by first fit, or by CP-SAT for the starts as they are, and only where
these do not fit is the model with addresses solved. Its rings of free depth have as many copies as are alive at once:
more would be a longer unroll, and can help.

References
----------
Rau, Iterative modulo scheduling, 1996. Eichenberger and Davidson, Efficient formulation for optimal modulo schedulers,
PLDI 1997. Bytes modulo II are circular arcs, whose colouring may need more addresses than bytes are alive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.limit import Budget
from hexloom.formulations.periodic.bounds import impossible, least_ii, lower_bounds
from hexloom.formulations.periodic.fixed_starts import FixedStarts
from hexloom.formulations.periodic.list_schedule import least_length, list_schedule
from hexloom.formulations.periodic.lives import MOST_PAIRS, addresses_are_complete, pairs_to_part
from hexloom.formulations.periodic.model import ModuloJob
from hexloom.formulations.periodic.place import place
from hexloom.formulations.periodic.range_model import RangeJob

if TYPE_CHECKING:
    from hexloom.formulations.periodic.bounds import RateBound
    from hexloom.formulations.periodic.loop import Loop
    from hexloom.formulations.periodic.schedule import ModuloSchedule

MANY = 16
"""From so many open intervals on they are first refuted together."""

GOOD = 0.05
"""Above its bound by at most this part an interval is good where nothing is to be proven."""

LEAST_S = 0.01
"""For any question to the solver."""

Way = Literal["range", "list", "counting", "addresses"]
Tried = Literal["FEASIBLE", "INFEASIBLE", "UNKNOWN"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one interval, or of all from it to ``upto_ticks``.

    ``by``: ``range`` (a relaxation in which the interval is a variable), ``list`` (no solver was asked), ``counting``
    (the model that only counts bytes), or ``addresses``.
    """

    ii_ticks: int
    status: Tried
    by: Way
    upto_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class ModuloResult:
    """``OPTIMAL``: no smaller interval does; ``FEASIBLE``: some smaller ones were not decided in time.

    ``INFEASIBLE``: none does up to the one at which an iteration is over before the next begins; ``reason`` says it.
    ``UNKNOWN``: nothing was found in time. Every interval below ``lower_bound_ticks`` is refuted, by ``bounds`` or by
    an attempt. ``length_ticks`` is from the first start to the last end of an iteration, ``length_proven`` whether no
    schedule of this interval has a shorter one.
    """

    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN"]
    schedule: ModuloSchedule | None
    lower_bound_ticks: int
    bounds: tuple[RateBound, ...]
    attempts: tuple[Attempt, ...]
    reason: str = ""
    length_ticks: int = 0
    length_proven: bool = False

    @property
    def ii_ticks(self) -> int | None:
        """The interval that was found."""
        return None if self.schedule is None else self.schedule.ii_ticks

    @property
    def stages(self) -> int:
        """How many iterations are under way at once at most."""
        return 0 if self.schedule is None else -(-self.length_ticks // self.schedule.ii_ticks)


def modulo_schedule(
    loop: Loop,
    seconds: float = 10.0,
    *,
    seed: int | None = None,
    workers: int = 2,
    shortest: bool = True,
    prove: bool = True,
    guard: Guard | None = None,
) -> ModuloResult:
    """Return the modulo schedule of ``loop`` with the smallest interval that ``seconds`` allow to find.

    Parameters
    ----------
    seed
        With a seed the search is deterministic: one worker, and ``seconds`` are the solver's own.
    shortest
        Whether to look for the shortest iteration once the interval is known.
    prove
        Whether to refute smaller intervals; without it the first good schedule will do.
    guard
        The process to solve in; None starts one.
    """
    reason = impossible(loop)
    if reason is not None:
        return ModuloResult("INFEASIBLE", None, 1, (), (), reason)
    if guard is not None:
        return _Search(loop, seconds, seed, workers, guard).run(shortest and prove, prove)
    with Guard(lazy=True) as own:
        return _Search(loop, seconds, seed, workers, own).run(shortest and prove, prove)


def length_of(loop: Loop, schedule: ModuloSchedule) -> int:
    """Return the ticks from the first start of an iteration to its last end."""
    ends = [schedule.starts[op.name] + op.latency_ticks for op in loop.ops]
    return max(ends) - min(schedule.starts.values())


class _Search:
    """``lower``: all smaller intervals are refuted; ``best``: the schedule with the smallest interval so far."""

    def __init__(self, loop: Loop, seconds: float, seed: int | None, workers: int, guard: Guard) -> None:
        self.loop, self.guard, self.seconds = loop, guard, seconds
        self.budget = Budget(seconds, counted=seed is not None)
        self.job = ModuloJob(
            loop, 1, addresses=False, shortest=False, seconds=seconds, seed=seed or 0, workers=workers,
            deterministic=seed is not None,
        )  # fmt: skip
        self.bounds = lower_bounds(loop)
        self.lower = least_ii(self.bounds)
        self.last = max(self.lower, self._sequential())
        self.best: ModuloSchedule | None = None
        self.attempts: list[Attempt] = []

    @property
    def upper(self) -> int:
        """The interval that is found, or the first that is not looked at."""
        return self.last + 1 if self.best is None else self.best.ii_ticks

    def run(self, shortest: bool, prove: bool) -> ModuloResult:
        """Refute from below for half of the time, improve from above for half of the rest, then refute again."""
        self._list_until_found(at_last=not prove)
        if prove:
            self._refute_many(self.seconds / 5)
            self._refute(self.seconds / 2)
        if prove or self.upper - self.lower > self.lower * GOOD:
            self._improve(self.budget.left / 2)
        if prove:
            self._refute(0.0)
        status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN"]
        length, proven, reason = 0, False, ""
        if self.best is not None:
            status = "OPTIMAL" if self.lower == self.best.ii_ticks else "FEASIBLE"
            length = length_of(self.loop, self.best)
            if shortest:
                self.best, length, proven = self._shorten(self.best)
        elif self.lower > self.last:
            status = "INFEASIBLE"
            reason = (
                f"loop {self.loop.name!r}: all intervals up to {self.last} ticks are refuted, at which iterations need "
                "not overlap; give it more bytes or units, or shorten what it holds"
            )
        else:
            status = "UNKNOWN"
        return ModuloResult(
            status, self.best, self.lower, self.bounds, tuple(self.attempts), reason, length, length_proven=proven
        )

    def _list_until_found(self, *, at_last: bool) -> None:
        """Take the first interval at which a list schedule succeeds, in growing steps; ``at_last``: even late."""
        step, ii = max(1, self.lower // 64) if at_last else 1, self.lower
        while self.best is None and (at_last or self.budget.left > 0):
            self.best = list_schedule(self.loop, ii)
            if self.best is not None:
                self.attempts.append(Attempt(ii, "FEASIBLE", "list"))
            elif ii == self.last:
                return
            ii, step = min(ii + step, self.last), 2 * step

    def _refute_many(self, seconds: float) -> None:
        """Raise ``lower`` by the relaxation where many intervals are open; what it says is proven a second time.

        Each of the two may take ``seconds``.
        """
        if self.upper - self.lower < MANY or self.budget.left <= 0:
            return
        job = RangeJob(
            self.loop,
            self.lower,
            self.upper,
            True,
            seconds / 2,
            self.job.seed,
            self.job.workers,
            self.job.deterministic,
        )
        _, bound, spent = self.guard.run(job)
        self.budget.spend(job.seconds if spent is None else spent)
        if bound > self.lower and self.budget.left > 0:
            again = replace(job, upper=bound, least=False, seed=job.seed + 1)
            word, _, spent = self.guard.run(again)
            self.budget.spend(job.seconds if spent is None else spent)
            if word == "INFEASIBLE":
                self.attempts.append(Attempt(self.lower, "INFEASIBLE", "range", bound - 1))
                self.lower = bound

    def _refute(self, until_left: float) -> None:
        """Refute one interval after the other until one does, one is not decided, or so many seconds are left."""
        while self.lower < self.upper and self.budget.left > until_left:
            status = self._try(self.lower, self.budget.left - until_left)
            if status == "INFEASIBLE":
                self.lower += 1
            elif status == "UNKNOWN":
                return

    def _improve(self, until_left: float) -> None:
        """Halve what lies between ``lower`` and the schedule; what is not found there counts for nothing."""
        low = self.lower
        while low < self.upper and self.budget.left > until_left:
            middle = (low + self.upper) // 2
            if self._try(middle, (self.budget.left - until_left) / 2) != "FEASIBLE":
                low = middle + 1

    def _sequential(self) -> int:
        """Return an interval in which the ops of an iteration fit one after the other."""
        after = [op.latency_ticks for op in self.loop.ops]
        for edge in self.loop.dependencies:
            i = self.loop.op_index[edge.before]
            after[i] = max(after[i], self.loop.delay_ticks(edge))
        return sum(after)

    def _try(self, ii: int, seconds: float) -> Tried:
        """Decide one interval, and note what became of it."""
        status, by, schedule = self._decide(replace(self.job, ii=ii), seconds)
        self.attempts.append(Attempt(ii, status, by))
        if schedule is not None:
            self.best = schedule
        return status

    def _decide(self, job: ModuloJob, seconds: float) -> tuple[Tried, Way, ModuloSchedule | None]:
        """Ask the models; that there is nothing counts when a run without presolve says so too."""
        listed = list_schedule(self.loop, job.ii)
        if listed is not None:
            return "FEASIBLE", "list", listed
        ways: tuple[Way, ...] = ("counting", "addresses")
        for by in ways:
            if by == "addresses" and pairs_to_part(self.loop) > MOST_PAIRS:
                return "UNKNOWN", by, None
            asked = replace(job, addresses=by == "addresses", seconds=seconds)
            word, schedule = self._ask(asked)
            if word == "INFEASIBLE":
                word, schedule = self._ask(replace(asked, presolve=False, seed=asked.seed + 1))
                if by == "addresses" and word == "INFEASIBLE" and not addresses_are_complete(self.loop):
                    return "UNKNOWN", by, None
            if schedule is None:
                return "INFEASIBLE" if word == "INFEASIBLE" else "UNKNOWN", by, None
            if by == "addresses":
                return "FEASIBLE", by, schedule
            placed = self._place(schedule, seconds / 4)
            if placed is not None:
                return "FEASIBLE", by, placed
        raise AssertionError("the model with addresses gave none")

    def _place(self, schedule: ModuloSchedule, seconds: float) -> ModuloSchedule | None:
        """Return addresses for ``schedule`` by first fit, else by CP-SAT."""
        placed = place(self.loop, schedule)
        if placed is not None or self.budget.left <= 0:
            return placed
        job = self.job
        return self._ask(FixedStarts(self.loop, schedule, seconds, job.seed, job.workers, job.deterministic))[1]

    def _ask(self, job: ModuloJob | FixedStarts) -> tuple[str, ModuloSchedule | None]:
        job = replace(job, seconds=max(LEAST_S, min(job.seconds, self.budget.left)))
        word, self.bound, answer = self.guard.run(job)
        self.budget.spend(job.seconds if answer is None else answer.seconds)
        return word, None if answer is None else answer.schedule

    def _shorten(self, schedule: ModuloSchedule) -> tuple[ModuloSchedule, int, bool]:
        """Return the shortest iteration with the interval of ``schedule``, its length, and whether that is proven."""
        best, length = schedule, length_of(self.loop, schedule)
        if length == least_length(self.loop, schedule.ii_ticks):
            return best, length, True
        job = replace(self.job, ii=schedule.ii_ticks, shortest=True)
        for addresses in (False, True):
            if self.budget.left <= 0 or (addresses and pairs_to_part(self.loop) > MOST_PAIRS):
                break
            word, found = self._ask(replace(job, addresses=addresses, seconds=self.budget.left / 2, hint=best.starts))
            if found is None:
                break
            bound = length_of(self.loop, found) if word == "OPTIMAL" else self.bound
            placed = found if addresses else self._place(found, self.budget.left / 4)
            if placed is not None and length_of(self.loop, placed) <= length:
                best, length = placed, length_of(self.loop, placed)
            if placed is not None or bound >= length:
                return best, length, bound >= length
        return best, length, False
