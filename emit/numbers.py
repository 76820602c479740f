"""What every task computes, told to the kernels of `runtime/hexloom_numeric.c`, with data and what must come out.

A plan does not know which rows and columns a tile is: it does not need to. The kernels of the library know, and write
it into the drafts of their ops (``part``); so a run that computes needs the workload, which is expanded anew. DDR is
one memory here, in which every tensor has its place: those with a name once, all others per task. Data are drawn from a
seed. What must come out is computed by numpy, task by task in the order of the workload.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hexloom.emit import attention, integer_matmul
from hexloom.emit.quantized import TYPES, random_tiles, tiles_to_matrix
from hexloom.emit.records import NONE
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.attention import Attention
from hexloom.optimizer.kernels.explicit import Explicit
from hexloom.optimizer.kernels.gemv import Gemv
from hexloom.optimizer.kernels.ggml_layout import TILE, TILE_BYTES
from hexloom.optimizer.kernels.matmul_id import MatmulId
from hexloom.optimizer.kernels.matmul_w4a8 import MatmulW4A8
from hexloom.optimizer.kernels.matmul_w4a16 import MatmulW4A16
from hexloom.optimizer.kernels.rows import Add, Copy, RmsNorm, RowKernel, Softmax, SwiGlu
from hexloom.optimizer.lower import expand

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.emit.rows import Tables, Task
    from hexloom.formulations.problem import Problem
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.draft import OpDraft
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.workload import Workload

WORDS = 12
ABSENT = 2**64 - 1
MOST_BYTES = 2**30
NOTHING, LOAD, STORE, HALVES, DEQUANTIZE, MATMUL, FLOATS, ROWS, ROWS_IN_DDR, DOT = range(10)
ROW_KERNELS: dict[type[RowKernel], int] = {RmsNorm: 0, Softmax: 1, SwiGlu: 2, Add: 3, Copy: 4}
ALIGN = 128
EPSILON = 1e-6
HALF_TOLERANCE, FLOAT_TOLERANCE = 2.0**-9, 2.0**-17
"""Of a result that went through halves, and of one that did not: relative, beside that share of its root mean square.

