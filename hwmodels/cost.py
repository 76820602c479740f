"""
What work costs on an engine: exact microseconds, never rounded.

1 GB/s is 10^9 bytes a second, so 1000 bytes a microsecond; 1 MHz is one cycle a microsecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hexloom.hwmodels.errors import MachineFileError, did_you_mean
from hexloom.hwmodels.sections import BESIDE, FIXED, PER_UNIT, Overheads, Rates

if TYPE_CHECKING:
    from hexloom.hwmodels.machine import Machine
    from hexloom.hwmodels.sections import Quantity

_BYTES_PER_US = 1000  # of 1 GB/s
_HMX_TILE = 32  # rows, columns and depth of an fp16 tile
_HMX_INT8_ROWS = 64  # rows of an int8 activation tile
_HVX_RATES = tuple(name for name in Rates.model_fields if name.startswith("hvx_"))


@dataclass(frozen=True, slots=True)
class Descriptor:
    """
    One DMA descriptor.

    Parameters
    ----------
    rows
        Rows it moves; 1 is a linear transfer.
    row_bytes
        Bytes of each row.
    """

    rows: int
    row_bytes: int


def hmx_matmul_us(machine: Machine, m: int, k: int, n: int) -> Fraction:
    """
    Return the time of an fp16 matrix product on the matrix unit, operands in the scratchpad.

    Parameters
    ----------
    machine
        The machine.
    m, k, n
        Rows, depth and columns; each is padded up to whole tiles of 32.

    Raises
    ------
    MachineFileError
        If the matrix unit of the machine is not usable for fp16.
    """
    macs = _padded("m", m, _HMX_TILE) * _padded("k", k, _HMX_TILE) * _padded("n", n, _HMX_TILE)
    return _rate_us(machine, "hmx_fp16_cycles_per_mac", macs)


def hmx_int8_matmul_us(machine: Machine, m: int, k: int, n: int) -> Fraction:
    """
    Return the time of an int8 matrix product on the matrix unit, without the read-out of its result.

    Parameters
    ----------
    machine
        The machine.
    m, k, n
        Rows, padded to 64; depth and columns, padded to 32.
    """
    macs = _padded("m", m, _HMX_INT8_ROWS) * _padded("k", k, _HMX_TILE) * _padded("n", n, _HMX_TILE)
    return _rate_us(machine, "hmx_int8_cycles_per_mac", macs)


def hmx_int8_readout_us(machine: Machine, m: int, n: int) -> Fraction:
    """
    Return the time to read int32 results out of the accumulator, which also holds the matrix unit.

    Parameters
    ----------
    machine
        The machine.
    m, n
        Rows, padded to 64, and columns, padded to 32.
    """
    tiles = (_padded("m", m, _HMX_INT8_ROWS) // _HMX_INT8_ROWS) * (_padded("n", n, _HMX_TILE) // _HMX_TILE)
    return _rate_us(machine, "hmx_int8_readout_cycles_per_tile", tiles)


def hvx_us(machine: Machine, rate_name: str, elements: int, contexts: int) -> Fraction:
    """
    Return the compute time of a data-parallel vector op that is split evenly over some contexts.

    Parameters
    ----------
    machine
        The machine.
    rate_name
        A rate that starts with ``hvx_``, such as ``"hvx_dequantize_q4_0"``.
    elements
        Elements over all contexts.
    contexts
        Contexts that work on it.

    Raises
    ------
    MachineFileError
        If the rate is unknown or has no value on this machine.
    ValueError
        If the machine has fewer contexts.
    """
    if rate_name not in _HVX_RATES:
        raise MachineFileError(f"unknown HVX rate {rate_name!r}{did_you_mean(rate_name, _HVX_RATES)}")
    _at_least("elements", elements, 0)
    _check_contexts(machine, contexts)
    return _rate_us(machine, rate_name, elements) / contexts


def dma_queue_us(machine: Machine, row_bytes: int, rows: int) -> Fraction:
    """
    Return how long a transfer keeps the queue of one thread busy; the pipe may be slower.

    Parameters
    ----------
    machine
        The machine.
    row_bytes
        Bytes of each row.
    rows
        Rows; each costs ``dma.row_ns`` on top of its bytes.
    """
    _at_least("row_bytes", row_bytes, 1)
    _at_least("rows", rows, 0)
    row_us = machine.dma.row_ns.exact / 1000
    return rows * (_stream_us(row_bytes, machine.dma.queue_rate_gb_s) + row_us)


def dma_pipe_us(machine: Machine, n_bytes: int, direction: Literal["read", "write"]) -> Fraction:
    """
    Return how long bytes keep the shared DMA pipe busy.

    Parameters
    ----------
    machine
        The machine.
    n_bytes
        Bytes over all queues.
    direction
        ``"read"`` from DDR or ``"write"`` to DDR.
    """
    if direction not in ("read", "write"):
        raise ValueError(f"direction is {direction!r}: write 'read' or 'write'")
    return _stream_us(n_bytes, machine.dma.pipe_read_gb_s if direction == "read" else machine.dma.pipe_write_gb_s)


def l2_read_us(machine: Machine, n_bytes: int, contexts: int, *, prefetched: bool = True) -> Fraction:
    """
    Return the time to read bytes from DDR through L2.

    Parameters
    ----------
    machine
        The machine.
    n_bytes
        Bytes over all contexts.
    contexts
        Contexts that read. They only matter for loads without prefetch.
    prefetched
        Whether ``l2fetch`` runs ahead, so that only the path itself limits. Default ``True``.
    """
    _check_contexts(machine, contexts)
    path_us = _stream_us(n_bytes, machine.l2.read_gb_s)
    if prefetched:
        return path_us
    return max(path_us, _stream_us(n_bytes, machine.l2.read_per_context_gb_s) / contexts)


def l2_write_us(machine: Machine, n_bytes: int) -> Fraction:
    """
    Return the time to store bytes to DDR through L2.

    Parameters
    ----------
    machine
        The machine.
    n_bytes
        Bytes over all contexts.
    """
    return _stream_us(n_bytes, machine.l2.write_gb_s)


def ddr_us(machine: Machine, n_bytes: int) -> Fraction:
    """
    Return the time that bytes take from or to DDR when nobody else uses it: no op is faster.

    Parameters
    ----------
    machine
        The machine.
    n_bytes
        Bytes over all paths and both directions.
    """
    return _stream_us(n_bytes, machine.ddr.total_gb_s)


def channel_mb_s(machine: Machine) -> dict[str, int]:
    """
    Return what engines share on the way to DDR: the capacity of each channel in whole MB/s, rounded down.

    Parameters
    ----------
    machine
        The machine. The pipe behind all DMA queues, ``dma``, has the capacity of reads; writes, which are slower, pull
        more of it than their bytes.
    """
    rates = {
        "dma": machine.dma.pipe_read_gb_s,
        "ddr": machine.ddr.total_gb_s,
        "l2_read": machine.l2.read_gb_s,
        "l2_write": machine.l2.write_gb_s,
    }
    return {name: int(rate.exact * _BYTES_PER_US) for name, rate in rates.items()}


def overhead_us(machine: Machine, name: str) -> Fraction:
    """
    Return one overhead.

    Parameters
    ----------
    machine
        The machine.
    name
        A key of the ``overheads`` section, such as ``"fork_join"``.

    Raises
    ------
    MachineFileError
        If there is no such overhead.
    """
    if name not in Overheads.model_fields:
        raise MachineFileError(f"unknown overhead {name!r}{did_you_mean(name, Overheads.model_fields)}")
    quantity: Quantity = getattr(machine.overheads, name)
    return quantity.exact


def cache_range_us(machine: Machine) -> Fraction:
    """
    Return the cost of cleaning or invalidating the cache lines of a range, in microseconds; 0 where none is known.

    Parameters
    ----------
    machine
        The machine; ``overheads.cache_range`` may be missing in files of one's own.
    """
    quantity = machine.overheads.cache_range
    return Fraction(0) if quantity is None else quantity.exact


def hmx_handover_us(machine: Machine) -> Fraction:
    """
    Return the cost of handing a job to the matrix unit's thread, spinning or sleeping as the machine does.

    Parameters
    ----------
    machine
        The machine; ``behaviour.hmx_handover`` decides.
    """
    return overhead_us(machine, f"hmx_handover_{machine.behaviour.hmx_handover}")


def dma_descriptors(machine: Machine, row_bytes: int, rows: int, stride_bytes: int) -> list[Descriptor]:
    """
    Return the descriptors that move rows, split where a descriptor field would overflow.

    Rows without a gap are linear transfers. Rows with a gap are 2-D ones, split by the height field; where
    the stride itself does not fit its field, every row becomes a linear transfer.

    Parameters
    ----------
    machine
        The machine.
    row_bytes
        Bytes of each row.
    rows
        Rows.
    stride_bytes
        Bytes from the start of one row to the start of the next, the larger of source and destination.

    Raises
    ------
    ValueError
        If a size is not positive or rows overlap.
    """
    _at_least("row_bytes", row_bytes, 1)
    _at_least("rows", rows, 1)
    if rows > 1 and stride_bytes < row_bytes:
        raise ValueError(f"stride_bytes {stride_bytes} is less than row_bytes {row_bytes}: the rows overlap")

    linear_limit = (1 << machine.dma.length_field_bits.whole) - 1
    field_limit = (1 << machine.dma.row_field_bits.whole) - 1
    if rows == 1 or stride_bytes == row_bytes:
        return [Descriptor(1, size) for size in _pieces(rows * row_bytes, linear_limit)]
    if stride_bytes <= field_limit:
        return [Descriptor(height, row_bytes) for height in _pieces(rows, field_limit)]
    return [Descriptor(1, size) for size in _pieces(row_bytes, linear_limit)] * rows


def _pieces(total: int, limit: int) -> list[int]:
    full, rest = divmod(total, limit)
    return [limit] * full + ([rest] if rest else [])


def class_us(machine: Machine, op_class: str, work: int) -> Fraction:
    """
    Return the time of an op of a class alone on the machine: what any such op takes, and its units of work.

    Raises
    ------
    MachineFileError
        If the machine file says no time per unit of this class.
    """
    _at_least("work", work, 1)
    each = machine.classes.get(op_class + PER_UNIT)
    if each is None:
        known = sorted(name.removesuffix(PER_UNIT) for name in machine.classes if name.endswith(PER_UNIT))
        raise MachineFileError(
            f"machine {machine.name!r} has no value for classes.{op_class}{PER_UNIT}{did_you_mean(op_class, known)}; "
            f"known classes: {', '.join(known) or 'none'}"
        )
    fixed = machine.classes.get(op_class + FIXED)
    return (Fraction(0) if fixed is None else _in_us(machine, fixed, fixed.exact)) + _in_us(
        machine, each, each.exact * work
    )


def interference(machine: Machine) -> dict[tuple[str, str], Fraction]:
    """Return the speed that is left to an op of the first class beside one of the second, where the file says it."""
    return {(name.partition(BESIDE)[0], name.partition(BESIDE)[2]): q.exact for name, q in machine.interference.items()}


def _rate_us(machine: Machine, rate_name: str, count: int) -> Fraction:
    quantity: Quantity | None = getattr(machine.rates, rate_name)
    if quantity is None:
        raise MachineFileError(
            f"machine {machine.name!r} has no value for rates.{rate_name}: the engine cannot do this, or"
            " nothing is known; choose another machine or set the rate in a machine file"
        )
    return _in_us(machine, quantity, quantity.exact * count)


def _in_us(machine: Machine, quantity: Quantity, cost: Fraction) -> Fraction:
    """Return a cost in the unit of ``quantity`` in microseconds."""
    if quantity.unit == "us":
        return cost
    if quantity.clock == "hmx_cycles":
        return cost / machine.hmx_mhz
    if quantity.clock == "core_cycles":
        return cost / machine.core_mhz
    return cost / 1000  # ns


def _stream_us(n_bytes: int, rate: Quantity) -> Fraction:
    _at_least("n_bytes", n_bytes, 0)
    return n_bytes / (rate.exact * _BYTES_PER_US)


def _padded(name: str, size: int, granule: int) -> int:
    _at_least(name, size, 1)
    return -(-size // granule) * granule


def _check_contexts(machine: Machine, contexts: int) -> None:
    _at_least("contexts", contexts, 1)
    if contexts > machine.hvx_contexts:
        raise ValueError(f"contexts is {contexts}, but machine {machine.name!r} has {machine.hvx_contexts}")


def _at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}: write a whole number of {least} or more")
