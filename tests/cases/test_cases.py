"""The reports of the case files, each with all that its `expected` and `check` ask for."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import (
    memory_is_sound,
    peak_bytes,
    pieces,
    problem_file,
    refusal_of,
    rows,
    run_cli,
    schedule_of,
    workload_file,
)
from cases.neutral import to_problem, to_workload

from hexloom import InvalidInputError, Workload, solve, what_if
from hexloom.formulations import portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.guard import Guard, Outcome
from hexloom.formulations.flat.model import FlatModel, FlatOptions, FlatSolution
from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use
from hexloom.hwmodels import load_hw
from hexloom.hwmodels.quantity import parse_bytes
from hexloom.optimizer import solve as solve_module
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.footprint import least_footprint
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.problem import Rule

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared


def test_vtcm_01_rounding_counts_before_the_sum(case: Case) -> None:
    data = case("VTCM-01")
    refused = refusal_of(data)
    assert (refused.op, refused.need, refused.have, refused.short) == ("mm", 8390656, 8388608, 2048)
    assert refused.rounding_bytes == 6400
    for part in ("'mm'", "8,390,656 B", "8,388,608 B", "short 2,048 B", "6,400 B (6.2 KiB) of the need is rounding"):
        assert part in refused.message
    schedule = schedule_of(data, machine={**data["machine"], "vtcm": 8390656})
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 100)
    assert len(schedule.plan.addresses) == 5
    assert all(at % 2048 == 0 for at in schedule.plan.addresses.values())


def test_vtcm_03_available_is_not_total(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variants = case("VTCM-03")["variants"]
    roomy = schedule_of(variants["total_8MiB"])
    assert roomy.makespan == 30
    assert not any("double buffering" in note for note in roomy.notes)
    tight = schedule_of(variants["reserved_1MiB"])
    assert tight.makespan == 40
    said = "double buffering lost: would need 7,864,320 B, 7,340,032 available; it costs 10 ticks"
    assert tight.notes == (said,)
    _, out, _ = run_cli(capsys, "solve", problem_file(tmp_path, variants["reserved_1MiB"]))
    assert said in out


def test_vtcm_04_largest_gap_beside_a_resident(case: Case) -> None:
    data = case("VTCM-04")
    refused = refusal_of(data)
    assert (refused.kind, refused.have, refused.need, refused.short) == ("largest_gap", 1378048, 1430656, 52608)
    for part in ("resident@1378048+121088", "largest gap 1378048 B", "wanted 1430656 B", "short 52608 B", "'region'"):
        assert part in refused.message
    assert [(h.buffer, h.address) for h in refused.holders] == [("region", None), ("resident", 1378048)]
    resident, region = data["bufs"]
    schedule = schedule_of(data, bufs=[resident, {**region, "bytes": 1378048}])
    assert schedule.plan.addresses == {"resident": 1378048, "region": 0}


def test_vtcm_06_a_freed_region_takes_two_halves(case: Case) -> None:
    schedule = schedule_of(case("VTCM-06"))
    assert peak_bytes(schedule) == 65536
    assert {schedule.plan.addresses["C0"], schedule.plan.addresses["C1"]} == {0, 32768}
    assert sorted(name for name, *_ in pieces(schedule)) == ["C0", "C1", "P"]


def test_vtcm_07_splitting_cures_what_packing_cannot(case: Case) -> None:
    data = case("VTCM-07")
    schedule = schedule_of(data)
    assert (schedule.status, schedule.makespan, peak_bytes(schedule)) == ("OPTIMAL", 85, 65536)
    one_byte_less = schedule_of(data, machine={**data["machine"], "vtcm": 65535})
    assert (one_byte_less.makespan, peak_bytes(one_byte_less)) == (120, 32768)
    whole = {"id": "whole", "bytes": 262144}
    tasks = [
        {"id": "L", "eng": "dma", "dur": 5, "bufs": ["whole"]},
        {"id": "M", "eng": "hmx", "dur": 10, "after": ["L"], "bufs": ["whole"]},
    ]
    refused = refusal_of(data, tasks=tasks, bufs=[whole])
    assert (refused.need, refused.have) == (262144, 65536)
    assert "split it into 4 pieces or more (8 when double-buffered)" in refused.message


def test_vtcm_09_a_second_half_and_a_scratch_share(case: Case) -> None:
    data = case("VTCM-09")
    schedule = schedule_of(data)
    assert peak_bytes(schedule) == 196608
    assert sum(b["bytes"] for b in data["bufs"]) == 229376
    pins = {"mm_b": 163840, "topk_tmp": 163840}
    pinned = schedule_of(data, bufs=[b | ({"at": pins[b["id"]]} if b["id"] in pins else {}) for b in data["bufs"]])
    assert peak_bytes(pinned) == 196608
    assert {name: pinned.plan.addresses[name] for name in pins} == pins


def test_vtcm_10_scratch_is_planned(case: Case) -> None:
    data = case("VTCM-10")
    refused = refusal_of(data)
    assert refused.short == 1840
    assert "short 1,840 B" in refused.message
    assert "sum.scratch 8,192 B" in refused.message
    (task,) = data["tasks"]
    schedule = schedule_of(data, tasks=[{**task, "scratch": 6352}])
    assert peak_bytes(schedule) == 196352
    assert "sum.scratch" in schedule.plan.addresses
    (x, scratch) = sorted(pieces(schedule), key=lambda piece: piece[0] != "x")
    assert scratch[3:] == (rows(schedule)["sum"].start, rows(schedule)["sum"].observed)
    assert {x[2] - x[1], scratch[2] - scratch[1]} == {190000, 6352}
    assert json.loads(schedule.to_json())["plan"]["addresses"]["sum.scratch"] == scratch[1]


def test_vtcm_12_bytes_are_bytes(case: Case) -> None:
    data = case("VTCM-12")
    for spelling in ("192KiB", "196608", "0x30000"):
        assert parse_bytes(spelling) == 196608
        refused = refusal_of(data, machine={**data["machine"], "vtcm": spelling})
        assert (refused.need, refused.have, refused.unit) == (384000, 196608, "B")
        for part in ("384,000 B (375 KiB)", "196,608 B (192 KiB)", "the largest 'b' that fits is 196,608 B (192 KiB)"):
            assert part in refused.message
    for spelling, meant in (("192K", "192KiB"), ("1572864b", "1572864B")):
        with pytest.raises(ValueError, match=f"'{spelling}' is ambiguous: write {meant}"):
            parse_bytes(spelling)
        with pytest.raises(InvalidInputError, match=f"machine.vtcm: '{spelling}' is ambiguous"):
            to_problem(data, machine={**data["machine"], "vtcm": spelling})


@pytest.mark.parametrize(("vtcm", "makespan"), [(65536, 80), (32768, 152)])
def test_vtcm_13_an_iteration_ends_the_life_of_its_tile(case: Case, vtcm: int, makespan: int) -> None:
    data = case("VTCM-13")
    schedule = schedule_of(data, limit_s=2, machine={**data["machine"], "vtcm": vtcm})
    assert (schedule.status, schedule.makespan, peak_bytes(schedule)) == ("OPTIMAL", makespan, vtcm)


def test_vtcm_13_not_even_one_tile(case: Case) -> None:
    data = case("VTCM-13")
    refused = refusal_of(data, machine={**data["machine"], "vtcm": 32767})
    assert (refused.need, refused.have) == (32768, 32767)


def test_vtcm_15_an_accumulator_counts_once(case: Case) -> None:
    schedule = schedule_of(case("VTCM-15"))
    assert (schedule.status, schedule.makespan, peak_bytes(schedule)) == ("OPTIMAL", 30, 131072)
    assert [name for name, *_ in pieces(schedule)] == ["acc"]
    assert least_footprint(schedule) == 131072


def test_vtcm_16_alignment_order_decides_the_peak(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = case("VTCM-16")
    roomy = schedule_of(data)
    assert peak_bytes(roomy) <= 8192
    assert least_footprint(roomy) == 6160
    _, out, _ = run_cli(capsys, "solve", problem_file(tmp_path, data))
    assert "6,160 B (6.0 KiB) hold this plan" in out
    _, out, _ = run_cli(capsys, "solve", problem_file(tmp_path, data), "--json")
    assert json.loads(out)["scratchpad"]["least_bytes"] == 6160
    schedule = schedule_of(data, machine={**data["machine"], "vtcm": 6160})
    assert peak_bytes(schedule) == 6160
    at = schedule.plan.addresses
    assert (at["A"] % 2048, at["B"] % 128, at["C"] % 128) == (0, 0, 0)
    result = solve(to_problem(data, machine={**data["machine"], "vtcm": 6159}), time_limit_s=5)
    assert result.status == "INFEASIBLE"
    why = result.infeasibility
    assert why is not None and why.minimal
    assert {member.names for member in why.conflict} == {(), ("A",), ("B",), ("C",)}
    more = next(lever for lever in why.levers if lever.resource == "scratchpad")
    assert (more.have, more.need, more.least) == (6159, 6160, True)


def test_vtcm_18_pins_are_hard(case: Case) -> None:
    data = case("VTCM-18")
    feasible, blocked = ({"machine": {"vtcm": part["vtcm"]}, "bufs": part["bufs"]} for part in (data["a"], data["b"]))
    schedule = schedule_of(feasible)
    assert schedule.plan.addresses == {"F": 4, "A": 0, "B": 0, "C": 0}
    assert peak_bytes(schedule) == 8
    refused = refusal_of(blocked)
    assert (refused.kind, refused.have, refused.need) == ("largest_gap", 4, 6)
    for part in ("largest gap 4 B", "wanted 6 B", "free 8 B", "beside the pinned F@4+4", "move a pin"):
        assert part in refused.message


def test_vtcm_19_capacity_that_changes(case: Case) -> None:
    data = case("VTCM-19")
    schedule = schedule_of(data)
    assert schedule.makespan == 30
    assert ("reserved0", 3, 8, 10, 20) in pieces(schedule)
    assert schedule_of(data, reserved=[]).makespan == 20


def test_vtcm_21_nothing_is_written(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("VTCM-21")
    refused = refusal_of(data)
    assert (refused.need, refused.have, refused.short) == (2700000, 2097152, 602848)
    out = tmp_path / "out"
    code, _, said = run_cli(capsys, "solve", problem_file(tmp_path, data), "-o", out)
    assert code == 1
    assert "short 602,848 B" in said
    assert not out.exists()


@pytest.mark.parametrize("number", [0, 1])
def test_vtcm_22_pieces_per_row(case: Case, number: int) -> None:
    data = case("VTCM-22")
    wanted = data["cases"][number]
    names = [f"{k}" for k in range(data["threads"] * data["streams"] * data["depth"])]

    def form(pieces: int) -> dict[str, Any]:
        return {
            "machine": {"hvx": data["threads"], "vtcm": wanted["vtcm"]},
            "tasks": [{"id": f"t{k}", "eng": "hvx", "dur": 1, "bufs": names, "gang": "rows"} for k in range(8)],
            "bufs": [{"id": name, "bytes": -(-data["row_bytes"] // pieces)} for name in names],
        }

    refused = refusal_of(form(1))
    assert refused.need == 32 * 2**20
    assert f"into {wanted['min_pieces']} pieces or more" in refused.message
    split = next(lever for lever in refused.levers if f"into {wanted['min_pieces']} pieces" in lever.text)
    assert split.outcome == "feasible"
    assert schedule_of(form(wanted["min_pieces"])).makespan == 1
    one_fewer = refusal_of(form(wanted["min_pieces"] - 1))
    if wanted["min_pieces"] == 5:
        assert (one_fewer.need, one_fewer.have) == (8 * 2**20, 7 * 2**20)


def test_ord_01_one_slot_or_two(case: Case) -> None:
    data = case("ORD-01")
    assert schedule_of(data["one_D_slot"]).makespan == 44
    assert schedule_of(data["two_D_slots"]).makespan == 36


def test_ord_01_bad_table_is_refused(case: Case) -> None:
    """The table knows only the waits of two slots; with one slot the checker names the pair that breaks."""
    data = case("ORD-01")
    problem = to_problem(data["one_D_slot"])
    orders = {"hmx": data["bad_table"]["hmx_order"], "hvx": ["SM0", "SM1", "SM2", "SM3"]}
    plan = Plan(
        assignments=tuple(Assignment(op=op, units={engine: (0,)}) for engine, ops in orders.items() for op in ops),
        queues=tuple(
            Queue(engine=engine, unit=0, entries=tuple(QueueEntry(op=op, action="run") for op in ops))
            for engine, ops in orders.items()
        ),
        waits=tuple(Wait(before=e.before, after=e.after) for e in to_problem(data["two_D_slots"]).precedences),
        addresses={},
    )
    violations = check_plan(problem, plan)
    assert ("O0", "SM1") in [v.parties for v in violations]
    told = next(v.message for v in violations if v.parties == ("O0", "SM1"))
    assert "'O0'" in told and "'SM1'" in told


def test_ord_04_wait_before_reuse_not_before_start(case: Case) -> None:
    data = case("ORD-04")
    reuse = schedule_of(data["reuse"])
    assert (reuse.status, reuse.makespan, reuse.lower_bound, reuse.bounds[0].engine) == ("OPTIMAL", 30, 30, "hvx")
    strict = schedule_of(data["strict"])
    assert (strict.status, strict.makespan) == ("OPTIMAL", 48)


@pytest.mark.parametrize("tiles", range(1, 9))
def test_ord_04_for_any_number_of_tiles(case: Case, tiles: int) -> None:
    """The loop of the report at other lengths: load 4, compute 6, store 2; buffers of two tiles."""
    assert len(case("ORD-04")["reuse"]["tasks"]) == 12
    tasks = []
    for k in range(tiles):
        old = k - 2
        tasks += [
            {"id": f"L{k}", "eng": "dma", "dur": 4, "after": [f"C{old}"] if old >= 0 else []},
            {"id": f"C{k}", "eng": "hvx", "dur": 6, "after": [f"L{k}", *([f"S{old}"] if old >= 0 else [])]},
            {"id": f"S{k}", "eng": "dma", "dur": 2, "after": [f"C{k}"]},
        ]
    machine = {"dma": 1, "hvx": 1}
    if tiles == 4:
        assert tasks == case("ORD-04")["reuse"]["tasks"]
    schedule = schedule_of({"machine": machine, "tasks": tasks})
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 4 + 6 * tiles + 2)


@pytest.mark.parametrize(("depth", "makespan", "reverse"), [(1, 24, 3), (2, 20, 2)])
def test_ord_06_a_fifo_waits_once_per_slot(case: Case, depth: int, makespan: int, reverse: int) -> None:
    schedule = schedule_of(case("ORD-06")[f"depth{depth}"])
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", makespan)
    waits = [(w.before, w.after) for w in schedule.plan.waits if w.before.startswith("V") and w.after.startswith("P")]
    assert waits == [(f"V{i - depth}", f"P{i}") for i in range(depth, 4)]
    assert len(waits) == reverse


def test_ord_12_a_gang_wider_than_the_machine(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("ORD-12")
    refused = refusal_of(data)
    assert (refused.op, refused.resource, refused.need, refused.have) == ("bar", "hvx", 8, 6)
    assert "'bar' needs 8 units of hvx at once, the machine has 6" in refused.message
    assert run_cli(capsys, "solve", problem_file(tmp_path, data))[0] == 1
    six = schedule_of(data, tasks=data["tasks"][:6])
    assert six.makespan == 10
    assert [row.start for row in six.rows] == [0]
    assert six.plan.assignments[0].units == {"hvx": (0, 1, 2, 3, 4, 5)}
    assert [[entry.op for entry in queue.entries] for queue in six.plan.queues] == [["bar"]] * 6
    alone = [{key: value for key, value in task.items() if key != "gang"} for task in data["tasks"]]
    assert schedule_of(data, tasks=alone, machine={"hvx": 4}).makespan == 20


def test_sol_01_long_durations(case: Case) -> None:
    started = time.monotonic()
    schedule = schedule_of(case("SOL-01"), limit_s=10)
    assert time.monotonic() - started < 10  # the report waited 15 minutes
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 12_000_000_000)
    assert sorted(row.start for row in schedule.rows) == [0, 4_000_000_000, 8_000_000_000]


def test_sol_03_decimals_stay_exact(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("SOL-03")
    inputs = {
        "problem": problem_file(tmp_path, data["exact"]),
        "workload": workload_file(tmp_path, {**to_workload(data["exact"]), "hw": "hexagon-v79"}),
    }
    for source in inputs.values():
        code, out, _ = run_cli(capsys, "solve", source, "--json")
        assert code == 0
        assert '"makespan_us": 0.6,' in out
        _, out, _ = run_cli(capsys, "solve", source)
        assert "schedule" in out
        assert " 0.6 us" in out
        assert "0.60" not in out
        assert "0.599" not in out


def test_sol_03_rounding_is_never_unasked(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("SOL-03")["deadline"]
    result = solve(to_problem(data))
    assert (result.status, result.makespan_us) == ("OPTIMAL", 3)
    result = solve(Workload.from_data(to_workload(data)), "hexagon-v79")
    assert (result.status, result.makespan_us) == ("OPTIMAL", 3)
    forced = workload_file(tmp_path, to_workload(data, tick=1))
    code, _, said = run_cli(capsys, "solve", forced, "--hw", "hexagon-v79")
    assert code == 2
    assert "rounding adds 1 us, use tick 0.5" in said
    assert solve(Workload.from_data(to_workload(data, tick=0.5)), "hexagon-v79").makespan_us == Fraction(3)


def test_sol_04_a_marker_takes_nothing(case: Case) -> None:
    schedule = schedule_of(case("SOL-04"))
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 2)
    assert (rows(schedule)["mark"].start, rows(schedule)["mark"].observed) == (1, 1)


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("presolve", [True, False])
def test_sol_04_in_the_installed_solver(case: Case, presolve: bool, workers: int) -> None:
    """The solver itself, on the model with addresses, from no incumbent."""
    problem = to_problem(case("SOL-04"))
    bounds = lower_bounds(problem)
    options = FlatOptions(True, problem.horizon_ticks, 0, 30.0, False, 0, workers, presolve)
    solutions: list[FlatSolution] = []
    status, _ = FlatModel(problem, bounds.heads_tails, options).solve(solutions.append)
    assert (status, solutions[-1].makespan) == ("OPTIMAL", 2)
    assert solutions[-1].start[problem.op_index["mark"]] == 1


def scaled(data: Any, factor: int, vtcm: int) -> Any:
    """Multiply all bytes and durations."""
    return {
        "machine": {**data["machine"], "vtcm": vtcm * factor},
        "tasks": [{**task, "dur": task["dur"] * factor} for task in data["tasks"]],
        "bufs": [{**b, "bytes": b["bytes"] * factor} for b in data["bufs"]],
    }


@pytest.mark.parametrize("vtcm", [65536, 65535])
def test_sol_06_scale_does_not_change_the_answer(case: Case, vtcm: int) -> None:
    factors = case("SOL-06")["scale_factors"]
    data = case("VTCM-07")
    assert factors == [1, 10, 100]
    answers = set()
    for factor in factors:
        schedule = schedule_of(scaled(data, factor, vtcm), limit_s=3)
        answers.add((schedule.status, Fraction(schedule.makespan, factor)))
    assert answers == {("OPTIMAL", 85 if vtcm == 65536 else 120)}


@pytest.mark.parametrize("factor", [1, 100])
@pytest.mark.parametrize("presolve", [True, False])
def test_sol_06_workers_agree(case: Case, factor: int, presolve: bool) -> None:
    """The solver itself, on the model with addresses, from no incumbent."""
    problem = to_problem(scaled(case("VTCM-07"), factor, 65536))
    bounds = lower_bounds(problem)
    answers = set()
    for workers in (1, 8, 16):
        options = FlatOptions(True, problem.horizon_ticks, bounds.best.ticks, 30.0, False, 0, workers, presolve)
        solutions: list[FlatSolution] = []
        status, _ = FlatModel(problem, bounds.heads_tails, options).solve(solutions.append)
        answers.add((status, Fraction(solutions[-1].makespan, factor)))
    assert answers == {("OPTIMAL", 85)}


def test_sol_06_a_verdict_against_a_verified_plan(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A solver that always says INFEASIBLE: the plan of the list scheduler stays, and the user is told."""
    monkeypatch.setattr(Guard, "solve", lambda *_: Outcome("INFEASIBLE", 0, None))
    monkeypatch.setattr(portfolio, "EVENT_OPS", 0)
    monkeypatch.setattr(solve_module, "configuration_bound", lambda *_, **__: None)
    monkeypatch.setattr(solve_module, "lower_bounds", without_scratchpad)
    data = scaled(case("VTCM-07"), 1, 65535)
    schedule = schedule_of(data)
    assert (schedule.status, schedule.makespan) == ("FEASIBLE", 120)
    assert "internal error: solver verdict contradicts a verified plan" in schedule.notes
    code, out, _ = run_cli(capsys, "solve", problem_file(tmp_path, data), "--time-limit", "500ms")
    assert code == 0
    assert "internal error: solver verdict contradicts a verified plan" in out


