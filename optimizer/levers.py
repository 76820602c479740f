"""What would make an infeasible problem feasible, and what it costs: every change is solved again.

More scratchpad, later deadlines, free pins and further units are searched for the least that is enough; kernels have
changes of their own (`hexloom.optimizer.kernel_levers`).
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.memory import still_overwriting
from hexloom.formulations.problem import Scratchpad
from hexloom.formulations.serial_order import least_bytes
from hexloom.hwmodels import format_bytes
from hexloom.optimizer.groups import Group, roomy_bytes
from hexloom.optimizer.infeasibility import Lever
from hexloom.optimizer.splits import cut, largest_size, pieces_needed, with_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hexloom.formulations.feasibility import Shortfall
    from hexloom.formulations.problem import Buffer, Problem, Rule
    from hexloom.optimizer.decide import Answer, Decider

SOLVE_S = 0.3
"""Seconds for the schedule of a changed input: it says what a change costs, not how good that is."""

STEP_S = 0.5
"""Most seconds for one question on the way to the least change."""

MOST_OPS = 400
"""Above so many ops levers are named without being solved: a question would take longer than is left for all."""

LEAST_SHARE = 0.4
"""Part of what is left of the time for one search for the least change."""

MOST_OF_A_KIND = 3
"""Deadlines, pins and engines looked at; who has more of them in conflict reads their names there."""


def makespan_of(problem: Problem, answer: Answer) -> Fraction | None:
    """Return the makespan of an answer in microseconds, or ticks where a tick has no length."""
    if answer.timeline is None:
        return None
    return Fraction(answer.timeline.makespan) * (problem.tick or 1)


def number(value: Fraction | None) -> int | float | None:
    """Return a JSON number with at most six decimals."""
    if value is None:
        return None
    return int(value) if value.denominator == 1 else round(float(value), 6)


class Levers:
    """Finds levers of one problem until the time is over.

    Parameters
    ----------
    rule, decider
        How channels are shared, and who says whether a changed problem has a schedule.
    until
        When to stop, of the monotonic clock.
    """

    def __init__(self, problem: Problem, rule: Rule, decider: Decider, until: float) -> None:
        self.problem, self.rule, self.decider, self.until = problem, rule, decider, until
        self.small = len(problem.ops) <= MOST_OPS
        self._shown: Answer | None = None

    def of(self, found: Shortfall, conflict: Sequence[Group]) -> Iterator[Lever]:
        """Yield the levers of a shortfall, then those of the groups in conflict."""
        if found.kind == "units":
            have = found.have
            yield self._solved(f"split op {found.op!r} into parts of at most {have} units", self._narrowed(found))
        elif found.kind == "channel":
            yield Lever(text="use contention fluid, or give it a mode with a lower demand")
        elif found.kind == "largest_gap":
            wanted = self._buffers[found.holders[0][0]]
            yield self._resized(
                f"the largest that fits is {format_bytes(largest_size(wanted, found.have))}", wanted, found.have
            )
            yield Lever(text="move a pin, or split the buffer")
        elif found.kind == "bytes":
            yield from self._smaller(found)
        elif found.kind == "deadline":
            yield Lever(text="move the deadline, or shorten what comes before it")
        yield from self._of_groups(found, conflict)

    def _of_groups(self, found: Shortfall, conflict: Sequence[Group]) -> Iterator[Lever]:
        asked: dict[str, int] = {}
        for group in conflict:
            asked[group.kind] = asked.get(group.kind, 0) + 1
            if not self.small or asked[group.kind] > MOST_OF_A_KIND or self._left <= 0:
                continue
            if group.kind == "scratchpad":
                yield from self._more_scratchpad(found)
            elif group.kind == "pool":
                yield self._roomy_pool(group.names[0])
            elif group.kind == "deadline":
                yield self._later(group.names[0])
            elif group.kind == "pin":
                yield self._unpinned(group.names[0])
            elif group.kind == "engine" and group.names[0] not in self.problem.shares:
                yield self._one_more(group.names[0], found)

    @property
    def _buffers(self) -> dict[str, Buffer]:
        """Buffers by their names, and ranges by theirs."""
        return {b.name: b for b in (*self.problem.buffers, *(b for b, _ in self.problem.buffers_as_one))}

    @property
    def _left(self) -> float:
        return self.until - time.monotonic()

    def _ask(self, problem: Problem) -> Answer:
        return self.decider.decide(problem, self.rule, max(0.01, min(STEP_S, self._left / 2)))

    def _solved(
        self,
        text: str,
        problem: Problem | None,
        *,
        least: bool = False,
        change: tuple[str, int, int, str] = ("", 0, 0, ""),
        shown: Answer | None = None,
    ) -> Lever:
        """Return the lever with what came of solving ``problem``; None: there is none, or it is too large.

        ``change``: a resource, what it must have, what it has, and the unit of both. ``shown`` is a schedule that is
        known already, for when the time is over.
        """
        late = self._left <= 0
        if problem is None or not self.small or len(problem.ops) > MOST_OPS or (late and shown is None):
            return Lever(text=text)
        answer = shown if late and shown else self.decider.good(problem, self.rule, min(SOLVE_S, self._left))
        makespan, least = number(makespan_of(problem, answer)), least and answer.verdict == "feasible"
        lever = Lever(text=text, outcome=answer.verdict, makespan=makespan, least=least)
        resource, need, have, unit = change
        numbers = {"resource": resource, "need": need, "have": have, "unit": unit}
        return lever.model_copy(update=numbers) if resource else lever

    # --- bytes

    def _smaller(self, found: Shortfall) -> Iterator[Lever]:
        """Levers of an op whose buffers do not fit together: smaller ones, or pieces."""
        buffers = self._buffers
        own = [buffers[name] for name, _, _ in found.holders if not buffers[name].resident]
        held = {name for name, _, _ in found.holders}
        there = [b for b in self.problem.buffers if b.pool == buffers[found.holders[0][0]].pool]
        room = found.have - sum(b.occupied_bytes for b in there if b.always or (b.resident and b.name in held))
        pieces = pieces_needed(own, room)
        if pieces is None:
            yield Lever(text=f"free {format_bytes(found.short)}")
            return
        largest = max(own, key=lambda b: b.occupied_bytes)
        beside = room - sum(b.occupied_bytes for b in own if b is not largest)
        alone = pieces_needed([largest], beside)
        whole = f"split op {found.op!r}"
        if alone is None:
            text = f"{whole} into {pieces} pieces or more: its buffers are then small enough together"
            yield from self._split(text, whole, [b.name for b in own], pieces)
            return
        text = f"the largest {largest.name!r} that fits is {format_bytes(largest_size(largest, beside))}"
        yield self._resized(text, largest, beside)
        text = f"split it into {alone} pieces or more ({2 * alone} when double-buffered)"
        yield from self._split(text, "split it", [largest.name], alone)

    def _split(self, text: str, what: str, names: list[str], pieces: int) -> Iterator[Lever]:
        """Yield the advice, and what twice as many pieces do."""
        yield self._solved(text, self._cut(names, pieces))
        yield self._solved(f"{what} into {2 * pieces} pieces", self._cut(names, 2 * pieces))

    def _cut(self, names: list[str], pieces: int) -> Problem | None:
        users = {op for b in self._buffers.values() if b.name in names for op in b.ops}
        return cut(self.problem, names, pieces) if len(users) * pieces <= MOST_OPS else None

    def _resized(self, text: str, buffer: Buffer, room: int) -> Lever:
        left, buffers = largest_size(buffer, room), []
        for b in self.problem.buffers:
            if buffer.name in (b.name, b.part_of):
                # Of a range in parts the low ones stay.
                b = b.model_copy(update={"size_bytes": max(0, min(left, b.size_bytes)) if b.part_of else left})
                left -= b.occupied_bytes
            buffers.append(b)
        return self._solved(text, with_parts(self.problem, buffers=still_overwriting(buffers)))

    def _with_bytes(self, available: int) -> Problem:
        pad = Scratchpad(
            total_bytes=available + self.problem.scratchpad.reserved_bytes,
            reserved_bytes=self.problem.scratchpad.reserved_bytes,
        )
        return with_parts(self.problem, scratchpad=pad)

    def _more_scratchpad(self, found: Shortfall) -> Iterator[Lever]:
        """Yield the least scratchpad that is enough, and what as much as all buffers want would buy."""
        have = self.problem.scratchpad.available_bytes
        roomy = roomy_bytes(self.problem)
        low = max(have, found.need - 1) if (found.kind, found.resource) == ("bytes", "scratchpad") else have
        tries = [low + 1, least_bytes(self.problem)] if self._left > STEP_S else []
        high, least = self._least(low, roomy, tries, lambda at: self._high_water(at))
        if high is None:
            yield Lever(text="more scratchpad alone", outcome="infeasible" if least else "open")
            return
        text = f"{format_bytes(high - have)} more scratchpad ({format_bytes(high)} available)"
        yield self._solved(
            text, self._with_bytes(high), least=least, change=("scratchpad", high, have, "B"), shown=self._shown
        )
        if roomy > high:
            all_text = f"scratchpad for all buffers side by side ({format_bytes(roomy)} available)"
            yield self._solved(all_text, self._with_bytes(roomy))

    def _roomy_pool(self, name: str) -> Lever:
        """Return what a pool with room for all its buffers side by side would buy."""
        place = next(k for k, pool in enumerate(self.problem.pools) if pool.name == name)
        pool, need = self.problem.pools[place], roomy_bytes(self.problem.per_pool[place + 1][1])
        larger = pool.model_copy(update={"total_bytes": need + pool.reserved_bytes})
        pools = (*self.problem.pools[:place], larger, *self.problem.pools[place + 1 :])
        text = f"{pool.label} for all its buffers side by side ({format_bytes(need)} available)"
        change = (pool.label, need, pool.available_bytes, "B")
        return self._solved(text, with_parts(self.problem, pools=pools), change=change)

    def _high_water(self, available: int) -> tuple[str, int]:
        answer = self._ask(self._with_bytes(available))
        if answer.decision is None:
            return answer.verdict, available
        self._shown = answer
        placed = zip(self.problem.buffers, answer.decision.offsets, strict=True)
        ends = [at + b.occupied_bytes for b, at in placed if b.pool is None]
        return answer.verdict, max(ends, default=0)

    def _least(
        self, low: int, high: int, tries: Sequence[int], ask: Callable[[int], tuple[str, int]]
    ) -> tuple[int | None, bool]:
        """Return the least value above ``low``, which is not enough, that is, and whether that is proven.

        ``ask`` says of a value whether it is enough, and if so which smaller one already is. (None, True): not even
        ``high`` is enough.
        """
        verdict, at = ask(high)
        if verdict != "feasible":
            return None, verdict == "infeasible"
        high, sure = min(high, max(at, low + 1)), True
        until = time.monotonic() + self._left * LEAST_SHARE
        waiting = [value for value in tries if low < value < high]
        while high - low > 1:
            if time.monotonic() >= until:
                return high, False
            middle = waiting.pop(0) if waiting else (low + high) // 2
            if not low < middle < high:
                continue
            verdict, at = ask(middle)
            if verdict == "feasible":
                high = min(middle, max(at, low + 1))
            else:
                low, sure = middle, sure and verdict == "infeasible"
        return high, sure

    # --- time, places and units

    def _later(self, name: str) -> Lever:
        i = self.problem.op_index[name]
        before = self.problem.ops[i].deadline_ticks
        assert before is not None

        def ask(ticks: int) -> tuple[str, int]:
            answer = self._ask(self._due(i, ticks))
            ended = ticks if answer.timeline is None else -(-answer.timeline.times[name].observed // 1)
            return answer.verdict, int(ended)

        horizon = max(self.problem.horizon_ticks * 2, before + 1)
        ticks, least = self._least(before, horizon, (), ask)
        if ticks is None:
            return Lever(text=f"a later deadline of op {name!r} alone", outcome="infeasible" if least else "open")
        words = self.problem.in_words
        text = f"the deadline of op {name!r} later by {words(ticks - before)} (at {words(ticks)})"
        return self._solved(text, self._due(i, ticks), least=least, change=("time", ticks, before, "ticks"))

    def _due(self, i: int, ticks: int) -> Problem:
        ops = list(self.problem.ops)
        ops[i] = ops[i].model_copy(update={"deadline_ticks": ticks})
        return with_parts(self.problem, ops=tuple(ops))

    def _unpinned(self, name: str) -> Lever:
        buffers = [b.model_copy(update={"address": None}) if b.name == name else b for b in self.problem.buffers]
        changed = with_parts(self.problem, buffers=tuple(buffers))
        answer, at = self._ask(changed), ""
        if answer.decision is not None:
            place = next(k for k, b in enumerate(buffers) if b.name == name)
            at = f" (to {answer.decision.offsets[place]}, for example)"
        whole = next(b.part_of or name for b in buffers if b.name == name)
        return self._solved(f"move the pin of buffer {whole!r}{at}", changed)

    def _one_more(self, name: str, found: Shortfall) -> Lever:
        short = found.short if found.kind == "units" and found.resource == name else 1
        engines = tuple(
            e.model_copy(update={"units": e.units + short}) if e.name == name else e for e in self.problem.engines
        )
        text = f"{short} more of engine {name!r}"
        units = self.problem.engines[self.problem.engine_index[name]].units
        change = (name, units + short, units, f"units of {name}")
        return self._solved(text, with_parts(self.problem, engines=engines), change=change)

    def _narrowed(self, found: Shortfall) -> Problem | None:
        """Return the problem with the op in parts, one after the other or not, that ask for no more than there is."""
        i = self.problem.op_index[found.op or ""]
        op = self.problem.ops[i]
        if any(use.engine == found.resource and use.unit_ids for mode in op.modes for use in mode.uses):
            return None
        pieces, parts = -(-found.need // found.have), []
        for k in range(pieces):
            units = min(found.have, found.need - k * found.have)
            modes = tuple(
                mode.model_copy(
                    update={
                        "uses": tuple(
                            u.model_copy(update={"units": units}) if u.engine == found.resource else u
                            for u in mode.uses
                        )
                    }
                )
                for mode in op.modes
            )
            parts.append(op.model_copy(update={"name": f"{op.name}#{k}", "modes": modes}))

        def names(name: str) -> list[str]:
            return [part.name for part in parts] if name == op.name else [name]

        edges = tuple(
            e.model_copy(update={"before": b, "after": a})
            for e in self.problem.precedences
            for b in names(e.before)
            for a in names(e.after)
        )
        used = [b.model_copy(update={"ops": tuple(n for o in b.ops for n in names(o))}) for b in self.problem.buffers]
        buffers = still_overwriting(used)
        ops = (*self.problem.ops[:i], *parts, *self.problem.ops[i + 1 :])
        return with_parts(self.problem, ops=ops, precedences=edges, buffers=buffers)
