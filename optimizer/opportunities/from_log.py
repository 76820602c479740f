"""A graph from a ggml-hexagon profile log: measured times, and dependencies from the names of tensors.

An op reads what is written before ``->`` and writes what follows. Views have the name of their tensor. A log is cut
into runs where it repeats itself: the tokens of a request follow each other through the host.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hexloom.hwmodels import MachineFileError
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.opportunities.costs import Costs, Work
from hexloom.optimizer.opportunities.graph import Graph, Node
from hexloom.optimizer.opportunities.kinds import ATTENTION, COPY, ELEMENTS, GGML, MATRIX, NOTHING, RATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.traces.trace import Event, Trace

SHAPE = re.compile(r"\d{1,12}(?::\d{1,12})*")
OLD_SHAPE = re.compile(r"\d{1,12}(?::\d{1,12})+")
"""In a line of v0 shapes stand among names, which may end in numbers."""

DIMS_AFTER_NAME = re.compile(r"\s+\d+(?::\d+)+\s*$")
VIEW = re.compile(r"(\s*\((?:view|reshaped|permuted|transposed|cont|copy|copy of [^)]*)\))+\s*$")
GIVEN = re.compile(r"(\.weight|\.bias|\.scale)$|^(leaf_|inp_|cache_|KQ_mask|rope_freqs|attn_inp)")
VTCM = re.compile(r"\bvtcm (\d{1,12})")


class Names(NamedTuple):
    """Tensors that an op reads and writes; ``known``: whether its line says both."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    known: bool


def names_of(text: str) -> Names:
    """Return the tensors that ``a x b -> c`` names, by the names of what they are views of."""
    left, arrow, right = text.rpartition("->")
    if not arrow:
        return Names((), (), known=False)
    reads, writes = (tuple(filter(None, map(_base, re.split(r"\s+[x+]\s+|,\s*", part)))) for part in (left, right))
    return Names(reads, writes, known=bool(writes))


def _base(name: str) -> str:
    return VIEW.sub("", DIMS_AFTER_NAME.sub("", name.strip())).strip()


def graph_of_log(trace: Trace, machine: Machine, name: str) -> Graph:
    """Return the graph of a log.

    Raises
    ------
    InvalidInputError
        The log has no ops with times; see `totals_of` for sums.
    """
    costs = Costs(machine)
    events = [event for event in trace if event.kind == "op"]
    if not events:
        raise InvalidInputError(f"{name}: the trace has no ops one by one; give a profile log of ggml-hexagon")
    if trace.form != "ggml-hexagon":
        raise InvalidInputError(
            f"{name}: a trace of format {trace.form} does not say which tensors ops read; give a profile log of "
            "ggml-hexagon, an ONNX model or a GGUF file"
        )
    nodes: list[Node] = []
    runs: list[int] = []
    run = _Run()
    count: Counter[str] = Counter()
    lane = events[0].lane
    for event in events:
        text = event.key or ("" if "|" in event.detail else event.detail)  # v0 has all in one
        signature = event.name, text
        if signature in run.seen or event.lane != lane:
            runs.append(len(nodes))
            run, lane = _Run(base=len(nodes)), event.lane
        run.seen.add(signature)
        ns = _ns(event, trace)
        names = names_of(text)
        after = run.add(len(nodes), event.name, names, count)
        detail = event.detail if event.key else f"{' x '.join(OLD_SHAPE.findall(event.detail))}||"
        work = work_of(event.name, detail, costs)
        label = f"{event.name} {names.writes[0]}" if names.writes else f"{event.name} {len(nodes)}"
        nodes.append(
            Node(
                name=label,
                op=event.name,
                ns=ns,
                needs=costs.measured(ns, work or Work(), _engine(event, work)) if ns else (0, 0, 0),
                after=tuple(sorted(after)),
                vtcm_bytes=0 if work is None else min(work.vtcm_bytes, machine.available_vtcm_bytes),
            )
        )
        count["black"] += work is None
        count["vtcm"] += _logged_vtcm(event) * 2 > machine.available_vtcm_bytes
    runs.append(len(nodes))
    return Graph(
        name=name,
        kind="ggml",
        nodes=tuple(nodes),
        measured=True,
        addresses_known=False,
        runs=tuple(runs),
        vtcm_bytes=machine.available_vtcm_bytes,
        notes=_notes(count, trace, len(runs)),
    )


