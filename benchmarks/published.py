"""What was measured and published, beside what the model predicts: one model, fewer parameters than points.

Rows: name, source, predicted, published, unit, spread (relative, None where none is published), used_to_fit. Rows of
fusion also have ``fuse`` and ``fuse_published``: whether it pays. Nothing here searches for long: what people ran is
simulated as they ran it, and whether to fuse is a problem of two ops. ``--json`` prints one object.

Hexagon rows (all but those of fusion) are judged: each within 10 %, or within its spread where that is wider, and a
median of at most 10 % over those that no number was fitted to. What the same sources publish and no machine file covers
is listed with the reason (`published_stages.py`).
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict, dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

from published_stages import COVERED, LEFT_OUT, LFM2, LFM2_MHZ, MATMULS

from hexloom import Workload, load_hw, solve
from hexloom.formulations.problem import Engine, Interference, Mode, Op, Precedence, Problem, Use
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.lower import TaskLoop, lower


@dataclass(frozen=True)
class Row:
    """One published number and its prediction."""

    name: str
    source: str
    predicted: float
    published: float
    unit: str
    spread: float | None
    used_to_fit: bool
    fuse: bool | None = None
    fuse_published: bool | None = None

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predicted / self.published - 1


# --- producers on HVX that feed one matrix unit (v75)

QCOM_HTP = "zzh-www/qcom_htp, engineering log, v75 at TURBO, median of repetitions 2 to 8"
HVX_UNITS, HEADS, JOBS_PER_HEAD = 4, 32, 24
JOBS = HEADS * JOBS_PER_HEAD


@dataclass(frozen=True)
class Route:
    """One variant of the kernel, in core cycles.

    ``feed_alone`` and ``feed_beside``: vector work of all jobs with one producer, and with four side by side;
    ``job`` holds the matrix unit; ``wall`` is the published time by producers.
    """

    name: str
    feed_alone: int
    feed_beside: int
    job: int
    wall: dict[int, int]


ROUTES = (
    # The feed of one producer is 4.2 % less than that of four.
    Route("pure HMX", 3_496_000, 3_643_000, 479, {1: 3_761_000, 4: 1_260_000}),
    Route("mixed ARES", 7_570_000, 9_070_000, 387, {1: 7_976_000, 4: 2_528_000}),
    # No feed of one producer is published: that of four stands for both.
    Route("mixed SHIP", 6_894_000, 6_894_000, 182, {4: 1_892_000}),
)

SERIAL = ROUTES[0].wall[1] - ROUTES[0].feed_alone
"""Cycles outside the producers' work: the one number that is fitted to a wall time, with one producer, and used for all
others. The log states 0.215 M of hand-shakes and 0.055 M of skew."""


def producers(route: Route, count: int) -> Problem:
    """Return the run of ``count`` producers, one per HVX unit, heads dealt out in turn, in ticks of one cycle.

    A producer prepares job after job and is one job ahead of the matrix unit. Two that work side by side slow each
    other by a factor of their class, which the growth of the feed from one to four says.
    """
    growth = Fraction(route.feed_beside, route.feed_alone)
    factor = Fraction(1 / float(growth) ** (1 / (HVX_UNITS - 1))).limit_denominator(1000)
    ops: list[Op] = []
    edges: list[Precedence] = []
    ticks = route.feed_alone // JOBS
    work = [
        Mode(uses=(Use(engine="hvx", ticks=ticks, unit_ids=(unit,)),), latency_ticks=ticks, op_class="producer")
        for unit in range(count)
    ]
    job = Mode(uses=(Use(engine="hmx", ticks=route.job),), latency_ticks=route.job)
    # Producers take turns at the matrix unit; within one, head follows head.
    for turn in range(-(-HEADS // count) * JOBS_PER_HEAD):
        for p in range(count):
            if turn // JOBS_PER_HEAD * count + p >= HEADS:
                continue
            ops.append(Op(name=f"prepare.{p}.{turn}", modes=(work[p],)))
            ops.append(Op(name=f"job.{p}.{turn}", modes=(job,)))
            edges.append(Precedence(before=f"prepare.{p}.{turn}", after=f"job.{p}.{turn}"))
            if turn >= 2:
                edges.append(Precedence(before=f"job.{p}.{turn - 2}", after=f"prepare.{p}.{turn}"))
    return Problem(
        name=f"{route.name}, {count} producers",
        engines=(Engine(name="hvx", units=HVX_UNITS), Engine(name="hmx")),
        interference=(Interference(victim="producer", cause="producer", factor=str(factor)),),
        ops=tuple(ops),
        precedences=tuple(edges),
        entry_ticks=SERIAL,
    )


def wall_cycles(route: Route, count: int) -> float:
    """Return the predicted wall time of ``count`` producers."""
    problem = producers(route, count)
    loop = TaskLoop(route.name, tuple(op.name for op in problem.ops), False, problem.entry_ticks)
    existing = baselines(problem, (loop,), "fluid", serial=False).existing
    assert existing is not None
    return float(existing)


def producer_rows() -> list[Row]:
    """Return the wall times of all routes."""
    return [
        Row(
            f"{route.name}, {count} producers",
            QCOM_HTP,
            wall_cycles(route, count),
            published,
            "cycles",
            None,
            route is ROUTES[0] and count == 1,
        )
        for route in ROUTES
        for count, published in route.wall.items()
    ]


# --- two kernels fused into one (HFuse)

HFUSE = "HFuse, CGO 2022, arXiv 2007.01277, scripts/data/*.json"
V100, GTX = "V100", "GTX 1080 Ti"
CLASSES = {
    **dict.fromkeys(("maxpool", "upsample", "im2col"), "stream"),
    **dict.fromkeys(("hist", "batchnorm"), "shared_memory"),
    "ethash": "memory",
    **dict.fromkeys(("blake256", "sia", "sha256"), "alu"),
}
"""What binds a kernel: streams of global memory, atomics and reductions in shared memory, random reads, arithmetic."""

ALONE_US = {
    V100: {"batchnorm": 993, "upsample": 913, "maxpool": 864, "im2col": 621, "hist": 262}
    | {"ethash": 37400, "blake256": 21560, "sia": 21700, "sha256": 16080},
    GTX: {"maxpool": 2558, "batchnorm": 2386, "upsample": 2211, "im2col": 1915, "hist": 1864}
    | {"ethash": 46160, "blake256": 30090},
}
FUSED_US = {
    (V100, "maxpool", "upsample"): 1312,
    (V100, "im2col", "maxpool"): 1456,
    (V100, "hist", "maxpool"): 1069,
    (V100, "hist", "batchnorm"): 2423,
    (V100, "ethash", "blake256"): 39930,
    (V100, "sia", "ethash"): 39760,
    (V100, "sha256", "ethash"): 39410,
    (V100, "blake256", "sia"): 45720,
    (V100, "blake256", "sha256"): 39580,
    (V100, "sha256", "sia"): 39440,
    (GTX, "maxpool", "upsample"): 3084,
    (GTX, "im2col", "maxpool"): 4059,
    (GTX, "hist", "maxpool"): 2695,
    (GTX, "hist", "batchnorm"): 6064,
    (GTX, "ethash", "blake256"): 53620,
}
"""The better of the fused variants whose split is given."""

FITTED = (
    (V100, "maxpool", "upsample"),
    (V100, "hist", "maxpool"),
    (V100, "hist", "batchnorm"),
    (V100, "ethash", "blake256"),
    (V100, "blake256", "sia"),
)
"""One pair per pair of classes, all on one device; the other ten are predicted."""

Pair = tuple[str, str, str]
"""(device, kernel, kernel)."""


def factors() -> dict[frozenset[str], Fraction]:
    """Return how fast kernels of two classes work beside each other.

    Both go at the same speed f until the shorter one ends, so the fused time is ``short / f + long - short``.
    """
    found = {}
    for device, a, b in FITTED:
        short, long = sorted((ALONE_US[device][a], ALONE_US[device][b]))
        factor = Fraction(short, FUSED_US[device, a, b] - long + short)
        found[frozenset((CLASSES[a], CLASSES[b]))] = factor.limit_denominator(10**6)
    return found


def pair_problem(pair: Pair) -> Problem:
    """Return two kernels that may share the device: an engine each, in ticks of one microsecond."""
    device, *names = pair
    ops = []
    for name in names:
        ticks = ALONE_US[device][name]
        mode = Mode(uses=(Use(engine=name, ticks=ticks),), latency_ticks=ticks, op_class=CLASSES[name])
        ops.append(Op(name=name, task=name, modes=(mode,)))
    a, b = (CLASSES[name] for name in names)
    both = dict.fromkeys(((a, b), (b, a)))
    factor = str(factors()[frozenset((a, b))])
    return Problem(
        name=f"{device}: {' + '.join(names)}",
        tick_us="1",
        engines=tuple(Engine(name=name) for name in names),
        interference=tuple(Interference(victim=v, cause=c, factor=factor) for v, c in both),
        ops=tuple(ops),
    )


def fused_us(pair: Pair) -> float:
    """Return the predicted time of the two started together."""
    device, a, b = pair
    short, long = sorted((ALONE_US[device][a], ALONE_US[device][b]))
    factor = factors()[frozenset((CLASSES[a], CLASSES[b]))]
    return float(short / factor + long - short)


def fuse_is_better(pair: Pair) -> bool:
    """Whether the best plan lets the two work at the same time."""
    result = solve(pair_problem(pair), seed=1, time_limit_s=1)
    assert result.status == "OPTIMAL" and result.schedule is not None
    first, second = sorted(result.schedule.rows, key=lambda row: row.start)
    return second.start < first.end


def fusion_rows() -> list[Row]:
    """Return all pairs; it pays to fuse where that takes less than one after the other."""
    rows = []
    for pair, published in FUSED_US.items():
        device, a, b = pair
        apart = ALONE_US[device][a] + ALONE_US[device][b]
        row = Row(f"{a} + {b} on {device}", HFUSE, fused_us(pair), published, "us", None, pair in FITTED)
        rows.append(Row(**{**asdict(row), "fuse": fuse_is_better(pair), "fuse_published": published < apart}))
    return rows


# --- kernels of the library, alone on their machine

TOLERANCE = 0.1


def alone_us(hw: str, mhz: float | None = None, **task: object) -> float:
    """Return the time of one task of the library with today's loop, its entry included, with the core at ``mhz``."""
    workload = Workload.from_data({"name": "alone", "tasks": [{"name": "task", **task}]})
    machine = load_hw(hw)
    if mhz is not None:
        machine = machine.with_values({"clocks.core_mhz": round(mhz, 3)})
    lowered = lower(workload, machine, "fluid")
    found, tick = baselines(lowered.problem, lowered.loops, "fluid", serial=False).existing, lowered.problem.tick
    assert found is not None and tick is not None
    return float(found * tick)


