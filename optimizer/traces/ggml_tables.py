"""What ggml-hexagon's own scripts print: the table of ops, and the summary of one op's timeline.

Both hold sums only. A sum over transfers that overlap can be longer than its op: it is time in flight, not time busy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.ggml_lines import HMX_THREAD
from hexloom.optimizer.traces.trace import ClassTotal, Trace

if TYPE_CHECKING:
    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source
    from hexloom.optimizer.traces.trace import Kind

TITLE = re.compile(r"# (?P<name>.*?)per-op profile\s*\((?P<count>\d{1,12}) op instances, total (?P<us>\d{1,15}) usec")
OP_HEAD = re.compile(r"^op\s+total_us\s+%\s+count\s+avg_us\s+avg_cyc\s*$")
ROLE_HEAD = re.compile(r"^role\s+total_us\s+%\S*\s+count\s+avg_us\s+dims")
KERNEL_TITLE = "# kernel implementation used"
OP_ROW = re.compile(
    r"^(?P<op>\S+)\s+(?P<us>\d{1,15})\s+[\d.]+%\s+(?P<count>\d{1,12})\s+(?P<avg>[\d.]+)\s+(?P<cycles>\d{1,15})\s*$"
)
ROLE_ROW = re.compile(
    r"^(?P<role>\S+)\s+(?P<us>\d{1,15})\s+[\d.]+%\s+(?P<count>\d{1,12})\s+[\d.]+\s+(?P<dims>\S.*?)\s*$"
)
KERNEL_ROW = re.compile(r"^\s+(?P<kernel>\S+)\s+(?P<us>\d{1,15}) us\s+[\d.]+%\s+x(?P<count>\d{1,12})\s*$")

OP_LINE = re.compile(
    r"^(?P<op>[A-Z_0-9+]+) \((?P<dims>.*) : (?P<types>[^:]*)\) - (?P<us>\d{1,15}) usec (?P<cycles>\d{1,18}) cycles\s*$"
)
THREAD_LINE = re.compile(r"^\s+Thread (?P<thread>\d{1,3}) \((?P<unit>\w+)\)\s*: (?P<sums>.*)$")
THREAD_SUM = re.compile(r"\s*(?P<event>[\w-]+) (?P<cycles>\d{1,18}) \([\d.]+%\)\s*$")


def read_table(source: Source, findings: Findings) -> Trace:
    """Return the totals of a per-op table: by op, by role of the weights, and by kernel.

    Raises
    ------
    InvalidInputError
        If there is no row of a table.
    """
    trace = Trace("ggml-hexagon-table", "cycles", findings)
    group = ""
    for line in source.lines(findings):
        if match := TITLE.search(line):
            trace.meta |= {"name": match["name"].strip(), "instances": match["count"], "total_us": match["us"]}
        elif OP_HEAD.match(line):
            group = "op"
        elif ROLE_HEAD.match(line):
            group = "role"
        elif line.startswith(KERNEL_TITLE):
            group = "kernel"
        elif line.strip() and not line.startswith(("#", "-")):
            _row(trace, group, line)
    if not trace.totals:
        raise InvalidInputError(f"{source.name}: no row of a table of ops")
    ops = [total for total in trace.totals if total.group == "op"]
    stated = int(trace.meta.get("instances", -1))
    if ops and stated >= 0 and sum(total.count for total in ops) != stated:
        have = sum(total.count for total in ops)
        findings.add("incomplete", f"the title states {stated} op instances, the rows have {have}")
    return trace


def _row(trace: Trace, group: str, line: str) -> None:
    pattern = {"op": OP_ROW, "role": ROLE_ROW, "kernel": KERNEL_ROW}.get(group)
    match = pattern.match(line) if pattern else None
    if match is None:
        trace.findings.add("malformed", line)
        return
    count, ns = int(match["count"]), int(match["us"]) * 1000
    if group == "op":
        trace.totals.append(ClassTotal(match["op"], "op", count, int(match["cycles"]) * count, ns))
    elif group == "role":
        trace.totals.append(ClassTotal(f"{match['role']} {match['dims']}", "role", count, None, ns))
    else:
        trace.totals.append(ClassTotal(match["kernel"], "kernel", count, None, ns))


def read_summary(source: Source, findings: Findings) -> Trace:
    """Return the ops of a timeline summary with the sums of their threads.

    Raises
    ------
    InvalidInputError
        If there is no op.
    """
    trace = Trace("ggml-hexagon-summary", "cycles", findings)
    lane = trace.lane("ops", "op", "ops")
    current = -1
    for line in source.lines(findings):
        if match := OP_LINE.match(line):
            cycles, us = int(match["cycles"]), int(match["us"])
            khz = (cycles * 2000 + us) // (us * 2) if us else 0
            detail = f"{match['dims']}|{match['types']}|"
            current = trace.add(match["op"], "op", lane, None, cycles, khz=khz, detail=detail)
        elif match := THREAD_LINE.match(line):
            if current < 0:
                findings.add("outside", line)
                continue
            for part in match["sums"].split("|"):
                _sum(trace, current, match["unit"], int(match["thread"]), part)
        elif line.strip():
            findings.add("malformed", line)
    if not len(trace):
        raise InvalidInputError(f"{source.name}: no op of a timeline summary")
    return trace


def _sum(trace: Trace, op: int, unit: str, thread: int, part: str) -> None:
    """Take the sum of one event of one thread; more than the op took are transfers beside each other."""
    match = THREAD_SUM.match(part)
    if match is None:
        if part.strip():
            trace.findings.add("malformed", part)
        return
    event, cycles = match["event"], int(match["cycles"])
    total = trace[op].ticks
    engine = "dma" if event == "DMA" else "hmx" if thread == HMX_THREAD or unit.upper() == "HMX" else "hvx"
    if engine == "dma":
        trace.findings.add("bounds", "a DMA span ends when its ring entry was popped")
    elif cycles > total:
        trace.findings.add("overlap", f"{event} of thread {thread}: {cycles} cycles in an op of {total}")
    lane = trace.lane(("thread", thread, engine, ""), engine, f"T{thread}")
    kind: Kind = "transfer" if engine == "dma" else "work"
    trace.add(event, kind, lane, None, cycles, exact=engine != "dma", op=op, detail=f"{unit} sum")
