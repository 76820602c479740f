"""Hand-written pipelines: the answer is that of a plain search over every interleaving."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import assume, given, settings
from pipeline_oracle import TooLarge, fewest_steps
from pipelines import SAFE, changed_pipelines, mutants, random_pipelines

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.pipeline.budget import Budget, LimitReached
from hexloom.optimizer.pipeline.decide import check_pipeline
from hexloom.optimizer.pipeline.explore import Explorer
from hexloom.optimizer.pipeline.index import Trips
from hexloom.optimizer.pipeline.machine import Machine
from hexloom.optimizer.pipeline.model import Pipeline
from hexloom.optimizer.pipeline.program import program_of
from hexloom.optimizer.pipeline.shortest import every_order, shortest

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
@settings(max_examples=600)
def test_many_changes_are_judged_as_by_every_interleaving(data: Data) -> None:
    judged(data, 20_000)


@given(random_pipelines())
@settings(max_examples=50)
def test_random_pipelines_are_judged_as_by_every_interleaving(data: Data) -> None:
    judged(data, 3_000)


@pytest.mark.slow
@given(random_pipelines())
@settings(max_examples=600)
def test_many_random_pipelines_are_judged_as_by_every_interleaving(data: Data) -> None:
    judged(data, 20_000)


@pytest.mark.slow
def test_what_one_order_leaves_out_is_nothing_in_the_attention_loop() -> None:
    """Mutants of the example, too large for the plain search, against the machine's own search over all orders."""
    path = Path(__file__).resolve().parents[2] / "examples" / "attention_pipeline" / "pipeline.yaml"
    kinds = set()
    for data in mutants(yaml.safe_load(path.read_text(encoding="utf-8"))):
        try:
            machine = Machine(program_of(Pipeline.from_data(data)))
        except InvalidInputError:
            continue
        for n in (1, 2):
            one, whole = Explorer(machine, Budget(60, 10_000)).one(n), None
            with suppress(LimitReached):
                whole = every_order(machine, Trips(n, True), 1_000, Budget(60, 10_000))
                assert (one is None) == (whole is None), (n, data)
            if one is not None:
                found = shortest(machine, n, one.path, Budget(60, 100_000))
                assert whole is None or len(found.moves) == len(whole.moves)
                kinds.add(found.fault.kind)
                break
    assert kinds >= {"read_before_write", "overwrite", "two_writers", "queue_empty", "deadlock"}
