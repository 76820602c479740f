"""Tuning: its floors, that chunks are the best of all, published times, and what the report says."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hexloom import TuneResult, load_hw, tune, tune_command
from hexloom.cli import main
from hexloom.emit.parameters import parameters_header, tune_summary
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.ggml_layout import Depth, vtcm_bytes
from hexloom.optimizer.tune import search
from hexloom.optimizer.tune.logged import chunks_of
from hexloom.optimizer.tune.parameters import Parameters, Shape, grid_of, in_words, todays
from hexloom.optimizer.tune.report import Tuned
from hexloom.optimizer.tune.search import OVERHEADS_US, USUAL_OVERHEAD_US, with_overhead
from hexloom.optimizer.tune.trials import Trials, us_of

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.optimizer.tune.floors import Floor

V79, V81 = load_hw("hexagon-v79"), load_hw("hexagon-v81")
SMALL = Shape(96, 256, 256, "q4_0")


def trials(shape: Shape, threads: int = 4, seconds: float = 60.0, overhead: float = 1) -> Trials:
    machine = with_overhead(V81, USUAL_OVERHEAD_US * overhead)  # type: ignore[arg-type]
    return Trials(shape, machine, threads, "fluid", seconds, seed=0)


shapes = st.builds(
    Shape,
    st.integers(1, 150),
    st.sampled_from([32, 64, 256, 512]),
    st.sampled_from([32, 96, 256]),
    st.sampled_from(["q4_0", "q8_0", "f16"]),
)


@pytest.mark.slow
@settings(max_examples=15)
@given(shapes, st.data())
def test_floors_are_below_every_loop_and_every_plan(shape: Shape, data: st.DataObject) -> None:
    threads = data.draw(st.integers(1, 8))
    seen = trials(shape, threads, overhead=data.draw(st.sampled_from([0, 1])))
    chosen = Parameters(
        m_chunk=32 * data.draw(st.integers(1, 5)),
        n_chunk=32 * data.draw(st.integers(1, 8)),
        threads=threads,
        depth=Depth(raw=data.draw(st.integers(1, 3)), output=data.draw(st.integers(1, 2))),
        load_parts=data.draw(st.integers(1, threads)),
        slices=data.draw(st.booleans()),
    )
    floor = seen.floors(chosen)
    assert floor.plan_us <= floor.loop_us
    loop = seen.loop_us(chosen)
    assert loop is not None
    assert floor.loop_us <= loop
    result = seen.solve(chosen, 0)
    assert floor.plan_us <= us_of(result.makespan_us)


@settings(max_examples=5)
@given(shapes)
def test_the_best_chunks_are_the_best_of_all(shape: Shape) -> None:
    seen = trials(shape)
    choices = [seen.chosen(*pair) for pair in grid_of(shape, V81, 4, Depth()).chunks]
    best = seen.best_loop({chosen: seen.floors(chosen) for chosen in choices}, 1e9)
    simulated = len(seen.loops)
    assert best is not None
    every = {chosen: us for chosen in choices if (us := seen.loop_us(chosen)) is not None}
    assert every[best] == min(every.values())
    assert simulated <= len(choices)


def test_the_grid_is_all_that_fits_in_ggmls_layout() -> None:
    shape = Shape(100, 4096, 4096, "q8_0")
    grid = grid_of(shape, V81, 8, Depth())
    inside = {
        (m, n)
        for m in (32, 64, 96, 128)
        for n in range(32, 4097, 32)
        if vtcm_bytes(m, n, 4096, "q8_0", 8) <= V81.available_vtcm_bytes
    }
    assert set(grid.chunks) == inside
    assert (grid.too_large, grid.too_small, grid.alike) == (4 * 128 - len(inside), 0, 0)


def test_of_very_many_pairs_the_even_ones_are_looked_at() -> None:
    """32 deep, almost anything fits: what makes as many chunks as a more even pair, or too many, is left out."""
    grid = grid_of(Shape(742, 32, 100_000, "q4_0"), V81, 8, Depth())
    counts = {(-(-742 // m), -(-100_000 // n)) for m, n in grid.chunks}
    assert len(counts) == len(grid.chunks)
    assert max(a * b for a, b in counts) <= 1_000
    assert grid.too_small > 0
    assert grid.alike > 0
    assert len(grid.chunks) + grid.too_large + grid.too_small + grid.alike == 24 * 3125
    # Chunks of 96 rows make as few blocks as those of 100 would: 8, not one less.
    assert {m for m, _ in grid.chunks if -(-742 // m) == 8} == {96}


@pytest.mark.parametrize(
    ("machine", "shape", "measured_us", "within"),
    [
        (V81, Shape(742, 2048, 6144, "q4_0"), 891, 0.03),  # llama.cpp PR 26501
        (V79, Shape(35, 2048, 8192, "q4_0"), 339, 0.08),  # LFM2-1.2B profile on SM8750
    ],
)
@pytest.mark.parametrize("overhead", [0, 1])
def test_the_loop_of_today_takes_what_was_measured(
    machine: object, shape: Shape, measured_us: float, within: float, overhead: int
) -> None:
    assert machine in (V79, V81)
    hw = V81 if machine is V81 else V79
    seen = Trials(shape, with_overhead(hw, USUAL_OVERHEAD_US * overhead), hw.hvx_contexts, "fluid", 9, seed=0)
    today = todays(shape, hw, hw.hvx_contexts)
    assert today is not None
    assert seen.loop_us(today) == pytest.approx(measured_us, rel=within)


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    found = tune("matmul_w4a16", 96, 256, 512, hw="hexagon-v79", time_limit_s=1, seed=1).tuned
    assert found is not None
    return found


def test_the_report_adds_up(tuned: Tuned) -> None:
    rows = {row.lever: row for row in tuned.rows}
    assert list(rows) == ["existing", "chunks", "load_parts", "slices", "order", "all"]
    assert tuned.existing_us == rows["existing"].makespan_us
    assert tuned.makespan_us == rows["all"].makespan_us == min(row.makespan_us for row in tuned.rows)
    assert tuned.lower_bound_us <= tuned.makespan_us
    for row in tuned.rows:
        assert row.saved_us == pytest.approx(tuned.existing_us - row.makespan_us)
        assert row.lower_bound_us is None or row.lower_bound_us <= row.makespan_us + 1e-9
    # Alone they are never worse than today.
    assert all(rows[lever].makespan_us <= tuned.existing_us for lever in ("chunks", "load_parts", "slices"))
    counts = tuned.counts
    assert counts.choices == counts.excluded + counts.solved + counts.open
    assert [row.overhead_us for row in tuned.range] == [float(us) for us in OVERHEADS_US]
    here = next(row for row in tuned.range if row.overhead_us == tuned.overhead_us)
    assert here.makespan_us == pytest.approx(tuned.makespan_us)
    assert here.existing_us == pytest.approx(tuned.existing_us)
    assert tuned.range_us == (tuned.range[0].makespan_us, tuned.range[-1].makespan_us)
    assert Tuned.from_json(tuned.to_json()) == tuned


def test_the_same_seed_gives_the_same_report(tuned: Tuned) -> None:
    again = tune("matmul_w4a16", 96, 256, 512, hw="hexagon-v79", time_limit_s=1, seed=1).tuned
    assert again == tuned


def test_the_summary_names_every_lever(tuned: Tuned) -> None:
    text = tune_summary(tuned).plain
    assert text.startswith("matmul_w4a16 96 x 256 x 512 q4_0 on hexagon-v79, 6 threads, at 1 us")
    assert "slices instead of fork/join" in text
    assert in_words(tuned.parameters) in text
    assert f"{tuned.counts.solved} solved" in text


def test_rows_of_one_shape_share_what_is_below_them(tuned: Tuned) -> None:
    """The table is looked up by m: 40 rows for up to 40, 96 for what is above."""
    small = tuned.model_copy(update={"m": 40})
    other = tuned.model_copy(update={"k": 512})
    text = parameters_header([tuned, small, small, other])
    used = [line.split(",")[3:7] for line in text.splitlines() if line.startswith("  {79u")]
    assert [[part.strip() for part in of] for of in used] == [
        ["0u", "40u", "256u", "512u"],
        ["40u", "96u", "256u", "512u"],
        ["0u", "96u", "512u", "512u"],
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["rmsnorm", "8", "32", "32"], 2, "kernel 'rmsnorm' cannot be tuned; known: matmul_w4a16"),
        (["matmul_w4a16", "0", "32", "32"], 2, "M '0': write rows above 0"),
        (["matmul_w4a16", "9" * 5000, "32", "32"], 2, "write rows above 0"),
        (["matmul_w4a16", "8,x", "32", "32"], 2, "M '8,x': write rows above 0"),
        (["matmul_w4a16", "8", "33", "32"], 2, "must be multiples of 32"),
        (["matmul_w4a16", "8", "32", "32", "--type", "q5"], 2, "--type 'q5': known are q4_0, q8_0, f16"),
        (["matmul_w4a16", "8", "32", "32", "--threads", "9"], 2, "has 8 HVX contexts"),
        (["matmul_w4a16", "8", "32", "32", "--overhead-us", "-1"], 2, "overhead -1.0 us must be a number"),
        (["matmul_w4a16", "8", "32", "32", "--contention", "x"], 2, "contention 'x'"),
        (["matmul_w4a16", "8", "200000", "32"], 1, "short"),
        (["matmul_w4a16", "2000000", "32", "32"], 2, "m = 2000000 must be between 1 and 1,000,000"),
        (["matmul_w4a16", "100000", "8192", "100000"], 2, "makes more than 1,000 chunks"),
    ],
)
def test_what_cannot_be_tuned_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main(["tune", *arguments, "--hw", "hexagon-v81", "--time-limit", "1s", "-q"]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.count("\n") == 1


def test_the_command_writes_a_report_and_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["tune", "matmul_w4a16", "40,96", "256", "256", "--hw", "hexagon-v81"]
    assert main([*arguments, "--time-limit", "500ms", "-q", "--json", "-o", str(tmp_path / "out")]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [report["m"] for report in printed] == [40, 96]
    assert json.loads((tmp_path / "out" / "tune.json").read_text()) == printed
    needed = ("existing_us", "makespan_us", "lower_bound_us", "range_us", "bound_by", "parameters")
    assert all(key in report for report in printed for key in needed)
    assert "hexloom_find_parameters" in (tmp_path / "out" / "hexloom_parameters.h").read_text()


def test_a_time_or_a_machine_is_asked_for() -> None:
    with pytest.raises(InvalidInputError, match="tune needs a machine"):
        tune("matmul_w4a16", 8, 32, 32)
    with pytest.raises(InvalidInputError, match="time limit nan s"):
        tune("matmul_w4a16", 8, 32, 32, hw="hexagon-v81", time_limit_s=float("nan"))


def test_todays_choice_is_a_choice_even_where_many_are_alike() -> None:
    """742 x 256 x 6144 on v79: ggml's 768 x 1792 makes as many chunks as a more even pair, which is looked at."""
    seen = Trials(Shape(742, 256, 6144, "q4_0"), V79, 6, "fluid", 1.0, seed=0)
    tuning = search._Tuning(seen, 1.0, USUAL_OVERHEAD_US, lambda _: None, todays(seen.shape, V79, 6))
    assert tuning.today is not None
    assert (tuning.today.m_chunk, tuning.today.n_chunk) not in tuning.grid.chunks
    seen.loop_us(tuning.today)
    assert tuning._joint_choices()[tuning.today] == seen.floors(tuning.today)


