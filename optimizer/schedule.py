"""The schedule file: a plan with predicted times, bounds and gains. Everything that `check` and `emit` need."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ConfigDict, Field

from hexloom.formulations.configuration.certificate import Certificate
from hexloom.formulations.mode import Text
from hexloom.formulations.problem import Frozen, Problem, Rule
from hexloom.formulations.ticks import Moment, Ticks
from hexloom.optimizer.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.optimizer.simulate import ExactTimeline


Answer = Literal["co_schedule", "pipeline", "keep"]

WORTH = 0.05
"""Share of the existing time that running tasks together must save before it is advised; below it a second task in
one plan is not worth what it costs to build."""

NOTHING = 0.005
"""Share of the existing time below which a gain counts as none: device runs vary by more."""


NOTEBOOK = "hexloom.notebook"
"""The module that draws schedules for notebooks: named here, never imported by this floor."""

ROW_TIMES = ("start", "end", "transfer_start", "done", "wait_start", "observed")


class OpRow(Frozen):
    """Predicted times of one op in ticks; the fields of `hexloom.optimizer.simulate.OpTimes`."""

    op: str
    start: Ticks
    end: Ticks
    transfer_start: Ticks
    done: Ticks
    wait_start: Ticks
    observed: Ticks


class BoundRow(Frozen):
    """A proven lower bound on the makespan, in ticks, the engine it names and why it holds."""

    name: str
    ticks: Ticks
    engine: str | None
    detail: str


class Gain(Frozen):
    """``existing - makespan`` in ticks and its five parts.

    ``gain = saved_entries + overlap_within_tasks + overlap_between_tasks - contention_cost - tail``. The overlap
    between tasks is what it would be if ops did not slow each other, ``contention_cost`` what that takes away again;
    one task alone has neither.
    """

    existing: Ticks
    saved_entries: Ticks
    overlap_within_tasks: Ticks
    overlap_between_tasks: Ticks
    contention_cost: Ticks
    tail: Ticks

    @property
    def total(self) -> int | Fraction:
        """Sum of the five parts."""
        parts = self.saved_entries + self.overlap_within_tasks + self.overlap_between_tasks
        return parts - self.contention_cost - self.tail

    @property
    def together(self) -> Moment:
        """What running the tasks together saves: what remains after contention and the tail."""
        return self.overlap_between_tasks - self.contention_cost - self.tail

    @property
    def answer(self) -> Answer:
        """The advice that follows."""
        return answer_for(self.existing, self.total, self.together)


def answer_for(existing: Moment | float, total: Moment | float, together: Moment | float) -> Answer:
    """Return the advice for a gain of ``total``, of which running the tasks together brings ``together``."""
    if total <= existing * NOTHING:
        return "keep"
    return "co_schedule" if together >= existing * WORTH else "pipeline"


class Advice(Frozen):
    """What to do with the tasks.

    ``co_schedule``: run them together. ``pipeline``: one entry and a pipelined loop per task pay, running them
    together adds little. ``keep``: the existing loops are no worse. ``flips`` names the overheads within whose
    published range the answer changes; None where no overhead was varied.
    """

    answer: Answer
    reason: str
    flips: tuple[str, ...] | None = None


class Schedule(Frozen):
    """A checked schedule of one problem; all times in ticks of ``problem.tick_us``.

    ``certificate`` says what proves the best bound: ``arithmetic``, the prices in ``dual``, or ``search``, which only
    another search can confirm. ``notes`` say in words what a reader should know of the search.
    """

    schema_: Literal["hexloom.schedule/1"] = Field(default="hexloom.schedule/1", alias="schema")
    name: Text
    tool: Text
    machine: Text | None = None
    machine_digest: str | None = None
    workload_digest: str | None = None
    contention: Rule = "none"
    seed: int | None = None
    status: Literal["OPTIMAL", "FEASIBLE"]
    optimal_in: Literal["free_start", "event_driven"] | None = None
    makespan: Ticks
    lower_bound: Ticks
    plan_bound: Ticks
    certificate: Literal["arithmetic", "dual", "search"] = "arithmetic"
    dual: Certificate | None = None
    bounds: tuple[BoundRow, ...] = Field(min_length=1)
    baselines: dict[str, Ticks | None]
    gain: Gain | None
    advice: Advice | None
    notes: tuple[str, ...] = ()
    problem: Problem
    plan: Plan
    rows: tuple[OpRow, ...]

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    @property
    def gap(self) -> Fraction:
        """Relative distance of the makespan to the lower bound."""
        return Fraction(self.makespan - self.lower_bound) / self.makespan if self.makespan else Fraction(0)

    @property
    def plan_gap(self) -> Fraction:
        """Relative distance of the makespan to the bound of the event-driven class."""
        return Fraction(self.makespan - self.plan_bound) / self.makespan if self.makespan else Fraction(0)

    def us(self, ticks: int | Fraction) -> Fraction:
        """Ticks in microseconds; in a problem of bare ticks the ticks themselves."""
        return ticks * (self.problem.tick or Fraction(1))

    @property
    def unit(self) -> str:
        """Unit of what `us` returns."""
        return "ticks" if self.problem.tick is None else "us"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat record per op, as data frames take them; times in `unit`, as floats.

        ``ready`` is when the last result that the op needs is there; ``units`` names what it holds, ``hvx[2]``.
        """
        rows = {row.op: row for row in self.rows}
        chosen = {assignment.op: assignment for assignment in self.plan.assignments}
        entry, found = self.problem.entry_ticks, []
        for op, before in zip(self.problem.ops, self.problem.predecessors, strict=True):
            row, assignment = rows[op.name], chosen[op.name]
            ready = max((rows[self.problem.ops[p].name].observed for p in before), default=entry)
            times = {"ready": ready, **{name: getattr(row, name) for name in ROW_TIMES}}
            held = (f"{engine}[{unit}]" for engine, units in assignment.units.items() for unit in units)
            found.append(
                {
                    "op": op.name,
                    "task": op.task,
                    "stage": op.stage,
                    "tile": op.tile,
                    "mode": op.modes[assignment.mode].name,
                    "units": ",".join(held),
                    **{f"{name}_{self.unit}": float(self.us(ticks)) for name, ticks in times.items()},
                }
            )
        return found

    def _repr_html_(self) -> str:
        """Return the picture that notebooks show; who draws it lives above this floor and is loaded for it."""
        drawn: str = import_module(NOTEBOOK).schedule_html(self)
        return drawn

    def to_json(self) -> str:
        """Return the schedule file: the same bytes for the same schedule."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a schedule file; raises pydantic.ValidationError when it is not one."""
        return cls.model_validate_json(text)


