"""Where waits stand in the tables, and that an entry comes to two cache lines of them at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench import bench
from looped import looped
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom.emit import records
from hexloom.emit.awaited import awaited
from hexloom.emit.records import NONE
from hexloom.emit.rows import Await, entry_that_waits
from hexloom.emit.tables import make_tables
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from hexloom.emit.rows import Tables


def test_an_entry_comes_to_two_lines_whatever_it_waits_for() -> None:
    """Its own line and that of its task; tables of the earlier layout, with waits apart, came to three."""
    plans: list[Tables] = [make_tables(random_schedule(seed, 40)) for seed in range(6)]
    plans += [looped(name)[1] for name in ("two",)]
    waits = [len(waits) for tables in plans for waits in tables.waits]
    assert max(waits) >= 2
    assert {bench("dispatch_packets").lines_per_task(tables)[1] for tables in plans} == {2}


def test_a_task_waits_for_what_most_queues_need_and_the_others_before_it() -> None:
    """By hand: the first context has run the one op itself, so its slice waits for the other alone."""
    tables = make_tables(examples.two_waits())
    far, near, gang, other = tables.tasks
    assert (gang.wait_event, gang.wait_threshold) == (far.trigger_event, 1) == (other.wait_event, other.wait_threshold)
    actions = [
        [(e.action, e.task) for e in tables.entries[q.first_entry : q.first_entry + q.entry_count]]
        for q in tables.queues
        if tables.engines[q.engine] == "hvx" and q.unit < 2
    ]
    assert actions == [
        [(records.RUN, 1), (records.RUN, 2)],
        [(records.AFTER, near.trigger_event), (records.RUN, 2)],
    ]
    assert [event.waiters for event in tables.events] == [2, 1]


def test_the_last_wait_is_that_of_the_task_where_all_queues_need_all() -> None:
    needed = {Await(4, 1): [0, 1], Await(2, 7): [1, 0], Await(9, 1): [0]}
    found = awaited(needed)
    assert found.own == Await(2, 7)
    assert found.entries(0) == [entry_that_waits(Await(4, 1)), entry_that_waits(Await(9, 1))]
    assert found.entries(1) == [entry_that_waits(Await(4, 1))]
    assert sorted(found.of_event()) == [2, 4, 4, 9]
    assert awaited({}).own == Await(NONE, 0)


@pytest.mark.parametrize("threshold", [0, 1, 65535, 65536, 2**23 - 1, 2**32 - 1, 2**32 - 2**23])
def test_a_threshold_is_read_back_from_its_entry(threshold: int) -> None:
    """Behind a loop it may be below zero, which is counted in 32 bits."""
    entry = entry_that_waits(Await(7, threshold))
    assert (entry.action, entry.wait) == (records.AFTER, Await(7, threshold))
    assert records.ENTRY.unpack(records.ENTRY.pack(entry))["task"] == 7


@pytest.mark.parametrize("threshold", [2**23, 2**32 - 2**23 - 1])
def test_a_threshold_that_takes_more_than_24_bits_is_refused(threshold: int) -> None:
    with pytest.raises(InvalidInputError, match="24 bits"):
        entry_that_waits(Await(7, threshold))
