from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
from compile.conftest import DEVICE, HOST, ROOT
from compile.tiny import tiny
from looped import looped
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom.cli import main
from hexloom.emit.c_tables import (
    INSIDE,
    SELFTEST_HEADERS,
    SHARED_HEADERS,
    CTables,
    c_header,
    c_source,
    side_car,
    stem_of,
    tables_of,
)
from hexloom.emit.files import shared_text, table_stem, write_emission, write_tables
from hexloom.emit.tables import make_tables
from hexloom.optimizer.check import check_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.schedule import Schedule

GOLDEN = ROOT / "tests" / "golden"
HERE = Path(__file__).parent
MADE = {
    "tiny": tiny,
    "small": examples.small,
    "hostile": examples.hostile,
    **{f"random{seed}": (lambda seed=seed: random_schedule(seed, 20)) for seed in (1, 2, 5)},
    "loops": lambda: looped("two")[0],
}
SOLVED = ("ffn_and_norm/workload.yaml",)
SLOWLY_SOLVED = ("ffn_and_norm/x6.yaml", "llama_matmul_and_norm/workload.yaml")


@pytest.fixture(
    params=[*MADE, *SOLVED, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWLY_SOLVED)],
)
def schedule(request: pytest.FixtureRequest, solved: Callable[[str], Schedule]) -> Schedule:
    name: str = request.param
    return MADE[name]() if name in MADE else solved(name)


# --- compiling --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiler", HOST)
def test_it_compiles_here_and_its_self_test_finds_nothing(
    schedule: Schedule | PeriodicSchedule, compiler: str, tmp_path: Path
) -> None:
    write_emission(schedule, tmp_path, "it")
    HOST[compiler](tmp_path / "it.c", tmp_path / "it_selftest.c", "-o", tmp_path / "test")
    ran = subprocess.run([tmp_path / "test"], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"it: ok, {len(tables_of(schedule).tasks)} tasks, ")
    assert ran.stdout.count("\n") == 1


@pytest.mark.parametrize("compiler", DEVICE)
def test_it_compiles_for_the_device(schedule: Schedule | PeriodicSchedule, compiler: str, tmp_path: Path) -> None:
    write_tables(schedule, tmp_path, "it")
    DEVICE[compiler]("-c", tmp_path / "it.c", "-o", tmp_path / "it.o")


@pytest.mark.parametrize("compiler", DEVICE)
def test_the_self_test_needs_no_library(compiler: str, tmp_path: Path) -> None:
    write_emission(tiny(), tmp_path, "it")
    DEVICE[compiler]("-c", HERE / "freestanding.c", "-I", tmp_path, "-o", tmp_path / "free.o")


@pytest.mark.parametrize("name", ["tiny", "small", "hostile", "random2", "loops"])
def test_the_compiled_tables_are_the_canonical_bytes(name: str, tmp_path: Path) -> None:
    tables = CTables(MADE[name](), "it")
    write_tables(tables.origin, tmp_path, "it")
    writes = [
        f"if (view.{plural} != NULL) fwrite(view.{plural}, sizeof view.{plural}[0], {len(rows)}u, stdout);"
        for plural, _, rows in tables.tables.parts
    ]
    first = ["hexloom_view view;", "it_view(&view);", "fwrite(view.header, sizeof *view.header, 1u, stdout);"]
    body = "\n  ".join([*first, *writes])
    dump = f'#include <stdio.h>\n#include "it.h"\nint main(void) {{\n  {body}\n  return 0;\n}}\n'
    (tmp_path / "dump.c").write_text(dump, encoding="utf-8")
    HOST["gcc-c99"](tmp_path / "it.c", tmp_path / "dump.c", "-o", tmp_path / "dump")
    assert subprocess.run([tmp_path / "dump"], capture_output=True, check=True).stdout == tables.tables.to_bytes()


