"""Mixed-integer programs by CBC or HiGHS through PuLP, read with care.

PuLP reports "Optimal" also for what a solver held when its time was over. So what counts is the solution status, and
the dual bound that the solver itself tells.
"""

from __future__ import annotations

import importlib.util
import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pulp

SolverName = Literal["cbc", "highs"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known: whether nothing is feasible, whether the variables hold a solution, whether it is the best.

    ``bound``: no solution has a smaller objective; None if the solver told nothing.
    """

    infeasible: bool
    solution: bool
    optimal: bool
    bound: float | None
    solver: str


def run(program: Any, seconds: float, solver: SolverName | None = None) -> Answer:
    """Solve ``program`` on one core, by HiGHS where it is installed if no ``solver`` is named.

    Its objective must be bounded: CBC's preprocessing does not tell infeasible from unbounded.
    """
    name = solver or ("highs" if importlib.util.find_spec("highspy") is not None else "cbc")
    refuted = False
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        if name == "highs":
            program.solve(pulp.HiGHS(msg=False, timeLimit=seconds, threads=1, gapRel=0.0, gapAbs=0.0))
            bound = _highs_bound(program.solverModel)
        else:
            given = {"timeLimit": seconds, "threads": 1, "gapRel": 0.0, "options": ["randomSeed 1"]}
            program.solve(pulp.PULP_CBC_CMD(msg=False, logPath=str(log), **given))
            told = log.read_text(encoding="utf-8", errors="replace")
            bound, refuted = cbc_bound(told), cbc_refutes(told)
    status = program.sol_status
    return Answer(
        infeasible=status == pulp.LpSolutionInfeasible or refuted,
        solution=status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible),
        optimal=status == pulp.LpSolutionOptimal,
        bound=bound,
        solver=name,
    )


def cbc_bound(log: str) -> float | None:
    """Return the dual bound that CBC's log tells; of a solution proven optimal it is the objective itself."""
    number = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
    stated = re.search(rf"^Lower bound:\s+{number}", log, re.MULTILINE)
    if stated is not None:
        return float(stated.group(1))
    optimal = re.search(rf"^Result - Optimal solution found\s+Objective value:\s+{number}", log, re.MULTILINE)
    return None if optimal is None else float(optimal.group(1))


def cbc_refutes(log: str) -> bool:
    """Whether CBC's log tells that nothing is feasible: "Integer infeasible" is no solution status of PuLP's."""
    told = r"^(Pre-processing says infeasible or unbounded|Result - Problem proven infeasible)"
    return re.search(told, log, re.MULTILINE) is not None


def _highs_bound(solved: Any) -> float | None:
    bound = float(solved.getInfo().mip_dual_bound)
    return bound if math.isfinite(bound) else None
