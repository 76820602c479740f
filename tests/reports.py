"""Reports of small schedules, for the tests of the page and of its words."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from measured import rerun, written
from unit.emit import examples

from hexloom.emit.report import infeasible_report_html, report_html
from hexloom.optimizer.infeasibility import Holder, Infeasibility, Lever, Member
from hexloom.optimizer.traces.compare import compare
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.what_if import Slack, WhatIf, WhatIfRow

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.formulations.problem import Op
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.comparison import Comparison

MIB = 1 << 20

NO_PLAN = Infeasibility(
    kind="live_bytes",
    op="b",
    resource="scratchpad",
    need=3 * MIB,
    have=2 * MIB,
    short=MIB,
    unit="bytes",
    time_unit="us",
    holders=(Holder(buffer="x</script>", size_bytes=2 * MIB, address=0), Holder(buffer="y", size_bytes=MIB)),
    message=f"op 'b' needs {examples.BAD}",
    conflict=(Member(kind="buffer", names=("x",), text="the 2 MiB of x", without="feasible"),),
    conflict_proven=True,
    minimal=True,
    levers=(Lever(text="split x", outcome="feasible", makespan=12.5, cost=0.5, least=True), Lever(text="drop y")),
)

POINTS = WhatIf(
    name="small",
    machine="v79",
    time_unit="us",
    rows=(
        WhatIfRow(field="vtcm", value=4, unit="MiB", status="INFEASIBLE", makespan=None, lower_bound=None, gap=None,
                  bottleneck=None),
        WhatIfRow(field="vtcm", value=8, unit="MiB", status="OPTIMAL", makespan=140.5, lower_bound=140.5, gap=0.0,
                  bottleneck="hmx", current=True),
        WhatIfRow(field="vtcm", value=16, unit="MiB", status="FEASIBLE", makespan=131, lower_bound=120, gap=0.084,
                  bottleneck="hvx", carried=True),
    ),
    slack=(Slack(op="gemm.load[0]", slack=0, most=0), Slack(op="gemm.load[1]", slack=2, most=3)),
)  # fmt: skip


def longer(op: Op) -> Fraction:
    """Return how much longer than predicted an op takes: matrix work is a third off, the rest a little."""
    return Fraction(4, 3) if op.stage == "matmul" else Fraction(21, 20)


def measured(schedule: Schedule, folder: Path) -> Comparison:
    """Return ``schedule`` held against a run in which everything takes longer."""
    path = folder / "trace.json"
    path.write_text(written(schedule, [rerun(schedule, longer)]), encoding="utf-8")
    return compare(schedule, read_trace(path))


@cache
def small() -> Schedule:
    """Return the schedule that most of these tests show, made once."""
    return examples.small()


def page(kind: str, folder: Path) -> str:
    """Return the report of one kind: small, hostile, measured, whatif or infeasible."""
    if kind == "infeasible":
        return infeasible_report_html(examples.BAD, "v79", NO_PLAN)
    schedule = examples.hostile() if kind == "hostile" else small()
    found = measured(schedule, folder) if kind == "measured" else None
    return report_html(schedule, found, POINTS if kind == "whatif" else None)
