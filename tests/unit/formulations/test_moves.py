"""What local search changes of a policy."""

from __future__ import annotations

import random

from unit.small import on, problem

from hexloom.formulations.greedy import Policy
from hexloom.formulations.moves import Moves


def test_a_task_that_others_feed_has_no_source_and_keeps_its_priorities() -> None:
    """Tasks a and b begin by themselves, c only after both: to scale the priorities of tasks ended in a KeyError."""
    p = problem(on("hmx", "a", 1, task="a"), on("hvx", "b", 1, task="b"), on("hmx", "c", 1, task="c"), after="a>c b>c")
    start = Policy(priority=(1.0, 2.0, 3.0), modes=(0, 0, 0))
    moves = Moves(p, random.Random(1), capped=False)
    scaled = [
        found.priority
        for found in (moves.neighbour(start) for _ in range(50))
        if found.priority[0] != 1.0 and found.priority[1] != 2.0
    ]
    assert scaled
    assert any(priority[2] == 3.0 for priority in scaled)
