"""Hand-written pipelines: the answer is that of a plain search over every interleaving."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from pipeline_oracle import TooLarge, fewest_steps
from pipelines import SAFE, changed_pipelines, mutants, random_pipelines

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.pipeline.budget import Budget, LimitReached
from hexloom.optimizer.pipeline.decide import check_pipeline
from hexloom.optimizer.pipeline.explore import Explorer
from hexloom.optimizer.pipeline.model import Pipeline

if TYPE_CHECKING:
    from hexloom.optimizer.pipeline.decide import Answer

Data = dict[str, Any]
MOST_TRIPS = 5


def answer_to(data: Data) -> Answer:
    return check_pipeline(Pipeline.from_data(data), time_limit_s=60, most_states=3000)


def agrees(data: Data, trips: int = MOST_TRIPS, most_states: int = 40_000) -> bool:
    """Compare with the plain search for 0, 1, ... trips; returns whether the pipeline is safe."""
    answer = answer_to(data)
    found = answer.broken
    for n in range(trips + 1):
        try:
            fewest = fewest_steps(data, n, most_states)
        except TooLarge:
            break
        if found is not None and found.trip_count == n:
            assert fewest == len(found.moves), (n, fewest, found)
            assert found.shortest
            break
        assert fewest is None, (n, fewest, found)
    with suppress(LimitReached):  # the search over all trip counts at once, by itself
        every = Explorer(answer.machine, Budget(60, 500)).all_from(0)
        assert every is not None or found is None
        if every is not None:
            assert Explorer(answer.machine, Budget(60, 500)).one(every.trip_count) is not None
            assert found is not None or every.trip_count > (answer.proven_to or 0)
    return answer.status == "safe"


@pytest.mark.parametrize("name", SAFE)
def test_safe_pipelines_are_proven_for_all_trip_counts(name: str) -> None:
    data = SAFE[name]()
    assert agrees(data, trips=3)
    answer = answer_to(data)
    assert (answer.status, answer.proven_to, answer.broken) == ("safe", 4096, None)


@pytest.mark.parametrize("name", SAFE)
def test_mutants_are_judged_as_by_every_interleaving(name: str) -> None:
    judged = []
    for data in mutants(SAFE[name]()):
        try:
            judged.append(agrees(data, trips=3, most_states=8_000))
        except InvalidInputError:
            continue
    assert judged.count(False) >= 3


def judged(data: Data, most_states: int) -> None:
    try:
        agrees(data, most_states=most_states)
    except InvalidInputError:
        assume(False)


@given(changed_pipelines())
@settings(max_examples=40)
def test_two_changes_are_judged_as_by_every_interleaving(data: Data) -> None:
    judged(data, 3_000)


@pytest.mark.slow
@given(changed_pipelines())
@settings(max_examples=1500)
def test_many_changes_are_judged_as_by_every_interleaving(data: Data) -> None:
    judged(data, 20_000)


@given(random_pipelines())
@settings(max_examples=50)
def test_random_pipelines_are_judged_as_by_every_interleaving(data: Data) -> None:
    judged(data, 3_000)


@pytest.mark.slow
@given(random_pipelines())
@settings(max_examples=1500)
def test_many_random_pipelines_are_judged_as_by_every_interleaving(data: Data) -> None:
    judged(data, 20_000)
