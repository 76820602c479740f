"""The constraints of a problem in named groups, and the problem that keeps only some of them.

A group is what a person can change: one deadline, one pin, what one buffer needs, the size of the scratchpad, one
precedence (of many: those of one task), the capacity of one engine or channel, one gang, the entry. What is left when
all are dropped, ops and their durations, can always be scheduled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from hexloom.formulations.memory import still_overwriting
from hexloom.formulations.problem import Buffer, Engine, Mode, Pool, Precedence, Problem, Rule, Scratchpad, Use, slows
from hexloom.formulations.shares import amount_in_words, engine_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal[
    "deadline",
    "pin",
    "buffer",
    "scratchpad",
    "pool",
    "precedence",
    "chain",
    "engine",
    "channel",
    "interference",
    "gang",
    "entry",
]

MOST_EDGES = 40
"""Up to so many precedences each is a group; of more, all that end in one task are one."""

FREE = "hexloom:free"
"""The engine of owners whose own engine has no limit; each has a thread of its own."""


class Group(NamedTuple):
    """A named group of constraints; two names for a precedence: before and after."""

    kind: Kind
    names: tuple[str, ...] = ()


def in_words(problem: Problem, group: Group) -> str:
    """Return ``group`` with its numbers."""
    quoted = " -> ".join(repr(name) for name in group.names)
    name = group.names[0] if group.names else ""
    if group.kind == "deadline":
        ticks = problem.ops[problem.op_index[name]].deadline_ticks
        return f"the deadline of op {quoted} at {problem.in_words(ticks or 0)}"
    if group.kind in ("buffer", "pin"):
        buffer = next(b for b in (*problem.buffers, *(b for b, _ in problem.buffers_as_one)) if b.name == name)
        if group.kind == "pin":
            return f"the pin of buffer {quoted} at {buffer.address}"
        return f"the {buffer.occupied_bytes:,} B of buffer {quoted}"
    if group.kind == "pool":
        pool = next(pool for pool in problem.pools if pool.name == name)
        return f"the {pool.available_bytes:,} B of pool {quoted}"
    if group.kind == "engine":
        units = problem.engines[problem.engine_index[name]].units
        if name in problem.shares:
            return f"the {amount_in_words(problem, name, units)} of {engine_in_words(problem, name)}"
        return f"the {units} {'unit' if units == 1 else 'units'} of engine {quoted}"
    return {
        "scratchpad": f"the {problem.scratchpad.available_bytes:,} B of scratchpad",
        "precedence": f"the order {quoted}",
        "chain": f"the orders within task {quoted}",
        "channel": f"the capacity of channel {quoted}",
        "interference": "how classes of ops slow each other",
        "gang": f"the width of op {quoted}",
        "entry": f"the entry of {problem.in_words(problem.entry_ticks)}",
    }[group.kind]


def groups_of(problem: Problem, rule: Rule = "none") -> tuple[Group, ...]:
    """Return all groups of ``problem``, what people can change least first."""
    found = [Group("entry")] if problem.entry_ticks else []
    if len(problem.precedences) <= MOST_EDGES:
        found += dict.fromkeys(Group("precedence", (e.before, e.after)) for e in problem.precedences)
    else:
        found += dict.fromkeys(
            Group("chain", (problem.ops[problem.op_index[e.after]].task,)) for e in problem.precedences
        )
    used = {use.engine for op in problem.ops for mode in op.modes for use in mode.uses if use.ticks}
    used |= {mode.dma.owner_engine for op in problem.ops for mode in op.modes if mode.dma is not None}
    found += [Group("engine", (engine.name,)) for engine in problem.engines if engine.name in used]
    if slows(rule):
        pulled = {pull.channel for op in problem.ops for mode in op.modes for pull in mode.pulls}
        found += [Group("channel", (channel.name,)) for channel in problem.channels if channel.name in pulled]
        found += [Group("interference")] if problem.interference else []
    found += [Group("gang", (op.name,)) for op in problem.ops if all(_wide(problem, mode) for mode in op.modes)]
    sized = [b for b in problem.buffers if b.occupied_bytes or b.address is not None]
    found += [Group("scratchpad")] if any(b.pool is None for b in sized) else []
    found += [Group("pool", (pool.name,)) for pool in problem.pools if any(b.pool == pool.name for b in sized)]
    found += [Group("buffer", (name,)) for name in dict.fromkeys(b.part_of or b.name for b in sized)]
    found += [Group("pin", (b.name,)) for b in problem.buffers if b.address is not None]
    found += [Group("deadline", (op.name,)) for op in problem.ops if op.deadline_ticks is not None]
    return tuple(found)


def _wide(problem: Problem, mode: Mode) -> bool:
    return any(use.units > 1 and use.ticks and use.engine not in problem.shares for use in mode.uses)


def keeping(problem: Problem, kept: Iterable[Group]) -> Problem:
    """Return the problem with only the groups ``kept``.

    Ops that none of them concerns are left out: with no deadline, no buffer and no successor among these they can run
    after all others, whatever these do. One op is always left.
    """
    keep = set(kept)
    engines = {engine.name for engine in problem.engines if Group("engine", (engine.name,)) in keep}
    modes = _Modes(problem, engines, {g.names[0] for g in keep if g.kind == "channel"})
    told = {g.names[0] for g in keep if g.kind == "buffer"}
    buffers = still_overwriting(_pinned(b, keep) for b in problem.buffers if (b.part_of or b.name) in told)
    edges = tuple(e for e in problem.precedences if _kept_edge(problem, e, keep))
    deadlines = {g.names[0] for g in keep if g.kind == "deadline"}
    concerned = _concerned(problem, deadlines, buffers, edges)
    ops = []
    for i, op in enumerate(problem.ops):
        if op.name in concerned:
            alone = not all(_wide(problem, mode) for mode in op.modes) or Group("gang", (op.name,)) in keep
            changed = {"modes": modes.of(i, narrow=not alone)}
            ops.append(op.model_copy(update=changed if op.name in deadlines else {**changed, "deadline_ticks": None}))
    free = (Engine(name=FREE, units=len(modes.owners)),) if modes.owners else ()
    pad = problem.scratchpad if Group("scratchpad") in keep else Scratchpad(total_bytes=roomy_bytes(problem))
    return Problem(
        name=problem.name,
        tick_us=problem.tick_us,
        engines=(*(engine for engine in problem.engines if engine.name in engines), *free),
        channels=problem.channels,
        interference=problem.interference if Group("interference") in keep else (),
        ops=tuple(ops),
        precedences=tuple(e for e in edges if e.before in concerned and e.after in concerned),
        buffers=buffers,
        scratchpad=pad,
        pools=tuple(
            pool if Group("pool", (pool.name,)) in keep else Pool(name=pool.name, total_bytes=roomy_bytes(problem))
            for pool in problem.pools
        ),
        entry_ticks=problem.entry_ticks if Group("entry") in keep else 0,
    )


def roomy_bytes(problem: Problem) -> int:
    """Return bytes in which all buffers find room side by side, above all pins."""
    pins = max((b.address + b.occupied_bytes for b in problem.buffers if b.address is not None), default=0)
    return pins + sum(b.occupied_bytes + b.align_bytes for b in problem.buffers)


def _kept_edge(problem: Problem, edge: Precedence, keep: set[Group]) -> bool:
    task = problem.ops[problem.op_index[edge.after]].task
    return Group("precedence", (edge.before, edge.after)) in keep or Group("chain", (task,)) in keep


def _pinned(buffer: Buffer, keep: set[Group]) -> Buffer:
    return buffer if Group("pin", (buffer.name,)) in keep else buffer.model_copy(update={"address": None})


def _concerned(
    problem: Problem, deadlines: set[str], buffers: tuple[Buffer, ...], edges: tuple[Precedence, ...]
) -> set[str]:
    """Return the ops with a deadline or a buffer or too wide for an engine, and all that come before them.

    The first op when there are none.
    """
    before: dict[str, list[str]] = {}
    for edge in edges:
        before.setdefault(edge.after, []).append(edge.before)
    units = {engine.name: engine.units for engine in problem.engines}
    too_wide = [
        op.name
        for op in problem.ops
        if all(any(use.ticks and use.units > units[use.engine] for use in mode.uses) for mode in op.modes)
    ]
    left = [*deadlines, *too_wide, *(name for b in buffers for name in b.ops)]
    found: set[str] = set()
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += before.get(name, ())
    return found or {problem.ops[0].name}


class _Modes:
    """The modes of ops without the engines and channels that have no limit; equal ones stay one object."""

    def __init__(self, problem: Problem, engines: set[str], channels: set[str]) -> None:
        self.problem, self.engines, self.channels = problem, engines, channels
        self.owners: list[int] = []
        self._known: dict[tuple[int, bool], Mode] = {}

    def of(self, i: int, *, narrow: bool) -> tuple[Mode, ...]:
        """Return the modes of op ``i``; with ``narrow`` each use takes one unit."""
        return tuple(self._mode(i, mode, narrow) for mode in self.problem.ops[i].modes)

    def _mode(self, i: int, mode: Mode, narrow: bool) -> Mode:
        own = mode.dma is not None and mode.dma.owner_engine not in self.engines
        key = id(mode), narrow
        if key in self._known and not own:
            return self._known[key]
        uses = tuple(self._use(use, narrow) for use in mode.uses if use.engine in self.engines)
        pulls = tuple(pull for pull in mode.pulls if pull.channel in self.channels)
        dma = mode.dma
        if dma is not None and own:
            if i not in self.owners:
                self.owners.append(i)
            dma = dma.model_copy(update={"owner_engine": FREE, "owner_unit": self.owners.index(i)})
        changed = mode.model_copy(update={"uses": uses, "pulls": pulls, "dma": dma})
        if not own:
            self._known[key] = changed
        return changed

    def _use(self, use: Use, narrow: bool) -> Use:
        if not narrow or use.units == 1 or use.engine in self.problem.shares:
            return use
        return use.model_copy(update={"units": 1, "unit_ids": None if use.unit_ids is None else use.unit_ids[:1]})
