"""Cases about speed, asked by studies: what a sweep, the parts of a gain and a profile say of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from cases.neutral import to_problem

from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use
from hexloom.hwmodels import load_hw
from hexloom.optimizer.opportunities.from_log import graph_of_log
from hexloom.optimizer.study.study import study
from hexloom.optimizer.study.sweep import sweep
from hexloom.optimizer.traces.importer import read_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared


def test_perf_04_no_number_of_contexts_changes_decode(case: Case, tmp_path: Path) -> None:
    problem = to_problem(case("PERF-04"))
    found = sweep(problem, None, ["engines.hvx.units=1,2,4"], tmp_path, time_limit_s=0.2, workers=1)
    assert [row["plan"] for row in found.rows] == [317.696] * 3
    assert [row["lower_bound"] for row in found.rows] == [317.696] * 3
    assert {row["status"] for row in found.rows} == {"OPTIMAL"}


def test_perf_09_what_one_entry_saves_is_told_apart_from_overlap(case: Case) -> None:
    """A chain has nothing to overlap: all that one entry for ten dispatches saves are nine entries."""
    data = case("PERF-09")
    entry, ticks = data["machine"]["dispatch_overhead"], data["chain"]["dur"]
    mode = Mode(uses=(Use(engine="dsp", ticks=ticks),), latency_ticks=ticks)
    names = [f"g{k}" for k in range(10)]
    problem = Problem(
        engines=(Engine(name="dsp"),),
        ops=tuple(Op(name=name, task=name, modes=(mode,)) for name in names),
        precedences=tuple(Precedence(before=a, after=b) for a, b in pairwise(names)),
        entry_ticks=entry,
    )
    found = study(problem, time_limit_s=0.1, seed=1)
    assert found.makespan("existing") == 10 * (entry + ticks)
    for name in ("concurrent", "fused_serial", "plan"):
        group = found.group(name)  # type: ignore[arg-type]
        assert group.makespan == entry + 10 * ticks
        assert group.gain is not None
        assert group.gain.saved_entries == group.gain.total == 9 * entry


def test_perf_03_the_profile_says_that_the_vector_unit_is_the_limit(case: Case, shared_traces: Path) -> None:
    """At 26 GB/s the weights take 686 of 4,957 us: the op holds HVX, and neither DDR nor HMX."""
    data = case("PERF-03")
    machine = load_hw("hexagon-v79")
    slow = machine.with_values({"ddr.total_gb_s": Fraction(data["machine"]["ddr_bytes_per_us"], 1000)})
    graph = graph_of_log(read_trace(shared_traces / "ggml_hexagon_v0_profile_8elite.log"), slow, "q8_0")
    last = graph.nodes[-1]
    assert last.ns == pytest.approx(data["measured"]["usec"] * 1000, rel=0.01)
    assert last.resource == "hvx"
    hmx, hvx, ddr = last.needs
    assert hmx == 0 and hvx > 2 * ddr
