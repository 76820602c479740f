"""The best start times for a fixed order of events where channels are shared: a linear program, exact in rationals.

When the order in which ops begin to work, release their threads and end is kept, it is known who works between any
two of these moments, so all speeds are constants. With D_k the time between moments, an op that shares does
``sum_k x_i(S_k) D_k`` of work, and all that a schedule must respect is linear. The optimum is the best of any start
times in this order, events or not; an event-driven plan can be up to a third longer. What it gains over one shows
where a progress event pays: cut the op that is under way when another should begin.

One thing is freer here than in a run: a transfer may wait after its issue though its pipes are free.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from hexloom.formulations.exact_lp import minimise
from hexloom.formulations.speeds import NOT_SHARING, Speeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.exact_lp import Row
    from hexloom.formulations.problem import Mode, Problem, Rule

SAME = 1e-9
"""Times of a simulated schedule that differ by less than this part are one."""

Kind = Literal["work", "own", "dependency", "unit", "address", "pipe", "deadline", "end"]


class Moment(NamedTuple):
    """Op ``op``, which shares, has done ``amount`` ticks of its work; at 0 it begins to work."""

    op: int
    amount: int


class Pressure(NamedTuple):
    """A relation that holds the makespan: ``ticks`` by which it would fall per tick that the relation is loosened."""

    kind: Kind
    before: int
    op: int
    ticks: Fraction


class Cut(NamedTuple):
    """``begins`` should begin when ``op`` has done ``amount`` of its work: a progress event there makes it possible."""

    op: int
    amount: Fraction
    begins: int


@dataclass(frozen=True, slots=True)
class OrderTimes:
    """The best times in an order of events: begins and known ends, what holds the makespan, and cuts that pay."""

    makespan: Fraction
    start: tuple[Fraction, ...]
    ended: tuple[Fraction, ...]
    pressures: tuple[Pressure, ...]
    cuts: tuple[Cut, ...]


def amounts_of(problem: Problem, mode: Mode) -> tuple[int, ...]:
    """Return the amounts of work at which something happens to an op that shares: begin, releases, end."""
    kinds = {engine.name: engine.kind for engine in problem.engines}
    seen = {use.ticks for use in mode.uses if use.ticks and kinds[use.engine] in ("worker", "pipe")}
    return tuple(sorted({0, mode.latency_ticks} | seen))


def moments_of(problem: Problem, decision: Decision, simulated: Simulated, rule: Rule) -> tuple[Moment, ...]:
    """Return the order of moments of a simulated schedule; of one instant, ends come before begins."""
    return tuple(moment for _, moment in _timed_moments(problem, decision, simulated, rule))


def _timed_moments(
    problem: Problem, decision: Decision, simulated: Simulated, rule: Rule
) -> list[tuple[float, Moment]]:
    speeds = Speeds(problem, rule)
    modes = [op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)]
    loads = [speeds.load_of(mode) for mode in modes]
    begins = []
    for i, mode in enumerate(modes):
        if loads[i] != NOT_SHARING:
            begun = simulated.transfer_start[i] if mode.dma is not None else simulated.start[i] + mode.overhead_ticks
            begins.append((float(begun), i))
    begins.sort(reverse=True)
    found: list[tuple[float, Moment]] = []
    done: dict[int, float] = {}
    ahead: dict[int, list[int]] = {}
    now = 0.0
    while begins or done:
        working = sorted(done)
        pace = [float(x) for x in speeds.speeds(tuple(loads[i] for i in working))]
        ends = [(ahead[i][0] - done[i]) / x for i, x in zip(working, pace, strict=True) if x > 0]
        step = min(ends, default=float("inf"))
        if begins and begins[-1][0] < now + step:
            step = max(0.0, begins[-1][0] - now)
        now += step
        blur = SAME * (1 + now)
        for i, x in zip(working, pace, strict=True):
            done[i] += x * step
            while ahead[i] and ahead[i][0] <= done[i] + x * blur:
                found.append((now, Moment(i, ahead[i].pop(0))))
            if not ahead[i]:
                del done[i]
        while begins and begins[-1][0] <= now + blur:
            i = begins.pop()[1]
            found.append((now, Moment(i, 0)))
            amounts = amounts_of(problem, modes[i])
            if len(amounts) > 1:
                done[i], ahead[i] = 0.0, list(amounts[1:])
    return found


def polished(problem: Problem, decision: Decision, simulated: Simulated, rule: Rule) -> OrderTimes:
    """Return the best times in the order of a simulated schedule."""
    timed = _timed_moments(problem, decision, simulated, rule)
    freed = {moment: at for at, moment in timed}
    handed_on = []
    for engine in problem.engines if any(problem.ops[i].modes[m].dma for i, m in enumerate(decision.modes)) else ():
        users = {
            i: use.ticks
            for i, op in enumerate(problem.ops)
            for use in op.modes[decision.modes[i]].uses
            if use.engine == engine.name and use.ticks and engine.kind == "pipe"
        }
        for a, ticks in users.items():
            free = freed.get(Moment(a, ticks), simulated.transfer_start[a] + ticks)
            late = free - SAME * (1 + free)
            handed_on += [(a, b, engine.name) for b in users if a != b and late <= simulated.transfer_start[b]]
    found = best_times(problem, decision, rule, [moment for _, moment in timed], handed_on)
    assert found is not None, "the schedule itself satisfies its own order"
    return found


class _Line:
    """An affine expression over the variables of the program."""

    def __init__(self, terms: Counter[int] | None = None, constant: int = 0) -> None:
        self.terms = terms or Counter()
        self.constant = constant

    def plus(self, ticks: int) -> _Line:
        return _Line(self.terms, self.constant + ticks)

    def at(self, values: Sequence[Fraction]) -> Fraction:
        return sum((values[j] * a for j, a in self.terms.items()), Fraction(self.constant))


def best_times(
    problem: Problem,
    decision: Decision,
    rule: Rule,
    moments: Sequence[Moment],
    pipe_order: Sequence[tuple[int, int, str]] = (),
) -> OrderTimes | None:
    """Return the best times with the orders of ``decision`` (its guards apart) and of ``moments``; None: there is none.

    ``pipe_order``: (transfer, later one, pipe) by which transfers have a pipe one after the other.
    """
    return _Program(problem, decision, rule, moments, pipe_order).solve()


class _Program:
    def __init__(
        self,
        problem: Problem,
        decision: Decision,
        rule: Rule,
        moments: Sequence[Moment],
        pipe_order: Sequence[tuple[int, int, str]],
    ) -> None:
        self.problem, self.decision = problem, decision
        self.modes = [op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)]
        self.speeds = Speeds(problem, rule, exact=True)
        self.loads = [self.speeds.load_of(mode) for mode in self.modes]
        self.moments = list(moments)
        self.place = {moment: k for k, moment in enumerate(moments)}
        self.columns = len(self.moments)
        n = len(self.modes)
        self.start = [self._start(i) for i in range(n)]
        self.moved = [self._moved(i) for i in range(n)]
        self.done = [self._amount(i, self.modes[i].latency_ticks) for i in range(n)]
        self.known = [self.done[i] if self.modes[i].dma is None else self._variable() for i in range(n)]
        self.end = self._variable()
        self.rows: list[Row] = []
        self.names: list[tuple[Kind, int, int]] = []
        self._own()
        self._work()
        self._orders(pipe_order)

    def _variable(self) -> _Line:
        self.columns += 1
        return _Line(Counter({self.columns - 1: 1}))

    def _moment(self, i: int, amount: int) -> _Line:
        """Return the time of a moment, counted from the entry: all that passes up to it."""
        return _Line(Counter(range(self.place[Moment(i, amount)] + 1)))

    def _start(self, i: int) -> _Line:
        if self.loads[i] == NOT_SHARING or self.modes[i].dma is not None:
            return self._variable()
        return self._moment(i, 0).plus(-self.modes[i].overhead_ticks)

    def _moved(self, i: int) -> _Line:
        """Return when an op begins to work."""
        if self.loads[i] != NOT_SHARING:
            return self._moment(i, 0)
        return self._variable() if self.modes[i].dma is not None else self.start[i].plus(self.modes[i].overhead_ticks)

    def _amount(self, i: int, ticks: int) -> _Line:
        """Return when op ``i`` has done ``ticks`` of its work."""
        return self.moved[i].plus(ticks) if self.loads[i] == NOT_SHARING else self._moment(i, ticks)

    def _least(self, kind: Kind, before: int, op: int, left: _Line, right: _Line) -> None:
        """Demand that ``left`` is at most ``right``."""
        terms = Counter(right.terms)
        terms.subtract(left.terms)
        self.rows.append(({j: a for j, a in terms.items() if a}, left.constant - right.constant))
        self.names.append((kind, before, op))

    def _own(self) -> None:
        """Let each op take its own times."""
        for i, mode in enumerate(self.modes):
            self._least("own", i, i, _Line(), self.start[i])
            self._least("end", i, i, self.known[i], self.end)
            if mode.dma is not None:
                self._least("own", i, i, self.start[i].plus(mode.dma.issue_ticks), self.moved[i])
                self._least("own", i, i, self.done[i].plus(mode.dma.poll_ticks), self.known[i])
            deadline = self.problem.ops[i].deadline_ticks
            if deadline is not None:
                self._least("deadline", i, i, self.known[i], _Line(constant=deadline - self.problem.entry_ticks))

    def _work(self) -> None:
        """Between two moments of an op, it does the work that lies between them, no more and no less."""
        working: set[int] = set()
        rates: list[dict[int, Fraction]] = [{}]
        for i, amount in self.moments:
            if amount == self.modes[i].latency_ticks:
                working.discard(i)
            else:
                working.add(i)
            ops = sorted(working)
            pace = self.speeds.speeds(tuple(self.loads[k] for k in ops))
            rates.append({k: Fraction(x) for k, x in zip(ops, pace, strict=True)})
        for i, mode in enumerate(self.modes):
            if self.loads[i] == NOT_SHARING:
                continue
            for low, high in pairwise(amounts_of(self.problem, mode)):
                between = range(self.place[Moment(i, low)] + 1, self.place[Moment(i, high)] + 1)
                row = {k: rates[k][i] for k in between}
                self.rows += [(row, high - low), ({k: -x for k, x in row.items()}, low - high)]
                self.names += [("work", i, i)] * 2

    def _orders(self, pipe_order: Sequence[tuple[int, int, str]]) -> None:
        for i, befores in enumerate(self.problem.predecessors):
            for p in befores:
                self._least("dependency", p, i, self.known[p], self.start[i])
        for a, b in _address_pairs(self.problem, self.decision):
            self._least("address", a, b, self.known[a], self.start[b])
        for lane in self._lanes():
            for (a, _, released), (b, reached, _) in pairwise(lane):
                self._least("unit", a, b, released, reached)
        for a, b, pipe in pipe_order:
            ticks = next(use.ticks for use in self.modes[a].uses if use.engine == pipe)
            self._least("pipe", a, b, self._amount(a, ticks), self.moved[b])

    def _lanes(self) -> list[list[tuple[int, _Line, _Line]]]:
        """Return per unit its actions in order: (op, when it is reached, when it is released)."""
        workers = {engine.name for engine in self.problem.engines if engine.kind == "worker"}
        lanes: dict[tuple[str, int], list[tuple[int, _Line, _Line]]] = {}
        for action in self.decision.actions:
            i = action if action >= 0 else ~action
            mode = self.modes[i]
            if mode.dma is not None:
                lane = lanes.setdefault((mode.dma.owner_engine, mode.dma.owner_unit), [])
                if action >= 0:
                    lane.append((i, self.start[i], self.start[i].plus(mode.dma.issue_ticks)))
                else:
                    lane.append((i, self.known[i].plus(-mode.dma.poll_ticks), self.known[i]))
                continue
            for use, ids in zip(mode.uses, self.decision.units[i], strict=True):
                for u in ids:
                    released = self._amount(i, use.ticks) if use.engine in workers else self.known[i]
                    lanes.setdefault((use.engine, u), []).append((i, self.start[i], released))
        return list(lanes.values())

    def solve(self) -> OrderTimes | None:
        cost = [0] * self.columns
        (end,) = self.end.terms
        cost[end] = 1
        first = minimise(cost, self.rows)
        if first is None:
            return None
        pressures = tuple(
            Pressure(*name, price)
            for name, price in zip(self.names, first.prices, strict=True)
            if price and name[0] != "end"
        )
        # Of the best times those in which nothing begins later than it must: what still does shows a cut.
        cost = [0] * self.columns
        for line in (*self.start, *self.known):
            for j, a in line.terms.items():
                cost[j] += a
        second = minimise(cost, [*self.rows, ({end: -1}, -first.value)])
        assert second is not None
        entry = self.problem.entry_ticks
        values = second.variables
        return OrderTimes(
            first.value + entry,
            tuple(line.at(values) + entry for line in self.start),
            tuple(line.at(values) + entry for line in self.known),
            pressures,
            self._cuts(values),
        )

    def _cuts(self, values: Sequence[Fraction]) -> tuple[Cut, ...]:
        """For every op that begins at no event, what is under way then and how much of it is done."""
        events = {Fraction(0)} | {line.at(values) for line in self.known}
        released: dict[int, set[Fraction]] = {}
        for lane in self._lanes():
            for (_, _, line), (b, _, _) in pairwise(lane):
                released.setdefault(b, set()).add(line.at(values))
        found = []
        for j, line in enumerate(self.start):
            begin = line.at(values)
            if begin in events or begin in released.get(j, ()):
                continue
            for i in range(len(self.modes)):
                if self.moved[i].at(values) < begin < self.done[i].at(values):
                    found.append(Cut(i, self._progress(i, begin, values), j))
        return tuple(found)

    def _progress(self, i: int, now: Fraction, values: Sequence[Fraction]) -> Fraction:
        """Return what op ``i`` has done by ``now``."""
        if self.loads[i] == NOT_SHARING:
            return now - self.moved[i].at(values)
        done, passed = Fraction(0), Fraction(0)
        working: set[int] = set()
        for k, (op, amount) in enumerate(self.moments):
            before, passed = passed, passed + values[k]
            if i in working:
                ops = sorted(working)
                pace = self.speeds.speeds(tuple(self.loads[o] for o in ops))
                done += Fraction(pace[ops.index(i)]) * (min(passed, now) - min(before, now))
            if amount == self.modes[op].latency_ticks:
                working.discard(op)
            else:
                working.add(op)
        return done


def _address_pairs(problem: Problem, decision: Decision) -> list[tuple[int, int]]:
    """Return (user of a buffer, user of a later one) where the two share addresses."""
    position = {action: k for k, action in enumerate(decision.actions)}
    spans = []
    for buffer, at in zip(problem.buffers, problem.on_line(decision.offsets), strict=True):
        users = {problem.op_index[name] for name in buffer.ops}
        if users and buffer.occupied_bytes and not buffer.always:
            born = -1 if buffer.from_start else min(position[u] for u in users)
            spans.append((born, buffer.overwrites is not None, at, at + buffer.occupied_bytes, sorted(users)))
    spans.sort()
    return [
        (a, b)
        for k, (*_, low, high, old) in enumerate(spans)
        for *_, start, end, new in spans[k + 1 :]
        if low < end and start < high
        for a in old
        for b in new
        if a != b
    ]
