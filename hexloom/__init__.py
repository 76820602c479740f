"""hexloom: provably good static co-schedules for neural processing units."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hexloom.formulations.problem import Buffer, Problem
    from hexloom.hwmodels import Machine, list_hw, load_hw
    from hexloom.optimizer.check import check_schedule
    from hexloom.optimizer.errors import HexloomError, InvalidInputError
    from hexloom.optimizer.pack import PackResult, pack
    from hexloom.optimizer.periodic.check import check_periodic_schedule
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.periodic.solve import solve_periodic
    from hexloom.optimizer.pipeline.decide import check_pipeline
    from hexloom.optimizer.pipeline.model import Pipeline
    from hexloom.optimizer.robust.choose import Scatter, monte_carlo
    from hexloom.optimizer.robust.durations import Durations
    from hexloom.optimizer.robust.report import Robustness
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.solve import Result, solve
    from hexloom.optimizer.study.report import Study
    from hexloom.optimizer.study.study import study
    from hexloom.optimizer.traces.compare import compare
    from hexloom.optimizer.traces.comparison import Comparison
    from hexloom.optimizer.traces.importer import read_trace
    from hexloom.optimizer.traces.summary import TraceSummary, summarize
    from hexloom.optimizer.traces.trace import Trace
    from hexloom.optimizer.tune.report import Tuned
    from hexloom.optimizer.tune.search import TuneResult, tune
    from hexloom.optimizer.what_if import WhatIf, what_if
    from hexloom.optimizer.workload import Workload

__version__ = version("hexloom")

__all__ = [
    "Buffer",
    "Comparison",
    "Durations",
    "HexloomError",
    "InvalidInputError",
    "Machine",
    "PackResult",
    "PeriodicSchedule",
    "Pipeline",
    "Problem",
    "Result",
    "Robustness",
    "Scatter",
    "Schedule",
    "Study",
    "Trace",
    "TraceSummary",
    "TuneResult",
    "Tuned",
    "WhatIf",
    "Workload",
    "__version__",
    "check_periodic_schedule",
    "check_pipeline",
    "check_schedule",
    "compare",
    "list_hw",
    "load_hw",
    "monte_carlo",
    "pack",
    "read_trace",
    "solve",
    "solve_periodic",
    "study",
    "summarize",
    "tune",
    "what_if",
]

_HOMES = {
    "Buffer": "hexloom.formulations.problem",
    "Comparison": "hexloom.optimizer.traces.comparison",
    "Durations": "hexloom.optimizer.robust.durations",
    "HexloomError": "hexloom.optimizer.errors",
    "InvalidInputError": "hexloom.optimizer.errors",
    "Machine": "hexloom.hwmodels",
    "PackResult": "hexloom.optimizer.pack",
    "PeriodicSchedule": "hexloom.optimizer.periodic.schedule",
    "Pipeline": "hexloom.optimizer.pipeline.model",
    "Problem": "hexloom.formulations.problem",
    "Result": "hexloom.optimizer.solve",
    "Robustness": "hexloom.optimizer.robust.report",
    "Scatter": "hexloom.optimizer.robust.choose",
    "Schedule": "hexloom.optimizer.schedule",
    "Study": "hexloom.optimizer.study.report",
    "Trace": "hexloom.optimizer.traces.trace",
    "TraceSummary": "hexloom.optimizer.traces.summary",
    "TuneResult": "hexloom.optimizer.tune.search",
    "Tuned": "hexloom.optimizer.tune.report",
    "WhatIf": "hexloom.optimizer.what_if",
    "Workload": "hexloom.optimizer.workload",
    "check_periodic_schedule": "hexloom.optimizer.periodic.check",
    "check_pipeline": "hexloom.optimizer.pipeline.decide",
    "check_schedule": "hexloom.optimizer.check",
    "compare": "hexloom.optimizer.traces.compare",
    "list_hw": "hexloom.hwmodels",
    "load_hw": "hexloom.hwmodels",
    "monte_carlo": "hexloom.optimizer.robust.choose",
    "pack": "hexloom.optimizer.pack",
    "read_trace": "hexloom.optimizer.traces.importer",
    "solve": "hexloom.optimizer.solve",
    "study": "hexloom.optimizer.study.study",
    "solve_periodic": "hexloom.optimizer.periodic.solve",
    "summarize": "hexloom.optimizer.traces.summary",
    "tune": "hexloom.optimizer.tune.search",
    "what_if": "hexloom.optimizer.what_if",
}


def __getattr__(name: str) -> Any:
    """Load a name of the front door when it is first used.

    Loading everything takes up to seconds on a busy machine, and the command line must be able to say what Ctrl-C
    meant in that time.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'hexloom' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    """List the front door, loaded or not."""
    return sorted({*globals(), *__all__})