def without_scratchpad(problem: Problem, rule: Rule) -> Bounds:
    """Leave something to prove."""
    bounds = lower_bounds(problem, rule)
    return replace(bounds, found=tuple(b for b in bounds.found if b.name not in ("scratchpad", "turns")))


def blocks(count: int, tiles: int) -> dict[str, Any]:
    """Return blocks of load 4, vector 5, matrix 6 with one tile each."""
    tasks = []
    for k in range(count):
        tasks += [
            {"id": f"L{k}", "eng": "dma", "dur": 4, "bufs": [f"b{k}"]},
            {"id": f"V{k}", "eng": "hvx", "dur": 5, "after": [f"L{k}"]},
            {"id": f"M{k}", "eng": "hmx", "dur": 6, "after": [f"V{k}"], "bufs": [f"b{k}"]},
        ]
    machine = {"dma": 1, "hvx": 1, "hmx": 1, "vtcm": tiles}
    return {"machine": machine, "tasks": tasks, "bufs": [{"id": f"b{k}", "bytes": 1} for k in range(count)]}


@pytest.mark.parametrize(("count", "three", "two"), [(2, 21, 21), (4, 33, 36), (6, 45, 51)])
def test_sol_07_few_blocks(case: Case, count: int, three: int, two: int) -> None:
    assert case("SOL-07")["generate"]["blocks"] == 600
    for tiles, makespan in ((3, three), (2, two)):
        schedule = schedule_of(blocks(count, tiles), limit_s=5)
        assert (schedule.status, schedule.makespan) == ("OPTIMAL", makespan)


