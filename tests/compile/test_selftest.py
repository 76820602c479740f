"""The self test in C must say no to every table that was tampered with, and never crash on one."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compile.conftest import HOST
from compile.tiny import tiny
from looped import looped
from runtime.tampered import waits_of, without_wait
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom.emit import records
from hexloom.emit.files import write_emission
from hexloom.emit.records import HEADER, NONE
from hexloom.emit.rows import Await, Entry, entry_that_waits
from hexloom.emit.tables import make_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexloom.emit.rows import Tables

HERE = Path(__file__).parent
CRC_AT = 112


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[bytes]], list[str]]:
    folder = tmp_path_factory.mktemp("harness")
    write_emission(tiny(), folder, "it")
    program = folder / "harness"
    sanitize = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    HOST["gcc-c99"](*sanitize, "-I", folder, HERE / "harness.c", "-o", program)

    def say(blobs: Sequence[bytes]) -> list[str]:
        stdin = b"".join(struct.pack("<I", len(blob)) + blob for blob in blobs)
        ran = subprocess.run([program], input=stdin, capture_output=True)
        assert ran.returncode == 0, ran.stderr.decode()
        lines = ran.stdout.decode().splitlines()
        assert len(lines) == len(blobs)
        return lines

    return say


def sealed(tables: Tables) -> bytes:
    """Return the bytes with counts and checksum made right, so that only the fault itself can be found."""
    counts = {f"{record.name}_count": len(rows) for _, record, rows in tables.parts}
    return replace(tables, header=replace(tables.header, **counts)).sealed().to_bytes()


def resealed(blob: bytes) -> bytes:
    """Return the bytes with checksums that fit them."""
    blank = blob[:CRC_AT] + bytes(8) + blob[CRC_AT + 8 :]
    blank = blank[: CRC_AT + 4] + struct.pack("<I", zlib.crc32(blank[: HEADER.size_bytes])) + blank[CRC_AT + 8 :]
    return blank[:CRC_AT] + struct.pack("<I", zlib.crc32(blank)) + blank[CRC_AT + 4 :]


def test_whole_tables_pass(judge: Callable[[Sequence[bytes]], list[str]]) -> None:
    schedules = [tiny(), examples.small(), examples.hostile(), *(random_schedule(seed, 20) for seed in range(40))]
    assert judge([make_tables(s).to_bytes() for s in schedules]) == ["ok"] * len(schedules)


@pytest.mark.slow
def test_many_larger_plans_are_proven(judge: Callable[[Sequence[bytes]], list[str]]) -> None:
    """The self test finds in each table that whatever the timing nothing comes early; HEXLOOM_PLANS asks for more."""
    for start in range(0, max(100, int(os.environ.get("HEXLOOM_PLANS", "0"))), 100):
        blobs = [make_tables(random_schedule(seed, 60)).to_bytes() for seed in range(start, start + 100)]
        assert judge(blobs) == ["ok"] * 100, start


def test_who_may_overwrite_is_told_from_who_may_not(judge: Callable[[Sequence[bytes]], list[str]]) -> None:
    tables = make_tables(examples.in_place())
    strict = replace(tables, buffers=tuple(replace(b, flags=0) for b in tables.buffers))
    small = replace(tables, buffers=(replace(tables.buffers[0], bytes=1024), *tables.buffers[1:]))
    shared = "two buffers share addresses and may be alive together; the first is"
    assert judge([sealed(tables), sealed(strict), sealed(small)]) == ["ok", shared, shared]


def test_ranges_in_parts_are_watched_part_by_part(judge: Callable[[Sequence[bytes]], list[str]]) -> None:
    schedules = [examples.draining(), *(random_schedule(seed, 20, parts=True) for seed in range(40))]
    assert judge([make_tables(s).to_bytes() for s in schedules]) == ["ok"] * len(schedules)
    tables = make_tables(schedules[0])
    (whole,) = (k for k, b in enumerate(tables.buffers) if b.flags & records.BUFFER_IN_PARTS)
    plain = [replace(b, flags=0) if k == whole else b for k, b in enumerate(tables.buffers)]
    short = [replace(b, bytes=512) if k == whole + 1 else b for k, b in enumerate(tables.buffers)]
    fewer = [replace(b, flags=0) if k == whole + 3 else b for k, b in enumerate(tables.buffers)]
    unused = [replace(o, buffer=NONE) if o.buffer > whole else o for o in tables.operands]
    found = judge(
        [
            *(sealed(replace(tables, buffers=tuple(rows))) for rows in (plain, short, fewer)),
            sealed(replace(tables, operands=tuple(unused))),
        ]
    )
    assert found == [
        "two buffers share addresses and may be alive together; the first is",
        "a part lies elsewhere",
        "the parts of a buffer do not cover it",
        "a task uses a buffer, but none of its parts",
    ]


def test_every_byte_counts(judge: Callable[[Sequence[bytes]], list[str]]) -> None:
    blob = make_tables(tiny()).to_bytes()
    broken = [blob[:k] + bytes([blob[k] ^ 0x40]) + blob[k + 1 :] for k in range(len(blob))]
    assert "ok" not in judge(broken)


def test_every_wait_of_the_tiny_schedule_counts(judge: Callable[[Sequence[bytes]], list[str]]) -> None:
    """All of them order the users of two slots, through the one queue or through the other."""
    tables = make_tables(tiny())
    found = judge([sealed(without_wait(tables, k)) for k in range(len(waits_of(tables)))])
    assert judge([sealed(tables)]) == ["ok"]
    needed = [line.startswith("two buffers share addresses") for line in found]
    assert any(needed)
    # What is left are dependencies of one tile on itself: no address is reused between its ops.
    assert {line for line, is_needed in zip(found, needed, strict=True) if not is_needed} <= {"ok"}


def test_faults_are_named(judge: Callable[[Sequence[bytes]], list[str]]) -> None:
    tables = make_tables(tiny())
    t, e, q, b = tables.tasks, tables.entries, tables.queues, tables.buffers
    last = len(t) - 1
    waiting = next(k for k, task in enumerate(t) if task.wait_event != records.NONE)

    def other(**to: int) -> Tables:
        """Return the tables with another wait of the first task that has one."""
        return replace(tables, tasks=(*t[:waiting], replace(t[waiting], **to), *t[waiting + 1 :]))

    def after(at: int, event: int, threshold: int, counted: bool = False) -> Tables:
        """Return the tables with an entry more that waits, before entry ``at`` of the first queue."""
        more = (*e[:at], entry_that_waits(Await(event, threshold)), *e[at:])
        starts = (
            replace(x, first_entry=x.first_entry + (k > 0), entry_count=x.entry_count + (k == 0))
            for k, x in enumerate(q)
        )
        events = tuple(replace(x, waiters=x.waiters + (counted and k == event)) for k, x in enumerate(tables.events))
        return replace(tables, entries=more, queues=tuple(starts), events=events)

    faults = {
        "a task waits for no event that exists": other(wait_event=99),
        "a task waits for what is never triggered so often, or for nothing": other(wait_threshold=9),
        "an event has another number of waiters": other(wait_event=records.NONE),
        "an entry waits for no event that exists": after(0, 99, 1),
        "an entry waits for what is never triggered so often, or for nothing": after(0, 0, 0, counted=True),
        "an entry waits for an event, and nothing that begins follows": after(2, 0, 1, counted=True),
        "a task triggers no event that exists": replace(tables, tasks=(replace(t[0], trigger_event=77), *t[1:])),
        "a queue never comes to its end": replace(tables, entries=(e[1], e[0], *e[2:])),
        "a task is of no kind": replace(tables, tasks=(replace(t[0], kind=0), *t[1:])),
        "a task has another number of entries": replace(tables, tasks=(*t[:last], replace(t[last], slice_count=2))),
        "an entry does not fit the kind of its task": replace(
            tables, entries=(replace(e[0], action=records.WAIT), *e[1:])
        ),
        "a transfer is awaited before it is started, or by another queue": replace(
            tables, entries=(*e[:2], e[3], e[2], *e[4:])
        ),
        "entries belong to no queue": replace(tables, queues=(*q[:-1], replace(q[-1], entry_count=1))),
        "a buffer lies outside its binding": replace(tables, buffers=(replace(b[0], offset=1 << 40), *b[1:])),
        "a buffer is not aligned": replace(tables, buffers=(replace(b[0], align=4096 + 128), *b[1:])),
        "an operand is not where its buffer is": replace(
            tables, operands=(replace(tables.operands[0], offset=0), *tables.operands[1:])
        ),
        "a buffer lies on a resident one": replace(tables, buffers=(*b[:-1], replace(b[-1], offset=4096, align=1))),
        "the slices of a task are not counted up": replace(
            tables, entries=tuple(Entry(x.task, x.action, 0, 1 if k == 0 else x.slice) for k, x in enumerate(e))
        ),
        "these are not tables of hexloom": replace(tables, header=replace(tables.header, magic=1)),
        "the tables have another ABI": replace(tables, header=replace(tables.header, abi_major=7)),
        "the records have other sizes": replace(tables, header=replace(tables.header, task_bytes=65)),
        "a binding is larger than the scratchpad": replace(tables, header=replace(tables.header, vtcm_bytes=1)),
    }
    said = judge([sealed(fault) for fault in faults.values()])
    assert dict(zip(faults, said, strict=True)) == {name: name for name in faults}


def test_no_bytes_make_it_crash(judge: Callable[[Sequence[bytes]], list[str]]) -> None:
    """Under the sanitizers: wrong bytes behind a right checksum, and counts moved between the tables."""
    rng = random.Random(5)
    blobs = []
    flat = [make_tables(schedule) for schedule in (tiny(), random_schedule(3, 20), random_schedule(5, 20))]
    for tables in (*flat, looped("sliced")[1], looped("two")[1]):
        blob = tables.to_bytes()
        for _ in range(700):
            wrong = bytearray(blob)
            for _ in range(rng.choice((1, 1, 2, 5))):
                at = rng.randrange(HEADER.size_bytes, len(wrong)) if rng.random() < 0.9 else rng.randrange(40, 100)
                wrong[at] = rng.choice((0, 1, 255, rng.randrange(256)))
            blobs.append(resealed(bytes(wrong)))
    assert len(set(judge(blobs))) > 15


@pytest.mark.parametrize("table", ["entries", "operands", "tasks"])
def test_a_changed_number_in_the_source_fails_the_program(table: str, tmp_path: Path) -> None:
    write_emission(tiny(), tmp_path, "it")
    source = (tmp_path / "it.c").read_text(encoding="utf-8")
    start = source.index(f"it_{table}[")
    at = source.index("{", source.index("{", start) + 1) + 1
    assert source[at] in "0123456789"
    changed = source[:at] + ("7" if source[at] != "7" else "8") + source[at + 1 :]
    (tmp_path / "it.c").write_text(changed, encoding="utf-8")
    HOST["gcc-c99"](tmp_path / "it.c", tmp_path / "it_selftest.c", "-o", tmp_path / "test")
    ran = subprocess.run([tmp_path / "test"], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stdout == "it: FAILED: the checksum does not fit the tables (0)\n"
