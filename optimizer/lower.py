"""Lowering: a workload and a machine become an integer problem. The only bridge between physical units and ticks.

The tick is the largest one that represents every duration: durations that the user wrote are exact, computed costs
are first rounded up to whole nanoseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hexloom.formulations.problem import (
    LARGEST_TICK,
    MAX_WORK,
    SMALLEST_TICK,
    Access,
    Buffer,
    Channel,
    Dma,
    Mode,
    Op,
    Pool,
    Precedence,
    Problem,
    Pull,
    Region,
    Rule,
    Scratchpad,
    Use,
    slows,
)
from hexloom.hwmodels import cost
from hexloom.hwmodels.errors import did_you_mean
from hexloom.optimizer.draft import check_count, in_class
from hexloom.optimizer.drains import check_part_names, in_parts, parts_of
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.hazard_orders import in_order
from hexloom.optimizer.interference import interference_of
from hexloom.optimizer.kernels import Explicit
from hexloom.optimizer.kernels.engines import DMA, DMA_QUEUE, HMX, HVX
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.rates import demands_of, units_of
from hexloom.optimizer.resources import engines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.draft import ModeDraft, TaskDraft
    from hexloom.optimizer.workload import Workload

NANOSECOND = Fraction(1, 1000)

MARGIN = 1000
"""Part of the largest work that demands in a fine unit leave to bounds, which count in parts of ticks."""


@dataclass(frozen=True, slots=True)
class TaskLoop:
    """How one task is run today: op names in the order of its loop, and the cost of entering it, in ticks."""

    task: str
    loop: tuple[str, ...]
    one_stage_at_a_time: bool
    entry_ticks: int


@dataclass(frozen=True, slots=True)
class Lowered:
    """The problem, for each task the loop that the baselines use, and what a reader should know of both."""

    problem: Problem
    loops: tuple[TaskLoop, ...]
    notes: tuple[str, ...] = ()


def lower(workload: Workload, machine: Machine, rule: Rule = "none") -> Lowered:
    """Return the integer problem of ``workload`` on ``machine`` for a rule by which channels are shared.

    Where ops slow each other, the pipe behind the DMA queues is a channel: transfers of several queues share it. Else
    it is an engine, which serves them one after the other; ignored, it would move what no pipe can.

    Raises
    ------
    InvalidInputError
        Something is wrong in the workload, or it needs more hardware threads than the machine has, or a forced
        tick does not represent a given duration.
    """
    try:
        return _lowered(workload, machine, rule)
    except ValidationError as error:
        raise InvalidInputError(f"workload {workload.name!r}: {explain(error)}") from None


def _lowered(workload: Workload, machine: Machine, rule: Rule) -> Lowered:
    ordered = in_order(expand(workload, machine), workload.hazards, machine)
    drafts = ordered.drafts
    entry_us = cost.overhead_us(machine, "op")
    tick = _tick(workload, drafts, entry_us)

    def ticks(us: Fraction) -> int:
        return math.ceil(us / tick)

    # Drafts live as long as this call, so their identity is a key; thousands of ops share a few modes.
    modes = {id(mode): mode for draft in drafts.values() for op in draft.ops for mode in op.modes}
    capacity = _capacity(workload, machine)
    pipe_mb_s = cost.channel_mb_s(machine)[DMA] if slows(rule) else None
    demands = {key: demands_of(mode, ticks(mode.latency_us) * tick, pipe_mb_s) for key, mode in modes.items()}
    longest = {key: mode.overhead_us + mode.issue_us + mode.latency_us + mode.poll_us for key, mode in modes.items()}
    horizon_us = sum(max(longest[id(mode)] for mode in op.modes) for draft in drafts.values() for op in draft.ops)
    room = MAX_WORK // (MARGIN * (1 + math.ceil((entry_us + horizon_us) / tick)))
    # Rigid is a promise never to ask for more than there is; elsewhere an op alone must not be slower than its time.
    whole = math.ceil if rule == "rigid" else math.floor
    units = units_of(capacity, (demand for found in demands.values() for demand in found), room)
    known = {
        key: _mode(
            mode,
            ticks,
            tuple(Pull(channel=d.channel, rate=whole(d.mb_s * units[d.channel])) for d in demands[key]),
            whole_pipe=pipe_mb_s is None,
        )
        for key, mode in modes.items()
    }

    ops: list[Op] = []
    precedences = [Precedence(before=before, after=after) for before, after in ordered.edges]
    accesses: list[Access] = []
    buffers: list[Buffer] = []
    for task, draft in drafts.items():
        prefix = f"{task}/" if len(drafts) > 1 else ""
        users: dict[str, list[str]] = {buffer.name: [] for buffer in draft.buffers}
        for op in draft.ops:
            name = prefix + op.name
            ops.append(
                Op(
                    name=name,
                    task=task,
                    stage=op.stage,
                    tile=op.tile,
                    modes=tuple(known[id(mode)] for mode in op.modes),
                    deadline_ticks=None if op.deadline_us is None else math.floor(op.deadline_us / tick),
                    pieces=op.pieces,
                )
            )
            precedences += [Precedence(before=prefix + before, after=name) for before in op.after]
            for used in dict.fromkeys(op.buffers):
                users[used].append(name)
            if op.regions:
                accesses.append(Access(ops=(name,), regions=op.regions))
        accesses += _overwritten(draft, prefix)
        over = {new: prefix + old for op in draft.ops for new, old in op.may_overwrite}
        drains = parts_of(task, draft)
        for b in draft.buffers:
            declared = Buffer(
                name=prefix + b.name,
                size_bytes=b.size_bytes,
                ops=tuple(users[b.name]),
                align_bytes=b.align_bytes,
                granule_bytes=b.granule_bytes,
                address=b.address,
                resident=b.resident,
                overwrites=over.get(b.name),
                pool=b.pool,
            )
            buffers += in_parts(declared, drains.get(b.name, ()), prefix)
    buffers += _reserved(workload, machine, ops)
    _check_pools(workload, buffers)
    check_part_names(buffers)
    engines = engines_of(workload, machine, ops)
    problem = Problem(
        name=workload.name,
        tick_us=str(tick),
        engines=engines,
        channels=tuple(
            Channel(name=name, capacity=int(mb_s * units[name]), unit_mb_s=str(Fraction(1, units[name])))
            for name, mb_s in capacity.items()
            if name in units
        ),
        interference=interference_of(workload, machine, ops),
        ops=tuple(ops),
        precedences=tuple(precedences),
        buffers=tuple(buffers),
        accesses=tuple(accesses),
        hazards="noted" if workload.hazards == "report" else "ordered",
        scratchpad=Scratchpad(
            total_bytes=machine.vtcm.total_bytes.whole, reserved_bytes=machine.vtcm.reserved_bytes.whole
        ),
        pools=tuple(
            Pool(
                name=pool.name,
                total_bytes=pool.size_bytes,
                reserved_bytes=pool.reserved_bytes,
                dma_only=pool.dma_only,
            )
            for pool in workload.pools
        ),
        entry_ticks=ticks(entry_us),
    )
    prefixes = {task: f"{task}/" if len(drafts) > 1 else "" for task in drafts}
    loops = tuple(
        TaskLoop(task, tuple(prefixes[task] + o for o in draft.loop), draft.one_stage_at_a_time, ticks(entry_us))
        for task, draft in drafts.items()
    )
    return Lowered(problem, loops, ordered.notes)


def _reserved(workload: Workload, machine: Machine, ops: list[Op]) -> Iterable[Buffer]:
    """Return buffers without content for what somebody else holds of the scratchpad for a while."""
    known = {op.name for op in ops}
    for k, held in enumerate(workload.reserved):
        edges = tuple(name for name in (held.from_, held.until) if name is not None)
        for name in edges:
            if name not in known:
                raise InvalidInputError(f"reserved {held.bytes} B: there is no op {name!r}{did_you_mean(name, known)}")
        yield Buffer(
            name=f"reserved.{k}",
            size_bytes=held.bytes,
            ops=tuple(dict.fromkeys(edges)),
            align_bytes=machine.vtcm.align_bytes.whole if held.address is None and held.pool is None else 1,
            address=held.address,
            resident="from_start" if held.from_ is None else "to_end" if held.until is None else False,
            pool=held.pool,
            held=True,
        )


def _check_pools(workload: Workload, buffers: list[Buffer]) -> None:
    known = [pool.name for pool in workload.pools]
    for buffer in buffers:
        if buffer.pool is not None and buffer.pool not in known:
            raise InvalidInputError(
                f"buffer {buffer.name!r}: there is no pool {buffer.pool!r}{did_you_mean(buffer.pool, known)}; known: "
                f"{', '.join(known) or 'none'}"
            )


def _overwritten(draft: TaskDraft, prefix: str) -> Iterable[Access]:
    """Return who reads and who writes the buffers that some op overwrites: two names for one address."""
    sizes = {buffer.name: buffer.size_bytes for buffer in draft.buffers}
    overwritten = {name for op in draft.ops for name in op.in_place if sizes[name]}
    for op in draft.ops:
        regions = tuple(
            Region(
                tensor=f"scratchpad {prefix}{name}",
                kind="write" if name in op.in_place else "read",
                row_bytes=sizes[name],
            )
            for name in dict.fromkeys(op.buffers)
            if name in overwritten
        )
        if regions:
            yield Access(ops=(prefix + op.name,), regions=regions)


def expand(workload: Workload, machine: Machine) -> dict[str, TaskDraft]:
    """Return the tasks of ``workload`` on ``machine`` by their names in the plan, copies one by one."""
    own = {engine.name: engine for engine in workload.engines}
    for name in own:
        if name in (HVX, HMX, DMA) or name.startswith(DMA_QUEUE):
            raise InvalidInputError(f"engine {name!r} is the machine's; give your own another name")
    channels = list(cost.channel_mb_s(machine))
    for channel in workload.channels:
        if channel.name in channels:
            raise InvalidInputError(f"channel {channel.name!r} is the machine's; give your own another name")
    # The pipe is left to transfers: under some rules it is an engine, and nobody would add the two demands up.
    channels = [name for name in channels if name != DMA] + [channel.name for channel in workload.channels]
    drafts: dict[str, TaskDraft] = {}
    count = 0
    for task in workload.tasks:
        if isinstance(task, Explicit):
            draft = task.expand(machine, own, channels)
        else:
            draft = in_class(task.expand(machine), task.class_)
        for copy in range(task.copies):
            name = task.name if task.copies == 1 else f"{task.name}.{copy}"
            if name in drafts:
                raise InvalidInputError(f"two tasks are named {name!r}; names must differ")
            drafts[name] = draft
            count += len(draft.ops)
            check_count(name, count)
    return drafts


def _tick(workload: Workload, drafts: dict[str, TaskDraft], entry_us: Fraction) -> Fraction:
    given: list[Fraction] = []
    computed: list[Fraction] = [entry_us]
    modes = {id(mode): mode for draft in drafts.values() for op in draft.ops for mode in op.modes}
    for mode in modes.values():
        (given if mode.given else computed).extend([*(use.us for use in mode.uses), mode.latency_us])
        computed += [mode.overhead_us, mode.issue_us, mode.poll_us]
    given += [op.deadline_us for draft in drafts.values() for op in draft.ops if op.deadline_us is not None]
    rounded = [math.ceil(us / NANOSECOND) * NANOSECOND for us in computed]
    tick = _common_divisor(given + rounded)
    if workload.tick_us is None:
        if not SMALLEST_TICK <= tick <= LARGEST_TICK:
            raise InvalidInputError(
                f"workload {workload.name!r}: only a tick of about 10^{_magnitude(tick)} us represents all durations, "
                "which is not between 1e-18 and 1e18; write durations with fewer digits, or set tick_us"
            )
        return tick
    forced = workload.tick_us
    if not SMALLEST_TICK <= forced <= LARGEST_TICK:
        raise InvalidInputError(
            f"workload {workload.name!r}: tick_us of about 10^{_magnitude(forced)} is not between 1e-18 and 1e18; "
            "choose a tick in this range"
        )
    added = sum((math.ceil(us / forced) * forced - us for us in _op_times(drafts)), Fraction(0))
    if added:
        best = _common_divisor([forced, *given])
        raise InvalidInputError(
            f"tick_us {_decimal(forced)}: rounding adds {_decimal(added)} us, use tick {_decimal(best)}"
        )
    return forced


def _magnitude(value: Fraction) -> int:
    return int((value.numerator.bit_length() - value.denominator.bit_length()) * 0.30103)


def _op_times(drafts: dict[str, TaskDraft]) -> Iterable[Fraction]:
    return (mode.latency_us for draft in drafts.values() for op in draft.ops for mode in op.modes if mode.given)


def _common_divisor(values: Iterable[Fraction]) -> Fraction:
    positive = [v for v in values if v > 0]
    if not positive:
        return Fraction(1)
    bottom, far = 1, 2 * SMALLEST_TICK.denominator * max(positive).numerator
    for denominator in dict.fromkeys(v.denominator for v in positive):
        bottom = math.lcm(bottom, denominator)
        if bottom > far:
            return Fraction(1, bottom)  # Below the range whatever follows; more digits would only cost time.
    return Fraction(math.gcd(*(v.numerator * (bottom // v.denominator) for v in positive)), bottom)


def _decimal(value: Fraction) -> str:
    """Shortest decimal of ``value`` when it has one, else the fraction."""
    scale = 0
    while scale <= 12:
        if (value * 10**scale).denominator == 1:
            digits = str(int(value * 10**scale)).rjust(scale + 1, "0")
            return digits if scale == 0 else f"{digits[:-scale]}.{digits[-scale:]}"
        scale += 1
    return str(value)


def _mode(draft: ModeDraft, ticks: Callable[[Fraction], int], pulls: tuple[Pull, ...], *, whole_pipe: bool) -> Mode:
    """Return the mode in ticks; a transfer holds the pipe where it is an engine, and else pulls it as a channel."""
    dma = None
    uses = draft.uses
    if draft.owner is not None:
        dma = Dma(
            owner_engine=draft.owner[0],
            owner_unit=draft.owner[1],
            issue_ticks=ticks(draft.issue_us),
            poll_ticks=ticks(draft.poll_us),
            descriptors=draft.descriptors,
        )
        uses = tuple(use for use in uses if whole_pipe or use.engine != DMA)
    return Mode(
        name=draft.name,
        uses=tuple(Use(engine=use.engine, ticks=ticks(use.us), units=use.units, unit_ids=use.unit_ids) for use in uses),
        latency_ticks=ticks(draft.latency_us),
        overhead_ticks=ticks(draft.overhead_us),
        dma=dma,
        pulls=pulls,
        op_class=draft.op_class,
    )


def _capacity(workload: Workload, machine: Machine) -> dict[str, Fraction]:
    """Return the capacity of every channel in MB/s, the machine's first."""
    capacity = {name: Fraction(mb_s) for name, mb_s in cost.channel_mb_s(machine).items()}
    return capacity | {channel.name: channel.rate_gb_s * 1000 for channel in workload.channels}


