"""Orders: when what is placed one after the other starts, what goes beside the core, and what a search finds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.verify import broken_rule
from hexloom.formulations.flat.windows import counted_schedule
from hexloom.formulations.limit import Budget
from hexloom.formulations.line.fill import bundles_of, core_of, side_by_side
from hexloom.formulations.line.order import Line
from hexloom.formulations.line.search import OrderSearch, solution_of
from hexloom.formulations.line.tables import applies, tables_of
from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use

WORKERS = 2


def moved(name: str, ticks: int, owner: int, tile: int, *, issue: int = 0, poll: int = 0) -> Op:
    dma = Dma(owner_engine="hvx", owner_unit=owner, issue_ticks=issue, poll_ticks=poll)
    mode = Mode(uses=(Use(engine="dma", ticks=ticks),), latency_ticks=ticks, dma=dma)
    return Op(name=name, task=name.split("/")[0], stage="load", tile=tile, modes=(mode,))


def worked(name: str, ticks: int, tile: int, engine: str = "hvx", unit: int | None = None) -> Op:
    units = WORKERS if engine == "hvx" and unit is None else 1
    use = Use(engine=engine, ticks=ticks, units=units, unit_ids=None if unit is None else (unit,))
    task, stage = name.split("/")
    mode = Mode(uses=(use,), latency_ticks=ticks)
    return Op(name=name, task=task, stage=stage.split(".")[0], tile=tile, modes=(mode,))


def tight_matmuls(tiles: int, free: int = 0, rows: int = 0, *, issue: int = 0, poll: int = 0) -> Problem:
    """Tiles of load 3, unpack 4 on all workers, job 10 and store 5 on all; and rows of load 2 and work 5 on one.

    Beside the weights (4 B) and the output (2 B) of a job there is room for the next weights and what they are made
    of (1 B), and ``free`` bytes more: an output can only be stored before the next weights are unpacked.
    """
    ops, edges, buffers = [], [], []
    for k in range(tiles):
        ops += [
            moved(f"m/load.{k}", 3, 0, k, issue=issue, poll=poll),
            worked(f"m/unpack.{k}", 4, k),
            worked(f"m/job.{k}", 10, k, "hmx"),
            worked(f"m/store.{k}", 5, k),
        ]
        stages = [f"m/{stage}.{k}" for stage in ("load", "unpack", "job", "store")]
        edges += list(pairwise(stages))
        for size, (a, b) in zip((1, 4, 2), pairwise(stages), strict=True):
            buffers.append(Buffer(name=f"{a}>{b}", size_bytes=size, ops=(a, b), align_bytes=1))
    for k in range(rows):
        load, work = f"r/load.{k}", f"r/work.{k}"
        ops += [moved(load, 2, k % WORKERS, k, issue=issue, poll=poll), worked(work, 5, k, unit=k % WORKERS)]
        edges.append((load, work))
        buffers.append(Buffer(name=f"row.{k}", size_bytes=1, ops=(load, work), align_bytes=1))
    return Problem(
        engines=(Engine(name="hvx", units=WORKERS), Engine(name="hmx"), Engine(name="dma", kind="pipe")),
        ops=tuple(ops),
        precedences=tuple(Precedence(before=a, after=b) for a, b in edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=11 + free),
    )


def named(problem: Problem, *names: str) -> list[int]:
    return [problem.op_index[name] for name in names]


def line_of(problem: Problem, headroom: float = 0.0) -> Line:
    return Line(tables_of(problem, lower_bounds(problem), headroom))


def test_jobs_of_the_busiest_engine_and_transfers_that_cost_nothing_are_not_listed() -> None:
    p = tight_matmuls(2, rows=1)
    stages = {p.ops[i].stage for i in line_of(p).tables.listed}
    assert stages == {"unpack", "store", "work"}
    dear = tight_matmuls(2, rows=1, issue=1)
    assert {dear.ops[i].stage for i in line_of(dear).tables.listed} == {"load", "unpack", "store", "work"}


def test_what_a_job_needs_is_kept_for_it_and_loads_come_as_late_as_they_do_no_harm() -> None:
    p = tight_matmuls(2, free=9)
    line = line_of(p)
    assert line.set(named(p, "m/unpack.0", "m/unpack.1", "m/store.0", "m/store.1"))
    start = dict(zip((op.name for op in p.ops), line.start, strict=True))
    assert start == {
        "m/load.0": 0, "m/unpack.0": 3, "m/job.0": 7, "m/store.0": 17,
        "m/load.1": 3, "m/unpack.1": 7, "m/job.1": 17, "m/store.1": 27,
    }  # fmt: skip
    assert line.end == 32


def test_without_room_for_two_weights_and_two_outputs_the_store_comes_first() -> None:
    p = tight_matmuls(3)
    line = line_of(p)
    assert line.set(named(p, "m/unpack.0", "m/unpack.1", "m/store.0", "m/unpack.2", "m/store.1", "m/store.2"))
    assert line.start[p.op_index["m/unpack.2"]] >= line.known[p.op_index["m/store.0"]]
    first = line.end
    # In the other order the third unpack waits for the first job's output all the same: the store is pulled forward.
    assert line.set(named(p, "m/unpack.0", "m/unpack.1", "m/unpack.2", "m/store.0", "m/store.1", "m/store.2"))
    assert line.end >= first


def test_a_part_of_the_scratchpad_can_be_left_free() -> None:
    p = tight_matmuls(2)
    assert line_of(p, headroom=0.0).tables.room == 11
    assert line_of(p, headroom=0.5).tables.room == 5
    assert not line_of(p, headroom=0.5).set(named(p, "m/unpack.0", "m/unpack.1", "m/store.0", "m/store.1"))


def test_the_core_is_what_feeds_the_busiest_engine_and_the_rest_goes_in_bundles() -> None:
    p = tight_matmuls(2, rows=5)
    tables = line_of(p).tables
    core = core_of(p, tables)
    assert {p.ops[i].task for i in core} == {"m"}
    bundles = bundles_of(p, tables, core)
    assert [[[p.ops[i].name for i in group] for group in of] for of in bundles] == [
        [["r/work.0"], ["r/work.1"]],
        [["r/work.2"], ["r/work.3"]],
        [["r/work.4"]],
    ]
    assert side_by_side([[1, 2], [3]]) == [1, 3, 2]


def test_groups_that_choose_their_worker_are_bundled_too() -> None:
    p = tight_matmuls(3, rows=4)
    use = Use(engine="hvx", ticks=5)
    free = Mode(uses=(use,), latency_ticks=5)
    anywhere = tuple(op.model_copy(update={"modes": (free,)}) if op.stage == "work" else op for op in p.ops)
    q = p.changed(ops=anywhere)
    tables = line_of(q).tables
    bundles = bundles_of(q, tables, core_of(q, tables))
    assert [len(of) for of in bundles] == [2, 2]


def test_orders_say_nothing_of_pools_and_shares() -> None:
    p = tight_matmuls(1)
    assert applies(p)
    assert not applies(p.changed(engines=(*p.engines, Engine(name="places", units=2, kind="share"))))


@pytest.mark.parametrize(("issue", "poll"), [(0, 0), (1, 0), (1, 1)])
def test_a_search_over_orders_leaves_the_busiest_engine_no_break(issue: int, poll: int) -> None:
    p = tight_matmuls(8, free=1, rows=2, issue=issue, poll=poll)
    bounds = lower_bounds(p)
    search = OrderSearch(p, bounds, Budget(2.0, counted=True), 0, counted_schedule)
    found = search.run(0.0, int(bounds.best.ticks))
    assert found is not None
    assert broken_rule(p, found) is None
    # With nothing to pay for transfers the bound is met; else every job may wait for an issue and a look.
    assert found.makespan <= bounds.best.ticks + 8 * (issue + poll)


def test_the_same_seed_finds_the_same_schedule() -> None:
    p = tight_matmuls(8, rows=6)
    bounds = lower_bounds(p)
    one, two = (OrderSearch(p, bounds, Budget(0.5, counted=True), 3, counted_schedule).run(0.0, 0) for _ in range(2))
    assert one is not None
    assert one == two


def test_a_search_goes_on_where_it_was() -> None:
    """In two turns it tries what it would have tried in one; orders of the core that another one found cost nothing."""
    p = tight_matmuls(8, rows=6)
    bounds = lower_bounds(p)
    budgets = [Budget(0.5, counted=True) for _ in range(2)]
    one = OrderSearch(p, bounds, budgets[0], 3, counted_schedule)
    two = OrderSearch(p, bounds, budgets[1], 3, counted_schedule, orders=one.orders)
    assert one.begin(0.4) == two.begin(0.4)
    assert budgets[1].left > budgets[0].left
    one.improve(budgets[0].left - 0.2, 0)
    halves = [two.improve(budgets[1].left - spent, 0) for spent in (0.1, 0.1)]
    assert halves == sorted(halves, reverse=True)
    assert two.solution() == two.solution(), "to look at the best order must not change the search"
    assert two.end == halves[-1]
    spare = 0.01
    while one.tries < two.tries:
        one.improve(budgets[0].left - spare, 0)
    while two.tries < one.tries:
        two.improve(budgets[1].left - spare, 0)
    assert (one.tries, one.end) == (two.tries, two.end)


def test_a_change_is_tried_from_where_it_begins_to_where_all_is_as_it_was() -> None:
    p = tight_matmuls(30, free=1)
    line = line_of(p)
    order = named(p, "m/unpack.0", "m/unpack.1")
    for k in range(2, 30):
        order += named(p, f"m/store.{k - 2}", f"m/unpack.{k}")
    order += named(p, "m/store.28", "m/store.29")
    assert line.set(order)
    before = line.placed
    later = [*order[:20], order[21], order[20], *order[22:]]
    end = line.tried(later, 20, 22, None)
    assert line.placed - before < len(order) // 2
    assert end is not None
    line.keep()
    guess = line.end
    assert line.set(later)
    assert line.end == guess


def test_who_fetches_comes_after_what_the_transfer_waits_for() -> None:
    """A cycle over iterations through a transfer: work k, what it sends, work k + 1 that needs it back."""
    ops = [op for k in range(3) for op in (worked(f"t/work.{k}", 4, k), moved(f"t/back.{k}", 3, 0, k))]
    names = [op.name for op in ops]
    free = Problem(
        engines=(Engine(name="hvx", units=WORKERS), Engine(name="dma", kind="pipe")),
        ops=tuple(ops),
        precedences=tuple(Precedence(before=a, after=b) for a, b in pairwise(names)),
    )
    line = Line(tables_of(free, lower_bounds(free)))
    listed = [i for i in range(len(ops)) if free.ops[i].stage == "work"]
    assert not line.set(listed[::-1])
    assert line.set(listed)
    assert line.end == 4 + 3 + 4 + 3 + 4 + 3
    assert broken_rule(free, solution_of(line, short_lives=False)) is None
