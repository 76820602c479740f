"""Random problems whose ops share channels: nested channels, both directions, interference, transfers of few owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from hexloom.formulations.decision import Decision
from hexloom.formulations.problem import (
    Channel,
    Dma,
    Engine,
    Interference,
    Mode,
    Op,
    Precedence,
    Problem,
    Pull,
    Use,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

SHARING_RULES = st.sampled_from(("fluid", "fluid", "proportional", "priority"))

CLASSES = ("", "vector", "matrix")

CHANNELS = (
    (Channel(name="ddr", capacity=100),),
    (Channel(name="l2", capacity=60), Channel(name="total", capacity=100)),
    (Channel(name="in", capacity=100), Channel(name="out", capacity=60)),
    (Channel(name="queue", capacity=50), Channel(name="pipe", capacity=80), Channel(name="ddr", capacity=100)),
)
"""One; an inner and an outer one; two directions, which a copy uses both; three, each inside the next."""

RATES = (0, 30, 50, 60, 70, 75, 90, 100, 130)
"""Bytes of full speed: nothing, parts of a channel, and more than it can serve."""


@st.composite
def pulls(draw: DrawFn, channels: Sequence[Channel]) -> tuple[Pull, ...]:
    """No channel, one, or several with one rate or with rates of their own (as cache hits make them)."""
    names = draw(st.lists(st.sampled_from([c.name for c in channels]), unique=True, max_size=len(channels)))
    same = draw(st.sampled_from(RATES))
    own = draw(st.booleans())
    return tuple(Pull(channel=name, rate=draw(st.sampled_from(RATES)) if own else same) for name in names)


@st.composite
def sharing_modes(draw: DrawFn, engines: Sequence[Engine], channels: Sequence[Channel], name: str) -> Mode:
    """Work on an engine, sometimes on two, sometimes with overhead, with a result that comes late, or of no length."""
    uses = []
    held = draw(st.sampled_from((1, 2, 3, 4, 5, 6, 0)))
    chosen = draw(st.permutations([e for e in engines if e.kind != "pipe"]))
    for engine in chosen[: draw(st.sampled_from((1, 1, 1, 2)))]:
        ticks = held if not uses else draw(st.integers(0, 4))
        uses.append(Use(engine=engine.name, ticks=ticks))
    longest = max(use.ticks for use in uses)
    return Mode(
        name=name,
        uses=tuple(uses),
        latency_ticks=longest + draw(st.sampled_from((0, 0, 0, 2))),
        overhead_ticks=draw(st.sampled_from((0, 0, 0, 1))),
        pulls=draw(pulls(channels)),
        op_class=draw(st.sampled_from(CLASSES)),
    )


@st.composite
def sharing_transfers(draw: DrawFn, engines: Sequence[Engine], channels: Sequence[Channel], name: str) -> Mode:
    """A transfer by the first thread of some worker, through the pipe if there is one."""
    workers = [e for e in engines if e.kind == "worker"]
    dma = Dma(
        owner_engine=draw(st.sampled_from(workers)).name,
        owner_unit=0,
        issue_ticks=draw(st.sampled_from((0, 0, 1))),
        poll_ticks=draw(st.sampled_from((0, 0, 1))),
    )
    held = draw(st.integers(0, 5))
    pipes = [e for e in engines if e.kind == "pipe"]
    uses = tuple(Use(engine=e.name, ticks=held) for e in pipes if draw(st.booleans()))
    latency = held + draw(st.sampled_from((0, 0, 1)))
    op_class = draw(st.sampled_from(CLASSES))
    return Mode(name=name, uses=uses, latency_ticks=latency, dma=dma, pulls=draw(pulls(channels)), op_class=op_class)


@st.composite
def sharing_engines(draw: DrawFn) -> tuple[Engine, ...]:
    """Two or three workers, of which one may have two threads, sometimes units without a thread, sometimes a pipe."""
    engines = [Engine(name="hmx"), Engine(name="hvx", units=draw(st.sampled_from((1, 1, 2))))]
    if draw(st.booleans()):
        engines.append(Engine(name="core"))
    if draw(st.integers(0, 3)) == 3:
        engines.append(Engine(name="unit", kind="resource"))
    if draw(st.booleans()):
        engines.append(Engine(name="dma", kind="pipe"))
    return tuple(engines)


@st.composite
def sharing_problems(
    draw: DrawFn, min_ops: int = 1, max_ops: int = 4, interference: bool = True, transfers: bool = True
) -> Problem:
    """Any small problem without buffers whose ops share channels; chains, forks, joins, or none of them."""
    engines = draw(sharing_engines())
    channels = draw(st.sampled_from(CHANNELS))
    n = draw(st.integers(min_ops, max_ops))
    ops = []
    for i in range(n):
        modes = []
        for k in range(draw(st.sampled_from((1, 1, 1, 1, 1, 2)))):
            kind = sharing_transfers if transfers and draw(st.integers(0, 3)) == 3 else sharing_modes
            modes.append(draw(kind(engines, channels, f"m{k}")))
        ops.append(Op(name=f"o{i}", modes=tuple(modes)))
    order = draw(st.permutations(range(n)))
    edges: list[Precedence] = []
    if n > 1:
        pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] < pair[1])
        for low, high in draw(st.lists(pairs, max_size=n, unique=True)):
            edges.append(Precedence(before=f"o{order[low]}", after=f"o{order[high]}"))
    factors = []
    if interference and draw(st.booleans()):
        for victim, cause in draw(
            st.lists(st.tuples(st.sampled_from(CLASSES[1:]), st.sampled_from(CLASSES[1:])), unique=True, max_size=3)
        ):
            value = draw(st.sampled_from(("1/2", "3/10", "4/5", "1")))
            factors.append(Interference(victim=victim, cause=cause, factor=value))
    return Problem(
        engines=engines,
        channels=channels,
        interference=tuple(factors),
        ops=tuple(ops),
        precedences=tuple(edges),
        entry_ticks=draw(st.sampled_from((0, 0, 1))),
    )


@st.composite
def decisions(draw: DrawFn, problem: Problem) -> Decision:
    """Any decision for a problem without buffers: an order of actions, and guards that agree with it."""
    n = len(problem.ops)
    modes = [draw(st.integers(0, len(op.modes) - 1)) for op in problem.ops]
    chosen = [op.modes[m] for op, m in zip(problem.ops, modes, strict=True)]
    count = {e.name: e.units for e in problem.engines}
    units: list[tuple[tuple[int, ...], ...]] = []
    for mode in chosen:
        held: list[tuple[int, ...]] = []
        for use in mode.uses:
            free = range(0 if mode.dma is not None or use.ticks == 0 else count[use.engine])
            held.append(tuple(sorted(draw(st.permutations(free))[: use.units])))
        units.append(tuple(held))
    actions: list[int] = []
    ended: list[int] = []
    while len(ended) < n:
        able = [i for i in range(n) if i not in actions and set(problem.predecessors[i]) <= set(ended)]
        able += [~i for i in actions if i >= 0 and i not in ended]
        action = draw(st.sampled_from(able))
        actions.append(action)
        if action < 0 or chosen[action].dma is None:
            ended.append(action if action >= 0 else ~action)
    guards: list[tuple[int, int]] = []
    if n > 1:
        for a, b in draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3, unique=True)):
            known = actions.index(a if chosen[a].dma is None else ~a)
            if a != b and known < actions.index(b):
                guards.append((a, b))
    return Decision(tuple(modes), tuple(units), tuple(actions), (), tuple(sorted(guards)))