A half has 11 bits, and sums in another order may round to the next one; row kernels sum floats in file order.
"""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in DDR, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class Expected:
    """What a tensor must hold at the end: floats, and the tolerance for them."""

    task: str
    place: Place
    values: Array
    tolerance: float

    def fault(self, memory: bytes) -> str | None:
        """Return what is wrong with the worst element, or None."""
        found = np.frombuffer(memory, np.float32, self.values.size, self.place.offset)
        wanted = self.values.ravel()
        room = self.tolerance * (np.abs(wanted) + float(np.sqrt(np.mean(np.square(wanted, dtype=np.float64)))))
        excess = np.abs(found - wanted) - room
        worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        if excess[worst] <= 0:
            return None
        return f"task {self.task!r}: element {worst} is {found[worst]:.6g}, numpy says {wanted[worst]:.6g}"


@dataclass
class Numbers:
    """``words`` for every task, the ``memory`` before the run, and what must be in it afterwards.

    ``tensors`` are offset and bytes of those with a name.
    """

    words: bytes
    memory: bytes
    expected: list[Expected]
    tensors: dict[str, tuple[int, int]] = field(default_factory=dict)

    def faults(self, memory: bytes) -> list[str]:
        """Return what is wrong in the memory after a run, task by task."""
        return [fault for one in self.expected if (fault := one.fault(memory)) is not None]


def make_numbers(
    schedule: Schedule, tables: Tables, workload: Workload, hw: str | None = None, seed: int = 0
) -> Numbers:
    """Return data for a run of ``schedule``, which was made from ``workload``, on ``hw`` or the machine it names.

    Raises
    ------
    InvalidInputError
        It was made from another workload or machine file, or a task is none of the library's kernels.
    """
    machine = made_for(schedule, workload, hw)
    return numbers_of(schedule.problem, tables, workload, machine, seed)


def made_for(schedule: Schedule | PeriodicSchedule, workload: Workload, hw: str | None = None) -> Machine:
    """Return the machine of a schedule that was made from ``workload``, which is ``hw`` or the one it names.

    Raises
    ------
    InvalidInputError
        It was made from another workload or machine file.
    """
    if schedule.workload_digest != workload.digest():
        raise InvalidInputError(
            f"schedule {schedule.name!r} was not made from this workload: its digest is {workload.digest()[:12]}..., "
            f"the schedule names {str(schedule.workload_digest)[:12]}...; solve it again"
        )
    machine = load_hw(hw or workload.hw or schedule.machine or "")
    if schedule.machine_digest != machine.digest():
        raise InvalidInputError(f"machine {machine.name!r} is not what the schedule was made for; solve it again")
    return machine


def numbers_of(problem: Problem, tables: Tables, workload: Workload, machine: Machine, seed: int = 0) -> Numbers:
    """Return data for a run of ``tables``, whose tasks are ops of ``problem``, which ``workload`` comes to.

    Raises
    ------
    InvalidInputError
        A task is none of the library's kernels, or its data are too large.
    """
    return _Build(problem, tables, workload, seed).numbers(_drafts(workload, machine))


def _drafts(workload: Workload, machine: Machine) -> dict[str, tuple[Any, dict[str, OpDraft]]]:
    """For each task of the plan what the user wrote, and its ops by name."""
    drafts = expand(workload, machine)
    specs = iter([spec for spec in workload.tasks for _ in range(spec.copies)])
    return {name: (next(specs), {op.name: op for op in draft.ops}) for name, draft in drafts.items()}


@dataclass
class _Build:
    problem: Problem
    tables: Tables
    workload: Workload
    seed: int
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    rough: set[Place] = field(default_factory=set)
    """Tensors that come from halves: where sums round to another one, so does all that is made of them."""
    end: int = 0

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng(self.seed)

    def numbers(self, drafts: dict[str, tuple[Any, dict[str, OpDraft]]]) -> Numbers:
        found: dict[tuple[str, str], list[int]] = {}
        for name, (spec, ops) in drafts.items():
            words = self._words_of(name, spec)
            for op in ops.values():
                found[name, op.name] = words(op)
        if self.end > MOST_BYTES:
            raise InvalidInputError(
                f"workload {self.workload.name!r}: its tensors take {self.end} bytes, above the {MOST_BYTES} of a run "
                "that computes; run it without --workload, or make it smaller"
            )
        memory = np.zeros(self.end, np.uint8)
        expected: dict[Place, Expected] = {}
        for name, (spec, _) in drafts.items():
            self._fill(name, spec, memory)
        after = memory.copy()
        for name, (spec, _) in drafts.items():
            one = self._compute(name, spec, after)
            expected[one.place] = one
        rows = [self._row(task, found) for task in self.tables.tasks]
        packed = struct.pack(f"<{len(rows) * WORDS}Q", *(word for row in rows for word in row))
        tensors = {name: (place.offset, place.size) for (task, name), place in self.places.items() if not task}
        return Numbers(packed, memory.tobytes(), list(expected.values()), tensors)

    def _row(self, task: Task, found: dict[tuple[str, str], list[int]]) -> list[int]:
        """Return the words of a task, with roles of buffers replaced by numbers of operands."""
        if task.op == NONE:  # left out
            return [NOTHING] * WORDS
        op = self.problem.ops[task.op]
        key = (op.task, op.name.removeprefix(f"{op.task}/"))
        words = found.get(key)
        if words is None:  # maintenance of caches, which a host does by itself
            return [NOTHING] * WORDS
        used = self.tables.operands[task.first_operand : task.first_operand + task.operand_count]
        names = [self.problem.buffers[o.buffer].name.rsplit("/", 1)[-1] for o in used]
        row = [_operand(names, word) if isinstance(word, str) else word for word in words]
        return row + [0] * (WORDS - len(row))

    # --- tensors ----------------------------------------------------------------------------------------

    def _place(self, task: str, role: str, size: int, name: str | None = None) -> Place:
        """Return where a tensor lies: one place per name, else one per task and role."""
        key = ("", name) if name is not None else (task, role)
        if key not in self.places:
            self.places[key] = Place(self.end, size)
            self.end += -(-size // ALIGN) * ALIGN
        if self.places[key].size < size:
            raise InvalidInputError(
                f"tensor {name!r} has {self.places[key].size} bytes in one task and {size} in task {task!r}"
            )
        return self.places[key]

    def _tensors(self, name: str, spec: Any) -> dict[str, Place]:
        if isinstance(spec, MatmulW4A16 | MatmulId | Gemv):
            m, columns = _rows(spec), _weight_columns(spec)
            tiles = spec.k // TILE * (columns // TILE)
            return {
                "a": self._place(name, "a", 4 * m * spec.k, spec.input),
                "w": self._place(name, "w", tiles * TILE_BYTES[spec.weight_type][0]),
                "out": self._place(name, "out", 4 * m * spec.n, spec.output),
            }
        if isinstance(spec, MatmulW4A8 | Attention):
            of = integer_matmul if isinstance(spec, MatmulW4A8) else attention
            sizes, named = of.tensor_sizes(spec), of.tensor_names(spec, self.workload.tasks)
            return {role: self._place(name, role, size, named.get(role)) for role, size in sizes.items()}
        if isinstance(spec, Explicit) or spec.element_bytes != 4:
            what = "ops of its own" if isinstance(spec, Explicit) else f"elements of {spec.element_bytes} bytes"
            raise InvalidInputError(
                f"task {name!r} has {what}: only kernels of the library with 4-byte elements compute on a host; "
                "run it without --workload"
            )
        size = 4 * spec.rows * spec.cols
        ins = {f"in{k}": self._place(name, f"in{k}", size, tensor) for k, tensor in enumerate(spec.tensors)}
        gamma = {"gamma": self._place(name, "gamma", 4 * spec.cols)} if spec.gamma_rows else {}
        return {**ins, **gamma, "out": self._place(name, "out", size, spec.output)}

    def _fill(self, name: str, spec: Any, memory: Array) -> None:
        """Draw inputs; what another task writes before is replaced when it is computed."""
        for role, place in self._tensors(name, spec).items():
            if isinstance(spec, MatmulW4A8 | Attention):
                of = integer_matmul if isinstance(spec, MatmulW4A8) else attention
                data = of.drawn(spec, role, place.size, self.chance)
                if data is not None:
                    memory[place.offset : place.offset + data.size] = data
            elif role == "w":
                memory[place.offset : place.offset + place.size] = random_tiles(
                    self.chance, spec.weight_type, spec.k, _weight_columns(spec)
                )
            elif role != "out":
                _floats(memory, place)[:] = self.chance.standard_normal(place.size // 4, np.float32)

    def _compute(self, name: str, spec: Any, memory: Array) -> Expected:
        """Do a task with numpy, in the memory of all tensors."""
        at = self._tensors(name, spec)
        if isinstance(spec, MatmulW4A16 | MatmulId | Gemv):
            m, columns = _rows(spec), _weight_columns(spec)
            a = _halved(_floats(memory, at["a"])[: m * spec.k].reshape(m, spec.k))
            tiles = memory[at["w"].offset : at["w"].offset + at["w"].size]
            w = tiles_to_matrix(tiles, spec.weight_type, spec.k, columns)
            exact = isinstance(spec, Gemv)
            result = _product(spec, a, w if exact else _halved(w))
            result = result if exact else _halved(result)
        elif isinstance(spec, MatmulW4A8):
            a = _floats(memory, at["a"])[: spec.m * spec.k].reshape(spec.m, spec.k)
            tiles = memory[at["w"].offset : at["w"].offset + at["w"].size]
            result = integer_matmul.product(spec, a, tiles, _floats(memory, at["column_scales"]))
        elif isinstance(spec, Attention):
            k, v = (memory[at[role].offset : at[role].offset + at[role].size] for role in ("k", "v"))
            result = attention.product(spec, _floats(memory, at["q"]), k, v)
        else:
            ins = [_floats(memory, at[f"in{k}"])[: spec.rows * spec.cols] for k in range(spec.inputs)]
            shaped = [x.reshape(spec.rows, spec.cols) for x in ins]
            result = _row_result(spec, shaped, _floats(memory, at["gamma"]) if "gamma" in at else None)
        _floats(memory, at["out"])[: result.size] = result.ravel()
        tolerance = _tolerance(spec)
        if any(place in self.rough for place in at.values()):
            tolerance = max(tolerance, HALF_TOLERANCE)
        if tolerance > FLOAT_TOLERANCE:
            self.rough.add(at["out"])
        return Expected(name, at["out"], result.astype(np.float32), tolerance)

    # --- words ------------------------------------------------------------------------------------------

    def _words_of(self, name: str, spec: Any) -> Callable[[OpDraft], list[Any]]:
        at = self._tensors(name, spec)
        if isinstance(spec, MatmulW4A16 | MatmulId):
            return lambda op: _matmul_words(spec, at, op)
        if isinstance(spec, Gemv):
            return lambda op: _gemv_words(spec, at, op)
        offsets = {role: place.offset for role, place in at.items()}
        if isinstance(spec, Attention):
            return lambda op: attention.words(spec, offsets, op, LOAD, HALVES, MATMUL)
        if isinstance(spec, MatmulW4A8):
            return lambda op: integer_matmul.words(spec, offsets, op, LOAD)
        return lambda op: _row_words(spec, at, op)


def _operand(names: list[str], role: str) -> int:
    """Return the number of the operand whose buffer has that role, the first part of its name."""
    return next(k for k, name in enumerate(names) if name.split(".")[0] == role)


def _floats(memory: Array, place: Place) -> Array:
    return memory[place.offset : place.offset + place.size].view(np.float32)


def _halved(values: Array) -> Array:
    return values.astype(np.float16).astype(np.float32)


def _row_result(spec: RowKernel, ins: list[Array], gamma: Array | None) -> Array:
    x = ins[0].astype(np.float64)
    if isinstance(spec, RmsNorm) and gamma is not None:
        found = x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + EPSILON) * gamma
    elif isinstance(spec, Softmax):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        found = e / e.sum(axis=1, keepdims=True)
    elif isinstance(spec, SwiGlu):
        found = x / (1 + np.exp(-x)) * ins[1]
    else:
        found = x + ins[1] if isinstance(spec, Add) else x
    return np.asarray(found, np.float32)


def _tolerance(spec: Any) -> float:
    if isinstance(spec, MatmulW4A8):
        return FLOAT_TOLERANCE if spec.input is None else integer_matmul.STEP_TOLERANCE
    if isinstance(spec, Attention):
        return attention.TOLERANCE
    return HALF_TOLERANCE if isinstance(spec, MatmulW4A16 | MatmulId) else FLOAT_TOLERANCE


def _rows(spec: MatmulW4A16 | MatmulId | Gemv) -> int:
    return 1 if isinstance(spec, Gemv) else spec.m


def _weight_columns(spec: MatmulW4A16 | MatmulId | Gemv) -> int:
    """Return the columns of all weights: those of all experts stand one behind the other."""
    return spec.n * len(spec.rows) if isinstance(spec, MatmulId) else spec.n


def _product(spec: MatmulW4A16 | MatmulId | Gemv, a: Array, w: Array) -> Array:
    """Return A x W, of every expert with its own rows and weights."""
    if not isinstance(spec, MatmulId):
        return np.asarray(a @ w)
    ends = np.cumsum(spec.rows)
    blocks = [
        a[end - rows : end] @ w[:, e * spec.n : (e + 1) * spec.n]
        for e, (end, rows) in enumerate(zip(ends, spec.rows, strict=True))
    ]
    return np.concatenate(blocks)


def _matmul_words(spec: MatmulW4A16 | MatmulId, at: dict[str, Place], op: OpDraft) -> list[Any]:
    part, row = op.part, 4 * spec.k
    in_ddr, in_vtcm = TILE_BYTES[spec.weight_type]
    if op.stage == "activation_load":
        return [LOAD, "activation_f32", 0, part[1], row, row, at["a"].offset + part[0] * row, row]
    if op.stage == "activation_convert":
        return [HALVES, "activation_f32", "activation_f16", part[0] * spec.k, part[1] * spec.k]
    if op.stage == "weights_load":
        first, tile, tiles = part
        return [LOAD, "raw", tile * in_vtcm, tiles, in_ddr, in_vtcm, at["w"].offset + first * in_ddr, in_ddr]
    if op.stage == "dequantize":
        return [DEQUANTIZE, TYPES[spec.weight_type], "raw", part[0], part[1], in_vtcm, "weights_f16"]
    if op.stage == "matmul":
        return [MATMUL, "activation_f16", "weights_f16", "output_f16", part[0], spec.k, part[1]]
    if op.stage == "store":
        first, rows, column, width, inside = part
        start = at["out"].offset + 4 * (first * spec.n + column)
        return [FLOATS, "output_f16", inside, rows, width, start, 4 * spec.n]
    return [NOTHING]


def _gemv_words(spec: Gemv, at: dict[str, Place], op: OpDraft) -> list[Any]:
    in_ddr, in_vtcm = TILE_BYTES[spec.weight_type]
    deep, row = spec.k // TILE, 4 * spec.k
    if op.stage == "x_load":
        return [LOAD, "x_f32", 0, 1, row, row, at["a"].offset, row]
    if op.stage == "x_convert":
        return [HALVES, "x_f32", "x", 0, spec.k]
    if op.stage == "weights_load":
        first, tiles = op.part[0] // TILE * deep, op.part[1] // TILE * deep
        return [LOAD, "raw", 0, tiles, in_ddr, in_vtcm, at["w"].offset + first * in_ddr, in_ddr]
    if op.stage == "dot":  # it writes its columns itself: what the plan keeps in registers until the store
        out = at["out"].offset + 4 * op.part[0]
        return [DOT, TYPES[spec.weight_type], "x", "raw", in_vtcm, spec.k, op.part[1], out]
    return [NOTHING]


def _row_words(spec: RowKernel, at: dict[str, Place], op: OpDraft) -> list[Any]:
    row = 4 * spec.cols
    if op.stage == "gamma_load":
        return [LOAD, "gamma", 0, 1, row, row, at["gamma"].offset, row]
    first, rows = op.part
    if op.stage == "load":
        second = op.name.startswith("load2.")
        source = at["in1" if second else "in0"].offset + first * row
        return [LOAD, "in2" if second else "in", 0, rows, row, row, source, row]
    if op.stage == "store":
        return [STORE, "out", 0, rows, row, row, at["out"].offset + first * row, row]
    kernel, two = ROW_KERNELS[type(spec)], spec.inputs > 1
    if spec.mode == "dma":
        gamma = "gamma" if spec.gamma_rows else ABSENT
        return [ROWS, kernel, "in", "in2" if two else ABSENT, gamma, "out", rows, spec.cols]
    start = first * row
    second_at = at["in1"].offset + start if two else ABSENT
    gamma_at = at["gamma"].offset if spec.gamma_rows else ABSENT
    ends = (at["in0"].offset + start, second_at, gamma_at, at["out"].offset + start)
    return [ROWS_IN_DDR, kernel, *ends, rows, spec.cols]
