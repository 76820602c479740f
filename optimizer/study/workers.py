"""Who solves the points of a sweep: this process, two workers beside it, or a Dask cluster somewhere else."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.study.points import row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hexloom.optimizer.study.fields import Value
    from hexloom.optimizer.study.grid import Place
    from hexloom.optimizer.study.points import Base

AHEAD = 3
"""Batches per worker that are handed out at a time: none waits for the next one, and few are on their way at a kill."""

BATCH_S, MOST_IN_BATCH = 1.0, 16
"""Seconds that a batch of points should take, and the most points in one."""

DEATHS = 20
"""Workers that may die while they have a point before it is given up: one bad point must not kill all that follow."""


SETTINGS = {
    "distributed.scheduler.allowed-failures": DEATHS,
    "distributed.scheduler.work-stealing": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.tick.limit": "1h",
    "distributed.worker.profile.enabled": False,
}
"""Of a cluster on this machine, where solving needs the time that watching would take."""


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
        cluster: Any = importlib.import_module("distributed")
    except ImportError:
        raise InvalidInputError(
            "a sweep on several workers needs Dask: pip install 'hexloom[sweep]', or --workers 1 for this process alone"
        ) from None
    with contextlib.ExitStack() as stack:
        target: Any = scheduler
        if scheduler is None:
            target = stack.enter_context(local_cluster(workers))
        try:
            client = stack.enter_context(cluster.Client(target))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"--scheduler {scheduler}: nobody answers there: {error}") from None
        yield from _Handed(cluster, client, base, places, workers if scheduler is None else None).rows()


@contextlib.contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """Start a cluster of ``workers`` processes of one thread each on this machine; it ends with the block."""
    dask: Any = importlib.import_module("dask")
    cluster: Any = importlib.import_module("distributed")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with (
        dask.config.set(SETTINGS),
        cluster.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as found,
    ):
        yield found


class _Handed:
    """Points on their way: handed out in batches that take about `BATCH_S`, so that handing out costs little."""

    def __init__(self, cluster: Any, client: Any, base: Base, places: Iterable[Place], workers: int | None) -> None:
        self.cluster, self.client, self.base = cluster, client, base
        self.waiting = deque(places)
        self.batches: dict[str, tuple[Place, ...]] = {}
        self.size = 1
        here = workers or len(client.scheduler_info(n_workers=-1)["workers"])
        self.running = cluster.as_completed([])
        for _ in range(AHEAD * max(1, here)):
            self.hand_out()

    def hand_out(self) -> None:
        """Hand out the next batch, if there is one."""
        count = min(self.size, len(self.waiting))
        if count:
            self.submit(tuple(self.waiting.popleft() for _ in range(count)))

    def submit(self, batch: tuple[Place, ...]) -> None:
        """Hand out these points."""
        key = f"hexloom-{batch[0].key}-{len(batch)}"
        asked = [(place.key, place.values) for place in batch]
        self.batches[key] = batch
        self.running.add(self.client.submit(rows_of, self.base, asked, key=key, pure=False))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of batches as they are finished."""
        for future in self.running:
            batch = self.batches.pop(future.key)
            try:
                rows = future.result()
            except self.cluster.scheduler.KilledWorker:
                if len(batch) > 1:  # one of them kills workers: each for itself will tell
                    for place in batch:
                        self.submit((place,))
                    continue
                rows = [_lost(batch[0])]
            future.release()
            each = sum(row["seconds"] for row in rows) / len(rows)
            self.size = max(1, min(MOST_IN_BATCH, 2 * self.size, int(BATCH_S / each) if each else MOST_IN_BATCH))
            self.hand_out()
            yield from rows


def rows_of(base: Base, asked: Sequence[tuple[str, Mapping[str, Value]]]) -> list[dict[str, Any]]:
    """Return the rows of some points: what a worker is asked at a time."""
    return [row_of(base, key, values) for key, values in asked]


def _lost(place: Place) -> dict[str, Any]:
    note = f"{DEATHS} workers died with this point"
    return {"key": place.key, "values": place.values, "status": "LOST", "seconds": 0.0, "note": note}
