"""What tests of cases ask: solve and look with a second pair of eyes at what came out."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

from cases.neutral import to_problem

from hexloom import solve
from hexloom.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from hexloom.optimizer.infeasibility import Infeasibility
    from hexloom.optimizer.schedule import OpRow, Schedule


def schedule_of(data: dict[str, Any], limit_s: float = 0.5, **changes: Any) -> Schedule:
    """Solve a case's input and check memory independently of the product's checker."""
    result = solve(to_problem(data, **changes), time_limit_s=limit_s)
    assert result.schedule is not None, result.infeasibility
    memory_is_sound(result.schedule)
    return result.schedule


def refusal_of(data: dict[str, Any], **changes: Any) -> Infeasibility:
    """Solve a case's input that has no schedule."""
    result = solve(to_problem(data, **changes))
    assert result.status == "INFEASIBLE"
    assert result.schedule is None
    assert result.evaluations == 0, "arithmetic must find it before any search"
    assert result.infeasibility is not None
    assert "\n" not in result.infeasibility.message
    return result.infeasibility


def rows(schedule: Schedule) -> dict[str, OpRow]:
    return {row.op: row for row in schedule.rows}


def pieces(schedule: Schedule) -> list[tuple[str, int, int, int, int]]:
    """Return (name, address, end address, from, to) of every buffer that takes bytes at some time."""
    times = rows(schedule)
    found = []
    for b in schedule.problem.buffers:
        born = 0 if b.from_start else min((times[op].start for op in b.ops), default=0)
        died = schedule.makespan if b.to_end else max((times[op].observed for op in b.ops), default=0)
        at = schedule.plan.addresses[b.name]
        size = -(-b.size_bytes // b.granule_bytes) * b.granule_bytes
        if size and died > born:
            found.append((b.name, at, at + size, born, died))
    return found


def memory_is_sound(schedule: Schedule) -> None:
    buffers = {b.name: b for b in schedule.problem.buffers}
    pad = schedule.problem.scratchpad
    for name, at, end, _, _ in pieces(schedule):
        assert at >= 0
        assert end <= pad.total_bytes - pad.reserved_bytes
        assert at % buffers[name].align_bytes == 0
        assert buffers[name].address in (None, at)
    for (x, a, b, s, e), (y, c, d, t, f) in combinations(pieces(schedule), 2):
        assert b <= c or d <= a or e <= t or f <= s, f"{x} and {y} overlap"


def peak_bytes(schedule: Schedule) -> int:
    """Return the highest address in use, which is the size of scratchpad that the plan needs."""
    return max((end for _, _, end, _, _ in pieces(schedule)), default=0)


def run_cli(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str, str]:
    """Run the command line; returns its exit code, standard output and standard error."""
    code = main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def problem_file(folder: Path, data: dict[str, Any], **changes: Any) -> Path:
    path = folder / "problem.json"
    path.write_text(to_problem(data, **changes).model_dump_json(by_alias=True), encoding="utf-8")
    return path


def workload_file(folder: Path, data: dict[str, Any]) -> Path:
    """Write a workload as JSON, which is YAML too."""
    path = folder / "workload.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path
