"""A schedule against a measured run of it: what differs, by how much, and which assumption was wrong."""

from __future__ import annotations

from bisect import bisect_right, insort
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.ticks import whole
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.simulate import OpTimes
from hexloom.optimizer.traces.bubbles import Bubbles
from hexloom.optimizer.traces.comparison import (
    BubbleRow,
    ClockRow,
    Comparison,
    EngineUse,
    Inversion,
    Matching,
    OpError,
    OverlapUse,
    Pair,
    StageRow,
)
from hexloom.optimizer.traces.match import Run, match, modes_of, of_another
from hexloom.optimizer.traces.parts import measured_gain
from hexloom.optimizer.traces.replay import Lengths, lengths_of, replayed
from hexloom.optimizer.traces.spans import busy, common_ticks, engine_spans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.formulations.problem import Mode
    from hexloom.formulations.ticks import Moment
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.trace import Trace

MOST_STAGES_REPLAYED = 64
"""Stages whose effect on the makespan is asked for one by one; the others get none."""

Times = OpTimes["Moment"]


def compare(
    schedule: Schedule | PeriodicSchedule, trace: Trace, *, machine: Machine | None = None, khz: int | None = None
) -> Comparison:
    """Return how a measured run of ``schedule`` differs from its prediction.

    Parameters
    ----------
    schedule, trace
        What was predicted and what was measured; the trace names its events like the ops, or like their stages in the
        order of the plan. Of a schedule of loops, the iterations that it has written down are held against the run.
    machine
        The machine file behind the prediction, to tell its clock from the model's errors.
    khz
        Clock of a trace in cycles that does not state one.

    Raises
    ------
    InvalidInputError
        If no op of the schedule is in the trace, or its clock is unknown.
    """
    written = schedule.written if isinstance(schedule, PeriodicSchedule) else schedule
    return _Comparer(written, trace, machine, khz, of_another(schedule, trace)).result()