def op_rows(problem: Problem, timeline: ExactTimeline) -> tuple[OpRow, ...]:
    """Return the predicted times of all ops, in the order of ``problem``."""
    rows = []
    for op in problem.ops:
        t = timeline.times[op.name]
        rows.append(
            OpRow(
                op=op.name,
                start=t.start,
                end=t.end,
                transfer_start=t.transfer_start,
                done=t.done,
                wait_start=t.wait_start,
                observed=t.observed,
            )
        )
    return tuple(rows)


def schedule_hash(schedule: Schedule, more: str = "") -> int:
    """Return the first eight bytes of the SHA-256 of plan and problem; in hexadecimal it begins like the digest.

    What has its default value is left out, so that a later version with more fields gives the same hash. ``more`` is
    what else makes the tables what they are.
    """
    text = "\n".join(part.model_dump_json(exclude_defaults=True) for part in (schedule.plan, schedule.problem)) + more
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` so that other readers see the old file or the new one, never a part.

    Raises
    ------
    OSError
        With ``path`` in it, whatever step failed.
    """
    write_together({path: text})


def write_together(texts: Mapping[Path, str]) -> None:
    """Write all files of one run or none: none takes its name before all lie beside theirs.

    Raises
    ------
    OSError
        With the path of the file that cannot be written.
    """
    beside: list[tuple[Path, Path, str]] = []
    path = Path()
    try:
        for path, text in texts.items():
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if path.exists() and not path.is_file():  # a device or a pipe is written to, not replaced
                beside.append((path, path, text))
                continue
            real = path.resolve()  # a link stays one
            beside.append((path, _beside(real, text), ""))
        for path, temporary, text in beside:
            if temporary is not path:
                os.replace(temporary, path.resolve())
                continue
            with contextlib.suppress(BrokenPipeError):  # the reader has all it wants
                path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        for path, temporary, _ in beside:
            if temporary is not path:
                temporary.unlink(missing_ok=True)


def _beside(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return Path(temporary)
