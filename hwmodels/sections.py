"""The parts of a machine: numbers with unit, source and confidence, grouped by what they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, model_validator

from hexloom.hwmodels.quantity import exact, parse_bytes

if TYPE_CHECKING:
    from fractions import Fraction

Confidence = Literal["measured", "documented", "inferred", "guess"]
Clock = Literal["core_cycles", "hmx_cycles", "ns"]
Which = Literal["value", "low", "high"]
Handover = Literal["spin", "futex"]
Number = Annotated[int, Strict()] | Annotated[float, Strict(), Field(allow_inf_nan=False)]

_FROZEN = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def _number(value: object, unit: object) -> object:
    """Return a number as an int where it is whole; ``1e6`` is text for YAML and a number for people."""
    if isinstance(value, str):
        if unit == "B":
            return parse_bytes(value)
        number = plain(exact(value))
        if exact(number) != exact(value):
            raise ValueError(f"{value!r} has more digits than a float keeps: write {number}")
        return number
    if isinstance(value, float):
        return plain(exact(value))
    return value


def plain(value: Fraction) -> int | float:
    """Return an exact number as files hold it: an int where it is whole, else the nearest float."""
    if value.denominator == 1:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        raise ValueError("the number is too large") from None


class Quantity(BaseModel):
    """
    One number of a machine, with all that is needed to judge it.

    Parameters
    ----------
    value
        The number that is used unless somebody asks for an end of the range.
    unit
        Its unit, such as ``GB/s``, ``B``, ``us``, ``cycles/MAC``.
    clock
        The clock domain that a cost scales with. The unit says how it becomes a time: a cost in ``us``
        with ``core_cycles`` is a time at the core clock of this file. Default ``None``: no cost.
    source
        Where the number is from, and how it was derived.
    confidence
        ``measured``, ``documented``, ``inferred`` (arithmetic on published numbers) or ``guess``.
    range
        The lowest and highest plausible value, in the same unit. Default ``None``: not known.
    """

    model_config = _FROZEN

    value: Number
    unit: str = Field(min_length=1)
    clock: Clock | None = None
    source: str = Field(min_length=1)
    confidence: Confidence
    range: tuple[Number, Number] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_numbers(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        unit = data.get("unit")
        if "value" in data:
            data["value"] = _number(data["value"], unit)
        if isinstance(data.get("range"), list | tuple):
            data["range"] = tuple(_number(end, unit) for end in data["range"])
        return data

    @model_validator(mode="after")
    def _value_in_range(self) -> Quantity:
        if self.value < 0:
            raise ValueError(f"value {self.value} is negative")
        if self.range is not None and not self.range[0] <= self.value <= self.range[1]:
            low, high = self.range
            raise ValueError(f"value {self.value} {self.unit} lies outside its range {low} .. {high}")
        return self

    @property
    def exact(self) -> Fraction:
        """The value as the decimal that was written."""
        return exact(self.value)

    @property
    def whole(self) -> int:
        """The value as an int; only counts and sizes have one."""
        if not isinstance(self.value, int):
            raise ValueError(f"{self.value} {self.unit} is not a whole number")
        return self.value

    def at(self, which: Which) -> Fraction:
        """
        Return the value or an end of the range, exact; without a range all three are the value.

        Parameters
        ----------
        which
            ``"value"``, ``"low"`` or ``"high"``.
        """
        if which == "value" or self.range is None:
            return self.exact
        return exact(self.range[0 if which == "low" else 1])


class _Expect:
    """Ensures that a quantity has one of the given units, each with the clocks it may scale with."""

    def __init__(self, *units: tuple[str, tuple[Clock | None, ...]], whole: bool = False, above_zero: bool = True):
        self.units = dict(units)
        self.whole = whole
        self.above_zero = above_zero

    def __call__(self, quantity: Quantity) -> Quantity:
        if quantity.unit not in self.units:
            raise ValueError(f"unit {quantity.unit!r} is wrong here: write {' or '.join(self.units)}")
        clocks = self.units[quantity.unit]
        if quantity.clock not in clocks:
            names = " or ".join("none" if clock is None else clock for clock in clocks)
            raise ValueError(f"clock {quantity.clock or 'none'!r} is wrong for {quantity.unit}: write {names}")
        numbers = (quantity.value, *(quantity.range or ()))
        if self.whole and not all(isinstance(number, int) for number in numbers):
            raise ValueError(f"{quantity.unit} must be whole numbers, got {numbers[0]}")
        if self.above_zero and min(numbers) <= 0:
            raise ValueError(f"must be above 0 {quantity.unit}, got {min(numbers)}")
        return quantity


def _class_cost(quantity: Quantity) -> Quantity:
    """Check that a cost of a class is a time, or one for each unit of work."""
    return (_OVERHEAD if quantity.unit == "us" else _PER_UNIT)(quantity)


_PLAIN: tuple[Clock | None, ...] = (None,)
_CYCLES: tuple[Clock | None, ...] = ("core_cycles", "hmx_cycles")

Frequency = Annotated[Quantity, AfterValidator(_Expect(("MHz", _PLAIN)))]
Bandwidth = Annotated[Quantity, AfterValidator(_Expect(("GB/s", _PLAIN)))]
Count = Annotated[Quantity, AfterValidator(_Expect(("count", _PLAIN), whole=True))]
Bits = Annotated[Quantity, AfterValidator(_Expect(("bit", _PLAIN), whole=True))]
Size = Annotated[Quantity, AfterValidator(_Expect(("B", _PLAIN), whole=True))]
SizeOrZero = Annotated[Quantity, AfterValidator(_Expect(("B", _PLAIN), whole=True, above_zero=False))]
RowTime = Annotated[Quantity, AfterValidator(_Expect(("ns", ("ns", "core_cycles")), above_zero=False))]
_OVERHEAD = _Expect(("us", ("core_cycles", "hmx_cycles", "ns")), above_zero=False)
_PER_UNIT = _Expect(("cycles/unit", _CYCLES), ("ns/unit", ("ns",)))
Overhead = Annotated[Quantity, AfterValidator(_OVERHEAD)]
PerMac = Annotated[Quantity, AfterValidator(_Expect(("cycles/MAC", _CYCLES), ("ns/MAC", ("ns",))))]
PerTile = Annotated[Quantity, AfterValidator(_Expect(("cycles/tile", _CYCLES), ("ns/tile", ("ns",))))]
PerElement = Annotated[Quantity, AfterValidator(_Expect(("cycles/element", _CYCLES), ("ns/element", ("ns",))))]
Ratio = Annotated[Quantity, AfterValidator(_Expect(("ratio", _PLAIN)))]
ClassCost = Annotated[Quantity, AfterValidator(_class_cost)]

BESIDE = " beside "
"""Between victim and cause in the name of an interference."""

FIXED, PER_UNIT = ".fixed", ".per_unit"
"""What the name of a class ends with: time of any op of it, and time for each unit of its work."""


class Section(BaseModel):
    """A group of quantities; the fields are the keys of the machine file."""

    model_config = _FROZEN


class Clocks(Section):
    """Clock frequencies; the matrix unit has a vote of its own."""

    core_mhz: Frequency
    hmx_mhz: Frequency


class Engines(Section):
    """How many of each unit there are."""

    hvx_contexts: Count
    hmx_units: Count
    hw_threads: Count


class Vtcm(Section):
    """The scratchpad."""

    total_bytes: Size
    reserved_bytes: SizeOrZero
    align_bytes: Size
    hmx_align_bytes: Size


class Dma(Section):
    """
    User DMA: one queue per hardware thread in front of shared pipes.

    ``queue_rate_gb_s`` is the rate of one thread's queue without the cost of its rows, ``row_ns`` that cost,
    and the two pipe rates cap the sum of all queues in one direction.
    """

    queue_rate_gb_s: Bandwidth
    row_ns: RowTime
    pipe_read_gb_s: Bandwidth
    pipe_write_gb_s: Bandwidth
    ring_depth: Count
    row_field_bits: Bits
    length_field_bits: Bits
    descriptor_align_bytes: Size


class L2(Section):
    """The cached path between DDR and the vector contexts; reads and writes have caps of their own."""

    read_gb_s: Bandwidth
    write_gb_s: Bandwidth
    read_per_context_gb_s: Bandwidth


class Ddr(Section):
    """The memory behind all paths."""

    total_gb_s: Bandwidth


class Rates(Section):
    """
    What a piece of work costs on its engine.

    The ``hvx_`` rates are context-cycles per element: one context alone needs that many cycles, n contexts
    an n-th of it. ``None`` says that the machine cannot do the work or that nothing is known about it.
    """

    hmx_fp16_cycles_per_mac: PerMac | None = None
    hmx_int8_cycles_per_mac: PerMac | None = None
    hmx_int8_readout_cycles_per_tile: PerTile | None = None
    hvx_dequantize_q4_0: PerElement | None = None
    hvx_dequantize_q8_0: PerElement | None = None
    hvx_prepare_f16: PerElement | None = None
    hvx_activation_prepare: PerElement | None = None
    hvx_output: PerElement | None = None
    hvx_rmsnorm: PerElement | None = None
    hvx_softmax: PerElement | None = None
    hvx_swiglu: PerElement | None = None
    hvx_add: PerElement | None = None
    hvx_copy: PerElement | None = None
    hvx_dot_q4_0: PerElement | None = None
    hvx_quantize_u8: PerElement | None = None
    hvx_dequantize_i32: PerElement | None = None


class Overheads(Section):
    """
    The cost of starting and handing over work, each on its own and never hidden in durations.

    By design ``value`` is the low end of the range, so that a gain is never owed to an overhead nobody has
    measured; the one exception is a published pair of numbers for the very op (``op`` on v81).
    """

    batch_entry: Overhead
    op: Overhead
    fork_join: Overhead
    hmx_handover_spin: Overhead
    hmx_handover_futex: Overhead
    dma_issue: Overhead
    event_poll: Overhead
    cache_range: Overhead | None = None


class Behaviour(Section):
    """How the runtime on this machine acts where it has a choice."""

    hmx_handover: Handover