class _Comparer:
    def __init__(
        self, schedule: Schedule, trace: Trace, machine: Machine | None, khz: int | None, other_plan: str | None
    ) -> None:
        self.schedule, self.trace, self.other_plan = schedule, trace, other_plan
        self.problem, self.modes = schedule.problem, modes_of(schedule)
        self.predicted: dict[str, Times] = {
            r.op: OpTimes(r.start, r.end, r.transfer_start, r.done, r.wait_start, r.observed) for r in schedule.rows
        }
        self.matched = match(schedule, trace, khz)
        self.runs, self.first = _apart(self.matched.runs)
        self.run = sorted(self.runs, key=lambda run: (run.makespan, run.batch))[(len(self.runs) - 1) // 2]
        self.measured: dict[str, Times] = {**self.predicted, **self.run.times}
        clock = khz or trace.khz if trace.clock == "cycles" else None
        self.clock_mhz = None if clock is None else Fraction(clock, 1000)
        self.machine_mhz = None if machine is None else machine.core_mhz
        self.machine_of = {} if machine is None else {"core": machine.core_mhz, "hmx": machine.hmx_mhz}
        self.rates = {d.name: Fraction(d.khz, 1000) for d in trace.domains.values() if d.khz}
        if self.clock_mhz is not None:
            self.rates.setdefault("core", self.clock_mhz)

    def result(self) -> Comparison:
        schedule = self.schedule
        lengths = {name: lengths_of(self.modes[name], times) for name, times in self.measured.items()}
        explained = replayed(schedule, self.modes, lengths)
        slower = self._slower()
        makespan = Pair(predicted=schedule.makespan, measured=whole(Fraction(self.run.makespan)))
        off = Fraction(makespan.measured - makespan.predicted)
        return Comparison(
            name=schedule.name,
            form=self.trace.form,
            unit=schedule.unit,
            tick_us=schedule.problem.tick_us,
            makespan=makespan,
            error=float(off / schedule.makespan) if schedule.makespan else 0.0,
            by_durations=whole(explained - schedule.makespan),
            by_dispatch=whole(Fraction(makespan.measured) - explained),
            clock_mhz=None if self.clock_mhz is None else float(self.clock_mhz),
            machine_mhz=None if self.machine_mhz is None else float(self.machine_mhz),
            clock_text=self._clock(),
            clocks=self._clocks(),
            other_plan=self.other_plan,
            matching=Matching(
                ops=len(self.problem.ops),
                by_name=self.matched.by_name,
                by_order=self.matched.by_order,
                missing=self.matched.missing,
                unknown=self.matched.unknown,
                runs=len(self.matched.runs),
                run=self.run.batch,
            ),
            stages=self._stages(lengths),
            engines=self._engines(),
            overlaps=self._overlaps(),
            bubbles=self._bubbles(slower),
            inversions=self._inversions(),
            gain=schedule.gain,
            measured_gain=measured_gain(
                schedule, self.modes, self.measured, self.run.makespan, explained, slower["measured"]
            ),
            rows=self._rows(),
            warnings=self.trace.findings.warnings,
            notes=self.trace.findings.notes,
        )

    def _rows(self) -> tuple[OpError, ...]:
        found = []
        for op in self.problem.ops:
            now, was = self.run.times.get(op.name), self.predicted[op.name]
            if now is None:
                continue
            begins = "start" if self.modes[op.name].dma is None else "transfer_start"
            found.append(
                OpError(
                    op=op.name,
                    start=_pair(getattr(was, begins), getattr(now, begins)),
                    end=_pair(was.done, now.done),
                )
            )
        return tuple(found)

    def _slower(self) -> dict[str, dict[str, Moment]]:
        """Return by how many ticks ops were slower than alone: as predicted, and that part of what was measured."""
        found: dict[str, dict[str, Moment]] = {"predicted": {}, "measured": {}}
        for name, mode in self.modes.items():
            alone = mode.latency_ticks
            begun = (
                self.predicted[name].start + mode.overhead_ticks
                if mode.dma is None
                else self.predicted[name].transfer_start
            )
            took = self.predicted[name].done - begun
            stretch = max(0, took - alone)
            found["predicted"][name] = stretch
            work = lengths_of(mode, self.measured[name]).work
            whole_work = lengths_of(mode, self.predicted[name]).work
            found["measured"][name] = Fraction(work * stretch) / whole_work if whole_work else 0
        return found

    def _clock(self) -> str | None:
        if self.clock_mhz is None or self.machine_mhz is None:
            return None
        off = self.clock_mhz / self.machine_mhz - 1
        return (
            f"the core ran at {float(self.clock_mhz):,.1f} MHz, the machine file says {float(self.machine_mhz):,.1f} "
            f"({float(off):+.1%})"
        )

    def _clocks(self) -> tuple[ClockRow, ...]:
        """Return the clocks of a trace that has several, by name."""
        rows = []
        for domain in sorted(set(self.trace.domains.values())):
            moved = self.matched.offsets.get(domain)
            mhz = self.machine_of.get(domain.name)
            rows.append(
                ClockRow(
                    domain=domain.name,
                    mhz=domain.khz / 1000 if domain.khz else None,
                    machine_mhz=None if mhz is None else float(mhz),
                    offset_us=None if moved is None else moved.ns / 1000,
                    low_us=None if moved is None or moved.low is None else moved.low / 1000,
                    high_us=None if moved is None or moved.high is None else moved.high / 1000,
                )
            )
        return tuple(rows)

    # --- stages

    def _stages(self, lengths: Mapping[str, Lengths]) -> tuple[StageRow, ...]:
        groups: dict[tuple[str, str, str], list[str]] = {}
        for op in self.problem.ops:
            groups.setdefault((op.task, op.stage or op.name, _engine_of(self.modes[op.name])), []).append(op.name)
        whole_set = len(groups) <= MOST_STAGES_REPLAYED
        known = {name: lengths_of(self.modes[name], self.predicted[name]) for name in self.predicted}
        found = []
        for (task, stage, engine), names in groups.items():
            seen = [name for name in names if any(name in run.times for run in self.runs)]
            if not seen:
                continue
            effect = Fraction(0)
            if whole_set:
                only = {**known, **{name: lengths[name] for name in seen if name in self.run.times}}
                effect = replayed(self.schedule, self.modes, only) - self.schedule.makespan
            found.append(self._stage(task, stage, engine, seen, effect))
        return tuple(sorted(found, key=lambda row: (-abs(row.makespan_effect_us), row.task, row.stage)))

    def _stage(self, task: str, stage: str, engine: str, names: Sequence[str], effect: Fraction) -> StageRow:
        predicted = sorted(_work(self.modes[name], self.predicted[name]) for name in names)
        measured = sorted(_work(self.modes[n], r.times[n]) for r in self.runs for n in names if n in r.times)
        first = (
            sorted(_work(self.modes[n], self.first.times[n]) for n in names if n in self.first.times)
            if self.first
            else []
        )
        skew = sorted(r.times[n].start - self.predicted[n].start for r in self.runs for n in names if n in r.times)
        middle, expected = measured[(len(measured) - 1) // 2], predicted[(len(predicted) - 1) // 2]
        error = Fraction(middle) / expected - 1 if expected else None
        clock = None
        domain = "hmx" if engine == "hmx" and "hmx" in self.rates else "core"
        if engine != "dma" and domain in self.rates and domain in self.machine_of:
            clock = self.machine_of[domain] / self.rates[domain] - 1
        return StageRow(
            task=task,
            stage=stage,
            engine=engine,
            ops=len(names),
            predicted_us=self._us(expected),
            median_us=self._us(middle),
            p95_us=self._us(measured[max(0, -(-len(measured) * 19 // 20) - 1)]),
            first_run_us=self._us(first[(len(first) - 1) // 2]) if first else None,
            error=None if error is None else float(error),
            clock_error=None if clock is None else float(clock),
            skew_us=self._us(skew[(len(skew) - 1) // 2]),
            exact=all(name in run.exact for run in self.runs for name in names if name in run.times),
            makespan_effect_us=self._us(effect),
        )

    def _us(self, ticks: Moment) -> float:
        return float(self.schedule.us(Fraction(ticks)))

    # --- engines

    def _engines(self) -> tuple[EngineUse, ...]:
        found = []
        for engine in self.problem.engines:
            if engine.kind == "share":
                continue
            sides = [engine_spans(self.problem, self.modes, times, engine.name) for times in self._sides()]
            if not any(sides):
                continue
            unions = [busy(spans) for spans in sides]
            totals = [sum((end - start for start, end in spans), Fraction(0)) for spans in sides]
            found.append(EngineUse(engine=engine.name, units=engine.units, busy=_pair(*unions), total=_pair(*totals)))
        return tuple(found)

    def _sides(self) -> tuple[Mapping[str, Times], Mapping[str, Times]]:
        """Return the predicted and the measured times of the ops that were seen."""
        return {name: self.predicted[name] for name in self.run.times}, self.run.times

    def _overlaps(self) -> tuple[OverlapUse, ...]:
        names = [engine.name for engine in self.problem.engines if engine.kind != "share"]
        sides = [
            {name: engine_spans(self.problem, self.modes, times, name) for name in names} for times in self._sides()
        ]
        used = [name for name in names if any(side[name] for side in sides)]
        return tuple(
            OverlapUse(engines=(a, b), together=_pair(*(common_ticks(side[a], side[b]) for side in sides)))
            for k, a in enumerate(used)
            for b in used[k + 1 :]
        )

    def _bubbles(self, slower: Mapping[str, Mapping[str, Moment]]) -> tuple[BubbleRow, ...]:
        predicted, measured = self._sides()
        plan = self.schedule.plan
        was = Bubbles(self.problem, plan, self.modes, predicted, slower["predicted"]).by_engine(self.schedule.makespan)
        now = Bubbles(self.problem, plan, self.modes, measured, slower["measured"]).by_engine(self.run.makespan)
        rows = []
        for engine, split in now.items():
            for reason, ticks in split.idle.items():
                before = was[engine].idle[reason]
                if not ticks and not before:
                    continue
                rows.append(
                    BubbleRow(
                        engine=engine,
                        reason=reason,
                        idle=_pair(before, ticks),
                        deliberate=whole(min(before, ticks)),
                        accidental=whole(max(0, ticks - before)),
                    )
                )
        return tuple(rows)

    def _inversions(self) -> tuple[Inversion, ...]:
        found = []
        for engine in self.problem.engines:
            names = [
                op.name
                for op in self.problem.ops
                if op.name in self.run.times
                and any(u.engine == engine.name and u.ticks for u in self.modes[op.name].uses)
            ]
            names.sort(key=lambda name: (self.predicted[name].start, self.problem.op_index[name]))
            pairs, example = _inverted(names, self.predicted, self.run.times)
            if pairs:
                found.append(Inversion(engine=engine.name, pairs=pairs, example=example))
        return tuple(found)


def _apart(runs: tuple[Run, ...]) -> tuple[tuple[Run, ...], Run | None]:
    """Set the first of several runs apart: caches, clocks and pages are cold."""
    return (runs[1:], runs[0]) if len(runs) > 1 else (runs, None)


def _work(mode: Mode, times: Times) -> Moment:
    return lengths_of(mode, times).work


def _engine_of(mode: Mode) -> str:
    """Return what an op of ``mode`` is counted under: "dma", or the engine that it holds longest."""
    if mode.dma is not None:
        return "dma"
    return max(mode.uses, key=lambda use: use.ticks).engine if mode.uses else "none"


def _pair(predicted: Moment, measured: Moment) -> Pair:
    return Pair(predicted=whole(predicted), measured=whole(measured))


def _inverted(
    names: Sequence[str], predicted: Mapping[str, Times], measured: Mapping[str, Times]
) -> tuple[int, tuple[str, str]]:
    """Count pairs that began strictly in one order and were predicted strictly in the other."""
    seen: list[Moment] = []
    held: list[str] = []
    pairs = 0
    example = ("", "")
    largest: tuple[Moment, str] | None = None
    for name in names:
        if held and predicted[held[0]].start < predicted[name].start:
            for other in held:
                insort(seen, measured[other].start)
                if largest is None or measured[other].start > largest[0]:
                    largest = measured[other].start, other
            held = []
        later = len(seen) - bisect_right(seen, measured[name].start)
        if later and not pairs and largest is not None:
            example = largest[1], name
        pairs += later
        held.append(name)
    return pairs, example
