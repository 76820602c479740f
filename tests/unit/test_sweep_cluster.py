"""Sweeps on a Dask cluster: a worker and the parent are killed in the middle, and nothing is lost or done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from unit.test_cli_study import WORK

pytestmark = pytest.mark.slow

SPECS = ("work_ratio=0.1..10:log12", "jitter=0,0.1,0.2,0.3")
POINTS = 48


def command(work: Path, out: Path) -> list[str]:
    asked = [item for spec in SPECS for item in ("--sweep", spec)]
    return [sys.executable, "-m", "hexloom", "study", str(work), *asked, "-o", str(out), "--time-limit", "0s", "-q"]


def rows_in(folder: Path) -> list[dict[str, Any]]:
    path = folder / "points.jsonl"
    if not path.exists():
        return []
    text = path.read_bytes()
    return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()[1:]]


def wait_for(folder: Path, rows: int, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + 120
    while len(rows_in(folder)) < rows:
        assert process.poll() is None and time.monotonic() < ends
        time.sleep(0.05)


def descendants(of: int) -> dict[int, str]:
    """Return the processes below ``of`` with their command lines."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1]), line
    found: dict[int, str] = {}
    for pid, (_, line) in parents.items():
        above = pid
        while above in parents:
            above = parents[above][0]
            if above == of:
                found[pid] = line
    return found


def test_a_scheduler_that_nobody_answers_at_is_named(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    work = tmp_path / "work.yaml"
    work.write_text(WORK, encoding="utf-8")
    asked = [*command(work, tmp_path / "o"), "--scheduler", "tcp://127.0.0.1:9"]
    answer = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 2
    assert "nobody answers" in answer.stderr and answer.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to find workers")
def test_a_killed_worker_and_a_killed_parent_lose_nothing(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    work = tmp_path / "work.yaml"
    work.write_text(WORK, encoding="utf-8")
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*command(work, whole), "--workers", "1"], check=True, stdout=subprocess.DEVNULL, timeout=300)

    first = subprocess.Popen(command(work, cut), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(cut, 5, first)
        spawned = [pid for pid, line in descendants(first.pid).items() if "spawn_main" in line]
        assert len(spawned) >= 2
        os.kill(max(spawned), signal.SIGKILL)  # a worker, in the middle of a point
        wait_for(cut, 15, first)
        left = descendants(first.pid)
        os.kill(first.pid, signal.SIGKILL)  # the parent, in the middle of everything
        first.wait(30)
    finally:
        if first.poll() is None:
            first.kill()
            first.wait(30)
    ends = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in left) and time.monotonic() < ends:
        time.sleep(0.2)  # workers end by themselves when nobody answers them

    before = {row["key"] for row in rows_in(cut)}
    assert 15 <= len(before) < POINTS
    again = subprocess.run([*command(work, cut), "--json"], check=True, stdout=subprocess.PIPE, timeout=300)
    found = json.loads(again.stdout)
    assert found["reused"] == len(before)
    keys = [row["key"] for row in rows_in(cut)]
    assert len(keys) == len(set(keys)) == POINTS  # none twice, none missing
    assert {row["status"] for row in found["rows"]} <= {"OPTIMAL", "FEASIBLE"}
    assert (cut / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()
