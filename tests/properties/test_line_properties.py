"""Orders against the rules: whatever is placed one after the other is a schedule, and a change costs what was said."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import problems
from unit.formulations.test_line import tight_matmuls

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.flat.verify import broken_rule
from hexloom.formulations.line.changes import Changes
from hexloom.formulations.line.order import Line
from hexloom.formulations.line.search import solution_of
from hexloom.formulations.line.tables import Tables, applies, tables_of

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


def some_order(tables: Tables, draw: random.Random) -> list[int]:
    """Return the listed ops in an order that dependencies allow, any of them as likely as any other at each step."""
    problem = tables.problem
    missing = [len(of) for of in problem.predecessors]
    ready = [i for i, count in enumerate(missing) if count == 0]
    found = []
    while ready:
        i = ready.pop(draw.randrange(len(ready)))
        found.append(i)
        for s in problem.successors[i]:
            missing[s] -= 1
            if missing[s] == 0:
                ready.append(s)
    listed = set(tables.listed)
    return [i for i in found if i in listed]


@given(problems(), st.integers(0, 2**32))
def test_what_is_placed_in_any_order_keeps_every_rule(problem: Problem, seed: int) -> None:
    assume(applies(problem))
    assume(first_shortfall(problem, lower_bounds(problem).heads_tails) is None)
    line = Line(tables_of(problem, lower_bounds(problem)))
    placed = line.set(some_order(line.tables, random.Random(seed)))
    if problem.fits_side_by_side:
        assert placed
    assume(placed)
    for short_lives in (False, True):
        times = solution_of(line, short_lives=short_lives)
        late = [op.deadline_ticks for op in problem.ops if op.deadline_ticks is not None]
        assert broken_rule(problem, times) is None or late
        assert times.makespan == line.end


@given(st.integers(0, 3), st.integers(0, 2**32))
def test_a_change_ends_when_it_was_said_to(free: int, seed: int) -> None:
    draw = random.Random(seed)
    problem = tight_matmuls(6, free)
    tables = tables_of(problem, lower_bounds(problem))
    line, sure = Line(tables), Line(tables)
    assume(line.set(some_order(tables, draw)))
    changes = Changes(problem, tables, draw)
    for _ in range(20):
        changes.look(line)
        change = changes.draw(line.order)
        if change is None:
            continue
        assert sorted(change[0]) == sorted(line.order)
        assert change[0][: change[1]] == line.order[: change[1]]
        assert change[0][change[2] :] == line.order[change[2] :]
        end = line.tried(*change, None)
        assert sure.set(change[0]) == (end is not None)
        if end is not None:
            assert end == sure.end
            line.keep()
            assert line.end == sure.end
            assert [line.start[i] for i in tables.listed] == [sure.start[i] for i in tables.listed]
