"""A sweep: the four groups at every point of a grid, or at points drawn at random; what is finished is never redone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexloom.formulations.problem import Problem
from hexloom.optimizer.schedule import write_whole
from hexloom.optimizer.solve import machine_of, rule_named
from hexloom.optimizer.study.fields import point_of
from hexloom.optimizer.study.grid import field_of, places_of
from hexloom.optimizer.study.journal import Journal
from hexloom.optimizer.study.points import Base
from hexloom.optimizer.study.results import csv_text, manifest_text, versions, write_parquet
from hexloom.optimizer.study.workers import here, on_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.workload import Workload


@dataclass(frozen=True)
class Swept:
    """The rows in the order of the points (fewer than ``points`` where it was interrupted), and the files."""

    name: str
    fields: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    points: int
    unit: str
    files: tuple[Path, ...]
    reused: int


def sweep(
    work: Workload | Problem,
    hw: Machine | str | None,
    specs: Sequence[str],
    folder: Path,
    *,
    time_limit_s: float = 0.5,
    contention: str = "fluid",
    seed: int = 1,
    samples: int | None = None,
    scheduler: str | None = None,
    workers: int = 2,
    on_row: Callable[[int, int, dict[str, Any] | None], None] | None = None,
) -> Swept:
    """Study ``work`` at every point, log each as it is finished, and write the results.

    Parameters
    ----------
    work, hw, contention
        As for `hexloom.optimizer.solve.solve`.
    specs
        What is varied, as ``FIELD=SPEC``; see `hexloom.optimizer.study.fields` and `hexloom.optimizer.study.grid`.
    folder
        Gets the log, results.csv, results.parquet (where pyarrow is there) and manifest.json. Points that its log has
        are not solved again.
    time_limit_s
        For every point; counted in work, as with a seed in `solve`.
    samples
        Draw so many points instead of taking all.
    scheduler, workers
        Address of a Dask scheduler; without it so many workers on this machine, 1: this process.
    on_row
        Called with the points that are finished, all of them, and the last row (None at the start).

    Raises
    ------
    InvalidInputError
        A field or a value of it does not exist, or the folder holds another sweep.
    """
    rule_named(contention)
    machine = None if isinstance(work, Problem) else machine_of(work, hw)
    fields = [field_of(spec) for spec in specs]
    places = places_of(fields, samples, seed)
    point_of(work, machine, contention, places[0].values)  # what is misspelt is said before anything runs
    base = Base(
        work.model_dump_json(by_alias=True) if isinstance(work, Problem) else work.to_json(),
        isinstance(work, Problem),
        None if machine is None else machine.to_json(),
        contention,
        time_limit_s,
        seed,
    )
    head = {
        "name": work.name,
        "workload": work.digest(),
        "machine": None if machine is None else machine.digest(),
        "contention": contention,
        "time_limit_s": time_limit_s,
        "seed": seed,
        "hexloom": versions()["hexloom"],
    }
    with Journal(folder, head) as journal:
        missing = [place for place in places if place.key not in journal.rows]
        reused = len(places) - len(missing)
        if on_row is not None:
            on_row(reused, len(places), None)
        alone = scheduler is None and workers == 1
        found = here(base, missing) if alone else on_cluster(base, missing, scheduler, min(workers, len(missing)))
        for done, row in enumerate(found if missing else (), reused + 1):
            journal.append(row)
            if on_row is not None:
                on_row(done, len(places), row)
        rows = tuple(journal.rows[place.key] for place in places)
    names = tuple(field.name for field in fields)
    files = [folder / "results.csv"]
    write_whole(files[0], csv_text(names, rows))
    if write_parquet(folder / "results.parquet", names, rows):
        files.append(folder / "results.parquet")
    asked = {"sweep": list(specs), "samples": samples}
    write_whole(folder / "manifest.json", manifest_text(head, asked, rows, files))
    unit = "ticks" if isinstance(work, Problem) and work.tick is None else "us"
    return Swept(work.name, names, rows, len(places), unit, (*files, folder / "manifest.json"), reused)
