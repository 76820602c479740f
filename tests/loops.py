"""Small loops: builders for tests, and random bodies with every feature of a loop."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from hexloom.formulations.mode import Channel, Engine, Mode, Pull, Use
from hexloom.formulations.periodic.loop import Dependency, Loop, LoopBuffer, LoopOp, LoopUser
from hexloom.formulations.problem import Scratchpad

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn


def op(
    name: str,
    engine: str | None = None,
    ticks: int = 1,
    latency: int | None = None,
    units: int = 1,
    ids: tuple[int, ...] | None = None,
    pulls: tuple[Pull, ...] = (),
) -> LoopOp:
    uses = () if engine is None else (Use(engine=engine, ticks=ticks, units=units, unit_ids=ids),)
    mode = Mode(uses=uses, latency_ticks=ticks if latency is None else latency, pulls=pulls)
    return LoopOp(name=name, mode=mode)


def dep(before: str, after: str, distance: int = 0, delay: int | None = None) -> Dependency:
    return Dependency(before=before, after=after, distance=distance, delay_ticks=delay)


def buf(name: str, size: int, *users: str | tuple[str, int], depth: int | None = None, align: int = 1) -> LoopBuffer:
    pairs = [(user, 0) if isinstance(user, str) else user for user in users]
    found = tuple(LoopUser(op=name, distance=distance) for name, distance in pairs)
    return LoopBuffer(name=name, size_bytes=size, users=found, depth=depth, align_bytes=align)


def engines(**units: int) -> tuple[Engine, ...]:
    """Engines whose units are hardware threads."""
    return tuple(Engine(name=name, units=count) for name, count in units.items())


def counted(**units: int) -> tuple[Engine, ...]:
    """Engines of which only the number in use counts."""
    return tuple(Engine(name=name, units=count, kind="resource") for name, count in units.items())


def loop(
    *ops: LoopOp,
    deps: tuple[Dependency, ...] = (),
    on: tuple[Engine, ...] = (),
    buffers: tuple[LoopBuffer, ...] = (),
    capacity: int = 0,
    **more: object,
) -> Loop:
    pad = Scratchpad(total_bytes=capacity)
    return Loop(ops=ops, dependencies=deps, engines=on, buffers=buffers, scratchpad=pad, **more)  # type: ignore[arg-type]


def four_stages(a: int, b: int, c: int, d: int, depths: tuple[int, int, int] = (1, 2, 2)) -> Loop:
    """htp-ops-lib's matrix product: load, dequantise, multiply, store; dequantising and storing share HVX."""
    return loop(
        op("A", "dma", a),
        op("B", "hvx", b),
        op("C", "hmx", c),
        op("D", "hvx", d),
        deps=(dep("A", "B"), dep("B", "C"), dep("C", "D")),
        on=engines(dma=1, hvx=1, hmx=1),
        buffers=(
            buf("raw", 3, "A", "B", depth=depths[0]),
            buf("weights", 4, "B", "C", depth=depths[1]),
            buf("out", 2, "C", "D", depth=depths[2]),
        ),
        capacity=3 * depths[0] + 4 * depths[1] + 2 * depths[2],
    )


@st.composite
def loops(draw: DrawFn, most_ops: int = 4, memory: bool = True) -> Loop:
    """Draw up to ``most_ops`` short ops on up to two engines, with cycles, late results, pins and tight rings."""
    kinds = draw(st.lists(st.sampled_from(("worker", "resource")), min_size=1, max_size=2))
    machine = tuple(
        Engine(name=f"e{k}", units=draw(st.integers(1, 2)), kind=kind)  # type: ignore[arg-type]
        for k, kind in enumerate(kinds)
    )
    rule = draw(st.sampled_from(("none", "rigid", "fluid")))
    channel = Channel(name="ddr", capacity=3)
    ops = []
    for i in range(draw(st.integers(1, most_ops))):
        engine = draw(st.sampled_from((*machine, None)))
        ticks = draw(st.integers(1, 3))
        units = 1 if engine is None else draw(st.integers(1, engine.units))
        ids = None
        if engine is not None and units == 1 and draw(st.integers(0, 3)) == 0:
            ids = (draw(st.integers(0, engine.units - 1)),)
        pulls = (Pull(channel="ddr", rate=draw(st.integers(1, 3))),) if draw(st.booleans()) else ()
        late = draw(st.sampled_from((0, 0, 1)))
        ops.append(op(f"o{i}", None if engine is None else engine.name, ticks, ticks + late, units, ids, pulls))
    edges = []
    for before in range(len(ops)):
        for after in range(len(ops)):
            if draw(st.integers(0, 2)) == 0:
                distance = draw(st.integers(0, 1)) if before < after else draw(st.integers(1, 2))
                edges.append(
                    dep(ops[before].name, ops[after].name, distance, draw(st.sampled_from((None, None, 0, 2))))
                )
    buffers = []
    capacity = draw(st.integers(2, 4))
    for b in range(draw(st.integers(0, 2)) if memory else 0):
        users = draw(st.lists(st.sampled_from([o.name for o in ops]), min_size=1, max_size=2, unique=True))
        pairs = [(user, draw(st.sampled_from((0, 0, 0, 1)))) for user in users]
        size, depth = draw(st.integers(1, 2)), draw(st.sampled_from((None, None, 1, 2)))
        buffers.append(buf(f"b{b}", size, *pairs, depth=depth, align=draw(st.sampled_from((1, 1, 2)))))
    return loop(
        *ops, deps=tuple(edges), on=machine, buffers=tuple(buffers), capacity=capacity, channels=(channel,), rule=rule
    )


REFUTED = {
    "bytes": (14, 15, 16, 20, 38, 41, 57),
    "longer": (0, 1, 3, 5, 6, 7, 10),
    "split": (1, 4, 5, 6, 10, 14),
}
"""By kind, seeds of `body` for which the best bound on the interval is too low."""


def body(kind: str, seed: int) -> Loop:
    """Return a chain of 5 to 7 ops: tight ``bytes``, ops ``longer`` than the interval, or ``split`` units."""
    rng = random.Random(f"{kind}:{seed}")
    names = [f"o{i}" for i in range(rng.randint(5, 7))]
    deps = [dep(before, after) for before, after in pairwise(names) if rng.random() < 0.7]
    if kind == "bytes":
        ops = [op(name, rng.choice("xy"), rng.randint(1, 4)) for name in names]
        sizes = {pair: rng.randint(1, 3) for pair in pairwise(names)}
        buffers = tuple(buf(f"{a}-{b}", size, a, b) for (a, b), size in sizes.items())
        return loop(
            *ops,
            deps=tuple(deps),
            on=engines(x=1, y=1),
            buffers=buffers,
            capacity=rng.randint(5, 2 + sum(sizes.values())),
        )
    if kind == "longer":
        units = rng.randint(3, 4)
        ops = [op(name, "x", 9 if i == 0 else rng.choice((1, 2, 3, 5))) for i, name in enumerate(names)]
        return loop(*ops, deps=tuple(deps), on=engines(x=units))
    ops = []
    for name in names:
        units = rng.randint(1, 2)
        ids = (rng.randint(0, 2),) if units == 1 and rng.random() < 0.3 else None
        ops.append(op(name, "x", rng.randint(1, 4), units=units, ids=ids))
    return loop(*ops, deps=tuple(deps), on=engines(x=3))
