"""Random small schedules with every feature that the tables must carry, from a seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from unit.emit.examples import schedule_of

from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Pool, Precedence, Problem, Scratchpad, Use

if TYPE_CHECKING:
    from hexloom.optimizer.schedule import Schedule

ENGINES = (
    Engine(name="hvx", units=3),
    Engine(name="hmx"),
    Engine(name="spare", units=2, kind="resource"),
    Engine(name="dma", units=2, kind="pipe"),
)
COMPUTING = {"hvx": 3, "hmx": 1, "spare": 2}


def random_schedule(seed: int, most_ops: int = 14, *, parts: bool = False) -> Schedule:
    """Return a schedule of the first random problem that has one; the same for the same seed.

    With ``parts`` buffers of several ops are ranges in parts.
    """
    rng = random.Random(seed)
    while True:
        problem = random_problem(rng, most_ops)
        if parts:
            problem = problem.changed(buffers=tuple(part for b in problem.buffers for part in drained(rng, b)))
        priorities = tuple(rng.random() for _ in problem.ops)
        if list_schedule(problem, Policy(priorities, (0,) * len(problem.ops))) is not None:
            return schedule_of(problem, f"random {seed}", priorities=priorities)


def random_problem(rng: random.Random, most_ops: int) -> Problem:
    """Return a problem; the order of ops in the file says nothing about the order they run in."""
    count = rng.randint(1, most_ops)
    ops = [
        Op(
            name=f"op{i}",
            task=rng.choice("ab"),
            stage=rng.choice("st"),
            tile=rng.randint(0, 9),
            modes=(random_mode(rng),),
        )
        for i in range(count)
    ]
    order = rng.sample(range(count), count)
    edges = [
        Precedence(before=ops[order[i]].name, after=ops[order[k]].name)
        for k in range(count)
        for i in range(k)
        if rng.random() < 1.5 / count
    ]
    buffers = []
    pools = rng.choice(((None,), (None,), (None, "near"), (None, "near", "far")))
    for k in range(rng.randint(0, count)):
        first = rng.randrange(count)
        users = order[first : first + rng.randint(0, 3)]
        buffers.append(
            Buffer(
                name=f"buffer{k}",
                size_bytes=rng.randint(0, 6),
                ops=tuple(ops[i].name for i in users),
                align_bytes=rng.choice((1, 2, 4)),
                granule_bytes=rng.choice((1, 2)),
                resident=life(rng, bool(users)),
                pool=rng.choice(pools),
            )
        )
    return Problem(
        name="random",
        engines=ENGINES,
        ops=tuple(ops),
        precedences=tuple(edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=rng.choice((8, 12, 16, 64))),
        pools=tuple(Pool(name=name, total_bytes=rng.choice((8, 12))) for name in pools if name),
        entry_ticks=rng.choice((0, 3)),
    )


def drained(rng: random.Random, buffer: Buffer) -> list[Buffer]:
    """Return a buffer of several ops in parts, of which each has one user more than the one below it."""
    if len(buffer.ops) < 2:
        return [buffer]
    ops = rng.sample(buffer.ops, len(buffer.ops))
    return [
        buffer.model_copy(
            update={
                "name": f"{buffer.name}.{k}",
                "size_bytes": rng.randint(0, 3),
                "ops": tuple(ops[: k + 1]),
                "align_bytes": buffer.align_bytes if k == 0 else 1,
                "part_of": buffer.name,
            }
        )
        for k in range(len(ops))
    ]


def life(rng: random.Random, used: bool) -> bool | str:
    """Mostly from the first user to the last, sometimes longer."""
    draw = rng.random()
    if used and draw > 0.8:
        return "from_start" if draw > 0.9 else "to_end"
    return draw < 0.1


def random_mode(rng: random.Random) -> Mode:
    """Return a gang, a transfer, a marker, a bare delay, or work on a resource alone; results may come late."""
    kind = rng.choice(("work", "work", "work", "dma", "dma", "marker", "delay"))
    late = rng.choice((0, 0, 0, 2))
    if kind == "marker":
        return Mode(latency_ticks=0)
    if kind == "delay":
        return Mode(latency_ticks=3)
    if kind == "dma":
        dma = Dma(owner_engine="hvx", owner_unit=rng.randrange(3), issue_ticks=rng.randint(0, 2), poll_ticks=1)
        ticks = rng.randint(1, 6)
        return Mode(uses=(Use(engine="dma", ticks=ticks),), latency_ticks=ticks + late, dma=dma)
    chosen = rng.sample(sorted(COMPUTING), rng.choice((1, 1, 2)))
    uses = tuple(Use(engine=e, ticks=rng.randint(1, 6), units=rng.randint(1, COMPUTING[e])) for e in chosen)
    longest = max(use.ticks for use in uses)
    return Mode(uses=uses, latency_ticks=longest + late, overhead_ticks=rng.choice((0, 1)))
