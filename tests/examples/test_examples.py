"""Every example solved with a seed: checked, between its bounds and baselines, and with the numbers it promises.

Those numbers stand beside each example in ``expected.json``; the comments in the workloads say what they come from.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hexloom import Workload, check_schedule, load_hw, solve
from hexloom.emit.summary import busy_fractions
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.contention import contention_of
from hexloom.optimizer.lower import lower

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom import Result, Schedule

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FLAGSHIP = "llama_matmul_and_norm/workload.yaml"
PAIR = "ffn_and_norm/workload.yaml"
SIX = "ffn_and_norm/x6.yaml"
DECODE = "prefill_and_decode/workload.yaml"
EXPERTS = "moe_experts/workload.yaml"
SEED = 1

every_example = pytest.mark.parametrize(
    "name", [FLAGSHIP, PAIR, SIX, *(pytest.param(name, marks=pytest.mark.slow) for name in (DECODE, EXPERTS))]
)


def expected(name: str) -> dict[str, Any]:
    path = EXAMPLES / name
    found: dict[str, Any] = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.name]
    return found


@functools.cache  # the tests of one session share four solves
def solved(name: str) -> Result:
    return solve(Workload.load(EXAMPLES / name), seed=SEED, time_limit_s=expected(name)["time_limit_s"])


def schedule_of(name: str) -> Schedule:
    schedule = solved(name).schedule
    assert schedule is not None
    return schedule


def us(name: str, ticks: int | None) -> Fraction:
    assert ticks is not None
    return schedule_of(name).us(ticks)


def test_no_example_is_left_out() -> None:
    found = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*.yaml")}
    # See test_pipeline_examples.py, test_loop_examples.py, test_joint_example.py and test_cli_qos.py.
    others = ("attention_pipeline/", "million_tiles/", "joint_choice/", "qos_stream/")
    elsewhere = {name for name in found if name.startswith(others)}
    assert found - elsewhere == {FLAGSHIP, PAIR, SIX, DECODE, EXPERTS}
    for path in EXAMPLES.glob("*/"):
        assert (path / "README.md").is_file()


@every_example
def test_the_schedule_passes_the_checker(name: str) -> None:
    assert check_schedule(schedule_of(name)) == []


@every_example
def test_the_makespan_lies_between_bounds_and_baselines(name: str) -> None:
    schedule = schedule_of(name)
    assert schedule.bounds and schedule.baselines
    assert schedule.certificate in ("arithmetic", "dual")
    assert all(bound.ticks <= schedule.makespan for bound in schedule.bounds)
    assert all(ticks is not None and schedule.makespan <= ticks for ticks in schedule.baselines.values())
    assert schedule.lower_bound == max(bound.ticks for bound in schedule.bounds)


@every_example
def test_the_five_parts_of_the_gain_add_up(name: str) -> None:
    schedule = schedule_of(name)
    gain = schedule.gain
    assert gain is not None
    overlap = gain.overlap_within_tasks + gain.overlap_between_tasks
    assert gain.saved_entries + overlap - gain.contention_cost - gain.tail == gain.existing - schedule.makespan
    assert gain.existing == schedule.baselines["existing"]


@every_example
def test_the_promised_numbers(name: str) -> None:
    promised, result = expected(name), solved(name)
    assert result.schedule is not None and result.schedule.advice is not None
    assert float(us(name, result.schedule.baselines["existing"])) == pytest.approx(promised["existing_us"], abs=0.001)
    assert result.lower_bound_us is not None and result.makespan_us is not None
    assert float(result.lower_bound_us) == pytest.approx(promised["lower_bound_us"], abs=0.001)
    assert result.makespan_us <= promised["makespan_us_at_most"]
    assert result.bottleneck == promised["bottleneck"]
    assert result.schedule.advice.answer == promised["advice"]
    assert result.schedule.advice.flips == tuple(promised["flips"])


@pytest.mark.parametrize("name", [pytest.param(FLAGSHIP, marks=pytest.mark.slow), PAIR])
def test_the_same_seed_gives_the_same_bytes_in_every_process(name: str) -> None:
    code = (
        "import sys; from hexloom import Workload, solve; "
        "result = solve(Workload.load(sys.argv[1]), seed=int(sys.argv[2]), time_limit_s=float(sys.argv[3])); "
        "sys.stdout.write(result.schedule.to_json())"
    )
    limit = min(0.3, expected(name)["time_limit_s"])
    digests = set()
    for hash_seed in ("0", "4242"):
        command = [sys.executable, "-c", code, str(EXAMPLES / name), str(SEED), str(limit)]
        ran = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, check=True)
        digests.add(hashlib.sha256(ran.stdout).hexdigest())
    assert len(digests) == 1


# --- what each of them shows ----------------------------------------------------------------------------


def test_flagship_the_matmul_of_today_takes_what_was_published() -> None:
    """891 us for q4_0 742 x 2048 x 6144 (llama.cpp PR 26501)."""
    whole = Workload.load(EXAMPLES / FLAGSHIP)
    matmul = whole.model_copy(update={"tasks": whole.tasks[:1]})
    lowered = lower(matmul, load_hw("hexagon-v81"), "fluid")
    found = baselines(lowered.problem, lowered.loops, "fluid", serial=False)
    existing, tick = found.existing, lowered.problem.tick
    assert existing is not None and tick is not None
    assert float(existing * tick) == pytest.approx(891, rel=0.03)


def test_flagship_is_faster_and_near_its_bound() -> None:
    result = solved(FLAGSHIP)
    assert result.makespan_us is not None and result.gap is not None
    assert us(FLAGSHIP, schedule_of(FLAGSHIP).baselines["existing"]) / result.makespan_us >= 1.13
    assert result.gap <= 0.07


def test_flagship_keeps_the_matrix_unit_busy() -> None:
    schedule = schedule_of(FLAGSHIP)
    assert busy_fractions(schedule)["hmx"] >= 0.90
    rows = [row for row in schedule.rows if "/matmul." in row.op]
    assert len(rows) == 18
    held = sum(row.end - row.start for row in rows)
    assert held / (max(row.end for row in rows) - min(row.start for row in rows)) >= 0.90


def test_flagship_says_what_contention_costs() -> None:
    """Stores of 45.8 GB/s beside transfers of 28 and 52 want more than the 70 GB/s of DDR, two transfers the pipe's."""
    schedule = schedule_of(FLAGSHIP)
    cost = contention_of(schedule)
    assert cost is not None and schedule.gain is not None
    assert 0 < cost.channels["ddr"] + cost.channels["dma"] <= schedule.gain.contention_cost
    pairs = {frozenset(rivals.groups) for rivals in cost.rivals}
    assert frozenset({("matmul", "store"), ("rmsnorm", "load")}) in pairs


