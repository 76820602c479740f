"""The clocks at which traces in cycles were recorded: what a machine file's costs in cycles are fitted at."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.traces.trace import Trace

KEYS = {"core": "core_mhz", "hmx": "hmx_mhz"}
"""By domain; DDR has no clock in a machine file, its costs are nanoseconds."""

APART = 0.05
"""Part by which the clocks of several traces may differ."""


class Stated(NamedTuple):
    """A clock in MHz: that of the file, and the middle, least and most of the traces."""

    name: str
    before: float
    value: float
    low: float
    high: float


def at_stated_clocks(machine: Machine, traces: Sequence[Trace], khz: int | None) -> tuple[Machine, tuple[Stated, ...]]:
    """Return the machine with the clocks that traces state, and these; ``khz`` is that of traces which state none.

    Raises
    ------
    InvalidInputError
        If traces state clocks that lie far apart: cycles of one are no cycles of the other.
    """
    seen: dict[str, list[float]] = {}
    for trace in traces:
        rate = khz or trace.khz
        if trace.clock == "cycles" and rate:
            seen.setdefault("core", []).append(rate / 1000)
        for domain in set(trace.domains.values()):
            if domain.khz:
                seen.setdefault(domain.name, []).append(domain.khz / 1000)
    data = machine.model_dump(mode="json", by_alias=True)
    rows = []
    for name, of in seen.items():
        if name not in KEYS:
            continue
        if max(of) > min(of) * (1 + APART):
            raise InvalidInputError(
                f"traces state {name} clocks from {min(of):,.1f} to {max(of):,.1f} MHz; calibrate each clock by itself"
            )
        value, key = float(f"{median(of):.6g}"), KEYS[name]
        rows.append(Stated(f"clocks.{key}", float(data["clocks"][key]["value"]), value, min(of), max(of)))
        data["clocks"][key] |= {
            "value": value,
            "range": [min(value, *of), max(value, *of)],
            "confidence": "measured",
            "source": f"stated by {len(of)} traces",
        }
    return (type(machine).model_validate(data) if rows else machine), tuple(rows)
