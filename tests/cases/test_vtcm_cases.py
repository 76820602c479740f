"""Cases about the scratchpad: what counts, what fits, and where it lies."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import (
    peak_bytes,
    pieces,
    problem_file,
    refusal_of,
    rows,
    run_cli,
    schedule_of,
)
from cases.neutral import to_problem, to_workload

from hexloom import InvalidInputError, Workload, solve, what_if
from hexloom.emit.files import write_emission
from hexloom.hwmodels import load_hw
from hexloom.hwmodels.quantity import parse_bytes
from hexloom.optimizer.footprint import least_footprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


def test_vtcm_03_what_the_reserved_bytes_cost(case: Case) -> None:
    """The same on a sweep of the scratchpad: 40 where only one tile fits, 30 where both do."""
    variants = case("VTCM-03")["variants"]
    for variant, have in (("reserved_1MiB", 7_340_032), ("total_8MiB", 8_388_608)):
        found = what_if(to_problem(variants[variant]), time_limit_s=0.3, seed=1, fields=("scratchpad",))
        assert [row.value for row in found.rows if row.current] == [have]
        for row in found.rows:
            tiles = int(row.value // 3_932_160)
            assert row.makespan == {0: None, 1: 40}.get(tiles, 30)
            assert row.bottleneck == {0: None, 1: "scratchpad"}.get(tiles, "hmx")


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


@pytest.mark.parametrize("form", ["problem", "workload"])
def test_vtcm_10_the_kernel_is_told_where_its_scratch_is(case: Case, form: str, tmp_path: Path) -> None:
    """The C tables name the scratch among what the task uses, at the address that the plan gives it."""
    data = case("VTCM-10")
    (task,) = data["tasks"]
    fitting = {**data, "tasks": [{**task, "scratch": 6352}]}
    if form == "problem":
        schedule = schedule_of(fitting)
    else:
        machine = load_hw("hexagon-v79").with_values({"vtcm.total_bytes": 196_608})
        found = solve(Workload.from_data(to_workload(fitting)), machine).schedule
        assert found is not None
        schedule = found
    (scratch,) = (name for name in schedule.plan.addresses if name.endswith("sum.scratch"))
    write_emission(schedule, tmp_path, "it")
    names = [row["name"] for row in json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))["buffers"]]
    text = (tmp_path / "it.c").read_text(encoding="utf-8")
    operands = re.findall(r"^  \{0u, 1u, 0u, (\d+)u, UINT64_C\((\d+)\)\}", text, re.MULTILINE)
    assert {names[int(b)]: int(at) for b, at in operands} == schedule.plan.addresses
    assert f"{{UINT64_C({schedule.plan.addresses[scratch]}), UINT64_C(6352), " in text


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
    assert (refused.need, refused.have, refused.short) == (32768, 32767, 1)


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


def test_vtcm_21_nothing_is_written_above_the_budget(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = case("VTCM-21")
    refused = refusal_of(data)
    assert (refused.need, refused.have, refused.short) == (2_700_000, 2_097_152, 602_848)
    out = tmp_path / "out"
    code, printed, said = run_cli(capsys, "solve", problem_file(tmp_path, data), "-o", out)
    assert (code, printed) == (1, "")
    assert {path.name for path in out.iterdir()} == {"infeasibility.json", "report.html"}
    assert "2,700,000 B" in said and "602,848 B" in said


def test_vtcm_21_the_finished_plan_is_held_against_the_budget(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan made for a larger scratchpad: whoever planned it, no table of it is written for the smaller one."""
    data = case("VTCM-21")
    schedule = schedule_of(data, machine={"vtcm": 4_194_304})
    smaller = schedule.problem.scratchpad.model_copy(update={"total_bytes": data["machine"]["vtcm"]})
    wrong = schedule.model_copy(update={"problem": schedule.problem.model_copy(update={"scratchpad": smaller})})
    path, out = tmp_path / "schedule.json", tmp_path / "out"
    path.write_text(wrong.to_json(), encoding="utf-8")
    code, _, said = run_cli(capsys, "emit", path, "-o", out)
    assert (code, out.exists()) == (4, False)
    assert "nothing written: buffer 's' [0, 2700000) is not inside [0, 2097152) B" in said


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
    assert one_fewer.have == wanted["vtcm"]
    assert one_fewer.need == {4: 32 * 349_526, 5: 8 * 2**20}[wanted["min_pieces"]]
