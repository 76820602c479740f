"""Cases about speed: what limits a schedule, and what would make it faster."""

from __future__ import annotations

import subprocess
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import (
    schedule_of,
)
from cases.neutral import to_problem
from compile.conftest import HOST

from hexloom import InvalidInputError, Workload, solve, what_if
from hexloom.emit.files import write_tables
from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use
from hexloom.hwmodels import load_hw
from hexloom.optimizer.traces.deviation import deviation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared


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
    """Vector work takes 99.1 % of the run, the weights 13.8 % of it, the matrix unit nothing."""
    data = case("PERF-03")
    measured = data.pop("measured")
    result = solve(to_problem(data))
    assert result.schedule is not None
    assert (result.status, result.makespan_us, result.bottleneck) == ("OPTIMAL", 4914, "hvx")
    shares = {row.engine: float(row.ticks) / measured["usec"] for row in result.schedule.bounds if row.engine}
    assert {name: f"{share:.1%}" for name, share in shares.items()} == {"hvx": "99.1%", "ddr": "13.8%"}
    weights, work = data["tasks"]
    assert weights["bytes"] / measured["usec"] / 1000 == pytest.approx(3.60, rel=0.01)
    assert work["flop"] / measured["usec"] / 1e6 == pytest.approx(0.433, rel=0.01)


def test_perf_03_a_faster_ddr_changes_nothing(case: Case) -> None:
    data = case("PERF-03")
    del data["measured"]
    found = what_if(to_problem(data), time_limit_s=0.2, fields=("ddr", "hmx", "stages"))
    rows = {(row.field, row.value): (row.makespan, row.bottleneck) for row in found.rows}
    assert {rows["ddr", 26_000_000 * factor] for factor in (0.5, 1, 2)} == {(4914, "hvx")}
    assert rows["hmx", 2] == rows["time of case/w", 0.5] == (4914, "hvx")
    assert rows["time of case/mm", 0.5] == (2457, "hvx")


@pytest.mark.parametrize(
    ("w_cost", "ranking"),
    [
        (1.5, {(512, 256): 28_672, (384, 384): 29_696, (256, 512): 32_768, (1024, 96): 50_176}),
        (1, {(384, 384): 23_552, (512, 256): 24_576, (256, 512): 24_576}),
    ],
)
def test_perf_06_the_cheapest_tile_is_not_the_largest(
    case: Case, w_cost: float, ranking: dict[tuple[int, int], int]
) -> None:
    """Tiles are ways to do one piece of work: what counts is what each costs, for both weights of a load."""
    data = case("PERF-06")
    m, n = data["M"], data["N"]
    tiles = [(mc, nc) for mc, nc in data["candidates"]]
    assert w_cost in (1, data["w_cost"])
    cost = {(mc, nc): int(-(-m // mc) * w_cost * n + -(-n // nc) * data["a_cost"] * m) for mc, nc in tiles}
    assert {tile: cost[tile] for tile in ranking} == ranking

    def best_of(offered: list[tuple[int, int]]) -> tuple[tuple[int, int], int]:
        ways = [{"eng": "hmx", "dur": cost[tile]} for tile in offered]
        schedule = schedule_of({"machine": {"hmx": 1}, "tasks": [{"id": "mm", "alt": ways}]})
        assert schedule.status == "OPTIMAL"
        return offered[schedule.plan.assignments[0].mode], int(schedule.makespan)

    left = list(tiles)
    for tile in ranking:
        chosen, makespan = best_of(left)
        assert (makespan, cost[chosen]) == (ranking[tile], ranking[tile])
        left.remove(chosen)
    assert max(tiles, key=lambda tile: tile[0] * tile[1]) == (384, 384)
    assert best_of(tiles)[0] == ((512, 256) if w_cost == 1.5 else (384, 384))


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


def test_perf_13_sizes_and_offsets_beyond_32_bits(case: Case, tmp_path: Path) -> None:
    """What lies in DDR is a pool for DMA only; its offsets and sizes come back whole from compiled tables."""
    data = case("PERF-13")
    (task,) = data["tasks"]
    head, kv = data["ddr"]
    buffers = [
        {"name": b["id"], "size_bytes": b["bytes"], "address": b["at"], "pool": "ddr", "resident": True}
        for b in (head, kv)
    ]
    op = {"name": task["id"], "engine": task["eng"], "duration_us": task["dur"], "buffers": [task["src"][0]]}
    work = {
        "name": "far",
        "pools": [{"name": "ddr", "size_bytes": "8GiB", "dma_only": True}],
        "tasks": [{"name": "far", "ops": [op], "buffers": buffers}],
    }
    result = solve(Workload.from_data(work), "hexagon-v79")
    assert result.schedule is not None and result.status == "OPTIMAL"
    write_tables(result.schedule, tmp_path, "far")
    text = (tmp_path / "far.c").read_text(encoding="utf-8")
    assert "UINT64_C(5368709120)" in text and "UINT64_C(4068474880)" in text
    reader = """#include <inttypes.h>
#include <stdio.h>
#include "far.h"
int main(void) {
  unsigned k;
  const hexloom_operand *operand = &far_operands[far_tasks[0].first_operand];
  for (k = 0; k < FAR_BUFFERS; k++) printf("%" PRIu64 " %" PRIu64 "\\n", far_buffers[k].offset, far_buffers[k].bytes);
  printf("%" PRIu64 " %" PRIu64 "\\n", operand->offset, far_bindings[operand->binding].bytes);
  return operand->space != HEXLOOM_DDR_DMA_ONLY || far_bindings[operand->binding].space != HEXLOOM_DDR_DMA_ONLY;
}
"""
    (tmp_path / "reader.c").write_text(reader, encoding="utf-8")
    HOST["gcc-c99"](tmp_path / "far.c", tmp_path / "reader.c", "-o", tmp_path / "reader")
    read = subprocess.run([tmp_path / "reader"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert read == [
        f"0 {head['bytes']}",
        f"{kv['at']} {kv['bytes']}",
        f"{kv['at']} {kv['at'] + kv['bytes']}",
    ]
    direct = {**work, "tasks": [{"name": "far", "ops": [{**op, "engine": "hvx"}], "buffers": buffers}]}
    with pytest.raises(InvalidInputError) as refused:
        solve(Workload.from_data(direct), "hexagon-v79")
    for part in (
        "op 'd' on hvx",
        "'kv' directly",
        "pool 'ddr' [0, 8589934592) B is a DMA-only window",
        "by an op on dma",
    ):
        assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_perf_12_a_hot_chip_is_not_the_model(case: Case) -> None:
    data = case("PERF-12")
    cold, hot = data["runs"]
    clock = round(cold["cycles"] * 1000 / cold["usec"])
    first = deviation(data["predicted_cycles"], clock, cold["cycles"], cold["usec"])
    second = deviation(data["predicted_cycles"], clock, hot["cycles"], hot["usec"])
    assert first.cycles == second.cycles == 0.0
    assert (round(first.khz / 1000, 1), round(second.khz / 1000, 1)) == (2109.7, 1901.1)
    assert first.text == "as predicted"
    assert f"{second.clock:+.1%}" == "-9.9%"
    assert second.text == "cycles as predicted; the clock ran at 1,901.1 MHz (-9.9%): not the model"
    assert f"{second.time:+.1%}" == "+11.0%"
