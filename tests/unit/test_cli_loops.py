"""What `hexloom solve` says of loops that cannot be solved as loops: exit codes, and why, in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from measured import rerun, written

from hexloom.cli import main
from hexloom.optimizer.periodic.schedule import PeriodicSchedule, periodic_hash

if TYPE_CHECKING:
    from pathlib import Path


def loop(**op: Any) -> dict[str, Any]:
    """Return 200,000 iterations of one vector op with a buffer: as ops too many for any plan."""
    body: dict[str, Any] = {
        "for": "i",
        "count": 200_000,
        "buffers": [{"name": "b{i}", "size_bytes": op.pop("size", "1MiB")}],
        "ops": [{"name": "a{i}", "engine": "hvx", "duration_us": 1, "buffers": ["b{i}"], **op}],
    }
    return {"name": "t", "ops": [body]}


def solved(path: Path, task: dict[str, Any], *arguments: str, **more: Any) -> int:
    path.write_text(
        json.dumps({"schema": "hexloom.workload/1", "name": "w", "hw": "hexagon-v79", "tasks": [task], **more})
    )
    return main(["solve", str(path), "--time-limit", "1s", "-q", *arguments])


@pytest.mark.parametrize("arguments", [(), ("--formulation", "periodic")])
def test_an_iteration_that_never_fits_is_infeasible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert solved(tmp_path / "w.json", loop(size="1GiB"), *arguments) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "infeasible: task 't': buffer 't/ring.0' takes 1073741824 B, the scratchpad has 8388608 B" in said.err


def test_too_many_ops_say_why_they_are_no_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert solved(tmp_path / "w.json", loop(deadline_us=9)) == 2
    assert "above 100,000 ops" in (said := capsys.readouterr().err)
    assert said.rstrip().endswith("; not as loops: op 'a0' has a deadline")


def test_bytes_reserved_around_one_op_are_no_part_of_a_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reserved = [{"bytes": "1MiB", "until": "a150000"}]
    assert solved(tmp_path / "w.json", loop(), "--formulation", "periodic", reserved=reserved) == 2
    assert "bytes are reserved until or from one op, which is none of a body; use --formulation flat" in (
        capsys.readouterr().err
    )


def test_a_run_of_loops_is_held_against_what_is_written_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert solved(tmp_path / "w.yaml", loop(), "--formulation", "periodic", "-o", str(tmp_path)) == 0
    source, trace = tmp_path / "schedule.json", tmp_path / "run.json"
    loops = PeriodicSchedule.model_validate_json(source.read_text())
    run = json.loads(written(loops.written, [rerun(loops.written)]))
    for name, code in ((f"{periodic_hash(loops):016x}", False), ("0123456789abcdef", True)):
        trace.write_text(json.dumps({**run, "schedule_hash": name}))
        capsys.readouterr()
        assert main(["compare", str(source), str(trace), "--fail-above", "0.1%", "--json"]) == 0
        out, err = capsys.readouterr()
        found = json.loads(out)
        assert found["matching"]["by_name"] == found["matching"]["ops"] == len(loops.written.problem.ops)
        assert (found["other_plan"] is not None) == code
        assert err == (
            "hexloom: the schedule is of loops: the run is held against the iterations that it has written down\n"
        )
    assert main(["compare", str(source), str(trace), "-q", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "comparison.svg").exists()
    assert capsys.readouterr().err == ""
