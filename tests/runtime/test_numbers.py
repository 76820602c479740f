"""Tables compute real numbers: every kernel of the library against numpy, and the reference kernels one by one."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from compile.conftest import ROOT, Compiler
from runtime.hosts import GCC, INCLUDES

from hexloom import Workload, solve
from hexloom.emit.numbers import make_numbers
from hexloom.emit.quantized import TYPES, random_tiles, tiles_to_matrix
from hexloom.emit.tables import make_tables
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.hosts import Host

MATMUL = {"name": "mm", "kernel": "matmul_w4a16", "m": 70, "k": 96, "n": 160, "m_chunk": 64, "n_chunk": 64}
ROWS = {"rows": 21, "cols": 40}
TASKS: dict[str, list[dict[str, Any]]] = {
    "q4_0 in two blocks": [MATMUL],
    "q8_0 in slices": [{**MATMUL, "weight_type": "q8_0", "slices": True, "load_parts": 3}],
    "f16 with one buffer each": [{**MATMUL, "weight_type": "f16", "depth": {"raw": 1, "weights": 1, "output": 1}}],
    **{name: [{"name": "r", "kernel": name, **ROWS}] for name in ("rmsnorm", "softmax", "swiglu", "add", "copy")},
    "direct": [{"name": name, "kernel": name, "mode": "direct", **ROWS} for name in ("softmax", "add")],
    "experts": [{"name": "x", "kernel": "matmul_id", "rows": [40, 64, 7], "k": 64, "n": 96, "n_chunk": 64}],
    "gemv": [{"name": "g", "kernel": "gemv", "k": 64, "n": 320, "n_chunk": 64, "copies": 2}],
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
        (
            {"name": "i", "kernel": "matmul_w4a8", "m": 64, "k": 32, "n": 32},
            "task 'i' has kernel matmul_w4a8, which has no C of its own",
        ),
    ],
)
def test_what_has_no_numbers_is_refused(task: dict[str, Any], told: str) -> None:
    workload = workload_of([task])
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