def kernel_rows() -> list[Row]:
    """Return kernels with a published time; only the matmul's was used for a number of a machine file."""
    rows = [
        Row(
            f"gemv q4_0 2048 x {n}, v79, six queues",
            LFM2,
            alone_us("hexagon-v79", kernel="gemv", k=2048, n=n),
            published,
            "us",
            None,
            False,
        )
        for n, published in ((6144, 145.0), (2048, 49.6))
    ]
    matmul = alone_us("hexagon-v81", kernel="matmul_w4a16", m=742, k=2048, n=6144)
    rows.append(Row("matmul q4_0 742 x 2048 x 6144, v81", "llama.cpp PR 26501", matmul, 891, "us", None, True))
    return rows


def stage_rows() -> list[Row]:
    """Return stages of single kernels, and whole matmuls of a profile, each at the clock of its row."""
    rows = [
        Row(stage.name, stage.source, stage.value(), stage.published, stage.unit, stage.spread, stage.used_to_fit)
        for stage in COVERED
    ]
    for name, (m, k, n), published, spread, used in MATMULS:
        us = alone_us("hexagon-v79", LFM2_MHZ, kernel="matmul_w4a16", m=m, k=k, n=n)
        rows.append(Row(name, LFM2, us, published, "us", spread, used))
    return rows


