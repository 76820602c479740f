"""The integer problem: ops, engines, channels, buffers. Ticks, units and bytes only; no hardware.

All intervals are half-open ``[start, end)``. An op that takes part in a schedule has exactly one mode. Names are
unique per kind. The problem is data: it is read by the formulations, and by the simulator and the checker, which
share nothing else with them.
"""

from __future__ import annotations

import hashlib
import heapq
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from hexloom.formulations.memory import (
    Buffer,
    Pool,
    Scratchpad,
    Takeover,
    check_buffer,
    takeovers_of,
)
from hexloom.formulations.mode import (
    MAX_RATE,
    MAX_UNITS,
    Channel,
    Dma,
    Engine,
    Frozen,
    Interference,
    Mode,
    Name,
    Pull,
    Rule,
    Text,
    Use,
    about,
    check_mode,
    slows,
)
from hexloom.formulations.parts import Whole, as_one, kept_for, wholes_of
from hexloom.formulations.pools import fit_side_by_side, in_pools, on_line
from hexloom.formulations.region import Access, Region
from hexloom.formulations.shares import channel_shares, ring_name, ring_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "MAX_RATE",
    "MAX_UNITS",
    "Access",
    "Buffer",
    "Channel",
    "Dma",
    "Engine",
    "Frozen",
    "Interference",
    "Mode",
    "Op",
    "Pool",
    "Precedence",
    "Problem",
    "Pull",
    "Region",
    "Rule",
    "Scratchpad",
    "Use",
    "slows",
]

MAX_TICKS = 2**53 - 1
"""Largest horizon in ticks: above it a time is no longer exact in JSON readers that use doubles."""

MAX_WORK = 2**62
"""Largest sum of units times ticks on one engine: bounds add it up in 64 bits."""

MAX_PIECES = 2**20
"""Most pieces of an op; coarser ones serve as well."""

SMALLEST_TICK, LARGEST_TICK = Fraction(1, 10**18), Fraction(10**18)
"""Range of a tick in microseconds; outside of it times no longer fit into the numbers of other programs."""

TICK = r"^[1-9][0-9]*(/[1-9][0-9]*)?$"
"""A fraction above 0."""


class Op(Frozen):
    """The smallest scheduled step: one stage of one tile of a task.

    Its work can be told apart in so many equal ``pieces`` (the descriptors of a transfer): where a plan gains by it,
    the op is cut between two of them, and becomes two ops.
    """

    name: Name
    task: Text = ""
    stage: Text = ""
    tile: int = 0
    modes: tuple[Mode, ...] = Field(min_length=1)
    deadline_ticks: int | None = Field(default=None, ge=0)
    pieces: int = Field(default=1, ge=1, le=MAX_PIECES)


class Precedence(Frozen):
    """``after`` starts once the result of ``before`` can be used (for DMA: once its owner observed the end)."""

    before: str
    after: str


