"""The groups of `peers.py` that are no flat schedules: packings, loops, and pipelines that are fixed today.

Every function yields rows: group, name, size (ops, or buffers), measure, ours, proven (ours), and what peers need
(None: no answer in time).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hatschet import loops
from packing import MINIMALLOC_S
from packings import CAPACITY_BYTES, LETTERS, minimalloc
from tune import GOLDEN

from hexloom import Buffer, Workload, load_hw, pack, solve
from hexloom.formulations.periodic.list_schedule import list_schedule
from hexloom.formulations.periodic.modulo import modulo_schedule
from hexloom.formulations.periodic.modulo_ilp import ask_ilp
from hexloom.formulations.problem import Buffer as ProblemBuffer
from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.optimizer.lower import lower
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.restrict import decision_of_loop
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.periodic.loop import Loop

Row = dict[str, Any]

STAGES = ("weights_load", "dequantize", "matmul", "store")
ENGINES = ("dma", "hvx", "hmx", "hvx")

TILES = 16
"""Tiles of the loop of htp-ops-lib."""


def packing_rows(seconds: float, *, quick: bool) -> Iterator[Row]:
    """Seconds to pack minimalloc's instances; its own were measured once, on a quiet machine (see `packing.py`)."""
    for letter in LETTERS[:3] if quick else LETTERS:
        rows = minimalloc(letter)
        buffers = [Buffer(name=f"b{k}", size_bytes=row.size) for k, row in enumerate(rows)]
        started = time.monotonic()
        result = pack(buffers, [(row.lower, row.upper) for row in rows], CAPACITY_BYTES, time_limit_s=seconds)
        yield _row(
            "packing",
            letter,
            len(rows),
            "seconds",
            time.monotonic() - started if result.status == "PACKED" else None,
            {"minimalloc": MINIMALLOC_S[letter]},
            proven=result.status == "PACKED",
        )


