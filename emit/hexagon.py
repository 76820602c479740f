"""Builds runtime, tables and kernels for Hexagon with clang, and runs them in an emulator.

No vendor SDK: clang and lld of a distribution, for what they do not know those of ziglang from PyPI, and qemu-hexagon.
That one knows threads and the vector unit, but neither user DMA nor cycle counters. So its times say nothing; that
results are right on this instruction set, it does say.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hexloom.emit.flow import flow_words
from hexloom.emit.host import RUNTIME, HostRun, call, measured_of, write_runtime
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.emit.job import Job
    from hexloom.emit.numbers import Numbers

ARCHITECTURES = ("v68", "v69", "v71", "v73", "v75", "v79", "v81")
NEWEST = "v73"
"""What clang of release 19 and the emulator know; what is built for later ones runs there as this."""

CLANGS = ("clang-19", "clang-20", "clang-18", "clang-17", "clang-16", "clang")
OLDEST_QEMU = 10
"""Release 7.2 leaves out the release stores of v68 and later."""

FLAGS = (
    *("--target=hexagon-unknown-none-elf", "-mhvx", "-mhvx-length=128B", "-G0", "-O2", "-std=c11", "-DHEXLOOM_BARE"),
    *("-ffreestanding", "-fno-builtin"),
)
LINK = ("-nostdlib", "-fuse-ld=lld", "-static")
SLOWER = 100
"""How many times longer than on a host the deadlines are."""

PROGRAM = (
    "hexloom_kernels.c",
    "hexloom_numeric.c",
    "hexloom_late.c",
    "hexloom_flow.c",
    "hexloom_hexraw.c",
    "hexloom_hexmain.c",
)
RECORD = struct.Struct("<IQQIHHII")
"""A queue, and one `hexloom_record`."""


def find_emulator() -> str:
    """Return qemu-hexagon: ``HEXLOOM_QEMU``, or the one on the path.

    Raises
    ------
    InvalidInputError
        There is none, or it is too old.
    """
    wanted = os.environ.get("HEXLOOM_QEMU", "qemu-hexagon")
    found = shutil.which(wanted)
    if found is None:
        raise InvalidInputError(
            f"no emulator: {wanted} is not on the path; install qemu-user {OLDEST_QEMU} or newer (Debian 13, or the "
            "backports of Debian 12), or name it in HEXLOOM_QEMU"
        )
    said = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    version = re.search(r"version (\d+)\.", said)
    if version is None or int(version[1]) < OLDEST_QEMU:
        raise InvalidInputError(
            f"{found} is {said.strip()[:60] or 'no qemu'}: release {OLDEST_QEMU} or newer is needed"
        )
    return found


def find_clang() -> str:
    """Return a clang that knows v73; raises InvalidInputError when there is none, or no linker beside it."""
    found = next((path for name in CLANGS if (path := shutil.which(name))), None)
    if found is None:
        raise InvalidInputError(
            f"no compiler for Hexagon: none of {', '.join(CLANGS)} is on the path; install clang-19"
        )
    return found


def find_zig() -> Path:
    """Return the program of ziglang, whose clang and lld know v75 and later.

    Raises
    ------
    InvalidInputError
        It is not installed.
    """
    spec = find_spec("ziglang")
    found = None if spec is None or spec.origin is None else Path(spec.origin).parent / "zig"
    if found is None or not found.exists():
        raise InvalidInputError(
            f"no compiler for Hexagon after {NEWEST}: ziglang is not installed; pip install ziglang, or name {NEWEST}"
        )
    return found


def build_device(folder: Path, arch: str, defines: Sequence[str] = ()) -> None:
    """Compile the sources in ``folder`` for ``arch``, with what ``defines`` says, and link them into ``device``.

    Raises
    ------
    InvalidInputError
        A tool is missing, or refuses the sources.
    """
    flags, sources = [*FLAGS, f"-mcpu=hexagon{arch}", *defines], [*RUNTIME, *PROGRAM]
    if arch <= NEWEST:
        call([find_clang(), *flags, *LINK, *sources, "-o", "device"], folder, "clang failed")
        return
    zig = find_zig()
    headers = str(zig.parent / "lib" / "include")
    for name in sources:
        call(
            [str(zig), "clang", *flags, "-isystem", headers, "-c", name, "-o", f"{name}.o"], folder, "zig clang failed"
        )
    call(
        [str(zig), "ld.lld", "-static", *(f"{name}.o" for name in sources), "-o", "device"], folder, "zig ld.lld failed"
    )


def run_on_hexagon(
    job: Job,
    folder: Path,
    arch: str,
    numbers: Numbers | None,
    *,
    runs: int = 1,
    seed: int = 0,
    timeout_ms: int = 10_000,
) -> HostRun:
    """Build the program for ``arch`` in ``folder``, and run it in the emulator, with deadlines as slow as it is.

    It is one of ARCHITECTURES; code for those after NEWEST runs as that one.

    Raises
    ------
    InvalidInputError
        When a tool is missing, the program cannot be built, or it does not run.
    """
    if arch not in ARCHITECTURES:
        raise InvalidInputError(f"--target hexagon-{arch}: compilers are there for {', '.join(ARCHITECTURES)} only")
    emulator = find_emulator()
    write_runtime(folder)
    files = {
        "tables": job.tables.to_bytes(),
        "plain": job.plain.to_bytes(),
        "flow": flow_words(job.problem, job.plain) if numbers is None else b"",
        "numbers": b"" if numbers is None else numbers.words,
        "memory": b"" if numbers is None else numbers.memory,
    }
    for name, data in files.items():
        (folder / f"{name}.bin").write_bytes(data)
    records = runs * max((2 * queue.entry_count for queue in job.plain.queues), default=0)
    values = {"RECORDS": records, "RUNS": runs, "SEED": seed + 1, "TIMEOUT_MS": timeout_ms * SLOWER}
    defines = [f"-DHEXLOOM_{name}={value}" for name, value in values.items()]
    if job.parameters:
        defines.append("-DHEXLOOM_PARAMETERS=" + ",".join(f"{value}u" for value in job.parameters))
    build_device(folder, arch, defines)
    said = json.loads(
        call([emulator, "-cpu", min(arch, NEWEST), "./device"], folder, "the emulated program failed", (0, 1))
    )
    rows = [
        (queue, task, piece, phase, executed, start, end)
        for queue, start, end, _, phase, piece, executed, task in RECORD.iter_unpack(_traced(folder))
    ]
    kernels: Literal["flow", "numeric"] = "flow" if numbers is None else "numeric"
    measured = measured_of(job, rows, runs=runs, kernels=kernels, target=f"hexagon-{arch}")
    wrong = [] if numbers is None or said["code"] != "OK" else numbers.faults((folder / "result.bin").read_bytes())
    return HostRun.of(job, said, measured, wrong)


def _traced(folder: Path) -> bytes:
    path = folder / "trace.bin"
    return path.read_bytes() if path.exists() else b""
