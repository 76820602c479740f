"""All interleavings of the tables of small plans: none is wrong, and without any one wait some is.

Of larger plans it is proven from what is surely over when an entry begins. HEXLOOM_PLANS asks for more explored plans
than the usual ones, HEXLOOM_PROOFS for more proven ones, from other seeds: beside the former half as many loops, and a
tenth of the latter.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from compile.tiny import tiny
from explorer import Explorer
from looped import as_written, random_loops, shown
from ordered import unordered
from runtime.tampered import waits_of, without_wait
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom.emit.job import plain_tables
from hexloom.emit.tables import make_tables
from hexloom.optimizer.periodic.check import check_periodic_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hexloom.optimizer.schedule import Schedule

QUICK, MANY = 60, max(100, int(os.environ.get("HEXLOOM_PLANS", "0")))
LOOPS = int(os.environ.get("HEXLOOM_PLANS", "0")) // 2
QUICK_OPS, MOST_OPS = 10, 12
QUICK_LOOPS = (1, 4, 19)
PROOFS, LARGE = max(100, int(os.environ.get("HEXLOOM_PROOFS", "0"))), 40
MOST_STATES = 30_000
FEWEST_RUNS = 5
"""Of a loop that is explored: fewer show no steady state."""


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
        for k in range(len(waits_of(tables))):
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


def explore_loops(seeds: Iterable[int], wanted: int) -> tuple[int, int]:
    """Explore ``wanted`` loops of at most 12 tasks; return how many were explored to their end, and their waits."""
    whole = waits = tried = 0
    for seed in seeds:
        if tried == wanted:
            break
        made = random_loops(seed, 1 + (seed % 3 == 0), FEWEST_RUNS)
        if made is None or len(made[1].tasks) > MOST_OPS or check_periodic_schedule(made[0]):
            continue
        tried += 1
        periodic, tables = made
        found = Explorer(periodic.written, as_written(periodic, tables), MOST_STATES).explore()
        assert found.problems == [], seed
        if not found.complete:
            continue
        whole += 1
        for k in range(len(waits_of(tables))):
            fewer = as_written(periodic, without_wait(tables, k))
            without = Explorer(periodic.written, fewer, MOST_STATES).explore(until_first=True)
            assert without.problems != [], (seed, k)
            waits += 1
    assert tried == wanted
    return whole, waits


@pytest.mark.slow
def test_no_timing_breaks_small_loops_and_no_wait_of_them_is_redundant() -> None:
    whole, waits = explore_loops(QUICK_LOOPS, len(QUICK_LOOPS))
    assert whole == len(QUICK_LOOPS) and waits > 20


@pytest.mark.slow
def test_no_timing_breaks_many_loops() -> None:
    wanted = max(16, LOOPS)
    whole, waits = explore_loops(range(5000, 100_000), wanted)
    assert whole >= 0.7 * wanted and waits > 2 * wanted


def prove_plans(seeds: range, most_ops: int, every: int = 11) -> int:
    """Prove the plans of ``seeds``; return how many waits were shown to be needed for it, of some of them."""
    needed = 0
    for seed in seeds:
        schedule = random_schedule(seed, most_ops)
        tables = make_tables(schedule)
        assert unordered(schedule, tables) == [], seed
        for k in range(0, len(waits_of(tables)), every):
            assert unordered(schedule, without_wait(tables, k)) != [], (seed, k)
            needed += 1
    return needed


def prove_loops(seeds: range) -> int:
    """Prove the loops of ``seeds`` as far as they are written down, and with a period more; return how many."""
    proven = 0
    for seed in seeds:
        made = random_loops(seed)
        if made is None or check_periodic_schedule(made[0]):
            continue
        periodic, tables = made
        for laps, schedule in shown(periodic, tables):
            assert unordered(schedule, plain_tables(periodic, tables, laps, schedule.problem)) == [], seed
        proven += 1
    return proven


def test_all_that_larger_plans_need_is_ordered() -> None:
    assert prove_plans(range(20_000, 20_006), LARGE) > 3
    assert prove_plans(range(30_705, 30_706), 60, 1) > 0  # there a marker is the only user of a buffer
    assert prove_loops(range(1, 3)) > 0
    assert prove_loops(range(30_360, 30_361)) > 0  # the second loop begins with waits for iterations of the first one
    # There ops of one task lie between iterations of the other one, and move with none: refused, and not proven.
    assert prove_loops(range(30_677, 30_678)) == 0


@pytest.mark.slow
def test_all_that_many_larger_plans_need_is_ordered() -> None:
    assert prove_plans(range(30_000, 30_000 + PROOFS * 9 // 10), LARGE) > PROOFS // 2
    assert prove_loops(range(30_000, 30_000 + PROOFS // 10)) > PROOFS // 20


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
    for k in range(len(waits_of(tables))):
        kinds |= {p.split(":")[0] for p in Explorer(schedule, without_wait(tables, k)).explore().problems}
    assert kinds == {"early", "overwrite"}
    e = tables.entries
    stuck = replace(tables, entries=(e[1], e[0], *e[2:]))
    assert any(p.startswith("deadlock") for p in Explorer(schedule, stuck).explore().problems)
