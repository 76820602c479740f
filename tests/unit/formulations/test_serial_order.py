from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from unit.small import buffer, on, problem

from hexloom.formulations.serial_order import SearchLimit, serial_order

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


LIVES = (*(False,) * 6, True, "from_start", "to_end")


def fits(p: Problem, order: tuple[int, ...]) -> bool:
    """Run the ops one after the other and count the bytes of what has begun and not ended."""
    place = {op: k for k, op in enumerate(order)}
    if sorted(order) != list(range(len(p.ops))):
        return False
    if any(place[b] > place[a] for a, of in enumerate(p.predecessors) for b in of):
        return False
    for k in range(len(order)):
        live = 0
        for b in p.buffers:
            users = [place[p.op_index[n]] for n in b.ops]
            if (b.from_start or (users and min(users) <= k)) and (b.to_end or (users and k <= max(users))):
                live += b.occupied_bytes
        if live > p.scratchpad.available_bytes:
            return False
    return True


def test_an_order_that_fits() -> None:
    """Two chains of two ops, each with a buffer of 8 over both: one chain after the other."""
    p = problem(
        *(on("hvx", n, 1) for n in ("a0", "b0", "a1", "b1")),
        after="a0>a1 b0>b1",
        buffers=(buffer("x", 8, "a0", "a1"), buffer("y", 8, "b0", "b1")),
        capacity=8,
    )
    order = serial_order(p)
    assert order is not None
    assert fits(p, order)
    assert not fits(p, (0, 1, 2, 3))


def test_it_is_proven_that_nothing_fits() -> None:
    p = problem(
        *(on("hvx", n, 1) for n in "abc"),
        after="a>b b>c",
        buffers=(buffer("x", 8, "a", "c"), buffer("y", 8, "b")),
        capacity=15,
    )
    assert serial_order(p) is None
    roomy = problem(*p.ops, after="a>b b>c", buffers=p.buffers, capacity=16)
    assert serial_order(roomy) == (0, 1, 2)


def test_residents_take_their_bytes_all_the_time() -> None:
    home = buffer("home", 4, "a", resident=True)
    p = problem(on("hvx", "a", 1), on("hvx", "b", 1), buffers=(home, buffer("x", 8, "b")), capacity=11)
    assert serial_order(p) is None
    assert serial_order(problem(*p.ops, buffers=p.buffers, capacity=12)) is not None


@pytest.mark.parametrize("seed", range(60))
def test_it_agrees_with_all_orders(seed: int) -> None:
    rng = random.Random(seed)
    n = 6
    edges = " ".join(f"o{a}>o{b}" for b in range(n) for a in range(b) if rng.random() < 0.25)
    buffers = []
    for b in range(5):
        users = sorted({f"o{rng.randrange(n)}" for _ in range(rng.randint(1, 3))})
        buffers.append(buffer(f"b{b}", rng.randint(1, 9), *users, resident=rng.choice(LIVES)))
    p = problem(*(on("hvx", f"o{i}", 1) for i in range(n)), after=edges, buffers=tuple(buffers), capacity=20)
    order = serial_order(p)
    if order is None:
        assert not any(fits(p, other) for other in itertools.permutations(range(n)))
    else:
        assert fits(p, order)


def test_a_search_that_is_given_up_proves_nothing() -> None:
    """Twelve independent pairs: a proof would have to look at all sets of opened pairs."""
    n = 12
    p = problem(
        *(on("hvx", f"a{i}", 1) for i in range(n)),
        *(on("hvx", f"b{i}", 1) for i in range(n)),
        after=" ".join(f"a{i}>b{j}" for i in range(n) for j in range(n)),
        buffers=tuple(buffer(f"x{i}", 2 + i, f"a{i}", f"b{i}") for i in range(n)),
        capacity=sum(2 + i for i in range(n)) - 1,
    )
    with pytest.raises(SearchLimit):
        serial_order(p, state_limit=50)
    assert serial_order(p) is None  # 2^12 sets


def test_thousands_of_ops_do_not_hit_the_recursion_limit() -> None:
    n = 3000
    p = problem(*(on("hvx", f"o{i}", 1) for i in range(n)), after=" ".join(f"o{i}>o{i + 1}" for i in range(n - 1)))
    assert serial_order(p) == tuple(range(n))