@pytest.mark.slow
@pytest.mark.parametrize(("tiles", "makespan", "bound"), [(3, 3609, "hmx"), (2, 4506, "scratchpad")])
def test_sol_07_at_full_size(case: Case, tiles: int, makespan: int, bound: str) -> None:
    """Three times the budget of the case: the gate's machine is shared, and what takes how long is for benchmarks."""
    data = case("SOL-07")
    problem = to_problem(blocks(data["generate"]["blocks"], tiles))
    result = solve(problem, time_limit_s=3 * data["budget_s"])
    assert result.schedule is not None
    memory_is_sound(result.schedule)
    assert result.makespan_us == makespan
    assert result.bottleneck == bound
    assert result.gap is not None and result.gap <= Fraction(6, 4506)


def test_sol_09_greedy_meets_a_bound(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "solve", lambda *_: pytest.fail("the solver was called"))
    data = case("SOL-09")
    result = solve(to_problem(data))
    schedule = result.schedule
    assert schedule is not None
    assert (result.status, schedule.makespan, result.certificate) == ("OPTIMAL", 30, "arithmetic")
    assert result.bottleneck == "hvx"
    assert "engine hvx: head 4 ticks + load 24 ticks + tail 2 ticks" in schedule.bounds[0].detail
    assert result.evaluations <= 2, "the list schedule is the proof, nothing is searched"


