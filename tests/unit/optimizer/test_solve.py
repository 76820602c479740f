from __future__ import annotations

import re
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unit.shared_channels import pulling, sharing
from unit.small import buffer, held, move, on, problem, run

from hexloom import InvalidInputError, Workload, check_schedule, load_hw, solve
from hexloom.formulations.again import Claim
from hexloom.hwmodels import MachineFileError
from hexloom.optimizer import attribution as attribution_module
from hexloom.optimizer import baselines as baselines_module
from hexloom.optimizer import evaluate as evaluate_module
from hexloom.optimizer import finish, flips
from hexloom.optimizer import solve as solve_module
from hexloom.optimizer.check import Violation
from hexloom.optimizer.errors import CheckFailedError
from hexloom.optimizer.schedule import write_together, write_whole
from hexloom.optimizer.solve import INTERRUPTED, PROVEN_ONCE

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Buffer, Problem


def op(name: str, us: Any, engine: str = "hvx", **keys: Any) -> dict[str, Any]:
    return {"name": name, "engine": engine, "duration_us": us, **keys}


def work(*ops: dict[str, Any], **keys: Any) -> Workload:
    return Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": [{"name": "t", "ops": list(ops)}], **keys})


def pair() -> Workload:
    """Alternating hvx and hmx stages beside work for hvx alone."""
    tiles = {
        "for": "i",
        "count": 4,
        "ops": [
            op("cook{i}", 3, units="all", buffers=["x{i}"]),
            op("mm{i}", 7, "hmx", after=["cook{i}"], buffers=["x{i}"]),
        ],
        "buffers": [{"name": "x{i}", "size_bytes": "2MiB"}],
    }
    other = {"for": "i", "count": 5, "ops": [op("n{i}", 2, units="all")]}
    tasks = [{"name": "a", "ops": [tiles]}, {"name": "b", "ops": [other]}]
    return Workload.from_data({"name": "pair", "hw": "hexagon-v81", "tasks": tasks})


def open_problem() -> Problem:
    """Nine equal ops on two threads: five in a row on one take 25, the bound is 23, so the search never ends."""
    return problem(*(on("hvx", f"a{i}", 5, task="tu"[i % 2]) for i in range(9)))


# --- input ----------------------------------------------------------------------------------------------


SLOWED = {
    "name": "slowed",
    "hw": "hexagon-v81",
    "channels": [{"name": "gather", "rate_gb_s": 12}],
    "tasks": [
        {
            "name": f"t{engine}",
            "ops": [{"name": engine, "engine": engine, "duration_us": us, "channels": {"gather": "9GB/s"}}],
        }
        for engine, us in (("hvx", 40), ("hmx", 70))
    ],
}


def test_a_machine_must_be_named() -> None:
    with pytest.raises(InvalidInputError, match="no machine is named: pass hw"):
        solve(work(op("a", 1), hw=None))
    with pytest.raises(MachineFileError, match=r"did you mean 'hexagon-v81'"):
        solve(work(op("a", 1)), "hexagon-v82")
    with pytest.raises(MachineFileError, match="has no value for rates"):
        solve(
            Workload.from_data(
                {"name": "w", "tasks": [{"name": "m", "kernel": "matmul_w4a16", "m": 32, "k": 32, "n": 32}]}
            ),
            "hexagon-v69",
        )


def test_the_machine_given_wins() -> None:
    result = solve(work(op("a", 1)), "hexagon-v79", seed=1)
    assert result.schedule is not None
    assert result.schedule.machine == "hexagon-v79"
    own = load_hw("hexagon-v81").with_values({"overheads.op": 10})
    assert solve(work(op("a", 1)), own, seed=1).makespan_us == 11


@pytest.mark.parametrize("rule", ["NONE", "", "fluid "])
def test_contention_is_refused_not_ignored(rule: str) -> None:
    with pytest.raises(InvalidInputError, match=f"contention '{rule}' is not available"):
        solve(work(op("a", 1)), contention=rule)


@pytest.mark.parametrize("limit", [-1, float("nan"), float("-inf")])
def test_a_limit_is_not_negative(limit: float) -> None:
    with pytest.raises(InvalidInputError, match="must not be negative"):
        solve(work(op("a", 1)), time_limit_s=limit)


# --- results --------------------------------------------------------------------------------------------


