"""What an op can ask for: engines and their units, channels and their bytes per second, an owner that issues it."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Rule = Literal["none", "rigid", "fluid", "proportional", "priority"]
"""How ops that work at the same time share a channel.

``none``: they do not notice each other. ``rigid``: their demands never exceed its capacity. ``fluid``: all speeds rise
together until a channel is full; who uses it stays at that speed (max-min fairness in speed). ``proportional``: every
op has the least of capacity over demand among its channels. ``priority``: as fluid, in the order of the ops.
"""

MAX_UNITS = 4096
"""Most units of one engine: every unit is looked at one by one. Coarser units say the same."""

MAX_RATE = 10**12
"""Largest capacity of a channel, and largest demand on it: bytes per second of any machine fit in MB/s."""

UNIT = r"^[1-9][0-9]{0,18}(/[1-9][0-9]{0,18})?$"
"""A fraction above 0."""


FACTOR = r"^[1-9][0-9]{0,8}(/[1-9][0-9]{0,8})?$"
"""A fraction of so few digits that products of some stay small."""


def slows(rule: Rule) -> bool:
    """Whether ops slow each other under ``rule``: then times are no whole ticks."""
    return rule not in ("none", "rigid")


def about(number: int) -> str:
    """Return ``number`` for a message, its magnitude alone where it has too many digits to be read."""
    digits = int(number.bit_length() * 0.30103)
    return str(number) if digits <= 20 else f"about 10^{digits}"


def printable(text: str) -> str:
    """Return ``text`` if every character of it can be printed in one line; a name that breaks lines breaks reports.

    Raises
    ------
    ValueError
        Shows the name with its characters escaped.
    """
    if not text.isprintable():
        raise ValueError(f"{text[:60]!a} holds a line break or another character that cannot be printed; leave it out")
    return text


Text = Annotated[str, AfterValidator(printable)]
Name = Annotated[str, Field(min_length=1), AfterValidator(printable)]


class Frozen(BaseModel):
    """Base of all data here: frozen, and closed against unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(cached_property,))


class Engine(Frozen):
    """A renewable unit resource.

    ``worker``: every unit is a hardware thread that executes a queue in order (HVX context, HMX thread).
    ``resource``: counted units that own no thread; the plan orders their users by waits.
    ``share``: a counted amount whose units are all one; the plan orders its users so that no timing exceeds it.
    ``pipe``: units that the hardware gives to transfers, first issued first served; only DMA ops use it. Of ``depth``
    (a ring, a FIFO) are the places for what is issued and not yet observed: who issues more waits until some is.
    """

    name: Name
    units: int = Field(default=1, ge=1, le=MAX_RATE)
    kind: Literal["worker", "resource", "share", "pipe"] = "worker"
    depth: int | None = Field(default=None, ge=1, le=MAX_RATE)

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        if self.kind != "share" and self.units > MAX_UNITS:
            raise ValueError(f"engine {self.name!r} has {self.units} units, above the limit {MAX_UNITS}")
        if self.kind != "pipe" and self.depth is not None:
            raise ValueError(f"engine {self.name!r} is a {self.kind}, and only a pipe has a depth; drop it")
        return self


class Channel(Frozen):
    """A shared bandwidth: ops that run demand a part of ``capacity``.

    Capacity and demands of one channel have one unit (MB/s, bytes per tick); only their ratios count. ``unit_mb_s``
    says how many MB/s it is, as a fraction; None where nobody said.
    """

    name: Name
    capacity: int = Field(ge=1, le=MAX_RATE)
    unit_mb_s: str | None = Field(default=None, pattern=UNIT)

    @cached_property
    def unit(self) -> Fraction | None:
        """How many MB/s one unit is."""
        return None if self.unit_mb_s is None else Fraction(self.unit_mb_s)

    def in_words(self, amount: int | Fraction) -> str:
        """Return an amount of the channel with its unit, where that is known."""
        return str(amount) if self.unit is None else f"{float(amount * self.unit):.15g} MB/s"


class Pull(Frozen):
    """``rate`` of a channel, demanded by an op at full speed while it works."""

    channel: str
    rate: int = Field(ge=0, le=MAX_RATE)


class Use(Frozen):
    """``units`` units of one engine, held for ``ticks`` from the start of the op (of the transfer, for a pipe).

    A use of zero ticks takes nothing: a marker op needs no engine. ``unit_ids`` fixes the units. A share is held until
    the end of the op is known, whatever its ticks.
    """

    engine: str
    ticks: int = Field(ge=0)
    units: int = Field(default=1, ge=1)
    unit_ids: tuple[int, ...] | None = None


