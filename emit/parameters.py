"""Tuned parameters as a C header to look them up in, and in words.

The table holds the best parameters for the loop of today: a host that fills ggml-hexagon's kernel parameters from it
needs no new code on the device.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from rich.text import Text

from hexloom.emit.ctext import CText, braced, comment, unsigned
from hexloom.emit.figures import short
from hexloom.hwmodels import format_bytes
from hexloom.optimizer.kernels.ggml_layout import vtcm_bytes
from hexloom.optimizer.tune.parameters import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.optimizer.tune.report import Measured, Tuned

HEADER = "hexloom_parameters.h"
WEIGHT_TYPES = ("q4_0", "q8_0", "f16")

LEVERS = {
    "existing": "ggml-hexagon's own chunks and loop",
    "chunks": "other chunks, today's loop",
    "load_parts": "each load over several queues",
    "slices": "slices instead of fork/join",
    "order": "another order of the same ops",
    "all": "all of it, chosen jointly",
}

OVERHEAD = "a fork/join and hand-over"

FIELDS = (
    "arch",
    "threads",
    "weight_type",
    "m_above",
    "m_most",
    "k",
    "n",
    "m_chunk",
    "n_chunk",
    "vtcm_bytes",
    "used_bytes",
)
"""Of a row, in the order of its values."""


def parameters_header(tuned: Sequence[Tuned]) -> str:
    """Return the header with a row per report: for its machine, type, k and n, and for all m up to its own.

    A smaller m than the tuned one takes fewer rows a chunk, and so fits where that fits. Reports of one machine, type,
    k and n share the rows of m among them.
    """
    out = CText()
    out(comment("Parameters of ggml-hexagon's 2-D matmul (HMX), chosen by hexloom for its own loop; C99 and C++."))
    out.open_guard("HEXLOOM_PARAMETERS_H")
    out("#include <stddef.h>", "#include <stdint.h>", "")
    for number, name in enumerate(WEIGHT_TYPES):
        out.define(f"HEXLOOM_WEIGHT_{name.upper()}", unsigned(number))
    out("", "/* Best for m_most rows, fits for m_above < m <= m_most: a chunk has at most m rows, rounded up to 32. */")
    out("typedef struct hexloom_parameters {", *(f"  uint32_t {field};" for field in FIELDS))
    out("} hexloom_parameters_t;", "")
    rows = [(report, above) for report, above in _buckets(tuned) if report.loop_parameters is not None]
    out(f"static const hexloom_parameters_t hexloom_parameters[{max(1, len(rows))}] = {{")
    for k, (report, above) in enumerate(rows):
        mark = "," if k + 1 < len(rows) else ""
        out(f"  {_row(report, above)}{mark} {comment(_remark(report))}")
    if not rows:
        out(f"  {braced(['0u'] * len(FIELDS))}")
    out("};", "")
    out(*_FIND.splitlines())
    out.close_guard("HEXLOOM_PARAMETERS_H")
    return str(out)


_FIND = """\
/* The row for a call, or NULL: then ask ggml's own solver. A row of more VTCM than there is does not fit. */
static inline const hexloom_parameters_t *hexloom_find_parameters(
    uint32_t arch, uint32_t threads, uint32_t weight_type, uint32_t m, uint32_t k, uint32_t n, uint32_t vtcm_bytes)
{
  size_t i;
  for (i = 0; i < sizeof hexloom_parameters / sizeof hexloom_parameters[0]; i++) {
    const hexloom_parameters_t *row = &hexloom_parameters[i];
    if (row->arch == arch && row->threads == threads && row->weight_type == weight_type && row->k == k &&
        row->n == n && row->m_above < m && m <= row->m_most && row->used_bytes <= vtcm_bytes) {
      return row;
    }
  }
  return NULL;
}"""


def _buckets(tuned: Sequence[Tuned]) -> list[tuple[Tuned, int]]:
    """Return each report with the m above which it is the one to take, in order of what they are looked up by."""
    found: list[tuple[Tuned, int]] = []
    for report in sorted(tuned, key=lambda r: (*_key(r), r.m)):
        same = found and _key(found[-1][0]) == _key(report)
        above = found[-1][0].m if same else 0
        if report.m > above:
            found.append((report, above))
    return found


def _key(report: Tuned) -> tuple[int, int, int, int, int]:
    threads = report.parameters.threads
    return report.arch, threads, WEIGHT_TYPES.index(report.weight_type), report.k, report.n


def _row(report: Tuned, above: int) -> str:
    chosen = report.loop_parameters
    assert chosen is not None
    used = vtcm_bytes(chosen.m_chunk, chosen.n_chunk, report.k, report.weight_type, chosen.threads)
    arch, threads, weight_type, k, n = _key(report)
    key = (arch, threads, weight_type, above, report.m, k, n)
    return braced([unsigned(value) for value in (*key, chosen.m_chunk, chosen.n_chunk, report.vtcm_bytes, used)])


def _remark(report: Tuned) -> str:
    existing = "does not fit" if report.existing_us is None else f"{report.existing_us:.0f} us"
    return f"{report.machine}: {report.loop_us:.0f} us, ggml's own choice {existing}"


def tune_summary(report: Tuned) -> Text:
    """Return what a kernel engineer reads: a line per lever, the range, the choice, and what was not looked at."""
    shape = f"{report.kernel} {report.m} x {report.k} x {report.n} {report.weight_type}"
    where = f"{report.machine}, {report.parameters.threads} threads"
    lines = [Text(f"{shape} on {where}, at {_plain(report.overhead_us)} us {OVERHEAD}", style="bold")]
    cells = [
        (
            LEVERS[row.lever],
            f"{_plain(row.makespan_us)} us",
            "" if row.saved_us is None or row.lever == "existing" else f"saves {_plain(row.saved_us)} us",
            in_words(row.parameters),
        )
        for row in report.rows
    ]
    if report.measured is not None:
        cells.insert(0, _measured(report, report.measured))
    bound = f"gap {report.gap:.1%} over all choices, bound by {report.bound_by}"
    cells.append(("lower bound", f"{_plain(report.lower_bound_us)} us", "", bound))
    for at in report.range:
        existing = "" if at.existing_us is None else f"existing {_plain(at.existing_us)} us"
        cells.append((f"at {_plain(at.overhead_us)} us {OVERHEAD}", f"{_plain(at.makespan_us)} us", "", existing))
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    lines += [
        Text(f"{what.ljust(widths[0])}  {time.rjust(widths[1])}  {saved.rjust(widths[2])}  {more}".rstrip())
        for what, time, saved, more in cells
    ]
    counts = report.counts
    room = f"{counts.choices:,} fit in {format_bytes(report.vtcm_bytes)}, {counts.too_large:,} pairs of chunks do not"
    left_out = ((counts.too_small, "are too small"), (counts.alike, "are like a more even one"))
    room += "".join(f", {count:,} {what}" for count, what in left_out if count)
    seen = f"{counts.excluded:,} excluded by arithmetic, {counts.solved:,} solved, {counts.open:,} open"
    lines.append(Text(f"choices: {room}; {seen}; {counts.simulated:,} loops simulated", style="dim"))
    lines += [Text(f"note: {note}", style="yellow") for note in report.notes]
    return Text("\n").join(lines)


def _measured(report: Tuned, measured: Measured) -> tuple[str, str, str, str]:
    """Return the cells of what a log says, beside what is predicted for the same."""
    runs = f"{measured.runs:,} runs" if measured.runs > 1 else "1 run"
    beside = ""
    if report.existing_us is not None:
        beside = f"predicted {_plain(report.existing_us)} us ({report.existing_us / measured.median_us - 1:+.1%})"
    chunks = "" if measured.chunks_known else "; its chunks are not told, taken are the parameter solver's"
    return "measured, in the log", f"{_plain(measured.median_us)} us", "", f"median of {runs}; {beside}{chunks}"


def _plain(us: float) -> str:
    return short(Fraction(us).limit_denominator(10**6))