def modulo_rows(seconds: float, *, quick: bool) -> Iterator[Row]:
    """Interval in ticks against a list alone (Rau, 1996), seconds against an ILP per interval, from the same bound."""
    for loop in loops(30 if quick else 60):
        started = time.monotonic()
        found = modulo_schedule(loop, seconds, shortest=False)
        ours, proven = time.monotonic() - started, found.status == "OPTIMAL"
        name, size = loop.name, len(loop.ops)
        listed = _by_list(loop, found.bounds[0].ticks)
        yield _row("modulo interval", name, size, "ticks", found.ii_ticks, {"rau list": listed}, proven=proven)
        started = time.monotonic()
        by_ilp = _by_ilp(loop, int(-(-found.bounds[0].ticks // 1)), seconds)
        theirs = time.monotonic() - started if by_ilp is not None else None
        if by_ilp is not None and proven and by_ilp != found.ii_ticks:
            raise SystemExit(f"peers: {name}: the ILP says {by_ilp} ticks, we say {found.ii_ticks}")
        yield _row("modulo proof", name, size, "seconds", ours if proven else None, {"ilp": theirs}, proven=proven)


def _by_list(loop: Loop, bound: Any) -> int | None:
    """Return the first interval from the bound on at which a list succeeds."""
    first = int(-(-bound // 1))
    return next((ii for ii in range(first, 4 * first + 4) if list_schedule(loop, ii) is not None), None)


def _by_ilp(loop: Loop, first: int, seconds: float) -> int | None:
    """Return the first interval that the program does not refute; None where it is too large, or the time is over."""
    ends = time.monotonic() + seconds
    for ii in range(first, 4 * first + 4):
        left = ends - time.monotonic()
        try:
            said = ask_ilp(loop, ii, left) if left > 0 else "UNKNOWN"
        except ValueError:
            return None
        if said != "INFEASIBLE":
            return ii if said == "FEASIBLE" else None
    return None


def pipeline_rows(seconds: float, *, quick: bool) -> Iterator[Row]:
    """Microseconds of our schedule against the loops of ggml-hexagon and htp-ops-lib, all by the same simulator.

    ggml's chunks and buffers for ten shapes whose answers are known, on hexagon-v81 under rule fluid. The loop of
    htp-ops-lib (mat_mul.c) has the stage times of the same shapes, alone and without contention: ours has the same
    bytes.
    """
    for kind, m, k, n, mib in (GOLDEN[2], GOLDEN[9]) if quick else GOLDEN:
        machine = load_hw("hexagon-v81").with_values({"vtcm.total_bytes": mib << 20})
        task = {"name": "matmul", "kernel": "matmul_w4a16", "m": m, "k": k, "n": n, "weight_type": kind}
        work = Workload.from_data({"name": "matmul", "tasks": [task]})
        result = solve(work, machine, time_limit_s=seconds, explained=False)
        assert result.schedule is not None
        name, schedule = f"{kind} {m}x{k}x{n} {mib} MiB", result.schedule
        existing = schedule.baselines["existing"]
        theirs = None if existing is None else float(schedule.us(existing))
        ours = float(schedule.us(schedule.makespan))
        proven = result.status == "OPTIMAL"
        yield _row("pipeline ggml", name, len(schedule.rows), "us", ours, {"ggml-hexagon": theirs}, proven=proven)
        problem, order = _four_stages(lower(work, machine, "none").problem)
        fixed = problem.changed(buffers=(), precedences=(*problem.precedences, *_one_raw_buffer()))
        decision = decision_of_loop(fixed, [fixed.op_index[name] for name in order])
        assert decision is not None
        makespan = simulate(fixed, make_plan(fixed, decision)).makespan
        found = solve(problem, time_limit_s=seconds, explained=False)
        assert found.schedule is not None
        tick = float(problem.tick or 1)
        yield _row(
            "pipeline htp-ops-lib",
            name,
            len(problem.ops),
            "us",
            float(found.schedule.makespan) * tick,
            {"htp-ops-lib": float(makespan) * tick},
            proven=found.status == "OPTIMAL",
        )


def _four_stages(lowered: Problem) -> tuple[Problem, list[str]]:
    """Return load, dequantize, multiply and store of `TILES` tiles, with the first times of ``lowered``, in order.

    The order is that of mat_mul.c: A(i+2), wait for C(i), C(i+1), D(i), wait for A(i+2), B(i+2).
    """
    ticks = {op.stage: op.modes[0].duration_ticks for op in reversed(lowered.ops) if op.stage in STAGES}
    ops: list[Op] = []
    edges: list[Precedence] = []
    for i in range(TILES):
        for stage, engine, letter in zip(STAGES, ENGINES, "ABCD", strict=True):
            mode = Mode(uses=(Use(engine=engine, ticks=ticks[stage]),), latency_ticks=ticks[stage])
            ops.append(Op(name=f"{letter}{i}", task="matmul", stage=stage, tile=i, modes=(mode,)))
        edges += [Precedence(before=f"{a}{i}", after=f"{b}{i}") for a, b in ("AB", "BC", "CD")]
    buffers = [
        ProblemBuffer(name=f"{what}{i}", size_bytes=size, ops=(f"{a}{i}", f"{b}{i}"))
        for i in range(TILES)
        for what, size, (a, b) in (("raw", 2, "AB"), ("weights", 2, "BC"), ("sums", 2, "CD"))
    ]
    engines = (Engine(name="dma", kind="resource"), Engine(name="hvx"), Engine(name="hmx", kind="resource"))
    problem = Problem(
        name="htp-ops-lib",
        engines=engines,
        ops=tuple(ops),
        precedences=tuple(edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=2 + 2 * 2 + 2 * 2),
        tick_us=lowered.tick_us,
    )
    order = ["A0", "B0", "C0", "A1", "B1"]
    for i in range(TILES):
        if i + 2 < TILES:
            order.append(f"A{i + 2}")
        if i + 1 < TILES:
            order.append(f"C{i + 1}")
        order.append(f"D{i}")
        if i + 2 < TILES:
            order.append(f"B{i + 2}")
    return problem, order


def _one_raw_buffer() -> list[Precedence]:
    """Return what the loop waits for beside its data: one buffer of what was loaded, C(i) before C(i+1) is pushed."""
    waits = [Precedence(before=f"B{i}", after=f"A{i + 1}") for i in range(TILES - 1)]
    waits += [Precedence(before=f"C{i}", after=f"C{i + 1}") for i in range(TILES - 1)]
    return waits + [Precedence(before=f"D{i}", after=f"B{i + 2}") for i in range(TILES - 2)]


def _row(
    group: str,
    name: str,
    size: int,
    measure: str,
    ours: float | None,
    theirs: dict[str, float | None],
    *,
    proven: bool,
) -> Row:
    return {
        "group": group,
        "name": name,
        "size": size,
        "measure": measure,
        "ours": ours,
        "proven": proven,
        "peers": theirs,
    }
