"""Where a fit begins for classes of ops: what ops that ran alone say, and the two-phase law for those side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexloom.hwmodels.sections import BESIDE, PER_UNIT
from hexloom.optimizer.traces.pairs import PairRow, Shared, pair_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.traces.observe import Observations

GUESSED = {"confidence": "guess", "source": "not measured; where a fit begins"}


def first_values(machine: Machine, seen: Sequence[Observations]) -> tuple[Machine, tuple[PairRow, ...]]:
    """Return ``machine`` with costs of classes and speeds side by side as the runs say by themselves, and the pairs.

    Pairs of classes that worked at the same time and that the machine file does not know are added to it.
    """
    values: dict[str, float] = {}
    ratios: dict[str, list[float]] = {}
    for one in seen:
        for name, of in one.alone(machine).items():
            ratios.setdefault(name, []).extend(of)
    for name, of in ratios.items():
        each = machine.classes.get(name + PER_UNIT)
        if each is not None:
            values[f"classes.{name}{PER_UNIT}"] = float(each.exact) * float(np.median(of))
    better = _with(machine, values)
    pairs: dict[tuple[str, str], list[Shared]] = {}
    for one in seen:
        for pair, shared in one.beside(better).items():
            pairs.setdefault(pair, []).extend(shared)
    rows = tuple(pair_row(victim, cause, of) for (victim, cause), of in sorted(pairs.items()))
    data = better.model_dump(mode="json", by_alias=True)
    factors = data.setdefault("interference", {})
    for row in rows:
        name = f"{row.victim}{BESIDE}{row.cause}"
        factors[name] = factors.get(name, {"unit": "ratio", **GUESSED}) | {"value": float(f"{row.speed:.6g}")}
    return type(machine).model_validate(data), rows


def _with(machine: Machine, values: dict[str, float]) -> Machine:
    return machine.with_values({name: float(f"{value:.6g}") for name, value in values.items()}) if values else machine
