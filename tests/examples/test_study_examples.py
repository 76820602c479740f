"""The four groups and the knobs of sweeps on every example that they apply to: parts add up, or a line says why not.

They apply to what is solved as a workload. `gallery` compares with published systems, `host_closed_loop` makes its
machine first, `qos_stream` is of `hexloom qos`, and `attention_pipeline` has no times at all.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hexloom import Workload, load_hw
from hexloom.cli import main
from hexloom.optimizer.study.points import Base, row_of
from hexloom.optimizer.study.report import GROUPS
from hexloom.optimizer.study.study import study

if TYPE_CHECKING:
    from hexloom.optimizer.study.fields import Value

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = "ffn_and_norm/workload.yaml"
LOOPS = "million_tiles/workload.yaml"
NOT_HERE = ("attention_pipeline", "qos_stream", "host_closed_loop", "gallery")
NAMES = sorted(
    str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*.yaml") if path.parent.name not in NOT_HERE
)
SMALLER = ("ffn_and_norm/x6.yaml", "joint_choice/one_by_one.yaml", LOOPS, "moe_experts/workload.yaml")
every_example = pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
)


def test_all_folders_are_studied_but_those_named_here() -> None:
    folders = {path.name for path in EXAMPLES.glob("*/") if not path.name.startswith(("_", "."))}
    assert {name.split("/")[0] for name in NAMES} == folders - set(NOT_HERE)


@every_example
def test_the_five_parts_of_every_group_add_up_to_the_last_unit(name: str) -> None:
    found = study(Workload.load(EXAMPLES / name), seed=1, time_limit_s=0)
    assert [group.name for group in found.groups] == list(GROUPS)
    existing = found.makespan("existing")
    assert existing is not None
    for group in found.groups:
        if group.makespan is None:
            assert group.name == "concurrent" and group.note
            continue
        assert group.makespan >= found.lower_bound
        gain = group.gain
        if gain is None:
            assert group.name in ("serial", "existing")
            continue
        overlap = Fraction(gain.overlap_within_tasks) + Fraction(gain.overlap_between_tasks)
        parts = Fraction(gain.saved_entries) + overlap - Fraction(gain.contention_cost) - Fraction(gain.tail)
        assert gain.existing == existing
        assert parts == Fraction(existing) - Fraction(group.makespan)


def point(name: str, values: dict[str, Value]) -> dict[str, object]:
    work = Workload.load(EXAMPLES / name)
    assert work.hw is not None
    return row_of(Base(work.to_json(), False, load_hw(work.hw).to_json(), "fluid", 0.0, 1), "key", values)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("joint_choice/joint.yaml", {"work_ratio": 2}, "must have two tasks or more"),
        ("llama_matmul_and_norm/workload.yaml", {"sync_grain": 32}, "use a smaller grain or deeper rings"),
        (LOOPS, {"jitter": 0.1}, "whose iterations are all alike"),
        (LOOPS, {"sync_grain": 2}, "with fewer tiles, up to 8,000 ops"),
        (QUICK, {"tasks.ffn.depth": 1}, "unknown key 'depth'"),
        (QUICK, {"hw": "hexagon-v99"}, "hexagon-v99"),
    ],
)
def test_a_knob_that_does_not_apply_is_refused_in_a_line(name: str, values: dict[str, Value], said: str) -> None:
    row = point(name, values)
    assert row["status"] == "INVALID"
    assert said in str(row["note"]) and "\n" not in str(row["note"])


@pytest.mark.parametrize("name", [QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SMALLER)])
def test_knobs_change_what_they_say(name: str) -> None:
    """Several at once; where no channel is ever full, contention costs nothing."""
    knobs: dict[str, Value] = {"contention": "none", "overheads.op": "high"}
    if not name.startswith("joint_choice/"):  # one task
        knobs["work_ratio"] = 0.5
    if name != LOOPS:
        knobs |= {"jitter": 0.1, "sync_grain": 1}
    row = point(name, knobs)
    assert row["status"] in ("OPTIMAL", "FEASIBLE"), row["note"]
    existing, plan = (Fraction(str(row[key])) for key in ("existing", "plan"))
    parts = [Fraction(str(row[key])) for key in ("saved_entries", "overlap_within_tasks", "overlap_between_tasks")]
    costs = [Fraction(str(row[key])) for key in ("contention_cost", "tail")]
    assert abs(sum(parts) - sum(costs) - (existing - plan)) < Fraction(1, 10**5)  # rows are rounded
    assert row["contention_cost"] == 0


@pytest.mark.parametrize(
    ("source", "command"),
    [("attention_pipeline/pipeline.yaml", "hexloom check"), ("qos_stream/stream.yaml", "hexloom qos")],
)
def test_what_is_no_workload_is_told_its_command(source: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", str(EXAMPLES / source)]) == 2
    err = capsys.readouterr().err
    assert command in err and err.count("\n") == 1