def loops_of(problem: Problem) -> tuple[TaskLoop, ...]:
    """Tasks of a bare problem: by label, each with the plan's own entry, in an order that dependencies allow.

    Labels whose ops depend on each other both ways cannot run back to back; they are one task.
    """
    if len({op.task for op in problem.ops}) == 1:
        ops = tuple(problem.ops[i].name for i in problem.topological_order)
        return (TaskLoop(problem.ops[0].task, ops, False, problem.entry_ticks),)
    # It takes as long to load as the rest of this room, and workloads have tasks of their own.
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    place = {op: k for k, op in enumerate(problem.topological_order)}
    names: dict[str, list[str]] = {}
    for i, op in enumerate(problem.ops):
        names.setdefault(op.task, []).append(op.name)
        graph.add_node(op.task)
        graph.add_edges_from((problem.ops[p].task, op.task) for p in problem.predecessors[i])
    order = {task: k for k, task in enumerate(names)}
    merged = nx.condensation(graph)
    members = {node: sorted(merged.nodes[node]["members"], key=order.__getitem__) for node in merged}
    return tuple(
        TaskLoop(
            " + ".join(members[node]),
            tuple(sorted((n for task in members[node] for n in names[task]), key=lambda n: place[problem.op_index[n]])),
            False,
            problem.entry_ticks,
        )
        for node in nx.lexicographical_topological_sort(merged, key=lambda node: order[members[node][0]])
    )
