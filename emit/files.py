"""The C files of a schedule, in a folder."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from hexloom.emit.c_tables import LONGEST_STEM, SELFTEST_HEADER, SHARED_HEADER, CTables, stem_of
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.schedule import write_together

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.optimizer.schedule import Schedule

TAKEN = frozenset({"schedule", "timeline"})
"""Stems whose JSON would replace another file of `hexloom solve`."""


def table_stem(name: str) -> str:
    """Return the stem for a schedule of this name beside the other files of `hexloom solve`."""
    stem = stem_of(name)
    return stem_of(f"{stem}_tables") if stem.lower() in TAKEN else stem


def check_stem(stem: str | None) -> None:
    """Refuse a stem that would not stay as it is.

    Raises
    ------
    InvalidInputError
        Names the stem that it would become.
    """
    if stem is not None and stem_of(stem) != stem:
        raise InvalidInputError(
            f"--stem {stem!r} is not a C name of at most {LONGEST_STEM} characters; {stem_of(stem)!r} would do"
        )


def shared_text(name: str) -> str:
    """Return a C file that comes with hexloom."""
    return (resources.files("hexloom.emit") / "include" / name).read_text(encoding="utf-8")


def table_texts(schedule: Schedule, stem: str | None = None) -> dict[str, str]:
    """Return tables, side-car and the header they need, by file name."""
    return _tables(CTables(schedule, stem or table_stem(schedule.name)))


def write_tables(schedule: Schedule, folder: Path, stem: str | None = None) -> dict[str, str]:
    """Write tables, side-car and the header they need; return the paths by file name."""
    return write_texts(folder, table_texts(schedule, stem))


def write_emission(schedule: Schedule, folder: Path, stem: str | None = None, source: str = "-") -> dict[str, str]:
    """Write what `write_tables` writes, the self test, and rules for make in which ``source`` is the schedule file."""
    tables = CTables(schedule, stem or table_stem(schedule.name))
    texts = _tables(tables)
    texts[f"{tables.stem}_selftest.c"] = tables.selftest()
    texts[SELFTEST_HEADER] = shared_text(SELFTEST_HEADER)
    texts[f"{tables.stem}.d"] = tables.dependencies("schedule.json" if source == "-" else source)
    return write_texts(folder, texts)


def _tables(tables: CTables) -> dict[str, str]:
    return {
        f"{tables.stem}.h": tables.header(),
        f"{tables.stem}.c": tables.source(),
        f"{tables.stem}.json": tables.side_car(),
        SHARED_HEADER: shared_text(SHARED_HEADER),
    }


def write_texts(folder: Path, texts: dict[str, str]) -> dict[str, str]:
    """Write all ``texts`` into ``folder`` or, where one cannot be written, none; return the paths by file name."""
    write_together({folder / name: text for name, text in texts.items()})
    return {name: str(folder / name) for name in texts}
