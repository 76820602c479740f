"""The configuration bound on problems whose optimum is known by hand, on long ones, and on the worked example."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.configuration.bound import configuration_bound
from hexloom.formulations.configuration.certificate import Certificate
from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.hwmodels import load_hw
from hexloom.optimizer.certificate import check_certificate
from hexloom.optimizer.lower import lower
from hexloom.optimizer.workload import Workload

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "llama_matmul_and_norm" / "workload.yaml"


def run(engine: str, ticks: int, units: int = 1, ids: tuple[int, ...] | None = None, late: int = 0) -> Mode:
    use = Use(engine=engine, ticks=ticks, units=units, unit_ids=ids)
    return Mode(uses=(use,), latency_ticks=ticks + late)


def op(name: str, *modes: Mode, stage: str = "") -> Op:
    return Op(name=name, modes=modes, stage=stage)


def bound(problem: Problem, **kwargs: int) -> int:
    """Return the bound, after its certificate was checked."""
    found = configuration_bound(problem, lower_bounds(problem).heads_tails, time_limit_s=10, **kwargs)
    assert found is not None
    assert check_certificate(problem, found[1]) == []
    assert found[0].name == "configuration"
    assert found[0].ticks == found[1].ticks
    return found[0].ticks


def tiles(count: int, in_a_row: bool = False) -> Problem:
    """Loads, matrix work and vector rows; the buffers of a tile and of two rows do not fit beside each other."""
    dma = Dma(owner_engine="v", owner_unit=0, issue_ticks=1, poll_ticks=1)
    load = (Mode(uses=(Use(engine="d", ticks=7),), latency_ticks=9, dma=dma),)
    ops: list[Op] = []
    edges: list[Precedence] = []
    buffers: list[Buffer] = []
    matrix, row = (run("m", 11),), (run("v", 20), run("v", 11, 2))
    for k in range(count):
        ops.append(Op(name=f"l{k}", task="a", stage="load", tile=k, modes=load))
        ops.append(Op(name=f"m{k}", task="a", stage="matmul", tile=k, modes=matrix))
        ops.append(Op(name=f"r{k}", task="b", stage="row", tile=k, modes=row))
        edges.append(Precedence(before=f"l{k}", after=f"m{k}"))
        if in_a_row and k > 1:
            edges.append(Precedence(before=f"m{k - 2}", after=f"l{k}"))
        buffers.append(Buffer(name=f"b{k}", size_bytes=100, ops=(f"l{k}", f"m{k}")))
        buffers.append(Buffer(name=f"c{k}", size_bytes=60, ops=(f"r{k}",)))
    return Problem(
        engines=(Engine(name="v", units=4), Engine(name="m"), Engine(name="d", kind="pipe")),
        ops=tuple(ops),
        precedences=tuple(edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=210),
    )


# Optima known by hand


def test_three_ops_of_two_units_on_three_units_take_turns() -> None:
    """Work alone says 6 x 4 / 3 = 8; any two need four units, so it is 12."""
    problem = Problem(engines=(Engine(name="v", units=3),), ops=tuple(op(f"o{k}", run("v", 4, 2)) for k in range(3)))
    assert lower_bounds(problem).best.ticks == 8
    assert bound(problem) == 12


def test_ops_that_do_not_fit_together_take_turns() -> None:
    problem = Problem(
        engines=(Engine(name="m"), Engine(name="v")),
        ops=(op("a", run("m", 5)), op("b", run("v", 7))),
        buffers=(Buffer(name="x", size_bytes=6, ops=("a",)), Buffer(name="y", size_bytes=6, ops=("b",))),
        scratchpad=Scratchpad(total_bytes=11),
        entry_ticks=3,
    )
    assert {b.name: b.ticks for b in lower_bounds(problem).found}["heads_tails"] == 10
    assert bound(problem) == 15
    assert bound(problem.model_copy(update={"scratchpad": Scratchpad(total_bytes=12)})) == 10


def test_a_resident_buffer_takes_room_from_all() -> None:
    problem = Problem(
        engines=(Engine(name="m"), Engine(name="v")),
        ops=(op("a", run("m", 5)), op("b", run("v", 7))),
        buffers=(
            Buffer(name="x", size_bytes=4, ops=("a",)),
            Buffer(name="y", size_bytes=4, ops=("b",)),
            Buffer(name="r", size_bytes=4, resident=True),
        ),
        scratchpad=Scratchpad(total_bytes=11),
    )
    assert bound(problem) == 12


def test_a_buffer_lives_between_its_users() -> None:
    """While c runs, x waits for d; so a, with 6 bytes of its own, cannot run beside b, c or d."""
    problem = Problem(
        engines=(Engine(name="m"), Engine(name="v")),
        ops=(op("a", run("m", 5)), op("b", run("v", 2)), op("c", run("v", 2)), op("d", run("v", 2))),
        precedences=(Precedence(before="b", after="c"), Precedence(before="c", after="d")),
        buffers=(Buffer(name="x", size_bytes=6, ops=("b", "d")), Buffer(name="y", size_bytes=6, ops=("a",))),
        scratchpad=Scratchpad(total_bytes=11),
    )
    assert bound(problem) == 11


def test_named_units_count_one_by_one() -> None:
    problem = Problem(
        engines=(Engine(name="v", units=2),), ops=tuple(op(f"o{k}", run("v", 4, 1, (1,))) for k in range(3))
    )
    assert lower_bounds(problem).best.ticks == 6
    assert bound(problem) == 12


def test_the_cheapest_mode_counts() -> None:
    """Two ops, each 6 on one unit or 4 on two: side by side they take 6."""
    problem = Problem(
        engines=(Engine(name="v", units=2),), ops=tuple(op(f"o{k}", run("v", 6), run("v", 4, 2)) for k in range(2))
    )
    assert bound(problem) == 6


def test_a_mode_without_enough_units_is_no_mode() -> None:
    problem = Problem(engines=(Engine(name="v"),), ops=(op("a", run("v", 1, 2), run("v", 9)),))
    assert bound(problem) == 9
    impossible = Problem(engines=(Engine(name="v"),), ops=(op("a", run("v", 1, 2)),))
    assert configuration_bound(impossible, lower_bounds(impossible).heads_tails) is None


def test_owners_pay_for_issue_and_poll() -> None:
    """Four transfers at once, but their one owner issues and polls each: 4 x 3 and the last transfer of 1."""
    dma = Dma(owner_engine="v", owner_unit=0, issue_ticks=2, poll_ticks=1)
    load = Mode(uses=(Use(engine="d", ticks=1),), latency_ticks=1, dma=dma)
    problem = Problem(
        engines=(Engine(name="v"), Engine(name="d", units=4, kind="pipe")),
        ops=tuple(op(f"o{k}", load) for k in range(4)),
    )
    assert bound(problem) == 12


def test_heads_and_tails_keep_work_from_the_ends() -> None:
    """Loads of 2 and stores of 3 round two matrix ops of 5: 2 + 10 + 3."""
    ops, edges = [], []
    for k in range(2):
        ops += [op(f"l{k}", run("d", 2)), op(f"m{k}", run("m", 5)), op(f"s{k}", run("v", 3))]
        edges += [Precedence(before=f"l{k}", after=f"m{k}"), Precedence(before=f"m{k}", after=f"s{k}")]
    engines = (Engine(name="d"), Engine(name="m"), Engine(name="v"))
    assert bound(Problem(engines=engines, ops=tuple(ops), precedences=tuple(edges))) == 15


def test_ops_without_length_take_nothing() -> None:
    marker = Problem(engines=(Engine(name="v"),), ops=(op("a", Mode(latency_ticks=0)), op("b", run("v", 4))))
    assert bound(marker) == 4
    nothing = Problem(ops=(op("a", Mode(latency_ticks=0)),), entry_ticks=2)
    assert configuration_bound(nothing, lower_bounds(nothing).heads_tails) is None


# Classes of tiles


@pytest.mark.parametrize("in_a_row", [False, True])
def test_classes_prove_no_more_than_single_ops(in_a_row: bool) -> None:
    problem = tiles(6, in_a_row)
    assert lower_bounds(problem).best.ticks < bound(problem, single_limit=0) <= bound(problem)


def test_what_is_solved_does_not_grow_with_the_number_of_tiles() -> None:
    found = []
    for count in (100, 2_000):
        problem = tiles(count)
        found.append(configuration_bound(problem, lower_bounds(problem).heads_tails, time_limit_s=10))
    few, many = found
    assert few is not None and many is not None
    assert many[0].ticks == pytest.approx(20 * few[0].ticks, rel=0.02)
    assert len(many[1].classes) == len(few[1].classes)


def test_the_bound_of_the_worked_example_is_no_worse_than_the_best_simple_one() -> None:
    workload = Workload.load(EXAMPLE)
    assert workload.hw is not None
    problem = lower(workload, load_hw(workload.hw)).problem
    simple = lower_bounds(problem)
    found = configuration_bound(problem, simple.heads_tails)
    assert found is not None
    assert found[0].ticks >= simple.best.ticks
    assert check_certificate(problem, found[1]) == []


# Limits


def test_a_budget_counted_in_work_gives_the_same_bytes() -> None:
    problem = tiles(8, True)
    ht = lower_bounds(problem).heads_tails
    found = [configuration_bound(problem, ht, time_limit_s=0.05, deterministic=True) for _ in range(2)]
    assert found[0] == found[1]


def test_no_time_gives_no_bound_or_a_valid_one() -> None:
    problem = tiles(20)
    found = configuration_bound(problem, lower_bounds(problem).heads_tails, time_limit_s=0.0)
    assert found is None or check_certificate(problem, found[1]) == []


def test_a_certificate_is_read_as_it_was_written() -> None:
    problem = tiles(3)
    found = configuration_bound(problem, lower_bounds(problem).heads_tails)
    assert found is not None
    again = Certificate.model_validate_json(found[1].model_dump_json())
    assert again == found[1]
    assert all(Fraction(price) >= 0 for one in again.classes for row in one.prices for price in row)


def test_horizons_of_any_length_are_reached_in_few_steps() -> None:
    """Step by step from the first refuted one it would take years."""
    modes = (Mode(uses=(Use(engine="e", ticks=3),), latency_ticks=10**15),)
    ops = tuple(Op(name=name, modes=modes) for name in "abc")
    of = Problem(engines=(Engine(name="e"),), ops=ops, precedences=(Precedence(before="a", after="b"),))
    found = configuration_bound(of, lower_bounds(of).heads_tails, time_limit_s=1.0)
    assert found is None or found[0].ticks <= 2 * 10**15 + 3


@pytest.mark.parametrize(("third", "engine"), [(10, None), (30, "c")])
def test_who_carries_half_of_the_prices_is_named(third: int, engine: str | None) -> None:
    """Three ops on three engines whose buffers do not fit beside each other: 10 + 10 + 10, and 10 + 10 + 30."""
    ops = tuple(op(name, run(name, ticks)) for name, ticks in (("a", 10), ("b", 10), ("c", third)))
    problem = Problem(
        engines=tuple(Engine(name=name) for name in "abc"),
        ops=ops,
        buffers=tuple(Buffer(name=name, size_bytes=60, ops=(name,)) for name in "abc"),
        scratchpad=Scratchpad(total_bytes=100),
    )
    found = configuration_bound(problem, lower_bounds(problem).heads_tails, time_limit_s=10)
    assert found is not None
    assert (found[0].ticks, found[0].engine) == (20 + third, engine)
