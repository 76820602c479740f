"""Lines of a ggml-hexagon profile log, one by one: what each says, in all forms from 2025 on.

v0 ``HTP0 OP names : total U us (quant …) cycles C pkts P (r) call U us``; v1 has fields between `` : ``, v2 and v3
between ``|``, six or seven of them. Text before ``ggml-hex:`` (time stamps, levels, those of other loggers) is no part.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hexloom.optimizer.traces.numbers import decimal, scaled

MARK = "ggml-hex: "
NOTHING = "----"
THREADS = 11
HMX_THREAD = 10

DEVICE = r"(?P<device>HTP\d+(?::\d+)?)"
TAIL = re.compile(
    r"(?:op-)?usec (?P<usec>\d{1,18}) (?:op-)?cycles (?P<cycles>\d{1,18})(?: start (?P<start>\d{1,19}))?"
    r"(?: mhz (?P<mhz>[\d.]{1,18}))?(?: pmu \[(?P<pmu>[\d, ]*)\])?(?: evt \[(?P<evt>[\d, ]*)\])?\s*$"
)
PROFILE = re.compile(DEVICE + r" profile-op (?P<op>[^|: ]+)(?P<mark>\||: )(?P<rest>.*)$")
EVENT = re.compile(
    DEVICE + r" trace-evt (?P<event>[\w-]+): +thread (?P<thread>\d{1,3}) +info (?P<info>\d{1,6})"
    r" +(?P<edge>start|stop) +(?P<cycles>\d{1,19})\s*$"
)
OP_EVENT = re.compile(
    DEVICE + r" trace-op (?P<op>[^ ]+): +thread (?P<thread>\d{1,3}) +event (?P<event>[\w-]+) +info (?P<info>\d{1,6})"
    r" +(?P<edge>start|stop) +(?P<cycles>\d{1,19})\s*$"
)
STATE = re.compile(
    DEVICE + r" trace-state capacity (?P<capacity>\d{1,9}) saturated-mask (?P<mask>(?:0x)?[\da-fA-F]{1,8})"
)
V0 = re.compile(
    DEVICE + r" (?P<op>[A-Z][A-Z_0-9+]*) (?P<names>.*) : total (?P<usec>\d{1,18}) us \((?P<parts>[^)]*)\)"
    r" cycles (?P<cycles>\d{1,18}) pkts (?P<packets>\d{1,18}) \([\d.]*\) call (?P<call>\d{1,18}) us\s*$"
)
COUNTS = re.compile(r"evt-cnt (?P<counts>[\d,]+)")
N_OPS = re.compile(r"n-ops (?P<n>\d{1,9})")
BANNER = re.compile(r"(?:HTP\d+(?::\d+)? )?(?P<what>hwinfo|op batching|Profiling mode \d+)\s*: (?P<text>.*)$")
HOST = re.compile(DEVICE + r" profile-host (?P<text>.*)$")
OURS = re.compile(r"(?:profile-op|trace-evt|trace-op|trace-state) ")

EVENT_NAMES = {
    0: "DMA",
    1: "L2FLUSH",
    2: "INIT",
    3: "BUFF",
    20: "HVX_COMP",
    21: "HVX_A_QUANT",
    22: "HVX_A_PREP",
    23: "HVX_W_DEQUANT",
    24: "HVX_W_PREP",
    25: "HVX_O_PROC",
    26: "HVX_FA_QK",
    27: "HVX_FA_SFM",
    28: "HVX_FA_Q_PREP",
    29: "HVX_FA_K_PREP",
    30: "HVX_FA_V_PREP",
    40: "HMX_COMP",
}


class OpLine(NamedTuple):
    """One op, or (``op`` OPBATCH) one batch; ``start`` holds the low 32 bits for ops, all for batches."""

    device: str
    op: str
    names: str
    dims: str
    types: str
    params: str
    usec: int
    cycles: int
    start: int | None
    khz: int
    pmu: tuple[int, ...]
    counts: tuple[int, ...]
    n_ops: int | None


class EventLine(NamedTuple):
    """One edge of an event of a thread; ``op`` names the op where the line does."""

    device: str
    op: str
    event: str
    thread: int
    info: int
    stops: bool
    cycles: int


class StateLine(NamedTuple):
    """How many records a thread can hold, and which threads held no more."""

    device: str
    capacity: int
    threads: tuple[int, ...]


class OldLine(NamedTuple):
    """One op of v0, with how long its parts took in microseconds."""

    device: str
    op: str
    names: str
    usec: int
    cycles: int
    parts: str


class BannerLine(NamedTuple):
    """What the log says of the machine and its settings."""

    what: str
    text: str


class BadLine(NamedTuple):
    """A line of the profile that does not have its form."""

    text: str


Line = OpLine | EventLine | StateLine | OldLine | BannerLine | BadLine


def parse_line(line: str) -> Line | None:
    """Return what a line of a log says, None when it says nothing of a profile."""
    at = line.find(MARK)
    if at < 0:
        return None
    text = line[at + len(MARK) :]
    found = _profile(text) or _event(text) or _state(text) or _old(text) or _banner(text)
    if found is None and OURS.search(text[:40]):
        return BadLine(text)
    return found


def _profile(text: str) -> OpLine | None:
    match = PROFILE.match(text)
    if match is None:
        return None
    bar = match["mark"] == "|"
    *fields, last = match["rest"].split("|" if bar else " : ")
    tail = TAIL.match(last.strip())
    if tail is None:
        return None
    fields = [_said(field) for field in fields] + [""] * 5
    batch = match["op"] == "OPBATCH"
    counts = COUNTS.search(match["rest"]) if batch else None
    n_ops = N_OPS.search(match["rest"]) if batch else None
    return OpLine(
        device=match["device"],
        op=match["op"],
        names=fields[0],
        dims=fields[1],
        types=fields[2],
        params=" | ".join(field for field in fields[4:] if field),
        usec=int(tail["usec"]),
        cycles=int(tail["cycles"]),
        start=None if tail["start"] is None else int(tail["start"]),
        khz=(scaled(decimal(tail["mhz"]), 1000) or 0) if tail["mhz"] else 0,
        pmu=_numbers(tail["pmu"]),
        counts=_numbers(counts["counts"]) if counts else (),
        n_ops=int(n_ops["n"]) if n_ops else None,
    )


def _said(field: str) -> str:
    field = field.strip()
    return "" if field == NOTHING else field


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "").replace(" ", "").split(",") if part.isdecimal() and len(part) < 19)


def _event(text: str) -> EventLine | None:
    match = EVENT.match(text)
    op = ""
    if match is None:
        match = OP_EVENT.match(text)
        if match is None:
            return None
        op = match["op"]
    name = match["event"]
    if name.isdecimal():
        name = EVENT_NAMES.get(int(name[:9]), f"event {name[:9]}")
    return EventLine(
        match["device"],
        op,
        name,
        int(match["thread"]),
        int(match["info"]),
        match["edge"] == "stop",
        int(match["cycles"]),
    )


def _state(text: str) -> StateLine | None:
    match = STATE.match(text)
    if match is None:
        return None
    given = match["mask"]
    mask = int(given, 16) if given.startswith("0x") or not given.isdecimal() else int(given)
    return StateLine(match["device"], int(match["capacity"]), tuple(t for t in range(32) if mask >> t & 1))


def _old(text: str) -> OldLine | None:
    match = V0.match(text)
    if match is None:
        return None
    return OldLine(
        match["device"], match["op"], match["names"], int(match["usec"]), int(match["cycles"]), match["parts"]
    )


def _banner(text: str) -> BannerLine | None:
    match = BANNER.match(text)
    if match is None:
        match = HOST.match(text)
        return None if match is None else BannerLine("profile-host", match["text"])
    return BannerLine(match["what"], match["text"].strip())
