"""Hand-written pipelines: the answer is that of a plain search over every interleaving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from pipeline_oracle import TooLarge, fewest_steps
from pipelines import SAFE, mutants, random_pipelines

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.pipeline.budget import Budget
from hexloom.optimizer.pipeline.decide import check_pipeline
from hexloom.optimizer.pipeline.explore import Explorer
from hexloom.optimizer.pipeline.model import Pipeline

if TYPE_CHECKING:
    from hexloom.optimizer.pipeline.decide import Answer

Data = dict[str, Any]
MOST_TRIPS = 5


def answer_to(data: Data) -> Answer:
    return check_pipeline(Pipeline.from_data(data), time_limit_s=20, most_states=6000)


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
    if answer.status == "broken":
        every = Explorer(answer.machine, Budget(20, 6000)).all_from(0)
        assert every is not None
        one = Explorer(answer.machine, Budget(20, 6000)).one(every.trip_count)
        assert one is not None
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


@given(random_pipelines())
@settings(max_examples=60)
def test_random_pipelines_are_judged_as_by_every_interleaving(data: Data) -> None:
    try:
        agrees(data, most_states=4_000)
    except InvalidInputError:
        assume(False)
