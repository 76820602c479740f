from __future__ import annotations

from typing import TYPE_CHECKING

from unit.small import buffer, on, problem

from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.rings import RingAllocator, kinds_of, lay_out, ring_sizes
from hexloom.formulations.urgency import turn_orders
from hexloom.optimizer.evaluate import evaluate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


def two_matmuls(capacity: int) -> Problem:
    """Two tasks of three tiles: prepare on lut for 2, job on hmx for 3; 2 B per tile, 6 B for all jobs of a task."""
    ops, edges, buffers = [], [], []
    for t in "ab":
        for k in range(3):
            ops.append(on("lut", f"{t}p{k}", 2, task=t, stage="prepare", tile=k))
            ops.append(on("hmx", f"{t}j{k}", 3, task=t, stage="job", tile=k))
            edges.append(f"{t}p{k}>{t}j{k}")
            buffers.append(buffer(f"{t}w{k}", 2, f"{t}p{k}", f"{t}j{k}"))
        buffers.append(buffer(f"{t}long", 6, *(f"{t}j{k}" for k in range(3))))
    return problem(*ops, after=" ".join(edges), buffers=tuple(buffers), capacity=capacity)


def test_large_shared_buffers_take_turns_in_every_order() -> None:
    assert turn_orders(two_matmuls(10)) == [(3, 7), (7, 3)]
    assert turn_orders(problem(on("hmx", "a", 1), buffers=(buffer("x", 4, "a"),), capacity=4)) == []


def test_kinds_are_the_buffers_of_equal_use() -> None:
    p = two_matmuls(10)
    kinds = kinds_of(p, (3, 7))
    assert kinds.of == (0, 0, 0, -1, 1, 1, 1, -1)
    assert (kinds.size, kinds.turn) == ((2, 2), (0, 1))


def test_slots_fill_the_room_beside_the_turn() -> None:
    """6 of 11 B are taken: two slots of 2 B fit beside them, from the top down."""
    p = two_matmuls(11)
    kinds = kinds_of(p, (3, 7))
    assert ring_sizes(p, kinds, (3, 7), 0) == [(2, 0)]
    rings = lay_out(p, kinds, ((2, 0), (0, 2)))
    assert rings.slots == ((((9, 11), (7, 9)), ()), ((), ((9, 11), (7, 9))))
    assert ring_sizes(two_matmuls(7), kinds, (3, 7), 0) == []


def test_a_buffer_waits_for_a_slot_of_its_kind() -> None:
    p = two_matmuls(11)
    kinds = kinds_of(p, (3, 7))
    pool = RingAllocator(p, kinds, lay_out(p, kinds, ((2, 0), (0, 2))))
    assert [pool.place(b) for b in (0, 1, 2)] == [True, True, False]
    pool.release(0)
    assert pool.place(2)
    assert (pool.offsets[2], pool.offsets[1]) == (9, 7)


def test_what_is_always_live_has_its_place_before_any_slot() -> None:
    p = problem(on("hmx", "a", 1, task="t"), buffers=(buffer("r", 3, resident=True), buffer("x", 2, "a")), capacity=9)
    kinds = kinds_of(p, ())
    pool = RingAllocator(p, kinds, lay_out(p, kinds, ((1,),)))
    assert pool.offsets == {0: 0}
    assert pool.place(1) and pool.offsets[1] == 7


def test_turns_and_rings_keep_the_engine_busy() -> None:
    """Two slots: while a job runs the next tile is prepared, and the first tile of b during the last job of a."""
    p = two_matmuls(10)
    policy = Policy(tuple(-float(i) for i in range(12)), (0,) * 12, turns=(3, 7), rings=((2, 0), (0, 2)))
    decision = list_schedule(p, policy)
    assert decision is not None
    assert evaluate(p, decision).makespan == 2 + 6 * 3
    other = list_schedule(p, Policy(policy.priority, policy.modes, turns=(7, 3), rings=((0, 2), (2, 0))))
    assert other is not None and other.actions.index(p.op_index["bj2"]) < other.actions.index(p.op_index["aj0"])
