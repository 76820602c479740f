"""All interleavings of the tables of small plans: none is wrong, and without any one wait some is.

HEXLOOM_PLANS asks for more plans than the usual ones, from other seeds.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from compile.tiny import tiny
from explorer import Explorer
from runtime.tampered import without_wait
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom.emit.tables import make_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.optimizer.schedule import Schedule

QUICK, MANY = 60, max(200, int(os.environ.get("HEXLOOM_PLANS", "0")))
QUICK_OPS, MOST_OPS = 10, 12
MOST_STATES = 30_000


def explore_plans(seeds: range, most_ops: int) -> tuple[int, int]:
    """Explore the plans of ``seeds``; return how many were explored to their end, and how many waits they have."""
    whole = waits = 0
    for seed in seeds:
        schedule = random_schedule(seed, most_ops)
        tables = make_tables(schedule)
        found = Explorer(schedule, tables, MOST_STATES).explore()
        assert found.problems == [], seed
        if not found.complete:
            continue
        whole += 1
        for k in range(len(tables.waits)):
            # What is wrong shows itself early, also where the whole is too large.
            without = Explorer(schedule, without_wait(tables, k), MOST_STATES).explore(until_first=True)
            assert without.problems != [], (seed, k)
            waits += 1
    return whole, waits


def test_no_timing_breaks_small_plans_and_no_wait_is_redundant() -> None:
    whole, waits = explore_plans(range(max(QUICK, int(os.environ.get("HEXLOOM_PLANS", "0")))), QUICK_OPS)
    assert whole >= 0.95 * QUICK and waits > QUICK


@pytest.mark.slow
def test_no_timing_breaks_many_plans() -> None:
    whole, waits = explore_plans(range(1000, 1000 + MANY), MOST_OPS)
    assert whole >= 0.95 * MANY and waits > MANY


@pytest.mark.parametrize("make", [tiny, examples.in_place, examples.draining], ids=["tiny", "in place", "draining"])
def test_known_plans_hold_under_every_timing(make: Callable[[], Schedule]) -> None:
    schedule = make()
    found = Explorer(schedule, make_tables(schedule)).explore()
    assert (found.problems, found.complete) == ([], True)


def test_the_explorer_sees_what_is_wrong() -> None:
    """Early, overwritten, and stuck."""
    schedule = tiny()
    tables = make_tables(schedule)
    kinds = set()
    for k in range(len(tables.waits)):
        kinds |= {p.split(":")[0] for p in Explorer(schedule, without_wait(tables, k)).explore().problems}
    assert kinds == {"early", "overwrite"}
    e = tables.entries
    stuck = replace(tables, entries=(e[1], e[0], *e[2:]))
    assert any(p.startswith("deadlock") for p in Explorer(schedule, stuck).explore().problems)