SOLVE = """
import sys
from hexloom.cli import main
for source in sys.argv[2:]:
    out = f"{sys.argv[1]}/{source[-9:-5]}"
    assert main(["solve", source, "-o", out, "--seed", "7", "--time-limit", "300ms", "-q"]) == 0
"""


def test_sol_10_same_bytes_in_every_process(case: Case, tmp_path: Path) -> None:
    """Once where a list schedule is proven at once, once where the search runs to its limit."""
    data = case("VTCM-07")
    sources = [tmp_path / "easy.json", tmp_path / "hard.json"]
    for source, vtcm in zip(sources, (65536, 65535), strict=True):
        problem = to_problem(data, machine={**data["machine"], "vtcm": vtcm})
        source.write_text(problem.model_dump_json(by_alias=True), encoding="utf-8")
    runs = case("SOL-10")["runs"]
    assert runs == 5
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SOLVE, tmp_path / f"run{run}", *sources],
            env={**os.environ, "PYTHONHASHSEED": str(run * 1000 + 1)},
            stdout=subprocess.DEVNULL,
        )
        for run in range(runs)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0] * runs
    for source, makespan in zip(sources, (85, 120), strict=True):
        texts = [(tmp_path / f"run{run}" / source.stem / "schedule.json").read_bytes() for run in range(runs)]
        assert len({hashlib.sha256(text).hexdigest() for text in texts}) == 1
        folders = [tmp_path / f"run{run}" / source.stem for run in range(runs)]
        assert {path.suffix for path in folders[0].iterdir()} == {".json", ".svg", ".h", ".c"}
        for path in folders[0].iterdir():
            assert len({(folder / path.name).read_bytes() for folder in folders}) == 1, path.name
        assert json.loads(texts[0])["makespan"] == makespan


