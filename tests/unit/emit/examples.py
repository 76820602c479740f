from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import BoundRow, OpRow, Schedule
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

KIB, MIB = 1 << 10, 1 << 20

HVX = Engine(name="hvx", units=8)
HMX = Engine(name="hmx")
PIPE = Engine(name="dma", units=2, kind="pipe")


def schedule_of(
    problem: Problem,
    name: str = "example",
    baselines: dict[str, int | None] | None = None,
    machine: str | None = "v79",
    priorities: Sequence[float] | None = None,
) -> Schedule:
    first = priorities or lower_bounds(problem).heads_tails.tail
    decision = list_schedule(problem, Policy(tuple(float(t) for t in first), (0,) * len(problem.ops)))
    assert decision is not None
    plan = make_plan(problem, decision)
    timeline = simulate(problem, plan)
    bound = lower_bounds(problem).best
    rows = []
    for op in problem.ops:
        t = timeline.times[op.name]
        rows.append(
            OpRow(
                op=op.name,
                start=t.start,
                end=t.end,
                transfer_start=t.transfer_start,
                done=t.done,
                wait_start=t.wait_start,
                observed=t.observed,
            )
        )
    return Schedule(
        name=name,
        tool="hexloom 0.1.0",
        machine=machine,
        status="OPTIMAL" if bound.ticks == timeline.makespan else "FEASIBLE",
        optimal_in="free_start" if bound.ticks == timeline.makespan else None,
        makespan=timeline.makespan,
        lower_bound=bound.ticks,
        plan_bound=bound.ticks,
        bounds=(BoundRow(name=bound.name, ticks=bound.ticks, engine=bound.engine, detail=bound.detail),),
        baselines=baselines or {},
        gain=None,
        advice=None,
        problem=problem,
        plan=plan,
        rows=tuple(rows),
    )


def transfer(name: str, task: str, stage: str, tile: int, owner: int, ticks: int, latency: int | None = None) -> Op:
    mode = Mode(
        uses=(Use(engine="dma", ticks=ticks),),
        latency_ticks=latency or ticks,
        dma=Dma(owner_engine="hvx", owner_unit=owner, issue_ticks=150, poll_ticks=60),
    )
    return Op(name=name, task=task, stage=stage, tile=tile, modes=(mode,))


def compute(
    name: str,
    task: str,
    stage: str,
    tile: int,
    engine: str,
    ticks: int,
    unit_ids: tuple[int, ...] | None = None,
    overhead: int = 0,
) -> Op:
    units = len(unit_ids) if unit_ids else 1
    use = Use(engine=engine, ticks=ticks, units=units, unit_ids=unit_ids)
    mode = Mode(uses=(use,), latency_ticks=ticks, overhead_ticks=overhead)
    return Op(name=name, task=task, stage=stage, tile=tile, modes=(mode,))


def chain(names: Sequence[str]) -> list[Precedence]:
    return [Precedence(before=a, after=b) for a, b in itertools.pairwise(names)]


def gemm(tiles: int, task: str = "gemm", scale: int = 1000) -> tuple[list[Op], list[Precedence], list[Buffer]]:
    """Load, dequantize on two contexts, multiply, store."""
    ops: list[Op] = []
    edges: list[Precedence] = []
    buffers: list[Buffer] = []
    for k in range(tiles):
        load, dequant, mul, store = (f"{task}.{stage}[{k}]" for stage in ("load", "dequant", "matmul", "store"))
        ops += [
            transfer(load, task, "load", k, 0, 9 * scale, 10 * scale),
            compute(dequant, task, "dequant", k, "hvx", 14 * scale, (0, 1), 900),
            compute(mul, task, "matmul", k, "hmx", 17 * scale, None, 400),
            transfer(store, task, "store", k, 1, 3 * scale),
        ]
        edges += chain([load, dequant, mul, store])
        if k >= 2:
            edges.append(Precedence(before=f"{task}.matmul[{k - 2}]", after=load))
        buffers += [
            Buffer(name=f"{task}.q[{k}]", size_bytes=576 * KIB, ops=(load, dequant), align_bytes=128),
            Buffer(name=f"{task}.w[{k}]", size_bytes=MIB, ops=(dequant, mul), align_bytes=2048),
            Buffer(name=f"{task}.y[{k}]", size_bytes=128 * KIB, ops=(mul, store), align_bytes=2048),
        ]
    acts = Buffer(name=f"{task}.x", size_bytes=MIB, resident=True)
    return ops, edges, [*buffers, acts]


