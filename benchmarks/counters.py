"""Lower bounds for loops whose ops are counted, by a search over tile counters (`counters.c`); often exact."""

from __future__ import annotations

import re
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hexloom import load_hw
from hexloom.formulations.bounds import lower_bounds
from hexloom.optimizer.lower import lower

if TYPE_CHECKING:
    from hexloom.optimizer.workload import Workload

KINDS = {"hmx": 0, "hvx": 1, "dma": 3}
"""Of `counters.c`; vector work on all threads is the one after that on one."""

OP = re.compile(r"(\w+)_\{i(?:-(\d+))?\}")
"""An op of this iteration, or of one before it."""


class Counted(NamedTuple):
    """``bound`` in microseconds, whether it is the ``exact`` optimum by counts, and the ``states`` looked at."""

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
    lines, sizes = [], []
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
            row += [len(op["buffers"]), *(buffers[name] for name in op["buffers"]), *own]
            lines.append(" ".join(map(str, row)))
    threads = next(engine.units for engine in problem.engines if engine.name == "hvx")
    head = [len(lines), len(sizes), problem.scratchpad.available_bytes, threads, int(below / tick), most_states]
    text = "\n".join([" ".join(map(str, head)), *lines, " ".join(map(str, sizes))])
    at_least = Fraction(bounds.best.ticks)
    try:
        run = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return Counted(at_least * tick, False, most_states)
    _, states, exact, proven = map(int, run.stdout.split())
    return Counted(max(at_least, proven) * tick, bool(exact), states)
