"""The tables of a schedule as C, its side-car for tools, and a program that checks them.

The same schedule gives the same bytes; nothing of the machine that wrote them is in them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hexloom.emit.ctext import EXTERNAL, INTERNAL, CText, Names, braced, comment, identifier, unsigned
from hexloom.emit.descriptors import with_descriptors
from hexloom.emit.looped import make_looped_tables
from hexloom.emit.records import (
    ABI_MAJOR,
    ABI_MINOR,
    HEADER,
    LAPS,
    NONE,
    RUN,
    START,
    STRIDE,
    TAIL_COLUMNS,
    TAIL_ROWS,
    TASK,
    TRIPS,
)
from hexloom.emit.tables import make_tables
from hexloom.optimizer.periodic.schedule import PeriodicSchedule

if TYPE_CHECKING:
    from hexloom.emit.records import Record
    from hexloom.emit.rows import Await, Parameter, Tables
    from hexloom.optimizer.schedule import Schedule

SHARED_HEADERS = ("hexloom_tables.h", "hexloom_layout.h")
SELFTEST_HEADERS = (
    "hexloom_selftest.h",
    *(f"hexloom_selftest_{part}.h" for part in ("base", "memory", "tasks", "run")),
)
"""The first one is what others include."""

INSIDE = frozenset({"loops", "bodies", "parameters", "descriptors", "advances"})
"""Tables that not every schedule has; nobody but the view names them."""

LONGEST_STEM = EXTERNAL - len("_operands")
QUEUE_KINDS = {1: "hmx", 2: "hvx", 4: "other", 5: "detached"}
PARAMETER_KINDS = {LAPS: "laps", TRIPS: "trips", STRIDE: "stride", TAIL_ROWS: "tail_rows", TAIL_COLUMNS: "tail_columns"}
TASK_KINDS = {1: "hmx", 2: "hvx", 3: "dma", 4: "other"}


def stem_of(name: str) -> str:
    """Return the prefix of files and C names for a schedule of this name: an identifier of at most 22 characters."""
    return identifier(name, LONGEST_STEM)


def tables_of(source: Schedule | PeriodicSchedule, *, descriptors: bool = False) -> Tables:
    """Return the tables of a checked schedule, with loops if it is periodic; with ``descriptors`` of what ops move."""
    if isinstance(source, PeriodicSchedule):
        return make_looped_tables(source, descriptors=descriptors)
    tables = make_tables(source)
    return with_descriptors(tables, source.problem) if descriptors else tables


class CTables:
    """Everything that is emitted for one schedule; ``stem`` is what files and C names begin with.

    Of a periodic schedule ``schedule`` is what is written down of it.
    """

    def __init__(self, source: Schedule | PeriodicSchedule, stem: str, *, descriptors: bool = False) -> None:
        self.origin = source
        self.schedule = source.written if isinstance(source, PeriodicSchedule) else source
        self.tables = tables_of(source, descriptors=descriptors)
        self.stem = stem_of(stem)
        self.macro = self.stem.upper()

    def header(self) -> str:
        """Return the header: sizes, what must hold at compile time, numbers of stages and queues, declarations."""
        out = self._banner()
        tables, macro = self.tables, self.macro
        head = tables.header
        out.open_guard(f"HEXLOOM_{macro}_H", SHARED_HEADERS[:1])
        for name, value in (("TARGET_ARCH", head.target_arch), ("CRC32", head.crc32)):
            out.define(f"{macro}_{name}", unsigned(value))
        available = self.schedule.problem.scratchpad.available_bytes
        out.define(f"{macro}_SCHEDULE_HASH", f"UINT64_C(0x{head.schedule_hash:016x})")
        out.define(f"{macro}_VTCM_BYTES", unsigned(head.vtcm_bytes, 64))
        out.define(f"{macro}_VTCM_AVAILABLE_BYTES", unsigned(available, 64))
        for plural, _, rows in tables.parts:
            out.define(f"{macro}_{plural.upper()}", unsigned(len(rows)))
        out("", "/* stages: which kernel a task runs */")
        names = Names(INTERNAL)
        for k, (task, stage) in enumerate(tables.stages):
            out.define(names(f"{macro}_STAGE_{task}_{stage}").upper(), unsigned(k))
        out("", "/* queues: one per thread */")
        for k, queue in enumerate(tables.queues):
            engine = "detached" if queue.engine >= len(tables.engines) else tables.engines[queue.engine]
            out.define(names(f"{macro}_QUEUE_{engine}_{queue.unit}").upper(), unsigned(k))
        out("", f"extern const hexloom_header {self.stem}_header;")
        for plural, record, rows in tables.parts:
            if plural in INSIDE:
                continue
            placed = f" HEXLOOM_ALIGNED({TASK.size_bytes}u)" if record is TASK else ""
            out(f"extern const hexloom_{record.name} {self.stem}_{plural}[{max(1, len(rows))}]{placed};")
        out("", "/* Let a view point to the tables. */", f"void {self.stem}_view(hexloom_view *view);", "")
        lines = {
            "abi": f"HEXLOOM_ABI_MAJOR == {ABI_MAJOR}u && HEXLOOM_ABI_MINOR >= {ABI_MINOR}u",
            "vtcm": f"{macro}_VTCM_BYTES <= {macro}_VTCM_AVAILABLE_BYTES",
        }
        out(*(f"HEXLOOM_STATIC_CHECK({self.stem}_{name}, {condition});" for name, condition in lines.items()))
        out.close_guard(f"HEXLOOM_{macro}_H")
        return str(out)

    def source(self) -> str:
        """Return the tables."""
        out = self._banner()
        out(f'#include "{self.stem}.h"', "")
        out(f"const hexloom_header {self.stem}_header = {HEADER.initialiser(self.tables.header)};", "")
        for plural, record, rows in self.tables.parts:
            if plural in INSIDE and not rows:
                continue
            remarks = [self.schedule.problem.ops[t.op].name for t in self.tables.tasks] if plural == "tasks" else []
            out(comment(", ".join(name for name, _, _ in record.fields)))
            literal = [record.initialiser(row) for row in rows]
            kind = f"hexloom_{record.name}"
            out.table(kind, f"{self.stem}_{plural}", literal, _zero(record), remarks, is_static=plural in INSIDE)
        out(f"void {self.stem}_view(hexloom_view *view) {{", f"  view->header = &{self.stem}_header;")
        for plural, _, rows in self.tables.parts:
            out(f"  view->{plural} = {'NULL' if plural in INSIDE and not rows else f'{self.stem}_{plural}'};")
        out("}")
        return str(out)

    def selftest(self) -> str:
        """Return a program that checks the tables, prints one line, and returns 0 when nothing is wrong, else 1."""
        stem = self.stem
        out = self._banner()
        out(
            "#include <stdio.h>", "#include <stdlib.h>", "", f'#include "{stem}.h"', f'#include "{SELFTEST_HEADERS[0]}"'
        )
        out("", "int main(void) {", "  hexloom_view view;", "  hexloom_verdict verdict;", "  uint32_t *memory;")
        out("  size_t words;", f"  {stem}_view(&view);", "  words = hexloom_selftest_words(view.header);")
        out("  memory = (uint32_t *)malloc(sizeof(uint32_t) * (words + 1u));", "  if (memory == NULL) {")
        out(f'    printf("{stem}: FAILED: out of memory\\n");', "    return 1;", "  }")
        out("  verdict = hexloom_selftest(&view, memory);", "  free(memory);", "  if (verdict.problem != NULL) {")
        out(f'    printf("{stem}: FAILED: %s (%lu)\\n", verdict.problem, (unsigned long)verdict.where);')
        out("    return 1;", "  }")
        counts = ", ".join(f"{len(rows)} {plural}" for plural, _, rows in self.tables.parts)
        out(f'  printf("{stem}: ok, {counts}\\n");', "  return 0;", "}")
        return str(out)

    def dependencies(self, source: str = "schedule.json") -> str:
        """Return rules for make, with file names relative to their folder: what to remake when what changes."""
        stem = self.stem
        escaped = source.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ").replace("\n", "\\ ")
        shared = " ".join(SHARED_HEADERS)
        files = " ".join(f"{stem}{end}" for end in (".h", ".c", ".json", "_selftest.c"))
        return (
            f"{files}: {escaped}\n"
            f"{stem}.o: {stem}.c {stem}.h {shared}\n"
            f"{stem}_selftest.o: {stem}_selftest.c {stem}.h {shared} {' '.join(SELFTEST_HEADERS)}\n"
        )

    def side_car(self) -> str:
        """Return JSON for tools: the names behind the numbers, and the predicted times in ticks."""
        schedule, tables = self.schedule, self.tables
        ops, source = schedule.problem.ops, self.origin
        known = {b.name: b for b in (*schedule.problem.buffers, *(b for b, _ in schedule.problem.buffers_as_one))}
        buffers = [known[name] for name in tables.buffer_names]
        rows = {row.op: row for row in schedule.rows}
        waits: list[dict[Await, None]] = [{} for _ in tables.tasks]
        for entry, awaited in zip(tables.entries, tables.waits, strict=True):
            if entry.action in (RUN, START):
                waits[entry.task] |= dict.fromkeys(awaited)
        producers: list[list[int]] = [[] for _ in tables.events]
        waiters: list[list[int]] = [[] for _ in tables.events]
        for k, task in enumerate(tables.tasks):
            if task.trigger_event != NONE:
                producers[task.trigger_event].append(k)
            for wait in waits[k]:
                waiters[wait.event].append(k)
        times = source.model_dump(mode="json", include={"makespan", "lower_bound"})
        data: dict[str, Any] = {
            "schema": "hexloom.tables/1",
            "stem": self.stem,
            "name": source.name,
            "tool": source.tool,
            "machine": source.machine,
            "abi": [ABI_MAJOR, ABI_MINOR],
            "schedule_hash": f"{tables.header.schedule_hash:016x}",
            "crc32": f"{tables.header.crc32:08x}",
            "tick_us": schedule.problem.tick_us,
            "makespan_ticks": times["makespan"],
            "lower_bound_ticks": times["lower_bound"],
            **({} if isinstance(source, PeriodicSchedule) else {"status": source.status}),
            "groups": list(tables.groups),
            "stages": [{"group": group, "stage": stage} for group, stage in tables.stages],
            "engines": list(tables.engines),
            "queues": [
                {
                    "engine": tables.engines[q.engine] if q.engine < len(tables.engines) else None,
                    "unit": q.unit,
                    "kind": QUEUE_KINDS[q.kind],
                    "entries": q.entry_count,
                }
                for q in tables.queues
            ],
            "tasks": [
                {
                    "op": ops[task.op].name,
                    "kind": TASK_KINDS[task.kind],
                    "group": task.group,
                    "stage": task.stage,
                    "tile": task.tile,
                    "slices": task.slice_count,
                    "waits": [asdict(wait) for wait in waits[k]],
                    "trigger_event": None if task.trigger_event == NONE else task.trigger_event,
                    "predicted_ticks": rows[ops[task.op].name].model_dump(mode="json", exclude={"op"}),
                }
                for k, task in enumerate(tables.tasks)
            ],
            "events": [
                {"triggers": e.triggers, "producers": producers[k], "waiters": waiters[k]}
                for k, e in enumerate(tables.events)
            ],
            "buffers": [
                {"name": b.name, "offset": row.offset, "size_bytes": b.size_bytes, "occupied_bytes": row.bytes}
                | ({} if b.part_of is None else {"part_of": b.part_of})
                for b, row in zip(buffers, tables.buffers, strict=True)
            ],
            "markers": [ops[i].name for i in tables.markers],
            "marker_ops": list(tables.markers),
            "plan": self._plan(),
        }
        if tables.tensors:
            data["tensors"] = list(tables.tensors)
        if tables.parameters:
            data["parameters"] = [self._parameter(p) for p in tables.parameters]
        if tables.loops:
            data["loops"] = [self._loop(k) for k in range(len(tables.loops))]
        return json.dumps(data, indent=1) + "\n"

    def _plan(self) -> dict[str, Any]:
        """Return what the plan says beside the tables: modes of markers, units that are no threads, and waits by op."""
        plan, problem = self.schedule.plan, self.schedule.problem
        resources = {engine.name for engine in problem.engines if engine.kind == "resource"}
        markers = {problem.ops[i].name for i in self.tables.markers}
        held = {a.op: {e: ids for e, ids in a.units.items() if e in resources} for a in plan.assignments}
        return {
            "marker_modes": {a.op: a.mode for a in plan.assignments if a.op in markers},
            "units": {op: {engine: list(ids) for engine, ids in units.items()} for op, units in held.items() if units},
            "waits": [[wait.before, wait.after] for wait in plan.waits],
        }

    def _loop(self, number: int) -> dict[str, Any]:
        """Return what a loop is: its laps, and how many iterations of each task one has."""
        tables = self.tables
        loop, groups = tables.loops[number], tables.groups
        parameter = tables.parameters[loop.parameter]
        advances = tables.advances[number * len(groups) : (number + 1) * len(groups)]
        return {
            "laps": {name: getattr(parameter, name) for name in ("least", "most", "step", "usual")},
            "iterations": {group: a.iterations for group, a in zip(groups, advances, strict=True) if a.iterations},
            "first_task": loop.first_task,
            "tasks": loop.task_count,
        }

    def _parameter(self, parameter: Parameter) -> dict[str, Any]:
        """Return what a parameter is about, and the range that the plan is proven for."""
        kind = PARAMETER_KINDS[parameter.kind]
        about: str | int = parameter.where
        if parameter.kind == STRIDE:
            about = self.tables.tensors[parameter.where - (len(self.tables.bindings) - len(self.tables.tensors))]
        elif parameter.kind != LAPS:
            about = self.tables.groups[parameter.where]
        return {"kind": kind, "of": about} | {
            name: getattr(parameter, name) for name in ("least", "most", "step", "usual")
        }

    def _trips(self) -> str:
        """Return for how many iterations of each task the times are."""
        trips: dict[str, int] = self.origin.trips if isinstance(self.origin, PeriodicSchedule) else {}
        return " and ".join(f"{count} iterations of {task}" for task, count in trips.items())

    def _banner(self) -> CText:
        schedule, head = self.origin, self.tables.header
        out = CText()
        machine = schedule.machine or "no named machine"
        out(comment(f"Generated by {schedule.tool} from {schedule.name} for {machine}. Do not edit."))
        digests = {"workload": schedule.workload_digest, "machine": schedule.machine_digest}
        hashes = ", ".join(f"{what} {digest}" for what, digest in digests.items() if digest)
        out(comment(f"Schedule {head.schedule_hash:016x}" + (f", {hashes}" if hashes else "")))
        times = ", ".join(
            f"{what} {float(schedule.us(ticks)):.6f}".rstrip("0").rstrip(".") + f" {self.schedule.unit}"
            for what, ticks in (("makespan", schedule.makespan), ("lower bound", schedule.lower_bound))
        )
        told = schedule.status if not isinstance(schedule, PeriodicSchedule) else self._trips()
        out(comment(f"Predicted {times}, {told}"), "")
        return out


def _zero(record: Record) -> str:
    return braced([unsigned(0, bits)] * count if count > 1 else unsigned(0, bits) for _, bits, count in record.fields)


def c_header(schedule: Schedule | PeriodicSchedule, stem: str) -> str:
    """Return ``<stem>.h``."""
    return CTables(schedule, stem).header()


def c_source(schedule: Schedule | PeriodicSchedule, stem: str) -> str:
    """Return ``<stem>.c``."""
    return CTables(schedule, stem).source()


def side_car(schedule: Schedule | PeriodicSchedule, stem: str) -> str:
    """Return ``<stem>.json``."""
    return CTables(schedule, stem).side_car()
