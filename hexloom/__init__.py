"""hexloom: provably good static co-schedules for neural processing units."""

from __future__ import annotations

from importlib.metadata import version

from hexloom.formulations.problem import Problem
from hexloom.hwmodels import Machine, list_hw, load_hw
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.errors import HexloomError, InvalidInputError
from hexloom.optimizer.schedule import Schedule
from hexloom.optimizer.solve import Result, solve
from hexloom.optimizer.workload import Workload

__version__ = version("hexloom")

__all__ = [
    "HexloomError",
    "InvalidInputError",
    "Machine",
    "Problem",
    "Result",
    "Schedule",
    "Workload",
    "__version__",
    "check_schedule",
    "list_hw",
    "load_hw",
    "solve",
]
