"""What the ops of a workload run on: the engines of a problem, with the depths of rings and FIFOs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.problem import Engine
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import DMA, DMA_QUEUE, HMX, HVX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Op
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.workload import Workload


def engines_of(workload: Workload, machine: Machine, ops: Sequence[Op]) -> tuple[Engine, ...]:
    """Return the engines that some op uses, the machine's first, DMA queues by owner.

    Raises
    ------
    InvalidInputError
        They need more hardware threads than the machine has.
    """
    used: set[str] = set()
    for op in ops:
        for mode in op.modes:
            used.update(use.engine for use in mode.uses)
            if mode.dma is not None:
                used.add(mode.dma.owner_engine)
    found = []
    if HVX in used:
        found.append(Engine(name=HVX, units=machine.hvx_contexts))
    if HMX in used:
        found.append(Engine(name=HMX, units=machine.hmx_units))
    for e in workload.engines:
        if e.name in used and e.kind == "fifo":
            found.append(Engine(name=e.name, units=e.units, kind="pipe", depth=e.depth))
        elif e.name in used:
            found.append(Engine(name=e.name, units=e.units, kind=e.kind))
    pipes = sorted((name for name in used if name.startswith(DMA)), key=lambda name: (len(name), name))
    known = {engine.name for engine in found}
    engines = (
        *found,
        *(Engine(name=name, kind="pipe", depth=_ring_depth(name, machine, ops)) for name in pipes if name not in known),
    )
    _check_threads(engines, machine)
    return engines


def _ring_depth(queue: str, machine: Machine, ops: Sequence[Op]) -> int | None:
    """Return the places in the ring of a DMA queue; None where all that goes through it has its place at once.

    One entry of a ring stays free, or a full one would look like an empty one: the push that would take it is refused.
    """
    if not queue.startswith(DMA_QUEUE):
        return None
    depth = max(1, machine.dma.ring_depth.whole - 1)
    most = (
        max((m.dma.descriptors for m in op.modes if m.dma and any(use.engine == queue for use in m.uses)), default=0)
        for op in ops
    )
    return depth if sum(most) > depth else None


def _check_threads(engines: tuple[Engine, ...], machine: Machine) -> None:
    workers = [engine for engine in engines if engine.kind == "worker"]
    need = sum(engine.units for engine in workers)
    if need > machine.hw_threads:
        parts = ", ".join(f"{engine.name} {engine.units}" for engine in workers)
        raise InvalidInputError(
            f"the plan needs {need} hardware threads ({parts}), {machine.name} has {machine.hw_threads}; "
            "make your own engines resources instead of workers, or use fewer HVX contexts"
        )
