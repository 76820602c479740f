"""``explicit``: a task written down op by op, with loops, durations in microseconds or costs from the machine.

In a loop, names may hold index expressions: ``mm{i}``, ``mm{i-2}``, ``acc{i%2}``. A name in ``after`` whose
expression falls below zero is a neighbour that does not exist, and is dropped. ``*`` in ``after`` stands for any
characters: ``mm{g-2}.*`` are all ops of the loop before last.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from hexloom.formulations.problem import MAX_RATE
from hexloom.hwmodels import cost
from hexloom.hwmodels.errors import did_you_mean
from hexloom.optimizer.draft import BufferDraft, ModeDraft, OpDraft, TaskDraft, UseDraft, check_count
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import DMA, HMX, HVX, dma_queue, handover_us, transfer
from hexloom.optimizer.kernels.explicit_spec import BufferSpec, Item, Loop, ModeSpec, OpSpec, UserEngine
from hexloom.optimizer.kernels.in_place import after_other_readers
from hexloom.optimizer.kernels.regions import regions_of
from hexloom.optimizer.kernels.spec import Count, KernelSpec, Name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.hwmodels import Machine

INDEX = re.compile(r"\{([a-z]\w*)(?:([+\-%])(\d+))?\}")
LITERAL = str.maketrans({"[": "[[]", "?": "[?]"})
ONLY_FOR = {"macs": HMX, "transfer_bytes": DMA, "rows": DMA, "stride_bytes": DMA, "direction": DMA, "owner": DMA}
"""Keys that say nothing on another engine; there they would be read and forgotten."""


class Explicit(KernelSpec):
    """A task of explicit ops. ``today`` says how people run it: every queue in file order, each op as soon as it can,
    or one stage at a time.
    """

    name: Name
    kernel: Literal["explicit"] = "explicit"
    ops: tuple[Item, ...] = Field(min_length=1)
    buffers: tuple[BufferSpec, ...] = ()
    today: Literal["file_order", "one_stage_at_a_time"] = "file_order"
    copies: Count = 1

    def expand(
        self, machine: Machine, engines: Mapping[str, UserEngine] | None = None, channels: Sequence[str] = ()
    ) -> TaskDraft:
        """Return the ops with all loops unrolled; ``engines`` are the user's own, ``channels`` those it may pull."""
        unroller = _Unroller(self.name, machine, engines or {}, channels)
        unroller.buffers_of(self.buffers, {})
        unroller.ops_of(self.ops, {}, ())
        ops = unroller.finished()
        return TaskDraft(
            ops,
            tuple(unroller.buffers.values()),
            tuple(op.name for op in ops),
            one_stage_at_a_time=self.today == "one_stage_at_a_time",
        )

    def iterations(self, machine: Machine) -> int | None:
        """Return the count of its loop, where there is one and no other beside it."""
        loops = [item for item in self.ops if isinstance(item, Loop)]
        return loops[0].count if len(loops) == 1 else None

    def shortened(self, machine: Machine, iterations: int) -> Self:
        """Return the task with so many repetitions of its loop."""
        items = (item.model_copy(update={"count": iterations}) if isinstance(item, Loop) else item for item in self.ops)
        return self.model_copy(update={"ops": tuple(items)})


def _count_of(item: Item) -> int:
    """Return how many ops an item is written out to."""
    return 1 if isinstance(item, OpSpec) else item.count * sum(_count_of(inner) for inner in item.ops)


