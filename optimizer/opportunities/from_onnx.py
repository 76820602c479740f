"""A graph from an ONNX model: shapes inferred, every operator a class of work, costs from the machine file.

The package ``onnx`` is loaded here alone (extra ``onnx``). Weights are not read, so files of external data need not be
there. What depends on constants alone is folded before anything runs and is no work.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from hexloom.hwmodels import MachineFileError
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.opportunities.costs import Costs, Work
from hexloom.optimizer.opportunities.graph import Graph, Node
from hexloom.optimizer.opportunities.kinds import COPY, ELEMENTS, GATE, MATRIX, NORM, NOTHING, ONNX, RATE, SOFTMAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hexloom.hwmodels import Machine

FLOAT_BYTES = 4
Shape = tuple[int, ...]
DEPTHWISE = "depthwise convolutions are vector work: a multiplication and an addition per weight of a row"


def graph_of_onnx(path: Path, machine: Machine, dims: Mapping[str, int] | None = None) -> Graph:
    """Return the graph of a model file.

    Parameters
    ----------
    path
        The model.
    machine
        Where it runs.
    dims
        Sizes of dimensions that the model leaves open, by their names; those that are not named are 1.

    Raises
    ------
    InvalidInputError
        onnx is not installed, or the file is no model, or its shapes cannot be told.
    """
    try:
        onnx: Any = importlib.import_module("onnx")
        inference: Any = importlib.import_module("onnx.shape_inference")
    except ImportError:
        raise InvalidInputError(f"{path}: reading ONNX models needs onnx: pip install 'hexloom[onnx]'") from None
    try:
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # protobuf has errors of its own
        raise InvalidInputError(f"{path}: this is no ONNX model: {_line(error)}") from None
    reader = _Reader(model, machine, dict(dims or {}), str(path))
    reader.close_dims()
    try:
        reader.take_shapes(inference.infer_shapes(model, data_prop=True))
    except Exception as error:
        raise InvalidInputError(f"{path}: shapes cannot be inferred: {_line(error)}") from None
    return reader.graph(path.name)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class _Reader:
    def __init__(self, model: Any, machine: Machine, dims: dict[str, int], source: str) -> None:
        self.model, self.source = model, source
        self.costs = Costs(machine)
        self.machine = machine
        self.dims = dims
        self.opened: dict[str, int] = {}
        self.shapes: dict[str, Shape] = {}
        self.constant = {value.name for value in model.graph.initializer}
        self.count: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()

    def close_dims(self) -> None:
        """Give open dimensions of the inputs their sizes."""
        for value in self.model.graph.input:
            if not value.type.HasField("tensor_type"):
                continue
            for dim in value.type.tensor_type.shape.dim:
                if dim.HasField("dim_value") and dim.dim_value > 0:
                    continue
                size = self.dims.get(dim.dim_param, 1)
                self.opened[dim.dim_param or "?"] = size
                dim.Clear()
                dim.dim_value = size
        known = [name for name in self.opened if name != "?"]
        for name in self.dims:
            if name not in known:
                raise InvalidInputError(
                    f"{self.source}: --dim {name}: no input leaves it open; open are {', '.join(known) or 'none'}"
                )
        del self.model.graph.value_info[:]  # they may hold the open sizes

    def take_shapes(self, inferred: Any) -> None:
        """Remember the shapes of all tensors."""
        graph = inferred.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape"):
                sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
                self.shapes[value.name] = tuple(max(1, size) for size in sizes)
        for value in graph.initializer:
            self.shapes[value.name] = tuple(value.dims)

    def graph(self, name: str) -> Graph:
        """Return the operators in the order of the file, which every model has topological."""
        self._refuse_unsorted()
        writer: dict[str, int] = {}
        nodes: list[Node] = []
        for node in self.model.graph.node:
            inputs = [tensor for tensor in node.input if tensor]
            if all(tensor in self.constant for tensor in inputs):
                self.constant.update(node.output)
                self.count["folded"] += 1
                continue
            live = [tensor for tensor in inputs if tensor not in self.constant]
            work = self._work(node, live)
            ns, needs = self.costs.predicted(work)
            place = len(nodes)
            nodes.append(
                Node(
                    name=_named(node, place),
                    op=str(node.op_type),
                    ns=ns,
                    needs=needs,
                    after=tuple(sorted({writer[tensor] for tensor in live if tensor in writer})),
                    vtcm_bytes=min(work.vtcm_bytes, self.machine.available_vtcm_bytes),
                    out_bytes=sum(FLOAT_BYTES * math.prod(self.shapes.get(t, ())) for t in node.output if t)
                    if ns
                    else 0,
                )
            )
            writer.update(dict.fromkeys((tensor for tensor in node.output if tensor), place))
        if not nodes:
            raise InvalidInputError(f"{self.source}: the model has no operator that depends on its inputs")
        if self.count["shapeless"] and not any(node.ns for node in nodes):
            raise InvalidInputError(
                f"{self.source}: no operator has an output of known shape; give the model's inputs their dimensions"
            )
        return Graph(
            name=name,
            kind="onnx",
            nodes=tuple(nodes),
            vtcm_bytes=self.machine.available_vtcm_bytes,
            notes=self._notes(),
        )

    def _refuse_unsorted(self) -> None:
        later = Counter(tensor for node in self.model.graph.node for tensor in node.output if tensor)
        for place, node in enumerate(self.model.graph.node):
            early = next((tensor for tensor in node.input if later[tensor]), None)
            if early is not None:
                raise InvalidInputError(
                    f"{self.source}: operator {_named(node, place)!r} reads {early[:60]!r}, which no operator before "
                    "it writes: the graph has a cycle or is not sorted; sort it"
                )
            later.subtract(node.output)

    def _notes(self) -> tuple[str, ...]:
        notes = ["operators are those of the file; a runtime that fuses some of them has fewer to overlap"]
        if self.opened:
            notes.append("open dimensions: " + ", ".join(f"{k} = {v}" for k, v in sorted(self.opened.items())))
        if self.count["folded"]:
            notes.append(f"{self.count['folded']:,} operators depend on constants alone and are folded")
        if self.count["depthwise"]:
            notes.append(DEPTHWISE)
        if self.count["shapeless"]:
            notes.append(f"{self.count['shapeless']:,} operators have outputs of unknown shape and count as no work")
        if self.unknown:
            said = ", ".join(f"{op} ({n})" for op, n in sorted(self.unknown.items()))
            notes.append(f"no rates are known for {said}: counted as elementwise work on their outputs")
        return tuple(notes)

    def _work(self, node: Any, live: Sequence[str]) -> Work:
        op = str(node.op_type)
        kind = ONNX.get(op)
        if kind == NOTHING:
            return Work()
        if kind is None:
            self.unknown[op] += 1
            kind = ELEMENTS
        out = self.shapes.get(node.output[0]) if node.output else None
        if out is None:
            self.count["shapeless"] += 1
            return Work()
        elements = math.prod(out)
        row = out[-1] if out else 1
        try:
            if kind == MATRIX:
                return self._matrix(node, out)
            if kind == COPY:
                read = sum(FLOAT_BYTES * math.prod(self.shapes.get(name, ())) for name in live)
                return self.costs.copy(min(read, FLOAT_BYTES * elements), FLOAT_BYTES * elements)
            if kind in (NORM, SOFTMAX, GATE):
                return self.costs.rows(RATE[kind], elements, 1, row)
            return self._elements(node, live, elements, row)
        except MachineFileError as error:
            raise InvalidInputError(f"{self.source}: operator {op}: {error}") from None

    def _elements(self, node: Any, live: Sequence[str], elements: int, row: int) -> Work:
        """Return elementwise work; a pool or a reduction reads more than it writes."""
        read = max([elements, *(math.prod(self.shapes.get(name, ())) for name in live)])
        window = math.prod(_ints(node, "kernel_shape")) if "Pool" in str(node.op_type) else 1
        passes = max(1, window)
        if read > elements and window <= 1:
            return self.costs.rows(RATE[ELEMENTS], read, 1, row)
        return self.costs.rows(RATE[ELEMENTS], elements, max(1, min(2, len(live))), row, passes=passes)

    def _matrix(self, node: Any, out: Shape) -> Work:
        op = str(node.op_type)
        left, right = (self.shapes.get(name, ()) for name in self._operands(node, op))
        if "Conv" in op:
            return self._convolution(node, out, right)
        if not left or len(right) < 1:
            return self.costs.rows(RATE[ELEMENTS], math.prod(out))
        n = out[-1] if len(right) > 1 else 1
        k = left[-2] if op.endswith("Gemm") and _int(node, "transA") else left[-1]
        weights = "f16"
        if op == "MatMulNBits":
            weights = "q4_0" if _int(node, "bits", 4) == 4 else "q8_0"
        batch = math.prod(right[:-2]) if len(right) > 2 else 1
        rows = max(1, math.prod(out) // max(1, n * batch))
        constant = self._operands(node, op)[1] in self.constant
        return self.costs.matmul(rows, max(1, k), max(1, n), weights, weight_bytes=constant).times(batch)

    def _operands(self, node: Any, op: str) -> tuple[str, str]:
        names = [*node.input, "", "", "", ""]
        return (names[0], names[3]) if op.startswith("QLinear") else (names[0], names[1])

    def _convolution(self, node: Any, out: Shape, weights: Shape) -> Work:
        group = _int(node, "group", 1)
        if len(weights) < 3 or len(out) < 3:
            return self.costs.rows(RATE[ELEMENTS], math.prod(out))
        window = math.prod(weights[2:])
        pixels = out[0] * math.prod(out[2:])
        channels_in = weights[1] if "Transpose" not in str(node.op_type) else max(1, weights[0] // group)
        per_group = out[1] // group
        if group > 1 and channels_in == 1:
            self.count["depthwise"] += 1
            return self.costs.rows(RATE[ELEMENTS], math.prod(out), 1, out[-1], passes=window)
        return self.costs.matmul(pixels, channels_in * window, max(1, per_group)).times(group)


def _named(node: Any, place: int) -> str:
    text = str(node.name) or (str(node.output[0]) if node.output else str(place))
    return f"{node.op_type} {''.join(c if c.isprintable() else '?' for c in text)}"[:120]


def _int(node: Any, name: str, default: int = 0) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), default)


def _ints(node: Any, name: str) -> list[int]:
    return next(([int(i) for i in a.ints] for a in node.attribute if a.name == name), [])
