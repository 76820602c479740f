"""How classes of ops slow each other: what the workload says, and what the machine file knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.problem import Interference
from hexloom.hwmodels import cost
from hexloom.hwmodels.errors import did_you_mean
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Op
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.workload import Workload


def interference_of(workload: Workload, machine: Machine, ops: Sequence[Op]) -> tuple[Interference, ...]:
    """Return the factors between classes: the machine's where both are here, and the workload's, which come first.

    A class of the workload's that no op has would be read and forgotten.
    """
    classes = sorted({mode.op_class for op in ops for mode in op.modes} - {""})
    for factor in workload.interference:
        for name in (factor.victim, factor.cause):
            if name not in classes:
                raise InvalidInputError(
                    f"interference: no op is of class {name!r}{did_you_mean(name, classes)}; "
                    f"known: {', '.join(classes) or 'none'}"
                )
    given = [(f.victim, f.cause, f.factor) for f in workload.interference]
    said = {(victim, cause) for victim, cause, _ in given}
    given += [
        (victim, cause, factor.limit_denominator(10**6))
        for (victim, cause), factor in cost.interference(machine).items()
        if (victim, cause) not in said and victim in classes and cause in classes
    ]
    return tuple(Interference(victim=victim, cause=cause, factor=str(factor)) for victim, cause, factor in given)