class _Run:
    """Who wrote and who read each tensor so far, in one run."""

    def __init__(self, base: int = 0) -> None:
        self.base = base
        self.seen: set[tuple[str, str]] = set()
        self.writer: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        self.hidden: list[int] = []
        self.barrier: int | None = None

    def add(self, i: int, op: str, names: Names, count: Counter[str]) -> set[int]:
        """Return what op ``i`` follows, and remember what it does."""
        after: set[int] = set() if self.barrier is None else {self.barrier}
        if not names.known:
            count["unnamed"] += 1
            after = set(range(self.base, i))
            self.barrier = i
            self.writer, self.readers, self.hidden = {}, {}, []
            return after
        for tensor in names.reads:
            if tensor in self.writer:
                after.add(self.writer[tensor])
            elif self.hidden and not GIVEN.search(tensor):
                # A fused op names one result; this may be another one of it.
                after.update(self.hidden)
                count["hidden"] += 1
        for tensor in names.writes:
            after.update(self.readers.get(tensor, ()))
            if tensor in self.writer:
                after.add(self.writer[tensor])
        for tensor in names.reads:
            self.readers.setdefault(tensor, []).append(i)
        for tensor in names.writes:
            self.writer[tensor] = i
            self.readers[tensor] = []
        if op.split("+").count("MUL_MAT") > len(names.writes):
            self.hidden.append(i)
        after.discard(i)
        return after


def _ns(event: Event, trace: Trace) -> int:
    khz = event.khz or trace.khz
    if not khz:
        raise InvalidInputError("the log counts cycles and states no clock; times cannot be told")
    return math.ceil(event.ticks * 10**6 / khz)


def _logged_vtcm(event: Event) -> int:
    found = VTCM.search(event.detail.rpartition("|")[2])
    return 0 if found is None else int(found[1])


def _engine(event: Event, work: Work | None) -> str | None:
    params = event.detail.rpartition("|")[2]
    if params.startswith("hmx"):
        return "hmx"
    if params.startswith("hvx") or work is None or not event.key:  # v0 is of builds without a path to HMX
        return "hvx"
    return None


def work_of(op: str, detail: str, costs: Costs) -> Work | None:
    """Return the work of an op by its name and ``dims|types|parameters``; None where the shape does not say it."""
    dims, _, rest = detail.partition("|")
    shapes = [[int(size) for size in shape.split(":")] for shape in SHAPE.findall(dims)]
    parts = op.split("+")
    kind = GGML.get(parts[0], ELEMENTS)
    if kind == NOTHING:
        return Work()
    if not shapes or any(0 in shape for shape in shapes):
        return None
    out = math.prod(shapes[-1])
    try:
        if kind == MATRIX and len(shapes) >= 3:
            k, n = (*shapes[0], 1)[:2]
            weights = rest.split(" ", 1)[0].split("|", 1)[0]
            return costs.matmul(math.prod(shapes[1][1:]), k, n, weights or "f16").times(parts.count("MUL_MAT") or 1)
        if kind == ATTENTION and len(shapes) >= 3 and len(shapes[0]) >= 3 and len(shapes[1]) >= 3:
            (head, rows, heads), (_, context, kv_heads) = shapes[0][:3], shapes[1][:3]
            return costs.attention(rows, head, heads, kv_heads, context)
        if kind == COPY:
            return costs.copy(4 * out, 4 * out)
        if kind in RATE:
            inputs = max(1, len(shapes) - 1)
            return costs.rows(RATE[kind], out, min(inputs, 2), shapes[-1][0])
    except MachineFileError:
        return None  # the machine has no number for it
    return None


def _notes(count: Counter[str], trace: Trace, runs: int) -> tuple[str, ...]:
    said: Iterable[tuple[int, str]] = (
        (count["unnamed"], "ops do not name what they read and write: nothing is moved across them"),
        (count["hidden"], "inputs are of nobody who names them: taken to be further results of all earlier fused ops"),
        (count["black"], "ops have shapes that no rate is known for: taken to hold HVX for all of their time"),
        (count["vtcm"], "ops took more than half of the VTCM when they ran: a partner needs smaller chunks of them"),
    )
    notes = [f"{n:,} {text}" for n, text in said if n]
    if runs > 1:
        notes.append(f"{runs:,} runs follow each other; each was looked at alone")
    notes += [f"log: {finding.text}" for finding in trace.findings.warnings]
    return tuple(" ".join(note.split())[:300] for note in notes)


def totals_of(trace: Trace) -> tuple[list[tuple[str, int, int]], int]:
    """Return (op, count, nanoseconds) of a profile that holds sums only, and all nanoseconds that it states.

    Raises
    ------
    InvalidInputError
        It holds no times of ops.
    """
    rows = [(of.name, of.count, _total_ns(of.ns, of.ticks, trace)) for of in trace.totals if of.group == "op"]
    rows += [(event.name, 1, _ns(event, trace)) for event in trace if event.kind == "op"]
    rows = [(name, n, ns) for name, n, ns in rows if ns]
    if not rows:
        raise InvalidInputError("the profile has no times of ops; give a log of them, or ggml-hexagon's table per op")
    stated = int(trace.meta.get("total_us", "0")) * 1000
    return rows, max(stated, sum(ns for _, _, ns in rows))


def _total_ns(ns: int | None, ticks: int | None, trace: Trace) -> int:
    if ns is not None:
        return ns
    return 0 if not ticks or not trace.khz else ticks * 10**6 // trace.khz
