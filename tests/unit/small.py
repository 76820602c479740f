"""Short ways to write small problems, decisions and plans by hand."""

from __future__ import annotations

from typing import Any

from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait

ENGINES = (
    Engine(name="hvx", units=2),
    Engine(name="hmx"),
    Engine(name="lut", kind="resource"),
    Engine(name="ddr", kind="pipe"),
)


def held(engine: str, ticks: int, units: int = 1, ids: tuple[int, ...] | None = None) -> Use:
    return Use(engine=engine, ticks=ticks, units=units, unit_ids=ids)


def run(name: str, *uses: Use, latency: int | None = None, overhead: int = 0, **keys: Any) -> Op:
    """Return an op of one mode whose result exists when its longest use is over, unless ``latency`` is given."""
    longest = max((use.ticks for use in uses), default=0)
    mode = Mode(uses=uses, latency_ticks=longest if latency is None else latency, overhead_ticks=overhead)
    return Op(name=name, modes=(mode,), **keys)


def on(engine: str, name: str, ticks: int, **keys: Any) -> Op:
    return run(name, held(engine, ticks), **keys)


def move(
    name: str, ticks: int, owner: int = 0, latency: int | None = None, issue: int = 0, poll: int = 0, **keys: Any
) -> Op:
    pipes = keys.pop("pipes", {"ddr": ticks})
    dma = Dma(owner_engine="hvx", owner_unit=owner, issue_ticks=issue, poll_ticks=poll)
    uses = tuple(held(pipe, t) for pipe, t in pipes.items())
    mode = Mode(uses=uses, latency_ticks=ticks if latency is None else latency, dma=dma)
    return Op(name=name, modes=(mode,), **keys)


def problem(*ops: Op, after: str = "", buffers: tuple[Buffer, ...] = (), capacity: int = 0, **keys: Any) -> Problem:
    """Return a problem; ``after`` holds edges such as ``a>b b>c``."""
    edges = [edge.split(">") for edge in after.split()]
    return Problem(
        engines=keys.pop("engines", ENGINES),
        ops=ops,
        precedences=tuple(Precedence(before=a, after=b) for a, b in edges),
        buffers=buffers,
        scratchpad=Scratchpad(total_bytes=capacity),
        **keys,
    )


def buffer(name: str, size: int, *ops: str, **keys: Any) -> Buffer:
    return Buffer(name=name, size_bytes=size, ops=ops, **keys)


def plan(of: Problem, waits: str = "", **queues: str) -> Plan:
    """Return a plan; a queue such as ``hvx0="a, start b, wait b"``; the first mode of every op."""
    lanes = []
    for name, steps in queues.items():
        entries = [step.split() for step in steps.split(", ")]
        lanes.append(
            Queue.model_validate(
                {
                    "engine": name[:-1],
                    "unit": int(name[-1]),
                    "entries": [QueueEntry(op=e[-1], action=e[0] if len(e) == 2 else "run") for e in entries],  # type: ignore[arg-type]
                }
            )
        )
    pairs = [edge.split(">") for edge in waits.split()]
    return Plan(
        assignments=tuple(Assignment(op=op.name) for op in of.ops),
        queues=tuple(lanes),
        waits=tuple(Wait(before=a, after=b) for a, b in pairs),
        addresses={},
    )
