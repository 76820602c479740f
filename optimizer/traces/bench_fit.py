"""A machine file from the kit's micro-benchmarks: the overheads that they time, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexloom.optimizer.traces.bench_log import WHY_NOT, said
from hexloom.optimizer.traces.calibrate import Calibration, FittedRow, OpenRow, rewritten, tells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.traces.bench_log import Measure


def calibrate_bench(machine: Machine, logs: Sequence[dict[str, Measure]]) -> tuple[Calibration, Machine]:
    """Fit the overheads of ``machine`` to logs of the kit's micro-benchmarks; returns what was learnt, and the machine.

    Numbers are the middle of the rounds, and their interval is all that any round took.
    """
    known = dict(machine.quantities())
    found = said(logs)
    rows, left, unseen = [], [], []
    for one in found:
        quantity = known[one.name]
        if one.refused:
            left.append(OpenRow(name=one.name, matters=True, reason=one.refused, run=tells(one.name)))
            continue
        rows.append(
            FittedRow(
                name=one.name,
                unit=quantity.unit,
                before=float(quantity.exact),
                value=one.value,
                low=one.low,
                high=one.high,
            )
        )
        for k, value in enumerate(one.each):
            others = one.each[:k] + one.each[k + 1 :]
            if others and value:
                unseen.append(abs(float(np.median(others)) / value - 1))
    left += [
        OpenRow(name=name, matters=True, reason=why, run=tells(name)) for name, why in WHY_NOT.items() if name in known
    ]
    report = Calibration(
        machine=machine.name,
        phases=len(found),
        runs=len(logs),
        before=float(np.median([abs(row.before / row.value - 1) for row in rows if row.value])) if rows else 0.0,
        spread=float(np.median([(row.high - row.low) / 2 / row.value for row in rows if row.value])) if rows else 0.0,
        unseen=float(np.median(unseen)) if unseen else 0.0,
        fitted=tuple(rows),
        open=tuple(left),
    )
    return report, rewritten(machine, rows, f"the kit's micro-benchmarks, {len(logs)} logs, middle of their rounds")