class _Unroller:
    def __init__(self, task: str, machine: Machine, engines: Mapping[str, UserEngine], channels: Sequence[str]) -> None:
        self.task, self.machine, self.channels = task, machine, channels
        self.units = {HVX: machine.hvx_contexts, HMX: machine.hmx_units, **{e.name: e.units for e in engines.values()}}
        self.fifos = {name: engine for name, engine in engines.items() if engine.kind == "fifo"}
        self.buffers: dict[str, BufferDraft] = {}
        self.ops: list[OpDraft] = []

    def finished(self) -> tuple[OpDraft, ...]:
        known = {op.name for op in self.ops}
        ops = []
        for op in self.ops:
            after: list[str] = []
            for name in op.after:
                matching = (
                    fnmatch.filter(known, name.translate(LITERAL)) if "*" in name else [name] if name in known else []
                )
                if not matching:
                    raise InvalidInputError(f"task {self.task!r}, op {op.name!r}: there is no op {name!r} to run after")
                after += sorted(matching)
            ops.append(replace(op, after=tuple(after)))
            for name in op.buffers:
                if name not in self.buffers:
                    raise InvalidInputError(f"task {self.task!r}, op {op.name!r}: there is no buffer {name!r}")
        return after_other_readers(ops)

    def buffers_of(self, specs: tuple[BufferSpec, ...], index: dict[str, int]) -> None:
        for spec in specs:
            name = self._name(spec.name, index)
            draft = BufferDraft(
                self._real(name, spec.name, "buffer"),
                spec.size_bytes,
                spec.align_bytes or (self.machine.vtcm.align_bytes.whole if spec.pool is None else 1),
                spec.granule_bytes,
                spec.address,
                spec.resident,
                spec.pool,
            )
            if self.buffers.setdefault(draft.name, draft) != draft:
                raise InvalidInputError(f"task {self.task!r}: buffer {name!r} is declared twice with other sizes")

    def ops_of(self, items: tuple[Item, ...], index: dict[str, int], path: tuple[tuple[int, int], ...]) -> None:
        for item in items:
            if isinstance(item, OpSpec):
                self._op(item, index, path)
                continue
            if item.for_ in index:
                raise InvalidInputError(f"task {self.task!r}: loop index {item.for_!r} is used in a loop around it")
            check_count(self.task, len(self.ops) + _count_of(item))
            for i in range(item.count):
                inside = {**index, item.for_: i}
                self.buffers_of(item.buffers, inside)
                self.ops_of(item.ops, inside, (*path, (i, item.count)))

    def _op(self, spec: OpSpec, index: dict[str, int], path: tuple[tuple[int, int], ...]) -> None:
        check_count(self.task, len(self.ops) + 1)
        name = self._real(self._name(spec.name, index), spec.name, "op")
        stage = spec.stage or INDEX.sub("", spec.name).strip("._-") or spec.name
        tile = 0
        for i, count in path:
            tile = tile * count + i
        buffers = [b for b in (self._name(n, index) for n in spec.buffers) if b is not None]
        if spec.scratch_bytes:
            scratch = f"{name}.scratch"
            self.buffers[scratch] = BufferDraft(scratch, spec.scratch_bytes, self.machine.vtcm.align_bytes.whole)
            buffers.append(scratch)
        after = tuple(a for a in (self._name(n, index) for n in spec.after) if a is not None)
        modes = (self._mode(spec, name), *(self._alternative(m, k, name) for k, m in enumerate(spec.alternatives)))
        if spec.channels or spec.bytes or spec.class_:
            modes = tuple(replace(m, moves=self._moves(spec, m, name), op_class=spec.class_) for m in modes)
        where = f"task {self.task!r}, op {name!r}"
        regions = regions_of(
            where,
            spec.reads,
            spec.writes,
            index,
            lambda text: self._real(self._name(text, index), text, "tensor"),
            modes[0].owner is not None,
        )
        overwritten = [b for b in (self._name(n, index) for n in spec.in_place) if b is not None]
        for b in overwritten:
            if b not in buffers:
                raise InvalidInputError(f"{where}: {b!r} is in 'in_place', but not one of its buffers; name it in both")
        draft = OpDraft(name, modes, stage, tile, after, tuple(buffers), spec.deadline_us, spec.pieces)
        over = tuple(
            (new, old)
            for new, old in ((self._name(n, index), self._name(o, index)) for n, o in spec.may_overwrite.items())
            if new is not None and old is not None
        )
        for b in (b for pair in over for b in pair):
            if b not in buffers:
                raise InvalidInputError(
                    f"{where}: {b!r} is in 'may_overwrite', but not one of its buffers; name it in both"
                )
        frees = tuple((b, n) for b, n in ((self._name(b, index), n) for b, n in spec.frees.items()) if b is not None)
        for b, _ in frees:
            if b not in buffers:
                raise InvalidInputError(f"{where}: {b!r} is in 'frees', but not one of its buffers; name it in both")
        draft = replace(draft, regions=regions, in_place=tuple(overwritten), may_overwrite=over, frees=frees)
        self.ops.append(draft)

    def _name(self, text: str, index: dict[str, int]) -> str | None:
        below = False

        def value(match: re.Match[str]) -> str:
            nonlocal below
            variable, sign, number = match.groups()
            if variable not in index:
                raise InvalidInputError(
                    f"task {self.task!r}: {text!r} uses index {variable!r}, but no loop around it has that name"
                )
            i = index[variable]
            if sign == "%":
                if int(number) == 0:
                    raise InvalidInputError(f"task {self.task!r}: {text!r} divides by zero; write % 1 or more")
                i %= int(number)
            elif sign:
                i += int(sign + number)
            below = below or i < 0
            return str(i)

        name = INDEX.sub(value, text)
        return None if below else name

    def _real(self, name: str | None, text: str, kind: str) -> str:
        if name is None:
            raise InvalidInputError(
                f"task {self.task!r}: the index in the name of {kind} {text!r} falls below zero; only names in "
                "'after' and 'buffers' may point at a neighbour that does not exist"
            )
        return name

    def _count(self, engine: str, units: int | Literal["all"], op: str) -> int:
        if engine == DMA or engine in self.fifos:
            raise InvalidInputError(
                f"task {self.task!r}, op {op!r}: {engine!r} can be neither an alternative nor in 'also'; make it an "
                "op of its own"
            )
        if engine not in self.units:
            known = ", ".join([*self.units, DMA])
            raise InvalidInputError(f"task {self.task!r}, op {op!r}: there is no engine {engine!r}; known: {known}")
        return self.units[engine] if units == "all" else units

    def _alternative(self, spec: ModeSpec, number: int, op: str) -> ModeDraft:
        units = self._count(spec.engine, spec.units, op)
        latency = spec.duration_us if spec.latency_us is None else spec.latency_us
        self._not_before(latency, spec.duration_us, op)
        use = UseDraft(spec.engine, spec.duration_us, units)
        return ModeDraft((use,), latency, name=f"alternative{number}", given=True)

    def _moves(self, spec: OpSpec, mode: ModeDraft, op: str) -> tuple[tuple[str, int | Fraction], ...]:
        """Return the bytes through each channel in any mode; a transfer's own bytes stay."""
        where = f"task {self.task!r}, op {op!r}"
        moves: dict[str, int | Fraction] = dict(mode.moves)
        for key, given in (("channels", spec.channels), ("bytes", spec.bytes)):
            for name, amount in given.items():
                if name == DMA:
                    raise InvalidInputError(
                        f"{where}: {name!r} in {key!r} is the pipe of transfers, which only ops of engine {DMA!r} use, "
                        f"all by themselves; drop it, or name another channel: {', '.join(self.channels)}"
                    )
                if name not in self.channels:
                    near = did_you_mean(name, self.channels)
                    raise InvalidInputError(
                        f"{where}: there is no channel {name!r}{near}; known: {', '.join(self.channels)}"
                    )
                if name in moves:
                    twice = "'transfer_bytes'" if name in dict(mode.moves) else "'channels'"
                    raise InvalidInputError(
                        f"{where}: {twice} and {key!r} both say what it moves of {name!r}; drop one"
                    )
                if amount and not mode.latency_us:
                    raise InvalidInputError(f"{where}: it takes no time, so it moves nothing of {name!r}; drop {key!r}")
                mb_s = amount if key == "channels" or not amount else amount / mode.latency_us
                if mb_s > MAX_RATE:
                    much = f"{float(mb_s / 1000):.6g} GB/s of channel {name!r}"
                    if key == "bytes":
                        much = f"{amount:,} bytes in {float(mode.latency_us):g} us, which is {much}"
                    raise InvalidInputError(
                        f"{where}: {key!r} says {much}, above the limit of {MAX_RATE // 1000:.0e} GB/s; "
                        + ("write less, or a longer duration" if key == "bytes" else "write a lower rate")
                    )
                moves[name] = amount * mode.latency_us if key == "channels" else amount
        return tuple(moves.items())

    def _not_before(self, latency: Fraction, us: Fraction, op: str) -> None:
        if latency < us:
            raise InvalidInputError(
                f"task {self.task!r}, op {op!r}: latency_us {float(latency):g} is below its duration of "
                f"{float(us):g} us; the result cannot be used before the engine is done"
            )

    def _no_idle_keys(self, spec: OpSpec, name: str) -> None:
        for key, engine in ONLY_FOR.items():
            pushed = key == "owner" and spec.engine in self.fifos
            if spec.engine != engine and not pushed and getattr(spec, key) != OpSpec.model_fields[key].default:
                runs = f"runs on {spec.engine!r}" if spec.engine else "has no engine"
                raise InvalidInputError(
                    f"task {self.task!r}, op {name!r}: {key!r} is for engine {engine!r}, this op {runs}; drop it"
                )
        if spec.work is not None and (not spec.class_ or spec.engine in (None, DMA) or spec.engine in self.fifos):
            raise InvalidInputError(
                f"task {self.task!r}, op {name!r}: 'work' is in units of its 'class', for ops on an engine of their "
                "own; give the class, or its duration_us"
            )
        if spec.work is not None and spec.macs is not None:
            raise InvalidInputError(
                f"task {self.task!r}, op {name!r}: 'work' and 'macs' both say how long it takes; drop one"
            )
        for key in ("macs", "transfer_bytes", "work"):
            if getattr(spec, key) is not None and spec.duration_us is not None:
                raise InvalidInputError(
                    f"task {self.task!r}, op {name!r}: {key!r} and 'duration_us' both say how long it takes; drop one"
                )
        if (spec.engine in (None, DMA) or spec.engine in self.fifos) and spec.units != 1:
            raise InvalidInputError(
                f"task {self.task!r}, op {name!r}: 'units' is {spec.units!r}, but "
                + ("it takes its turn in one queue" if spec.engine else "an op without an engine holds none")
                + "; drop it"
            )

    def _mode(self, spec: OpSpec, name: str) -> ModeDraft:
        self._no_idle_keys(spec, name)
        if spec.engine is None:
            us = spec.duration_us or Fraction(0)
            if spec.also:
                raise InvalidInputError(f"task {self.task!r}, op {name!r}: 'also' needs an engine beside it")
            return ModeDraft((), us, given=True)
        if spec.engine == DMA and DMA not in self.units:
            return self._transfer(spec, name)
        if spec.engine in self.fifos:
            return self._pushed(spec, name, self.fifos[spec.engine])
        units = self._count(spec.engine, spec.units, name)
        given = spec.duration_us is not None
        if spec.duration_us is not None:
            us = spec.duration_us
        elif spec.engine == HMX and spec.macs is not None:
            us = cost.hmx_matmul_us(self.machine, 32, 32, 32) * Fraction(spec.macs, 32**3)
        elif spec.work is not None:
            us = cost.class_us(self.machine, spec.class_, spec.work)
        else:
            raise InvalidInputError(f"task {self.task!r}, op {name!r}: give its duration_us")
        overhead = Fraction(0)
        if spec.engine == HMX:
            overhead = handover_us(self.machine)
        elif spec.engine == HVX and units > 1:
            overhead = cost.overhead_us(self.machine, "fork_join")
        uses = [UseDraft(spec.engine, us, units)]
        uses += [UseDraft(engine, us, self._count(engine, n, name)) for engine, n in spec.also.items()]
        if spec.engine in spec.also:
            raise InvalidInputError(
                f"task {self.task!r}, op {name!r}: engine {spec.engine!r} is in 'also' too; give all its units in "
                "'units'"
            )
        latency = us if spec.latency_us is None else spec.latency_us
        self._not_before(latency, us, name)
        return ModeDraft(tuple(uses), latency, overhead if us else Fraction(0), given=given)

    def _pushed(self, spec: OpSpec, name: str, fifo: UserEngine) -> ModeDraft:
        """Return the mode of an op that its owner pushes into ``fifo``, and later takes off."""
        self._check_owner(spec, name)
        if spec.duration_us is None or spec.also:
            what = "it holds its fifo alone, nothing in 'also'" if spec.also else "give its duration_us"
            raise InvalidInputError(f"task {self.task!r}, op {name!r}: {what}")
        latency = spec.duration_us if spec.latency_us is None else spec.latency_us
        self._not_before(latency, spec.duration_us, name)
        return ModeDraft(
            (UseDraft(fifo.name, spec.duration_us),),
            latency,
            owner=(HVX, spec.owner),
            issue_us=fifo.push_us,
            poll_us=fifo.pop_us,
            given=True,
        )

    def _check_owner(self, spec: OpSpec, name: str) -> None:
        if spec.owner >= self.machine.hvx_contexts:
            raise InvalidInputError(
                f"task {self.task!r}, op {name!r}: owner {spec.owner} is not one of the {self.machine.hvx_contexts} "
                f"HVX workers of {self.machine.name}"
            )

    def _transfer(self, spec: OpSpec, name: str) -> ModeDraft:
        self._check_owner(spec, name)
        if spec.also:
            raise InvalidInputError(
                f"task {self.task!r}, op {name!r}: a transfer holds its queue and the DMA pipe, nothing in 'also'"
            )
        if spec.duration_us is None:
            if spec.transfer_bytes is None:
                raise InvalidInputError(f"task {self.task!r}, op {name!r}: give its transfer_bytes or duration_us")
            if spec.transfer_bytes == 0:
                raise InvalidInputError(
                    f"task {self.task!r}, op {name!r}: transfer_bytes is 0; write 1 or more, or leave the op out"
                )
            row_bytes = -(-spec.transfer_bytes // spec.rows)
            if spec.stride_bytes is not None and spec.stride_bytes < row_bytes:
                raise InvalidInputError(
                    f"task {self.task!r}, op {name!r}: stride_bytes {spec.stride_bytes} is less than its rows of "
                    f"{row_bytes} B: they would overlap; write {row_bytes} or more"
                )
            return transfer(self.machine, spec.owner, row_bytes, spec.rows, spec.direction, spec.stride_bytes)
        latency = spec.duration_us if spec.latency_us is None else spec.latency_us
        self._not_before(latency, spec.duration_us, name)
        return ModeDraft(
            (UseDraft(DMA, spec.duration_us), UseDraft(dma_queue(spec.owner), spec.duration_us)),
            latency,
            owner=(HVX, spec.owner),
            issue_us=cost.overhead_us(self.machine, "dma_issue"),
            poll_us=cost.overhead_us(self.machine, "event_poll"),
            given=True,
        )