@pytest.mark.slow
def test_decode_hides_beside_the_prefill() -> None:
    schedule = schedule_of(DECODE)
    assert schedule.gain is not None
    assert us(DECODE, schedule.gain.total) >= 129.4  # one of the three at least
    assert us(DECODE, schedule.gain.contention_cost) > 0


def test_pair_gains_by_pipelining_not_by_running_together() -> None:
    """quantize 633 + dequantize 558 + norm 172 all need HVX: 1,363 whatever the order."""
    schedule = schedule_of(PAIR)
    assert schedule.gain is not None
    assert solved(PAIR).status == "OPTIMAL"
    assert us(PAIR, schedule.makespan) == 633 + 558 + 172
    assert us(PAIR, schedule.baselines["existing"]) == 633 + 39 + 619 + 380 + 558 + 172
    assert schedule.gain.overlap_between_tasks < 0.08 * schedule.gain.existing


def test_six_hide_the_norms() -> None:
    """8 x 172 us of norms run while the matrix unit is busy; 5,888 + 3,969 + 118 + 1,376 today."""
    schedule = schedule_of(SIX)
    gain = schedule.gain
    assert gain is not None
    assert float(us(SIX, gain.existing)) == pytest.approx(5888 + 3969 + 118 + 1376, abs=0.1)
    hidden = us(SIX, gain.overlap_between_tasks - gain.contention_cost - gain.tail)
    assert hidden >= 0.9 * 8 * 172
