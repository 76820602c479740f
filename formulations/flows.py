"""Who hands what part of a share to whom: the orders that hold a channel under any timing.

Every unit of a share passes from one holder to the next, in a chain of ops of which each waits for the end of the one
before. Ops that nothing orders are in different chains, so together they hold no more than there is. Units have no
names: only amounts are counted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Mode, Problem

Flows = tuple[tuple[int, int], ...]

NOBODY = -1
"""The holder of what nobody has held yet."""


def share_flows(
    problem: Problem,
    modes: Sequence[int],
    units: Sequence[tuple[tuple[int, ...], ...]],
    moments: Iterable[int],
) -> Flows:
    """Return pairs (before, after) of ops by which the users of each share follow each other.

    Parameters
    ----------
    modes, units
        As in a `Decision`.
    moments
        What happens in order: ``i``, op i starts; ``~i``, its end is known. At no moment do those who have started and
        not ended hold more than there is.

    Notes
    -----
    A pair costs a wait unless the two are ordered anyway, so an op takes first what nobody has held, then what it gets
    from ops whose end it knows of, because it depends on them or follows them in a queue, and then from as few others
    as can give it. All pairs are returned, those that cost nothing too: whoever drops ops from a decision needs them.
    """
    if not problem.shares:
        return ()
    chosen = [op.modes[m] for op, m in zip(problem.ops, modes, strict=True)]
    wanted = [problem.share_uses(mode) for mode in chosen]
    known = _Known(problem, chosen, units)
    pools = {name: {NOBODY: amount} for name, amount in problem.shares.items()}
    flows: dict[tuple[int, int], None] = {}
    for moment in moments:
        i = moment if moment >= 0 else ~moment
        uses = wanted[i]
        if moment < 0:
            known.end(i)
            for use in uses:
                pools[use.engine][i] = use.units
            continue
        known.start(i)
        for use in uses:
            for giver in _take(pools[use.engine], use.units, known.before[i]):
                flows[giver, i] = None
                known.learn(i, giver)
    return tuple(flows)


def _take(pool: dict[int, int], wanted: int, known: int) -> Iterator[int]:
    """Take ``wanted`` out of ``pool``, which is in order of ends; yield the givers, the ``known`` ones first."""
    free = [NOBODY] if NOBODY in pool else []
    givers = free + [i for i in pool if i != NOBODY and known >> i & 1]
    others = [i for i in pool if i != NOBODY and not known >> i & 1]
    left = wanted - sum(pool[i] for i in givers)
    # One giver where one is enough, the one that ended first: it is the least likely to be late. Else the largest.
    enough = next((i for i in others if pool[i] >= left), None)
    others.sort(key=lambda i: (i != enough, -pool[i]))
    for i in givers + others:
        if wanted == 0:
            return
        given = min(wanted, pool[i])
        wanted -= given
        pool[i] -= given
        if pool[i] == 0:
            del pool[i]
        if i != NOBODY:
            yield i
    assert wanted == 0, "ops hold more of a share than there is"


class _Known:
    """Bit sets of the ops whose end is known before an op starts, by dependencies, queues and flows so far."""

    def __init__(self, problem: Problem, modes: Sequence[Mode], units: Sequence[tuple[tuple[int, ...], ...]]) -> None:
        self.before = [0] * len(modes)
        self._predecessors = problem.predecessors
        self._modes = modes
        self._workers = {engine.name for engine in problem.engines if engine.kind == "worker"}
        self._lanes = [self._lanes_of(mode, ids) for mode, ids in zip(modes, units, strict=True)]
        # By the identity of a mode, which many ops share: who follows on a thread that is free early knows no end.
        self._whole = {id(mode): self._holds_to_its_end(mode) for mode in modes}
        self._lane: dict[tuple[str, int], int] = {}

    def _lanes_of(self, mode: Mode, ids: tuple[tuple[int, ...], ...]) -> list[tuple[str, int]]:
        owner = [] if mode.dma is None else [(mode.dma.owner_engine, mode.dma.owner_unit)]
        return owner + [(use.engine, unit) for use, mine in zip(mode.uses, ids, strict=False) for unit in mine]

    def _holds_to_its_end(self, mode: Mode) -> bool:
        return mode.dma is None and all(
            use.ticks == mode.latency_ticks for use in mode.uses if use.ticks and use.engine in self._workers
        )

    def start(self, i: int) -> None:
        """Let op ``i`` start: it knows what those it depends on know, and the threads and units it gets."""
        seen = 0
        for p in self._predecessors[i]:
            seen |= self.before[p] | 1 << p
        lanes = self._lanes[i]
        for lane in lanes:
            seen |= self._lane.get(lane, 0)
        self.before[i] = seen
        whole = self._whole[id(self._modes[i])]
        for lane in lanes:
            ended = whole or lane[0] not in self._workers
            self._lane[lane] = self._lane.get(lane, 0) | seen | (1 << i if ended else 0)

    def end(self, i: int) -> None:
        """Let the end of op ``i`` be known; of a transfer, to its owner."""
        if self._modes[i].dma is not None:
            for lane in self._lanes[i]:
                self._lane[lane] = self._lane.get(lane, 0) | self.before[i] | 1 << i

    def learn(self, i: int, giver: int) -> None:
        """Let op ``i`` wait for ``giver``."""
        self.before[i] |= self.before[giver] | 1 << giver


def moments_of(problem: Problem, modes: Sequence[int], actions: Iterable[int]) -> Iterator[int]:
    """Yield an order of starts and known ends for ``actions`` without times: ops end as late as they can.

    An op that is no transfer ends when one that depends on it starts, or one that needs its part of a share, the
    oldest first. Transfers end when they are awaited, so these must hold no more than there is.
    """
    left = dict(problem.shares)
    wanted = [problem.share_uses(op.modes[m]) for op, m in zip(problem.ops, modes, strict=True)]
    running: dict[int, None] = {}

    def end(i: int) -> int:
        running.pop(i, None)
        for use in wanted[i]:
            left[use.engine] += use.units
        return ~i

    for action in actions:
        if action < 0:
            yield end(~action)
            continue
        for p in problem.predecessors[action]:
            if p in running:
                yield end(p)
        for use in wanted[action]:
            while left[use.engine] < use.units:
                yield end(next(i for i in running if any(u.engine == use.engine for u in wanted[i])))
        for use in wanted[action]:
            left[use.engine] -= use.units
        if wanted[action] and problem.ops[action].modes[modes[action]].dma is None:
            running[action] = None
        yield action


def contracted(flows: Flows, keep: set[int]) -> Flows:
    """Return the flows among the ops in ``keep``: what passes through others goes on to whom they give it."""
    givers: dict[int, list[int]] = {}
    for before, after in flows:
        givers.setdefault(after, []).append(before)
    found: dict[tuple[int, int], None] = {}
    for after in givers:
        if after not in keep:
            continue
        stack, seen = list(givers[after]), set(givers[after])
        while stack:
            i = stack.pop()
            if i in keep:
                found[i, after] = None
                continue
            fresh = [b for b in givers.get(i, ()) if b not in seen]
            seen.update(fresh)
            stack += fresh
    return tuple(found)


def without_shares(problem: Problem, decision: Decision) -> Decision:
    """Return for ``problem`` a decision made for it with shares: who hands a share on becomes a guard."""
    units = tuple(
        mine[: len(op.modes[m].uses)] for op, m, mine in zip(problem.ops, decision.modes, decision.units, strict=True)
    )
    guards = tuple(dict.fromkeys((*decision.guards, *decision.flows)))
    return replace(decision, units=units, guards=guards, flows=())
