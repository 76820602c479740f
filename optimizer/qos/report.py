"""What each policy does to the stream and to the fillers, on one arrival trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import ConfigDict, Field

from hexloom.formulations.mode import Text
from hexloom.formulations.problem import Frozen
from hexloom.optimizer.qos.measure import table_of
from hexloom.optimizer.qos.model import arrival_times
from hexloom.optimizer.qos.replay import POLICIES, replay

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.qos.choice import Table
    from hexloom.optimizer.qos.model import Qos
    from hexloom.optimizer.qos.replay import Policy, Replayed


class PolicyRow(Frozen):
    """One policy; times in nanoseconds, ``filler_ns`` is the work of fillers as if each ran alone.

    ``against_alone`` is that work in parts of what policy ``alone`` gets done; None where that is nothing.
    """

    policy: Text
    title: Text
    queries: int
    late: int
    worst_ns: int
    p99_ns: int
    median_ns: int
    filler_ns: int
    against_alone: float | None
    iterations: dict[Text, int]
    fused: int
    reordered: int
    alone: int
    least_room_ns: int | None


class PairRow(Frozen):
    """What a kernel alone and with a whole filler takes, and how much of it gains most where headroom is plenty."""

    stream: Text
    filler: Text
    alone_ns: int
    filler_ns: int
    fused_ns: int
    best_iterations: int
    of: int
    gain_ns: int


class QosReport(Frozen):
    """All policies on the same arrivals."""

    schema_: Literal["hexloom.qos_report/1"] = Field(default="hexloom.qos_report/1", alias="schema")
    name: Text
    machine: Text | None
    deadline_ns: int
    guard_ns: int
    work_ns: int
    rows: tuple[PolicyRow, ...]
    pairs: tuple[PairRow, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raises pydantic.ValidationError when it is something else."""
        return cls.model_validate_json(text)


def qos(spec: Qos, machine: Machine | None, *, time_limit_s: float = 1.0, seed: int = 1) -> QosReport:
    """Replay the arrivals of ``spec`` under every policy.

    Raises
    ------
    InvalidInputError
        A task has no plan, or a time is no whole number of nanoseconds.
    """
    table = table_of(spec, machine, time_limit_s=time_limit_s, seed=seed)
    arrivals = arrival_times(spec)
    names = [filler.name for filler in spec.fillers]
    rows: list[PolicyRow] = []
    for policy in POLICIES:
        row = _row(policy, replay(table, arrivals, policy), table, arrivals, names)
        base = rows[0].filler_ns if rows else row.filler_ns
        rows.append(row.model_copy(update={"against_alone": row.filler_ns / base if base else None}))
    return QosReport(
        name=spec.name,
        machine=None if machine is None else machine.name,
        deadline_ns=table.deadline,
        guard_ns=table.guard,
        work_ns=table.work,
        rows=tuple(rows),
        pairs=_pairs(spec, table),
    )


def _row(policy: Policy, found: Replayed, table: Table, arrivals: tuple[int, ...], names: list[str]) -> PolicyRow:
    latencies = sorted(end - arrived for end, arrived in zip(found.answered, arrivals, strict=True))
    kinds = [step.kind for step in found.steps]
    rooms = [step.room for step in found.steps if step.query >= 0 or step.kind == "reorder"]
    return PolicyRow(
        policy=policy,
        title=POLICIES[policy],
        queries=len(latencies),
        late=sum(latency > table.deadline for latency in latencies),
        worst_ns=latencies[-1],
        p99_ns=latencies[-1 - len(latencies) // 100],
        median_ns=latencies[len(latencies) // 2],
        filler_ns=sum(n * ns for n, ns in zip(found.iterations, table.iteration, strict=True)),
        against_alone=None,
        iterations=dict(zip(names, found.iterations, strict=True)),
        fused=kinds.count("fuse"),
        reordered=kinds.count("reorder"),
        alone=kinds.count("alone"),
        least_room_ns=min(rooms, default=None),
    )


def _pairs(spec: Qos, table: Table) -> tuple[PairRow, ...]:
    rows = []
    for k, kernel in enumerate(spec.stream):
        for f, filler in enumerate(spec.fillers):
            pair = table.fused[k][f]
            if pair is None or not pair.points:
                continue
            taken, gain = pair.take(table.iteration[f], table.deadline, table.iterations[f])
            rows.append(
                PairRow(
                    stream=kernel.name,
                    filler=filler.name,
                    alone_ns=pair.alone,
                    filler_ns=table.iteration[f] * table.iterations[f],
                    fused_ns=pair.points[-1][1],
                    best_iterations=taken,
                    of=table.iterations[f],
                    gain_ns=gain,
                )
            )
    return tuple(rows)
