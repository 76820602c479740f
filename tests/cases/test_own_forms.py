"""Situations like those of the case files, with numbers of our own: what must hold on every machine."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import peak_bytes, pieces, problem_file, refusal_of, rows, run_cli, schedule_of, workload_file
from cases.neutral import to_problem, to_workload
from pydantic import ValidationError

from hexloom import InvalidInputError, Workload, solve
from hexloom.formulations.problem import Engine, Mode, Op, Problem, Use

if TYPE_CHECKING:
    from pathlib import Path

Data = dict[str, Any]


def one_op(machine: Data, *bufs: Data, **task: Any) -> Data:
    """Return one op on hvx that uses all of ``bufs``."""
    names = [b["id"] for b in bufs]
    op = {"id": "k", "eng": "hvx", "dur": 3, "bufs": names, **task}
    return {"machine": {"hvx": 1, **machine}, "tasks": [op], "bufs": list(bufs)}


def buf(name: str, size: int, **more: Any) -> Data:
    return {"id": name, "bytes": size, **more}


def chain(*durations: Any, **last: Any) -> list[Data]:
    """Return tasks t0, t1, ... on hvx, each after the one before; ``last`` are more keys of the last."""
    tasks: list[Data] = [
        {"id": f"t{k}", "eng": "hvx", "dur": d, "after": [f"t{k - 1}"] if k else []} for k, d in enumerate(durations)
    ]
    tasks[-1].update(last)
    return tasks


# --- what cannot fit


def test_sum_with_rounding() -> None:
    data = one_op({"vtcm": 4096, "align": 128, "round_size": True}, buf("a", 2040), buf("b", 2040), buf("c", 4))
    refused = refusal_of(data)
    assert (refused.op, refused.need, refused.have, refused.short) == ("k", 4224, 4096, 128)
    assert refused.rounding_bytes == 8 + 8 + 124
    assert "140 B of the need is rounding" in refused.message
    data["machine"]["vtcm"] = 4224
    schedule = schedule_of(data)
    assert schedule.makespan == 3
    assert all(at % 128 == 0 for at in schedule.plan.addresses.values())


def test_reserved_bytes_are_not_available() -> None:
    refused = refusal_of(one_op({"vtcm": 4096, "vtcm_reserved": 96}, buf("a", 4096)))
    assert (refused.have, refused.short) == (4000, 96)


def test_largest_gap_beside_a_resident() -> None:
    pin = buf("weights", 100, at=500, always=True)
    refused = refusal_of(one_op({"vtcm": 1000}, pin, buf("x", 550)))
    assert (refused.kind, refused.need, refused.have, refused.short) == ("largest_gap", 550, 500, 50)
    assert "beside the pinned weights@500+100: wanted 550 B, largest gap 500 B, short 50 B" in refused.message
    assert schedule_of(one_op({"vtcm": 1000}, pin, buf("x", 500))).plan.addresses["x"] == 0


def test_a_gap_starts_at_a_multiple_of_the_alignment() -> None:
    pin = buf("weights", 100, at=0, always=True)
    refused = refusal_of(one_op({"vtcm": 1024}, pin, buf("x", 900, align=128)))
    assert (refused.kind, refused.have) == ("largest_gap", 896)
    assert schedule_of(one_op({"vtcm": 1024}, pin, buf("x", 896, align=128))).plan.addresses["x"] == 128


def test_a_gap_that_only_the_sum_misses() -> None:
    """Each fits beside the pin, both do not: then the sum is the reason."""
    refused = refusal_of(one_op({"vtcm": 1000}, buf("pin", 400, at=0), buf("x", 400), buf("y", 300)))
    assert (refused.kind, refused.need, refused.short) == ("bytes", 1100, 100)
    assert "pin@0+400" in refused.message


def test_pins_that_clash_or_leave_the_scratchpad() -> None:
    refused = refusal_of(one_op({"vtcm": 2048}, buf("x", 100, at=2000)))
    assert "x@2000+100 ends at 2100, the scratchpad at 2048: short 52 B" in refused.message
    refused = refusal_of(one_op({"vtcm": 2048}, buf("x", 100, at=0), buf("y", 100, at=64)))
    assert "x@0+100 and y@64+100 share 36 B" in refused.message


@pytest.mark.parametrize(("size", "fits"), [(24, True), (25, False)])
def test_scratch_counts_for_its_own_run(size: int, fits: bool) -> None:
    data = one_op({"vtcm": 1024}, buf("x", 1000), scratch=size)
    if fits:
        schedule = schedule_of(data)
        assert peak_bytes(schedule) == 1024
        assert set(schedule.plan.addresses) == {"x", "k.scratch"}
    else:
        refused = refusal_of(data)
        assert refused.short == 1
        assert "k.scratch 25 B" in refused.message


def test_scratch_of_two_tasks_shares_its_bytes() -> None:
    tasks = [{"id": name, "eng": "hvx", "dur": 2, "scratch": 600} for name in ("a", "b")]
    schedule = schedule_of({"machine": {"hvx": 2, "vtcm": 1000}, "tasks": tasks})
    assert schedule.makespan == 4


@pytest.mark.parametrize(
    ("vtcm", "sizes", "said"),
    [
        (1000, [2500], "split it into 3 pieces or more (6 when double-buffered)"),
        (1000, [700, 500], "the largest 'b0' that fits is 500 B; split it into 2 pieces or more (4 when double-"),
        (1000, [900, 900, 900, 900], "split op 'k' into 4 pieces or more"),
    ],
)
def test_levers(vtcm: int, sizes: list[int], said: str) -> None:
    refused = refusal_of(one_op({"vtcm": vtcm}, *(buf(f"b{k}", size) for k, size in enumerate(sizes))))
    assert said in refused.message


def test_levers_hold_after_rounding() -> None:
    """A third of 387 B is 129 B, which takes 256 B after rounding; only a quarter, 97 B, takes 128 B."""
    machine = {"vtcm": 384, "align": 128, "round_size": True}
    bufs = [buf(f"b{k}", 387) for k in range(3)]
    assert "split op 'k' into 4 pieces or more" in refusal_of(one_op(machine, *bufs)).message
    assert schedule_of(one_op(machine, *(buf(b["id"], -(-387 // 4)) for b in bufs))).makespan == 3
    assert refusal_of(one_op(machine, *(buf(b["id"], -(-387 // 3)) for b in bufs))).short == 384


def test_levers_leave_residents_alone() -> None:
    refused = refusal_of(one_op({"vtcm": 1000}, buf("r", 900, always=True), buf("x", 200)))
    assert "the largest 'x' that fits is 100 B" in refused.message
    refused = refusal_of(one_op({"vtcm": 1000}, buf("r", 1200, always=True), buf("x", 10)))
    assert refused.op is None
    assert [lever.text for lever in refused.levers if lever.outcome != "feasible"] == ["free 200 B"]


def test_in_no_order() -> None:
    tasks = [
        {"id": "a", "eng": "hvx", "dur": 1, "bufs": ["x"]},
        {"id": "b", "eng": "hvx", "dur": 1, "bufs": ["y"], "after": ["a"]},
        {"id": "c", "eng": "hvx", "dur": 1, "bufs": ["x"], "after": ["b"]},
    ]
    data: Data = {"machine": {"hvx": 1, "vtcm": 100}, "tasks": tasks, "bufs": [buf("x", 60), buf("y", 60)]}
    result = solve(to_problem(data), time_limit_s=0.5)
    assert result.status == "INFEASIBLE"
    assert result.infeasibility is not None
    assert result.infeasibility.message.startswith("in no order do the buffers fit")


def test_gang_too_wide() -> None:
    tasks = [{"id": f"g{k}", "eng": "hvx", "dur": 4, "gang": "meet"} for k in range(5)]
    refused = refusal_of({"machine": {"hvx": 4}, "tasks": tasks})
    assert (refused.op, refused.resource, refused.need, refused.have) == ("meet", "hvx", 5, 4)
    assert schedule_of({"machine": {"hvx": 5}, "tasks": tasks}).makespan == 4
    tasks.append({"id": "alone", "eng": "hvx", "dur": 1})
    assert schedule_of({"machine": {"hvx": 5}, "tasks": tasks}).makespan == 5


def test_infeasible_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = problem_file(tmp_path, one_op({"vtcm": 4096}, buf("x", 5000)))
    code, out, said = run_cli(capsys, "solve", source)
    assert (code, out) == (1, "")
    assert said.startswith("INFEASIBLE: op 'k' needs 5,000 B (4.9 KiB) of scratchpad at once, 4,096 B (4 KiB)")
    code, out, _ = run_cli(capsys, "solve", source, "--json")
    found = json.loads(out)
    assert (code, found["status"]) == (1, "INFEASIBLE")
    assert [found["infeasibility"][key] for key in ("need", "have", "short")] == [5000, 4096, 904]


def test_bytes_beyond_64_bits() -> None:
    refused = refusal_of(one_op({"vtcm": "8MiB"}, buf("x", 2**70)))
    assert refused.short == 2**70 - 2**23


# --- time


def test_a_marker_takes_nothing() -> None:
    tasks = chain(2, 0, 3)
    tasks[1] |= {"bw": 9, "also": ["gather"]}
    schedule = schedule_of({"machine": {"hvx": 1, "ddr_bw": 1, "gather": 1}, "tasks": tasks})
    assert schedule.makespan == 5
    assert rows(schedule)["t1"].start == 2
    assert refusal_of({"machine": {"hvx": 1, "ddr_bw": 1}, "tasks": [{**chain(1)[0], "bw": 9}]}).need == 9


def test_decimal_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data: Data = {"machine": {"hvx": 1}, "unit": "us", "tasks": chain(0.7, 0.1, 1.15)}
    problem = to_problem(data)
    assert problem.tick == Fraction(1, 20)
    assert solve(problem).makespan_us == Fraction("1.95")
    source = workload_file(tmp_path, {**to_workload(data), "hw": "hexagon-v79"})
    assert '"makespan_us": 1.95,' in run_cli(capsys, "solve", source, "--json")[1]
    assert " 1.95 us" in run_cli(capsys, "solve", source)[1]


@pytest.mark.parametrize(
    ("tick", "durations", "said"),
    [
        (1, (2.5, 0.5), "tick_us 1: rounding adds 1 us, use tick 0.5"),
        (0.4, (0.6,), "tick_us 0.4: rounding adds 0.2 us, use tick 0.2"),
        (2, (3, 3), "tick_us 2: rounding adds 2 us, use tick 1"),
    ],
)
def test_forced_tick(tick: float, durations: tuple[float, ...], said: str) -> None:
    data: Data = {"machine": {"hvx": 1}, "unit": "us", "tasks": chain(*durations), "tick": tick}
    with pytest.raises(InvalidInputError, match=said):
        solve(Workload.from_data(to_workload(data)), "hexagon-v79")
    better = float(said.rpartition(" ")[2])
    result = solve(Workload.from_data(to_workload(data, tick=better)), "hexagon-v79")
    assert result.makespan_us == sum(Fraction(str(d)) for d in durations)


def test_deadlines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data: Data = {"machine": {"hvx": 1}, "unit": "us", "tasks": chain(1.25, 1.25, deadline=2.5)}
    assert solve(to_problem(data)).makespan_us == Fraction("2.5")
    data["tasks"][-1]["deadline"] = 2.4
    refused = refusal_of(data)
    assert refused.kind == "deadline"
    assert "op 't1' cannot end before 2.5 us, its deadline is 2.4 us" in refused.message
    assert run_cli(capsys, "solve", problem_file(tmp_path, data))[0] == 1
    data["tasks"] = chain(1234567.125, deadline=1234567)
    assert "cannot end before 1234567.125 us" in refusal_of(data).message


def test_a_deadline_orders_what_is_free() -> None:
    tasks = [*chain(5, 5), {"id": "soon", "eng": "hvx", "dur": 1, "deadline": 1}]
    schedule = schedule_of({"machine": {"hvx": 1}, "tasks": tasks})
    assert schedule.makespan == 11
    assert rows(schedule)["soon"].observed == 1


@pytest.mark.parametrize("factor", [1, 10, 100, 10**9])
def test_scaling_changes_nothing(factor: int) -> None:
    tasks: list[Data] = []
    for k in range(4):
        tasks.append({"id": f"L{k}", "eng": "dma", "dur": 4 * factor, "bufs": [f"c{k}"]})
        tasks.append({"id": f"M{k}", "eng": "hmx", "dur": 7 * factor, "bufs": [f"c{k}"], "after": [f"L{k}"]})
    bufs = [buf(f"c{k}", 32 * factor) for k in range(4)]
    data: Data = {"machine": {"hmx": 1, "dma": 1, "vtcm": 64 * factor}, "tasks": tasks, "bufs": bufs}
    schedule = schedule_of(data)
    assert (schedule.status, schedule.makespan, peak_bytes(schedule)) == ("OPTIMAL", 32 * factor, 64 * factor)


@pytest.mark.parametrize(("ticks", "units"), [(2**60, 1), (2**52, 4096)])
def test_overflow_is_refused(ticks: int, units: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data: Data = {"schema": "hexloom.problem/1", "engines": [{"name": "e", "units": units}]}
    uses = [{"engine": "e", "ticks": ticks, "units": units}]
    data["ops"] = [{"name": "a", "modes": [{"uses": uses, "latency_ticks": ticks}]}]
    path = tmp_path / "huge.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    code, _, said = run_cli(capsys, "solve", path)
    assert code == 2
    assert str(ticks) in said
    assert "use a coarser tick" in said
    assert said.count("\n") == 1


def test_just_below_the_overflow() -> None:
    ticks = (2**53 - 1) // 2
    mode = Mode(uses=(Use(engine="e", ticks=ticks, units=256),), latency_ticks=ticks)
    problem = Problem(engines=(Engine(name="e", units=256),), ops=tuple(Op(name=n, modes=(mode,)) for n in "ab"))
    result = solve(problem)
    assert (result.status, result.makespan_us) == ("OPTIMAL", 2 * ticks)


# --- memory over time


def test_lives_are_half_open() -> None:
    bufs = [buf("p", 64, life=[0, 4]), buf("q", 40, life=[4, 9]), buf("r", 24, life=[4, 6]), buf("s", 24, life=[6, 9])]
    schedule = schedule_of({"machine": {"vtcm": 64}, "bufs": bufs})
    assert (schedule.makespan, peak_bytes(schedule)) == (9, 64)
    assert [(name, born, died) for name, _, _, born, died in pieces(schedule)] == [(b["id"], *b["life"]) for b in bufs]


def test_buffers_of_no_bytes() -> None:
    data = one_op({"vtcm": 64}, buf("full", 64, at=0), buf("empty", 0), buf("nowhere", 0, align=32))
    schedule = schedule_of(data)
    assert schedule.makespan == 3
    assert set(schedule.plan.addresses) == {"full", "empty", "nowhere"}
    assert schedule_of(one_op({"vtcm": 0}, buf("empty", 0))).makespan == 3


@pytest.mark.parametrize("spelling", ["2KiB", "2 KiB", "2048", "0x800", "2048B", 2048])
def test_spellings_of_bytes(spelling: str | int) -> None:
    problem = to_problem(one_op({"vtcm": spelling}, buf("x", 1)))
    assert problem.scratchpad.available_bytes == 2048
    data = to_workload(one_op({}, {"id": "x", "bytes": spelling}))
    (task,) = Workload.from_data(data).tasks
    assert task.buffers[0].size_bytes == 2048  # type: ignore[union-attr]


@pytest.mark.parametrize("spelling", ["2K", "2kb", "2m", "2048b", "2 Kibi", "-1", "1.5KiB", "", "KiB", True, None, 1.0])
def test_ambiguous_bytes_are_refused(spelling: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"machine\.vtcm: "):
        to_problem(one_op({"vtcm": spelling}, buf("x", 1)))
    data = to_workload(one_op({}, buf("x", 1)))
    data["tasks"][0]["buffers"][0]["size_bytes"] = spelling
    with pytest.raises(InvalidInputError, match=r"buffers\[0\]\.size_bytes: "):
        Workload.from_data(data)


# --- what is no problem at all


def test_names_must_differ() -> None:
    with pytest.raises(InvalidInputError, match="two buffers are named 'x'; names must differ"):
        to_problem(one_op({"vtcm": 9}, buf("x", 1), buf("x", 2)))
    with pytest.raises(InvalidInputError, match="two tasks are named 't0'; names must differ"):
        to_problem({"machine": {"hvx": 1}, "tasks": [*chain(1), *chain(1)]})
    data = to_workload({"machine": {"hvx": 1}, "tasks": [*chain(1), *chain(1)]})
    with pytest.raises(InvalidInputError, match="two ops are named 't0'; names must differ"):
        solve(Workload.from_data(data), "hexagon-v79")
    data["tasks"].append(data["tasks"][0])
    with pytest.raises(InvalidInputError, match="two tasks are named 'case'; names must differ"):
        Workload.from_data(data)


def test_names_must_exist() -> None:
    with pytest.raises(InvalidInputError, match="there is no op 'ghost'"):
        to_problem({"machine": {"hvx": 1}, "tasks": chain(1, after=["ghost"])})
    with pytest.raises(InvalidInputError, match="there is no buffer 'ghost'"):
        to_problem({"machine": {"hvx": 1}, "tasks": chain(1, bufs=["ghost"])})
    with pytest.raises(InvalidInputError, match="there is no engine 'npu'; known: hvx"):
        to_problem({"machine": {"hvx": 1}, "tasks": chain(1, eng="npu")})


def test_a_cycle_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [*chain(1, 1, 1), {"id": "free", "eng": "hvx", "dur": 1, "after": ["t2"]}]
    tasks[0]["after"] = ["t2"]
    with pytest.raises(InvalidInputError, match="form a cycle: t0 -> t1 -> t2 -> t0"):
        to_problem({"machine": {"hvx": 1}, "tasks": tasks})
    source = workload_file(tmp_path, {**to_workload({"tasks": tasks}), "hw": "hexagon-v79"})
    code, _, said = run_cli(capsys, "solve", source)
    assert code == 2
    assert "the dependencies form a cycle: t0 -> t1 -> t2 -> t0" in said
    tasks[0]["after"] = ["t0"]
    with pytest.raises(InvalidInputError, match="form a cycle: t0 -> t0"):
        to_problem({"machine": {"hvx": 1}, "tasks": tasks})


def test_unknown_keys_of_the_form() -> None:
    with pytest.raises(InvalidInputError) as raised:
        to_problem({"machine": {"hvx": 1, "vtmc": 9}, "tasks": chain(1, bufsize=1), "bufs": [buf("x", 1, alway=True)]})
    assert str(raised.value) == (
        "case: machine: unknown key 'vtmc' (did you mean 'vtcm'?); tasks[0]: unknown key 'bufsize' (did you mean "
        "'bufs'?); bufs[0]: unknown key 'alway' (did you mean 'always'?)"
    )


def test_unknown_keys_of_a_problem_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = problem_file(tmp_path, one_op({"vtcm": 9}, buf("x", 1)))
    data = json.loads(path.read_text(encoding="utf-8"))
    data["ops"][0]["modes"][0]["uses"][0]["tick"] = 3
    data["buffers"][0]["size_byte"] = data["buffers"][0].pop("size_bytes")
    data["enginess"] = []
    path.write_text(json.dumps(data), encoding="utf-8")
    code, _, said = run_cli(capsys, "solve", path)
    assert code == 2
    for part in (
        "ops[0].modes[0].uses[0]: unknown key 'tick' (did you mean 'ticks'?)",
        "buffers[0]: unknown key 'size_byte' (did you mean 'size_bytes'?)",
        "unknown key 'enginess' (did you mean 'engines'?)",
    ):
        assert part in said
    assert "at least 1 item" not in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_key_written_twice(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"twice.{suffix}"
    path.write_text('{"name": "a", "tasks": [{"name": "b", "ops": [], "name": "c"}]}', encoding="utf-8")
    code, _, said = run_cli(capsys, "solve", path)
    assert code == 2
    assert "key 'name' is written twice" in said


def test_no_task_at_all() -> None:
    with pytest.raises(InvalidInputError, match="at least 1 item"):
        to_problem({"machine": {"hvx": 1}})
    with pytest.raises(ValidationError):
        Problem(ops=())


# --- choices


def test_the_faster_of_two_engines() -> None:
    tasks = [*chain(10), {"id": "head", "after": ["t0"], "alt": [{"eng": "hvx", "dur": 9}, {"eng": "cpu", "dur": 4}]}]
    schedule = schedule_of({"machine": {"hvx": 1, "cpu": 1}, "tasks": tasks})
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 14)


def test_a_reserved_block_has_its_time_and_place() -> None:
    tasks = [{"id": n, "eng": "hvx", "dur": 5, "bufs": [n]} for n in "xyz"]
    data: Data = {"machine": {"hvx": 3, "vtcm": 12}, "tasks": tasks, "bufs": [buf(n, 4) for n in "xyz"]}
    assert schedule_of(data).makespan == 5
    schedule = schedule_of(data, reserved=[{"at": 2, "bytes": 10, "from": 5, "to": 8}])
    assert ("reserved0", 2, 12, 5, 8) in pieces(schedule)
    assert schedule_of(data, reserved=[{"at": 4, "bytes": 8}]).makespan == 15


def test_a_resource_without_a_thread_is_shared_by_waits() -> None:
    tasks = [{"id": n, "eng": "hvx", "dur": 3, "also": ["gather"]} for n in ("a", "b")]
    schedule = schedule_of({"machine": {"hvx": 2, "gather": 1}, "tasks": tasks})
    assert schedule.makespan == 6
    assert len(schedule.plan.waits) + sum(len(q.entries) == 2 for q in schedule.plan.queues) >= 1


def test_of_equal_bounds_the_one_with_most_work_is_told() -> None:
    tasks = [
        {"id": "in", "eng": "dma", "dur": 5},
        {"id": "m0", "eng": "hmx", "dur": 9, "after": ["in"]},
        {"id": "m1", "eng": "hmx", "dur": 9, "after": ["in"]},
        {"id": "out", "eng": "dma", "dur": 2, "after": ["m0", "m1"]},
    ]
    schedule = schedule_of({"machine": {"dma": 1, "hmx": 1}, "tasks": tasks})
    assert schedule.status == "OPTIMAL"
    assert schedule.bounds[0].engine == "hmx"
    assert schedule.bounds[0].detail == "engine hmx: head 5 ticks + load 18 ticks + tail 2 ticks"
