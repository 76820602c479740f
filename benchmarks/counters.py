"""Lower bounds for loops whose ops are counted, by a search over tile counters (`counters.c`); often exact.

What is left to do is priced: a linear program over all sets of ops that can run together says how much time the ops of
each stage need at least, and its prices hold for whatever is left of them.
"""

from __future__ import annotations

import re
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ortools.linear_solver import pywraplp

from hexloom import load_hw
from hexloom.formulations.bounds import lower_bounds
from hexloom.optimizer.lower import lower

if TYPE_CHECKING:
    from hexloom.optimizer.workload import Workload

KINDS = {"hmx": 0, "hvx": 1, "dma": 3}
"""Of `counters.c`; vector work on all threads is the one after that on one."""

PRICE = 10**6
"""What ops that run together cost at most in a tick, as in `counters.c`."""

MOST_PRICES, MOST_SETS = 32, 20_000
"""Rows of prices, as in `counters.c`; and sets of ops that can run together, above which nothing is priced."""

OP = re.compile(r"(\w+)_\{i(?:-(\d+))?\}")
"""An op of this iteration, or of one before it."""


class Counted(NamedTuple):
    """``bound`` in microseconds, whether it is the ``exact`` optimum by counts, and the ``states`` last looked at."""

    bound: Fraction
    exact: bool
    states: int


def build(folder: Path) -> Path:
    """Compile the search into ``folder``."""
    program = folder / "counters"
    source = Path(__file__).with_name("counters.c")
    subprocess.run(["gcc", "-std=c11", "-O2", "-o", program, source], check=True)
    return program


def counted(program: Path, work: Workload, below: Fraction, most_states: int, seconds: float = 60.0) -> Counted:
    """Return what is known of the makespan of ``work``, if a plan takes ``below`` microseconds.

    ``work`` holds loops with ops named ``stage_{i}`` on ``hmx``, ``hvx`` and ``dma``. Where
    there are too many states, or they take too long, only the bound of arithmetic is left.
    """
    problem = lower(work, load_hw(work.hw or ""), "none").problem
    tick = problem.tick
    assert tick is not None
    bounds = lower_bounds(problem)
    tails: dict[tuple[str, str], list[int]] = {}
    for i, op in enumerate(problem.ops):
        tails.setdefault((op.task, op.stage), []).append(int(bounds.heads_tails.tail[i]))
    number = {key: c for c, key in enumerate(tails)}
    lines, sizes, stages = [], [], []
    for task in work.model_dump(mode="json")["tasks"]:
        loop = task["ops"][0]
        buffers = {buffer["name"]: len(sizes) + k for k, buffer in enumerate(loop["buffers"])}
        sizes += [buffer["size_bytes"] for buffer in loop["buffers"]]
        for op in loop["ops"]:
            own = tails[task["name"], op["stage"]]
            kind = KINDS[op["engine"]] + (op.get("units") == "all")
            waits = [found for found in map(OP.fullmatch, op["after"]) if found is not None]
            row = [loop["count"], int(Fraction(op["duration_us"]) / tick), kind, len(waits)]
            for found in waits:
                row += [number[task["name"], found[1]], int(found[2] or 0)]
            held = sum(sizes[buffers[name]] for name in op["buffers"])
            stages.append(Stage(row[2], row[0] * row[1], held, [(row[k], row[k + 1]) for k in range(4, len(row), 2)]))
            row += [len(op["buffers"]), *(buffers[name] for name in op["buffers"]), *own]
            lines.append(" ".join(map(str, row)))
    threads = next(engine.units for engine in problem.engines if engine.name == "hvx")
    room, at_least = problem.scratchpad.available_bytes, Fraction(bounds.best.ticks)
    prices = prices_of(stages, room, threads)
    head = [len(lines), len(sizes), room, threads, int(below / tick), most_states, len(prices)]
    rows = [head, *lines, sizes, *prices]
    text = "\n".join(row if isinstance(row, str) else " ".join(map(str, row)) for row in rows)
    try:
        run = subprocess.run([program], input=text.encode(), capture_output=True, check=True, timeout=seconds)
        said = run.stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    proven, exact, states = map(int, (said.split(b"\n")[:-1] or [b"0 0 0"])[-1].split())
    return Counted(max(at_least, proven) * tick, bool(exact), states)


class Stage(NamedTuple):
    """Its ``kind`` in `counters.c`, the ``work`` of all its ops in ticks, the ``held`` bytes of each, and its waits."""

    kind: int
    work: int
    held: int
    waits: list[tuple[int, int]]


def sets_of(stages: list[Stage], room: int, threads: int) -> list[tuple[int, ...]]:
    """Return how many ops of each stage can run together, in all ways to which no op can be added.

    What is there for one iteration between two ops, the later of which the earlier one waits for in an iteration
    after it, is so in as many iterations at most as lie between these. A transfer may wait for its turn: one is served.
    """
    rings = [
        (range(c, last + 1), distance)
        for c, one in enumerate(stages)
        for last, distance in one.waits
        if distance and last >= c
    ]
    found: list[tuple[int, ...]] = []

    def fits(times: list[int]) -> bool:
        of_kind = [sum(n for n, one in zip(times, stages, strict=True) if one.kind == kind) for kind in range(4)]
        return (
            of_kind[0] <= 1
            and of_kind[3] <= 1
            and of_kind[1] + threads * of_kind[2] <= threads
            and sum(n * one.held for n, one in zip(times, stages, strict=True)) <= room
            and all(sum(times[c] for c in ring) <= most for ring, most in rings)
        )

    def more(c: int, times: list[int]) -> None:
        if len(found) > MOST_SETS:
            return
        if c == len(stages):
            if not any(fits([n + (k == one) for k, n in enumerate(times)]) for one in range(c)):
                found.append(tuple(times))
            return
        trial = list(times)
        while fits(trial):
            more(c + 1, list(trial))
            trial[c] += 1

    more(0, [0] * len(stages))
    return found


def prices_of(stages: list[Stage], room: int, threads: int) -> list[tuple[int, ...]]:
    """Return prices of a tick of every stage: those at which all of it costs most, and those at which some of it does.

    No set of ops that can run together costs more than `PRICE`.
    """
    sets = sets_of(stages, room, threads)
    if len(sets) > MOST_SETS:
        return []
    lp = pywraplp.Solver.CreateSolver("GLOP")
    of = [lp.NumVar(0.0, lp.infinity(), "") for _ in stages]
    for times in sets:
        lp.Add(sum(n * price for n, price in zip(times, of, strict=True) if n) <= 1)
    work = [one.work for one in stages]
    wishes = [work, *([w * (3 if k == c else 1) for k, w in enumerate(work)] for c in range(len(work)))]
    wishes += [[w * (k >= c) for k, w in enumerate(work)] for c in range(1, len(work))]
    found: dict[tuple[int, ...], None] = {}
    for wish in wishes:
        lp.Maximize(sum(w * price for w, price in zip(wish, of, strict=True)))
        if lp.Solve() != lp.OPTIMAL:
            continue
        rounded = [max(0, int(price.solution_value() * PRICE)) for price in of]
        top = max(sum(n * price for n, price in zip(times, rounded, strict=True)) for times in sets)
        found[tuple(price * PRICE // max(PRICE, top) for price in rounded)] = None
    return list(found)[:MOST_PRICES]
