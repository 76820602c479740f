"""Calibration: runs of a known machine, from the simulator, must lead back to it; what they cannot tell stays."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml
from measured import rerun, written
from traces import GGML_V0, chrome

from hexloom import InvalidInputError, Workload, load_hw, solve
from hexloom.cli import main
from hexloom.optimizer.lower import lower
from hexloom.optimizer.simulate import simulate
from hexloom.optimizer.traces.calibrate import FITTED_SECTIONS, calibrate, calibrate_classes, machine_yaml
from hexloom.optimizer.traces.fit import fit
from hexloom.optimizer.traces.importer import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom import Machine, Schedule

KNOWN_OVERHEADS = {
    "overheads.fork_join": 1,
    "overheads.hmx_handover_spin": 2,
    "overheads.event_poll": Fraction(1, 2),
    "overheads.dma_issue": Fraction(1, 10),
}
SMALL = {"name": "g", "kernel": "gemv", "k": 512, "n": 768, "n_chunk": 64}
NORM = {"name": "norm", "kernel": "rmsnorm", "rows": 24, "cols": 1024, "rows_per_block": 2}
MATMUL = {"name": "mm", "kernel": "matmul_w4a16", "m": 64, "k": 256, "n": 512, "n_chunk": 128}


def workload(*tasks: dict[str, Any]) -> Workload:
    return Workload.from_data({"schema": "hexloom.workload/1", "name": "w", "tasks": list(tasks)}, "w")


def off_by_a_fifth(machine: Machine, seed: int) -> dict[str, float]:
    """Return true values 20 % above or below those of the file for all costs and capacities."""
    rng = random.Random(seed)
    return {
        name: float(quantity.exact) * rng.choice((0.8, 1.2))
        for name, quantity in machine.quantities()
        if name.partition(".")[0] in FITTED_SECTIONS and quantity.unit not in ("count", "bit", "B")
    }


def runs_of(work: Workload, plan: Schedule, machine: Machine, count: int, noise: float) -> str:
    """Return the trace of runs of ``plan`` on another machine than it was made for; each op scatters by ``noise``."""
    truth = lower(work, machine, plan.contention).problem
    chosen = {a.op: a.mode for a in plan.plan.assignments}
    assignments = tuple(a.model_copy(update={"mode": 0}) for a in plan.plan.assignments)
    shape = plan.plan.model_copy(update={"assignments": assignments})
    found = []
    for k in range(count):
        rng = random.Random(k)
        ops = []
        for op in truth.ops:
            by = Fraction(max(0.5, rng.gauss(1, noise))).limit_denominator(10**4)
            mode = op.modes[chosen[op.name]]
            uses = tuple(use.model_copy(update={"ticks": round(use.ticks * by)}) for use in mode.uses)
            mode = mode.model_copy(update={"uses": uses, "latency_ticks": round(mode.latency_ticks * by)})
            ops.append(op.model_copy(update={"modes": (mode,)}))
        problem = truth.model_copy(update={"ops": tuple(ops)})
        found.append(simulate(problem, shape, plan.contention, exact=False).times)
    problem = SimpleNamespace(tick=truth.tick, op_index=plan.problem.op_index, ops=plan.problem.ops)
    return written(SimpleNamespace(problem=problem, plan=plan.plan), found)  # type: ignore[arg-type]


def solved(work: Workload, machine: Machine) -> Schedule:
    plan = solve(work, machine, seed=1, time_limit_s=0.5).schedule
    assert plan is not None
    return plan


@pytest.fixture(scope="module")
def norm() -> tuple[Machine, Workload, Schedule]:
    """A small norm on v79, and its schedule."""
    base, work = load_hw("hexagon-v79"), workload({**NORM, "rows": 12})
    return base, work, solved(work, base)


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [(SMALL, NORM), (MATMUL, NORM)], ids=["gemv", "matmul"])
def test_what_is_determined_is_within_three_percent(tasks: tuple[dict[str, Any], ...], tmp_path: Path) -> None:
    base = load_hw("hexagon-v79").with_values(KNOWN_OVERHEADS)
    work = workload(*tasks)
    plan = solved(work, base)
    truth = off_by_a_fifth(base, 7)
    path = tmp_path / "run.json"
    path.write_text(runs_of(work, plan, base.with_values(truth), 5, 0.05))
    found, fitted = calibrate(base, [(work, plan, [read_trace(path)])])
    assert len(found.fitted) >= 3
    for row in found.fitted:
        assert row.value == pytest.approx(truth[row.name], rel=0.03), row.name
    assert found.before > 0.1
    assert found.unseen < 0.04
    names = {row.name for row in (*found.fitted, *found.open)}
    assert {"rates.hvx_rmsnorm", "ddr.total_gb_s"} <= names
    values = dict(fitted.quantities())
    for row in found.open:
        assert values[row.name] == dict(base.quantities())[row.name], "what is not told stays as it was"
        assert row.run


def test_one_rate_is_found_and_the_rest_is_left_alone(norm: tuple[Machine, Workload, Schedule], tmp_path: Path) -> None:
    base, work, plan = norm
    truth = base.with_values({"rates.hvx_rmsnorm": 0.612})
    path = tmp_path / "run.json"
    path.write_text(runs_of(work, plan, truth, 3, 0.02))
    found, fitted = calibrate(base, [(work, plan, [read_trace(path)])])
    rows = {row.name: row for row in found.fitted}
    assert rows["rates.hvx_rmsnorm"].value == pytest.approx(0.612, rel=0.02)
    assert rows["rates.hvx_rmsnorm"].low <= rows["rates.hvx_rmsnorm"].value <= rows["rates.hvx_rmsnorm"].high
    idle = {row.name for row in found.open if not row.matters}
    assert {"rates.hmx_fp16_cycles_per_mac", "rates.hvx_softmax", "l2.write_gb_s"} <= idle
    quantity = dict(fitted.quantities())["rates.hvx_rmsnorm"]
    assert quantity.confidence == "measured" and quantity.source.startswith("fitted to")
    again = load_hw(_write(tmp_path / "m.yaml", machine_yaml(fitted)))
    assert again == fitted and again.name == "hexagon-v79-calibrated"


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.slow
def test_runs_as_the_file_says_change_nothing(norm: tuple[Machine, Workload, Schedule], tmp_path: Path) -> None:
    base, work, plan = norm
    path = _write(tmp_path / "run.json", written(plan, [rerun(plan)]))
    found, _ = calibrate(base, [(work, plan, [read_trace(path)])])
    assert found.before < 0.01
    for row in found.fitted:
        assert row.value == pytest.approx(row.before, rel=0.01)


def test_another_workload_and_too_few_ops_are_told(norm: tuple[Machine, Workload, Schedule], tmp_path: Path) -> None:
    base, work, plan = norm
    trace = read_trace(_write(tmp_path / "run.json", written(plan, [rerun(plan)])))
    with pytest.raises(InvalidInputError, match="is none of workload 'w'"):
        calibrate(base, [(workload(SMALL), plan, [trace])])
    data = json.loads(written(plan, [rerun(plan)]))
    data["records"] = data["records"][:3]
    few = read_trace(_write(tmp_path / "few.json", json.dumps(data)))
    with pytest.raises(InvalidInputError, match="too few to fit"):
        calibrate(base, [(work, plan, [few])])


def test_two_numbers_that_only_act_together_are_refused() -> None:
    """y = a + b in every row: the sum is determined, neither number is; a third one is."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.02, 400)
    third = np.arange(400) % 2

    def model(point: np.ndarray) -> np.ndarray:
        return np.where(third == 1, point[2] - 0.3, point[0] + point[1] - 0.2) + noise

    found = fit(model, np.zeros(4), third.astype(np.int64), np.arange(400) % 4 < 2)
    assert found.determined.tolist() == [False, False, True, False]
    assert found.moved.tolist() == [True, True, True, False]
    assert found.point[2] == pytest.approx(0.3, abs=0.01)
    assert found.point[0] + found.point[1] == pytest.approx(0.2, abs=0.01)
    assert 0.005 < np.median(found.unseen) < 0.03


