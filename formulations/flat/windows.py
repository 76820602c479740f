"""Large problems in a tight scratchpad: a schedule that counts bytes gets its addresses window by window.

A list schedule that only counts bytes is often near the bound, but its lifetimes cannot be packed: a little has to
move, somewhere. The windows go from left to right; in each a few dozen ops are solved with addresses, first in their
order, which soon finds a place for all, then freely. What comes later moves as one by what the window could not avoid.
Afterwards the same windows, begun from what was found, look for what can be done earlier.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import islice, product
from typing import TYPE_CHECKING

from hexloom.formulations.dispatch import Dispatch
from hexloom.formulations.flat.cut import Stretch, cut, named_units, put_back, stretch_at
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Guard, Job
from hexloom.formulations.flat.solution import FlatOptions, FlatSolution
from hexloom.formulations.flat.verify import broken_rule
from hexloom.formulations.greedy import list_from
from hexloom.formulations.late_starts import late_starts
from hexloom.formulations.limit import OPS_PER_SECOND, Budget
from hexloom.formulations.line.search import OrderSearch
from hexloom.formulations.line.tables import applies
from hexloom.formulations.packing.fixed_times import pack
from hexloom.formulations.scratch_state import ScratchState
from hexloom.formulations.starts import due_policies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.policy import Policy
    from hexloom.formulations.problem import Problem

    Best = tuple[Decision, Simulated]

WINDOW_OPS, STEP = 40, 20
"""Ops of a window, of which more take too long and fewer cannot make way for each other; and from one to the next."""

SEQUENCE_S, FREE_S, RETRY_S = 1.0, 0.6, 2.0
"""Seconds for a window in its order, for any order after that, and for any order where its own has no place."""

USUAL_S = 25.0
"""With more time for all windows each gets more in proportion."""

LEAST_S = 0.1
"""With less time for a window nothing comes of it."""

OVERDRAW = 2.5
"""Times its share of what is left that a window may take: most need much less."""

TRIES = 6
"""How often in a row a window may find no place before the schedule is given up."""

POLICIES, POLICY_SHARE = 36, 0.12
"""Policies from which schedules come, and the part of the time for them."""

POLICIES_PER_TURN = 6
"""So many of them before searches over orders begin, and from one of their turns to the next."""

INSURED, WITH_ADDRESSES = 2, 1
"""Of so many of them there is a plan by list scheduling with addresses, and the step that makes it."""

HEADROOMS = (0.01, 0.0)
"""Parts of the scratchpad that a search over orders leaves free, for the sake of addresses; tried in turn."""

ORDER_SHARE, LIKELY = 0.45, 1.05
"""Part of what is left for each such search; what it finds is given addresses up to this factor above the bound."""

BEGUN_SHARE = 0.03
"""Where beginning a search over orders took at most this part of the time, the next begins as well."""

TURN_SHARE, TURNS = 0.005, 4
"""Part of the time that each of them has in the first turn, and how many turns there are, each twice as long."""

WORTH_MORE = 1.002
"""A plan longer than its schedule by more than this factor says that addresses are the trouble, not the order."""

FIRST_SHARE = 0.8
"""Part of what is left for the addresses of one schedule."""

HOPELESS = 1.12
"""Times the bound: windows gain a few per cent on the schedule they begin with."""

WORTH = 1.1
"""Schedules that are longer than the shortest by more than this factor are not worth the time."""


class WindowSearch:
    """Find plans window by window, for at most ``seconds``; counted in limits of what was asked with a ``seed``."""

    def __init__(
        self,
        guard: Guard,
        problem: Problem,
        bounds: Bounds,
        evaluate: Evaluate,
        seconds: float,
        seed: int | None,
        on_progress: Callable[[float, float], None] | None = None,
    ) -> None:
        self.guard, self.problem, self.bounds, self.evaluate = guard, problem, bounds, evaluate
        self.best: Best | None = None
        self.budget = Budget(seconds, counted=seed is not None)
        self.seed = seed
        self.on_progress = on_progress
        self._lower = int(bounds.best.ticks)
        self._asked = 0
        self._patience = max(1.0, seconds / USUAL_S)
        self._enough_gap = Fraction(0)
        self.interrupted = False
        self.evaluations = 0
        self._firm = frozenset(b for b in range(len(problem.buffers)) if self._tiles(b) > 1)

    def run(self, enough_gap: Fraction = Fraction(0)) -> Best | None:
        """Return the best plan found; one at most ``enough_gap`` of its makespan above the bound ends the search."""
        self._enough_gap = enough_gap
        try:
            placed = self._place_all()
            while placed is not None and self.budget.left > LEAST_S and not self._met:
                placed = self.sweep(placed)
                self._offer(placed)
        except KeyboardInterrupt:
            self.interrupted = True
        return self.best

    def _place_all(self) -> FlatSolution | None:
        """Give addresses to one schedule after the other, those that got none again; return the shortest with some."""
        placed: FlatSolution | None = None
        waiting: list[FlatSolution] = []
        for times in self._schedules():
            if waiting and times.makespan > WORTH * waiting[0].makespan:
                break
            waiting.append(times)
            if self._met or self.budget.left < LEAST_S or self._is_longer(times):
                break
            if self._is_hopeless(times):
                return None
            found = self.place(times, self.budget.left * (1 - FIRST_SHARE))
            if found is not None:
                self._offer(found)
                placed = found if placed is None or found.makespan < placed.makespan else placed
                if self._met:
                    return placed  # what comes next may take long to find
        while placed is None and waiting and self.budget.left > LEAST_S:
            # Every question has a seed of its own: what found no place before may find one now.
            waiting.append(waiting.pop(0))
            placed = self.place(waiting[-1])
            if placed is not None:
                self._offer(placed)
        return placed

    def _is_longer(self, times: FlatSolution) -> bool:
        return self.best is not None and times.makespan >= self.best[1].makespan

    def _is_hopeless(self, times: FlatSolution) -> bool:
        """Whether windows would start so far from the bound that who tries whole plans is better given the time."""
        return self.best is not None and times.makespan > HOPELESS * self._lower

    @property
    def _met(self) -> bool:
        return self.best is not None and self._is_enough(self.best[1].makespan)

    def _is_enough(self, makespan: float) -> bool:
        return makespan - self._lower <= self._enough_gap * makespan

    def _schedules(self) -> Iterator[FlatSolution]:
        """Yield schedules that count bytes, those of the cheapest way first and whatever meets the bound at once.

        Then list schedules that are short enough, those of orders, and the other list schedules.
        """
        whole = self.budget.left
        policies = islice(due_policies(self.problem, self.bounds, self.problem.fastest_modes), POLICIES)
        found: list[Dispatch] = []
        yield from self._listed(islice(policies, POLICIES_PER_TURN), whole, found)
        self.guard.prepare()  # it loads while orders are searched
        searches = self._searches()
        begun: list[OrderSearch] = []
        for search in searches:
            before = self.budget.left
            search.begin(before * (1 - ORDER_SHARE))
            quick = before - self.budget.left <= BEGUN_SHARE * before
            if search.end is not None:
                begun.append(search)
            yield from self._changed(begun, 0.0)
            yield from self._listed(islice(policies, POLICIES_PER_TURN), whole, found)
            if not quick:
                break
        for turn in range(TURNS):
            # Which way gets there cannot be foreseen, and those that do mostly get there soon.
            yield from self._changed(begun, whole * TURN_SHARE * 2**turn)
            yield from self._listed(islice(policies, POLICIES_PER_TURN), whole, found)
        yield from self._listed(policies, whole, found)
        found.sort(key=lambda counted: counted.now)
        for counted in found[:INSURED]:
            listed = list_from(self.problem, counted.policy, WITH_ADDRESSES, WITH_ADDRESSES)
            self.budget.spend(len(self.problem.ops) / OPS_PER_SECOND)
            if listed is not None:
                self._judge(listed.decision)
        yield from self._by_order(searches)
        for counted in found:
            yield with_short_lives(self.problem, counted)

    def _listed(self, policies: Iterable[Policy], whole: float, found: list[Dispatch]) -> Iterator[FlatSolution]:
        """Yield the list schedules that are short enough, in their part of the ``whole`` time; note the others."""
        until = self.budget.left - whole * POLICY_SHARE * POLICIES_PER_TURN / POLICIES
        for policy in policies:
            self.budget.spend(len(self.problem.ops) / OPS_PER_SECOND)
            counted = counted_schedule(self.problem, policy)
            if counted is not None and self._is_enough(counted.now):
                yield with_short_lives(self.problem, counted)
            elif counted is not None:
                found.append(counted)
            if self.budget.left < until:
                break

    def _searches(self) -> list[OrderSearch]:
        problem, bounds, budget, seed = self.problem, self.bounds, self.budget, self.seed or 0
        searches: list[OrderSearch] = []
        for headroom in HEADROOMS if applies(problem) else ():
            orders = searches[0].orders if searches else None
            searches.append(OrderSearch(problem, bounds, budget, seed, counted_schedule, headroom, orders))
        return searches

    def _changed(self, begun: list[OrderSearch], seconds: float) -> Iterator[FlatSolution]:
        """Let searches change their orders for some ``seconds`` each; yield what meets the bound, once."""
        for search in list(begun):
            end = search.improve(max(LEAST_S, self.budget.left - seconds), self._enough)
            if self._is_enough(end):
                begun.remove(search)
                yield search.solution()

    def _by_order(self, searches: Sequence[OrderSearch]) -> Iterator[FlatSolution]:
        """Yield what is found by searches over orders, if it is close to the bound; whose find gets places goes on."""
        for search in searches:
            shortest: int | None = None
            while self.budget.left > LEAST_S:
                found = search.run(self.budget.left * (1 - ORDER_SHARE), self._enough)
                if found is None or found.makespan > LIKELY * self._lower or found.makespan == shortest:
                    break
                shortest = found.makespan
                yield found
                if self.best is None or self.best[1].makespan > WORTH_MORE * shortest:
                    break

    @property
    def _enough(self) -> int:
        return int(self._lower * (1 + self._enough_gap))

    def place(self, times: FlatSolution, spare: float = 0.0) -> FlatSolution | None:
        """Return the schedule with addresses for all buffers, a little later where it must.

        None where a window finds no place, or the budget would fall below ``spare``.
        """
        lives = [self._life(times, b) for b in range(len(self.problem.buffers))]
        offsets = pack(self.problem, lives)
        if offsets is not None:
            return replace(times, offsets=dict(enumerate(offsets)))
        offsets = pack(self.problem, [life if b in self._firm else (0, 0) for b, life in enumerate(lives)])
        if offsets is None:
            return None
        times = replace(times, offsets={b: offsets[b] for b in sorted(self._firm)})
        n, at, failed = len(times.start), 0, 0
        while self.budget.left > spare + LEAST_S:
            windows = max(1.0, (n - at) / STEP - 1)
            found = self._solve(
                times, stretch_at(times, at, WINDOW_OPS), OVERDRAW * (self.budget.left - spare) / windows
            )
            if found is None:
                failed += 1
                if failed > TRIES:
                    return None
                at = max(0, at - STEP * failed // 2)
                continue
            failed = max(0, failed - 1)
            times = found
            if at + WINDOW_OPS >= n:
                return times
            at += STEP
        return None

    def sweep(self, times: FlatSolution) -> FlatSolution:
        """Return a schedule that is not longer, after every window was solved once more."""
        for at in range(0, max(1, len(times.start) - STEP), STEP):
            if self.budget.left < LEAST_S or times.makespan <= self._lower:
                break
            found = self._ask(times, stretch_at(times, at, WINDOW_OPS), min(FREE_S, self.budget.left), keep=True)
            if found is not None and found.makespan <= times.makespan:
                times = found
        return times

    def _tiles(self, b: int) -> int:
        whole = self.problem.wholes.get(b)
        parts = [self.problem.buffers[part] for part in ((b,) if whole is None else whole.parts)]
        users = [self.problem.ops[self.problem.op_index[name]] for part in parts for name in part.ops]
        return len({(op.task, op.tile) for op in users})

    def _life(self, times: FlatSolution, b: int) -> tuple[int, int]:
        buffer = self.problem.buffers[b]
        users = [self.problem.op_index[name] for name in buffer.ops]
        born, died = min((times.start[u] for u in users), default=0), max((times.known[u] for u in users), default=0)
        return -1 if buffer.from_start else born, times.makespan + 1 if buffer.to_end else died

    def _solve(self, times: FlatSolution, stretch: Stretch, seconds: float) -> FlatSolution | None:
        """Solve a stretch in its order, then, if that is late, freely from what came of it."""
        asked = min(SEQUENCE_S * self._patience, seconds)
        found = self._ask(times, stretch, asked, goal=times.makespan, sequence=True)
        if found is not None and found.makespan <= times.makespan:
            return found
        limit = (RETRY_S if found is None else FREE_S) * self._patience
        return self._ask(found or times, stretch, min(limit, seconds), goal=times.makespan) or found

    def _ask(
        self,
        times: FlatSolution,
        stretch: Stretch,
        seconds: float,
        *,
        goal: int = 0,
        sequence: bool = False,
        keep: bool = False,
    ) -> FlatSolution | None:
        """Solve a stretch until the makespan is ``goal``.

        With ``keep`` all other addresses stay, and the earliest is looked for that is no later than now.
        """
        piece = cut(self.problem, self.bounds.heads_tails, times, stretch, self._firm, keep=keep)
        self._asked += 1
        options = FlatOptions(
            addresses=True,
            upper=times.makespan + (0 if keep else stretch.reach - stretch.begin),
            # What only needs addresses ends at once when it gets them without delay.
            lower=max(min(self._lower, times.makespan) if keep else goal, times.makespan - stretch.shift),
            seconds=seconds,
            deterministic=self.seed is not None,
            seed=(self.seed or 0) + self._asked,
            workers=1,
            presolve=False,
        )
        self.budget.spend(seconds)
        window = replace(piece.window, sequence=sequence)
        found = self.guard.solve(Job(piece.problem, piece.heads_tails, options, None, window=window)).solution
        return None if found is None else put_back(times, piece, found)

    def _offer(self, times: FlatSolution) -> None:
        """Keep the plan with these times if it is better than the best: the solver is not believed."""
        if broken_rule(self.problem, times) is not None:
            return
        for hold, late in product((False, True), repeat=2):
            decision = decision_of(self.problem, times, hold_transfers=hold, late_issues=late)
            if decision is None:
                continue
            if self._judge(decision).makespan <= times.makespan:
                return

    def _judge(self, decision: Decision) -> Simulated:
        """Keep the plan if it is better than the best."""
        simulated = self.evaluate(self.problem, decision)
        self.evaluations += 1
        if not simulated.late and (self.best is None or simulated.makespan < self.best[1].makespan):
            self.best = decision, simulated
            if self.on_progress is not None:
                self.on_progress(simulated.makespan, self._lower)
        return simulated


def counted_schedule(problem: Problem, policy: Policy) -> Dispatch | None:
    """Return what ``policy`` leads to when bytes are counted and addresses left open."""
    scratch = ScratchState(
        problem, None, careful=policy.careful, depth=policy.depth, turns=policy.turns, reserve=policy.reserve
    )
    dispatch = Dispatch(problem, policy, scratch)
    return dispatch if dispatch.run() else None


def with_short_lives(problem: Problem, counted: Dispatch) -> FlatSolution:
    """Return the times of a schedule, with lives of buffers as short as it leaves them."""
    start, moved, known = (tuple(map(int, of)) for of in (counted.start, counted.moved, counted.known))
    start, moved, known = late_starts(problem, counted.chosen, counted.units, (start, moved, known))
    units = named_units(problem, counted.chosen, counted.units)
    return FlatSolution(start, moved, known, tuple(counted.chosen), units, None, int(counted.now))