def test_sol_12_many_equal_tasks(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("SOL-12")
    started = time.monotonic()
    schedule = schedule_of(data, limit_s=10)
    assert time.monotonic() - started < 10
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 70)
    said = "the scratchpad cannot bind: all buffers side by side take 400 B of 1,000 B; it was left out of the search"
    assert schedule.notes == (said,)
    _, out, _ = run_cli(capsys, "solve", problem_file(tmp_path, data))
    assert said in out.replace("\n", " ")
    tight = schedule_of(data, machine={**data["machine"], "vtcm": 399})
    assert tight.notes == ()


def test_trc_15_unknown_keys_are_errors(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        to_problem(case("TRC-15"))
    assert "unknown key 'buf' (did you mean 'bufs'?)" in str(raised.value)
    assert "unknown key 'byte' (did you mean 'bytes'?)" in str(raised.value)
    path = tmp_path / "work.yaml"
    path.write_text(
        "name: misspelled\nhw: hexagon-v79\ntasks:\n- name: t\n"
        "  ops: [{name: k, engine: hvx, duration_us: 1, buffer: [b]}]\n"
        "  buffers: [{name: b, size_byte: 16777216}]\n",
        encoding="utf-8",
    )
    code, out, said = run_cli(capsys, "solve", path)
    assert (code, out) == (2, "")
    assert "unknown key 'buffer' (did you mean 'buffers'?)" in said
    assert "unknown key 'size_byte' (did you mean 'size_bytes'?)" in said
    assert said.count("\n") == 1


def test_perf_01_direct_or_staged(case: Case) -> None:
    data = case("PERF-01")
    work = data["alternatives_us"]
    tasks = [
        {
            "id": row["id"],
            "alt": [{"eng": "hvx", "dur": row["direct"]}, {"eng": "dma", "dur": row["staged"]}],
            "after": [before["id"] for before in work[:k][-1:]],
        }
        for k, row in enumerate(work)
    ]
    result = solve(to_problem({"machine": data["machine"], "unit": "us", "tasks": tasks}))
    assert result.schedule is not None
    assert (result.status, result.makespan_us) == ("OPTIMAL", Fraction("967.7"))
    chosen = {a.op: ("direct", "staged")[a.mode] for a in result.schedule.plan.assignments}
    assert [chosen[row["id"]] for row in work] == ["direct"] * 5 + ["staged"]
    always = [task | {"alt": task["alt"][1:]} for task in tasks]
    staged = solve(to_problem({"machine": data["machine"], "unit": "us", "tasks": always}))
    assert staged.makespan_us == Fraction("1237.1")


def test_perf_04_decode_is_bound_by_bytes(case: Case) -> None:
    """Eight loads of 38,462 ns one after the other and the last 10,000 ns of vector work, whatever HVX there is."""
    data = case("PERF-04")
    schedule = schedule_of(data)
    assert (schedule.status, schedule.makespan, schedule.certificate) == ("OPTIMAL", 317_696, "arithmetic")
    best = schedule.bounds[0]
    assert (best.engine, best.detail) == ("dma", "engine dma: head 0 us + load 307.696 us + tail 10 us")
    assert f"{8 * 38_462 / 317_696:.1%}" == "96.9%"
    (ddr,) = schedule.problem.channels
    assert ddr.capacity == 26_000
    load = next(row for row in schedule.bounds if row.engine == "ddr")
    assert float(load.ticks) == pytest.approx(8 * 38_462, rel=1e-4)  # all but what rounding a rate to MB/s takes
    assert schedule_of(data, machine={**data["machine"], "hvx": 2}).makespan == 317_696
    faster = [{**task, "dur": 5_000} if task["eng"] == "hvx" else task for task in data["tasks"]]
    assert schedule_of(data, tasks=faster).makespan == 312_696


def test_perf_04_the_weights_of_a_token(case: Case) -> None:
    """2.11 GiB at 26 GB/s are 87.1 ms, however many engines pull: at most 11.5 tokens a second."""
    case("PERF-04")
    machine = load_hw("hexagon-v81").with_values({"ddr.total_gb_s": 26})
    half = 2_265_595_249 // 2
    ops = [{"name": e, "engine": e, "duration_us": 1, "bytes": {"ddr": half}} for e in ("hvx", "hmx")]
    result = solve(Workload.from_data({"name": "token", "tasks": [{"name": "token", "ops": ops}]}), machine)
    assert result.makespan_us is not None and result.status == "OPTIMAL"
    assert float(result.makespan_us) / 1000 == pytest.approx(87.1, abs=0.05)
    assert 1e6 / float(result.makespan_us) == pytest.approx(11.5, abs=0.05)


def test_perf_04_what_would_change_it(case: Case) -> None:
    """Twice the vector contexts change nothing; vector work twice as fast saves 5,000 ns."""
    found = what_if(to_problem(case("PERF-04")), time_limit_s=0.5, seed=1, fields=("hvx", "stages"))
    rows = {(row.field, row.value): row.makespan for row in found.rows}
    assert (rows["hvx", 2], rows["hvx", 1]) == (317.696, 317.696)
    assert rows["time of case/V", 0.5] == 312.696


def test_perf_03_what_the_critical_resource_is(case: Case) -> None:
    """Vector work of 4,914 us beside 686 us of weights: a faster DDR buys nothing. Achieved rates are not told."""
    data = case("PERF-03")
    tasks = [{k: v for k, v in task.items() if k not in ("flop", "bytes")} for task in data["tasks"]]
    machine = {k: v for k, v in data["machine"].items() if k != "ddr_bytes_per_us"}
    form = {"machine": machine, "tasks": tasks}
    schedule = schedule_of(form)
    assert (schedule.makespan, schedule.bounds[0].name) == (4914, "critical_path")
    assert f"{4914 / data['measured']['usec']:.1%}" == "99.1%"
    assert f"{686 / data['measured']['usec']:.1%}" == "13.8%"
    rows = {row.field: row.makespan for row in what_if(to_problem(form), time_limit_s=0.2, fields=("stages",)).rows}
    assert rows == {"time of case/w": 4914, "time of case/mm": 2457}


def test_perf_07_only_critical_work_counts(case: Case) -> None:
    data = case("PERF-07")
    found = what_if(to_problem(data), time_limit_s=0.5, seed=1, fields=("stages",))
    assert {s.op: s.most for s in found.slack} == {"A": 0, "B": 0, "D": 40, "C": 0}
    assert all(0 <= s.slack <= s.most for s in found.slack)
    rows = {row.field.removeprefix("time of case/"): row.makespan for row in found.rows}
    assert (rows["D"], rows["A"]) == (220, 180)
    for name, makespan in rows.items():
        halved = [task | {"dur": task["dur"] // 2} if task["id"] == name else task for task in data["tasks"]]
        assert schedule_of(data, tasks=halved).makespan == makespan
    assert schedule_of(data).makespan == 220


@pytest.mark.parametrize(("per_batch", "total"), [(1, 130_670), (73, 66_590), (730, 65_789)])
def test_perf_09_an_entry_per_batch(case: Case, per_batch: int, total: int) -> None:
    """Chains of ops, each batch with one entry of 89 us; today every op is entered for itself."""
    data = case("PERF-09")
    overhead, chain = data["machine"]["dispatch_overhead"], data["chain"]
    mode = Mode(uses=(Use(engine="dsp", ticks=chain["dur"]),), latency_ticks=chain["dur"])
    names = [f"g{k}" for k in range(per_batch)]
    problem = Problem(
        engines=(Engine(name="dsp"),),
        ops=tuple(Op(name=name, task=name, modes=(mode,)) for name in names),
        precedences=tuple(Precedence(before=a, after=b) for a, b in pairwise(names)),
        entry_ticks=overhead,
    )
    result = solve(problem, time_limit_s=5)
    assert result.makespan_us is not None and result.schedule is not None
    assert result.makespan_us * (chain["n"] // per_batch) == total
    assert result.schedule.baselines["existing"] == per_batch * (overhead + chain["dur"])
    if per_batch == 730:
        assert abs(result.schedule.baselines["existing"] / 131_000 - 1) < 0.01
        assert result.schedule.gain is not None
        assert result.schedule.gain.saved_entries == 729 * overhead
        assert result.schedule.advice is not None and result.schedule.advice.answer == "pipeline"


def test_perf_10_the_other_engine_for_the_head(case: Case) -> None:
    schedule = schedule_of(case("PERF-10"))
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 111)
    assert next(a.units for a in schedule.plan.assignments if a.op == "head") == {"cpu": (0,)}
