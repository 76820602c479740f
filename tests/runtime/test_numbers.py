"""Tables compute real numbers: every kernel of the library against numpy, and the reference kernels one by one."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from compile.conftest import ROOT, Compiler
from runtime.hosts import GCC, INCLUDES

from hexloom import Workload, solve
from hexloom.emit.integer_matmul import quantized, weights
from hexloom.emit.numbers import make_numbers
from hexloom.emit.quantized import TYPES, random_tiles, tiles_to_matrix
from hexloom.emit.tables import make_tables
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.hosts import Host

MATMUL = {"name": "mm", "kernel": "matmul_w4a16", "m": 70, "k": 96, "n": 160, "m_chunk": 64, "n_chunk": 64}
ROWS = {"rows": 21, "cols": 40}
W4A8 = {"name": "i", "kernel": "matmul_w4a8", "m": 100, "k": 64, "n": 96, "m_chunk": 64, "n_chunk": 64, "copies": 1}
ATTENTION = {"name": "f", "kernel": "attention", "queries": 80, "kv": 100, "heads": 2, "head_dim": 32, "q_block": 64}
TASKS: dict[str, list[dict[str, Any]]] = {
    "q4_0 in two blocks": [MATMUL],
    "q8_0 in slices": [{**MATMUL, "weight_type": "q8_0", "slices": True, "load_parts": 3}],
    "f16 with one buffer each": [{**MATMUL, "weight_type": "f16", "depth": {"raw": 1, "weights": 1, "output": 1}}],
    **{name: [{"name": "r", "kernel": name, **ROWS}] for name in ("rmsnorm", "softmax", "swiglu", "add", "copy")},
    "direct": [{"name": name, "kernel": name, "mode": "direct", **ROWS} for name in ("softmax", "add")],
    "experts": [{"name": "x", "kernel": "matmul_id", "rows": [40, 64, 7], "k": 64, "n": 96, "n_chunk": 64}],
    "gemv": [{"name": "g", "kernel": "gemv", "k": 64, "n": 320, "n_chunk": 64, "copies": 2}],
    "whole numbers": [W4A8],
    "whole numbers in slices": [{**W4A8, "weight_type": "i8", "slices": True, "load_parts": 2, "m_chunk": 128}],
    "whole numbers of another task": [
        {"name": "r", "kernel": "softmax", "rows": 100, "cols": 64, "output": "t"},
        {**W4A8, "input": "t"},
    ],
    "attention in one block of keys": [ATTENTION],
    "attention in blocks": [{**ATTENTION, "kv_block": 32, "heads": 4, "kv_heads": 2}],
    "attention in slices": [{**ATTENTION, "kv_block": 64, "slices": True, "depth": 1}],
    "attention to the same keys twice": [
        {**ATTENTION, "keys": "k", "values": "v"},
        {**ATTENTION, "name": "g", "queries": 32, "keys": "k", "values": "k"},
    ],
    "attention of another task": [
        {"name": "r", "kernel": "rmsnorm", "rows": 160, "cols": 32, "output": "t"},
        {**ATTENTION, "input": "t", "output": "t"},
    ],
    "one after the other": [
        {**MATMUL, "output": "t"},
        {"name": "r", "kernel": "softmax", "rows": 70, "cols": 160, "input": "t", "output": "t"},
    ],
}


def workload_of(tasks: list[dict[str, Any]]) -> Workload:
    return Workload.from_data({"name": "w", "hw": "hexagon-v79", "hazards": "order", "tasks": tasks})


@pytest.mark.parametrize("name", TASKS)
def test_results_are_those_of_numpy(name: str, host_of: Callable[[str], Host]) -> None:
    workload = workload_of(TASKS[name])
    schedule = solve(workload, time_limit_s=0.05).schedule
    assert schedule is not None
    assert host_of("gcc").compute(schedule, workload, transfer_us=200, seed=5, runs=2) == []


def test_a_wrong_result_is_named(host_of: Callable[[str], Host]) -> None:
    workload = workload_of([MATMUL, {"name": "norm", "kernel": "rmsnorm", **ROWS}])
    schedule = solve(workload, time_limit_s=0.05).schedule
    assert schedule is not None
    tables = make_tables(schedule)
    numbers = make_numbers(schedule, tables, workload)
    (first, second) = numbers.expected
    wrong = bytearray(numbers.memory)
    assert len(numbers.faults(bytes(wrong))) == 2  # nothing has been computed
    values = first.values.astype(np.float32).copy()
    wrong[first.place.offset : first.place.offset + values.nbytes] = values.tobytes()
    assert [fault.split(":")[0] for fault in numbers.faults(bytes(wrong))] == ["task 'norm'"]
    wrong[second.place.offset : second.place.offset + second.values.nbytes] = second.values.tobytes()
    assert numbers.faults(bytes(wrong)) == []
    values.flat[77] += 0.02
    wrong[first.place.offset : first.place.offset + values.nbytes] = values.tobytes()
    assert numbers.faults(bytes(wrong))[0].startswith("task 'mm': element 77 is ")
    values.flat[77] = np.nan
    wrong[first.place.offset : first.place.offset + values.nbytes] = values.tobytes()
    assert numbers.faults(bytes(wrong))[0].startswith("task 'mm': element 77 is nan")


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"name": "mine", "ops": [{"name": "a", "engine": "hvx", "duration_us": 1}]}, "task 'mine' has ops of its own"),
        ({"name": "r", "kernel": "copy", "element_bytes": 2, **ROWS}, "task 'r' has elements of 2 bytes"),
    ],
)
def test_what_has_no_numbers_is_refused(task: dict[str, Any], told: str) -> None:
    workload = workload_of([task])
    schedule = solve(workload, time_limit_s=0.05).schedule
    assert schedule is not None
    with pytest.raises(InvalidInputError, match=told):
        make_numbers(schedule, make_tables(schedule), workload)


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        (
            [{"name": "r", "kernel": "add", **ROWS, "output": "k"}, {**ATTENTION, "keys": "k"}],
            "task 'f': keys 'k' are halves, but a task has tensor 'k' as floats",
        ),
        (
            [{**ATTENTION, "keys": "k", "values": "v"}, {**ATTENTION, "name": "g", "keys": "v", "values": "k"}],
            "task 'g': values 'k' lie before keys 'v'",
        ),
    ],
)
def test_keys_and_values_that_cannot_be_are_refused(tasks: list[dict[str, Any]], told: str) -> None:
    workload = workload_of(tasks)
    schedule = solve(workload, time_limit_s=0.05).schedule
    assert schedule is not None
    with pytest.raises(InvalidInputError, match=told):
        make_numbers(schedule, make_tables(schedule), workload)


# --- the reference kernels --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("kernels") / "kernels.so"
    source = ROOT / "emit" / "runtime" / "hexloom_kernels.c"
    Compiler(GCC, ("-std=c11", "-O2", "-shared", "-fPIC"))(*INCLUDES, source, "-o", library)
    found = ctypes.CDLL(str(library))
    found.hexloom_quantize_row.restype = ctypes.c_float
    for name in ("hexloom_from_half", "hexloom_exp", "hexloom_sqrt"):
        getattr(found, name).restype = ctypes.c_float
        getattr(found, name).argtypes = [ctypes.c_uint16 if name.endswith("half") else ctypes.c_float]
    return found


def pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def test_halves_are_rounded_as_numpy_does(kernels: ctypes.CDLL) -> None:
    every = np.arange(65536, dtype=np.uint16)
    floats = np.zeros(65536, np.float32)
    kernels.hexloom_to_floats(pointer(every), pointer(floats), ctypes.c_size_t(65536))
    wanted = every.view(np.float16).astype(np.float32)
    assert np.array_equal(floats, wanted, equal_nan=True)
    numbers = ~np.isnan(wanted)
    between = (wanted[numbers][:-1] + wanted[numbers][1:]) / 2  # ties, and what lies beside them
    chance = np.random.default_rng(1).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        beside = [np.nextafter(between, np.float32(s * np.inf), dtype=np.float32) for s in (-1, 1)]
        values = np.concatenate([floats, between, *beside, chance]).astype(np.float32)
        rounded = values.astype(np.float16)
    halves = np.zeros(values.size, np.uint16)
    kernels.hexloom_to_halves(pointer(values), pointer(halves), ctypes.c_size_t(values.size))
    plain = ~np.isnan(values)
    assert np.array_equal(halves[plain], rounded.view(np.uint16)[plain])
    assert np.isnan(halves.view(np.float16)[~plain]).all()


def test_exp_and_sqrt_are_close(kernels: ctypes.CDLL) -> None:
    for x in np.linspace(-86, 87, 3001, dtype=np.float32):
        assert kernels.hexloom_exp(x) == pytest.approx(np.exp(np.float64(x)), rel=3e-7)
    assert kernels.hexloom_exp(-1e9) == 0.0
    for x in np.logspace(-30, 30, 1001, dtype=np.float32):
        assert kernels.hexloom_sqrt(x) == pytest.approx(np.sqrt(np.float64(x)), rel=2e-7)
    assert kernels.hexloom_sqrt(0.0) == 0.0


@pytest.mark.parametrize("weight_type", TYPES)
def test_tiles_are_dequantized_exactly(weight_type: str, kernels: ctypes.CDLL) -> None:
    tiles = random_tiles(np.random.default_rng(2), weight_type, 64, 96)
    wanted = tiles_to_matrix(tiles, weight_type, 64, 96).astype(np.float16)
    step = tiles.size // 6
    for c in range(3):
        for d in range(2):
            tile = np.zeros((32, 32), np.uint16)
            quantized = tiles[(2 * c + d) * step :].copy()
            kernels.hexloom_dequantize(TYPES[weight_type], pointer(quantized), pointer(tile))
            assert np.array_equal(tile.view(np.float16), wanted[32 * d : 32 * d + 32, 32 * c : 32 * c + 32])


def test_rows_become_bytes_as_numpy_says(kernels: ctypes.CDLL) -> None:
    chance = np.random.default_rng(3)
    rows = [chance.standard_normal(96, np.float32) * np.float32(10.0**e) for e in range(-6, 7, 2)]
    rows += [np.zeros(96, np.float32), np.full(96, -3, np.float32), np.arange(-48, 48, dtype=np.float32)]
    wanted, scales = quantized(np.stack(rows))
    for row, numbers, scale in zip(rows, wanted, scales, strict=True):
        found = np.zeros(96, np.uint8)
        assert kernels.hexloom_quantize_row(pointer(row), pointer(found), 96) == scale
        assert np.array_equal(found.astype(np.int32) - 128, numbers)
        assert np.abs(row - numbers * scale).max() <= scale * 0.5001


def test_blocks_of_q8_0_are_those_of_numpy(kernels: ctypes.CDLL) -> None:
    """What is quantized and dequantized is within half a step, and a step is a half that is rounded."""
    chance = np.random.default_rng(4)
    for k in range(40):
        row = chance.standard_normal(32, np.float32) * np.float32(2.0 ** (k - 20)) if k else np.zeros(32, np.float32)
        block = np.zeros(34, np.uint8)
        kernels.hexloom_quantize_q8_0(pointer(row), pointer(block))
        (numbers,), (scale,) = quantized(row[None])
        assert np.array_equal(block[2:].view(np.int8), numbers)
        assert block[:2].view(np.float16)[0] == np.float16(scale)


@pytest.mark.parametrize("width", [4, 8])
def test_products_of_whole_numbers_are_exact(width: int, kernels: ctypes.CDLL) -> None:
    chance = np.random.default_rng(width)
    rows, depth, columns = 37, 96, 64
    a = chance.integers(0, 256, (rows, depth), np.uint8)
    tiles = chance.integers(0, 256, depth * columns * width // 8, np.uint8)
    sums = np.full((rows, columns), 77, np.int32)
    kernels.hexloom_matmul_integer(width, pointer(a), pointer(tiles), pointer(sums), rows, depth, columns)
    w = weights(tiles, width, depth, columns)
    assert np.abs(w).max() == 2 ** (width - 1)
    assert np.array_equal(sums, (a.astype(np.int64) - 128) @ w.astype(np.int64))
    assert kernels.hexloom_integer_tile_bytes(width) == 128 * width
    assert kernels.hexloom_integer_tile_bytes(width + 1) == 0


def test_tiles_of_whole_numbers_lie_as_described(kernels: ctypes.CDLL) -> None:
    """By hand: 3 at (row 33, column 34) of W[64, 64] is in tile 3: column 2 there, byte 1 along k."""
    tiles = np.zeros(4096, np.uint8)
    tiles[3 * 1024 + 2 * 32 + 1] = 3
    w = weights(tiles, 8, 64, 64)
    assert (w[33, 34], np.abs(w).sum()) == (3, 3)
    nibbles = np.full(2048, 0x88, np.uint8)
    nibbles[3 * 512 + 2 * 16 + 1] = 0xB8  # the high nibble: 16 further along k
    w = weights(nibbles, 4, 64, 64)
    assert (w[49, 34], np.abs(w).sum()) == (3, 3)


def test_rows_are_copied_with_their_distances(kernels: ctypes.CDLL) -> None:
    source = np.arange(5 * 48, dtype=np.uint8).reshape(5, 48)
    target = np.full((5, 40), 255, np.uint8)
    size = [ctypes.c_size_t(n) for n in (40, 48, 33, 5)]
    kernels.hexloom_copy_2d(pointer(target), size[0], pointer(source), *size[1:])
    assert np.array_equal(target[:, :33], source[:, :33])
    assert (target[:, 33:] == 255).all()
