"""The flat model where ops slow each other: durations grow with overlaps, all times in parts of a tick."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.event_starts import add_event_starts, hint_event_starts
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.overlap_terms import OverlapTerms
from hexloom.formulations.flat.overlaps import Overlaps
from hexloom.formulations.flat.slowdowns import add_slowdowns
from hexloom.formulations.flat.slowed_variables import add_slowed_variables
from hexloom.formulations.flat.slowing import BLUR, in_parts
from hexloom.formulations.flat.variables import hint_to

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.flat.slowing import Slowing
    from hexloom.formulations.flat.solution import FlatOptions
    from hexloom.formulations.flat.variables import FlatVars
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem


class SlowedModel(FlatModel):
    """All constraints of ``problem`` under a rule by which ops slow each other, a relaxation; limits are in parts.

    The scratchpad is counted, addresses are left out.
    """

    def __init__(self, problem: Problem, options: FlatOptions, slowing: Slowing) -> None:
        self.slowing = slowing
        self.terms = OverlapTerms(problem, slowing.rule)
        parts = in_parts(problem, slowing.scale)
        super().__init__(parts, lower_bounds(parts, slowing.rule).heads_tails, options)
        works = [of.work for of in self.variables.ops if of.work is not None]
        self.overlaps = Overlaps(self.model, works, options.upper)
        self.terms_count = add_slowdowns(self.model, parts, self.terms, self.variables, self.overlaps)
        self.starts = add_event_starts(self.model, parts, self.variables) if slowing.events else None

    def add_variables(self, ht: HeadsTails) -> FlatVars:
        """Create the variables of all ops, their durations among them."""
        options, scale = self.options, self.slowing.scale
        return add_slowed_variables(self.model, self.problem, self.terms, ht, options.upper, options.lower, scale)

    def tune(self, parameters: cp_model.SatParameters) -> None:
        """Ask for all linear relaxations: two ops that lengthen each other converge a part at a time without them.

        More workers than one only take cores from each other here.
        """
        parameters.linearization_level = 2
        parameters.num_workers = 1

    def hint(self, decision: Decision, simulated: Simulated) -> None:
        """Start the search from an incumbent, whose times are in ticks."""
        scale = self.slowing.scale

        def parts(times: tuple[float, ...]) -> list[int]:
            return [floor(float(time * scale) + BLUR) for time in times]

        start, moved, done, known = map(
            parts, (simulated.start, simulated.transfer_start, simulated.done, simulated.ended)
        )
        begin = moved[:]
        for i, of in enumerate(self.variables.ops):
            mode = of.modes[decision.modes[i]].mode
            if mode.dma is None:
                begin[i] = start[i] + mode.overhead_ticks
            assert of.work is not None and of.life is not None and isinstance(of.known, cp_model.IntVar)
            times = [(of.start, start[i]), (of.moved, moved[i]), (of.known, known[i]), (of.life, known[i] - start[i])]
            times += [(of.work.begin, begin[i]), (of.work.size, done[i] - begin[i]), (of.work.done, done[i])]
            for variable, value in times:
                hint_to(self.model, variable, value)
            for m, of_mode in enumerate(of.modes):
                if not isinstance(of_mode.chosen, bool):
                    self.model.add_hint(of_mode.chosen, m == decision.modes[i])
        self.hint_units(decision)
        self.hint_lives(start, known)
        self.overlaps.hint(begin, done)
        if self.starts is not None:
            hint_event_starts(self.model, self.starts, self.problem.entry_ticks, start, known)
        self.model.add_hint(self.variables.makespan, floor(float(simulated.makespan * scale) + BLUR))
