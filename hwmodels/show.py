"""A machine as rows of text, for tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.hwmodels.quantity import format_bytes
from hexloom.hwmodels.sections import Quantity, Section

if TYPE_CHECKING:
    from hexloom.hwmodels.machine import Machine

COLUMNS = ("section", "name", "value", "unit", "range", "confidence", "source")


def machine_rows(machine: Machine) -> list[dict[str, str]]:
    """
    Return one row per key of the machine file, in its order, with the columns of ``COLUMNS``.

    Parameters
    ----------
    machine
        The machine. A number that it does not have is shown as ``-``.
    """
    rows = [
        _row("machine", "name", machine.name),
        _row("machine", "title", machine.title),
        _row("machine", "soc", machine.soc),
        _row("machine", "arch", f"v{machine.arch}" if machine.name.startswith("hexagon") else str(machine.arch)),
    ]
    for section_name in type(machine).model_fields:
        section = getattr(machine, section_name)
        if isinstance(section, Section):
            for key in type(section).model_fields:
                value = getattr(section, key)
                rows.append(
                    _quantity_row(section_name, key, value)
                    if isinstance(value, Quantity)
                    else _row(section_name, key, "-" if value is None else str(value))
                )
        elif isinstance(section, dict):
            rows += [_quantity_row(section_name, key, quantity) for key, quantity in section.items()]
    return rows


def _quantity_row(section: str, name: str, quantity: Quantity) -> dict[str, str]:
    low_high = "" if quantity.range is None else " .. ".join(str(end) for end in quantity.range)
    row = _row(section, name, str(quantity.value))
    if quantity.unit == "B":
        row["value"] = format_bytes(quantity.whole).replace(" B", "", 1)  # the unit has a column of its own
    row |= {
        "unit": quantity.unit,
        "range": low_high,
        "confidence": quantity.confidence,
        "source": quantity.source,
    }
    return row


def _row(section: str, name: str, value: str) -> dict[str, str]:
    return dict.fromkeys(COLUMNS, "") | {"section": section, "name": name, "value": value}
