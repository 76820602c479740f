"""What does it gain to choose times and addresses together, instead of a schedule first and its packing afterwards?

Instances: three tasks of three tiles (load, vector work, matrix job; two buffers per tile) in a scratchpad of
``factor`` times the least in which any tile fits, seeds fixed. Schedule-then-pack: CP-SAT schedules with bytes counted,
its lifetimes are packed; where they cannot be, a twentieth less of the scratchpad is counted and it begins anew, until
the time is over. Seconds are the solver's own, ``--time-limit`` for each search, one worker, so that a busy machine
does not decide: `hexloom.solve` does the same, with the model that has addresses beside it on the second core. Rows:
name, joint (makespan of `hexloom.solve`, ticks), apart (of schedule-then-pack; None: no packing found), status. The
summary counts where joint is shorter, equal and longer; ``not_shorter`` are those of `NAMED` where it is not shorter.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hexloom import solve
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.solution import FlatOptions
from hexloom.formulations.problem import Buffer, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use

if TYPE_CHECKING:
    from hexloom.formulations.flat.solution import FlatSolution

STAGES = (("load", "port", 1, 4), ("work", "vector", 2, 7), ("job", "matrix", 2, 7))
"""Stage, engine, and its shortest and longest time in ticks."""

ENGINES = (Engine(name="vector", units=2), Engine(name="matrix"), Engine(name="port"))

SETS = {factor: tuple(range(8)) for factor in (1.0, 1.3)} | {1.6: (9, 10, 11)}
"""Seeds by factor."""

QUICK = {1.3: (9, 10)}

NAMED = ("three_by_three_1.3_3", "three_by_three_1.3_4")
"""Where choosing jointly is shorter: what is shortest by bytes has no packing."""


def three_by_three(factor: float, seed: int) -> Problem:
    """Return nine tiles whose buffers differ in size, with bytes for ``factor`` times the hungriest op."""
    rng = random.Random(f"three_by_three/{seed}")
    ops: list[Op] = []
    edges: list[Precedence] = []
    buffers: list[Buffer] = []
    for tile in range(9):
        names = [f"{stage}.{tile}" for stage, *_ in STAGES]
        for name, (stage, engine, least, most) in zip(names, STAGES, strict=True):
            ticks = rng.randint(least, most)
            mode = Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks)
            ops.append(Op(name=name, task=f"t{tile // 3}", stage=stage, tile=tile % 3, modes=(mode,)))
        edges += [Precedence(before=a, after=b) for a, b in pairwise(names)]
        for what, most, users in (("raw", 6, names[:2]), ("cooked", 9, names[1:])):
            buffers.append(Buffer(name=f"{what}.{tile}", size_bytes=rng.randint(2, most), ops=tuple(users)))
    hungriest = max(sum(b.size_bytes for b in buffers if op.name in b.ops) for op in ops)
    return Problem(
        name=f"three_by_three_{factor}_{seed}",
        engines=ENGINES,
        ops=tuple(ops),
        precedences=tuple(edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=int(hungriest * factor)),
    )


def schedule_then_pack(problem: Problem, seconds: float, seed: int) -> int | None:
    """Return the makespan of the first schedule by bytes, with ever fewer of them counted, that can be packed."""
    whole, left = problem.scratchpad.total_bytes, seconds
    for left_out in sorted({whole * k // 20 for k in range(20)}):
        less = problem.changed(scratchpad=Scratchpad(total_bytes=whole - left_out))
        bounds = lower_bounds(less)
        if left <= 0:
            break
        options = FlatOptions(False, less.horizon_ticks, int(bounds.best.ticks), left, True, seed, 1)
        solutions: list[FlatSolution] = []
        flat = FlatModel(less, bounds.heads_tails, options)
        flat.solve(solutions.append)
        left -= flat.spent
        if solutions and decision_of(problem, solutions[-1]) is not None:
            return solutions[-1].makespan
    return None


def compared(problem: Problem, seconds: float, seed: int = 1) -> tuple[int | None, int | None, str]:
    """Return the makespans, chosen jointly and one after the other, and the status of the first."""
    result = solve(problem, contention="none", time_limit_s=seconds, seed=seed)
    joint = None if result.schedule is None else int(result.schedule.makespan)
    return joint, schedule_then_pack(problem, seconds, seed), result.status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two instances")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--time-limit", type=float, default=2.0, help="counted seconds per instance and search")
    parser.add_argument("--seed", type=int, default=1, help="of the solver")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for factor, seeds in (QUICK if args.quick else SETS).items():
        for seed in seeds:
            problem = three_by_three(factor, seed)
            joint, apart, status = compared(problem, args.time_limit, args.seed)
            rows.append({"name": problem.name, "joint": joint, "apart": apart, "status": status})
            if not args.json:
                print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    far = float("inf")
    pairs = [(far if r["joint"] is None else r["joint"], far if r["apart"] is None else r["apart"]) for r in rows]
    found = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {name: version(name) for name in ("hexloom", "ortools")},
        "rows": rows,
        "summary": {
            "shorter": sum(joint < apart for joint, apart in pairs),
            "equal": sum(joint == apart for joint, apart in pairs),
            "longer": sum(joint > apart for joint, apart in pairs),
            "not_shorter": [
                r["name"]
                for r, (joint, apart) in zip(rows, pairs, strict=True)
                if r["name"] in NAMED and joint >= apart
            ],
        },
    }
    print(json.dumps(found, indent=1) if args.json else f"summary: {found['summary']}")


if __name__ == "__main__":
    main()
