"""Studies of loops: what few iterations say of all of them is what all of them say."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from hexloom import Workload, load_hw
from hexloom.optimizer.periodic.reduced import FEW
from hexloom.optimizer.periodic.solve import reduced_of
from hexloom.optimizer.periodic.trial import Source
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.study.ablations import ablate
from hexloom.optimizer.study.concurrent import parts_of
from hexloom.optimizer.study.first_come import first_come
from hexloom.optimizer.study.loops import study_of_loops, with_ratio
from hexloom.optimizer.study.side_by_side import SideBySideLoops
from hexloom.optimizer.study.steady import steady
from hexloom.optimizer.study.steps import with_barriers

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem

MATMUL = {
    "name": "mm",
    "kernel": "matmul_w4a16",
    "weight_type": "q4_0",
    "m": 256,
    "k": 512,
    "m_chunk": 256,
    "n_chunk": 64,
}
ROWS = {"name": "rows", "kernel": "rmsnorm", "cols": 2048, "mode": "direct", "rows_per_block": 8}
STAGED = {"name": "staged", "kernel": "rmsnorm", "cols": 512, "mode": "dma", "rows_per_block": 24}


def source(*tasks: dict[str, Any], rule: str = "fluid") -> Source:
    work = Workload.from_data({"schema": "hexloom.workload/1", "name": "loops", "tasks": list(tasks)})
    return Source(work, load_hw("hexagon-v81"), rule, FEW)  # type: ignore[arg-type]


PAIRS = {
    "the rows end first": (source({**MATMUL, "n": 64 * 150}, {**ROWS, "rows": 8 * 90}), "fluid"),
    "the matmul ends first": (source({**MATMUL, "n": 64 * 60}, {**ROWS, "rows": 8 * 200}), "fluid"),
    "channels are never full": (source({**MATMUL, "n": 64 * 90}, {**ROWS, "rows": 8 * 160}), "none"),
    "three, one of them staged": (
        source({**MATMUL, "n": 64 * 110}, {**ROWS, "rows": 8 * 100}, {**STAGED, "rows": 24 * 80}), "fluid",
    ),
}  # fmt: skip


QUICK = "the matmul ends first"


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in PAIRS if name != QUICK)]
)
def test_loops_side_by_side_take_what_all_their_iterations_take(name: str) -> None:
    of, rule = PAIRS[name]
    loops = SideBySideLoops(of, "fluid")
    found = loops.run(of.trips, rule)  # type: ignore[arg-type]
    assert found.shifts
    whole = of.small(of.trips)
    problem = whole.lowered.problem.under("fluid")
    parts = parts_of(problem, whole.lowered.loops, loops.caps)
    assert len(found.problem.ops) < len(problem.ops)
    timeline = first_come(problem, parts, (), acting_rule(problem, rule))  # type: ignore[arg-type]
    assert found.makespan == timeline.makespan


def as_it_is(_: Problem, decision: Decision) -> Decision:
    return decision


@pytest.mark.slow
@pytest.mark.parametrize("change", [as_it_is, with_barriers])
def test_a_plan_of_loops_is_split_as_all_its_iterations_are(change: Any) -> None:
    of = source({**MATMUL, "n": 64 * 70}, {**ROWS, "rows": 8 * 70})
    few, every = reduced_of(of, 0.1, 1), reduced_of(of, 0.1, 1)
    every.keep = [phase.whole_runs for phase in every.phases]
    assert few.keep < every.keep
    found, all_of_it = steady(few, change, "hmx"), steady(every, change, "hmx")
    assert found is not None and found == all_of_it


@pytest.mark.parametrize("rule", ["fluid", *(pytest.param(rule, marks=pytest.mark.slow) for rule in ("rigid", "none"))])
def test_the_parts_of_every_group_add_up(rule: str) -> None:
    of = source({**MATMUL, "n": 64 * 10**6}, {**ROWS, "rows": 8 * 10**6}, rule=rule)
    found, written = study_of_loops(of, time_limit_s=0, seed=1)
    assert written < 500
    existing = Fraction(found.makespan("existing") or 0)
    for group in found.groups:
        assert group.makespan is not None, group.note
        if group.name in ("serial", "existing"):
            continue
        gain = group.gain
        assert gain is not None and gain.existing == existing
        overlap = gain.overlap_within_tasks + gain.overlap_between_tasks
        assert gain.saved_entries + overlap - gain.contention_cost - gain.tail == existing - group.makespan
    assert found.lower_bound <= Fraction(found.makespan("plan") or 0) < existing
    assert "1,000,000 x" in found.notes[0]


def test_a_ratio_of_loops_is_that_of_all_their_iterations() -> None:
    """600 iterations of the rows get a quarter of the work of 150 of the matmul."""
    of = source({**MATMUL, "n": 64 * 150}, {**ROWS, "rows": 8 * 600})
    scaled = with_ratio(of, Fraction(1, 4))
    problem = scaled.small(scaled.trips).lowered.problem
    work = {task: sum(op.modes[0].latency_ticks for op in problem.ops if op.task == task) for task in ("mm", "rows")}
    assert work["rows"] / work["mm"] == pytest.approx(0.25, rel=1e-3)


@pytest.mark.slow
def test_a_repeat_beside_what_runs_once_is_none() -> None:
    """One worker prepares the rows of the matmul for as long as 60 runs of the norm take, beside them: these repeat
    themselves all that time, but a run more does not take as long as they do then.
    """
    slow = {**MATMUL, "m": 1024, "k": 2048, "m_chunk": 1024, "n": 64 * 10**6, "workers": 1}
    of = source(slow, {**ROWS, "rows": 8 * 10**6, "workers": 1})
    found, _ = study_of_loops(of, time_limit_s=0.3, seed=1)  # the checker has seen a run more
    assert found.makespan("plan") is not None


@pytest.mark.slow
def test_switches_of_loops_cost_something_or_say_that_they_do_not_apply() -> None:
    of = source({**MATMUL, "n": 16 * 10**5}, {**STAGED, "rows": 6 * 10**5})
    plan = study_of_loops(of, time_limit_s=0.3, seed=1)[0].makespan("plan")
    assert plan is not None
    names = ("no_task_overlap", "no_dma_overlap", "fork_join")
    rows = {name: ablate(name, of.workload, of.machine, plan, 0.3, "fluid", 1) for name in names}
    assert {name for name, one in rows.items() if one.makespan is None} == {"fork_join"}
    assert "forks and joins already" in rows["fork_join"].note
    assert (rows["no_dma_overlap"].costs or 0) > 0
    assert (rows["no_task_overlap"].costs or 0) >= 0  # the plan leaves tasks apart where that gains less than 1 %
