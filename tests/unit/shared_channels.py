"""Short ways to write problems whose ops share channels: every op on an engine of its own name."""

from __future__ import annotations

from fractions import Fraction

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
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait

DDR = Channel(name="ddr", capacity=100)


def pulling(name: str, ticks: int, engine: str | None = None, op_class: str = "", **rates: int) -> Op:
    """Return an op of ``ticks`` at full speed that demands ``rates`` of channels."""
    use = Use(engine=engine or name, ticks=ticks)
    pulls = tuple(Pull(channel=channel, rate=rate) for channel, rate in rates.items())
    return Op(name=name, modes=(Mode(uses=(use,), latency_ticks=ticks, pulls=pulls, op_class=op_class),))


def moving(name: str, ticks: int, owner: str, issue: int = 0, poll: int = 0, **rates: int) -> Op:
    """Return a transfer without pipes that demands ``rates`` of channels."""
    pulls = tuple(Pull(channel=channel, rate=rate) for channel, rate in rates.items())
    dma = Dma(owner_engine=owner, owner_unit=0, issue_ticks=issue, poll_ticks=poll)
    return Op(name=name, modes=(Mode(latency_ticks=ticks, dma=dma, pulls=pulls),))


def sharing(
    *ops: Op, after: str = "", channels: tuple[Channel, ...] = (DDR,), factors: str = "", owners: str = ""
) -> Problem:
    """Return a problem; ``after`` holds edges such as ``a>b``, ``factors`` such as ``victim<cause=3/10``."""
    engines = [use.engine for op in ops for mode in op.modes for use in mode.uses]
    found = []
    for factor in factors.split():
        pair, _, value = factor.partition("=")
        victim, _, cause = pair.partition("<")
        found.append(Interference(victim=victim, cause=cause, factor=value))
    return Problem(
        engines=tuple(Engine(name=name) for name in dict.fromkeys([*engines, *owners.split()])),
        channels=channels,
        interference=tuple(found),
        ops=ops,
        precedences=tuple(Precedence(before=e.split(">")[0], after=e.split(">")[1]) for e in after.split()),
    )


def free_plan(of: Problem, waits: str = "") -> Plan:
    """Return the plan in which queues take their ops in the order of the problem, each as soon as it can."""
    lanes: dict[str, list[QueueEntry]] = {engine.name: [] for engine in of.engines}
    for op in of.ops:
        mode = op.modes[0]
        for use in mode.uses:
            lanes[use.engine].append(QueueEntry(op=op.name, action="run"))
        if mode.dma is not None:
            lanes[mode.dma.owner_engine].append(QueueEntry(op=op.name, action="start"))
    for op in of.ops:
        dma = op.modes[0].dma
        if dma is not None:
            lanes[dma.owner_engine].append(QueueEntry(op=op.name, action="wait"))
    edges = [edge.split(">") for edge in waits.split()] + [[e.before, e.after] for e in of.precedences]
    return Plan(
        assignments=tuple(
            Assignment(op=op.name, units={use.engine: (0,) for use in op.modes[0].uses}) for op in of.ops
        ),
        queues=tuple(Queue(engine=name, unit=0, entries=tuple(of_lane)) for name, of_lane in lanes.items() if of_lane),
        waits=tuple(Wait(before=a, after=b) for a, b in edges),
        addresses={},
    )


def fractions(*numbers: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(number) for number in numbers)
