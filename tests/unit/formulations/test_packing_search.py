from __future__ import annotations

import time

import pytest

from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.packing import portfolio
from hexloom.formulations.packing.block import Block, peak
from hexloom.formulations.packing.gaps import tightest_gap
from hexloom.formulations.packing.least import step_of
from hexloom.formulations.packing.portfolio import Clock, find_packing
from hexloom.formulations.packing.rectangles import RectanglesJob, solve_rectangles
from hexloom.formulations.packing.views import Found, ViewSearch, ViewsJob

CROSS = [Block(0, 2, 2, pin=0), Block(2, 4, 2, pin=2), Block(1, 3, 2)]
"""The last block must lie above the first and below the second: impossible in 4 bytes, though 4 are alive at most."""


def test_the_peak_counts_what_ends_before_what_begins() -> None:
    assert peak([Block(0, 2, 4), Block(2, 5, 3), Block(4, 6, 2), Block(1, 1, 9)]) == (5, 4)
    assert peak([]) == (0, 0)


def test_best_fit_takes_the_smallest_gap_that_is_large_enough() -> None:
    taken = [(4, 6), (9, 10), (12, 20)]
    assert tightest_gap(2, 1, taken, 24) == 10
    assert tightest_gap(3, 1, taken, 24) == 6
    assert tightest_gap(3, 4, taken, 24) == 0
    assert tightest_gap(4, 1, taken, 24) == 0
    assert tightest_gap(5, 1, taken, 24) is None


def test_the_search_can_be_continued_and_ends_with_a_proof() -> None:
    search = ViewSearch(CROSS, 4)
    assert not search.advance(1).impossible
    assert search.advance(10**6).impossible
    assert ViewSearch(CROSS, 6).advance(10**6).offsets == (0, 2, 4)


def test_steps_are_what_sizes_pins_and_alignments_have_in_common() -> None:
    assert step_of([Block(0, 1, 512), Block(0, 1, 768), Block(0, 0, 5)]) == 256
    assert step_of([Block(0, 1, 512, align=128, pin=64)]) == 64
    assert step_of([]) == 1


@pytest.mark.parametrize("align", [1, 2, 3])
def test_rectangles_are_packed_by_the_solver_too(align: int) -> None:
    """Two of 4 bytes at multiples of 1, 2, 3 beside a pin at [8, 12): 0 and 4, or with 3 at 0 and 12."""
    blocks = (Block(0, 5, 4, align), Block(1, 9, 4, align), Block(2, 3, 4, 4, 8))
    capacity = 16 if align == 3 else 12
    found: list[tuple[int, ...]] = []
    job = RectanglesJob(blocks, capacity, 10.0, workers=1, deterministic=True)
    assert solve_rectangles(job, found.append) == ("OPTIMAL", 0)
    assert sorted(found[0]) == ([0, 8, 12] if align == 3 else [0, 4, 8])
    job = RectanglesJob(blocks, capacity - 1, 10.0, workers=1, deterministic=True)
    assert solve_rectangles(job, found.append)[0] == "INFEASIBLE"


@pytest.mark.slow
@pytest.mark.parametrize("counted", [False, True])
def test_cp_sat_is_asked_in_a_process_of_its_own_and_its_no_is_asked_twice(
    monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    monkeypatch.setattr(portfolio.ViewSearch, "advance", lambda *_: Found(None))
    monkeypatch.setattr(portfolio, "heuristic", lambda *_: None)
    found = find_packing(CROSS, 4, Clock(60, counted), seed=1)
    assert (found.impossible, found.by) == (True, "CP-SAT, twice")
    found = find_packing(CROSS, 6, Clock(60, counted), seed=1)
    assert (found.offsets, found.by) == ((0, 2, 4), "CP-SAT")


@pytest.mark.slow
def test_the_process_of_the_loser_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "heuristic", lambda *_: None)
    monkeypatch.setattr(portfolio, "ALONE", 0)
    monkeypatch.setattr(portfolio, "_by_rectangles", lambda guard, *_: guard.solve_for_ever())
    monkeypatch.setattr(Guard, "solve_for_ever", waits_for_its_end, raising=False)
    started = time.monotonic()
    found = find_packing(CROSS, 6, Clock(300, counted=False))
    assert (found.offsets, found.by) == ((0, 2, 4), "exact search")
    assert time.monotonic() - started < 60


def waits_for_its_end(guard: Guard) -> None:
    while not guard._stopped:
        time.sleep(0.01)


def test_a_noisy_search_says_what_came_of_it() -> None:
    found: list[tuple[int, ...]] = []
    assert ViewsJob(tuple(CROSS), 6, 10.0, seed=3).work(found.append) == ("FEASIBLE", 0)
    assert found == [(0, 2, 4)]
    assert ViewsJob(tuple(CROSS), 4, 10.0, seed=3).work(found.append) == ("INFEASIBLE", 0)
    assert ViewsJob(tuple(CROSS), 6, 0.0, seed=3).work(found.append) == ("UNKNOWN", 0)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("words", "asked", "offsets", "impossible"),
    [
        (["OPTIMAL"], [RectanglesJob], (0, 2, 4), False),
        (["UNKNOWN", "FEASIBLE"], [RectanglesJob, ViewsJob], (0, 2, 4), False),
        (["UNKNOWN", "INFEASIBLE"], [RectanglesJob, ViewsJob], None, True),
        (["UNKNOWN", "UNKNOWN", "OPTIMAL"], [RectanglesJob, ViewsJob, RectanglesJob], (0, 2, 4), False),
    ],
)
def test_beside_the_exact_search_others_take_turns_that_grow(
    words: list[str],
    asked: list[type],
    offsets: tuple[int, ...] | None,
    impossible: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[RectanglesJob | ViewsJob] = []

    def answer(_: Guard, job: RectanglesJob | ViewsJob) -> tuple[str, int, tuple[int, ...] | None]:
        jobs.append(job)
        word = words[len(jobs) - 1]
        return word, 0, (0, 2, 4) if word in ("OPTIMAL", "FEASIBLE") else None

    monkeypatch.setattr(Guard, "run", answer)
    packing = portfolio._beside(Guard(lazy=True), CROSS, 6, Clock(600, counted=False))
    assert packing is not None
    assert [type(job) for job in jobs] == asked
    assert (packing.offsets, packing.impossible) == (offsets, impossible)
    for early, late in zip(jobs, jobs[2:], strict=False):
        assert early.seconds < late.seconds
    assert [job.order for job in jobs if isinstance(job, RectanglesJob)] == ["life", "area"][: (len(jobs) + 1) // 2]


def test_a_limit_of_nothing_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "heuristic", lambda *_: None)
    for counted in (False, True):
        found = find_packing(CROSS, 5, Clock(0, counted))
        assert (found.offsets, found.impossible, found.by) == (None, False, "limit")


def test_a_lazy_guard_starts_no_process_that_nobody_asks_for() -> None:
    started = time.monotonic()
    with Guard(lazy=True) as guard:
        assert guard._process is None
    assert time.monotonic() - started < 1
