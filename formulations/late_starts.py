"""What brings bytes to life starts as late as it delays nobody: shorter lives are easier to find addresses for."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem

Times = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Start of every op, when its transfer moves (else the start), and when its end is known."""

Lane = tuple[str, int]


def late_starts(
    problem: Problem, modes: Sequence[int], units: Sequence[Sequence[Sequence[int]]], times: Times
) -> Times:
    """Return times at which no op ends the schedule later, and what brings bytes to life starts as late as it can.

    The ops are moved one by one, the last first, as far as engines, followers and the bytes alive allow.
    """
    return _LateStarts(problem, modes, units, times).run()


class _LateStarts:
    def __init__(
        self, problem: Problem, modes: Sequence[int], units: Sequence[Sequence[Sequence[int]]], times: Times
    ) -> None:
        self._problem = problem
        self._modes = [op.modes[m] for op, m in zip(problem.ops, modes, strict=True)]
        self._units = units
        self._lanes, self._pipes = self._who_is_where()
        self._start, self._moved, self._known = (list(of) for of in times)
        self._users = [[problem.op_index[name] for name in buffer.ops] for buffer in problem.buffers]
        self._size = np.array([b.occupied_bytes for b in problem.buffers], dtype=np.int64)
        self._left = problem.scratchpad.available_bytes
        self._born = np.array([self._birth(b) for b in range(len(self._users))], dtype=np.int64)
        self._died = np.array([self._death(b) for b in range(len(self._users))], dtype=np.int64)

    def run(self) -> Times:
        for i in sorted(range(len(self._start)), key=lambda i: (-self._start[i], -i)):
            if self._brings_bytes(i) and not self._problem.share_uses(self._modes[i]):
                old = self._start[i], self._moved[i], self._known[i]
                if self._modes[i].dma is None:
                    self._delay_op(i)
                else:
                    self._delay_transfer(i)
                if old[0] != self._start[i] and not self._fits(i):
                    self._start[i], self._moved[i], self._known[i] = old
                    self._fits(i)
        return tuple(self._start), tuple(self._moved), tuple(self._known)

    def _who_is_where(self) -> tuple[dict[Lane, list[int]], dict[str, list[int]]]:
        """Return the ops that hold each unit or act on its thread, and the transfers of each pipe."""
        pipes = {engine.name: list[int]() for engine in self._problem.engines if engine.kind == "pipe"}
        lanes: dict[Lane, list[int]] = {}
        for i, mode in enumerate(self._modes):
            if mode.dma is not None:
                lanes.setdefault((mode.dma.owner_engine, mode.dma.owner_unit), []).append(i)
                for use in mode.uses:
                    if use.ticks > 0 and use.engine in pipes:
                        pipes[use.engine].append(i)
                continue
            for use, ids in zip(mode.uses, self._units[i], strict=True):
                for unit in ids:
                    lanes.setdefault((use.engine, unit), []).append(i)
        return lanes, pipes

    def _birth(self, b: int) -> int:
        if self._problem.buffers[b].from_start:
            return -1
        return min((self._start[u] for u in self._users[b]), default=0)

    def _death(self, b: int) -> int:
        if self._problem.buffers[b].to_end:
            return max(self._known) + 1
        return max((self._known[u] for u in self._users[b]), default=0)

    def _brings_bytes(self, i: int) -> bool:
        """Whether at least as many bytes come to life with op ``i`` as die with it."""
        born = sum(int(self._size[b]) for b in self._problem.op_buffers[i] if self._born[b] == self._start[i])
        died = sum(int(self._size[b]) for b in self._problem.op_buffers[i] if self._died[b] == self._known[i])
        return born >= died and born > 0

    def _fits(self, i: int) -> bool:
        """Take over the lives that follow from the times of op ``i``; whether their bytes fit whenever one begins."""
        for b in self._problem.op_buffers[i]:
            self._born[b], self._died[b] = self._birth(b), self._death(b)
        alive = (self._born[None, :] <= self._born[:, None]) & (self._born[:, None] < self._died[None, :])
        return bool((alive @ self._size <= self._left).all())

    def _followers_start(self, i: int) -> int:
        return min((self._start[s] for s in self._problem.successors[i]), default=self._known[i])

    def _delay_op(self, i: int) -> None:
        mode, end = self._modes[i], self._known[i]
        latest = self._followers_start(i) - mode.duration_ticks
        for use, ids in zip(mode.uses, self._units[i], strict=True):
            for unit in ids:
                after = [at for at, _ in self._spans((use.engine, unit), i) if at >= end or at > self._start[i]]
                latest = min(latest, min(after, default=latest + mode.duration_ticks) - mode.duration_ticks)
        if latest > self._start[i]:
            self._start[i] = self._moved[i] = latest
            self._known[i] = latest + mode.duration_ticks

    def _delay_transfer(self, i: int) -> None:
        mode = self._modes[i]
        dma = mode.dma
        assert dma is not None
        spans = self._spans((dma.owner_engine, dma.owner_unit), i)
        known = _latest_free(spans, self._followers_start(i) - dma.poll_ticks, dma.poll_ticks) + dma.poll_ticks
        moved, start = known - dma.poll_ticks - mode.latency_ticks, self._followers_start(i)
        for use in mode.uses:
            for j in self._pipes.get(use.engine, ()) if use.ticks > 0 else ():
                if j != i and self._moved[j] >= self._moved[i]:
                    # Of transfers that are issued at one instant the first in the file is served first.
                    moved, start = min(moved, self._moved[j] - use.ticks), min(start, self._start[j] - (i > j))
        start = _latest_free(spans, min(start, moved - dma.issue_ticks), dma.issue_ticks)
        if start > self._start[i] and moved >= self._moved[i] and known >= self._known[i]:
            self._start[i], self._moved[i], self._known[i] = start, moved, known

    def _spans(self, lane: Lane, but: int) -> list[tuple[int, int]]:
        """Return when others hold a unit, and when they act on its thread, in order."""
        found = []
        for j in self._lanes.get(lane, ()):
            dma = self._modes[j].dma
            if j == but:
                continue
            if dma is None:
                found.append((self._start[j], self._known[j]))
            else:
                found.append((self._start[j], self._start[j] + dma.issue_ticks))
                found.append((self._known[j] - dma.poll_ticks, self._known[j]))
        return sorted(found)


def _latest_free(spans: Sequence[tuple[int, int]], latest: int, ticks: int) -> int:
    """Return the last moment up to ``latest`` at which ``ticks`` find room between ``spans``."""
    for begin, end in reversed(spans[: bisect_right(spans, (latest + ticks, latest + ticks))]):
        if begin < latest + ticks and latest < end and (begin < latest or ticks > 0):
            latest = begin - ticks
    return latest