class Dma(Frozen):
    """The issuing side of a transfer: its owner starts it, goes on, and later observes its end.

    ``issue_ticks`` hold the owner when the transfer is started, ``poll_ticks`` when its end is observed. It takes
    ``descriptors`` places of every pipe that has a depth.
    """

    owner_engine: str
    owner_unit: int = Field(ge=0)
    issue_ticks: int = Field(default=0, ge=0)
    poll_ticks: int = Field(default=0, ge=0)
    descriptors: int = Field(default=1, ge=1, le=MAX_RATE)


class Mode(Frozen):
    """One way to run an op.

    ``overhead_ticks`` come before the work and hold the same units (fork/join, hand-over); ``latency_ticks`` after
    them the result can be used, never before the last unit is released.

    The work is what comes after the overhead (for a transfer, from the moment it has its pipes): ``latency_ticks`` of
    it at full speed. While it lasts the op demands its ``pulls`` of channels, and slows others by its ``op_class``.
    """

    name: Text = "default"
    uses: tuple[Use, ...] = ()
    latency_ticks: int = Field(ge=0)
    overhead_ticks: int = Field(default=0, ge=0)
    dma: Dma | None = None
    pulls: tuple[Pull, ...] = ()
    op_class: Text = ""

    @model_validator(mode="after")
    def _local_facts(self) -> Self:
        longest = max((use.ticks for use in self.uses), default=0)
        if self.latency_ticks < longest:
            raise ValueError(f"mode {self.name!r}: latency {self.latency_ticks} is below its occupancy {longest}")
        engines = [use.engine for use in self.uses]
        if len(set(engines)) != len(engines):
            raise ValueError(f"mode {self.name!r} uses one engine twice; name it once with all its units")
        channels = [pull.channel for pull in self.pulls]
        if len(set(channels)) != len(channels):
            raise ValueError(f"mode {self.name!r} names one channel twice; add its demands up")
        if self.dma is not None and self.overhead_ticks:
            raise ValueError(f"mode {self.name!r}: a DMA mode has issue and poll ticks, not overhead")
        return self

    @property
    def duration_ticks(self) -> int:
        """Shortest time from start to a result that others can use."""
        if self.dma is None:
            return self.overhead_ticks + self.latency_ticks
        return self.dma.issue_ticks + self.latency_ticks + self.dma.poll_ticks


def check_mode(op: str, mode: Mode, engines: dict[str, Engine], channels: list[str]) -> None:
    """Raise ValueError where ``mode`` of the op named ``op`` asks for what does not exist or cannot be."""
    fault = _fault_of(mode, engines, channels)
    if fault is not None:
        raise ValueError(f"op {op!r}, mode {mode.name!r}: {fault}")


def _fault_of(mode: Mode, engines: dict[str, Engine], channels: list[str]) -> str | None:
    for use in mode.uses:
        engine = engines.get(use.engine)
        if engine is None:
            return f"there is no engine {use.engine!r}; known: {', '.join(engines) or 'none'}"
        if engine.kind == "pipe" and mode.dma is None:
            return f"pipe {use.engine!r} is for DMA; give the mode an owner"
        if mode.dma is not None and engine.kind not in ("pipe", "share"):
            return f"a DMA mode holds pipes and its owner, not {use.engine!r}"
        if engine.kind == "share" and use.unit_ids is not None:
            return f"the units of share {use.engine!r} are all one; drop unit_ids"
        if use.unit_ids is not None:
            if len(set(use.unit_ids)) != use.units:
                return f"{use.units} units of {use.engine!r}, but unit_ids {use.unit_ids}"
            if any(not 0 <= u < engine.units for u in use.unit_ids):
                return f"unit_ids {use.unit_ids} of {use.engine!r}, which has {engine.units}"
    for pull in mode.pulls:
        if pull.channel not in channels:
            return f"there is no channel {pull.channel!r}; known: {', '.join(channels) or 'none'}"
    if mode.dma is not None:
        owner = engines.get(mode.dma.owner_engine)
        if owner is None or owner.kind != "worker":
            return f"DMA owner {mode.dma.owner_engine!r} is not a worker engine"
        if mode.dma.owner_unit >= owner.units:
            return f"DMA owner {owner.name}[{mode.dma.owner_unit}], but {owner.name} has {owner.units} units"
    return None


class Interference(Frozen):
    """Every op of class ``cause`` that works multiplies the full speed of ops of class ``victim`` by ``factor``.

    What is not bandwidth: HVX slowed while HMX streams the scratchpad, a gather unit that two kernels share. The
    demand of a slowed op falls with its speed, before channels are shared. ``factor`` is a fraction in (0, 1].
    """

    victim: Name
    cause: Name
    factor: str = Field(pattern=FACTOR)

    @model_validator(mode="after")
    def _slows(self) -> Self:
        if Fraction(self.factor) > 1:
            raise ValueError(f"interference of {self.cause!r} with {self.victim!r}: factor {self.factor} is above 1")
        return self
