"""What transfers and cache maintenance move, as descriptors in the tables: then they need no kernel.

An op says which bytes of which tensor it touches; of a transfer with one buffer these lie packed in it, row behind row.
Tensors become bindings, behind the scratchpad and the pools. Where a field of the machine's descriptors is too short,
a transfer is cut: 24 bits for the length of one dimension, 16 bits for two before v75, 24 bits since then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit import records
from hexloom.emit.rows import Binding, Descriptor, Parameter
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hexloom.emit.fold import Folded
    from hexloom.emit.rows import Tables, Task
    from hexloom.formulations.problem import Problem, Region
    from hexloom.optimizer.periodic.schedule import Tail

LONGEST_LENGTH = 2**24 - 1
SHORT_FIELD, WIDE_FIELD, WIDE_SINCE = 2**16 - 1, 2**24 - 1, 75
MOST_ROWS = 2**16 - 1
"""Of wide descriptors, too: two fields of 8 bits (ggml-org/ggml d99724f2, src/ggml-hexagon/htp/dma-queue.h)."""
LINE_BYTES = 128
MAINTENANCE = {"clean": records.CLEAN, "invalidate": records.INVALIDATE}


class Piece(NamedTuple):
    """Rows of a tensor, and where the first of them lies in the buffer."""

    offset: int
    rows: int
    row_bytes: int
    stride: int
    packed: int


def pieces_of(region: Region, packed: int, arch: int) -> Iterator[Piece]:
    """Yield the parts of a region that the descriptors of ``arch`` (79 for v79, 0 for any) can say, packed from there.

    Rows that one descriptor cannot hold come one by one, and such rows in parts of whole lines.
    """
    field = SHORT_FIELD if arch < WIDE_SINCE else WIDE_FIELD
    row, stride, rows = region.row_bytes, region.stride_bytes, region.rows
    if rows > 1 and row <= field and stride <= field:
        for first in range(0, rows, MOST_ROWS):
            count = min(MOST_ROWS, rows - first)
            yield Piece(region.offset_bytes + first * stride, count, row, stride, packed + first * row)
        return
    longest = LONGEST_LENGTH // LINE_BYTES * LINE_BYTES
    for k in range(rows):
        for at in range(0, row, longest):
            part = min(longest, row - at)
            yield Piece(region.offset_bytes + k * stride + at, 1, part, part, packed + k * row + at)


class _Described:
    """Which ops have descriptors, in what tensors."""

    def __init__(self, problem: Problem, arch: int) -> None:
        self.problem, self.arch = problem, arch
        self.regions: dict[int, list[Region]] = {}
        for access in problem.accesses:
            if len(access.ops) == 1:
                self.regions.setdefault(problem.op_index[access.ops[0]], []).extend(access.regions)

    def kind(self, op: int) -> int:
        """Return the kind of the descriptors of an op, 0 where it has none."""
        regions = self.regions.get(op, [])
        kinds = {region.kind for region in regions}
        if len(kinds) != 1:
            return 0
        kind = kinds.pop()
        if kind in MAINTENANCE:
            return MAINTENANCE[kind]
        is_transfer = all(mode.dma is not None for mode in self.problem.ops[op].modes)
        buffers = self.problem.op_buffers[op]
        if not is_transfer or len(buffers) != 1 or not all(region.bypass for region in regions):
            return 0
        moved = sum(region.rows * region.row_bytes for region in regions)
        buffer = self.problem.buffers[buffers[0]]
        if buffer.part_of is not None or moved > buffer.size_bytes:
            return 0
        return records.TO_OPERAND if kind == "read" else records.FROM_OPERAND

    def pieces(self, op: int) -> list[tuple[str, Piece]]:
        """Return what an op touches, tensor by tensor, in an order that is the same in every iteration."""
        found: list[tuple[str, Piece]] = []
        packed = 0
        for region in self.regions[op]:
            found += [(region.tensor, piece) for piece in pieces_of(region, packed, self.arch)]
            packed += region.rows * region.row_bytes
        return found

    def regions_of_pieces(self, op: int) -> list[int]:
        """Return for each of these pieces which region of the op it is of."""
        regions = enumerate(self.regions[op])
        return [k for k, region in regions for _ in pieces_of(region, 0, self.arch)]


def with_descriptors(
    tables: Tables, problem: Problem, folded: Folded | None = None, tails: Iterable[Tail] = ()
) -> Tables:
    """Return the tables with a binding for every tensor that descriptors name, and a parameter where it has a stride.

    Of tables with loops ``folded`` is what they were made of: there the rows of an op move on by as much with every
    iteration. The bindings are large enough for the laps that are written down; for more a runtime sees itself. Where
    the last iteration may be shorter, as ``tails`` say, descriptors are, too.

    Raises
    ------
    InvalidInputError
        An op of a loop does not move on evenly, or a number does not fit into its field.
    """
    described = _Described(problem, tables.header.target_arch)
    of_task = {t: described.pieces(task.op) for t, task in enumerate(tables.tasks) if described.kind(task.op)}
    tensors = tuple(dict.fromkeys(tensor for pieces in of_task.values() for tensor, _ in pieces))
    first = len(tables.bindings)
    strides = {tensor: p for k, tensor in enumerate(tensors) if (p := _stride(described, tensor, first + k))}
    parameters = (*tables.parameters, *strides.values())
    number = {tensor: len(tables.parameters) + k + 1 for k, tensor in enumerate(strides)}
    shorter = _Shorter(tables, tails, folded)
    tasks: list[Task] = []
    rows: list[Descriptor] = []
    for t, task in enumerate(tables.tasks):
        pieces = of_task.get(t, [])
        tasks.append(replace(task, first_descriptor=len(rows), descriptor_count=len(pieces)))
        steps = [0] * len(pieces) if folded is None else _steps(described, folded, task, len(pieces))
        behind = 0 if folded is None else _iterations_behind(folded, task)
        for n, ((tensor, piece), step) in enumerate(zip(pieces, steps, strict=True)):
            stride = strides.get(tensor)
            if stride is not None and 0 != step % stride.usual != step:
                raise InvalidInputError(
                    f"op {problem.ops[task.op].name!r} moves on by {step} bytes in tensor {tensor!r}, neither along "
                    f"rows of {stride.usual} nor from row to row; emit it without --descriptors"
                )
            rows.append(
                Descriptor(
                    offset=piece.offset - step * behind,
                    step=step,
                    rows=piece.rows,
                    row_bytes=piece.row_bytes,
                    stride=piece.stride,
                    operand_offset=piece.packed,
                    operand_stride=piece.row_bytes,
                    binding=first + tensors.index(tensor),
                    operand=0,
                    kind=described.kind(task.op),
                    dimensions=1 if piece.rows == 1 else 2,
                    stride_parameter=number.get(tensor, 0),
                    **shorter.fields(described, task, n),
                )
            )
    bindings = (*tables.bindings, *(_binding(described, tensor) for tensor in tensors))
    made = replace(tables, tasks=tuple(tasks), descriptors=tuple(rows), bindings=bindings, tensors=tensors)
    made = replace(made, parameters=parameters)
    counts = {"descriptor_count": len(rows), "binding_count": len(bindings), "parameter_count": len(parameters)}
    return replace(made, header=replace(made.header, **counts)).sealed()


def _iterations_behind(folded: Folded, task: Task) -> int:
    iteration = folded.labels[task.op][3]
    return 0 if folded.key(task.op) is None else iteration - task.iteration


def _steps(described: _Described, folded: Folded, task: Task, count: int) -> Sequence[int]:
    """Return by how many bytes each piece moves on with an iteration."""
    key = folded.key(task.op)
    if key is None or not count:
        return [0] * count
    like = {
        folded.labels[i][3]: i for i in range(len(folded.labels)) if folded.key(i) == key and i in described.regions
    }
    found: list[int] = []
    mine = folded.labels[task.op][3]
    whole = {j: described.pieces(i) for j, i in like.items() if len(described.pieces(i)) == count}
    for n in range(count):
        offsets = {j: pieces[n][1].offset for j, pieces in whole.items()}
        other = min((j for j in offsets if j != mine), key=lambda j: abs(j - mine), default=mine)
        step, rest = divmod(offsets[other] - offsets[mine], other - mine) if other != mine else (0, 0)
        if rest or step < 0 or any(at != offsets[mine] + step * (j - mine) for j, at in offsets.items()):
            name = described.problem.ops[task.op].name
            raise InvalidInputError(f"op {name!r} does not move on by as many bytes with every iteration")
        found.append(step)
    return found


def _binding(described: _Described, tensor: str) -> Binding:
    problem = described.problem
    regions = [region for access in problem.accesses for region in access.regions if region.tensor == tensor]
    past = all(region.bypass for region in regions)
    space = records.DDR_DMA_ONLY if past else records.DDR_MAPPED
    known = all(described.kind(problem.op_index[op]) for op, _ in _touching(problem, tensor))
    flags = records.BINDING_DESCRIBED if known else 0
    return Binding(max(region.end_bytes for region in regions), LINE_BYTES, space, flags)


def _touching(problem: Problem, tensor: str) -> list[tuple[str, Region]]:
    """Return which op touches what of a tensor."""
    return [
        (op, region)
        for access in problem.accesses
        for region in access.regions
        if region.tensor == tensor
        for op in access.ops
    ]


def _stride(described: _Described, tensor: str, binding: int) -> Parameter | None:
    """Return how far apart the rows of a tensor may lie; None where it is not one of rows, or that cannot be told.

    All who touch it must have descriptors, and touch parts of rows. Then who touches the same bytes as whom is the same
    for any stride that rows fit in, and who touches the same lines for any that is whole lines more.
    """
    problem = described.problem
    touching = _touching(problem, tensor)
    usual = {region.stride_bytes for _, region in touching if region.rows > 1}
    field = SHORT_FIELD if described.arch < WIDE_SINCE else WIDE_FIELD
    if len(usual) != 1 or max(usual) > field or not all(described.kind(problem.op_index[op]) for op, _ in touching):
        return None
    (stride,) = usual
    longest = max(region.offset_bytes % stride + region.row_bytes for _, region in touching)
    if longest > stride:
        return None
    least = stride if stride % LINE_BYTES else -(-longest // LINE_BYTES) * LINE_BYTES
    most = stride + (field - stride) // LINE_BYTES * LINE_BYTES
    return Parameter(records.STRIDE, binding, least, most, LINE_BYTES, stride)


class _Shorter:
    """Which descriptors are shorter in the last iteration."""

    def __init__(self, tables: Tables, tails: Iterable[Tail], folded: Folded | None) -> None:
        self.folded = folded
        self.tails = {tail.task: tail for tail in tails}
        kinds = (records.TAIL_ROWS, records.TAIL_COLUMNS)
        self.number = {tables.groups[p.where]: k + 1 for k, p in enumerate(tables.parameters) if p.kind in kinds}

    def fields(self, described: _Described, task: Task, piece: int) -> dict[str, int]:
        """Return what a piece of a task takes from the tail of its group."""
        if self.folded is None or not task.flags & records.TASK_REPEATED:
            return {}
        name, stage, part, _ = self.folded.labels[task.op]
        if name not in self.number:
            return {}
        tail = self.tails[name]
        of_pieces = described.regions_of_pieces(task.op)
        found = {s.field for s in tail.shrinks if (s.stage, s.part, s.region) == (stage, part, of_pieces[piece])}
        if not found:
            return {}
        if of_pieces.count(of_pieces[piece]) > 1:
            raise InvalidInputError(
                f"op {described.problem.ops[task.op].name!r} takes several descriptors for what may be shorter in the "
                "last iteration; emit it without --descriptors"
            )
        (field,) = found
        kind = records.FEWER_ROWS if field == "rows" else records.SHORTER_ROWS
        return {"tail_parameter": self.number[name], "tail": kind}