def judged(rows: list[Row]) -> dict[str, object]:
    """Return how many rows of Hexagon devices are within their tolerance, and the median error of the predicted."""
    predicted = [row for row in rows if not row.used_to_fit]
    far = [row.name for row in rows if abs(row.error) > max(TOLERANCE, row.spread or 0)]
    middle = median(abs(row.error) for row in predicted)
    return {
        "rows": len(rows),
        "predicted": len(predicted),
        "used_to_fit": len(rows) - len(predicted),
        "within_tolerance": len(rows) - len(far),
        "outside": far,
        "median_error": middle,
        "holds": not far and middle <= TOLERANCE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the same: it takes seconds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    devices = [*kernel_rows(), *stage_rows(), *producer_rows()]
    rows = [*devices, *fusion_rows()]
    predicted = [row for row in rows if not row.used_to_fit]
    signs = [row for row in predicted if row.fuse is not None]
    found = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {"hexloom": version("hexloom")},
        "rows": [asdict(row) for row in rows],
        "summary": {
            "predicted": len(predicted),
            "used_to_fit": len(rows) - len(predicted),
            "largest_error": max(abs(row.error) for row in predicted if row.fuse is None),
            "signs_right": sum(row.fuse == row.fuse_published for row in signs),
            "signs": len(signs),
            "hexagon": judged(devices),
        },
        "left_out": [{"what": what, "why": why} for what, why in LEFT_OUT],
    }
    if args.json:
        print(json.dumps(found, indent=1))
        return
    for row in rows:
        sign = "" if row.fuse is None else f"  fuse: {row.fuse}, published {row.fuse_published}"
        fitted = "  used to fit" if row.used_to_fit else ""
        figures = f"{row.predicted:>12,.1f} {row.published:>12,.1f} {row.unit:6} {row.error:+7.1%}"
        print(f"{row.name:44} {figures}{fitted}{sign}")
    for what, why in LEFT_OUT:
        print(f"not covered: {what}: {why}")
    print(found["summary"])


if __name__ == "__main__":
    main()
