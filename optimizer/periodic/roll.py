"""From a problem of a few iterations to the loops in it: bodies, distances, rings. What is no loop is told.

The same workload is lowered with ``n`` iterations of every task and with ``n + 1``. Stages of which there are more the
second time belong to bodies, the others run once; the ops of a stage stand in the order of their iterations. Whatever
is said of iteration ``j`` must be said of ``j + 1``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from hexloom.formulations.periodic.loop import Dependency, Loop, LoopBuffer, LoopOp, LoopUser
from hexloom.formulations.problem import Mode, Use
from hexloom.optimizer.kernels.spec import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hexloom.formulations.problem import Buffer, Op, Problem, Rule

FINER = 16
"""Parts of a tick in which bodies are scheduled: moments without length take one of them."""

FEWEST = 3
"""Iterations of a loop at least: the first, and two by which one sees that they go on alike."""

START, WAIT = "@start", "@wait"
"""A transfer is three ops of a body: its issue, itself, and the look of its owner that ends it."""


class Key(NamedTuple):
    """The ``part``-th op of a stage in every iteration of a task."""

    task: str
    stage: str
    part: int

    def __str__(self) -> str:
        return f"{self.task}/{self.stage}.{self.part}"


Shape = tuple[tuple[Key, int], ...]
"""Who uses a buffer: ops of the body, and so many iterations after the first of them."""


class NotALoopError(Exception):
    """Why a workload cannot be scheduled as loops, in words."""


class ImpossibleLoopError(NotALoopError):
    """Why no plan at all can have an iteration of a loop: it asks for more than there is."""


@dataclass(frozen=True)
class Rolled:
    """The loops of ``problem``, which has so many ``iterations`` of every task.

    ``place[i]`` says of op i which one of a body it is, and in which iteration; None of an op that runs once. ``rings``
    are buffers of bodies: per buffer of the problem its name in the body and its iteration. All other buffers keep an
    address of their own.
    """

    problem: Problem
    iterations: dict[str, int]
    place: tuple[tuple[Key, int] | None, ...]
    rings: dict[int, tuple[str, int]]
    loops: dict[str, Loop]

    @cached_property
    def once(self) -> tuple[int, ...]:
        """Positions of the ops that run once."""
        return tuple(i for i, at in enumerate(self.place) if at is None)


def parts_of_stages(short: Problem, longer: Problem) -> dict[tuple[str, str], int]:
    """Return how many ops of each (task, stage) an iteration has: so many more are in ``longer``, which has one more.

    Raises
    ------
    NotALoopError
        There are fewer.
    """
    count, more = (Counter((op.task, op.stage) for op in problem.ops) for problem in (short, longer))
    for (task, stage), n in count.items():
        if more[task, stage] < n:
            raise NotALoopError(f"task {task!r} has fewer ops of stage {stage!r} when it has more iterations")
    return {stage: more[stage] - n for stage, n in count.items() if more[stage] > n}


def roll(short: Problem, parts: dict[tuple[str, str], int], iterations: dict[str, int], rule: Rule) -> Rolled:
    """Return the loops of ``short``, where an iteration has so many ``parts`` of each (task, stage).

    Raises
    ------
    NotALoopError
        Iterations differ in more than their number, or need what bodies do not know.
    """
    _refuse_unknown(short)
    for task, n in iterations.items():
        if n < FEWEST:
            raise NotALoopError(f"task {task!r} has iterations: {n}; loops begin at {FEWEST}")
    place = _places(short, parts, iterations)
    middle = {task: n // 2 for task, n in iterations.items()}
    rings, buffers = _rings(short, place, iterations, middle)
    loops = {}
    for task, j in middle.items():
        ops = {
            key: short.ops[i]
            for i, at in enumerate(place)
            if at is not None
            for key in [at[0]]
            if at == (key, j) and key.task == task
        }
        if not ops:
            raise NotALoopError(f"task {task!r} has no op of which every iteration has one")
        make = partial(
            Loop,
            name=task,
            ops=tuple(part for key, op in ops.items() for part in _body_ops(short, key, op)),
            dependencies=tuple(_dependencies(short, ops, _edges(short, place, task, j))),
            engines=tuple(engine.model_copy(update={"depth": None}) for engine in short.engines),
            channels=short.channels,
            rule="none" if rule == "none" else "rigid" if rule == "rigid" else "fluid",
            buffers=tuple(buffers[task]),
            scratchpad=short.scratchpad,
        )  # fmt: skip
        loops[task] = as_loop(task, make)
    return Rolled(short, iterations, place, rings, loops)


def as_loop(task: str, make: Callable[[], Loop]) -> Loop:
    """Return the body of ``task``.

    Raises
    ------
    ImpossibleLoopError
        One iteration alone asks for more than there is, of the scratchpad or, under rule ``rigid``, of a channel.
    """
    try:
        return make()
    except ValidationError as error:
        raise ImpossibleLoopError(f"task {task!r}: {explain(error, Loop)}") from None


def _refuse_unknown(problem: Problem) -> None:
    """Refuse what only plans of ops one by one know."""
    if problem.pools:
        raise NotALoopError("there are pools of addresses beside the scratchpad")
    for buffer in problem.buffers:
        if buffer.overwrites is not None or buffer.part_of is not None or buffer.address is not None:
            raise NotALoopError(f"buffer {buffer.name!r} is pinned, drains or overwrites another")
    for op in problem.ops:
        if op.deadline_ticks is not None:
            raise NotALoopError(f"op {op.name!r} has a deadline")
    shares = [engine.name for engine in problem.engines if engine.kind == "share"]
    if shares:
        raise NotALoopError(f"engine {shares[0]!r} has places that ops hold until their end is known")


def _places(
    problem: Problem, parts: dict[tuple[str, str], int], iterations: dict[str, int]
) -> tuple[tuple[Key, int] | None, ...]:
    """Return for every op its place in a body, None if it runs once."""
    seen: Counter[tuple[str, str]] = Counter()
    found: list[tuple[Key, int] | None] = []
    for op in problem.ops:
        stage = op.task, op.stage
        if op.task not in iterations or stage not in parts:
            found.append(None)
            continue
        iteration, part = divmod(seen[stage], parts[stage])
        seen[stage] += 1
        if iteration >= iterations[op.task]:
            raise NotALoopError(f"task {op.task!r}: stage {op.stage!r} also runs outside of the loop")
        found.append((Key(op.task, op.stage, part), iteration))
    return tuple(found)


def _edges(
    problem: Problem, place: tuple[tuple[Key, int] | None, ...], task: str, j: int
) -> Counter[tuple[Key, Key, int]]:
    """Return (before, after, distance) of the dependencies of iteration ``j``, the same as of ``j + 1``."""

    def of(j: int) -> Counter[tuple[Key, Key, int]]:
        found: Counter[tuple[Key, Key, int]] = Counter()
        for i, at in enumerate(place):
            if at is None or at[0].task != task or at[1] != j:
                continue
            for p in problem.predecessors[i]:
                before = place[p]
                if before is None:
                    continue
                if before[0].task != task:
                    raise NotALoopError(f"op {problem.ops[i].name!r} depends on {problem.ops[p].name!r}, another task")
                if before[1] > j:
                    raise NotALoopError(f"op {problem.ops[i].name!r} depends on a later iteration")
                found[before[0], at[0], j - before[1]] += 1
        return found

    edges = of(j)
    if edges != of(j + 1):
        raise NotALoopError(f"task {task!r}: iterations {j} and {j + 1} depend on earlier ones in different ways")
    return edges


def _rings(
    problem: Problem, place: tuple[tuple[Key, int] | None, ...], iterations: dict[str, int], middle: dict[str, int]
) -> tuple[dict[int, tuple[str, int]], dict[str, list[LoopBuffer]]]:
    """Return which buffers belong to one iteration, and the buffers of each body.

    A buffer is one of an iteration if all who use it are of a few iterations one after the other. Those that are used
    from one end of the task to the other are rings that the task made itself: they keep their addresses, and its
    dependencies say who waits for whom.
    """
    shapes: dict[int, tuple[str, int, Shape]] = {}
    for b, buffer in enumerate(problem.buffers):
        users = [place[problem.op_index[name]] for name in buffer.ops]
        inside = [at for at in users if at is not None]
        if not inside or len(inside) < len(users) or buffer.resident or len({at[0].task for at in inside}) > 1:
            continue
        task, first = inside[0][0].task, min(j for _, j in inside)
        if max(j for _, j in inside) - first >= iterations[task] // 2 - 1:
            continue
        shapes[b] = task, first, tuple(sorted((key, j - first) for key, j in inside))
    rings: dict[int, tuple[str, int]] = {}
    bodies: dict[str, list[LoopBuffer]] = {task: [] for task in iterations}
    by_start: dict[tuple[str, int], list[int]] = defaultdict(list)
    for b, (task, first, _) in shapes.items():
        by_start[task, first].append(b)
    for task, j in middle.items():
        here, there = (Counter(shapes[b][2] for b in by_start[task, at]) for at in (j, j + 1))
        if here != there:
            raise NotALoopError(f"task {task!r}: iterations {j} and {j + 1} use different buffers")
        names: dict[Shape, list[str]] = defaultdict(list)
        for k, b in enumerate(by_start[task, j]):
            pattern = shapes[b][2]
            name = f"{task}/ring.{k}"
            names[pattern].append(name)
            bodies[task].append(_ring(problem, name, problem.buffers[b], pattern))
        for (of, first), found in by_start.items():
            if of != task:
                continue
            used: Counter[Shape] = Counter()
            for b in found:
                pattern = shapes[b][2]
                rest = names.get(pattern, [])[used[pattern] :]
                used[pattern] += 1
                if rest and _no_larger(problem.buffers[b], bodies[task], rest[0]):
                    rings[b] = rest[0], first
    return rings, bodies


def _no_larger(buffer: Buffer, rings: list[LoopBuffer], name: str) -> bool:
    """Whether the bytes of one iteration fit where the ring has them: in the last one there may be less to do."""
    ring = next(ring for ring in rings if ring.name == name)
    return buffer.occupied_bytes <= ring.occupied_bytes and buffer.align_bytes <= ring.align_bytes


def _ring(problem: Problem, name: str, buffer: Buffer, pattern: Shape) -> LoopBuffer:
    transfers = {op.task: set[str]() for op in problem.ops}
    for op in problem.ops:
        if op.modes[0].dma is not None:
            transfers[op.task].add(op.stage)
    users = []
    for key, distance in pattern:
        # A transfer uses its bytes from its issue until its end is observed.
        names = (f"{key}{START}", f"{key}{WAIT}") if key.stage in transfers[key.task] else (str(key),)
        users += [LoopUser(op=op, distance=distance) for op in names]
    return LoopBuffer(
        name=name,
        size_bytes=buffer.size_bytes,
        users=tuple(users),
        align_bytes=buffer.align_bytes,
        granule_bytes=buffer.granule_bytes,
    )


def _body_ops(problem: Problem, key: Key, op: Op) -> Iterator[LoopOp]:
    """Return the op, a transfer as its three parts; overheads hold the same units as the work, and come before it."""
    mode = _finer(op.modes[problem.fastest_modes[problem.op_index[op.name]]])
    if mode.dma is None:
        more = mode.overhead_ticks
        uses = tuple(use.model_copy(update={"ticks": use.ticks + more if use.ticks else 0}) for use in mode.uses)
        plain = Mode(name=mode.name, uses=uses, latency_ticks=mode.latency_ticks + more, pulls=mode.pulls)
        yield LoopOp(name=str(key), task=key.task, stage=key.stage, mode=plain)
        return
    owner = mode.dma
    # Even what takes no time needs a moment at which its thread is free.
    for suffix, ticks in ((START, max(1, owner.issue_ticks)), (WAIT, max(1, owner.poll_ticks))):
        use = Use(engine=owner.owner_engine, ticks=ticks, unit_ids=(owner.owner_unit,))
        yield LoopOp(name=f"{key}{suffix}", task=key.task, stage=key.stage, mode=Mode(uses=(use,), latency_ticks=ticks))
    moved = Mode(name=mode.name, uses=mode.uses, latency_ticks=mode.latency_ticks, pulls=mode.pulls)
    yield LoopOp(name=str(key), task=key.task, stage=key.stage, mode=moved)


def _finer(mode: Mode) -> Mode:
    """Return the mode in parts of ticks."""
    owner = mode.dma
    if owner is not None:
        ticks = {name: getattr(owner, name) * FINER for name in ("issue_ticks", "poll_ticks")}
        owner = owner.model_copy(update=ticks)
    uses = tuple(use.model_copy(update={"ticks": use.ticks * FINER}) for use in mode.uses)
    ticks = {name: getattr(mode, name) * FINER for name in ("latency_ticks", "overhead_ticks")}
    return mode.model_copy(update={"uses": uses, "dma": owner, **ticks})


def _dependencies(problem: Problem, ops: dict[Key, Op], edges: Iterable[tuple[Key, Key, int]]) -> Iterator[Dependency]:
    """Return the edges between the parts that know of an end, and those that begin."""
    transfers = {key for key, op in ops.items() if op.modes[0].dma is not None}
    for key in transfers:
        for part, next_part in pairwise((f"{key}{START}", str(key), f"{key}{WAIT}")):
            yield Dependency(before=part, after=next_part)
    for before, after, distance in edges:
        yield Dependency(
            before=f"{before}{WAIT}" if before in transfers else str(before),
            after=f"{after}{START}" if after in transfers else str(after),
            distance=distance,
        )