@pytest.mark.parametrize("after", [0, 1])
def test_ctrl_c_leaves_a_report_of_what_is_there(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    solve, calls = Trials.solve, 0

    def interrupted(self: Trials, *args: object, **keys: object) -> object:
        nonlocal calls
        calls += 1
        if calls > after:
            raise KeyboardInterrupt
        return solve(self, *args, **keys)  # type: ignore[arg-type]

    monkeypatch.setattr(Trials, "solve", interrupted)
    if after == 0:
        with pytest.raises(KeyboardInterrupt):
            tune("matmul_w4a16", 64, 64, 64, hw="hexagon-v81", time_limit_s=2)
        return
    result = tune("matmul_w4a16", 64, 64, 64, hw="hexagon-v81", time_limit_s=2)
    assert result.interrupted
    assert result.tuned is not None
    assert result.tuned.rows[-1].lever == "all"


def test_costs_that_the_machine_file_fixes_are_not_varied(tmp_path: Path) -> None:
    text = (resources.files("hexloom.hwmodels") / "data" / "hexagon-v81.yaml").read_text()
    data = yaml.safe_load(text)
    for name in ("fork_join", "hmx_handover_spin"):
        del data["overheads"][name]["range"]
        data["overheads"][name]["value"] = 0.25
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data))
    report = tune("matmul_w4a16", 64, 64, 64, hw=str(path), time_limit_s=1, overhead_us=2).tuned
    assert report is not None
    assert report.overhead_us == 0.25
    assert report.range == ()
    assert "fork_join is 0.25 us in the machine file, which gives no range: used as it is" in report.notes


