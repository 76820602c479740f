"""The neutral form of the case files, and what it becomes: a problem in integers, or the data of a workload file.

Closed against unknown keys like every input of hexloom. Rules of the form that a problem does not have by itself:

- ``hmx``, ``hvx`` and ``dma`` are threads with queues; other engines are counted units without a thread;
- ``ddr_bw`` becomes an engine with that many units, of which a task holds ``bw``;
- ``ddr_bytes_per_ns`` or ``ddr_bytes_per_us`` becomes channel ``ddr``, through which a task moves ``bytes`` while it
  runs; ``flop`` is only told;
- ``tick: ns`` says that ticks are nanoseconds;
- a gang becomes one op of as many units as it has members;
- buffers with a ``life`` are used by a chain of ops, one per interval between two ends of lives;
- a reserved block is a pinned buffer; with ``from`` and ``to`` it is used by an op that deadlines hold in its place.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from hexloom.formulations.problem import Buffer, Channel, Engine, Mode, Op, Precedence, Problem, Pull, Scratchpad, Use
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import Bytes, Count, Microseconds, Name, Spec, explain

THREADS = ("hmx", "hvx", "dma")
DDR = "ddr_bw"


class MachineForm(Spec):
    engines: dict[Name, Count] = Field(default_factory=dict)
    vtcm: Bytes = 0
    vtcm_reserved: Bytes = 0
    align: Count = 1
    round_size: bool = False
    ddr_bw: Count | None = None
    ddr_bytes_per_ns: Microseconds | None = None
    ddr_bytes_per_us: Count | None = None


class AltForm(Spec):
    eng: Name
    dur: Microseconds


class TaskForm(Spec):
    id: Name
    eng: Name | None = None
    dur: Microseconds | None = None
    after: tuple[Name, ...] = ()
    bufs: tuple[Name, ...] = ()
    scratch: Bytes = 0
    bw: int = Field(default=0, ge=0)
    bytes: Bytes = 0
    flop: int = Field(default=0, ge=0)
    also: tuple[Name, ...] = ()
    alt: tuple[AltForm, ...] = ()
    deadline: Microseconds | None = None
    gang: Name | None = None

    @model_validator(mode="after")
    def _one_way_to_run(self) -> Self:
        if bool(self.alt) == (self.eng is not None) or (self.eng is None) != (self.dur is None):
            raise ValueError(f"task {self.id!r}: give eng and dur, or alt")
        return self

    @property
    def ways(self) -> tuple[AltForm, ...]:
        return self.alt or (AltForm(eng=self.eng, dur=self.dur),)


class BufForm(Spec):
    id: Name
    bytes: Bytes
    align: Count | None = None
    at: Bytes | None = None
    always: bool = False
    life: tuple[int, int] | None = None


class ReservedForm(Spec):
    at: Bytes
    bytes: Bytes
    from_: int | None = Field(default=None, alias="from", ge=0)
    to: int | None = Field(default=None, ge=0)


class Form(Spec):
    machine: MachineForm = MachineForm()
    unit: Literal["us"] | None = None
    tick: Microseconds | Literal["ns"] | None = None
    tasks: tuple[TaskForm, ...] = ()
    bufs: tuple[BufForm, ...] = ()
    reserved: tuple[ReservedForm, ...] = ()
    note: str = ""

    @model_validator(mode="before")
    @classmethod
    def _engines_apart(cls, data: Any) -> Any:
        """In ``machine`` the keys that some task names are engines; others must be known."""
        if not isinstance(data, dict) or not isinstance(data.get("machine"), dict):
            return data
        named = set(THREADS)
        for task in data.get("tasks", ()):
            if isinstance(task, dict):
                named |= {task.get("eng"), *task.get("also", ()), *(alt.get("eng") for alt in task.get("alt", ()))}
        engines = {key: value for key, value in data["machine"].items() if key in named}
        rest = {key: value for key, value in data["machine"].items() if key not in named}
        return {**data, "machine": {**rest, "engines": engines}}

    @classmethod
    def read(cls, data: dict[str, Any], **changes: Any) -> Self:
        """Validate a case's input; ``changes`` replace top-level keys."""
        try:
            return cls.model_validate({**data, **changes})
        except ValidationError as error:
            raise InvalidInputError(f"case: {explain(error)}") from None