def test_one_op_is_optimal_at_once() -> None:
    result = solve(work(op("a", "39.5625")), seed=1)
    assert (result.status, result.gap, result.certificate) == ("OPTIMAL", 0, "arithmetic")
    assert result.makespan_us == result.lower_bound_us == result.plan_bound_us == Fraction("44.0025")
    assert result.bottleneck == "critical_path"
    assert result.schedule is not None and result.schedule.optimal_in == "free_start"
    assert result.schedule.advice is not None and result.schedule.advice.answer == "keep"


def test_a_task_alone_is_pipelined() -> None:
    """Four tiles of 3 and 7 on two engines: 3 + 4 x 7, after the entry of 4.44."""
    ops = {"for": "i", "count": 4, "ops": [op("a{i}", 3), op("b{i}", 7, "hmx", after=["a{i}"])]}
    result = solve(work(ops), seed=1)
    assert result.status == "OPTIMAL"
    assert result.makespan_us == Fraction("35.44")
    assert result.schedule is not None and result.schedule.plan.addresses == {}


def test_two_tasks_run_together() -> None:
    """hmx: 3 + 4 x 7 + 4.44 bounds all; the 10 us of the other task fit beside it."""
    result = solve(pair(), seed=1)
    schedule = result.schedule
    assert schedule is not None
    assert (result.status, result.makespan_us) == ("OPTIMAL", Fraction("35.44"))
    assert schedule.baselines == {"serial": (40 + 10) * 25 + 2 * 111, "existing": (31 + 10) * 25 + 2 * 111}
    assert schedule.gain is not None and schedule.advice is not None
    assert schedule.gain.total == schedule.gain.existing - schedule.makespan
    assert schedule.us(schedule.gain.saved_entries) == Fraction("4.44")
    assert schedule.us(schedule.gain.overlap_between_tasks) == 10
    assert schedule.advice.answer == "co_schedule"
    assert check_schedule(schedule) == []
    assert result.bottleneck == "hmx"
    assert max(result.bounds.values()) == result.lower_bound_us


def test_a_problem_in_ticks() -> None:
    p = problem(on("hvx", "a", 3, task="t"), on("hmx", "b", 4, task="u"), move("c", 2, owner=1, task="u"))
    result = solve(p, seed=1)
    assert result.schedule is not None
    assert (result.status, result.makespan_us, result.schedule.unit) == ("OPTIMAL", 4, "ticks")
    assert result.schedule.machine is None
    assert result.schedule.workload_digest == p.digest()
    assert result.schedule.baselines == {"serial": 9, "existing": 7}


def test_tasks_of_a_problem_that_need_each_other_are_one_task() -> None:
    """a0 (t) before b (u) before a1 (t): only in this order, 3 + 4 + 5."""
    p = problem(
        on("hvx", "a0", 3, task="t"), on("hmx", "b", 4, task="u"), on("hvx", "a1", 5, task="t"), after="a0>b b>a1"
    )
    result = solve(p, seed=1)
    assert result.schedule is not None
    assert (result.status, result.makespan_us) == ("OPTIMAL", 12)
    assert result.schedule.baselines["existing"] == 12


def test_tasks_of_a_problem_run_in_the_order_they_need() -> None:
    p = problem(on("hvx", "second", 3, task="t"), on("hmx", "first", 4, task="u"), after="first>second")
    result = solve(p, seed=1)
    assert result.schedule is not None
    assert (result.makespan_us, result.schedule.baselines["existing"]) == (7, 7)


def test_a_deadline_is_met_even_where_it_costs_time() -> None:
    """Today b goes last and misses its deadline; it must go first, at no cost, or a must be cut short."""
    p = problem(on("hvx", "a", 5, task="t"), run("b", held("hvx", 3, 2), task="u", deadline_ticks=3))
    result = solve(p, seed=1, time_limit_s=0.1)
    assert result.schedule is not None
    assert result.schedule.rows[1].observed == 3
    assert result.makespan_us == 8


def test_a_baseline_below_the_makespan_is_not_quoted() -> None:
    """Today x 0-5, z 5-8, y 5-15, and z misses its deadline; in time it is z 0-3, x 3-8, y 8-18."""
    p = problem(on("lut", "x", 5), on("hmx", "y", 10), on("lut", "z", 3, deadline_ticks=3), after="x>y")
    schedule = solve(p, seed=1, time_limit_s=0.1).schedule
    assert schedule is not None
    assert schedule.makespan == 18
    assert schedule.baselines == {"serial": 18, "existing": None}
    assert schedule.gain is schedule.advice is None
    assert check_schedule(schedule) == []


