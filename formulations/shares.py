"""Shares that stand for something else: channels under rule ``rigid``, and the places of rings.

A share is held from the start of an op until its end is known; the plan orders its users so that no timing exceeds it.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from hexloom.formulations.mode import Engine, Mode, Use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hexloom.formulations.mode import Channel
    from hexloom.formulations.problem import Problem


def channel_shares(problem: Problem) -> Problem:
    """Return the same problem with a share in place of every channel that someone pulls.

    Every mode gets a further use, its last, of each share that it pulls of. Capacity and demands are divided by
    what they have in common. A channel called like an engine gives a share with ``channel`` behind its name.
    """
    rates: dict[str, list[int]] = {}
    for mode in _modes(problem):
        for pull in mode.pulls:
            if pull.rate:
                rates.setdefault(pull.channel, []).append(pull.rate)
    shares: dict[str, tuple[str, int]] = {}
    engines = list(problem.engines)
    for channel in problem.channels:
        if channel.name in rates:
            name = channel.name
            while any(engine.name == name for engine in engines):
                name += " channel"
            common = gcd(channel.capacity, *rates[channel.name])
            shares[channel.name] = name, common
            engines.append(Engine(name=name, units=channel.capacity // common, kind="share"))

    def changed(mode: Mode) -> Mode:
        if not mode.pulls:
            return mode
        held = ((*shares[pull.channel], pull.rate) for pull in mode.pulls if pull.rate)
        uses = (Use(engine=name, ticks=mode.latency_ticks, units=rate // common) for name, common, rate in held)
        return mode.model_copy(update={"uses": (*mode.uses, *uses), "pulls": ()})

    return _with(problem, engines, changed) if shares else problem


def channel_of(problem: Problem, share: str) -> Channel | None:
    """Return the channel that ``share`` stands for, as `channel_shares` called it; None where it is something else.

    A channel that no share stands for is itself.
    """
    named = {channel.name: channel for channel in problem.channels}
    if share not in problem.engine_index:
        return named.get(share)
    if share not in problem.shares or f"{share} channel" in problem.engine_index:
        return None
    while share not in named and share.endswith(" channel"):
        share = share.removesuffix(" channel")
    return named.get(share)


def engine_in_words(problem: Problem, name: str) -> str:
    """Return what an engine is to its users: also shares that stand for a channel, or for the places of a ring."""
    channel = channel_of(problem, name)
    if channel is not None:
        return f"channel {channel.name!r}"
    rings = {ring_name(engine.name): engine.name for engine in problem.engines if engine.kind == "pipe"}
    return f"the ring of {rings[name]!r}" if name in rings and name in problem.shares else f"engine {name!r}"


def amount_in_words(problem: Problem, share: str, amount: int) -> str:
    """Return an amount of a share: in the numbers of the channel that it stands for, in places of a ring, or units."""
    channel = channel_of(problem, share)
    if channel is not None:
        return channel.in_words(amount * channel.capacity // problem.shares[share])
    unit = "unit" if engine_in_words(problem, share).startswith("engine") else "place"
    return f"{amount} {unit}" if amount == 1 else f"{amount} {unit}s"


def ring_shares(problem: Problem) -> Problem:
    """Return the same problem with a share for the places of every ring in which not all ops find one at once."""
    depths = {engine.name: engine.depth for engine in problem.engines if engine.depth is not None}
    wanted = dict.fromkeys(depths, 0)
    for op in problem.ops if depths else ():
        for name in depths:
            wanted[name] += max(_places(mode, name) for mode in op.modes)
    full = (name for name, depth in depths.items() if wanted[name] > depth)
    # A share of that name is the ring's own: the problem has been here before.
    names = {ring_name(name): name for name in full if ring_name(name) not in problem.shares}
    engines = [
        *problem.engines,
        *(Engine(name=ring, units=depths[name], kind="share") for ring, name in names.items()),
    ]

    def changed(mode: Mode) -> Mode:
        uses = (
            Use(engine=ring, ticks=mode.latency_ticks, units=places)
            for ring, name in names.items()
            if (places := _places(mode, name))
        )
        return mode.model_copy(update={"uses": (*mode.uses, *uses)})

    return _with(problem, engines, changed) if names else problem


def ring_name(pipe: str) -> str:
    """Return the name of the share that stands for the places of ``pipe``."""
    return f"{pipe} ring"


def _places(mode: Mode, pipe: str) -> int:
    if mode.dma is None or not any(use.engine == pipe and use.ticks > 0 for use in mode.uses):
        return 0
    return mode.dma.descriptors


def _modes(problem: Problem) -> Iterable[Mode]:
    return {id(mode): mode for op in problem.ops for mode in op.modes}.values()


def _with(problem: Problem, engines: list[Engine], change: Callable[[Mode], Mode]) -> Problem:
    """Return ``problem`` with other ``engines`` and every mode changed."""
    # Ops share their modes, and much is looked up by the identity of a mode: each is changed once.
    changed = {id(mode): change(mode) for mode in _modes(problem)}
    ops = tuple(op.model_copy(update={"modes": tuple(changed[id(mode)] for mode in op.modes)}) for op in problem.ops)
    return problem.changed(engines=tuple(engines), ops=ops)
