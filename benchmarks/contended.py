"""Named instances whose ops share channels: the same name, size and seed give the same problem everywhere.

Rates are parts of 100 of a channel. Each family stands for a situation on a real machine; where demands add up to less
than a channel has, contention does nothing, and `demand_exceeds` says so.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hexloom.formulations.problem import Channel, Engine, Mode, Op, Precedence, Problem, Pull, Use

if TYPE_CHECKING:
    from collections.abc import Callable

FULL = 100


@dataclass
class _Parts:
    rng: random.Random
    ops: list[Op] = field(default_factory=list)
    edges: list[Precedence] = field(default_factory=list)

    def op(
        self, task: str, stage: str, tile: int, engine: str, ticks: int, after: tuple[str, ...], **rates: int
    ) -> str:
        name = f"{task}/{stage}.{tile}"
        pulls = tuple(Pull(channel=channel, rate=rate) for channel, rate in rates.items() if rate)
        mode = Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks, pulls=pulls)
        self.ops.append(Op(name=name, task=task, stage=stage, tile=tile, modes=(mode,)))
        self.edges += [Precedence(before=before, after=name) for before in after]
        return name

    def vary(self, ticks: int) -> int:
        return max(1, round(ticks * self.rng.uniform(0.8, 1.2)))

    def problem(self, name: str, engines: dict[str, int], channels: tuple[str, ...]) -> Problem:
        return Problem(
            name=name,
            engines=tuple(Engine(name=engine, units=units) for engine, units in engines.items()),
            channels=tuple(Channel(name=channel, capacity=FULL) for channel in channels),
            ops=tuple(self.ops),
            precedences=tuple(self.edges),
        )


def one_channel(ops: int, seed: int) -> Problem:
    """Return short chains over three engines; transfers and vector ops demand DDR."""
    parts = _Parts(random.Random(f"one_channel/{ops}/{seed}"))
    for chain in range(max(1, ops // 3)):
        load = parts.op("chain", "load", chain, "dma", parts.vary(100), (), ddr=parts.rng.choice((60, 75, 90)))
        job = parts.op("chain", "job", chain, "hmx", parts.vary(120), (load,))
        if chain % 2:
            parts.op("chain", "row", chain, "hvx", parts.vary(150), (), ddr=parts.rng.choice((50, 70)))
        else:
            parts.op("chain", "store", chain, "hvx", parts.vary(60), (job,), ddr=40)
    return parts.problem(f"one_channel_{ops}_{seed}", {"dma": 1, "hmx": 1, "hvx": 1}, ("ddr",))


def two_channels(ops: int, seed: int) -> Problem:
    """Return transfers that pass DDR alone beside vector ops that pass L2 and DDR."""
    parts = _Parts(random.Random(f"two_channels/{ops}/{seed}"))
    for chain in range(max(1, ops // 4)):
        load = parts.op("matmul", "load", chain, "dma", parts.vary(110), (), ddr=parts.rng.choice((70, 85)))
        parts.op("matmul", "job", chain, "hmx", parts.vary(130), (load,))
        read = parts.op("rows", "read", chain, "hvx", parts.vary(90), (), ddr=50, l2=parts.rng.choice((60, 80)))
        parts.op("rows", "write", chain, "hvx", parts.vary(70), (read,), ddr=45, l2=70)
    return parts.problem(f"two_channels_{ops}_{seed}", {"dma": 1, "hmx": 1, "hvx": 2}, ("ddr", "l2"))


def streaming(ops: int, seed: int) -> Problem:
    """Return a tile pipeline (load, convert, job, store) beside vector ops that stream DDR."""
    parts = _Parts(random.Random(f"streaming/{ops}/{seed}"))
    tiles = max(1, round(ops * 0.7 / 4))
    slot: list[str] = []
    for tile in range(tiles):
        after = (slot[tile - 2],) if tile >= 2 else ()
        load = parts.op("matmul", "load", tile, "dma", parts.vary(80), after, ddr=75)
        convert = parts.op("matmul", "convert", tile, "hvx", parts.vary(60), (load,))
        slot.append(convert)
        job = parts.op("matmul", "job", tile, "hmx", parts.vary(110), (convert,))
        parts.op("matmul", "store", tile, "hvx", parts.vary(40), (job,), ddr=60)
    for row in range(max(1, ops - 4 * tiles)):
        parts.op("rows", "row", row, "hvx", parts.vary(90), (), ddr=75)
    return parts.problem(f"streaming_{ops}_{seed}", {"dma": 1, "hvx": 2, "hmx": 1}, ("ddr",))


def both_ways(ops: int, seed: int) -> Problem:
    """Return loads and stores on channels of their own, and copies that use both; writing is slower."""
    parts = _Parts(random.Random(f"both_ways/{ops}/{seed}"))
    for chain in range(max(1, ops // 4)):
        load = parts.op("rows", "load", chain, "dma_in", parts.vary(80), (), read=60)
        compute = parts.op("rows", "compute", chain, "hvx", parts.vary(100), (load,))
        parts.op("rows", "store", chain, "dma_out", parts.vary(100), (compute,), write=80)
        parts.op("copy", "copy", chain, "mover", parts.vary(120), (), read=60, write=60)
    engines = {"dma_in": 1, "dma_out": 1, "hvx": 1, "mover": 1}
    return parts.problem(f"both_ways_{ops}_{seed}", engines, ("read", "write"))


def decode(ops: int, seed: int) -> Problem:
    """Return matrix-vector products whose weights fill DDR beside matrix products that need little of it."""
    parts = _Parts(random.Random(f"decode/{ops}/{seed}"))
    for chain in range(max(1, ops // 4)):
        load = parts.op("decode", "load", chain, "dma", parts.vary(140), (), ddr=90)
        parts.op("decode", "dot", chain, "hvx", parts.vary(60), (load,))
        weights = parts.op("prefill", "load", chain, "dma2", parts.vary(50), (), ddr=60)
        parts.op("prefill", "job", chain, "hmx", parts.vary(160), (weights,))
    return parts.problem(f"decode_{ops}_{seed}", {"dma": 1, "dma2": 1, "hvx": 1, "hmx": 1}, ("ddr",))


FAMILIES: dict[str, Callable[[int, int], Problem]] = {
    "one_channel": one_channel,
    "two_channels": two_channels,
    "streaming": streaming,
    "both_ways": both_ways,
    "decode": decode,
}

SIZES = (10, 14, 18, 22, 26, 30, 34, 40, 50, 60, 70, 80)


def instances(quick: bool = False) -> list[Problem]:
    """Return the 60 instances (or 5), from small to large."""
    sizes = (12,) if quick else SIZES
    return [make(ops, k) for k, ops in enumerate(sizes) for make in FAMILIES.values()]


def demand_exceeds(problem: Problem) -> bool:
    """Whether ops of different engines can together demand more of a channel than it has."""
    for channel in problem.channels:
        most: dict[str, int] = {}
        for op in problem.ops:
            for mode in op.modes:
                rate = sum(pull.rate for pull in mode.pulls if pull.channel == channel.name)
                for use in mode.uses:
                    most[use.engine] = max(most.get(use.engine, 0), rate)
        units = {engine.name: engine.units for engine in problem.engines}
        if sum(rate * units[name] for name, rate in most.items()) > channel.capacity:
            return True
    return False
