"""What commands read: a workload or a problem from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from hexloom.formulations.problem import Problem
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.reading import read_data
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from pathlib import Path


def load_work(path: Path) -> Workload | Problem:
    """Read a workload (YAML, JSON) or a problem (JSON); ``-`` is standard input.

    Raises
    ------
    InvalidInputError
        It is neither.
    """
    data = read_data(path)
    if isinstance(data, dict) and str(data.get("schema", "")).startswith("hexloom.problem/"):
        try:
            return Problem.model_validate(data)
        except ValidationError as error:
            raise InvalidInputError(f"{path}: {explain(error, Problem)}") from None
    return Workload.from_data(data, str(path))
