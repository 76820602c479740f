"""Resource-constrained project scheduling: the part of our problem that general schedulers know, as plain data.

Tasks of one duration that hold amounts of counted resources, and precedences; no addresses, no contention, no owners.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Rcpsp:
    """Durations and demands per task, capacities per resource, (before, after) edges; the optimum where it is known."""

    name: str
    durations: tuple[int, ...]
    demands: tuple[tuple[int, ...], ...]
    capacities: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    optimum: int | None = None

    def as_problem(self) -> Problem:
        """Return it in our words: a resource of capacity 1 is an engine, any other a counted share."""
        engines = tuple(
            Engine(name=f"r{k}", units=c, kind="resource" if c == 1 else "share") for k, c in enumerate(self.capacities)
        )
        ops = []
        for i, (ticks, wanted) in enumerate(zip(self.durations, self.demands, strict=True)):
            uses = tuple(Use(engine=f"r{k}", ticks=ticks, units=units) for k, units in enumerate(wanted) if units)
            ops.append(Op(name=f"t{i}", modes=(Mode(uses=uses if ticks else (), latency_ticks=ticks),)))
        edges = tuple(Precedence(before=f"t{a}", after=f"t{b}") for a, b in self.edges)
        return Problem(engines=engines, ops=tuple(ops), precedences=edges)


def psplib(path: Path, optimum: int | None = None) -> Rcpsp:
    """Read a single-mode instance of PSPLIB (``.sm``); the jobs without length at its ends are left out."""
    lines = path.read_text(encoding="ascii").splitlines()

    def after(title: str, skip: int) -> int:
        return next(k for k, line in enumerate(lines) if line.startswith(title)) + skip

    def numbers(line: str) -> list[int]:
        return [int(number) for number in re.findall(r"-?\d+", line)]

    count = numbers(next(line for line in lines if line.startswith("jobs")))[0]
    edges = []
    first = after("PRECEDENCE RELATIONS", 2)
    for line in lines[first : first + count]:
        job, _, _, *successors = numbers(line)
        edges += [(job - 1, other - 1) for other in successors]
    first = after("REQUESTS/DURATIONS", 3)
    rows = [numbers(line)[2:] for line in lines[first : first + count]]
    inner = [i for i, row in enumerate(rows) if row[0] > 0]
    place = {i: k for k, i in enumerate(inner)}
    return Rcpsp(
        path.stem,
        tuple(rows[i][0] for i in inner),
        tuple(tuple(rows[i][1:]) for i in inner),
        tuple(numbers(lines[after("RESOURCEAVAILABILITIES", 2)])),
        tuple((place[a], place[b]) for a, b in edges if a in place and b in place),
        optimum,
    )


def job_shop(path: Path) -> Rcpsp:
    """Read a job shop: operations of a job one after the other, each alone on its machine."""
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = sorted(data["data"], key=lambda row: (row["job"], row["operation"]))
    machines = data["machines"]
    edges = [(k, k + 1) for k in range(len(rows) - 1) if rows[k]["job"] == rows[k + 1]["job"]]
    return Rcpsp(
        data["instance"],
        tuple(row["duration"] for row in rows),
        tuple(tuple(int(row["machine"] == k) for k in range(machines)) for row in rows),
        (1,) * machines,
        tuple(edges),
    )


def relaxed(problem: Problem, name: str, without: str = "") -> Rcpsp:
    """Return what is left of ``problem`` without addresses, channels and owners; the first mode of every op.

    An op holds all that it uses for as long as its result takes. The task ``without`` is left out.
    """
    of = {engine.name: k for k, engine in enumerate(problem.engines)}
    place = {op.name: k for k, op in enumerate(op for op in problem.ops if op.task != without)}
    modes = [op.modes[0] for op in problem.ops if op.name in place]
    demands = []
    for mode in modes:
        wanted = [0] * len(of)
        for use in mode.uses:
            wanted[of[use.engine]] += use.units if use.ticks else 0
        demands.append(tuple(wanted))
    inside = [edge for edge in problem.precedences if edge.before in place and edge.after in place]
    return Rcpsp(
        name,
        tuple(mode.latency_ticks for mode in modes),
        tuple(demands),
        tuple(engine.units for engine in problem.engines),
        tuple((place[edge.before], place[edge.after]) for edge in inside),
    )
