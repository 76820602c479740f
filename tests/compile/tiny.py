"""A schedule written down by hand, so that nothing but emission decides what its files say."""

from __future__ import annotations

from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait
from hexloom.optimizer.schedule import BoundRow, OpRow, Schedule
from hexloom.optimizer.simulate import simulate


def tiny() -> Schedule:
    """Two weight tiles through one slot: load, dequantize on two workers, multiply; then a marker."""
    dma = Dma(owner_engine="hvx", owner_unit=1, issue_ticks=1, poll_ticks=1)
    load = Mode(name="owner1", uses=(Use(engine="dma", ticks=9),), latency_ticks=9, dma=dma)
    gang = Mode(uses=(Use(engine="hvx", ticks=6, units=2),), latency_ticks=6, overhead_ticks=1)
    multiply = Mode(uses=(Use(engine="hmx", ticks=8),), latency_ticks=8)
    ops = []
    for k in range(2):
        ops += [
            Op(name=f"load.{k}", task="gemm", stage="load", tile=k, modes=(load,)),
            Op(name=f"dequantize.{k}", task="gemm", stage="dequantize", tile=k, modes=(gang,)),
            Op(name=f"matmul.{k}", task="gemm", stage="matmul", tile=k, modes=(multiply,)),
        ]
    names = [op.name for op in ops]
    ops.append(Op(name="end", task="gemm", modes=(Mode(latency_ticks=0),)))
    edges = [(names[k], names[k + 1]) for k in (0, 1, 3, 4)] + [("matmul.0", "end"), ("matmul.1", "end")]
    problem = Problem(
        name="tiny",
        tick_us="1/2",
        engines=(Engine(name="hvx", units=2), Engine(name="hmx"), Engine(name="dma", kind="pipe")),
        ops=tuple(ops),
        precedences=tuple(Precedence(before=a, after=b) for a, b in edges),
        buffers=(
            Buffer(name="q.0", size_bytes=576, ops=("load.0", "dequantize.0"), align_bytes=128, granule_bytes=128),
            Buffer(name="q.1", size_bytes=576, ops=("load.1", "dequantize.1"), align_bytes=128, granule_bytes=128),
            Buffer(name="w.0", size_bytes=2048, ops=("dequantize.0", "matmul.0"), align_bytes=2048),
            Buffer(name="w.1", size_bytes=2048, ops=("dequantize.1", "matmul.1"), align_bytes=2048),
            Buffer(name="x", size_bytes=2048, align_bytes=2048, resident=True, address=0),
        ),
        scratchpad=Scratchpad(total_bytes=8192),
    )
    units = {"load": {}, "dequantize": {"hvx": (0, 1)}, "matmul": {"hmx": (0,)}, "end": {}}
    run0, run1 = (QueueEntry(op=f"dequantize.{k}", action="run") for k in range(2))
    plan = Plan(
        assignments=tuple(Assignment(op=op.name, units=units[op.name.split(".")[0]]) for op in ops),
        queues=(
            Queue(engine="hvx", unit=0, entries=(run0, run1)),
            Queue(
                engine="hvx",
                unit=1,
                entries=(
                    QueueEntry(op="load.0", action="start"),
                    QueueEntry(op="load.0", action="wait"),
                    run0,
                    QueueEntry(op="load.1", action="start"),
                    QueueEntry(op="load.1", action="wait"),
                    run1,
                ),
            ),
            Queue(
                engine="hmx",
                unit=0,
                entries=(QueueEntry(op="matmul.0", action="run"), QueueEntry(op="matmul.1", action="run")),
            ),
        ),
        waits=(
            Wait(before="dequantize.0", after="matmul.0"),
            Wait(before="matmul.0", after="dequantize.1"),
            Wait(before="dequantize.1", after="matmul.1"),
            Wait(before="matmul.1", after="end"),
        ),
        addresses={"q.0": 4096, "q.1": 4096, "w.0": 6144, "w.1": 6144, "x": 0},
    )
    timeline = simulate(problem, plan)
    fields = [field for field in OpRow.model_fields if field != "op"]
    return Schedule(
        name="tiny",
        tool="hexloom 0.1.0",
        machine="hexagon-v79",
        workload_digest="0123abcd",
        status="FEASIBLE",
        makespan=timeline.makespan,
        lower_bound=24,
        plan_bound=24,
        bounds=(BoundRow(name="critical_path", ticks=24, engine=None, detail="load, dequantize, matmul"),),
        baselines={},
        gain=None,
        advice=None,
        problem=problem,
        plan=plan,
        rows=tuple(OpRow(op=op.name, **{f: getattr(timeline.times[op.name], f) for f in fields}) for op in ops),
    )