class Problem(Frozen):
    """The integer instance handed to a formulation.

    ``tick_us`` is the length of a tick in microseconds as a fraction ("1/1000"), or None for a problem in bare
    ticks. ``entry_ticks`` is the dispatch of the plan itself: no op starts before it. Of ``accesses`` any two that
    touch the same bytes, one of them writing, are ordered by the plan; with ``hazards: noted`` only where precedences
    order them.
    """

    schema_: Literal["hexloom.problem/1"] = Field(default="hexloom.problem/1", alias="schema")
    name: Text = "problem"
    tick_us: str | None = Field(default=None, pattern=TICK)
    engines: tuple[Engine, ...] = ()
    channels: tuple[Channel, ...] = ()
    interference: tuple[Interference, ...] = ()
    ops: tuple[Op, ...] = Field(min_length=1)
    precedences: tuple[Precedence, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    accesses: tuple[Access, ...] = ()
    hazards: Literal["ordered", "noted"] = "ordered"
    scratchpad: Scratchpad = Scratchpad()
    pools: tuple[Pool, ...] = Field(default=(), exclude_if=lambda pools: not pools)
    entry_ticks: int = Field(default=0, ge=0)

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        serialize_by_alias=True,
        ignored_types=(cached_property,),
    )

    @model_validator(mode="after")
    def _references_hold(self) -> Self:
        if self.tick_us is not None and (
            len(self.tick_us) > 60 or not SMALLEST_TICK <= Fraction(self.tick_us) <= LARGEST_TICK
        ):
            raise ValueError(f"tick_us {self.tick_us[:60]} is not between 1e-18 and 1e18; choose a tick in this range")
        for kind, names in (
            ("engine", [engine.name for engine in self.engines]),
            ("channel", [channel.name for channel in self.channels]),
            ("op", [op.name for op in self.ops]),
            ("buffer", [buffer.name for buffer in self.buffers]),
            ("pool", [pool.name for pool in self.pools]),
        ):
            seen: set[str] = set()
            for name in names:
                if name in seen:
                    raise ValueError(f"two {kind}s are named {name!r}; names must differ")
                seen.add(name)
        engines = {engine.name: engine for engine in self.engines}
        for engine in self.engines:
            ring = engines.get(ring_name(engine.name)) if engine.depth is not None else None
            if ring is not None and ring.kind != "share":
                raise ValueError(f"engine {ring.name!r} is called like the places of {engine.name!r}; rename it")
        channels = [channel.name for channel in self.channels]
        for op in self.ops:
            for mode in op.modes:
                check_mode(op.name, mode, engines, channels)
        known = {op.name: op for op in self.ops}
        for edge in self.precedences:
            for name in (edge.before, edge.after):
                if name not in known:
                    raise ValueError(f"precedence {edge.before!r} -> {edge.after!r}: there is no op {name!r}")
        for access in self.accesses:
            for name in access.ops:
                if name not in known:
                    raise ValueError(f"access to {access.regions[0].tensor!r}: there is no op {name!r}")
        for buffer in self.buffers:
            check_buffer(buffer, known, self.pools)
        takeovers_of(self.buffers, self.op_index)
        wholes_of(self.buffers)
        if self.horizon_ticks > MAX_TICKS:
            raise ValueError(
                f"the durations add up to {about(self.horizon_ticks)} ticks, above the limit {MAX_TICKS}; "
                "use a coarser tick or shorter durations"
            )
        self._refuse_huge_work()
        self._refuse_cycle()
        return self

    def _refuse_huge_work(self) -> None:
        modes = [(op.name, mode) for op in self.ops for mode in op.modes]
        asks = [(use.units, f"units of engine {use.engine!r}", op) for op, mode in modes for use in mode.uses]
        asks += [(pull.rate, f"of channel {pull.channel!r}", op) for op, mode in modes for pull in mode.pulls]
        widest, what, op = max(asks, key=lambda ask: ask[0], default=(0, "", ""))
        if widest * self.horizon_ticks > MAX_WORK:
            raise ValueError(
                f"op {op!r} asks for {widest} {what}, which for up to {self.horizon_ticks} ticks is more than "
                f"{MAX_WORK} units times ticks; use a coarser tick or fewer units"
            )

    def _refuse_cycle(self) -> None:
        order = self.topological_order
        if len(order) == len(self.ops):
            return
        left = set(range(len(self.ops))) - set(order)
        walk = [min(left)]
        while walk[-1] not in walk[:-1]:
            walk.append(next(p for p in self.predecessors[walk[-1]] if p in left))
        cycle = walk[walk.index(walk[-1]) :][::-1]
        raise ValueError("the dependencies form a cycle: " + " -> ".join(self.ops[i].name for i in cycle))

    @cached_property
    def op_index(self) -> dict[str, int]:
        """Position of each op by name."""
        return {op.name: i for i, op in enumerate(self.ops)}

    @cached_property
    def engine_index(self) -> dict[str, int]:
        """Position of each engine by name."""
        return {engine.name: i for i, engine in enumerate(self.engines)}

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each op the positions of the ops it waits for, without repeats, ascending."""
        found: list[set[int]] = [set() for _ in self.ops]
        for edge in self.precedences:
            found[self.op_index[edge.after]].add(self.op_index[edge.before])
        return tuple(tuple(sorted(s)) for s in found)

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """For each op the positions of the ops that wait for it, ascending."""
        found: list[list[int]] = [[] for _ in self.ops]
        for after, befores in enumerate(self.predecessors):
            for before in befores:
                found[before].append(after)
        return tuple(tuple(s) for s in found)

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Op positions, predecessors first, else in file order; shorter than ``ops`` only when there is a cycle."""
        missing = [len(p) for p in self.predecessors]
        ready = [i for i, count in enumerate(missing) if count == 0]
        order: list[int] = []
        while ready:
            op = heapq.heappop(ready)
            order.append(op)
            for nxt in self.successors[op]:
                missing[nxt] -= 1
                if missing[nxt] == 0:
                    heapq.heappush(ready, nxt)
        return tuple(order)

    @cached_property
    def fitting_modes(self) -> tuple[tuple[int, ...], ...]:
        """For each op the positions of the modes that need no more units of an engine than exist."""
        units = {engine.name: engine.units for engine in self.engines}
        return tuple(
            tuple(
                m
                for m, mode in enumerate(op.modes)
                if all(u.ticks == 0 or u.units <= units[u.engine] for u in mode.uses)
            )
            for op in self.ops
        )

    @cached_property
    def fastest_modes(self) -> tuple[int, ...]:
        """For each op the shortest of the modes that fit, the first of equals; some mode of every op must fit."""
        found = []
        for op, fitting in zip(self.ops, self.fitting_modes, strict=True):
            ticks = [op.modes[m].duration_ticks for m in fitting]
            found.append(fitting[ticks.index(min(ticks))])
        return tuple(found)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Ops that dependencies connect, each group in topological order."""
        root = list(range(len(self.ops)))

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = i = root[root[i]]
            return i

        for i, before in enumerate(self.predecessors):
            for p in before:
                root[find(p)] = find(i)
        found: dict[int, list[int]] = {}
        for i in self.topological_order:
            found.setdefault(find(i), []).append(i)
        return tuple(tuple(of) for of in found.values())

    @cached_property
    def op_buffers(self) -> tuple[tuple[int, ...], ...]:
        """For each op the positions of the buffers it uses."""
        found: list[list[int]] = [[] for _ in self.ops]
        for b, buffer in enumerate(self.buffers):
            for name in set(buffer.ops):
                found[self.op_index[name]].append(b)
        return tuple(tuple(s) for s in found)

    @property
    def per_pool(self) -> tuple[tuple[tuple[int, ...], Problem], ...]:
        """For the scratchpad, then for every pool: the positions of its buffers, and the problem with these alone."""
        if not self.pools:
            return ((tuple(range(len(self.buffers))), self),)
        return self._in_pools

    @cached_property
    def _in_pools(self) -> tuple[tuple[tuple[int, ...], Problem], ...]:
        return in_pools(self)

    def on_line(self, offsets: Sequence[int]) -> tuple[int, ...]:
        """Return ``offsets`` of all buffers as if the scratchpad and the pools lay one behind the other."""
        return on_line(self, offsets)

    @cached_property
    def fits_side_by_side(self) -> bool:
        """Whether nothing is pinned, and the scratchpad, and every pool, has bytes for all its buffers at once."""
        return fit_side_by_side(self)

    @cached_property
    def takeovers(self) -> tuple[Takeover, ...]:
        """Which buffer may take the address of which, and the op that uses both."""
        return takeovers_of(self.buffers, self.op_index)

    @cached_property
    def wholes(self) -> dict[int, Whole]:
        """The range of every buffer that is part of one, by its position."""
        return wholes_of(self.buffers)

    @cached_property
    def buffers_as_one(self) -> tuple[tuple[Buffer, tuple[int, ...]], ...]:
        """The buffers with ranges in place of their parts, each with the positions of what it stands for."""
        return as_one(self.buffers)

    @cached_property
    def needed_by(self) -> tuple[frozenset[int], ...]:
        """For each buffer the ops for which it needs bytes of its own: its users but one where it may overwrite."""
        found = [frozenset(self.op_index[name] for name in buffer.ops) for buffer in self.buffers]
        for new, _, i in self.takeovers:
            found[new] -= {i}
        return tuple(found)

    @cached_property
    def horizon_ticks(self) -> int:
        """Sum of the longest modes and the entry: no sensible schedule is longer."""
        return self.entry_ticks + sum(max(m.duration_ticks for m in op.modes) for op in self.ops)

    @cached_property
    def tick(self) -> Fraction | None:
        """Length of a tick in microseconds."""
        return None if self.tick_us is None else Fraction(self.tick_us)

    def in_words(self, ticks: int | Fraction) -> str:
        """Return a time with its unit: microseconds where a tick has a length, else ticks."""
        if self.tick is None:
            return f"{ticks if isinstance(ticks, int) else round(float(ticks), 6)} ticks"
        exact = ticks * self.tick
        return f"{float(exact):.15g} us" if isinstance(ticks, int) else f"{round(float(exact), 3):.15g} us"

    @cached_property
    def shares(self) -> dict[str, int]:
        """The amount of each engine of kind ``share``, by its name."""
        return {engine.name: engine.units for engine in self.engines if engine.kind == "share"}

    def share_uses(self, mode: Mode) -> tuple[Use, ...]:
        """Return what ``mode`` holds of shares, from its start until its end is known."""
        if not self.shares:
            return ()
        return tuple(use for use in mode.uses if use.ticks > 0 and use.engine in self.shares)

    def digest(self) -> str:
        """SHA-256 of the canonical JSON, hexadecimal."""
        return hashlib.sha256(self.model_dump_json(by_alias=True).encode()).hexdigest()

    def changed(self, **fields: object) -> Problem:
        """Return the problem with other ``fields``: validated, and with nothing remembered of this one."""
        return Problem(**{**{name: getattr(self, name) for name in Problem.model_fields}, **fields})

    def under(self, rule: Rule) -> Problem:
        """Return the problem with what ``rule`` asks of channels in it, and the depths of pipes."""
        return ring_shares(self.with_rigid_channels() if rule == "rigid" else self)

    def with_rigid_channels(self) -> Problem:
        """Return the same problem with rule ``rigid`` in it: a share in place of every channel that someone pulls."""
        return channel_shares(self)

    def restricted(self, keep: frozenset[str], name: str | None = None, *, buffers: bool = True) -> Problem:
        """Return the problem of the ops named in ``keep`` alone, with the edges among them, without the entry.

        With ``buffers`` theirs stay, and those that are always resident: they hold their addresses whoever runs. What
        they access is left out: the edges say what follows from it.
        """
        kept = sorted(self.op_index[op] for op in keep)
        if len(kept) == len(self.ops) and not (self.entry_ticks or self.accesses or self.buffers):
            return self.model_copy(update={"name": name or self.name})  # with what is remembered
        return Problem(
            name=name or self.name,
            tick_us=self.tick_us,
            engines=self.engines,
            channels=self.channels,
            interference=self.interference,
            ops=tuple(self.ops[i] for i in kept),
            precedences=tuple(
                Precedence(before=self.ops[p].name, after=self.ops[i].name)
                for i in kept
                for p in self.predecessors[i]
                if self.ops[p].name in keep
            ),
            buffers=kept_for(self.buffers, keep) if buffers else (),
            scratchpad=self.scratchpad,
            pools=self.pools,
        )
