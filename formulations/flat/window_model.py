"""A stretch of a schedule solved anew, with addresses: what is before it stays, what comes later moves as one."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from hexloom.formulations.flat.memory import Ends, Life, add_addresses, ends_by_precedence
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.variables import Affine, FlatVars, ModeVars, OpVars, bind, hint_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ortools.sat.python import cp_model

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.flat.solution import FlatOptions, Window
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Mode, Problem


class WindowModel(FlatModel):
    """All constraints of the ops and buffers that meet those of ``window``; every op has one mode."""

    def __init__(self, problem: Problem, ht: HeadsTails, options: FlatOptions, window: Window) -> None:
        self.window = window
        super().__init__(problem, ht, options)
        if window.sequence:
            self._keep_sequence()
        else:
            self._serve_in_order()

    def add_variables(self, ht: HeadsTails) -> FlatVars:
        """Create variables for the free ops, and for the makespan, by which all later times are expressed."""
        model, window = self.model, self.window
        makespan = model.new_int_var(self.options.lower, self.options.upper, "makespan")
        found: list[OpVars] = []
        for i, op in enumerate(self.problem.ops):
            mode = op.modes[0]
            if i in window.free:
                found.append(self._free(i, mode, ht))
                model.add(makespan >= found[-1].known + int(ht.tail[i]))
            else:
                shift: Affine = makespan - window.makespan if i in window.later else 0
                moved = window.moved[i] + shift if mode.dma is not None else None
                life = window.known[i] - window.start[i]
                modes = [ModeVars(True, mode)]
                found.append(OpVars(window.start[i] + shift, moved, window.known[i] + shift, modes, life))
                if i not in window.later:
                    model.add(makespan >= window.known[i])
        return FlatVars(found, makespan)

    def _free(self, i: int, mode: Mode, ht: HeadsTails) -> OpVars:
        model, window = self.model, self.window
        name, modes = self.problem.ops[i].name, [ModeVars(True, mode)]
        begin = max(window.begin, int(ht.head[i]))
        start = model.new_int_var(begin, window.reach, f"start:{name}")
        if mode.dma is None:
            model.add(start <= window.reach - mode.duration_ticks)
            return OpVars(start, None, start + mode.duration_ticks, modes)
        moved = model.new_int_var(begin, window.reach, f"moved:{name}")
        known = model.new_int_var(begin, window.reach, f"known:{name}")
        bind(model, modes[0], start, moved, known)
        life: cp_model.IntVar | None = None
        if self.problem.share_uses(mode):
            life = model.new_int_var(0, window.reach, f"life:{name}")
            model.add(life == known - start)
        return OpVars(start, moved, known, modes, life)

    def ends(self, problem: Problem, users: Sequence[int]) -> Ends:
        """Say who of the ``users`` is first and last: what was before the window, what comes after it."""
        first, last = ends_by_precedence(problem, users)
        window = self.window
        before = [u for u in users if u not in window.free and u not in window.later]
        behind = [u for u in users if u in window.later]
        if before:
            first = min(before, key=window.start.__getitem__)
        if behind:
            last = max(behind, key=window.known.__getitem__)
        elif len(before) == len(users):
            last = max(users, key=window.known.__getitem__)
        return first, last

    def add_addresses(self, lives: list[Life]) -> dict[int, cp_model.IntVar]:
        """Ensure that no two buffers that have addresses overlap."""
        placed = [life for life in lives if life.buffer not in self.window.counted]
        return add_addresses(self.model, self.problem, placed, self.options.upper)

    def _keep_sequence(self) -> None:
        """Ensure that whoever had a unit or a pipe after another still does: ``start(after) >= known(before)``.

        Transfers are issued, and get their pipe, in their order.
        """
        window, model = self.window, self.model
        for lane in lanes_of(self.problem).values():
            order = sorted(lane, key=lambda item: (window.moved[item[0]], window.start[item[0]], item[0]))
            for (a, ticks), (b, _) in pairwise(order):
                if a not in window.free and b not in window.free:
                    continue
                before, after = self.variables.ops[a], self.variables.ops[b]
                if before.moved is None or after.moved is None:
                    model.add(after.start >= before.start + ticks)
                else:
                    model.add(after.start >= before.start + int(a > b))
                    model.add(after.moved >= before.moved + ticks)

    def _serve_in_order(self) -> None:
        """Ensure that of two transfers of a pipe the one issued first is served first, at one instant that in front.

        ``first => start(b) >= start(a) and moved(b) >= moved(a) + ticks(a)``, else the other way round.
        """
        window, model = self.window, self.model
        pipes = {engine.name for engine in self.problem.engines if engine.kind == "pipe" and engine.units == 1}
        for (name, _), lane in lanes_of(self.problem).items():
            for (a, ticks), (b, other) in combinations(lane, 2) if name in pipes else ():
                if a not in window.free and b not in window.free:
                    continue
                one, two = self.variables.ops[a], self.variables.ops[b]
                assert one.moved is not None and two.moved is not None
                first = model.new_bool_var(f"served:{name}:{a}:{b}")
                model.add_hint(first, (window.start[a], a) < (window.start[b], b))
                model.add(two.start >= one.start).only_enforce_if(first)
                model.add(two.moved >= one.moved + ticks).only_enforce_if(first)
                model.add(one.start >= two.start + 1).only_enforce_if(~first)
                model.add(one.moved >= two.moved + other).only_enforce_if(~first)

    def hint(self, decision: Decision | None = None, simulated: Simulated | None = None) -> None:
        """Start from the schedule that the window was cut from."""
        model, window = self.model, self.window
        for i in sorted(window.free):
            hint_times(model, self.variables.ops[i], window.start[i], window.moved[i], window.known[i])
        self.hint_lives(window.start, window.known)
        for b, unit in (self.addresses or {}).items():
            if b in window.offsets:
                model.add_hint(unit, window.offsets[b] // self.problem.buffers[b].align_bytes)
        model.add_hint(self.variables.makespan, window.makespan)

    def tune(self, parameters: cp_model.SatParameters) -> None:
        """Ask for plain propagation by one worker: relaxations and presolve take longer than a window."""
        parameters.linearization_level = 0
        parameters.num_workers = 1
        parameters.subsolvers.append("quick_restart_no_lp")


def lanes_of(problem: Problem) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Return who certainly holds each unit, and each pipe of one unit, in its first mode, with the ticks it does."""
    engines = {engine.name: engine for engine in problem.engines}
    lanes: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for i, op in enumerate(problem.ops):
        mode = op.modes[0]
        for use in mode.uses:
            engine = engines[use.engine]
            if use.ticks == 0 or engine.kind == "share":
                continue
            ticks = mode.duration_ticks if engine.kind == "resource" else mode.overhead_ticks + use.ticks
            units = range(engine.units) if use.units == engine.units else use.unit_ids or ()
            for unit in units:
                lanes.setdefault((use.engine, unit), []).append((i, ticks))
    return lanes
