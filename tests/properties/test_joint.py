"""Times and addresses chosen together against a schedule first and its packing afterwards, by counted work."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from hexloom import check_schedule, solve
from hexloom.formulations.flat.guard import Guard, Job, Outcome

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "joint.py"


@pytest.fixture(scope="module")
def joint() -> Any:
    spec = importlib.util.spec_from_file_location("joint_benchmark", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_not_longer(joint: Any, factor: float, number: int, seconds: float, seed: int) -> None:
    together, apart, _ = joint.compared(joint.three_by_three(factor, number), seconds, seed)
    assert together is not None
    assert apart is None or together <= apart


@pytest.mark.parametrize("number", [1, 6, 20])
def test_never_longer_on_a_few(joint: Any, number: int) -> None:
    assert_not_longer(joint, 1.3, number, seconds=0.2, seed=number)


def test_the_same_seed_gives_the_same_bytes_whoever_is_faster(joint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the two searches is slowed down, each time another one."""
    texts, ask = set(), Guard.solve
    for slow in (False, True):

        def late(guard: Guard, job: Job, *more: Any, slow: bool = slow) -> Outcome:
            if job.options.addresses == slow:
                time.sleep(1.0)
            return ask(guard, job, *more)

        monkeypatch.setattr(Guard, "solve", late)
        result = solve(joint.three_by_three(1.3, 20), contention="none", time_limit_s=0.1, seed=3)
        assert result.schedule is not None and check_schedule(result.schedule) == []
        texts.add(result.schedule.to_json())
    assert len(texts) == 1


def test_dead_solvers_leave_the_list_schedule(joint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def dead(_: Guard, job: Job, *__: Any) -> Outcome:
        asked.append(job.options.addresses)
        return Outcome("DIED", 0, None)

    monkeypatch.setattr(Guard, "solve", dead)
    result = solve(joint.three_by_three(1.3, 20), contention="none", time_limit_s=0.1, seed=3)
    assert set(asked) == {False, True}
    assert result.schedule is not None and check_schedule(result.schedule) == []


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_never_longer_on_others_than_the_named(joint: Any, factor: float) -> None:
    for number in range(21, 24):
        assert_not_longer(joint, factor, number, seconds=0.5, seed=2)


@pytest.mark.slow
def test_shorter_on_the_named_set(joint: Any) -> None:
    for name in joint.NAMED:
        _, factor, number = name.rsplit("_", 2)
        together, apart, _ = joint.compared(joint.three_by_three(float(factor), int(number)), 1.0)
        assert together is not None
        assert apart is None or together < apart, name
