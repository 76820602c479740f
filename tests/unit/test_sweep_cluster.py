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
    soon = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}
    answer = subprocess.run(asked, capture_output=True, text=True, timeout=120, env=soon)
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


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="waits for processes to be gone")
def test_a_parent_without_workers_that_is_killed_goes_on(tmp_path: Path) -> None:
    work = tmp_path / "work.yaml"
    work.write_text(WORK, encoding="utf-8")
    alone = [*command(work, tmp_path / "cut"), "--workers", "1"]
    first = subprocess.Popen(alone, stdout=subprocess.DEVNULL)
    try:
        wait_for(tmp_path / "cut", 10, first)
    finally:
        first.kill()
        first.wait(30)
    before = len(rows_in(tmp_path / "cut"))
    assert before < POINTS
    again = subprocess.run([*alone, "--json"], check=True, stdout=subprocess.PIPE, timeout=300)
    assert json.loads(again.stdout)["reused"] == before
    assert len({row["key"] for row in rows_in(tmp_path / "cut")}) == len(rows_in(tmp_path / "cut")) == POINTS


def test_a_cluster_elsewhere_loses_a_worker_and_its_client(tmp_path: Path) -> None:
    """A scheduler and two workers of their own: one worker is killed, then who asked; the same command goes on."""
    pytest.importorskip("distributed")
    work, cut, address = tmp_path / "work.yaml", tmp_path / "cut", tmp_path / "scheduler.json"
    work.write_text(WORK, encoding="utf-8")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    started = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([*arguments], **quiet))
        return started[-1]

    try:
        more = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(address)]
        start(sys.executable, "-m", "distributed.cli.dask_scheduler", *more)
        ends = time.monotonic() + 120
        while not address.exists():
            assert started[0].poll() is None and time.monotonic() < ends
            time.sleep(0.1)
        at = json.loads(address.read_text(encoding="utf-8"))["address"]
        worker = ["-m", "distributed.cli.dask_worker", at, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        victims = [start(sys.executable, *worker) for _ in range(2)]
        asked = [*command(work, cut), "--scheduler", at]
        client = start(*asked)
        wait_for(cut, 5, client)
        victims[0].kill()
        wait_for(cut, 15, client)
        client.kill()
        client.wait(30)
        before = len(rows_in(cut))
        assert 15 <= before < POINTS
        again = subprocess.run([*asked, "--json"], check=True, stdout=subprocess.PIPE, timeout=300)
        found = json.loads(again.stdout)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(30)
    assert found["reused"] == before
    keys = [row["key"] for row in rows_in(cut)]
    assert len(keys) == len(set(keys)) == POINTS
    assert {row["status"] for row in found["rows"]} <= {"OPTIMAL", "FEASIBLE"}
