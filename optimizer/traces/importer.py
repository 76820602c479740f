"""Which format a file has, and its trace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.chrome import ChromeReader
from hexloom.optimizer.traces.findings import Findings
from hexloom.optimizer.traces.ggml import GgmlReader
from hexloom.optimizer.traces.ggml_tables import OP_HEAD, OP_LINE, TITLE, read_summary, read_table
from hexloom.optimizer.traces.lwp import read_lwp
from hexloom.optimizer.traces.optrace import OptraceReader
from hexloom.optimizer.traces.own_timeline import RunReader, TimelineReader
from hexloom.optimizer.traces.qhas import read_qhas
from hexloom.optimizer.traces.qnn_text import read_csv, read_events
from hexloom.optimizer.traces.records import SCHEMA, read_records
from hexloom.optimizer.traces.runtrace import RuntraceReader
from hexloom.optimizer.traces.source import Source
from hexloom.optimizer.traces.units import MICROSECONDS, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexloom.optimizer.traces.trace import Trace

Format = Literal[
    "ggml", "ggml-table", "ggml-summary", "qnn-optrace", "qnn-runtrace", "qhas", "qnn-csv", "qnn-events", "lwp",
    "chrome", "timeline", "records", "run-chrome",
]  # fmt: skip

HEAD = 1 << 16
"""Characters of a JSON file from which its format is told."""

JSON_SIGNS: tuple[tuple[Format, re.Pattern[str]], ...] = (
    ("records", re.compile(r'^\s*\{\s*"schema"\s*:\s*"' + re.escape(SCHEMA))),
    ("run-chrome", re.compile(r'"otherData"\s*:\s*\{\s*"schema"\s*:\s*"' + re.escape(SCHEMA))),
    ("timeline", re.compile(r'"schema"\s*:\s*"hexloom\.timeline/1"')),
    ("qnn-optrace", re.compile(r'"artifact_type"\s*:\s*"OP_TRACE"')),
    ("qnn-runtrace", re.compile(r'"artifact_type"\s*:\s*"RUN_TRACE"')),
    ("qhas", re.compile(r'"artifact_type"\s*:\s*"QHAS"|"htp_overall_summary"')),
    ("qnn-runtrace", re.compile(r'"stat_start_ticks"')),
    ("qnn-optrace", re.compile(r'"Start Cycle"|"HTP Op Type"')),
    ("lwp", re.compile(r'^\s*\{\s*"entries"\s*:')),
    ("chrome", re.compile(r'"traceEvents"|"ph"\s*:|^\s*\[\s*([{\]]|$)')),
    ("lwp", re.compile(r'"entries"\s*:\s*\[\s*\{\s*"(?:id|cyc)"')),
)
LINE_SIGNS: tuple[tuple[Format, re.Pattern[str]], ...] = (
    ("ggml", re.compile(r"ggml-hex: ")),
    ("qnn-events", re.compile(r"\[profiler\]\[.*event\[\d")),
    ("qnn-csv", re.compile(r'^"?Msg Timestamp"?,', re.IGNORECASE)),
    ("ggml-table", TITLE),
    ("ggml-table", OP_HEAD),
    ("ggml-summary", OP_LINE),
)
KNOWN = "ggml-hexagon log, QNN optrace, runtrace, QHAS, QNN CSV or event log, light-weight profile, or Chrome trace"


def read_trace(
    path: str | Path,
    form: Format | None = None,
    *,
    unit: str | None = None,
    partial: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Return the trace of a file, whatever its format.

    Parameters
    ----------
    path
        The file, plain or gzip; "-" is standard input.
    form
        Its format; None to tell it from the file.
    unit
        What ``ts`` and ``dur`` of a Chrome trace count: us, ns, cycles, cycles@MHZ or ticks19.2. Other formats say it.
    partial
        Whether a JSON object that ends in the middle gives what it holds, with a warning, instead of an error.
    on_progress
        Called with bytes read and bytes in all.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, is no trace, or is damaged so that what it says cannot be told.
    """
    if form is not None and form not in get_args(Format):
        raise InvalidInputError(f"--format {form!r}: known are {', '.join(get_args(Format))}")
    source = Source(path, on_progress)
    try:
        form = form or format_of(source)
        if unit is not None and form != "chrome":
            raise InvalidInputError(f"--unit {unit}: a trace of format {form} says its units; drop --unit")
        trace = _read(source, form, unit, Findings(), partial=partial)
        if source.was_cut:
            trace.findings.add("incomplete", "the packed file ends too early")
        if not len(trace) and not trace.totals:
            trace.findings.add("incomplete", "no event in the file")
        return trace
    finally:
        source.close()


def _read(source: Source, form: Format, unit: str | None, findings: Findings, *, partial: bool) -> Trace:
    if form == "chrome":
        return ChromeReader(source, findings, unit_of(unit) if unit else MICROSECONDS, partial=partial).read()
    if form == "ggml":
        return GgmlReader(source, findings).read()
    readers: dict[str, type[ChromeReader]] = {"timeline": TimelineReader, "run-chrome": RunReader}
    readers |= {"qnn-runtrace": RuntraceReader, "qnn-optrace": OptraceReader}
    if form in readers:
        return readers[form](source, findings, partial=partial).read()
    if form == "lwp":
        return read_lwp(source, findings, partial=partial)
    if form == "records":
        return read_records(source, findings, partial=partial)
    texts = {
        "qhas": read_qhas,
        "qnn-csv": read_csv,
        "qnn-events": read_events,
        "ggml-table": read_table,
        "ggml-summary": read_summary,
    }
    return texts[form](source, findings)


def format_of(source: Source) -> Format:
    """Return the format of a file.

    Raises
    ------
    InvalidInputError
        If it is none that is known.
    """
    head = ""
    for piece in source.text():
        head += piece
        if len(head) >= HEAD:
            break
    head = head[:HEAD]
    start = head.lstrip()
    if not start:
        raise InvalidInputError(f"{source.name}: the file is empty; give a {KNOWN}")
    if start[0] == "{" or re.match(r"\[\s*([{\]]|$)", start):
        found = next((form for form, sign in JSON_SIGNS if sign.search(head)), None)
        if found is not None:
            return found
        other = re.match(r'\{\s*"schema"\s*:\s*"(hexloom\.[\w./-]{1,40})"', start)
        if other is not None:
            raise InvalidInputError(f"{source.name}: this is a file of {other[1]}, not a trace; give the trace last")
        if start[0] == "{":
            raise InvalidInputError(f"{source.name}: a JSON object of no known format; give a {KNOWN}")
    for line in source.lines():
        found = next((form for form, sign in LINE_SIGNS if sign.search(line)), None)
        if found is not None:
            return found
    raise InvalidInputError(f"{source.name}: no known trace format; give a {KNOWN}, or name it with --format")