# --- infeasible, limits, interruption -------------------------------------------------------------------


def test_infeasible_says_what_is_short() -> None:
    units = solve(work(op("a", 1, units=9))).infeasibility
    assert units is not None
    assert (units.kind, units.op, units.need, units.have, units.short) == ("units", "a", 9, 8, 1)
    big = {
        "name": "t",
        "ops": [op("a", 1, buffers=["x", "y"])],
        "buffers": [{"name": "x", "size_bytes": "6MiB"}, {"name": "y", "size_bytes": "3MiB"}],
    }
    result = solve(Workload.from_data({"name": "w", "tasks": [big]}), "hexagon-v81")
    found = result.infeasibility
    assert found is not None
    assert (result.status, found.kind, found.need, found.have, found.short) == (
        "INFEASIBLE",
        "bytes",
        9 << 20,
        8 << 20,
        1 << 20,
    )
    assert [(h.buffer, h.size_bytes) for h in found.holders] == [("x", 6 << 20), ("y", 3 << 20)]
    assert any("split it into 2 pieces" in lever.text for lever in found.levers)
    assert result.makespan_us is result.gap is result.bottleneck is result.certificate is None
    assert result.bounds == {}


def test_infeasible_by_a_deadline() -> None:
    late = solve(work(op("a", 5, deadline_us=3))).infeasibility
    assert late is not None
    assert late.message.startswith("op 'a' cannot end before 9.44 us, its deadline is 3 us")
    ticks = solve(problem(on("hvx", "a", 5, deadline_ticks=3))).infeasibility
    assert ticks is not None
    assert "cannot end before 5 ticks, its deadline is 3 ticks" in ticks.message


@pytest.mark.parametrize(
    ("buffers", "says"),
    [
        ((buffer("x", 8, "a", address=8),), "pinned x@8+8 ends at 16, the scratchpad at 12: short 4 B"),
        (
            (buffer("x", 8, "a", address=0), buffer("y", 4, "a", address=4)),
            "op 'a': pinned x@0+8 and y@4+4 share 4 B while both are alive",
        ),
        (
            (buffer("x", 6, "a"), buffer("home", 4, resident=True, address=4)),
            "buffer 'x' in one piece beside the pinned home@4+4: wanted 6 B, largest gap 4 B, short 2 B",
        ),
        ((buffer("x", 9, "a", granule_bytes=16),), "short 4 B; 7 B of the need is rounding; it holds x 16 B"),
        ((buffer("home", 13, resident=True),), "needs 13 B of scratchpad at once, 12 B are available: short 1 B"),
    ],
)
def test_infeasible_by_addresses(buffers: tuple[Buffer, ...], says: str) -> None:
    result = solve(problem(on("hvx", "a", 5), buffers=buffers, capacity=12))
    assert result.status == "INFEASIBLE"
    assert result.infeasibility is not None
    assert says in result.infeasibility.message


def test_infeasible_in_every_order() -> None:
    """Each op alone fits in 12 B; but x must live while y does: a0 opens x (8), b0 opens y (8), both close later."""
    p = problem(
        *(on("hvx", n, 1) for n in ("a0", "b0", "a1")),
        after="a0>b0 b0>a1",
        buffers=(buffer("x", 8, "a0", "a1"), buffer("y", 8, "b0")),
        capacity=12,
    )
    found = solve(p)
    assert found.status == "INFEASIBLE"
    assert found.infeasibility is not None and found.infeasibility.kind == "order"
    assert "in no order do the buffers fit" in found.infeasibility.message


def test_no_plan_and_no_proof_is_a_limit() -> None:
    """Bytes fit in this order, the two pins do not: only a search to the end proves that."""
    p = problem(
        *(on("hvx", n, 1) for n in "abc"),
        after="a>b b>c",
        buffers=(buffer("x", 4, "a", "c", address=0), buffer("y", 4, "b", address=0)),
        capacity=8,
    )
    result = solve(p, time_limit_s=0)
    assert (result.status, result.schedule, result.infeasibility) == ("LIMIT", None, None)
    result = solve(p)
    assert result.status == "INFEASIBLE"
    assert result.infeasibility is not None and result.infeasibility.kind == "search"
    assert "these exclude each other: the order 'a' -> 'b'" in result.infeasibility.message


