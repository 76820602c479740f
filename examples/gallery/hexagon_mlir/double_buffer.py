"""A row of tiles with one buffer and with two: what double buffering is worth between its extremes."""

from __future__ import annotations

from fractions import Fraction

from hexloom import load_hw
from hexloom.formulations.mode import Engine, Mode, Use
from hexloom.formulations.periodic.loop import Dependency, Loop, LoopBuffer, LoopOp, LoopUser
from hexloom.formulations.periodic.modulo import modulo_schedule
from hexloom.formulations.problem import Scratchpad
from hexloom.hwmodels.cost import dma_pipe_us

TILES, TILE_BYTES = 64, 128 * 128 * 4
"""Vector addition [64, 128 x 128]; fp32, as far as the times say."""


def interval_us(load_us: Fraction, compute_us: Fraction, store_us: Fraction, depth: int) -> float:
    """Return the least interval of load, compute and store with ``depth`` buffers each way, in whole nanoseconds."""

    def op(name: str, engine: str, us: Fraction) -> LoopOp:
        ticks = max(1, round(us * 1000))
        return LoopOp(name=name, mode=Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks))

    # With one buffer the next tile is loaded when this one has been stored: sums overwrite what was loaded.
    users = {1: (("inputs", "load", "store"),), 2: (("inputs", "load", "add"), ("sums", "add", "store"))}[depth]
    loop = Loop(
        ops=(op("load", "dma", load_us), op("add", "hvx", compute_us), op("store", "dma", store_us)),
        dependencies=(Dependency(before="load", after="add"), Dependency(before="add", after="store")),
        engines=(Engine(name="dma", kind="resource"), Engine(name="hvx")),
        buffers=tuple(
            LoopBuffer(name=name, size_bytes=1, users=(LoopUser(op=first), LoopUser(op=last)), depth=depth)
            for name, first, last in users
        ),
        scratchpad=Scratchpad(total_bytes=8),
    )
    found = modulo_schedule(loop, 0.3, seed=1, shortest=False)
    assert found.ii_ticks is not None and found.status == "OPTIMAL"
    return found.ii_ticks / 1000


def vector_add(single_us: float) -> dict[str, float]:
    """Return the time with two buffers, where with one it is ``single_us``; transfers cost what the machine says."""
    machine = load_hw("hexagon-v75")
    load, store = dma_pipe_us(machine, 2 * TILE_BYTES, "read"), dma_pipe_us(machine, TILE_BYTES, "write")
    compute = Fraction(single_us) / TILES - load - store
    one, two = (interval_us(load, compute, store, depth) for depth in (1, 2))
    # What no other tile hides: the first load and the last store.
    return {"single_us": TILES * one, "double_us": TILES * two + float(load + store)}


def gain(transfer_us: int, compute_us: int) -> dict[str, float]:
    """Return what two buffers gain over one, with equal loads and stores."""
    half = Fraction(transfer_us, 2)
    one, two = (interval_us(half, Fraction(compute_us), half, depth) for depth in (1, 2))
    return {"gain": one / two}