def test_ctrl_c_before_the_choices_are_listed_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    listed, calls = search._Tuning._joint_choices, 0

    def interrupted(self: search._Tuning) -> dict[Parameters, Floor]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        return listed(self)

    monkeypatch.setattr(search._Tuning, "_joint_choices", interrupted)
    report = tune("matmul_w4a16", 96, 256, 512, hw="hexagon-v79", time_limit_s=1).tuned
    assert report is not None
    assert report.counts.open > 0
    assert report.lower_bound_us < report.makespan_us


def test_reports_that_are_ready_are_not_lost_where_a_later_one_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_the_first(kernel: str, m: int, *args: object, **keys: object) -> TuneResult:
        return tune(kernel, m, *args, **keys) if m == 40 else TuneResult(None)  # type: ignore[arg-type]

    monkeypatch.setattr(tune_command, "tune", only_the_first)
    arguments = ["tune", "matmul_w4a16", "40,96", "64", "64", "--hw", "hexagon-v81", "--time-limit", "500ms", "-q"]
    assert main([*arguments, "-o", str(tmp_path)]) == 3
    assert "96 x 64 x 64: no plan was found in the time" in capsys.readouterr().err
    assert Tuned.from_json((tmp_path / "tune.json").read_text()).m == 40


OP = "ggml-hex: HTP0 profile-op {}|w x a -> o|{}|{} x f32 -> f32|36:2304 x 256:2048|{}|usec {} cycles {} start 1"
HWINFO = "ggml-hex: HTP0 hwinfo: threads 6, hvx 6, hmx 1, vtcm 8 MB"


