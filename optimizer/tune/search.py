"""Choosing the parameters of a kernel: loops of today are simulated, plans are solved, floors exclude the rest.

Floors are cheap and close for the loop of today, so the best chunks for it are found without looking at most of them.
A plan of one's own can be anything between its floor and that loop: choices are solved in the order of their loops, as
long as there is time, and what is neither solved nor excluded is counted as open.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from hexloom.hwmodels import Machine, cost, format_bytes, load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.ggml_layout import TILE
from hexloom.optimizer.lower import lower
from hexloom.optimizer.solve import rule_named
from hexloom.optimizer.tune.parameters import (
    DEPTHS,
    MOST_CHUNKS,
    Parameters,
    Shape,
    grid_of,
    in_words,
    todays,
    workload_of,
)
from hexloom.optimizer.tune.report import Counts, RangeRow, Tuned, TuneRow
from hexloom.optimizer.tune.trials import Trials, us_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.optimizer.infeasibility import Infeasibility
    from hexloom.optimizer.kernels.ggml_layout import WeightType
    from hexloom.optimizer.solve import Result
    from hexloom.optimizer.tune.floors import Floor
    from hexloom.optimizer.tune.report import Lever

OVERHEADS_US = (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(5, 2))
"""Costs of a fork/join and of a hand-over to the HMX between which the real ones may lie: none is published."""

USUAL_OVERHEAD_US = Fraction(1)
"""Their mean, at which the choice is made: what is best where they are free is the worst where they are not."""

LARGEST = 1_000_000
"""Rows, depth or columns of a product."""

FORKS = ("fork_join", "hmx_handover_spin")
"""Overheads that depend on how a kernel is cut."""

CHUNKS_SHARE, ORDER_SHARE, LOOPS_SHARE = 0.2, 0.15, 0.3
"""Parts of the time: for chunks alone, for order alone, and, of what is left then, for loops of joint choices."""

SOLVE_S = 2.0
"""Seconds for one choice."""

POLISH_SHARE = 0.25
"""Part of the time for joint choices that is kept for the best one."""


@dataclass(frozen=True, slots=True)
class TuneResult:
    """The report, or why nothing fits; ``best`` is the solved workload of the choice that was made.

    ``interrupted``: Ctrl-C ended the search, and the report is of what was found by then.
    """

    tuned: Tuned | None
    infeasibility: Infeasibility | None = None
    best: Result | None = None
    interrupted: bool = False


def tune(
    kernel: str,
    m: int,
    k: int,
    n: int,
    weight_type: WeightType = "q4_0",
    hw: Machine | str | None = None,
    *,
    threads: int | None = None,
    time_limit_s: float = 30.0,
    overhead_us: float | Fraction = USUAL_OVERHEAD_US,
    contention: str = "fluid",
    seed: int | None = None,
    chunks: tuple[int, int] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> TuneResult:
    """Choose the chunks, buffers, and splits of loads and vector work for one shape of a kernel.

    Parameters
    ----------
    kernel
        A kernel of the library that can be tuned: ``matmul_w4a16``.
    m, k, n
        Rows, depth and columns of the product.
    weight_type
        ``q4_0``, ``q8_0`` or ``f16``.
    hw
        Machine or the name of one.
    threads
        HVX workers, all of the machine by default.
    time_limit_s
        Seconds of search; with a ``seed`` counted in work, so that the same seed gives the same report.
    overhead_us
        Microseconds of a fork/join and of a hand-over to the HMX, at which the choice is made; not used where the
        machine file has one number for them and no range.
    contention
        How ops share channels, as in `solve`.
    chunks
        Rows and columns of a chunk that run today, where somebody knows them; by default ggml-hexagon's own choice.
    on_progress
        Called with a line of text at every step.

    Raises
    ------
    InvalidInputError
        The input is wrong; the message is one line.
    """
    if kernel != "matmul_w4a16":
        raise InvalidInputError(f"kernel {kernel!r} cannot be tuned; known: matmul_w4a16")
    if hw is None:
        raise InvalidInputError("tune needs a machine: name one, such as hexagon-v79")
    for name, size in (("m", m), ("k", k), ("n", n)):
        if not 1 <= size <= LARGEST:
            raise InvalidInputError(f"{name} = {size} must be between 1 and {LARGEST:,}")
    for what, value, unit in (("time limit", time_limit_s, "s"), ("overhead", overhead_us, "us")):
        if not 0 <= value < float("inf"):
            raise InvalidInputError(f"{what} {value} {unit} must be a number that is not negative")
    named = hw if isinstance(hw, Machine) else load_hw(hw)
    machine = with_overhead(named, Fraction(overhead_us))
    shape = Shape(m, k, n, weight_type)
    count = machine.hvx_contexts if threads is None else threads
    trials = Trials(shape, machine, count, rule_named(contention), time_limit_s, seed)
    # What is wrong with the input is said before any search; a product in one chunk has few ops.
    lower(workload_of(shape, machine, trials.chosen(-(-m // TILE) * TILE, -(-n // TILE) * TILE)), machine, trials.rule)
    today = todays(shape, machine, count) if chunks is None else trials.chosen(*chunks)
    return _Tuning(trials, time_limit_s, Fraction(overhead_us), on_progress or (lambda _: None), today).run()


def with_overhead(machine: Machine, us: Fraction) -> Machine:
    """Return the machine where every fork/join and every hand-over to the HMX costs ``us``, if it knows a range."""
    known = machine.ranged()
    return machine.with_values({f"overheads.{name}": us for name in FORKS if f"overheads.{name}" in known})


class _Tuning:
    def __init__(
        self,
        trials: Trials,
        seconds: float,
        overhead_us: Fraction,
        say: Callable[[str], None],
        today: Parameters | None,
    ) -> None:
        self.trials, self.seconds, self.overhead_us, self.say = trials, seconds, overhead_us, say
        self.shape, self.machine = trials.shape, trials.machine
        self.fixed = [
            (name, float(cost.overhead_us(self.machine, name)))
            for name in FORKS
            if f"overheads.{name}" not in self.machine.ranged()
        ]
        self.today = today
        self.grid = grid_of(self.shape, self.machine, trials.threads, DEPTHS[0])
        self.rows: list[TuneRow] = []
        self.existing: float | None = None
        self.by_chunks: Parameters | None = None
        self.choices: dict[Parameters, Floor] = {}

    def run(self) -> TuneResult:
        trials = self.trials
        try:
            self._explore()
        except KeyboardInterrupt:
            trials.interrupted = True
        if not trials.plans:
            if trials.interrupted:
                raise KeyboardInterrupt
            return TuneResult(None, trials.solve(trials.chosen(32, 32), SOLVE_S).infeasibility)
        # The bound is over all choices, also where Ctrl-C came before they were listed.
        self.choices = self.choices or self._joint_choices()
        best = min(trials.plans, key=lambda chosen: us_of(trials.plans[chosen].makespan_us))
        result = trials.plans[best]
        self._row("all", best, us_of(result.makespan_us), us_of(result.lower_bound_us))
        return TuneResult(self._report(best), None, result, trials.interrupted)

    def _explore(self) -> None:
        """Fill the rows of single levers, then solve for joint choices; what there is no time for is left out."""
        trials, today, grid = self.trials, self.today, self.grid
        if not grid.chunks and grid.too_small:
            room = format_bytes(self.machine.available_vtcm_bytes)
            raise InvalidInputError(
                f"{self.shape.m} x {self.shape.k} x {self.shape.n} makes more than {MOST_CHUNKS:,} chunks of what fits "
                f"into {room}; tune a part of it"
            )
        self.existing = None if today is None else trials.loop_us(today)
        if today is not None and self.existing is not None:
            self._row("existing", today, self.existing)
        floors = {chosen: trials.floors(chosen) for pair in grid.chunks for chosen in [trials.chosen(*pair)]}
        self.by_chunks = trials.best_loop(floors, self.seconds * CHUNKS_SHARE)
        if self.by_chunks is not None:
            self._row("chunks", self.by_chunks, trials.loop_us(self.by_chunks))
        if today is not None and self.existing is not None and trials.left > 0:
            self._row_of_loops("load_parts", [today, *(_with(today, load_parts=parts) for parts in self._parts)])
            self._row_of_loops("slices", [today, _with(today, slices=True)])
        if today is not None and self.existing is not None and trials.left > 0:
            ordered = trials.solve(today, min(trials.left, self.seconds * ORDER_SHARE), fixed_owner=True)
            if trials.keep(today, ordered, bounds=False):
                self._row("order", today, us_of(ordered.makespan_us), us_of(ordered.lower_bound_us))
        self.choices = self._joint_choices()
        self._solve_jointly()

    def _one_by_one(self, chosen: Parameters) -> Parameters:
        """Return ``chosen`` with the parts of loads that make its loop shortest, then in slices if they do."""
        chosen = self._shortest([_with(chosen, load_parts=parts) for parts in (1, *self._parts)])
        return self._shortest([chosen, _with(chosen, slices=True)])

    def _shortest(self, choices: list[Parameters]) -> Parameters:
        """Return the choice with the shortest loop, the first where they are equal."""
        return min(choices, key=lambda chosen: self.trials.loop_us(chosen) or float("inf"))

    @property
    def _parts(self) -> list[int]:
        """Into how many parts a load may be split: powers of two, and one per worker."""
        threads = self.trials.threads
        return sorted({2**e for e in range(1, threads.bit_length()) if 2**e <= threads} | {threads} - {1})

    def _row_of_loops(self, lever: Lever, choices: list[Parameters]) -> None:
        """Add the row of the choice with the shortest loop, today's where none is shorter."""
        best = self._shortest(choices)
        self._row(lever, best, self.trials.loop_us(best))

    def _row(self, lever: Lever, chosen: Parameters, us: float | None, bound: float | None = None) -> None:
        assert us is not None
        self.say(f"{lever}: {us:,.1f} us, {in_words(chosen)}")
        saved = None if self.existing is None else self.existing - us
        self.rows.append(TuneRow(lever=lever, parameters=chosen, makespan_us=us, saved_us=saved, lower_bound_us=bound))

    def _joint_choices(self) -> dict[Parameters, Floor]:
        """Return all choices with their floors, which do not depend on the numbers of buffers."""
        trials = self.trials
        floors: dict[tuple[int, int, int, bool], Floor] = {}
        found: dict[Parameters, Floor] = {}
        for depth in DEPTHS:
            for pair in grid_of(self.shape, self.machine, trials.threads, depth).chunks:
                for parts, slices in product((1, *self._parts), (False, True)):
                    chosen = _with(trials.chosen(*pair), depth=depth, load_parts=parts, slices=slices)
                    if (*pair, parts, slices) not in floors:
                        floors[*pair, parts, slices] = trials.floors(chosen)
                    found[chosen] = floors[*pair, parts, slices]
        # What today's choice is like may have been left out as one of many alike.
        return found | {chosen: trials.floors(chosen) for chosen in trials.loops if chosen not in found}

    def _solve_jointly(self) -> None:
        """Solve the most promising choices one after the other, then the best one again.

        The shortest loop comes first, then what choosing one parameter after the other ends with.
        """
        trials, seconds = self.trials, self.trials.left
        trials.best_loop(self.choices, seconds * LOOPS_SHARE)
        step_by_step = [self._one_by_one(self.by_chunks)] if self.by_chunks is not None and trials.left > 0 else []
        times = {chosen: us for chosen, us in trials.loops.items() if us is not None}
        order = sorted(times, key=times.__getitem__)
        least = min((us_of(of.makespan_us) for of in trials.plans.values()), default=float("inf"))
        for nth, chosen in enumerate(dict.fromkeys((*order[:1], *step_by_step, *order))):
            # A plan is no longer than its loop: with the first one nothing that was simulated is better.
            if trials.interrupted or (nth > 0 and trials.plans and trials.left <= seconds * POLISH_SHARE):
                break
            if self.choices[chosen].plan_us >= least:
                continue
            result = trials.solve(chosen, min(SOLVE_S, trials.left))
            if trials.keep(chosen, result) and us_of(result.makespan_us) < least:
                least = us_of(result.makespan_us)
                self.say(f"all: {least:,.1f} us, {in_words(chosen)}")
        if trials.plans and trials.left > 0:
            best = min(trials.plans, key=lambda chosen: us_of(trials.plans[chosen].makespan_us))
            trials.keep(best, trials.solve(best, trials.left))

    def _report(self, best: Parameters) -> Tuned:
        trials, shape, choices, grid = self.trials, self.shape, self.choices, self.grid
        result = trials.plans[best]
        makespan = us_of(result.makespan_us)
        bounds = {chosen: max(choices[chosen].plan_us, us) for chosen, us in trials.bounds.items()}
        left = [floor.plan_us for chosen, floor in choices.items() if chosen not in bounds and floor.plan_us < makespan]
        bound = min(makespan, *bounds.values(), *left)
        today = None if self.existing is None else self.today
        ranged = self._ranged(today, best)
        spans = [makespan, *(row.makespan_us for row in ranged)]
        return Tuned(
            kernel="matmul_w4a16",
            m=shape.m,
            k=shape.k,
            n=shape.n,
            weight_type=shape.weight_type,
            machine=self.machine.name,
            arch=self.machine.arch,
            vtcm_bytes=self.machine.available_vtcm_bytes,
            contention=trials.rule,
            overhead_us=self.fixed[0][1] if len(self.fixed) == len(FORKS) else float(self.overhead_us),
            existing_us=self.existing,
            existing_parameters=today,
            makespan_us=makespan,
            lower_bound_us=bound,
            gap=(makespan - bound) / makespan,
            range_us=(min(spans), max(spans)),
            bound_by=result.bottleneck or "",
            parameters=best,
            loop_us=None if self.by_chunks is None else trials.loop_us(self.by_chunks),
            loop_parameters=self.by_chunks,
            rows=tuple(self.rows),
            range=ranged,
            counts=Counts(
                too_large=grid.too_large,
                too_small=grid.too_small,
                alike=grid.alike,
                choices=len(choices),
                excluded=len(choices) - len(bounds) - len(left),
                solved=len(bounds),
                open=len(left),
                simulated=len(trials.loops),
            ),
            notes=self._notes(ranged),
        )

    def _ranged(self, today: Parameters | None, best: Parameters) -> tuple[RangeRow, ...]:
        """Return what the loop of today and the plan take where fork/join and hand-over cost more or less."""
        schedule = self.trials.plans[best].schedule
        assert schedule is not None
        rows = []
        for us in OVERHEADS_US if not self.fixed else ():
            times = self.trials.at_other_costs(today, best, schedule, with_overhead(self.machine, us))
            if times is not None:
                rows.append(RangeRow(overhead_us=float(us), existing_us=times[0], makespan_us=times[1]))
        return tuple(rows)

    def _notes(self, ranged: tuple[RangeRow, ...]) -> tuple[str, ...]:
        """Return what a reader should know of the numbers."""
        notes = ["interrupted: joint choices were left unsolved"] if self.trials.interrupted else []
        if self.shape.m <= 32:
            notes.append("for at most 32 rows ggml-hexagon does not pipeline its chunks: existing_us is too kind to it")
        notes += [
            f"{name} is {us:g} us in the machine file, which gives no range: used as it is" for name, us in self.fixed
        ]
        worse = [row for row in ranged if row.existing_us is not None and row.makespan_us >= row.existing_us]
        notes += [f"at {row.overhead_us:g} us a fork/join and hand-over the plan is no better" for row in worse]
        return tuple(notes)


def _with(chosen: Parameters, **changed: object) -> Parameters:
    return chosen.model_copy(update=changed)
