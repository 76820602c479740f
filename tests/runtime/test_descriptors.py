"""Transfers that the tables say themselves: the bytes of named tensors, cut to the fields of the machine."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from compile.conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import HW, op, periodic_of
from runtime.hosts import compile_c

from hexloom import Workload, solve
from hexloom.emit import records
from hexloom.emit.c_tables import CTables, tables_of
from hexloom.emit.chosen import iterations_made, laps_for_trips, least_laps, parameters_for
from hexloom.emit.descriptors import LONGEST_LENGTH, SHORT_FIELD, WIDE_FIELD, pieces_of
from hexloom.emit.job import trips_of
from hexloom.emit.read import read_tables
from hexloom.emit.records import NONE
from hexloom.formulations.problem import Region
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.schedule import Shrink, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runtime.hosts import Host

    from hexloom.emit.rows import Tables
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule

ROWS, WIDTH, STRIDE = 4, 96, 128
TILE = ROWS * STRIDE


def tensor(name: str) -> dict[str, Any]:
    """Return a tile of 4 rows of 96 bytes, 128 bytes apart; tiles lie one behind the other."""
    return {"tensor": name, "bytes": WIDTH, "rows": ROWS, "stride": STRIDE, "step": {"i": TILE}}


def workload_of(count: int) -> Workload:
    """Return tiles that are loaded, worked on and stored."""
    ops = [
        op("load", "dma", 3, [], ["a_{i}"], reads=[tensor("x")]),
        op("work", "hmx", 5, ["load_{i}"], ["a_{i}", "b_{i}"]),
        op("store", "dma", 2, ["work_{i}"], ["b_{i}"], writes=[tensor("y")]),
    ]
    buffers = [{"name": f"{b}_{{i}}", "size_bytes": ROWS * WIDTH} for b in "ab"]
    task = {"name": "t", "ops": [{"for": "i", "count": count, "ops": ops, "buffers": buffers}]}
    return Workload.from_data({"schema": "hexloom.workload/1", "name": "moves", "hw": HW, "tasks": [task]}, "moves")


@cache
def thousands() -> PeriodicSchedule:
    """Return a schedule of 4,000 tiles."""
    return periodic_of(workload_of(4000))


@pytest.fixture(scope="module")
def moves(host_of: Callable[[str], Host], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    folder: Path = tmp_path_factory.mktemp("moves")
    host = host_of("gcc")
    compile_c(host.how, ROOT / "tests" / "runtime" / "moves.c", *host.objects, "-o", folder / "moves")

    def run(tables: Tables, laps: object, size: int) -> list[str]:
        """Execute the tables on tensors of so many bytes; what is said, in words."""
        (folder / "it.bin").write_bytes(tables.to_bytes())
        ran = subprocess.run(
            [folder / "moves", folder / "it.bin", str(laps), str(size)], capture_output=True, text=True, timeout=60
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        return ran.stdout.split()

    return run


def holes(tiles: int, stride: int = STRIDE, size: int = 0, tail: int = ROWS) -> int:
    """Return how many bytes of the result are not written: they are no row of any tile, and stay zero."""
    size = size or tiles * ROWS * stride
    last = (tiles - 1) * ROWS + tail
    rest = (k for k in range(size) if k % stride >= WIDTH or k // stride >= last)
    return sum((k * 7 + k // 251 + 1) % 256 != 0 for k in rest)


def test_transfers_need_no_kernel(moves: Callable[..., list[str]]) -> None:
    schedule = solve(workload_of(6), time_limit_s=0.05, contention="none").schedule
    assert schedule is not None
    emitted = CTables(schedule, "it", descriptors=True)
    tables = emitted.tables
    assert tables.tensors == ("x", "y") and len(tables.descriptors) == 12
    assert [b.space for b in tables.bindings] == [records.VTCM, records.DDR_DMA_ONLY, records.DDR_DMA_ONLY]
    assert moves(tables, "-", 6 * TILE)[:2] == ["OK", str(holes(6))]
    assert moves(tables, "-", 5 * TILE)[0] == "BAD_BINDING"
    assert read_tables(tables.to_bytes(), emitted.side_car()) == tables


def test_rows_may_lie_further_apart(moves: Callable[..., list[str]]) -> None:
    schedule = solve(workload_of(6), time_limit_s=0.05, contention="none").schedule
    assert schedule is not None
    tables = tables_of(schedule, descriptors=True)
    first, second = tables.parameters
    assert [(p.kind, p.where, p.least, p.step, p.usual) for p in (first, second)] == [
        (records.STRIDE, where, 128, 128, STRIDE) for where in (1, 2)
    ]
    assert first.most == WIDE_FIELD // 128 * 128
    for stride in (128, 256, 1024):
        size = 6 * ROWS * stride
        assert moves(tables, f"{stride},{stride}", size)[:2] == ["OK", str(holes(6, stride))]
        needed = size - (stride - WIDTH)
        said = moves(tables, f"{stride},{stride}", needed - 1)
        assert (said[0], *said[2:]) == ("BAD_BINDING", str(needed - 1), str(needed))
    for stride, nearest in ((96, 128), (129, 128), (2**24, first.most)):
        assert moves(tables, f"{stride},128", 4096)[::2] == ["BAD_PARAMETER", str(stride)]
        assert moves(tables, f"{stride},128", 4096)[3] == str(nearest)


def test_no_stride_is_given_where_there_are_no_rows_or_they_cross_each_other() -> None:
    for change, strides in (({}, 2), ({"offset": 64}, 1), ({"rows": 1, "stride": None}, 1)):
        data = json.loads(workload_of(3).model_dump_json(by_alias=True))
        data["tasks"][0]["ops"][0]["ops"][0]["reads"][0].update(change)
        schedule = solve(Workload.from_data(data, "m"), time_limit_s=0.05, contention="none").schedule
        assert schedule is not None
        tables = tables_of(schedule, descriptors=True)
        assert tables.tensors == ("x", "y") and len(tables.parameters) == strides


@pytest.mark.slow
def test_the_last_tile_may_be_shorter(moves: Callable[..., list[str]]) -> None:
    periodic = thousands()
    assert periodic.tails == ()  # a loop of one's own does not say what it counts in
    shrinks = tuple(Shrink(stage=stage, part=0, region=0, field="rows") for stage in ("load", "store"))
    tail = Tail(task="t", counts="rows", least=1, most=ROWS, step=1, shrinks=shrinks)
    emitted = CTables(periodic.model_copy(update={"tails": (tail,)}), "it", descriptors=True)
    tables = emitted.tables
    assert [p.kind for p in tables.parameters] == [1, 2, records.TAIL_ROWS, records.STRIDE, records.STRIDE]
    assert read_tables(tables.to_bytes(), emitted.side_car()) == tables
    told = json.loads(emitted.side_car())["parameters"]
    assert [(p["kind"], p["of"]) for p in told] == [
        ("laps", 0), ("trips", "t"), ("tail_rows", "t"), ("stride", "x"), ("stride", "y")
    ]  # fmt: skip
    made = iterations_made(tables, least_laps(tables))[0]
    for trips, rows, stride in ((made, 2, 128), (made - 3, 1, 128), (5, 3, 384), (1, 1, 128)):
        needed = ((trips - 1) * ROWS + rows - 1) * stride + WIDTH
        laps = laps_for_trips(tables, {"t": trips})
        others = {(records.TAIL_ROWS, 0): rows, **{(records.STRIDE, where): stride for where in (1, 2)}}
        values = ",".join(map(str, parameters_for(tables, laps, {"t": trips}, others)))
        assert moves(tables, values, needed)[:2] == ["OK", str(holes(trips, stride, needed, rows))]
        assert moves(tables, values, needed - 1)[::2] == ["BAD_BINDING", str(needed - 1)]
    for rows in (0, ROWS + 1):
        laps = least_laps(tables)
        assert moves(tables, f"{laps[0]},{NONE},{rows},128,128", 4096)[0] == "BAD_PARAMETER"
        with pytest.raises(InvalidInputError, match="is proven for 1 to 4"):
            parameters_for(tables, laps, None, {(records.TAIL_ROWS, 0): rows})


def test_damaged_changes_of_descriptors_are_refused(moves: Callable[..., list[str]]) -> None:
    schedule = solve(workload_of(2), time_limit_s=0.05, contention="none").schedule
    assert schedule is not None
    tables = tables_of(schedule, descriptors=True)
    for change in (
        {"stride_parameter": 3},
        {"stride_parameter": 3 - tables.descriptors[0].stride_parameter},
        {"stride": 256},
        {"offset": 100},
        {"offset": 2**62},
        {"tail_parameter": 1, "tail": 1},
        {"tail_parameter": 9},
    ):
        rows = (replace(tables.descriptors[0], **change), *tables.descriptors[1:])
        said = moves(replace(tables, descriptors=rows).sealed(), "-", 2 * TILE)
        assert said[0] == "BAD_TABLE", change


@pytest.mark.slow
@pytest.mark.parametrize("how", ["clang", "asan"])
def test_every_bit_of_descriptors_and_strides_counts(how: str, host_of: Callable[[str], Host], tmp_path: Path) -> None:
    """Flipped tables are refused; with checksums made to fit, those that are taken move nothing elsewhere."""
    schedule = solve(workload_of(2), time_limit_s=0.05, contention="none").schedule
    assert schedule is not None
    (tmp_path / "it.bin").write_bytes(tables_of(schedule, descriptors=True).to_bytes())
    host = host_of(how)
    compile_c(host.how, ROOT / "tests" / "runtime" / "flips.c", *host.objects, "-o", tmp_path / "flips")
    ran = subprocess.run([tmp_path / "flips", tmp_path / "it.bin", "23"], capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stderr) == (0, "")
    bits, refused, taken = map(int, ran.stdout.split())
    assert refused == bits and 0 < taken < bits


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"binding": 0}, "a descriptor is not of a tensor in DDR"),
        ({"binding": 3}, "a descriptor names no binding"),
        ({"kind": 9}, "a descriptor is of no kind"),
        ({"kind": records.CLEAN}, "a descriptor does not fit the kind of its task"),
        ({"offset": 2**40}, "a descriptor has more rows than can be counted"),
        ({"operand": 1}, "a descriptor names no operand"),
        ({"operand_offset": 1}, "a descriptor goes beyond its operand"),
        ({"dimensions": 1}, "a descriptor of one dimension has rows"),
    ],
)
def test_descriptors_that_are_not_sound_are_refused(
    change: dict[str, int], problem: str, host_of: Callable[[str], Host]
) -> None:
    schedule = solve(workload_of(1), time_limit_s=0.05, contention="none").schedule
    assert schedule is not None
    tables = tables_of(schedule, descriptors=True)
    first, *rest = tables.descriptors
    said = host_of("gcc").run(replace(tables, descriptors=(replace(first, **change), *rest)).sealed().to_bytes())
    assert (said["code"], said["problem"]) == ("BAD_TABLE", problem)


@pytest.mark.slow
def test_transfers_of_loops_move_on_with_the_iterations(moves: Callable[..., list[str]]) -> None:
    periodic = thousands()
    tables = tables_of(periodic, descriptors=True)
    assert {d.step for d in tables.descriptors} == {TILE} and len(tables.descriptors) < 30
    (parameter, *_), (least,) = tables.parameters, least_laps(tables)
    for laps in (least, least + 3 * parameter.step, parameter.usual):
        tiles = trips_of(periodic, tables, (laps,))["t"]
        assert moves(tables, f"{laps},{NONE},128,128", tiles * TILE)[:2] == ["OK", str(holes(tiles))]
        size = (tiles - 1) * TILE
        needed = str(tiles * TILE - (STRIDE - WIDTH))
        assert moves(tables, f"{laps},{NONE},128,128", size)[::2] == ["BAD_BINDING", str(size)]
        assert moves(tables, f"{laps},{NONE},128,128", size)[3] == needed


def test_maintenance_is_said_by_lines() -> None:
    ops = [
        {"name": "fill", "engine": "hvx", "duration_us": 4, "writes": [{"tensor": "x", "bytes": 512}]},
        {"name": "load", "engine": "dma", "duration_us": 4, "after": ["fill"], "buffers": ["a"],
         "reads": [{"tensor": "x", "bytes": 512}]},
        {"name": "use", "engine": "hmx", "duration_us": 1, "after": ["load"], "buffers": ["a"]},
    ]  # fmt: skip
    task = {"name": "t", "ops": ops, "buffers": [{"name": "a", "size_bytes": 512}]}
    data = {"schema": "hexloom.workload/1", "name": "m", "hw": HW, "hazards": "order", "tasks": [task]}
    schedule = solve(Workload.from_data(data, "m"), time_limit_s=0.05, contention="none").schedule
    assert schedule is not None
    tables = tables_of(schedule, descriptors=True)
    kinds = {d.kind: d for d in tables.descriptors}
    assert set(kinds) == {records.CLEAN, records.TO_OPERAND}
    assert kinds[records.CLEAN].row_bytes == 512 and tables.bindings[1].space == records.DDR_MAPPED


def covered(pieces: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Return (offset in the tensor, offset in the buffer, bytes) row by row."""
    return [(p.offset + k * p.stride, p.packed + k * p.row_bytes, p.row_bytes) for p in pieces for k in range(p.rows)]


@settings(max_examples=60)
@given(
    st.integers(1, 70_000),
    st.sampled_from([1, 100, 2**16 - 1, 2**16, 2**24 - 1, 2**24, 2**24 + 130]),
    st.integers(0, 2**17),
    st.sampled_from([0, 73, 75, 81]),
)
def test_pieces_fit_the_fields_and_cover_the_region(rows: int, row: int, gap: int, arch: int) -> None:
    rows = rows if row < 2**16 else rows % 7 + 1
    region = Region(
        tensor="x", kind="read", bypass=True, offset_bytes=11, row_bytes=row, rows=rows, stride_bytes=row + gap
    )
    pieces = list(pieces_of(region, 5, arch))
    field = WIDE_FIELD if arch >= 75 else SHORT_FIELD
    for p in pieces:
        if p.rows == 1:
            assert p.row_bytes <= LONGEST_LENGTH
        else:
            assert max(p.row_bytes, p.stride) <= field and p.rows < 2**16
    at = 0
    for offset, packed, size in covered(pieces):
        k, inside = divmod(at, row)
        assert (offset, packed) == (11 + k * (row + gap) + inside, 5 + at) and inside + size <= row
        at += size
    assert at == rows * row