def rows_task(
    workers: Sequence[int], blocks: int, task: str = "rmsnorm", scale: int = 1000
) -> tuple[list[Op], list[Precedence], list[Buffer]]:
    """Every worker moves its own blocks in, works on them and moves them out, over a ring of two slots."""
    ops: list[Op] = []
    edges: list[Precedence] = []
    buffers: list[Buffer] = []
    for w in workers:
        for k in range(blocks):
            names = [f"{task}.{stage}[{w},{k}]" for stage in ("in", "norm", "out")]
            ops += [
                transfer(names[0], task, "in", k, w, scale),
                compute(names[1], task, "norm", k, "hvx", 2 * scale, (w,), 30),
                transfer(names[2], task, "out", k, w, scale // 2),
            ]
            edges += chain(names)
            if k >= 2:
                edges.append(Precedence(before=f"{task}.out[{w},{k - 2}]", after=names[0]))
            buffers.append(Buffer(name=f"{task}.slot[{w},{k}]", size_bytes=48 * KIB, ops=tuple(names), align_bytes=128))
    return ops, edges, buffers


def problem_of(
    parts: Sequence[tuple[list[Op], list[Precedence], list[Buffer]]],
    tick_us: str | None = "1/1000",
    entry: int = 0,
    engines: tuple[Engine, ...] = (HMX, HVX, PIPE),
) -> Problem:
    return Problem(
        name="example",
        tick_us=tick_us,
        engines=engines,
        ops=tuple(op for part in parts for op in part[0]),
        precedences=tuple(edge for part in parts for edge in part[1]),
        buffers=tuple(buffer for part in parts for buffer in part[2]),
        scratchpad=Scratchpad(total_bytes=8 * MIB, reserved_bytes=256 * KIB),
        entry_ticks=entry,
    )


def two_waits() -> Schedule:
    """A gang on two contexts that waits for two ops; one of them is before it on its first context."""
    ops = [
        compute("far", "t", "far", 0, "hmx", 10),
        compute("near", "t", "near", 0, "hvx", 10, (0,)),
        compute("gang", "t", "gang", 0, "hvx", 10, (0, 1)),
        compute("other", "t", "other", 0, "hvx", 10, (2,)),
    ]
    edges = [Precedence(before=a, after=b) for a, b in (("far", "gang"), ("near", "gang"), ("far", "other"))]
    return schedule_of(problem_of([(ops, edges, [])]), "two waits")


def small() -> Schedule:
    problem = problem_of([gemm(6), rows_task((2, 3, 4), 5)], entry=3000)
    return schedule_of(problem, "small", {"existing": 190_000, "serial": None})


def large() -> Schedule:
    problem = problem_of([gemm(18, scale=4000), rows_task(range(8), 90)], entry=3000)
    return schedule_of(problem, "gemm 4096 x 4096 with rmsnorm", {"existing": 3_000_000}, "hexagon-v79")


BAD = "a \"q\" <b> & 'c' ]]> new line \u6f22\u5b57 \U0001f40d " + "w" * 200


def hostile() -> Schedule:
    """Names that break careless writers, in bare ticks."""
    engines = (Engine(name=f"hvx {BAD}", units=3), Engine(name=f"dma {BAD}", kind="pipe"))
    dma = Dma(owner_engine=engines[0].name, owner_unit=2)
    move = Mode(name=BAD, uses=(Use(engine=engines[1].name, ticks=4),), latency_ticks=6, dma=dma)
    work = Mode(name=BAD, uses=(Use(engine=engines[0].name, ticks=5, units=2),), latency_ticks=5)
    ops = (
        Op(name=f"load {BAD}", task=BAD, stage=f"load {BAD}", modes=(move,)),
        Op(name=f"work {BAD}", task=BAD, stage=f"work {BAD}", modes=(work,)),
        Op(name=f"mark {BAD}", task=BAD, modes=(Mode(latency_ticks=0),)),
    )
    problem = Problem(
        name=BAD,
        engines=engines,
        ops=ops,
        precedences=tuple(chain([op.name for op in ops])),
        buffers=(Buffer(name=BAD, size_bytes=MIB, ops=(ops[0].name, ops[1].name)),),
        scratchpad=Scratchpad(total_bytes=2 * MIB),
    )
    return schedule_of(problem, BAD, {"existing": 30}, BAD)


def back_to_back(count: int) -> Schedule:
    """Return many short ops of three tasks in a row on one engine, written down without a scheduler."""
    ops: list[Op] = []
    rows: list[OpRow] = []
    now = 0
    for k in range(count):
        ticks, overhead = 1 + k % 2, k % 5
        mode = Mode(uses=(Use(engine="e", ticks=ticks),), latency_ticks=ticks, overhead_ticks=overhead)
        ops.append(Op(name=f"op {k}", task=f"t{k % 3}", modes=(mode,)))
        end = now + overhead + ticks
        rows.append(OpRow(op=f"op {k}", start=now, end=end, transfer_start=now, done=end, wait_start=end, observed=end))
        now = end
    queue = Queue(engine="e", unit=0, entries=tuple(QueueEntry(op=op.name, action="run") for op in ops))
    assignments = tuple(Assignment(op=op.name, units={"e": (0,)}) for op in ops)
    return Schedule(
        name="back to back",
        tool="hexloom 0.1.0",
        status="OPTIMAL",
        makespan=now,
        lower_bound=now,
        plan_bound=now,
        bounds=(BoundRow(name="engine_work", ticks=now, engine="e", detail=""),),
        baselines={},
        gain=None,
        advice=None,
        problem=Problem(engines=(Engine(name="e"),), ops=tuple(ops)),
        plan=Plan(assignments=assignments, queues=(queue,), waits=(), addresses={}),
        rows=tuple(rows),
    )


def draining() -> Schedule:
    """A load of 3 KiB that three steps read in turn, each giving 1 KiB free, in which the next but one writes."""
    steps = ("read0", "read1", "read2")
    ops = [Op(name="load", modes=(Mode(uses=(Use(engine="hmx", ticks=4),), latency_ticks=4),))]
    ops += [Op(name=name, modes=(Mode(uses=(Use(engine="hvx", ticks=4),), latency_ticks=4),)) for name in steps]
    problem = Problem(
        name="draining",
        engines=(HVX, HMX),
        ops=tuple(ops),
        precedences=tuple(Precedence(before=a, after=b) for a, b in itertools.pairwise(("load", *steps))),
        buffers=(
            *(
                Buffer(name=f"raw[{k}]", size_bytes=1024, ops=("load", *steps[: k + 1]), part_of="raw")
                for k in range(3)
            ),
            *(Buffer(name=f"out{k}", size_bytes=1024, ops=(step,)) for k, step in enumerate(steps)),
            Buffer(name="late", size_bytes=1024, ops=("read1", "read2")),
        ),
        scratchpad=Scratchpad(total_bytes=5 * KIB),
    )
    return schedule_of(problem)


def in_place() -> Schedule:
    """A load, and two steps of which each writes over what it reads: one address for all three."""
    ops = ("load", "scale", "shift")
    problem = Problem(
        name="in place",
        engines=(HVX, HMX),
        ops=tuple(
            Op(name=name, modes=(Mode(uses=(Use(engine=engine, ticks=4),), latency_ticks=4),))
            for name, engine in zip(ops, ("hvx", "hmx", "hvx"), strict=True)
        ),
        precedences=(Precedence(before="load", after="scale"), Precedence(before="scale", after="shift")),
        buffers=(
            Buffer(name="x", size_bytes=2048, ops=("load", "scale")),
            Buffer(name="y", size_bytes=2048, ops=("scale", "shift"), overwrites="x"),
            Buffer(name="z", size_bytes=1024, ops=("shift",), overwrites="y"),
        ),
        scratchpad=Scratchpad(total_bytes=2048),
    )
    return schedule_of(problem)
