"""Named instance generators: the same name, size and seed give the same problem everywhere."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use

WORKERS = 4
KIB = 1024


@dataclass
class _Parts:
    ops: list[Op]
    precedences: list[Precedence]
    buffers: list[Buffer]

    def op(self, task: str, stage: str, tile: int, mode: Mode, after: tuple[str, ...] = ()) -> str:
        name = f"{task}/{stage}.{tile}"
        self.ops.append(Op(name=name, task=task, stage=stage, tile=tile, modes=(mode,)))
        self.precedences += [Precedence(before=a, after=name) for a in after]
        return name

    def buffer(self, task: str, what: str, tile: int, kib: int, users: tuple[str, ...]) -> None:
        size = kib * KIB
        self.buffers.append(
            Buffer(name=f"{task}/{what}.{tile}", size_bytes=size, ops=users, align_bytes=128, granule_bytes=128)
        )


def _transfer(ticks: int, queue_ticks: int, owner: int) -> Mode:
    return Mode(
        uses=(Use(engine="dma", ticks=ticks), Use(engine=f"dma_queue{owner}", ticks=queue_ticks)),
        latency_ticks=queue_ticks,
        dma=Dma(owner_engine="hvx", owner_unit=owner),
    )


def _gang(ticks: int) -> Mode:
    return Mode(uses=(Use(engine="hvx", ticks=ticks, units=WORKERS),), latency_ticks=ticks)


def four_stage_and_vector(ops: int, seed: int, vtcm_factor: float) -> Problem:
    """Return a problem of about ``ops`` ops: matmuls of four stages, and row tasks of three.

    Two matmul tasks (weights in, dequantize on all HVX workers, HMX job, store on all workers) and two row tasks
    (load, compute on one worker, store); stage times differ between tasks and vary by 10 % between tiles. Every tile
    has buffers of its own; each matmul holds its activations from its first job to its last. The scratchpad has
    ``vtcm_factor`` times the least with which any schedule exists: one matmul's activations and its hungriest tile.
    """
    rng = random.Random(f"four_stage_and_vector/{ops}/{seed}")
    parts = _Parts([], [], [])
    tiles = max(1, round(ops * 0.6 / 2 / 4))
    blocks = max(1, round((ops - tiles * 8) / 2 / 3))

    def vary(ticks: int) -> int:
        return max(1, round(ticks * rng.uniform(0.9, 1.1)))

    for t in range(2):
        task = f"matmul{t}"
        load, dequantize, job, store = (rng.randint(*r) for r in ((80, 200), (60, 150), (250, 450), (60, 200)))
        raw, weights, output = (rng.randrange(*r) for r in ((96, 200, 8), (256, 512, 8), (96, 256, 8)))
        jobs: list[str] = []
        for i in range(tiles):
            queue = vary(load)
            a = parts.op(task, "load", i, _transfer(queue // 2, queue, t))
            b = parts.op(task, "dequantize", i, _gang(vary(dequantize)), (a,))
            ticks = vary(job)
            c = parts.op(task, "matmul", i, Mode(uses=(Use(engine="hmx", ticks=ticks),), latency_ticks=ticks), (b,))
            d = parts.op(task, "store", i, _gang(vary(store)), (c,))
            jobs.append(c)
            parts.buffer(task, "raw", i, raw, (a, b))
            parts.buffer(task, "weights", i, weights, (b, c))
            parts.buffer(task, "output", i, output, (c, d))
        parts.buffer(task, "activations", 0, rng.randrange(5120, 7168, 8), tuple(jobs))
    for t in range(2):
        task = f"rows{t}"
        load, compute, store = (rng.randint(*r) for r in ((30, 80), (60, 200), (30, 80)))
        kib = rng.randrange(32, 96, 8)
        for i in range(blocks):
            owner = i % WORKERS
            a = parts.op(task, "load", i, _transfer(*(vary(load),) * 2, owner))
            ticks = vary(compute)
            use = Use(engine="hvx", ticks=ticks, unit_ids=(owner,))
            b = parts.op(task, "compute", i, Mode(uses=(use,), latency_ticks=ticks), (a,))
            c = parts.op(task, "store", i, _transfer(*(vary(store),) * 2, owner), (b,))
            parts.buffer(task, "in", i, kib, (a, b))
            parts.buffer(task, "out", i, kib, (b, c))
    need: dict[str, int] = {}
    for buffer in parts.buffers:
        for name in buffer.ops:
            need[name] = need.get(name, 0) + buffer.occupied_bytes
    total = int(max(need.values()) * vtcm_factor) // 128 * 128
    engines = [Engine(name="hvx", units=WORKERS), Engine(name="hmx"), Engine(name="dma", kind="pipe")]
    engines += [Engine(name=f"dma_queue{w}", kind="pipe") for w in range(WORKERS)]
    return Problem(
        name=f"four_stage_and_vector_{ops}_{seed}_{vtcm_factor}",
        engines=tuple(engines),
        ops=tuple(parts.ops),
        precedences=tuple(parts.precedences),
        buffers=tuple(parts.buffers),
        scratchpad=Scratchpad(total_bytes=total),
    )
