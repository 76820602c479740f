"""What `hexloom solve` says of loops that cannot be solved as loops: exit codes, and why, in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hexloom.cli import main

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
