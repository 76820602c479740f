"""What the walker costs between two kernels, as `benchmarks/runtime.py` counts it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from compile.conftest import ROOT
from compile.tiny import tiny
from runtime.hosts import compile_c

from hexloom.emit.files import write_emission

if TYPE_CHECKING:
    from pathlib import Path

PACKETS = 64
"""Of one task without events: 54 with clang 19, of which the kernel has two."""


@pytest.fixture(scope="module")
def bench() -> Any:
    folder = ROOT / "benchmarks"
    spec = importlib.util.spec_from_file_location("runtime_bench", folder / "runtime.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def plain(bench: Any, count: int) -> Any:
    return bench.tables_of([[(None, []) for _ in range(count)]])


def test_a_task_comes_to_two_lines_of_tables(bench: Any) -> None:
    """By hand: 16 entries and two tasks are a line of 128 bytes, the tasks begin in the middle of one."""
    mean, most = bench.lines_per_task(plain(bench, 160))
    assert most == 2
    assert mean == pytest.approx(1 / 2 + 1 / 16, abs=2 / 160)
    awaited = bench.tables_of([[(k, [k - 1] if k else []) for k in range(160)]])
    assert bench.lines_per_task(awaited)[1] == 2


def test_tasks_lie_on_one_line_each(tmp_path: Path) -> None:
    """Also where tables are compiled in, and a compiler places them."""
    write_emission(tiny(), tmp_path, "it")
    main = '#include <stdio.h>\n#include "it.h"\nint main(void) { printf("%d", (int)((size_t)it_tasks % 64u)); }\n'
    (tmp_path / "main.c").write_text(main, encoding="utf-8")
    for how in ("gcc", "clang"):
        compile_c(how, tmp_path / "main.c", tmp_path / "it.c", "-o", tmp_path / how)
        assert subprocess.run([tmp_path / how], capture_output=True, text=True, check=True).stdout == "0"


@pytest.mark.slow
def test_few_packets_are_between_two_kernels(bench: Any) -> None:
    found = bench.packets_per_task({"dispatch": lambda n: plain(bench, n)})["dispatch"]
    if found is None:
        pytest.skip("clang for Hexagon or qemu-hexagon is missing")
    assert 10 < found <= PACKETS