def test_outliers_hardly_move_the_fit() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 0.02, 300)
    noise[::10] += 2.0  # every tenth phase was interrupted

    def model(point: np.ndarray) -> np.ndarray:
        return point[0] + 0.1 - noise

    found = fit(model, np.zeros(1), np.zeros(300, np.int64), np.arange(300) % 2 == 0)
    assert found.point[0] == pytest.approx(-0.1, abs=0.02)


def test_the_command(
    norm: tuple[Machine, Workload, Schedule], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = norm[2]
    work = {"schema": "hexloom.workload/1", "name": "w", "tasks": [{**NORM, "rows": 12}]}
    files = {
        "trace": _write(tmp_path / "run.json", written(plan, [rerun(plan)])),
        "schedule": _write(tmp_path / "schedule.json", plan.to_json()),
        "workload": _write(tmp_path / "w.yaml", yaml.safe_dump(work)),
    }
    common = [str(files["trace"]), "--schedule", str(files["schedule"]), "--workload", str(files["workload"])]
    out = tmp_path / "fitted.yaml"
    assert main(["calibrate", *common, "--hw", "hexagon-v79", "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert "more numbers play no part in these runs" in said and f"wrote {out}" in said
    assert load_hw(out).name == "hexagon-v79-calibrated"
    assert main(["calibrate", *common, "--hw", "hexagon-v79", "-o", str(tmp_path / "m.json")]) == 2
    assert "ends in .yaml" in capsys.readouterr().err


# --- rates from logs of ggml-hexagon


RATES = {"HVX_W_DEQUANT": 0.18, "HVX_A_PREP": 0.22, "HMX_COMP": 0.0003}
"""Cycles per element and per MAC of the machine that wrote the log."""


def matmul_log(shapes: list[tuple[int, int, int]], noise: float, *, fixed: int = 0, lost: str = "") -> str:
    """Return a log in which two threads dequantize and prepare, and the HMX multiplies, at `RATES`."""
    rng = random.Random(3)
    lines, at = [], 10**9
    for m, k, n in shapes:
        work = {"HVX_W_DEQUANT": k * n, "HVX_A_PREP": m * k, "HMX_COMP": -(-m // 32) * 32 * k * n}
        inside, now = [], at
        for name, amount in work.items():
            threads = [10] if name == "HMX_COMP" else [0, 1]
            for thread in threads:
                ticks = round(RATES[name] * amount / len(threads) * rng.gauss(1, noise)) + fixed
                edge = f"ggml-hex: HTP0 trace-evt {name}: thread {thread} info 0"
                inside += [f"{edge} start {now}", f"{edge} stop {now + ticks}"]
            now += ticks
        us = (now - at) // 2000 + 1
        head = f"MUL_MAT|w x a -> o|{k}:{n} x {k}:{m} -> {n}:{m}|q4_0 x f32 -> f32|s|hmx-tiled"
        batch = f"OPBATCH|----|n-ops 1|evt-cnt {lost or '2,2,0,0,0,0,0,0,0,0,2'}|----|----"
        tail = f"usec {us} cycles {us * 2000} start {at} mhz 2000.0"
        lines += [f"ggml-hex: HTP0 profile-op {batch}|{tail}", f"ggml-hex: HTP0 profile-op {head}|{tail}", *inside]
        at += us * 2000 + 1000
    return "\n".join(lines) + "\n"


SHAPES = [(32 * i, 512 * j, 1024) for i in (1, 2, 4) for j in (1, 2, 3)]


def test_rates_of_a_ggml_log(tmp_path: Path) -> None:
    base = load_hw("hexagon-v79")
    trace = read_trace(_write(tmp_path / "op.log", matmul_log(SHAPES, 0.03)))
    assert trace.findings.warnings == ()
    found, fitted = calibrate_classes(base, [trace])
    rows = {row.name: row.value for row in found.fitted}
    to_hmx = float(base.hmx_mhz / base.core_mhz)
    assert rows["rates.hvx_dequantize_q4_0"] == pytest.approx(0.18, rel=0.02)
    assert rows["rates.hvx_activation_prepare"] == pytest.approx(0.22, rel=0.02)
    assert rows["rates.hmx_fp16_cycles_per_mac"] == pytest.approx(0.0003 * to_hmx, rel=0.02)
    assert rows["clocks.core_mhz"] == pytest.approx(2000, rel=0.001)
    assert found.open == ()
    assert found.unseen < 0.04 < found.before
    assert dict(fitted.quantities())["rates.hvx_dequantize_q4_0"].confidence == "measured"
    assert load_hw(_write(tmp_path / "m.yaml", machine_yaml(fitted))) == fitted


def test_what_a_log_cannot_tell_is_refused_with_the_reason(tmp_path: Path) -> None:
    base = load_hw("hexagon-v79")
    cases = {
        "too few": matmul_log(SHAPES[:2], 0.0),
        "lost records": matmul_log(SHAPES, 0.0, lost="600,2,0,0,0,0,0,0,0,0,2"),
        "something beside the work": matmul_log(SHAPES, 0.0, fixed=200_000),
        "differs from op to op": matmul_log(SHAPES[-1:] * 12, 0.5),
    }
    for reason, text in cases.items():
        found, fitted = calibrate_classes(base, [read_trace(_write(tmp_path / "op.log", text))])
        refused = {row.name: row.reason for row in found.open}
        assert reason in refused["rates.hvx_activation_prepare"], reason
        kept = dict(fitted.quantities())["rates.hvx_activation_prepare"]
        assert kept == dict(base.quantities())["rates.hvx_activation_prepare"]
    old = read_trace(_write(tmp_path / "v0.log", GGML_V0))
    assert [row.name for row in calibrate_classes(base, [old])[0].fitted] == ["clocks.core_mhz"]
    with pytest.raises(InvalidInputError, match="says no rates without its plan"):
        calibrate_classes(base, [read_trace(_write(tmp_path / "c.json", chrome()))])


def test_the_command_for_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = _write(tmp_path / "op.log", matmul_log(SHAPES, 0.03))
    assert main(["calibrate", str(log), "--hw", "hexagon-v79", "-o", str(tmp_path / "m.yaml")]) == 0
    assert "rates.hvx_dequantize_q4_0" in capsys.readouterr().out
    assert main(["calibrate", str(log), "--hw", "hexagon-v79", "--schedule", str(log)]) == 2
    assert "belong together" in capsys.readouterr().err
