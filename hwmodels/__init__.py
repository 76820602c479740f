"""Machine files: every hardware number with unit, source and confidence; the cost of work on an engine."""

from hexloom.hwmodels.machine import Machine, MachineFileError, Quantity, list_hw, load_hw
from hexloom.hwmodels.quantity import format_bytes, parse_bytes

__all__ = [
    "Machine",
    "MachineFileError",
    "Quantity",
    "format_bytes",
    "list_hw",
    "load_hw",
    "parse_bytes",
]
