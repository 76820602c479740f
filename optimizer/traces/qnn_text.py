"""Profiles of QNN as text: the CSV of qnn-profile-viewer and ONNX Runtime, and the log of an event callback.

Neither says when anything began, so they give durations only. Several executions follow one another.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.numbers import decimal, scaled
from hexloom.optimizer.traces.trace import ClassTotal, Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source

HEADER = ("Message", "Time", "Unit of Measurement", "Event Level", "Event Identifier")
BEGINS = "Number of HVX threads used"
EXECUTE = "(execute)"
NODE = re.compile(r"(?P<name>.*?):?\s*(?P<id>OpId_\d+)\s*(?:\(cycles\))?\s*$", re.DOTALL)
NS = {"US": 1000, "MS": 1_000_000, "NS": 1}
MOST_TOTALS = 1_000_000


def read_csv(source: Source, findings: Findings) -> Trace:
    """Return the nodes of all executions as durations in cycles, in the order of the file.

    Raises
    ------
    InvalidInputError
        If the columns are not those of a QNN profile.
    """
    trace = Trace("qnn-csv", "cycles", findings)
    rows = _rows(source, findings)
    columns = next((row for row in rows if any(cell.strip() for cell in row)), [])
    names = {cell.strip().lower(): k for k, cell in enumerate(columns)}
    missing = [name for name in HEADER if name.lower() not in names]
    if missing:
        raise InvalidInputError(f"{source.name}: no column {missing[0]!r}; give the CSV of qnn-profile-viewer")
    at = [names[name.lower()] for name in HEADER]
    lane = trace.lane("nodes", "graph", "nodes")
    reader = _Executions(trace, lane)
    for row in rows:
        if len(row) <= max(at):
            if any(cell.strip() for cell in row):
                findings.add("malformed", ",".join(row))
            continue
        reader.row(*(row[k].strip() for k in at))
    reader.end()
    return trace


def _rows(source: Source, findings: Findings) -> Iterator[list[str]]:
    reader = csv.reader(line + "\n" for line in source.lines(findings))
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            findings.add("malformed", str(error))


class _Executions:
    """Rows of a profile, one execution after the other."""

    def __init__(self, trace: Trace, lane: int) -> None:
        self.trace, self.lane = trace, lane
        self.batch = -1
        self.seen: set[str] = set()
        self.nodes = 0

    def row(self, message: str, time: str, unit: str, level: str, identifier: str) -> None:
        value = scaled(decimal(time))
        if value is None and unit.upper() == "OBJECT":
            self.trace.findings.add("ignored", identifier)
        elif value is None or value < 0:
            self.trace.findings.add("rejected", f"{identifier}: time {time!r}")
        elif message.upper() == "NODE" or NODE.match(identifier):
            if unit.upper() != "CYCLES":
                self.trace.findings.add("rejected", f"{identifier}: {time} {unit}, not cycles")
                return
            self._node(identifier, value)
        elif level.upper() == "ROOT":
            self._root(identifier, value, unit.upper())
        else:
            self.trace.findings.add("ignored", "preparation of the graph")

    def _root(self, identifier: str, value: int, unit: str) -> None:
        """Take what is said of a whole execution; the first word of it that was said before begins the next one."""
        if identifier != BEGINS and EXECUTE not in identifier and self.batch < 0:
            self.trace.findings.add("ignored", "preparation of the graph")
            return
        if identifier in self.seen or self.batch < 0:
            self._next()
        self.seen.add(identifier)
        if len(self.trace.totals) < MOST_TOTALS:
            cycles, ns = (value, None) if unit == "CYCLES" else (None, value * NS[unit] if unit in NS else None)
            count = 1 if unit != "COUNT" else value
            total = ClassTotal(identifier[:200], f"execution {self.batch}", count, cycles, ns)
            self.trace.totals.append(total)

    def _node(self, identifier: str, cycles: int) -> None:
        match = NODE.match(identifier)
        name, key = (match["name"] or match["id"], match["id"]) if match else (identifier, identifier)
        if self.batch < 0 or f"node {identifier}" in self.seen:
            self._next()
        self.seen.add(f"node {identifier}")
        self.trace.add(name[:400], "work", self.lane, None, cycles, batch=self.batch, key=key)

    def _next(self) -> None:
        self.batch += 1
        self.seen = set()

    def end(self) -> None:
        if self.batch < 0 and not self.trace.findings.warnings:
            self.trace.findings.add("incomplete", "no execution in the file")


EVENT = re.compile(
    r"\[profiler\]\[(?P<graph>[^\]]*)\](?P<sub>sub_)?event\[(?P<k>\d+)\]: (?P<what>.*?)"
    r"(?:, duration: (?P<ms>[\d.]+) (?P<unit>ms|us|s)|, count: (?P<count>\d+)"
    r"|, cycles: (?P<cycles>\d+)|, sub_count: (?P<subs>\d+), (?P<edge>start|end))?\s*$"
)
UNIT_NS = {"us": 1000, "ms": 1_000_000, "s": 1_000_000_000}


def read_events(source: Source, findings: Findings) -> Trace:
    """Return the sub-events of all graphs as durations in cycles; a first event begins the next execution."""
    trace = Trace("qnn-events", "cycles", findings)
    batch = -1
    promised = found = 0
    for line in source.lines(findings):
        match = EVENT.search(line)
        if match is None:
            if "[profiler][" in line:
                findings.add("malformed", line)
            continue
        graph = match["graph"]
        if match["sub"] is None and (int(match["k"][:9]) == 0 or batch < 0):
            if found < promised:
                findings.add("incomplete", f"{promised - found} sub-events are missing", promised - found)
            batch, promised, found = batch + 1, 0, 0
        if match["subs"]:
            promised = promised + int(match["subs"][:9]) if match["edge"] == "start" else promised
        elif match["cycles"]:
            found += 1
            cycles = scaled(decimal(match["cycles"]))
            what = match["what"].removesuffix("(cycles)").strip()
            node = NODE.match(what)
            lane = trace.lane(("graph", graph, "", ""), "graph", graph)
            name, key = (node["name"] or node["id"], node["id"]) if node else (what, what)
            if cycles is not None:
                trace.add(name, "work", lane, None, cycles, batch=max(batch, 0), key=key, detail=graph)
            else:
                findings.add("rejected", line)
        elif match["ms"] or match["count"]:
            ns = scaled(decimal(match["ms"]), UNIT_NS[match["unit"]]) if match["ms"] else None
            count = scaled(decimal(match["count"])) if match["count"] else 1
            if len(trace.totals) < MOST_TOTALS:
                trace.totals.append(ClassTotal(match["what"][:200], f"execution {batch}", count or 0, None, ns))
        else:
            findings.add("malformed", line)
    if found < promised:
        findings.add("incomplete", f"{promised - found} sub-events are missing", promised - found)
    if not trace.totals and not len(trace):
        raise InvalidInputError(f"{source.name}: no line of a QNN event callback")
    return trace
