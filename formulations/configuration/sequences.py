"""A configuration bound without its linear program: ops of which one works at a time pay one price, all others none.

``makespan >= a + sum of ticks + b`` over ops that exclude each other, with heads of at least ``a`` and tails of at
least ``b``. It takes a moment where the program takes a second, and the certificate is of the same kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexloom.formulations.configuration.bound import Prices, proven
from hexloom.formulations.configuration.classes import configurations
from hexloom.formulations.configuration.order import Order
from hexloom.formulations.exclusive import longest_sets
from hexloom.formulations.speeds import Speeds

if TYPE_CHECKING:
    from hexloom.formulations.bound import Bound
    from hexloom.formulations.configuration.certificate import Certificate
    from hexloom.formulations.exclusive import Exclusive
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem
    from hexloom.formulations.ticks import Moment


def sequence_bound(problem: Problem, heads_tails: HeadsTails, at_least: Moment = 0) -> tuple[Bound, Certificate] | None:
    """Return the best such bound and its certificate where nobody slows anybody; None if it is not above ``at_least``.

    ``heads_tails`` are those of ``problem``, in ticks.
    """
    most, held_of = at_least, dict[int, int]()
    for one in longest_sets(problem):
        ticks, part = _longest(one, heads_tails)
        if ticks > most:
            most, held_of = ticks, part
    if not held_of:
        return None
    partition = [(i,) for i in held_of]
    given = configurations(problem, Order(problem), heads_tails, partition, None, Speeds(problem, "none", exact=True))
    prices: list[int] = []
    for item in given.items:
        (i,) = given.classes[item.op_class].ops
        ends = item.head - int(heads_tails.head[i]) + item.ticks
        prices.append(int(ends <= held_of[i]))
    return proven(problem, Order(problem), heads_tails, given, None, Prices(tuple(prices), int(most)))


def _longest(one: Exclusive, ht: HeadsTails) -> tuple[int, dict[int, int]]:
    """Return the largest ``a + sum of ticks + b`` over a part of a set, and the ticks of that part."""
    ops, ticks = np.array(one.ops), np.array(one.ticks, dtype=np.int64)
    head, tail = ht.head[ops], ht.tail[ops] + ht.duration[ops] - ticks
    by_tail = np.argsort(-tail, kind="stable")
    best, part = -1, by_tail
    for a in np.unique(head):
        late = by_tail[head[by_tail] >= a]
        values = a + np.cumsum(ticks[late]) + tail[late]
        k = int(values.argmax())
        if int(values[k]) > best:
            best, part = int(values[k]), late[: k + 1]
    return best, dict(zip(ops[part].tolist(), ticks[part].tolist(), strict=True))
