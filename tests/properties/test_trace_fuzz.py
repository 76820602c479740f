"""Damaged traces: a clear error in one line, or what is there, with numbers that hold together.

``HEXLOOM_FUZZ`` sets how many files each importer gets; a quarter of them are also given without saying their format.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, cast

import pytest
from damage import damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traces import TEXTS

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.optimizer.traces.importer import Format
    from hexloom.optimizer.traces.trace import Trace

JSON = [form for form, text in TEXTS.items() if text[0] == "{" or text[:2] == "[\n"]

FILES = int(os.environ.get("HEXLOOM_FUZZ", "100"))
SLOWEST_S = 5.0


def holds_together(trace: Trace) -> None:
    """Check what must hold of any trace, whatever file it came from."""
    summary = summarize(trace)
    for event in trace:
        assert event.ticks >= 0
        assert event.start is None or isinstance(event.start, int)
        assert -1 <= event.op < len(trace)
        if event.op >= 0:
            assert trace[event.op].kind == "op"
            assert trace[event.op].batch == event.batch
    for row in summary.engines:
        assert 0 <= row.busy_ticks <= row.total_ticks
        assert row.busy_ticks <= summary.span_ticks
    for op in summary.ops:
        assert all(0 <= row.busy_ticks <= max(op.span_ticks, 0) for row in op.engines)
        assert 0 <= op.idle_ticks <= op.span_ticks
    for pair in summary.overlaps:
        assert 0 <= pair.ticks <= summary.span_ticks
    assert all("\n" not in finding.text for finding in (*summary.warnings, *summary.notes))
    assert all(edge.before < len(trace) and edge.after < len(trace) for edge in trace.edges)


@pytest.mark.parametrize("form", TEXTS)
@settings(max_examples=FILES, suppress_health_check=[*HealthCheck], deadline=None)
@given(seed=st.integers(0, 2**40), steps=st.integers(1, 6))
def test_a_damaged_file_is_told_or_read(
    form: str, tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"damaged-{form}"
    path.write_bytes(damaged(TEXTS[form], seed, steps))
    began = time.process_time()
    read_or_told(path, cast("Format", form), partial=seed % 3 == 0)
    if seed % 4 == 0:
        read_or_told(path, None, partial=False)
    assert time.process_time() - began < SLOWEST_S


def read_or_told(path: Path, form: Format | None, *, partial: bool) -> None:
    try:
        trace = read_trace(path, form, partial=partial)
    except InvalidInputError as error:
        said = str(error)
    else:
        holds_together(trace)
        return
    assert "\n" not in said
    assert 20 < len(said) < 600, said


@pytest.mark.parametrize("form", TEXTS)
def test_what_is_whole_has_no_warning(form: str, tmp_path: Path) -> None:
    """The files that are damaged above are whole: of all that is said of them nothing is a fault."""
    path = tmp_path / "whole"
    path.write_bytes(TEXTS[form].encode())
    for stated in (cast("Format", form), None):
        trace = read_trace(path, stated)
        assert [f.text for f in trace.findings.warnings if f.code != "clock"] == []
        holds_together(trace)


@pytest.mark.parametrize("form", JSON)
def test_every_prefix_of_json_gives_a_part_or_an_error(form: str, tmp_path: Path) -> None:
    """A cut file never says more than the whole one."""
    path = tmp_path / "cut"
    text = TEXTS[form]
    path.write_text(text)
    whole = {(e.name, e.start, e.ticks) for e in read_trace(path)}
    for cut in range(1, len(text), 23):
        path.write_text(text[:cut])
        try:
            trace = read_trace(path, cast("Format", form), partial=True)
        except InvalidInputError:
            continue
        assert {(e.name, e.start, e.ticks) for e in trace} <= whole
        assert trace.findings.warnings or len(trace) == len(whole) or form == "chrome"


@pytest.mark.parametrize("form", [form for form in TEXTS if form not in JSON])
def test_the_first_lines_of_a_text_say_no_more_than_all(form: str, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    lines = TEXTS[form].splitlines(keepends=True)
    path.write_text("".join(lines))
    whole = {(e.name, e.start, e.ticks) for e in read_trace(path)}
    found = 0
    for count in range(1, len(lines)):
        path.write_text("".join(lines[:count]))
        try:
            trace = read_trace(path, cast("Format", form))
        except InvalidInputError:
            continue
        assert {(e.name, e.start, e.ticks) for e in trace} <= whole
        found += len(trace)
    assert found or not whole