def test_an_interrupt_returns_the_best_plan_so_far() -> None:
    calls = []

    def interrupt(makespan: Fraction, bound: Fraction) -> None:
        calls.append((makespan, bound))
        raise KeyboardInterrupt

    result = solve(open_problem(), on_progress=interrupt, time_limit_s=60)
    assert result.interrupted
    assert result.status in ("FEASIBLE", "OPTIMAL")
    assert result.makespan_us == calls[0][0]
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("solve", "configuration_bound"),
        ("solve", "search_shared"),
        ("solve", "finished"),
        ("solve", "check_schedule"),
        ("finish", "attribute"),
        ("finish", "with_flips"),
    ],
)
def test_whenever_it_is_interrupted_a_plan_that_is_known_is_returned(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once; the second interrupt ends the run."""
    home = {"solve": solve_module, "finish": finish}[module]
    whole, calls = getattr(home, name), []

    def interrupted(*arguments: Any, **keys: Any) -> Any:
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return whole(*arguments, **keys)

    monkeypatch.setattr(home, name, interrupted)
    result = solve(Workload.from_data(SLOWED, "w"), time_limit_s=1)
    assert calls and result.interrupted and INTERRUPTED in result.notes
    assert result.schedule is not None and check_schedule(result.schedule) == []


def test_progress_is_in_microseconds_and_never_gets_worse() -> None:
    seen: list[tuple[Fraction, Fraction]] = []
    result = solve(pair(), seed=1, on_progress=lambda makespan, bound: seen.append((makespan, bound)))
    assert seen == sorted(seen, key=lambda pair: -pair[0])
    assert seen[-1][0] == result.makespan_us
    assert {bound for _, bound in seen} == {result.lower_bound_us}


def test_the_same_seed_gives_the_same_bytes() -> None:
    first = solve(open_problem(), seed=7, time_limit_s=0.2)
    again = solve(open_problem(), seed=7, time_limit_s=0.2)
    assert first.schedule is not None and again.schedule is not None
    assert first.schedule.to_json() == again.schedule.to_json()
    assert first.evaluations == again.evaluations > 0


def test_a_limit_of_nothing_still_gives_a_plan() -> None:
    result = solve(open_problem(), time_limit_s=0)
    assert result.schedule is not None
    assert check_schedule(result.schedule) == []


def test_a_schedule_that_fails_its_check_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        solve_module, "check_schedule", lambda _: [Violation(kind="duration", parties=("a",), message="a is wrong")]
    )
    with pytest.raises(CheckFailedError, match="a is wrong"):
        solve(work(op("a", 1)))


def test_flips_name_the_overhead_and_its_end() -> None:
    """Sixteen joins of all workers: at 2.5 us each the pipeline costs more than it gains."""
    tiles = {"for": "i", "count": 16, "ops": [op("a{i}", "0.2", units="all"), op("b{i}", "2.4", "hmx", after=["a{i}"])]}
    tasks = [{"name": "t", "ops": [tiles], "today": "one_stage_at_a_time"}]
    schedule = solve(Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": tasks}), seed=1).schedule
    assert schedule is not None and schedule.advice is not None and schedule.advice.flips is not None
    known = {q.removeprefix("overheads.") for q in load_hw("hexagon-v81").ranged()}
    for flip in schedule.advice.flips:
        name, _, answer = flip.partition(": ")
        assert name.split()[0] in known and name.split()[1] in ("low", "high")
        assert answer in ("co_schedule", "pipeline", "keep") and answer != schedule.advice.answer


@pytest.mark.parametrize("why", ["too many ops", "interrupted", "bare problem"])
def test_overheads_that_were_not_varied_are_not_said_to_change_nothing(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    asked: Workload | Problem = work(op("a", 1), op("b", 1))
    if why == "too many ops":
        monkeypatch.setattr(flips, "MOST_OPS_ASKED_AGAIN", 1)
    elif why == "interrupted":  # the plan is there; only this question is open, and that is said
        monkeypatch.setattr(flips, "_answer_at", interrupted)
    else:
        asked = problem(on("hvx", "a", 1))
    result = solve(asked, seed=1)
    schedule = result.schedule
    assert schedule is not None and schedule.advice is not None
    assert schedule.advice.flips is None
    assert (INTERRUPTED in result.notes) == (why == "interrupted")


def test_an_interrupted_second_proof_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(solve_module, "prove_again", interrupted)
    monkeypatch.setattr(solve_module, "claim_of", lambda *_: Claim(1, False))
    result = solve(problem(*(on("hvx", f"a{i}", 2) for i in range(3))), seed=1, time_limit_s=0.2, prove_twice=True)
    assert result.notes == (PROVEN_ONCE,)
    assert result.schedule is not None and check_schedule(result.schedule) == []


def test_a_plan_with_cut_ops_is_one_of_other_ops_than_the_workloads() -> None:
    """Whether an overhead changes the advice is not asked then."""
    given = work(
        op("a1", 10, channels={"g": "9GB/s"}, pieces=4, **{"class": "r"}),
        op("a2", 10, channels={"g": "9GB/s"}, **{"class": "r"}),
        op("b", 30, bytes={"g": "100KiB"}, **{"class": "s"}),
        channels=[{"name": "g", "rate_gb_s": 12}],
        interference=[{"victim": "r", "cause": "s", "factor": 0.5}],
    )
    schedule = solve(given, seed=1, time_limit_s=0.5).schedule
    assert schedule is not None and schedule.advice is not None
    assert len(schedule.problem.ops) == 4 and schedule.advice.flips is None


def test_a_deadline_is_kept_to_the_digit() -> None:
    """Both end at 20.804 us, between ticks of 0.04: the deadline has a tick of its own."""
    ops = [op(name, 10, channels={"g": "9GB/s"}, deadline_us="20.81") for name in ("a", "b")]
    schedule = solve(work(*ops, channels=[{"name": "g", "rate_gb_s": 11}]), seed=1, time_limit_s=0.5).schedule
    assert schedule is not None and float(schedule.us(schedule.makespan)) == pytest.approx(20.804, abs=1e-3)


def test_links_and_pipes_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    write_whole(Path("/dev/null"), "gone")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("fault", ["a folder stands there", "the disk is full"])
def test_the_files_of_a_run_are_written_together_or_not_at_all(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (tmp_path / name for name in ("a.json", "b.svg", "c.h"))
    first.write_text("old")
    make, calls = tempfile.mkstemp, []

    def full(**where: Any) -> Any:
        calls.append(where)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        return make(**where)

    if fault == "the disk is full":
        monkeypatch.setattr(tempfile, "mkstemp", full)
    else:
        third.mkdir()
    with pytest.raises(OSError, match=re.escape(str(third))):
        write_together({first: "new", second: "new", third: "new"})
    assert first.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"a.json"} | ({"c.h"} if third.is_dir() else set())


@pytest.mark.parametrize(("due", "said"), [(80, "channel 'ddr' cannot end before 82 ticks"), (85, "no plan whose ops")])
@pytest.mark.parametrize("rule", ["fluid", "proportional", "priority"])
def test_deadlines_that_a_channel_excludes(rule: str, due: int, said: str) -> None:
    """Two ops of 40 and 70 ticks that ask for 75 of 100: 82.5 ticks of bytes; side by side they end after 90."""
    ops = (pulling("a", 40, ddr=75), pulling("b", 70, ddr=75))
    late = sharing(*(op.model_copy(update={"deadline_ticks": due}) for op in ops))
    result = solve(late, contention=rule, seed=1, time_limit_s=2)
    assert result.status == "INFEASIBLE"
    assert result.infeasibility is not None
    assert result.infeasibility.message.startswith(said)


def test_a_task_that_is_the_whole_problem_is_planned_three_times_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of today, the same as a first plan, and a list schedule that meets the bound: what a solve costs."""
    made: list[str] = []
    for module in (baselines_module, evaluate_module, attribution_module):

        def counted(p: Problem, decision: Decision, plan: Any = module.make_plan) -> Any:
            made.append(p.name)
            return plan(p, decision)

        monkeypatch.setattr(module, "make_plan", counted)
    ops = [o for k in range(12) for o in (on("hvx", f"a{k}", 3), on("hmx", f"b{k}", 2))]
    result = solve(problem(*ops, after=" ".join(f"a{k}>b{k}" for k in range(12))))
    assert result.status == "OPTIMAL"
    assert result.schedule is not None
    assert result.schedule.gain is not None
    assert len(made) <= 3
