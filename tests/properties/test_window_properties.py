"""Windows against the rules: whatever is cut out, solved and put back is a plan, and no longer than it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from in_process import InProcess
from strategies import draining, problems

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.flat.cut import named_units
from hexloom.formulations.flat.solution import FlatSolution
from hexloom.formulations.flat.verify import broken_rule
from hexloom.formulations.flat.windows import WindowSearch
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.late_starts import late_starts
from hexloom.optimizer.evaluate import evaluate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


def listed(problem: Problem) -> FlatSolution:
    """Return the times and addresses of a list schedule; windows know no pools but the scratchpad."""
    assume(not problem.pools)
    assume(first_shortfall(problem, lower_bounds(problem).heads_tails) is None)
    n = len(problem.ops)
    decision = list_schedule(problem, Policy(tuple(float(n - i) for i in range(n)), (0,) * n))
    assume(decision is not None)
    assert decision is not None
    simulated = evaluate(problem, decision)
    assume(not simulated.late)
    start, moved, known = (tuple(map(int, of)) for of in (simulated.start, simulated.transfer_start, simulated.ended))
    units = named_units(problem, decision.modes, decision.units)
    return FlatSolution(
        start, moved, known, decision.modes, units, dict(enumerate(decision.offsets)), int(simulated.makespan)
    )


@settings(max_examples=40)
@given(st.one_of(problems(), draining()))
def test_a_sweep_keeps_every_rule_and_is_no_longer(problem: Problem) -> None:
    times = listed(problem)
    assume(broken_rule(problem, times) is None)
    search = WindowSearch(InProcess(), problem, lower_bounds(problem), evaluate, 2.0, seed=0)  # type: ignore[arg-type]
    swept = search.sweep(times)
    assert broken_rule(problem, swept) is None
    assert swept.makespan <= times.makespan


@given(st.one_of(problems(), draining()))
def test_late_starts_keep_every_rule_and_the_makespan(problem: Problem) -> None:
    times = listed(problem)
    assume(broken_rule(problem, times) is None)
    n = len(problem.ops)
    decision = list_schedule(problem, Policy(tuple(float(n - i) for i in range(n)), (0,) * n))
    assert decision is not None
    start, moved, known = late_starts(problem, decision.modes, decision.units, (times.start, times.moved, times.known))
    later = FlatSolution(start, moved, known, times.mode, times.units, None, times.makespan)
    assert broken_rule(problem, later) is None
