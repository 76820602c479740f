"""Refusals speak of what the user wrote, and come at once."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hexloom import InvalidInputError, Workload, load_hw, solve
from hexloom.optimizer.lower import lower

FREES = [
    {"name": "load", "engine": "hvx", "duration_us": 1, "buffers": ["raw"]},
    {"name": "a", "engine": "hvx", "duration_us": 1, "buffers": ["raw"], "frees": {"raw": "256KiB"}, "after": ["load"]},
    {"name": "b", "engine": "hvx", "duration_us": 1, "buffers": ["raw"], "frees": {"raw": "256KiB"}, "after": ["a"]},
]


def task(ops: list[dict[str, Any]], *buffers: dict[str, Any]) -> Workload:
    return Workload.from_data({"name": "w", "tasks": [{"name": "t", "ops": ops, "buffers": list(buffers)}]})


def raw(**more: Any) -> dict[str, Any]:
    return {"name": "raw", "size_bytes": "1MiB", **more}


def refused(work: Workload) -> str:
    with pytest.raises(InvalidInputError) as found:
        lower(work, load_hw("hexagon-v79"))
    return str(found.value)


def test_a_crooked_pin_of_a_buffer_that_drains_names_the_buffer() -> None:
    said = refused(task(FREES, raw(address=1)))
    assert "buffer 'raw' is pinned at 1, not a multiple of its alignment 128" in said


def test_the_lever_of_a_pin_names_the_buffer_that_drains() -> None:
    other = {"name": "x", "size_bytes": "1MiB", "address": "512KiB"}
    ops = [{**FREES[0], "buffers": ["raw", "x"]}, *FREES[1:]]
    found = solve(task(ops, raw(address=0, align_bytes=1), other), "hexagon-v79", time_limit_s=2).infeasibility
    assert found is not None
    pins = [lever.text.partition(" (")[0] for lever in found.levers if "move the pin" in lever.text]
    assert pins == ["move the pin of buffer 'raw'", "move the pin of buffer 'x'"]


def test_a_buffer_that_is_called_as_a_part_is_refused() -> None:
    said = refused(task(FREES, raw(), raw(name="raw[0:262144]")))
    assert said.endswith("buffer 'raw[0:262144]' is called as the bytes that 'raw' frees are; rename it")


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"offset": 2**63 - 1}, "region of 'h' is [9223372036854775807, 9223372036854776319) B, outside of [0, "),
        ({"rows": 3, "stride": 2**60}, "write a smaller offset, step, stride or number of bytes"),
    ],
)
def test_regions_beyond_what_readers_can_hold(where: dict[str, Any], says: str) -> None:
    reads = [{"tensor": "h", "bytes": 512, **where}]
    said = refused(task([{"name": "a", "engine": "hvx", "duration_us": 1, "reads": reads}]))
    assert says in said and "_bytes" not in said


@pytest.mark.parametrize("inner", [1, 10**9])
def test_a_mistyped_count_is_refused_before_the_loop_is_written_out(inner: int) -> None:
    op = {"name": "a.{i}.{k}", "engine": "hvx", "duration_us": 1}
    loop = {"for": "i", "count": 10**9, "ops": [{"for": "k", "count": inner, "ops": [op]}]}
    work, started = task([loop]), time.process_time()
    assert "task 't' brings the plan above 100,000 ops" in refused(work)
    assert time.process_time() - started < 2
