from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from unit.emit import examples

from hexloom.emit.lanes import View, levels

if TYPE_CHECKING:
    from hexloom.optimizer.schedule import Schedule


def test_levels_are_the_sum_of_what_is_open() -> None:
    assert levels([(2, 5, 10), (3, 4, 1), (4, 6, 1)]) == [(0, 0), (2, 10), (3, 11), (5, 1), (6, 0)]
    assert levels([]) == [(0, 0)]


def test_slices_of_a_lane_do_not_overlap(small: Schedule, large: Schedule) -> None:
    for schedule in (small, large):
        for lane in View(schedule).lanes():
            assert all(a.end <= b.start for a, b in pairwise(lane.slices)), lane.label


def test_every_op_is_on_as_many_units_as_it_uses(small: Schedule) -> None:
    view = View(small)
    seen: dict[tuple[int, str], int] = {}
    for lane in view.lanes():
        for piece in lane.slices:
            if piece.kind in ("run", "transfer"):
                seen[piece.op, lane.engine] = seen.get((piece.op, lane.engine), 0) + 1
    wanted = {(i, use.engine): use.units for i, mode in enumerate(view.modes) for use in mode.uses}
    assert seen == wanted


def test_buffers_live_from_the_first_start_to_the_last_observation(small: Schedule) -> None:
    rows = {row.op: row for row in small.rows}
    lives = {small.problem.buffers[life.buffer].name: life for life in View(small).lives()}
    assert (lives["gemm.x"].birth, lives["gemm.x"].death) == (0, small.makespan)
    assert lives["gemm.y[1]"].birth == rows["gemm.matmul[1]"].start
    assert lives["gemm.y[1]"].death == rows["gemm.store[1]"].observed
    assert lives["gemm.y[1]"].address == small.plan.addresses["gemm.y[1]"]


def test_live_bytes_stay_within_the_scratchpad_and_end_at_none(small: Schedule) -> None:
    found = View(small).live_bytes()
    assert max(level for _, level in found) <= small.problem.scratchpad.available_bytes
    assert found[0] == (0, examples.MIB)
    assert found[-1] == (small.makespan, 0)
