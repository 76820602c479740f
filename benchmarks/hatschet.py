"""Reads loops of HatScheT: a graph (graphml) and the resources that it uses (xml).

An operation blocks a unit of its resource for ``blockingTime`` and gives its result after ``latency``; a ``limit`` of
-1 is no limit. Along an edge the target starts its delay after the result of the source, ``distance`` iterations later.
Times are clock cycles. What can be chained within a cycle (``physicalDelay``) is not read.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from hexloom.formulations.mode import Engine, Mode, Use
from hexloom.formulations.periodic.loop import Dependency, Loop, LoopOp

INSTANCES = Path(__file__).resolve().parents[1].parent / "shared" / "instances" / "modulo"
"""Where they lie beside the repository, if they do."""


def read_loop(resources: Path) -> Loop:
    """Read the loop whose resources are in the file ``resources`` (``NAME_RM*.xml`` beside ``NAME.graphml``)."""
    graph = resources.with_name(resources.stem.rpartition("_RM")[0] + ".graphml")
    kinds = {r.attrib["name"]: r.attrib for r in ElementTree.parse(resources).iter("Resource")}
    limited = {name: int(r["limit"]) for name, r in kinds.items() if int(r["limit"]) > 0 and int(r["blockingTime"]) > 0}
    ops: dict[str, LoopOp] = {}
    delays: dict[str, int] = {}
    edges: list[tuple[str, str, dict[str, str]]] = []
    for element in ElementTree.parse(graph).iter():
        tag = element.tag.rpartition("}")[2]
        data = {child.attrib["key"]: child.text or "" for child in element if "key" in child.attrib}
        if tag == "node":
            kind, name = kinds[data["uses_resource"]], element.attrib["id"]
            blocking, delays[name] = int(kind["blockingTime"]), int(kind["latency"])
            uses = (Use(engine=kind["name"], ticks=blocking),) if kind["name"] in limited else ()
            mode = Mode(uses=uses, latency_ticks=max(blocking, delays[name]))
            ops[name] = LoopOp(name=name, stage=data["name"], mode=mode)
        elif tag == "edge":
            edges.append((element.attrib["source"], element.attrib["target"], data))
    dependencies = tuple(
        Dependency(
            before=before,
            after=after,
            distance=int(data.get("distance", 0)),
            delay_ticks=delays[before] + int(data.get("delay", 0)),
        )
        for before, after, data in edges
    )
    engines = tuple(Engine(name=name, units=limit, kind="resource") for name, limit in limited.items())
    return Loop(name=resources.stem, ops=tuple(ops.values()), dependencies=dependencies, engines=engines)


def loops(most_ops: int) -> list[Loop]:
    """Return all loops of at most ``most_ops`` ops; none where the instances are missing."""
    found = [read_loop(path) for path in sorted(INSTANCES.glob("*_RM*.xml"))]
    return [loop for loop in found if len(loop.ops) <= most_ops]