def test_two_schedules_live_in_one_program(tmp_path: Path) -> None:
    write_tables(tiny(), tmp_path, "one")
    write_tables(examples.hostile(), tmp_path, "other")
    main_text = "int main(void) { return (int)(one_header.crc32 == other_header.crc32); }"
    (tmp_path / "main.c").write_text(f'#include "one.h"\n#include "other.h"\n{main_text}\n', encoding="utf-8")
    files = [tmp_path / name for name in ("main.c", "one.c", "other.c")]
    HOST["gcc-c99"](*files, "-o", tmp_path / "both")
    assert subprocess.run([tmp_path / "both"]).returncode == 0


def test_plans_beyond_the_scratchpad_or_of_another_abi_stop_the_compiler(tmp_path: Path) -> None:
    write_tables(tiny(), tmp_path, "it")
    for name, old, new in (
        ("it.h", "VTCM_AVAILABLE_BYTES (UINT64_C(8192))", "VTCM_AVAILABLE_BYTES (UINT64_C(4096))"),
        ("hexloom_tables.h", "HEXLOOM_ABI_MAJOR (1u)", "HEXLOOM_ABI_MAJOR (0u)"),
        ("hexloom_tables.h", "  uint32_t buffer;", "  uint64_t buffer;"),
    ):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.count(old) == 1
        (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(AssertionError, match="negative"):
            HOST["gcc-c99"]("-fsyntax-only", tmp_path / "it.c")
        (tmp_path / name).write_text(text, encoding="utf-8")
    HOST["gcc-c99"]("-fsyntax-only", tmp_path / "it.c")


# --- text -------------------------------------------------------------------------------------------------


def test_the_tiny_schedule_passes_the_checker() -> None:
    assert check_schedule(tiny()) == []


@pytest.mark.parametrize("name", ["tiny.h", "tiny.c", "tiny.json", "tiny.d", "tiny_selftest.c"])
def test_the_files_of_the_tiny_schedule_are_the_golden_ones(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    write_emission(tiny(), tmp_path)
    text = (tmp_path / name).read_text(encoding="utf-8")
    golden = GOLDEN / name
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(text, encoding="utf-8")
    how = "if the change is meant: pytest tests/compile --update-golden"
    assert golden.is_file(), f"{golden.name} is missing; {how}"
    assert text == golden.read_text(encoding="utf-8"), how


def test_names_cannot_break_out_of_a_file() -> None:
    schedule = examples.hostile()
    stem = table_stem(schedule.name)
    for text in (c_header(schedule, stem), c_source(schedule, stem), CTables(schedule, stem).selftest()):
        assert text.isascii()
        assert text.isprintable() or set(text) - {"\n"} <= set(map(chr, range(32, 127)))
        assert all(line.startswith("/* ") and line.endswith(" */") for line in text.splitlines()[:3])


def test_every_line_of_a_header_is_short_enough_to_read() -> None:
    text = c_header(examples.small(), "small")
    assert max(map(len, text.splitlines())) <= 160


def test_the_first_line_says_what_and_nothing_says_when_or_where(tmp_path: Path) -> None:
    files = write_emission(tiny(), tmp_path)
    for name in ("tiny.h", "tiny.c", "tiny_selftest.c"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith("/* Generated by hexloom 0.1.0 from tiny for hexagon-v79. Do not edit. */\n")
    for name in files:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert str(tmp_path) not in text and str(ROOT) not in text


@pytest.mark.parametrize(
    ("name", "stem"),
    [("ffn", "ffn"), ("Schedule", "Schedule_tables"), ("timeline", "timeline_tables"), ("a b", "a_b"), ("\u6f22", "x")],
)
def test_stems_replace_no_other_file(name: str, stem: str) -> None:
    assert table_stem(name) == stem
    assert stem_of(stem) == stem


def test_external_names_differ_in_their_first_31_characters() -> None:
    stem = stem_of("a very long name of a schedule, indeed")
    tables = CTables(tiny(), stem)
    outside = [plural for plural, _, _ in tables.tables.parts if plural not in INSIDE]
    names = [f"{stem}_{name}" for name in (*outside, "view", "header")]
    assert all(len(name) <= 31 for name in names)


def test_the_side_car_names_what_the_tables_number() -> None:
    schedule = examples.small()
    data = json.loads(side_car(schedule, "small"))
    tables = make_tables(schedule)
    jsonschema.validate(data, {"type": "object", "required": ["schema", "tasks", "events", "buffers"]})
    assert [task["op"] for task in data["tasks"]] == [schedule.problem.ops[t.op].name for t in tables.tasks]
    rows = {row.op: row for row in schedule.rows}
    assert all(task["predicted_ticks"]["observed"] == rows[task["op"]].observed for task in data["tasks"])
    for event, row in zip(data["events"], tables.events, strict=True):
        assert sum(data["tasks"][p]["slices"] for p in event["producers"]) == event["triggers"] == row.triggers
        assert len(event["waiters"]) == row.waiters
    assert int(data["crc32"], 16) == tables.header.crc32
    text = c_header(schedule, "small") + c_source(schedule, "small")
    assert "predicted" not in text.replace("Predicted makespan", "")


def test_hash_seeds_change_nothing() -> None:
    code = (
        "from compile.tiny import tiny; from unit.emit.examples import hostile; from unit.emit.randoms import "
        "random_schedule; from hexloom.emit.c_tables import CTables\n"
        "for s in (tiny(), hostile(), random_schedule(7, 30)):\n"
        "    t = CTables(s, 'it'); print(t.header(), t.source(), t.side_car(), t.selftest(), t.dependencies())"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "77")
    }
    assert len(texts) == 1
    assert len(texts.pop()) > 1000


# --- the command line -------------------------------------------------------------------------------------


def test_emit_writes_the_files_of_a_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "my schedule.json"
    source.write_text(tiny().to_json(), encoding="utf-8")
    assert main(["emit", str(source), "-o", str(tmp_path / "out"), "--stem", "gemm"]) == 0
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == [
        *("gemm.c", "gemm.d", "gemm.h", "gemm.json", "gemm_selftest.c"),
        *sorted((*SHARED_HEADERS, *SELFTEST_HEADERS)),
    ]
    assert sorted(Path(line).name for line in capsys.readouterr().out.splitlines()) == written
    assert (tmp_path / "out" / "gemm.c").read_text(encoding="utf-8") == c_source(tiny(), "gemm")
    rules = (tmp_path / "out" / "gemm.d").read_text(encoding="utf-8")
    assert rules.startswith("gemm.h gemm.c gemm.json gemm_selftest.c: my\\ schedule.json\n")


def test_emit_refuses_what_fails_its_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = tiny()
    plan = schedule.plan.model_copy(update={"waits": ()})
    (tmp_path / "s.json").write_text(schedule.model_copy(update={"plan": plan}).to_json(), encoding="utf-8")
    assert main(["emit", str(tmp_path / "s.json"), "-o", str(tmp_path / "out")]) == 4
    assert "nothing written" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stem", ["a b", "int", "a_name_of_more_than_twenty_two", "hexloom_tables", ""])
def test_emit_refuses_a_stem_that_is_no_name(stem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.json").write_text(tiny().to_json(), encoding="utf-8")
    assert main(["emit", str(tmp_path / "s.json"), "-o", str(tmp_path / "out"), "--stem", stem]) == 2
    assert "would do" in capsys.readouterr().err


def test_solve_writes_what_emit_writes(tmp_path: Path) -> None:
    work = ROOT / "examples" / "ffn_and_norm" / "workload.yaml"
    assert main(["solve", str(work), "-o", str(tmp_path / "a"), "--time-limit", "1s", "--seed", "0", "-q"]) == 0
    assert main(["emit", str(tmp_path / "a" / "schedule.json"), "-o", str(tmp_path / "b")]) == 0
    for name in ("ffn_and_norm.h", "ffn_and_norm.c", "ffn_and_norm.json", *SHARED_HEADERS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert shared_text("hexloom_tables.h") == (tmp_path / "b" / "hexloom_tables.h").read_text(encoding="utf-8")
