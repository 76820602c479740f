"""Every example that makes a plan is executed, on this host and in the emulator: with patterns, and where it computes.

Numbers of whole matmuls take many minutes in the emulator, so tasks that compute are smaller: of the same kernels, with
the same chunks of columns, and a part of the rows and columns. HEXLOOM_WHOLE_EXAMPLES=1 runs all as they are, with
patterns on both and numbers on this host.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from bench import bench

from hexloom.cli import main
from hexloom.emit.c_tables import tables_of
from hexloom.emit.hexagon import CLANGS, find_clang, find_emulator
from hexloom.optimizer.errors import InvalidInputError
from hexloom.schedules import load_any_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

WHOLE = os.environ.get("HEXLOOM_WHOLE_EXAMPLES", "0") != "0"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLANS = (
    "ffn_and_norm/workload.yaml",
    "ffn_and_norm/x6.yaml",
    "joint_choice/joint.yaml",
    "joint_choice/one_by_one.yaml",
    "llama_matmul_and_norm/workload.yaml",
    "million_tiles/workload.yaml",
    "moe_experts/workload.yaml",
    "prefill_and_decode/workload.yaml",
)
SMALLER: dict[str, dict[str, dict[str, int]]] = {
    "joint_choice/joint.yaml": {"matmul": {"k": 256, "n": 288}},
    "joint_choice/one_by_one.yaml": {"matmul": {"k": 256, "n": 672}},
    "llama_matmul_and_norm/workload.yaml": {
        "matmul": {"m": 70, "m_chunk": 96, "k": 256, "n": 736},
        "rmsnorm": {"rows": 70},
    },
    "million_tiles/workload.yaml": {"matmul": {"m": 32, "m_chunk": 32, "k": 128}, "norm": {"cols": 256}},
    "prefill_and_decode/workload.yaml": {
        "prefill": {"m": 70, "m_chunk": 96, "k": 256, "n": 448},
        "decode": {"k": 256, "n": 256},
    },
}
"""What of tasks is smaller, where their kernels compute; the last chunk of each stays a part of one."""

SIX_TIMES = ("ffn_and_norm/x6.yaml",)
"""The same layer as in another example, more often: in the emulator only with all of the others as they are."""

COMPILER = '''#!{python}
"""A compiler that remembers the objects of what is the same in every program, and is quick."""
import os, subprocess, sys
CHOSEN = tuple("-DHEXLOOM_" + name for name in ("RECORDS", "RUNS", "SEED", "TIMEOUT_MS", "PARAMETERS"))
arguments, made = sys.argv[1:], []
flags = [a for a in arguments if a.startswith("-") and a != "-o" and not a.startswith((*CHOSEN, "-nostd", "-fuse"))]
for a in arguments:
    if a.startswith("hexloom_") and a.endswith(".c") and a != "hexloom_hexmain.c":
        kept = os.path.join({cache!r}, a + ".o")
        if not os.path.exists(kept):
            subprocess.run([{compiler!r}, *flags, "-O1", "-c", a, "-o", kept], check=True)
        a = kept
    made.append(a)
os.execv({compiler!r}, [{compiler!r}, *made, "-O1"])
'''


@pytest.fixture(scope="module")
def compilers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of compilers to find before all others."""
    folder = tmp_path_factory.mktemp("compilers")
    found = {name: path for name in ("cc", *CLANGS) if (path := shutil.which(name))}
    for name, path in found.items():
        cache = tmp_path_factory.mktemp("objects")
        wrapper = folder / name
        wrapper.write_text(COMPILER.format(python=sys.executable, cache=str(cache), compiler=path), encoding="utf-8")
        wrapper.chmod(0o700)
    return folder


@pytest.fixture
def run(
    compilers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    monkeypatch.setenv("PATH", str(compilers), prepend=":")
    monkeypatch.setenv("CC", "cc")

    def one(work: Path, target: str, *, numbers: bool) -> str:
        """Solve a workload where that is not done yet, run its plan, and return what was said last."""
        schedule = tmp_path / "schedule.json"
        if not schedule.exists():
            assert main(["solve", str(work), "-o", str(tmp_path), "--time-limit", "0.3s", "--seed", "1", "-q"]) == 0
        arguments = ["run", str(schedule), "--target", target, *(["--workload", str(work)] if numbers else [])]
        capsys.readouterr()
        assert main(arguments) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return one


def emulated() -> str:
    try:
        find_emulator(), find_clang()
    except InvalidInputError as missing:
        pytest.skip(str(missing))
    return "hexagon-v73"


def test_no_example_with_a_plan_is_left_out() -> None:
    """Plans are made of workloads; those of the gallery, of pipelines and of streams are looked at elsewhere."""
    found = {
        str(path.relative_to(EXAMPLES))
        for path in EXAMPLES.glob("*/*.yaml")
        if "hexloom.workload/1" in path.read_text(encoding="utf-8")
    }
    assert found == set(PLANS)


@pytest.mark.parametrize("name", PLANS)
def test_an_example_runs_on_this_host_and_in_the_emulator(name: str, run: Callable[..., str], tmp_path: Path) -> None:
    data: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    computes = name in SMALLER
    for task in data["tasks"] if computes and not WHOLE else ():
        task |= SMALLER[name][task["name"]]
    work = tmp_path / "workload.yaml"
    work.write_text(yaml.safe_dump(data), encoding="utf-8")
    for target in ("host",) if name in SIX_TIMES and not WHOLE else ("host", emulated()):
        said = run(work, target, numbers=False)
        assert "found what it should in its buffers, and nothing that was needed was overwritten" in said
        if computes and not (WHOLE and target != "host"):
            assert "are those of numpy" in run(work, target, numbers=True)
    tables = tables_of(load_any_schedule(tmp_path / "schedule.json"))
    assert bench("dispatch_packets").lines_per_task(tables)[1] <= 2
