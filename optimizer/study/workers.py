"""Who solves the points of a sweep: this process, two workers beside it, or a Dask cluster somewhere else."""

from __future__ import annotations

import contextlib
import importlib
import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.study.points import row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hexloom.optimizer.study.grid import Place
    from hexloom.optimizer.study.points import Base

AHEAD = 4
"""Points per worker that are handed out at a time: none waits for the next one, and few are on their way at a kill."""

DEATHS = 20
"""Workers that may die while they have a point before it is given up: one bad point must not kill all that follow."""


def here(base: Base, places: Iterable[Place]) -> Iterator[dict[str, Any]]:
    """Yield the row of every point, one after the other."""
    for place in places:
        yield row_of(base, place.key, place.values)


def on_cluster(base: Base, places: Iterable[Place], scheduler: str | None, workers: int) -> Iterator[dict[str, Any]]:
    """Yield the rows as workers of a Dask cluster finish them; what a lost worker had is given to another one.

    Parameters
    ----------
    base, places
        What is solved.
    scheduler
        Address of a scheduler; None: ``workers`` processes on this machine, of one thread each.
    workers
        Used where there is no scheduler.

    Raises
    ------
    InvalidInputError
        Dask is not installed, or nobody answers at the address.
    """
    try:
        dask: Any = importlib.import_module("dask")
        cluster: Any = importlib.import_module("distributed")
    except ImportError:
        raise InvalidInputError(
            "a sweep on several workers needs Dask: pip install 'hexloom[sweep]', or --workers 1 for this process alone"
        ) from None
    settings = {
        "distributed.scheduler.allowed-failures": DEATHS,
        "distributed.comm.timeouts.connect": "10s",
        "distributed.admin.tick.limit": "1h",
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set(settings))
        target: Any = scheduler
        if scheduler is None:
            logging.getLogger("distributed").setLevel(logging.CRITICAL)
            target = stack.enter_context(
                cluster.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
            )
        try:
            client = stack.enter_context(cluster.Client(target))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"--scheduler {scheduler}: nobody answers there: {error}") from None
        waiting = iter(places)
        known: dict[Any, Place] = {}

        def submit(place: Place) -> Any:
            future = client.submit(row_of, base, place.key, place.values, key=f"hexloom-{place.key}", pure=False)
            known[future.key] = place
            return future

        at_once = AHEAD * max(1, workers if scheduler is None else len(client.scheduler_info(n_workers=-1)["workers"]))
        running = cluster.as_completed([submit(place) for place in islice(waiting, at_once)])
        for future in running:
            place = known.pop(future.key)
            try:
                row = future.result()
            except cluster.scheduler.KilledWorker:
                row = {"key": place.key, "values": place.values, "status": "LOST", "seconds": 0.0}
                row["note"] = f"{DEATHS} workers died with this point"
            future.release()
            yield row
            for place in islice(waiting, 1):
                running.add(submit(place))
