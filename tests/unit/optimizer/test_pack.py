from __future__ import annotations

import pytest

from hexloom import Buffer, HexloomError, InvalidInputError, pack
from hexloom.formulations.packing.portfolio import Packing
from hexloom.optimizer import pack as pack_module
from hexloom.optimizer.check_memory import check_packing


def b(name: str, size: int, align: int = 1, at: int | None = None, granule: int = 1) -> Buffer:
    return Buffer(name=name, size_bytes=size, align_bytes=align, address=at, granule_bytes=granule)


def test_the_least_capacity_is_the_peak_where_it_suffices() -> None:
    """The example of minimalloc: 12 bytes are alive in [0, 3)."""
    buffers = [b("b1", 4), b("b2", 4), b("b3", 4), b("b4", 4), b("b5", 4)]
    result = pack(buffers, [(0, 3), (3, 9), (0, 9), (9, 21), (0, 21)])
    assert (result.status, result.height_bytes, result.lower_bound_bytes, result.gap) == ("PACKED", 12, 12, 0)


def test_alignment_and_granules_raise_the_bound() -> None:
    """Three times 3 bytes at multiples of 4: the topmost ends at 11; with granules of 4 at 12."""
    lives = [(0, 1)] * 3
    result = pack([b(n, 3, 4) for n in "xyz"], lives)
    assert (result.height_bytes, result.lower_bound_bytes) == (11, 11)
    result = pack([b(n, 3, 4, granule=4) for n in "xyz"], lives)
    assert (result.height_bytes, result.lower_bound_bytes) == (12, 12)


def test_a_capacity_below_the_peak_names_moment_buffers_and_bytes() -> None:
    result = pack([b("x", 3), b("y", 4), b("later", 9)], [(0, 5), (2, 7), (7, 9)], 8)
    why = result.infeasibility
    assert result.status == "INFEASIBLE" and why is not None
    assert (why.need, why.have, why.short, why.op) == (9, 8, 1, None)
    assert why.message.startswith("moment 7 needs 9 B of scratchpad at once, 8 B are available: short 1 B; it holds")
    result = pack([b("x", 3), b("y", 4)], [(0, 5), (2, 7)], 6)
    assert result.infeasibility is not None
    assert [(h.buffer, h.size_bytes) for h in result.infeasibility.holders] == [("y", 4), ("x", 3)]
    result = pack([b("x", 3, 4), b("y", 3, 4)], [(0, 1)] * 2, 6)
    assert result.infeasibility is not None
    assert (result.infeasibility.need, result.infeasibility.rounding_bytes) == (7, 1)


def test_a_pin_in_the_way_is_named() -> None:
    """Issue 9 of minimalloc: pins are hard; 4..8 taken of 12 leaves two gaps of 4, and 6 do not fit."""
    lives = [(0, 2), (0, 1), (1, 2), (2, 3)]
    result = pack([b("F", 4, at=4), b("A", 4), b("B", 4), b("C", 8)], lives, 8)
    assert result.offsets is not None and result.offsets[0] == 4
    result = pack([b("F", 4, at=4), b("D", 6)], [(0, 2)] * 2, 12)
    assert result.infeasibility is not None
    assert "pinned F@4+4: wanted 6 B, largest gap 4 B, short 2 B, free 8 B in all" in result.infeasibility.message
    result = pack([b("p", 4, at=2), b("q", 4, at=4)], [(0, 2), (1, 3)])
    assert result.infeasibility is not None and "p@2+4 and q@4+4 share 2 B" in result.infeasibility.message


def test_what_fits_at_every_moment_but_nowhere_is_searched_to_the_end() -> None:
    """Pins: w (2 B) must lie beside p early and q late, where different places are free."""
    buffers = [b("p", 2, at=0), b("q", 2, at=2), b("w", 2)]
    result = pack(buffers, [(0, 2), (2, 4), (1, 3)], 4)
    assert result.status == "INFEASIBLE" and result.infeasibility is not None
    assert result.infeasibility.kind == "search"
    assert result.infeasibility.message.startswith("no packing into 4 B exists, although no moment needs more than 4 B")
    assert pack(buffers, [(0, 2), (2, 4), (1, 3)]).height_bytes == 6


def test_nothing_to_pack() -> None:
    assert pack([], [], 0).offsets == ()
    result = pack([b("none", 0), b("never", 4)], [(0, 5), (3, 3)])
    assert (result.status, result.height_bytes, result.gap) == ("PACKED", 0, 0)


@pytest.mark.parametrize(
    ("buffers", "lives", "capacity", "message"),
    [
        ([b("x", 1)], [], 4, "1 buffers, but 0 lifetimes; give one per buffer"),
        ([b("x", 1)], [(3, 2)], 4, "buffer 'x' ends at 2, before it begins at 3; swap them"),
        ([b("x", 1), b("x", 1)], [(0, 1)] * 2, 4, "two buffers are named 'x'; names must differ"),
        ([b("x", 1, 4, 2)], [(0, 1)], 4, "buffer 'x' is pinned at 2, not a multiple of its alignment 4; move the pin"),
        ([b("x", 1)], [(0, 1)], -1, "capacity -1 B is not between 0 and 9007199254740991"),
        ([b("x", 2**53)], [(0, 1)], 4, "the buffers could end at 9007199254740993 B, above the limit "),
    ],
)
def test_wrong_arguments_are_refused(
    buffers: list[Buffer], lives: list[tuple[int, int]], capacity: int, message: str
) -> None:
    with pytest.raises(InvalidInputError) as raised:
        pack(buffers, lives, capacity)
    assert str(raised.value).startswith(message)


def test_a_packing_that_is_wrong_does_not_leave_the_house(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_module, "find_packing", lambda *_: Packing((0, 2), "a liar"))
    with pytest.raises(
        HexloomError, match=r"buffers 'x' \[0, 4\) and 'y' \[2, 6\) share 2 B while both are alive in \[1, 2\)"
    ):
        pack([b("x", 4), b("y", 4)], [(0, 2), (1, 3)], 8)


def test_the_checker_sees_every_kind_of_fault() -> None:
    buffers = [b("x", 4, 4, 8), b("y", 4), b("z", 4), b("gone", 4)]
    lives = [(0, 2), (0, 2), (2, 3), (2, 2)]
    kinds: list[tuple[str, tuple[str, ...]]] = []
    check_packing(buffers, lives, (6, 4, 4, 99), 7, lambda kind, parties, _: kinds.append((kind, parties)))
    assert kinds == [
        ("address_pin", ("x",)),
        ("address_alignment", ("x",)),
        ("address_range", ("x",)),
        ("address_range", ("y",)),
        ("address_range", ("z",)),
        ("buffer_overlap", ("x", "y")),
        ("scratchpad_peak", ("x", "y")),
    ]
    kinds.clear()
    check_packing(buffers, lives, (8, 4, 8, 99), 12, lambda kind, parties, _: kinds.append((kind, parties)))
    assert kinds == []
