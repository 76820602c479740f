"""The body of a loop: ops that every iteration runs once, and what they need of each other, in whole ticks.

Iteration ``j`` of an op starts ``j * II`` ticks after iteration 0 (1-periodic); II is the interval. Intervals are
half-open ``[start, end)``. A loop is data: formulations read it, and the checker, which shares nothing else with them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from hexloom.formulations.memory import Scratchpad
from hexloom.formulations.mode import MAX_RATE, Channel, Engine, Frozen, Mode, Name, Text, Use, check_mode

MAX_LOOP_TICKS = 2**40
"""Most ticks of all latencies and delays together: times of all stages must fit into 64 bits with room to add up."""

MAX_DISTANCE = 2**20
"""Most iterations that a dependency or a buffer may span."""


class LoopOp(Frozen):
    """One op of the body and the one way to run it.

    It holds its units for their ticks from its start, and demands its pulls for all of its latency, after which its
    result can be used. Its class says nothing here.
    """

    name: Name
    task: Text = ""
    stage: Text = ""
    mode: Mode

    @property
    def latency_ticks(self) -> int:
        """Ticks from its start until its result can be used."""
        return self.mode.latency_ticks

    @property
    def uses(self) -> tuple[Use, ...]:
        """What it holds of engines, for at least a tick."""
        return tuple(use for use in self.mode.uses if use.ticks)


class Dependency(Frozen):
    """``after`` of iteration ``j + distance`` starts ``delay_ticks`` after the start of ``before`` of iteration ``j``.

    Without ``delay_ticks`` that is the latency of ``before``.
    """

    before: str
    after: str
    distance: int = Field(default=0, ge=0, le=MAX_DISTANCE)
    delay_ticks: int | None = Field(default=None, ge=0)


class LoopUser(Frozen):
    """``op`` of iteration ``j + distance`` uses the buffer of iteration ``j``."""

    op: str
    distance: int = Field(default=0, ge=0, le=MAX_DISTANCE)


class LoopBuffer(Frozen):
    """Bytes that every iteration has anew, alive from the start of its first user to the end of its last.

    Copies take turns in a ring: iteration ``j`` has copy ``j`` modulo their number. ``depth`` is that number; None
    leaves it open. The size is rounded up to ``granule_bytes``. What all iterations share is reserved bytes.
    """

    name: Name
    size_bytes: int = Field(ge=0, le=MAX_RATE)
    users: tuple[LoopUser, ...] = Field(min_length=1)
    depth: int | None = Field(default=None, ge=1, le=MAX_DISTANCE)
    align_bytes: int = Field(default=1, ge=1, le=MAX_RATE)
    granule_bytes: int = Field(default=1, ge=1, le=MAX_RATE)

    @property
    def occupied_bytes(self) -> int:
        """Size after rounding to the granule."""
        return -(-self.size_bytes // self.granule_bytes) * self.granule_bytes


class Loop(Frozen):
    """The body of a loop with the machine that it runs on.

    Engines of kind ``worker``, and all on which an op fixes its units, give each op concrete units; of the others only
    the number in use counts. Under rule ``rigid`` the demand on a channel never exceeds its capacity; under ``fluid``
    it does so only on average, which bounds the interval and no more; under ``none`` channels are ignored.
    """

    schema_: Literal["hexloom.loop/1"] = Field(default="hexloom.loop/1", alias="schema")
    name: Text = "loop"
    ops: tuple[LoopOp, ...] = Field(min_length=1)
    dependencies: tuple[Dependency, ...] = ()
    engines: tuple[Engine, ...] = ()
    channels: tuple[Channel, ...] = ()
    rule: Literal["none", "rigid", "fluid"] = "fluid"
    buffers: tuple[LoopBuffer, ...] = ()
    scratchpad: Scratchpad = Scratchpad()

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        serialize_by_alias=True,
        ignored_types=(cached_property,),
    )

    @model_validator(mode="after")
    def _can_be_a_loop(self) -> Self:
        for kind, names in (
            ("op", [op.name for op in self.ops]),
            ("engine", [engine.name for engine in self.engines]),
            ("channel", [channel.name for channel in self.channels]),
            ("buffer", [buffer.name for buffer in self.buffers]),
        ):
            twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
            if twice is not None:
                raise ValueError(f"two {kind}s are named {twice!r}; names must differ")
        self._check_ops()
        known = {op.name: op for op in self.ops}
        for edge in self.dependencies:
            for name in (edge.before, edge.after):
                if name not in known:
                    raise ValueError(f"dependency {edge.before!r} -> {edge.after!r}: there is no op {name!r}")
        for buffer in self.buffers:
            self._check_buffer(buffer, known)
        ticks = sum(op.latency_ticks for op in self.ops) + sum(self.delay_ticks(edge) for edge in self.dependencies)
        if ticks > MAX_LOOP_TICKS:
            raise ValueError(
                f"latencies and delays add up to {ticks} ticks, above the limit {MAX_LOOP_TICKS}; use a coarser tick"
            )
        self._refuse_cycle()
        return self

    def _check_ops(self) -> None:
        channels = {channel.name: channel for channel in self.channels}
        # Who issues a transfer is an op of its own here, so that a pipe is like any other engine.
        engines = {e.name: e.model_copy(update={"kind": "resource"}) if e.kind == "pipe" else e for e in self.engines}
        for engine in self.engines:
            if engine.depth is not None:
                raise ValueError(
                    f"engine {engine.name!r} has depth {engine.depth}, which a loop does not count; "
                    "write its places as units of an engine of kind share"
                )
        for op in self.ops:
            mode = op.mode
            check_mode(op.name, mode, engines, list(channels))
            if mode.dma is not None:
                raise ValueError(f"op {op.name!r} has an owner; in a loop its start and its wait are ops of their own")
            if mode.overhead_ticks:
                raise ValueError(
                    f"op {op.name!r} has {mode.overhead_ticks} overhead_ticks; in a loop they are part of its uses"
                )
            for use in op.uses:
                if use.units > engines[use.engine].units:
                    raise ValueError(
                        f"op {op.name!r} needs {use.units} units of engine {use.engine!r}, which has "
                        f"{engines[use.engine].units}; ask for fewer"
                    )
            for pull in mode.pulls:
                capacity = channels[pull.channel].capacity
                if self.rule == "rigid" and op.latency_ticks and pull.rate > capacity:
                    raise ValueError(
                        f"op {op.name!r} demands {pull.rate} of channel {pull.channel!r}, whose capacity is "
                        f"{capacity}; under rule rigid no op may: lower its rate and make it longer"
                    )

    def _check_buffer(self, buffer: LoopBuffer, known: dict[str, LoopOp]) -> None:
        for user in buffer.users:
            if user.op not in known:
                raise ValueError(f"buffer {buffer.name!r}: there is no op {user.op!r}")
        if all(known[user.op].latency_ticks == 0 for user in buffer.users):
            raise ValueError(
                f"buffer {buffer.name!r} may live for no time: all its users have latency 0; give one of them a tick"
            )
        if buffer.occupied_bytes > self.scratchpad.available_bytes:
            raise ValueError(
                f"buffer {buffer.name!r} takes {buffer.occupied_bytes} B, the scratchpad has "
                f"{self.scratchpad.available_bytes} B available; make it smaller"
            )

    def _refuse_cycle(self) -> None:
        """Refuse a cycle within one iteration: no order of its ops satisfies it."""
        after: dict[str, list[str]] = {op.name: [] for op in self.ops}
        for edge in self.dependencies:
            if edge.distance == 0:
                after[edge.before].append(edge.after)
        missing = dict.fromkeys(after, 0)
        for names in after.values():
            for name in names:
                missing[name] += 1
        ready = [name for name, count in missing.items() if count == 0]
        while ready:
            for name in after[ready.pop()]:
                missing[name] -= 1
                if missing[name] == 0:
                    ready.append(name)
        left = {name for name, count in missing.items() if count}
        if not left:
            return
        walk = [min(left)]
        while walk[-1] not in walk[:-1]:
            walk.append(next(before for before in after if before in left and walk[-1] in after[before]))
        cycle = walk[walk.index(walk[-1]) :][::-1]
        raise ValueError(
            f"the dependencies form a cycle with distance 0: {' -> '.join(cycle)}; "
            "give one of them the number of iterations it spans"
        )

    @cached_property
    def op_index(self) -> dict[str, int]:
        """Position of each op by name."""
        return {op.name: i for i, op in enumerate(self.ops)}

    def delay_ticks(self, edge: Dependency) -> int:
        """Ticks from the start of ``before`` to the earliest start of ``after``."""
        if edge.delay_ticks is not None:
            return edge.delay_ticks
        return self.ops[self.op_index[edge.before]].latency_ticks

    def needs_units(self, engine: Engine) -> bool:
        """Whether ops get concrete units of ``engine``, not only a number of them."""
        uses = [use for op in self.ops for use in op.uses if use.engine == engine.name]
        return any(use.unit_ids is not None for use in uses) or (engine.kind == "worker" and engine.units > 1)

    def changed(self, **fields: object) -> Loop:
        """Return the loop with other ``fields``, validated."""
        return Loop(**{**{name: getattr(self, name) for name in Loop.model_fields}, **fields})
