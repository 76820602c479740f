"""Random problems for property-based tests: small integers, every feature of the problem, tight scratchpads."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from hypothesis import strategies as st

from hexloom.formulations.problem import (
    Buffer,
    Channel,
    Dma,
    Engine,
    Mode,
    Op,
    Pool,
    Precedence,
    Problem,
    Pull,
    Scratchpad,
    Use,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

DEPTHS = st.sampled_from((None, None, None, 1, 2))
"""Places of a ring."""

MAX_LANES = 5
"""Hardware threads of all workers together: above it a plain search over events takes too long."""


@st.composite
def engine_sets(draw: DrawFn, dma: bool = True, pipes: bool = True) -> tuple[Engine, ...]:
    """One to three workers, sometimes counted units without threads, sometimes one pipe or two."""
    engines: list[Engine] = []
    left = MAX_LANES
    count = draw(st.integers(1, 3))
    for k in range(count):
        units = draw(st.integers(1, min(3, left - (count - k - 1))))
        left -= units
        engines.append(Engine(name=f"w{k}", units=units))
    if draw(st.booleans()):
        engines.append(Engine(name="r", units=draw(st.integers(1, 2)), kind="resource"))
    if dma and pipes:
        number = draw(st.integers(0, 2))
        if number >= 1:
            engines.append(Engine(name="queue", units=draw(st.integers(1, 2)), kind="pipe", depth=draw(DEPTHS)))
        if number == 2:
            engines.append(Engine(name="shared", units=draw(st.integers(1, 2)), kind="pipe"))
    return tuple(engines)


@st.composite
def computing_modes(draw: DrawFn, engines: Sequence[Engine], name: str) -> Mode:
    """Work on one or two engines, sometimes on fixed units, sometimes with a result that comes late."""
    counted = [e for e in engines if e.kind != "pipe"]
    chosen = draw(st.lists(st.sampled_from(counted), min_size=1, max_size=2, unique_by=lambda e: e.name))
    uses = []
    for engine in chosen:
        units = draw(st.integers(1, engine.units))
        fixed = draw(st.integers(0, 3)) == 3
        ids = None
        if fixed:
            ids = tuple(draw(st.lists(st.integers(0, engine.units - 1), min_size=units, max_size=units, unique=True)))
        uses.append(Use(engine=engine.name, ticks=draw(st.integers(1, 4)), units=units, unit_ids=ids))
    longest = max(use.ticks for use in uses)
    late = draw(st.sampled_from((0, 0, 0, 1, 2)))
    overhead = draw(st.sampled_from((0, 0, 1)))
    return Mode(name=name, uses=tuple(uses), latency_ticks=longest + late, overhead_ticks=overhead)


@st.composite
def marker_modes(draw: DrawFn, engines: Sequence[Engine], name: str) -> Mode:
    """No engine is taken: zero ticks, or a bare delay."""
    workers = [e for e in engines if e.kind == "worker"]
    uses = (Use(engine=workers[0].name, ticks=0),) if draw(st.booleans()) else ()
    return Mode(name=name, uses=uses, latency_ticks=draw(st.sampled_from((0, 0, 0, 2))))


@st.composite
def dma_modes(draw: DrawFn, engines: Sequence[Engine], name: str) -> Mode:
    """A transfer over none, one or all pipes; the shared pipe is held for less than the queue."""
    workers = [e for e in engines if e.kind == "worker"]
    pipes = [e for e in engines if e.kind == "pipe"]
    owner = draw(st.sampled_from(workers))
    ticks = draw(st.integers(1, 4))
    uses = []
    for k, pipe in enumerate(pipes):
        if draw(st.integers(0, 3)) == 3:
            continue
        held = ticks if k == 0 else draw(st.integers(0, ticks))
        uses.append(Use(engine=pipe.name, ticks=held, units=draw(st.integers(1, pipe.units))))
    longest = max((use.ticks for use in uses), default=0)
    late = draw(st.sampled_from((0, 0, 1, 2)))
    dma = Dma(
        owner_engine=owner.name,
        owner_unit=draw(st.integers(0, owner.units - 1)),
        issue_ticks=draw(st.integers(0, 2)),
        poll_ticks=draw(st.sampled_from((0, 0, 1))),
        descriptors=draw(st.sampled_from((1, 1, 1, 2))),
    )
    return Mode(name=name, uses=tuple(uses), latency_ticks=longest + late, dma=dma)


@st.composite
def channel_sets(draw: DrawFn) -> tuple[Channel, ...]:
    """No channel, one or two, in numbers that have divisors in common or none."""
    number = draw(st.sampled_from((0, 0, 1, 1, 2)))
    return tuple(Channel(name=f"c{k}", capacity=draw(st.sampled_from((1, 2, 4, 5, 6, 100)))) for k in range(number))


@st.composite
def mode_pulls(draw: DrawFn, channels: Sequence[Channel], sane: bool) -> tuple[Pull, ...]:
    """Demands from nothing to the whole of a channel; where they need not be ``sane``, sometimes more."""
    pulls = []
    for channel in channels:
        if draw(st.booleans()):
            parts = draw(st.integers(0, 4 if sane else 5))
            pulls.append(Pull(channel=channel.name, rate=-(-channel.capacity * parts // 4)))
    return tuple(pulls)


@st.composite
def op_modes(draw: DrawFn, engines: Sequence[Engine], dma: bool, channels: Sequence[Channel] = ()) -> tuple[Mode, ...]:
    """One or two modes of any kind; the first demands no more of a channel than there is."""
    kinds = ["compute", "compute", "compute", "marker"] + (["dma", "dma"] if dma else [])
    found = []
    for k in range(draw(st.sampled_from((1, 1, 2)))):
        kind = draw(st.sampled_from(kinds))
        make = {"compute": computing_modes, "marker": marker_modes, "dma": dma_modes}[kind]
        mode = draw(make(engines, f"m{k}"))
        found.append(mode.model_copy(update={"pulls": draw(mode_pulls(channels, sane=k == 0))}))
    return tuple(found)


@st.composite
def scratchpad_buffers(draw: DrawFn, names: Sequence[str], most: int) -> tuple[tuple[Buffer, ...], Scratchpad]:
    """Buffers in a scratchpad of a few bytes: aligned, rounded, pinned, resident; from roomy to hopeless."""
    reserved = draw(st.sampled_from((0, 0, 0, 2)))
    available = draw(st.sampled_from((8, 4, 6, 12, 64, 0, 3)))
    buffers = []
    for k in range(draw(st.integers(0, most))):
        align = draw(st.sampled_from((1, 1, 2, 4)))
        pin = None
        if draw(st.integers(0, 3)) == 3:
            pin = align * draw(st.integers(0, 8 // align))
        users = tuple(draw(st.lists(st.sampled_from(names), min_size=0, max_size=3, unique=True)))
        lives = (False, False, False, False, True, *(("from_start", "to_end") if users else ()))
        buffers.append(
            Buffer(
                name=f"b{k}",
                size_bytes=draw(st.integers(0, 5)),
                ops=users,
                align_bytes=align,
                granule_bytes=draw(st.sampled_from((1, 1, 2, 4))),
                address=pin,
                resident=draw(st.sampled_from(lives)),
            )
        )
    found = draw(overwriting(tuple(buffers)))
    return found, Scratchpad(total_bytes=available + reserved, reserved_bytes=reserved)


@st.composite
def in_ranges(draw: DrawFn, buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    """Sometimes the first buffers that can are parts of one range."""
    over = {name for b in buffers if b.overwrites is not None for name in (b.name, b.overwrites)}
    parts = [b for b in buffers if b.name not in over and b.ops][: draw(st.sampled_from((0, 0, 0, 2, 3)))]
    if len(parts) < 2:
        return buffers
    rest = {"resident": parts[0].resident, "pool": parts[0].pool, "align_bytes": 1, "address": None}
    head = parts[0].model_copy(update={"part_of": "range"})
    changed = {b.name: b.model_copy(update={**rest, "part_of": "range"}) for b in parts[1:]} | {head.name: head}
    return tuple(changed.get(b.name, b) for b in buffers)


@st.composite
def overwriting(draw: DrawFn, buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    """Sometimes a buffer may take the address of a larger one that a common op reads."""
    found = list(buffers)
    for k, new in enumerate(buffers):
        for old in buffers:
            common = set(new.ops) & set(old.ops)
            smaller = new.occupied_bytes <= old.occupied_bytes
            lives = old.resident not in (True, "to_end") and new.resident not in (True, "from_start")
            # One op puts nothing over what it puts over something else.
            users = {b.name: set(b.ops) for b in buffers}
            chained = any(
                b.overwrites is not None
                and users[b.name] & users[b.overwrites] == common
                and (b.name == old.name or b.overwrites == new.name)
                for b in found
            )
            mutual = any(b.name == old.name and b.overwrites == new.name for b in found)
            if old is new or len(common) != 1 or not smaller or not lives or mutual or chained:
                continue
            if draw(st.booleans()):
                found[k] = new.model_copy(update={"overwrites": old.name})
                break
    return tuple(found)


def problems(
    max_ops: int = 6, min_ops: int = 1, dma: bool = True, pipes: bool = True, max_buffers: int = 4
) -> st.SearchStrategy[Problem]:
    """Any small problem; its channels, if it has any, are rigid."""
    return with_channels(max_ops, min_ops, dma, pipes, max_buffers).map(lambda problem: problem.under("rigid"))


@st.composite
def with_channels(
    draw: DrawFn,
    max_ops: int = 6,
    min_ops: int = 1,
    dma: bool = True,
    pipes: bool = True,
    max_buffers: int = 4,
) -> Problem:
    """Any small problem; the order of its ops in the file says nothing about the order they run in."""
    engines = draw(engine_sets(dma, pipes))
    channels = draw(channel_sets())
    n = draw(st.integers(min_ops, max_ops))
    order = draw(st.permutations(range(n)))
    ops = tuple(
        Op(
            name=f"o{i}",
            task=draw(st.sampled_from(("a", "b"))),
            stage=draw(st.sampled_from(("s", "t"))),
            tile=draw(st.integers(0, 2)),
            modes=draw(op_modes(engines, dma, channels)),
        )
        for i in range(n)
    )
    edges: list[Precedence] = []
    if n > 1:
        pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] < pair[1])
        for low, high in draw(st.lists(pairs, max_size=n, unique=True)):
            edges.append(Precedence(before=f"o{order[low]}", after=f"o{order[high]}"))
    buffers, scratchpad = draw(scratchpad_buffers([op.name for op in ops], max_buffers))
    pools = draw(st.sampled_from(((), (), (), (Pool(name="near", total_bytes=7, reserved_bytes=1),))))
    if pools:
        place = {b.name: draw(st.sampled_from((None, "near"))) for b in buffers}
        buffers = tuple(
            b.model_copy(
                update={
                    "pool": place[b.name],
                    "overwrites": b.overwrites if place.get(b.overwrites or "") == place[b.name] else None,
                }
            )
            for b in buffers
        )
    buffers = draw(in_ranges(buffers))
    return Problem(
        engines=engines,
        channels=channels,
        ops=ops,
        precedences=tuple(edges),
        buffers=buffers,
        scratchpad=scratchpad,
        pools=pools,
        entry_ticks=draw(st.sampled_from((0, 0, 1, 2))),
    )


@st.composite
def held_through(draw: DrawFn) -> Problem:
    """Two or three tasks whose jobs share one engine and a long-lived buffer each; not all of these fit together."""
    engines = (Engine(name="w", units=draw(st.integers(1, 2))), Engine(name="one"))
    ops: list[Op] = []
    edges: list[Precedence] = []
    buffers: list[Buffer] = []

    def op(name: str, engine: str, task: int) -> str:
        ticks = draw(st.integers(1, 4))
        mode = Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks + draw(st.sampled_from((0, 0, 1))))
        ops.append(Op(name=name, task=str(task), modes=(mode,)))
        return name

    tasks = draw(st.integers(2, 3))
    for t in range(tasks):
        jobs = [op(f"{t}{k}", "one", t) for k in range(draw(st.integers(1, 2 if tasks == 2 else 1)) + (tasks == 3))]
        size = draw(st.integers(3, 5))
        buffers.append(Buffer(name=f"long{t}", size_bytes=size, ops=tuple(jobs)))
        if draw(st.booleans()) and len(ops) < 6:
            edges.append(Precedence(before=op(f"{t}before", "w", t), after=jobs[0]))
            if draw(st.booleans()):
                buffers.append(Buffer(name=f"in{t}", size_bytes=1, ops=(f"{t}before", jobs[0])))
        if draw(st.booleans()) and len(ops) < 6:
            edges.append(Precedence(before=jobs[-1], after=op(f"{t}after", "w", t)))
    return Problem(
        engines=engines,
        ops=tuple(ops),
        precedences=tuple(edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=draw(st.integers(5, 9))),
        entry_ticks=draw(st.sampled_from((0, 0, 2))),
    )


@st.composite
def draining(draw: DrawFn) -> Problem:
    """One or two ranges that are filled, and read bit by bit from one end, beside buffers that could use what is free.

    Parts need not free in their order, and not every reader needs the rest.
    """
    engines = (
        *(Engine(name=f"w{k}", units=draw(st.integers(1, 2))) for k in range(2)),
        Engine(name="ddr", kind="pipe"),
    )
    ops: list[Op] = []
    edges: list[Precedence] = []
    buffers: list[Buffer] = []

    def op(name: str, *, moves: bool = False) -> str:
        ticks = draw(st.sampled_from((1, 2, 3, 3, 0)))
        if moves:
            dma = Dma(owner_engine="w0", owner_unit=0, issue_ticks=draw(st.sampled_from((0, 1))))
            mode = Mode(uses=(Use(engine="ddr", ticks=ticks),), latency_ticks=ticks, dma=dma)
        else:
            engine = draw(st.sampled_from(engines[:2])).name
            mode = Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks + draw(st.sampled_from((0, 0, 1))))
        ops.append(Op(name=name, task=name[0], tile=draw(st.integers(0, 1)), modes=(mode,)))
        return name

    for range_ in "ab"[: draw(st.sampled_from((1, 1, 2)))]:
        fill = op(f"{range_}fill", moves=draw(st.integers(0, 3)) == 3)
        steps = [op(f"{range_}{k}") for k in range(draw(st.integers(1, 3 if len(ops) == 1 else 1)))]
        edges += [Precedence(before=fill, after=step) for step in steps]
        if draw(st.booleans()):
            edges += [Precedence(before=one, after=other) for one, other in pairwise(steps)]
        resident = draw(st.sampled_from((False, False, False, "from_start", "to_end", True)))
        pin = draw(st.sampled_from((None, None, None, 0, 2)))
        for k in range(len(steps) + 1):
            users = (fill, *steps[: k + 1]) if draw(st.integers(0, 5)) else draw(st.permutations(steps))[:2]
            buffers.append(
                Buffer(
                    name=f"{range_}[{k}]",
                    size_bytes=draw(st.sampled_from((1, 1, 2, 3, 0))),
                    ops=tuple(users),
                    align_bytes=draw(st.sampled_from((1, 1, 2))) if k == 0 else 1,
                    granule_bytes=draw(st.sampled_from((1, 1, 1, 2))),
                    address=pin if k == 0 else None,
                    resident=resident,
                    part_of=range_,
                )
            )
    for k in range(draw(st.integers(0, 2))):
        users = [op(f"x{k}")] if len(ops) < 6 else []
        users += draw(st.lists(st.sampled_from([o.name for o in ops]), max_size=1))
        buffers.append(
            Buffer(name=f"y{k}", size_bytes=draw(st.integers(1, 3)), ops=tuple(dict.fromkeys(users)), align_bytes=1)
        )
    pools = draw(st.sampled_from(((), (), (), (Pool(name="near", total_bytes=5),))))
    place = {b.part_of or b.name: draw(st.sampled_from((None, "near"))) if pools else None for b in buffers}
    buffers = [b.model_copy(update={"pool": place[b.part_of or b.name]}) for b in buffers]
    return Problem(
        engines=engines,
        ops=tuple(ops),
        precedences=tuple(edges),
        buffers=tuple(sorted(buffers, key=lambda b: b.part_of or "") if draw(st.booleans()) else buffers),
        scratchpad=Scratchpad(total_bytes=draw(st.integers(4, 10))),
        pools=pools,
        entry_ticks=draw(st.sampled_from((0, 0, 2))),
    )


@st.composite
def chains_in_place(draw: DrawFn) -> Problem:
    """One or two chains in which each op reads what the last one wrote, and may write its own result there."""
    engines = tuple(Engine(name=f"w{k}", units=draw(st.integers(1, 2))) for k in range(2))
    ops: list[Op] = []
    edges: list[Precedence] = []
    buffers: list[Buffer] = []

    def op(name: str) -> str:
        ticks = draw(st.sampled_from((1, 2, 3, 3, 0)))
        engine = draw(st.sampled_from(engines)).name
        mode = Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks + draw(st.sampled_from((0, 0, 1))))
        ops.append(Op(name=name, task=name[0], modes=(mode,)))
        return name

    for chain in "ab"[: draw(st.integers(1, 2))]:
        steps = [op(f"{chain}{k}") for k in range(draw(st.integers(2, 3)))]
        edges += [Precedence(before=one, after=other) for one, other in pairwise(steps)]
        extra = [op(f"{chain}x")] if len(ops) < 6 and draw(st.booleans()) else []
        if extra and draw(st.booleans()):
            edges.append(Precedence(before=steps[0], after=extra[0]))
        size = draw(st.integers(2, 4))
        for k, step in enumerate(steps):
            size = size if k == 0 else draw(st.integers(1, size))
            lives: tuple[bool | Literal["from_start", "to_end"], ...] = (False, False, "to_end")
            buffers.append(
                Buffer(
                    name=f"{chain}{k}.out",
                    size_bytes=size,
                    ops=(step, *steps[k + 1 : k + 2], *(extra if k == 0 else ())),
                    align_bytes=draw(st.sampled_from((1, 1, 1, 2))),
                    overwrites=f"{chain}{k - 1}.out" if k and draw(st.integers(0, 4)) else None,
                    resident=draw(st.sampled_from(lives)) if k == len(steps) - 1 else False,
                )
            )
    return Problem(
        engines=engines,
        ops=tuple(ops),
        precedences=tuple(edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=draw(st.integers(3, 9))),
        entry_ticks=draw(st.sampled_from((0, 0, 2))),
    )
