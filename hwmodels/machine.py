"""The machine file: a frozen, validated model of one neural processing unit."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hexloom.hwmodels.errors import MachineFileError, did_you_mean
from hexloom.hwmodels.plain_data import PlainLoader, extent_fault, unreadable
from hexloom.hwmodels.quantity import exact, format_bytes
from hexloom.hwmodels.sections import (
    BESIDE,
    FIXED,
    L2,
    PER_UNIT,
    Behaviour,
    ClassCost,
    Clocks,
    Ddr,
    Dma,
    Engines,
    Overheads,
    Quantity,
    Rates,
    Ratio,
    Section,
    Vtcm,
    plain,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

__all__ = ["Machine", "MachineFileError", "Quantity", "list_hw", "load_hw"]

SCHEMA = "hexloom.machine/1"


class Machine(BaseModel):
    """
    One machine: what it has, how fast it is, and how sure that is.

    Every number is a :class:`Quantity` under a dotted name such as ``dma.row_ns``; the properties give the
    counts and sizes as plain integers. ``classes`` are costs of ops of a class (``scan.fixed``, ``scan.per_unit``) and
    ``interference`` the speed that is left to an op of a class beside one of another (``scan beside matmul``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["hexloom.machine/1"] = Field(alias="schema")
    name: str = Field(min_length=1)
    title: str
    soc: str
    arch: int = Field(gt=0, strict=True)
    clocks: Clocks
    engines: Engines
    vtcm: Vtcm
    dma: Dma
    l2: L2
    ddr: Ddr
    rates: Rates
    overheads: Overheads
    behaviour: Behaviour
    # Measured for a machine, by names of one's own; left out where there are none, so that digests stay what they were.
    classes: dict[str, ClassCost] = Field(default_factory=dict, exclude_if=lambda found: not found)
    interference: dict[str, Ratio] = Field(default_factory=dict, exclude_if=lambda found: not found)

    @model_validator(mode="after")
    def _names_say_what_they_are(self) -> Machine:
        for name in self.classes:
            if not name.endswith((FIXED, PER_UNIT)) or name in (FIXED, PER_UNIT):
                raise ValueError(f"classes: {name!r} is none: write a class and {FIXED!r} or {PER_UNIT!r} after it")
        for name, factor in self.interference.items():
            victim, beside, cause = name.partition(BESIDE)
            if not (victim and beside and cause):
                raise ValueError(f"interference: {name!r} is none: write it as 'scan{BESIDE}matmul', victim first")
            if factor.value > 1:
                raise ValueError(f"interference: {name!r} is {factor.value}, above 1: it is the speed that is left")
        return self

    @model_validator(mode="after")
    def _parts_agree(self) -> Machine:
        total, reserved = self.vtcm.total_bytes.whole, self.vtcm.reserved_bytes.whole
        if reserved >= total:
            raise ValueError(
                f"vtcm.reserved_bytes {format_bytes(reserved)} leaves nothing of vtcm.total_bytes {format_bytes(total)}"
            )
        for key, align in (
            ("align_bytes", self.vtcm.align_bytes),
            ("hmx_align_bytes", self.vtcm.hmx_align_bytes),
        ):
            if align.whole & (align.whole - 1):
                raise ValueError(f"vtcm.{key} {align.whole} B is not a power of two")
        if self.hw_threads < self.hvx_contexts:
            raise ValueError(
                f"engines.hw_threads {self.hw_threads} is less than engines.hvx_contexts {self.hvx_contexts}:"
                " every context needs a thread"
            )
        return self

    def __hash__(self) -> int:
        """Return a hash of the numbers; names of one's own are in mappings, which have none by themselves."""
        own = (*self.classes.items(), *self.interference.items())
        return hash((self.name, self.clocks, self.dma, self.l2, self.ddr, self.rates, self.overheads, own))

    @property
    def available_vtcm_bytes(self) -> int:
        """Scratchpad bytes that a schedule may use: total minus reserved."""
        return self.vtcm.total_bytes.whole - self.vtcm.reserved_bytes.whole

    @property
    def hvx_contexts(self) -> int:
        """Vector contexts."""
        return self.engines.hvx_contexts.whole

    @property
    def hmx_units(self) -> int:
        """Matrix units."""
        return self.engines.hmx_units.whole

    @property
    def hw_threads(self) -> int:
        """Hardware threads."""
        return self.engines.hw_threads.whole

    @property
    def core_mhz(self) -> Fraction:
        """Core clock; one MHz is one cycle per microsecond."""
        return self.clocks.core_mhz.exact

    @property
    def hmx_mhz(self) -> Fraction:
        """Clock of the matrix unit; one MHz is one cycle per microsecond."""
        return self.clocks.hmx_mhz.exact

    def quantities(self) -> Iterator[tuple[str, Quantity]]:
        """Yield the dotted name and the quantity of every number that is known, in file order."""
        for section, key, value in self._entries():
            if isinstance(value, Quantity):
                yield f"{section}.{key}", value

    def ranged(self) -> tuple[str, ...]:
        """Return the dotted names of all quantities that have a range."""
        return tuple(name for name, quantity in self.quantities() if quantity.range is not None)

    def digest(self) -> str:
        """Return the SHA-256 of the canonical JSON of this machine, in hexadecimal."""
        data = self.model_dump(mode="json", by_alias=True)
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        """Return this machine as JSON text; :meth:`from_json` reads it back."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Machine:
        """
        Read a machine from JSON text.

        Raises
        ------
        MachineFileError
            If the text is not JSON or not a machine.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise MachineFileError(f"machine JSON, line {error.lineno}: {error.msg}") from None
        return _validate(data, "machine JSON")

    def with_values(self, values: Mapping[str, str | int | float | Fraction]) -> Machine:
        """
        Return a copy with some quantities replaced.

        Parameters
        ----------
        values
            For each dotted name an end of its range (``"low"``, ``"high"``), ``"value"`` for no change, or
            a number. A number outside the range widens the range; any number is marked as set by the caller,
            and is kept as the nearest float where it is neither whole nor a short decimal.
            ``behaviour`` keys take their own words.

        Raises
        ------
        MachineFileError
            If a name is unknown or unset here, has no range to take an end of, or the result is no machine.
        """
        data = self.model_dump(by_alias=True)
        known = {f"{section}.{key}": value for section, key, value in self._entries()}
        for name, wanted in values.items():
            if name not in known:
                raise MachineFileError(f"machine {self.name!r} has no quantity {name!r}{did_you_mean(name, known)}")
            section, _, key = name.partition(".")
            current = known[name]
            if current is None:
                raise MachineFileError(f"machine {self.name!r} has no value for {name!r} that could be replaced")
            data[section][key] = (
                _replaced(f"machine {self.name!r}: {name}", current, wanted)
                if isinstance(current, Quantity)
                else wanted
            )
        return _validate(data, f"machine {self.name!r}")

    def _entries(self) -> Iterator[tuple[str, str, object]]:
        for section_name in type(self).model_fields:
            section = getattr(self, section_name)
            if isinstance(section, Section):
                for key in type(section).model_fields:
                    yield section_name, key, getattr(section, key)
            elif isinstance(section, dict):
                for key, value in section.items():
                    yield section_name, key, value


def _replaced(what: str, old: Quantity, wanted: str | int | float | Fraction) -> dict[str, Any]:
    new = old.model_dump()
    if wanted == "value":
        return new
    if wanted in ("low", "high"):
        if old.range is None:
            raise MachineFileError(f"{what} has no range to take the {wanted} end of: give a number")
        new["value"] = old.range[0 if wanted == "low" else 1]
        return new
    try:
        new["value"] = plain(exact(wanted))
    except ValueError:
        raise MachineFileError(f"{what}: {wanted!r} is none of 'low', 'high', 'value' or a number") from None
    if old.range is not None:
        new["range"] = (min(old.range[0], new["value"]), max(old.range[1], new["value"]))
    new["source"] = f"set by the caller in place of {old.value} {old.unit} ({old.source})"
    new["confidence"] = "guess"
    return new


def list_hw() -> tuple[str, ...]:
    """Return the names of the machines that come with the package."""
    data = importlib.resources.files("hexloom.hwmodels") / "data"
    return tuple(sorted(item.name.removesuffix(".yaml") for item in data.iterdir() if item.name.endswith(".yaml")))


def load_hw(name_or_path: str | Path) -> Machine:
    """
    Load a machine.

    Parameters
    ----------
    name_or_path
        A shipped name such as ``hexagon-v81``, or the path of a YAML file (a :class:`~pathlib.Path`, or a
        string that ends in ``.yaml`` or ``.yml`` or holds a ``/``).

    Raises
    ------
    MachineFileError
        If there is no such machine, or its file is wrong; one line names all that is wrong with it.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith((".yaml", ".yml")) or "/" in text:
        try:
            content = Path(name_or_path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise MachineFileError(f"machine file {text!r} cannot be read: {reason}") from None
        return _parse(content, text)
    return _load_shipped(text)


@functools.cache
def _load_shipped(name: str) -> Machine:
    if name not in (names := list_hw()):
        number = name.lstrip("vV")
        nearest = did_you_mean(f"hexagon-v{number}" if number.isdigit() else name, names)
        raise MachineFileError(
            f"unknown machine {name!r}{nearest}; known: {', '.join(names)}; or give the path of a .yaml file"
        )
    content = (importlib.resources.files("hexloom.hwmodels") / "data" / f"{name}.yaml").read_text(encoding="utf-8")
    return _parse(content, name)


def _parse(content: str, where: str) -> Machine:
    try:
        data = yaml.load(content, Loader=PlainLoader)  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" line {mark.line + 1}:"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise MachineFileError(f"{where}:{line} not valid YAML: {problem}") from None
    except (RecursionError, ValueError) as error:
        raise MachineFileError(f"{where}: cannot be read: {unreadable(error)}") from None
    fault = extent_fault(data)
    if fault is not None:
        raise MachineFileError(f"{where}: {fault}")
    return _validate(data, where)


def _validate(data: object, where: str) -> Machine:
    if not isinstance(data, dict):
        raise MachineFileError(f"{where}: a machine file is a mapping that starts with 'schema: {SCHEMA}'")
    try:
        return Machine.model_validate(data)
    except ValidationError as error:
        problems = dict.fromkeys(_describe(problem) for problem in error.errors(include_url=False))
        raise MachineFileError(f"{where}: {'; '.join(problems)}") from None


def _describe(problem: Any) -> str:
    """Return one pydantic error as a phrase that names the key and says what to write."""
    path = [str(part) for part in problem["loc"]]
    if path[-1:] and path[-1].startswith(("constrained-", "int", "float")):
        path.pop()  # which branch of the number union failed
    name = ".".join(path)
    kind = problem["type"]
    if kind == "missing":
        hint = f": write {SCHEMA}" if name == "schema" else ""
        return f"key {name!r} is missing{hint}"
    if kind == "extra_forbidden":
        return f"unknown key {name!r}{did_you_mean(path[-1], _keys_at(path[:-1]))}"
    if kind == "literal_error":
        return f"{name} is {problem['input']!r}: write {problem['ctx']['expected']}"
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        return f"{name} is {problem['input']!r}: write a mapping with value, unit, source and confidence"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if kind != "value_error":
        message = f"{message[:1].lower()}{message[1:]}, got {problem['input']!r}"
    return f"{name}: {message}" if name else message


def _keys_at(path: list[str]) -> list[str]:
    """Return the keys that are known at a place of the machine file."""
    model: type[BaseModel] = Machine
    for depth, part in enumerate(path):
        if depth == 0 and part in Machine.model_fields:
            annotation = Machine.model_fields[part].annotation
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                model = annotation
        else:
            model = Quantity
    return [field.alias or key for key, field in model.model_fields.items()]
