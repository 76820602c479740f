"""A machine file from measured runs: the numbers that the data determine, with their spread, and no others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from hexloom.formulations.problem import Frozen
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.robust.durations import LEAST, MOST, Durations, Spread
from hexloom.optimizer.traces.class_rates import class_rates
from hexloom.optimizer.traces.first_values import first_values
from hexloom.optimizer.traces.fit import fit
from hexloom.optimizer.traces.observe import Observations
from hexloom.optimizer.traces.pairs import PairRow
from hexloom.optimizer.traces.stated_clocks import at_stated_clocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.trace import Trace
    from hexloom.optimizer.workload import Workload

FITTED_SECTIONS = ("rates", "dma", "l2", "ddr", "overheads", "classes", "interference")
NOT_FITTED = {
    "dma.ring_depth", "dma.row_field_bits", "dma.length_field_bits", "dma.descriptor_align_bytes",
}  # fmt: skip
CAPACITIES = {"ddr.total_gb_s", "dma.pipe_read_gb_s", "dma.pipe_write_gb_s", "l2.read_gb_s", "l2.write_gb_s"}
"""Numbers that act only where they are full."""

SMALL_US = 0.25
"""What an overhead of 0 is thought of as where a logarithm of it is needed, in microseconds."""

LEAST_PHASES = 8
QUANTILES = 41
"""Points by which the scatter of a stage is told."""

FACTORS = 8.0
"""How far a number may move from the machine file, either way."""

TELLS = {
    "rates": "a run of a kernel that uses it, where neither DDR nor L2 limits it",
    "dma.queue_rate_gb_s": "one transfer at a time on one queue, with rows of at least two lengths",
    "dma.row_ns": "one transfer at a time on one queue, with rows of at least two lengths",
    "dma.pipe_read_gb_s": "loads on all queues at once, alone on the machine",
    "dma.pipe_write_gb_s": "stores on all queues at once, alone on the machine",
    "l2": "vector work that streams through L2 on all contexts, with nothing else on DDR",
    "ddr": "transfers and vector work through L2 at once, until DDR is full",
    "dma": "transfers with nothing else on the machine",
    "overheads": "the same op with its work split into pieces of at least two sizes",
    "classes": "ops of this class alone, of two sizes at least, such as 100 us and 1 ms",
    "interference": "ops of both classes started together, one 10, 20, 180 and 190 % as long as the other",
}
"""Which run would tell a number that these do not, by its name or section."""


class FittedRow(Frozen):
    """A number that the data determine; the interval is two standard errors either way."""

    name: str
    unit: str
    before: float
    value: float
    low: float
    high: float


class OpenRow(Frozen):
    """A number that they do not, and which run would tell it; ``matters`` says whether it plays a part in these."""

    name: str
    matters: bool
    reason: str
    run: str


class StageScatter(Frozen):
    """How the phases of one kind and stage lie around the fit: measured over expected, as 1 plus a part."""

    kind: str
    stage: str
    phases: int
    residual: float
    low: float
    high: float
    quantiles: tuple[float, ...]


class Calibration(Frozen):
    """What was learnt. ``pairs`` are classes that worked side by side, by the two-phase law alone.

    Median errors are of work and flights: ``before`` with the old file, ``unseen`` with numbers fitted to the other
    half of the ops; ``spread`` is how much phases of one stage usually scatter around the fit.
    """

    machine: str
    phases: int
    runs: int
    before: float
    spread: float
    unseen: float
    fitted: tuple[FittedRow, ...]
    open: tuple[OpenRow, ...]
    pairs: tuple[PairRow, ...] = ()
    stages: tuple[StageScatter, ...] = ()


class Calibrator:
    """Fits a machine to the runs of schedules of workloads."""

    def __init__(self, machine: Machine, seen: Sequence[Observations]) -> None:
        self.seen = list(seen)
        self.given = machine
        self.machine, self.pairs = first_values(machine, self.seen)
        self.measured = np.concatenate([one.measured for one in self.seen]) if self.seen else np.empty(0)
        if len(self.measured) < LEAST_PHASES:
            raise InvalidInputError(f"{len(self.measured)} measured phases are too few to fit anything; run more ops")
        self.known = {
            name: quantity
            for name, quantity in self.machine.quantities()
            if name.partition(".")[0] in FITTED_SECTIONS and name not in NOT_FITTED
        }

    def result(self) -> tuple[Calibration, Machine]:
        """Return what was learnt, and the machine with it.

        Raises
        ------
        InvalidInputError
            If there is too little to fit.
        """
        names = self._that_matter()
        start = np.zeros(len(names))
        before = self._residuals({}, self.given)
        capacities = [k for k, name in enumerate(names) if name in CAPACITIES]
        found = fit(
            lambda point: self._residuals(self._values(names, point)), start, self._groups(), self._halves(), capacities
        )
        long = np.array([phase.kind in ("work", "flight") for one in self.seen for phase in one.phases])
        rows, left = [], []
        for k, name in enumerate(names):
            if found.determined[k]:
                rows.append(self._fitted(name, float(found.point[k]), float(found.errors[k])))
            else:
                left.append(_open(name, matters=True))
        left += [_open(name, matters=False) for name in self.known if name not in names]
        report = Calibration(
            machine=self.machine.name,
            phases=len(self.measured),
            runs=sum(len(one.runs) for one in self.seen),
            before=float(np.median(np.abs(before[long]))),
            spread=found.spread,
            unseen=float(np.median(found.unseen[long])),
            fitted=tuple(rows),
            open=tuple(left),
            pairs=self.pairs,
            stages=self._scatter(self._residuals(self._values(names, found.point))),
        )
        source = f"fitted to {report.phases} phases of {report.runs} runs, {report.spread:.1%} scatter each"
        return report, rewritten(self._known_machine(rows), rows, source)

    def _known_machine(self, rows: Sequence[FittedRow]) -> Machine:
        """Return the machine as it was given, with room for pairs that were fitted and that it did not know."""
        data = self.given.model_dump(mode="json", by_alias=True)
        started = self.machine.model_dump(mode="json", by_alias=True)
        for row in rows:
            section, _, key = row.name.partition(".")
            data.setdefault(section, {}).setdefault(key, started[section][key])
        return type(self.given).model_validate(data)

    def _scatter(self, residuals: NDArray[np.float64]) -> tuple[StageScatter, ...]:
        """Return how phases lie around the fit, by kind and stage."""
        groups: dict[tuple[str, str], list[float]] = {}
        phases = [(phase.kind, one.stages[phase.op]) for one in self.seen for phase in one.phases]
        for key, off in zip(phases, residuals.tolist(), strict=True):
            groups.setdefault(key, []).append(math.exp(-off))
        found = []
        for (kind, stage), parts in sorted(groups.items()):
            parts_of = np.quantile(parts, np.linspace(0, 1, QUANTILES)).tolist()
            low, middle, high = (parts_of[round(at * (QUANTILES - 1))] for at in (0.05, 0.5, 0.95))
            found.append(
                StageScatter(
                    kind=kind,
                    stage=stage,
                    phases=len(parts),
                    residual=middle - 1,
                    low=low,
                    high=high,
                    quantiles=tuple(float(f"{part:.5g}") for part in parts_of),
                )
            )
        return tuple(found)

    def _groups(self) -> NDArray[np.int64]:
        """Return a number for each phase: those of one kind and stage scatter alike."""
        names = [f"{phase.kind} {one.stages[phase.op]}" for one in self.seen for phase in one.phases]
        return np.unique(names, return_inverse=True)[1].astype(np.int64)

    def _halves(self) -> NDArray[np.bool_]:
        """Return which phases are of every other op."""
        return np.array([sum(phase.op.encode()) % 2 == 0 for one in self.seen for phase in one.phases])

    def _that_matter(self) -> list[str]:
        """Return the numbers that change what any phase should take."""
        base = self._residuals({})
        found = []
        for name in self.known:
            for by in (0.3, -0.3) if name in CAPACITIES else (0.1,):
                changed = self._residuals(self._values([name], np.array([by])))
                if float(np.abs(changed - base).max()) > 1e-4:
                    found.append(name)
                    break
        return found

    def _values(self, names: Sequence[str], point: NDArray[np.float64]) -> dict[str, float]:
        """Return numbers for a point: factors on what the file says, and on `SMALL_US` for overheads of nothing."""
        found = {}
        for name, x in zip(names, point, strict=True):
            base = float(self.known[name].exact)
            factor = math.exp(min(max(float(x), -math.log(FACTORS)), math.log(FACTORS)))
            unit = self.known[name].unit
            small = SMALL_US if unit == "us" else 0.0
            found[name] = max(0.0, (base + small) * factor - small)
            if unit == "ratio":
                found[name] = min(1.0, found[name])
        return found

    def _with(self, values: Mapping[str, float]) -> Machine:
        return self.machine.with_values({name: _short(value) for name, value in values.items()})

    def _residuals(self, values: Mapping[str, float], base: Machine | None = None) -> NDArray[np.float64]:
        """Return the logarithm of expected over measured for every phase; short ones count in absolute terms."""
        machine = self._with(values) if values else (base or self.machine)
        expected = np.concatenate([one.expected(machine) for one in self.seen])
        return np.asarray(np.log((expected + SMALL_US / 50) / (self.measured + SMALL_US / 50)), dtype=np.float64)

    def _fitted(self, name: str, x: float, error: float) -> FittedRow:
        low, value, high = (self._values([name], np.array([x + d]))[name] for d in (-2 * error, 0.0, 2 * error))
        quantity = self.known[name]
        was = dict(self.given.quantities()).get(name)
        before = 1.0 if was is None else float(was.exact)  # classes that nothing was known of did not slow each other
        return FittedRow(name=name, unit=quantity.unit, before=before, value=value, low=low, high=high)


def rewritten(machine: Machine, rows: Sequence[FittedRow], source: str) -> Machine:
    """Return the machine with fitted numbers, each of which says what it rests on."""
    data: dict[str, Any] = machine.model_dump(mode="json", by_alias=True)
    for row in rows:
        section, _, key = row.name.partition(".")
        value = _short(row.value)
        data[section][key] |= {
            "value": value,
            "range": [min(_short(row.low), value), max(_short(row.high), value)],
            "confidence": "measured",
            "source": source,
        }
    data["name"] = f"{machine.name}-calibrated"
    return type(machine).model_validate(data)


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _open(name: str, *, matters: bool) -> OpenRow:
    reason = "its effect cannot be told from that of others, or is too small" if matters else "it plays no part here"
    return OpenRow(name=name, matters=matters, reason=reason, run=tells(name))


def tells(name: str) -> str:
    """Return which run would tell a number of the machine file."""
    return TELLS.get(name, TELLS[name.partition(".")[0]])


def calibrate(
    machine: Machine, runs: Sequence[tuple[Workload, Schedule, Sequence[Trace]]], *, khz: int | None = None
) -> tuple[Calibration, Machine]:
    """Fit ``machine`` to measured runs of schedules; returns what was learnt, and the machine with it.

    Parameters
    ----------
    machine
        Where the fit begins; what the runs cannot tell stays as it is there.
    runs
        For each schedule the workload that it was solved for, itself, and the traces of its runs.
    khz
        Clock of traces in cycles that do not state one.

    Raises
    ------
    InvalidInputError
        If a trace is not of its schedule, or there is too little to fit.
    """
    machine, clocks = at_stated_clocks(machine, [trace for _, _, traces in runs for trace in traces], khz)
    seen = [Observations(workload, schedule, traces, khz) for workload, schedule, traces in runs]
    report, fitted = Calibrator(machine, seen).result()
    rows = tuple(FittedRow(unit="MHz", **clock._asdict()) for clock in clocks)
    return report.model_copy(update={"fitted": (*rows, *report.fitted)}), fitted


def calibrate_classes(machine: Machine, traces: Sequence[Trace]) -> tuple[Calibration, Machine]:
    """Fit the rates of ``machine`` to op traces of ggml-hexagon; returns what was learnt, and the machine with it.

    Raises
    ------
    InvalidInputError
        If a trace is no log of ggml-hexagon, or says nothing of any rate.
    """
    known = dict(machine.quantities())
    rates = [rate for rate in class_rates(traces, machine) if rate.name in known]
    if not rates:
        raise InvalidInputError(
            "no matmul of these logs has events of threads; record them with GGML_HEXAGON_PROFILE=3"
        )
    rows, left, before, unseen = [], [], [], []
    for rate in rates:
        quantity = known[rate.name]
        if rate.refused:
            left.append(OpenRow(name=rate.name, matters=True, reason=rate.refused, run=TELLS["rates"]))
            continue
        error = rate.spread / math.sqrt(len(rate.values))
        low, high = rate.value * (1 - 2 * error), rate.value * (1 + 2 * error)
        was = float(quantity.exact)
        rows.append(FittedRow(name=rate.name, unit=quantity.unit, before=was, value=rate.value, low=low, high=high))
        values = np.array(rate.values)
        before += np.abs(was / values - 1).tolist()
        for half in (values[::2], values[1::2]):
            other = values[1::2] if half is values[::2] else values[::2]
            unseen += np.abs(np.median(half if len(half) else values) / (other if len(other) else values) - 1).tolist()
    report = Calibration(
        machine=machine.name,
        phases=sum(len(rate.values) for rate in rates),
        runs=sum(trace.batches for trace in traces),
        before=float(np.median(before)) if before else 0.0,
        spread=float(np.median([rate.spread for rate in rates if not rate.refused])) if rows else 0.0,
        unseen=float(np.median(unseen)) if unseen else 0.0,
        fitted=tuple(rows),
        open=tuple(left),
    )
    return report, rewritten(machine, rows, f"middle of {report.phases} op records of ggml-hexagon")


def durations_of(found: Calibration) -> Durations:
    """Return how the work of each stage scatters around the fit, for ``solve(robust=...)``.

    Raises
    ------
    InvalidInputError
        If the calibration saw no stage.
    """
    rows = tuple(
        Spread(
            ops=one.stage.replace("[", "[[]"),
            samples=tuple(min(MOST, max(LEAST, part)) for part in one.quantiles),
        )
        for one in found.stages
        if one.kind in ("work", "flight")
    )
    if not rows:
        raise InvalidInputError("these runs say nothing of how stages scatter; give runs of a schedule")
    return Durations(source=f"{found.phases} phases of {found.runs} runs on {found.machine}", rows=rows)


def machine_yaml(machine: Machine) -> str:
    """Return the machine as a file that ``--hw`` reads."""
    data = machine.model_dump(mode="json", by_alias=True)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
