"""Rates of vector and matrix work from a ggml-hexagon op trace: cycles that threads recorded over the work of the op.

A machine's rates go through the origin, so each op says one value. The middle of them is taken, and refused where the
sizes disagree: then something beside the work is in it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.clock import odd_ones
from hexloom.optimizer.traces.floors import task_of
from hexloom.optimizer.traces.intervals import groups, total

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.traces.trace import Trace

FEWEST = 3
"""Ops from which a rate is taken."""

AGREE = 0.1
"""Rates of the smaller and the larger half of the ops agree within this part of the rate."""

WIDEST = 0.1
"""Scatter above which the middle of the rates is no rate."""

FEW_LOST = 0.005
"""Part of the events whose other end may be missing."""

TILE = 32
CLOCK = "clocks.core_mhz"
HMX = "rates.hmx_fp16_cycles_per_mac"
DEQUANTIZE = {"q4_0": "rates.hvx_dequantize_q4_0", "q8_0": "rates.hvx_dequantize_q8_0"}


class Rate(NamedTuple):
    """A number of the machine file as the ops say it; ``refused`` says why it is none, "" where it is."""

    name: str
    values: tuple[float, ...]
    refused: str

    @property
    def value(self) -> float:
        """The middle of what the ops say."""
        return float(np.median(self.values))

    @property
    def spread(self) -> float:
        """Scatter of one op, relative."""
        return float(np.median(np.abs(np.array(self.values) / self.value - 1))) * 1.4826


class _Seen(NamedTuple):
    work: int
    cycles: int


def class_rates(traces: Sequence[Trace], machine: Machine) -> list[Rate]:
    """Return the rates that ops of ggml-hexagon logs say, and the core clock.

    Raises
    ------
    InvalidInputError
        If a trace is no such log.
    """
    seen: dict[str, list[_Seen]] = {}
    clocks: list[float] = []
    full = False
    for trace in traces:
        if trace.form != "ggml-hexagon":
            raise InvalidInputError(
                f"a trace of {trace.form} says no rates without its plan; give --schedule and --workload"
            )
        full = full or _lost(trace)
        if trace.khz is not None:
            clocks.append(trace.khz / 1000)
        for name, one in _observed(trace):
            seen.setdefault(name, []).append(one)
    rates = [Rate(CLOCK, tuple(clocks), _clock_fault(traces))] if clocks else []
    to_hmx = float(Fraction(machine.hmx_mhz) / Fraction(machine.core_mhz))
    for name, of in sorted(seen.items()):
        scale = to_hmx if name == HMX else 1.0
        values = tuple(scale * one.cycles / one.work for one in of)
        fault = (
            "threads lost records, so sums of cycles are too small: raise GGML_HEXAGON_OPTRACE" if full else _fault(of)
        )
        rates.append(Rate(name, values, fault))
    return rates


def _lost(trace: Trace) -> bool:
    """Whether so many records are missing that sums over an op are too small."""
    unpaired = trace.findings.count("unpaired_start") + trace.findings.count("unpaired_stop")
    return bool(trace.findings.count("saturated") or trace.findings.count("dropped")) or unpaired > FEW_LOST * len(
        trace
    )


def _observed(trace: Trace) -> Iterator[tuple[str, _Seen]]:
    """Yield what each matmul of a log says of a rate."""
    of = trace.columns
    inside = np.flatnonzero(of.op >= 0)
    for op, places in groups(of.op[inside]):
        event = trace[op]
        task = task_of(event.name, event.detail)
        if task is None or task["kernel"] != "matmul_w4a16":
            continue
        m, k, n = task["m"], task["k"], task["n"]
        padded = [-(-size // TILE) * TILE for size in (m, k, n)]
        work = {
            "HVX_W_DEQUANT": (DEQUANTIZE.get(task["weight_type"]), k * n),
            "HVX_W_PREP": ("rates.hvx_prepare_f16" if task["weight_type"] == "f16" else None, k * n),
            "HVX_A_PREP": ("rates.hvx_activation_prepare", m * k),
            "HMX_COMP": (HMX, padded[0] * padded[1] * padded[2]),
        }
        mine = inside[places]
        for number, found in groups(of.name[mine]):
            name, amount = work.get(trace.text(number), (None, 0))
            cycles = total(of.ticks[mine[found]])
            if name is not None and cycles > 0:
                yield name, _Seen(amount, cycles)


def _clock_fault(traces: Sequence[Trace]) -> str:
    for trace in traces:
        pairs = [(e.ticks, e.ticks * 1000 // e.khz) for e in trace if e.kind == "op" and e.khz]
        if trace.khz is not None and len(odd_ones(pairs, trace.khz)) * 10 > len(pairs):
            return "more than a tenth of the ops ran at another clock"
    return ""


def _fault(seen: Sequence[_Seen]) -> str:
    """Return why the ops do not say one rate."""
    if len(seen) < FEWEST:
        return f"{len(seen)} ops are too few"
    ordered = sorted(seen)
    rates = np.array([one.cycles / one.work for one in ordered])
    middle = float(np.median(rates))
    if ordered[0].work * 2 <= ordered[-1].work:
        half = len(rates) // 2
        small, large = float(np.median(rates[:half])), float(np.median(rates[half:]))
        if abs(small - large) > AGREE * middle:
            return f"small ops say {small:.4g}, large ones {large:.4g}: something beside the work is in it"
    if float(np.median(np.abs(rates / middle - 1))) * 1.4826 > WIDEST:
        return "the rate differs from op to op"
    return ""