def to_problem(data: dict[str, Any], **changes: Any) -> Problem:
    """Return the problem of a case's input, its machine included."""
    form = Form.read(data, **changes)
    try:
        return _Mapping(form).problem()
    except ValidationError as error:
        raise InvalidInputError(f"case: {explain(error)}") from None


def to_workload(data: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the data of a workload file with one explicit task; its machine is the one that solves it."""
    form = Form.read(data, **changes)
    ops: list[dict[str, Any]] = []
    for task in form.tasks:
        first, *others = task.ways
        op: dict[str, Any] = {"name": task.id, "engine": first.eng, "duration_us": str(first.dur)}
        if others:
            op["alternatives"] = [{"engine": way.eng, "duration_us": str(way.dur)} for way in others]
        if task.also:
            op["also"] = dict.fromkeys(task.also, 1)
        if task.deadline is not None:
            op["deadline_us"] = str(task.deadline)
        if task.scratch:
            op["scratch_bytes"] = task.scratch
        ops.append(op | {"after": list(task.after), "buffers": list(task.bufs)})
    buffers = [
        {"name": b.id, "size_bytes": b.bytes, "resident": b.always}
        | ({} if b.at is None else {"address": b.at})
        | ({} if b.align is None else {"align_bytes": b.align})
        for b in form.bufs
    ]
    tick = {} if form.tick is None else {"tick_us": str(form.tick)}
    return {"name": "case", **tick, "tasks": [{"name": "case", "ops": ops, "buffers": buffers}]}


class _Mapping:
    def __init__(self, form: Form) -> None:
        self.form = form
        self.tick = self._tick()
        self.rates_per = 1000
        """Parts of a byte that rates count in, for finer ones."""
        self.op_of = {task.id: task.gang or task.id for task in form.tasks}
        self.ops: list[Op] = []
        self.edges: list[Precedence] = []
        self.users: dict[str, list[str]] = {}
        self.scratch: list[Buffer] = []

    def problem(self) -> Problem:
        machine = self.form.machine
        if any(b.life is not None for b in self.form.bufs):
            self._lives()
        for name in dict.fromkeys(self.op_of.values()):
            self._task(name, [task for task in self.form.tasks if self.op_of[task.id] == name])
        reserved = [self._reserved(k, block) for k, block in enumerate(self.form.reserved)]
        known = {b.id for b in self.form.bufs}
        for name in self.users:
            if name not in known:
                raise InvalidInputError(f"op {self.users[name][0]!r}: there is no buffer {name!r}")
        engines = [
            Engine(name=name, units=units, kind="worker" if name in THREADS else "resource")
            for name, units in machine.engines.items()
        ]
        if machine.ddr_bw is not None:
            engines.append(Engine(name=DDR, units=machine.ddr_bw, kind="resource"))
        buffers = [
            Buffer(
                name=b.id,
                size_bytes=b.bytes,
                ops=tuple(dict.fromkeys(self.users.get(b.id, ()))),
                align_bytes=b.align or machine.align,
                granule_bytes=machine.align if machine.round_size else 1,
                address=b.at,
                resident=b.always,
            )
            for b in self.form.bufs
        ]
        return Problem(
            name="case",
            tick_us="1/1000" if self.form.tick == "ns" else None if self.form.unit is None else str(self.tick),
            engines=tuple(engines),
            channels=self._channels(),
            ops=tuple(self.ops),
            precedences=tuple(self.edges),
            buffers=(*buffers, *self.scratch, *reserved),
            scratchpad=Scratchpad(total_bytes=machine.vtcm, reserved_bytes=machine.vtcm_reserved),
        )

    def _tick(self) -> Fraction:
        """Return the largest tick that represents every time; in a form without unit a time is in ticks."""
        times = [way.dur for task in self.form.tasks for way in task.ways]
        times += [task.deadline for task in self.form.tasks if task.deadline is not None]
        if self.form.tick not in (None, "ns"):
            raise InvalidInputError("a forced tick belongs to a workload file")
        bottom = math.lcm(*(t.denominator for t in times))
        if self.form.unit is None:
            if bottom != 1:
                raise InvalidInputError("a time is not a whole number of ticks: give its unit")
            return Fraction(1)
        return Fraction(math.gcd(*(int(t * bottom) for t in times)) or 1, bottom)

    def _task(self, name: str, members: list[TaskForm]) -> None:
        first = members[0]
        if any(task.ways != first.ways or task.also != first.also for task in members):
            raise InvalidInputError(f"gang {name!r}: its tasks differ in eng, dur, also or alt")
        if name not in (self.op_of[first.id], first.gang) or (len(members) > 1 and first.gang is None):
            raise InvalidInputError(f"two tasks are named {name!r}; names must differ")
        bw = sum(task.bw for task in members)
        modes = []
        for way in first.ways:
            ticks = int(way.dur / self.tick)
            uses = [Use(engine=e, ticks=ticks, units=len(members)) for e in (way.eng, *first.also)]
            uses += [Use(engine=DDR, ticks=ticks, units=bw)] if bw else []
            moved = sum(task.bytes for task in members)
            pulls = (Pull(channel="ddr", rate=moved * self.rates_per // ticks),) if moved else ()
            modes.append(Mode(name=way.eng, uses=tuple(uses), latency_ticks=ticks, pulls=pulls))
        deadlines = [int(task.deadline / self.tick) for task in members if task.deadline is not None]
        self.ops.append(
            Op(
                name=name,
                task="case",
                stage=name.rstrip("0123456789"),
                modes=tuple(modes),
                deadline_ticks=min(deadlines, default=None),
            )
        )
        machine = self.form.machine
        for task in members:
            self.edges += [Precedence(before=self.op_of.get(a, a), after=name) for a in task.after]
            for buf in task.bufs:
                self.users.setdefault(buf, []).append(name)
            if task.scratch:
                self.scratch.append(
                    Buffer(
                        name=f"{task.id}.scratch",
                        size_bytes=task.scratch,
                        ops=(name,),
                        align_bytes=machine.align,
                        granule_bytes=machine.align if machine.round_size else 1,
                    )
                )

    def _channels(self) -> tuple[Channel, ...]:
        machine = self.form.machine
        if machine.ddr_bytes_per_ns is not None:
            return (Channel(name="ddr", capacity=int(machine.ddr_bytes_per_ns * self.rates_per)),)
        if machine.ddr_bytes_per_us is not None:
            return (Channel(name="ddr", capacity=machine.ddr_bytes_per_us * self.rates_per),)
        return ()

    def _lives(self) -> None:
        if self.form.tasks:
            raise InvalidInputError("lives are given instead of tasks, not beside them")
        lives = {b.id: b.life for b in self.form.bufs if b.life is not None}
        ends = sorted({end for life in lives.values() for end in life})
        for a, b in pairwise(ends):
            name = f"{a}..{b}"
            if self.ops:
                self.edges.append(Precedence(before=self.ops[-1].name, after=name))
            self.ops.append(Op(name=name, task="case", modes=(Mode(latency_ticks=b - a),)))
            for buf, (born, died) in lives.items():
                if born <= a and b <= died:
                    self.users.setdefault(buf, []).append(name)

    def _reserved(self, k: int, block: ReservedForm) -> Buffer:
        name = f"reserved{k}"
        if block.from_ is None or block.to is None:
            return Buffer(name=name, size_bytes=block.bytes, address=block.at, resident=True)
        before, hold = f"{name}.before", f"{name}.hold"
        length = block.to - block.from_
        self.ops += [
            Op(name=before, task=name, modes=(Mode(latency_ticks=block.from_),), deadline_ticks=block.from_),
            Op(name=hold, task=name, modes=(Mode(latency_ticks=length),), deadline_ticks=block.to),
        ]
        self.edges.append(Precedence(before=before, after=hold))
        return Buffer(name=name, size_bytes=block.bytes, address=block.at, ops=(hold,))
