"""What an op of a ggml-hexagon log would take at least, and with today's loop, by the machine file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.problem import Frozen, Rule
from hexloom.hwmodels import MachineFileError
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.lower import lower
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.hwmodels import Machine

RULE: Rule = "fluid"
MOST_OPS = 20_000
"""Ops of a lowered kernel above which nothing is simulated."""

SHAPE = re.compile(r"\d+(?::\d+)*")
MATMULS = {"MUL_MAT"}
ROW_KERNELS = {
    "RMS_NORM": "rmsnorm",
    "RMS_NORM+MUL": "rmsnorm",
    "SOFT_MAX": "softmax",
    "SWIGLU": "swiglu",
    "GLU": "swiglu",
    "ADD": "add",
    "CPY": "copy",
    "CONT": "copy",
}


class FloorRow(Frozen):
    """Predicted microseconds of an op: no plan is faster than ``floor_us``; ``loop_us`` is today's loop."""

    kernel: str
    shape: str
    floor_us: float
    loop_us: float | None
    bottleneck: str
    command: str | None


class Floors:
    """Floors of the ops of one trace on one machine; equal shapes are computed once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._known: dict[str, FloorRow | None] = {}

    def of(self, op: str, detail: str) -> FloorRow | None:
        """Return the floor of an op by its name and ``dims|types|parameters``; None where no kernel stands for it."""
        task = task_of(op, detail)
        if task is None:
            return None
        key = str(sorted(task.items()))
        if key not in self._known:
            try:
                self._known[key] = self._floor(task)
            except (InvalidInputError, MachineFileError):
                self._known[key] = None  # the kernel or the machine does not take this shape
        return self._known[key]

    def _floor(self, task: dict[str, Any]) -> FloorRow | None:
        data = {"schema": "hexloom.workload/1", "name": "op", "tasks": [task]}
        lowered = lower(Workload.from_data(data, "op"), self.machine, RULE)
        problem = lowered.problem
        if len(problem.ops) > MOST_OPS:
            return None
        tick = problem.tick
        assert tick is not None
        best = lower_bounds(problem, RULE).best
        existing = baselines(problem, lowered.loops, RULE, serial=False, exact=False).existing
        return FloorRow(
            kernel=task["kernel"],
            shape=" x ".join(str(task[key]) for key in ("m", "k", "n", "rows", "cols") if key in task),
            floor_us=_us(best.ticks * tick),
            loop_us=None if existing is None else _us(existing * tick),
            bottleneck=best.engine or best.name,
            command=self._command(task),
        )

    def _command(self, task: dict[str, Any]) -> str | None:
        if task["kernel"] != "matmul_w4a16":
            return None
        shape = f"{task['m']} {task['k']} {task['n']} --type {task['weight_type']}"
        return f"hexloom tune matmul_w4a16 {shape} --hw {self.machine.name}"


def _us(value: Fraction) -> float:
    return round(float(value), 3)


def task_of(op: str, detail: str) -> dict[str, Any] | None:
    """Return the task of the kernel library that does what an op does; None where there is none."""
    dims, _, rest = detail.partition("|")
    types = rest.partition("|")[0]
    shapes = [[int(size) for size in shape.split(":")] for shape in SHAPE.findall(dims) if len(shape) < 60]
    if not shapes or any(0 in shape for shape in shapes):
        return None
    if op in MATMULS:
        return _matmul(shapes, types)
    kernel = ROW_KERNELS.get(op)
    if kernel is None or not re.fullmatch(r"(f32|[x\->\s])+", types):
        return None
    out = shapes[-1]
    rows = 1
    for size in out[1:]:
        rows *= size
    return {"name": "op", "kernel": kernel, "rows": rows, "cols": out[0]}


def _matmul(shapes: list[list[int]], types: str) -> dict[str, Any] | None:
    """``k:n x k:m -> n:m``; further dimensions must be 1."""
    if len(shapes) != 3 or any(size != 1 for shape in shapes for size in shape[2:]):
        return None
    (k, n), (k2, m) = ((*shape[:2], 1)[:2] for shape in shapes[:2])
    weights = types.split(" ", 1)[0]
    if k != k2 or weights not in ("q4_0", "q8_0", "f16"):
        return None
    if m == 1 and weights == "q4_0":
        return {"name": "op", "kernel": "gemv", "k": k, "n": n}
    return {"name": "op", "kernel": "matmul_w4a16", "m": m, "k": k, "n": n, "weight_type": weights}
