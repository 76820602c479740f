"""What a study found: the same work in four ways, and without one thing at a time. Exact numbers in one unit."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field

from hexloom.formulations.mode import Text
from hexloom.formulations.problem import Frozen
from hexloom.formulations.ticks import Moment, Ticks
from hexloom.optimizer.schedule import Advice, Gain

GroupName = Literal["serial", "existing", "concurrent", "fused_serial", "plan"]

GROUPS: dict[GroupName, str] = {
    "serial": "one stage at a time",
    "existing": "tasks back to back, each with today's loop",
    "concurrent": "today's loops on queues of their own, first come, first served",
    "fused_serial": "one entry, our plan with a barrier after every step",
    "plan": "one entry, our plan",
}
"""What each group is; the last two differ by the barriers alone."""


class Group(Frozen):
    """One way to run the work: its time, and ``existing - makespan`` in five parts; None where there is none."""

    name: GroupName
    makespan: Ticks | None
    gain: Gain | None = None
    note: Text = ""


class Ablation(Frozen):
    """The work solved without one thing. ``note`` says why it does not apply where ``makespan`` is None.

    ``costs`` is how much longer it takes than the plan with everything; less than nothing where the search found
    more without it, or the thing does not pay.
    """

    name: Text
    title: Text
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "LIMIT", "INVALID"]
    makespan: Ticks | None = None
    lower_bound: Ticks | None = None
    costs: Ticks | None = None
    note: Text = ""


class Study(Frozen):
    """All times in ``unit``, exact: whole numbers, or fractions as text."""

    schema_: Literal["hexloom.study/1"] = Field(default="hexloom.study/1", alias="schema")
    name: Text
    machine: Text | None
    unit: Literal["us", "ticks"]
    contention: Text
    seed: int | None
    status: Literal["OPTIMAL", "FEASIBLE"]
    lower_bound: Ticks
    bottleneck: Text | None
    groups: tuple[Group, ...]
    advice: Advice | None
    ablations: tuple[Ablation, ...] = ()
    notes: tuple[Text, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    def group(self, name: GroupName) -> Group:
        """Return one of the groups."""
        return next(group for group in self.groups if group.name == name)

    def makespan(self, name: GroupName) -> Moment | None:
        """Return the time of a group in ``unit``."""
        return self.group(name).makespan

    def to_json(self) -> str:
        """Return the study as JSON."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raises pydantic.ValidationError when it is something else."""
        return cls.model_validate_json(text)