def logged(*lines: tuple[str, str, str, str, int]) -> str:
    """Return a log with ops of (name, shapes, type, kernel, us) at 2 GHz."""
    return "\n".join([HWINFO, *(OP.format(*of, us, 2000 * us) for *of, us in lines), ""])


@pytest.mark.parametrize("shape", [(742, 2048, 6144, "q4_0"), (512, 4096, 4096, "q8_0"), (35, 2048, 8192, "q4_0")])
def test_bytes_of_a_layout_tell_its_chunks(shape: tuple[int, int, int, str]) -> None:
    product = Shape(*shape)  # type: ignore[arg-type]
    today = todays(product, V79, 6)
    assert today is not None
    used = vtcm_bytes(today.m_chunk, today.n_chunk, product.k, product.weight_type, 6)
    assert chunks_of(product, used, V79, 6) == (today.m_chunk, today.n_chunk)
    assert chunks_of(product, used + 1, V79, 6) is None
    # Another choice, which no other pair takes the bytes of.
    other = vtcm_bytes(32, 64, product.k, product.weight_type, 6)
    assert chunks_of(product, other, V79, 6) in (None, (32, 64))


def test_products_of_a_log_are_tuned_longest_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "llama.log"
    used = vtcm_bytes(64, 96, 256, "q4_0", 6)
    product, other = "256:256 x 256:40 -> 256:40", "256:64 x 256:96 -> 64:96"
    path.write_text(
        logged(
            ("MUL_MAT", product, "q4_0", f"hmx-tiled vtcm {used}", 20),
            ("MUL_MAT", product, "q4_0", f"hmx-tiled vtcm {used}", 30),
            ("MUL_MAT", other, "q8_0", "hmx-tiled vtcm 12345", 99),
            ("MUL_MAT", "256:256 x 256:1 -> 256:1", "q4_0", "hvx-tiled vtcm 4096", 9),
            ("MUL_MAT", "250:256 x 250:40 -> 256:40", "q4_0", "hmx-tiled vtcm 4096", 9),
            ("RMS_NORM", "256:40 -> 256:40", "f32", "----", 7),
        )
    )
    arguments = ["tune", "--log", str(path), "--hw", "hexagon-v81", "--time-limit", "400ms", "-q"]
    assert main([*arguments, "--json"]) == 0
    said = capsys.readouterr()
    first, second = json.loads(said.out)
    assert (first["m"], first["k"], first["n"], first["weight_type"]) == (96, 256, 64, "q8_0")
    assert first["measured"] == {
        "runs": 1, "median_us": 99, "least_us": 99, "vtcm_bytes": 12345, "chunks_known": False,
    }  # fmt: skip
    assert second["measured"]["runs"] == 2
    assert second["measured"]["median_us"] == 25
    assert second["existing_parameters"]["m_chunk"] == 64
    assert second["existing_parameters"]["n_chunk"] == 96
    assert second["existing_parameters"]["threads"] == 6  # the log's workers
    for why in ("1 on HVX", "1 of k or n that is no multiple of 32", "1 no product"):
        assert why in said.err
    report = Tuned.model_validate(second)
    assert "median of 2 runs; predicted" in tune_summary(report).plain


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (
            logged(("ADD", "64:8 x 64:8 -> 64:8", "f32", "----", 5)),
            [],
            "no product on the matrix unit that can be tuned",
        ),
        (HWINFO, ["matmul_w4a16", "8", "64", "64"], "the log says the shapes; drop M, K, N and --type"),
        (HWINFO, [], "no product on the matrix unit"),
    ],
)
def test_a_log_without_products_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, more: list[str], message: str
) -> None:
    path = tmp_path / "a.log"
    path.write_text(text)
    assert main(["tune", *more, "--log", str(path), "--hw", "hexagon-v81", "-q"]) == 2
    assert message in capsys.readouterr().err


def test_a_shape_or_a_log_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "matmul_w4a16", "8", "--hw", "hexagon-v81"]) == 2
    assert "tune needs a shape: write KERNEL M K N, or --log FILE" in capsys.readouterr().err
