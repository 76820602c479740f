"""How long does it take to pack buffers of fixed lifetimes into 1 MiB that they nearly fill?

Instances: minimalloc's eleven, and twenty made from them (`packings.warped_packing`, from ``--first-seed`` on, 0 if not
given). The views of the exact search were picked on minimalloc's and on seeds up to 39; ``--first-seed 40`` gives
twenty on which nothing was tuned. Rows: name, buffers, peak (bytes alive at once / capacity), seconds (wall, of
`hexloom.pack` with its check), cpu_seconds (of all its processes), ok (packed, and the checker agrees), found_by, and
for minimalloc's own minimalloc_s: what its C++ took when it was measured once on a quiet machine of two cores (commit
9f5cf81, Release build, g++ 12). The summary has solved, of, and the geometric means of seconds. ``--quick`` ends in
under 50 s.

``--orders`` asks another question instead: in which order must CP-SAT give blocks their offsets? Rows: name, order,
seconds (wall, of CP-SAT alone), ok; one for each of the twenty and each order. The order by life was once picked on
minimalloc's instances; here it is seen on others, where the order by area is as good.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from packings import CAPACITY_BYTES, LETTERS, Row, minimalloc, warped_packing

from hexloom import Buffer, pack
from hexloom.formulations.packing.block import Block
from hexloom.formulations.packing.rectangles import RectanglesJob, solve_rectangles
from hexloom.optimizer.check_memory import check_packing

MINIMALLOC_S = dict(zip(LETTERS, (4.57, 3.58, 0.60, 2.41, 3.28, 4.65, 0.99, 1.59, 3.59, 0.76, 0.53), strict=True))
"""Seconds of minimalloc's own C++ by instance; see above."""

BY = ("life", "area", "size")
"""Orders that ``--orders`` compares: the longest-lived first, the largest by bytes times life, the largest."""

QUICK = (tuple(LETTERS), (0, 2, 5, 16, 18))
"""What ``--quick`` runs: all of minimalloc's, and a few of the others."""

QUICK_LIMIT_S = 40.0
"""For all instances of ``--quick`` together."""


def _row(name: str, rows: list[Row], limit_s: float) -> dict[str, Any]:
    buffers = [Buffer(name=f"b{k}", size_bytes=row.size) for k, row in enumerate(rows)]
    lifetimes = [(row.lower, row.upper) for row in rows]
    started, worked = time.monotonic(), _cpu()
    result = pack(buffers, lifetimes, CAPACITY_BYTES, time_limit_s=limit_s)
    return {
        "name": name,
        "buffers": len(buffers),
        "peak": round(result.lower_bound_bytes / CAPACITY_BYTES, 4),
        "seconds": round(time.monotonic() - started, 3),
        "cpu_seconds": round(_cpu() - worked, 3),
        "ok": result.status == "PACKED",
        "found_by": result.found_by,
    }


def _cpu() -> float:
    """Return the seconds that this process and those that it has ended have worked, however busy the machine."""
    return sum(used.ru_utime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _order_row(seed: int, order: str, limit_s: float) -> dict[str, Any]:
    rows = warped_packing(seed)
    blocks = tuple(Block(row.lower, row.upper, row.size) for row in rows)
    found: list[tuple[int, ...]] = []
    started = time.monotonic()
    solve_rectangles(RectanglesJob(blocks, CAPACITY_BYTES, limit_s, order=order), found.append)
    seconds = round(time.monotonic() - started, 3)
    faults: list[str] = []
    if found:
        buffers = [Buffer(name=f"b{k}", size_bytes=row.size) for k, row in enumerate(rows)]
        lifetimes = [(row.lower, row.upper) for row in rows]
        check_packing(buffers, lifetimes, found[0], CAPACITY_BYTES, lambda _kind, _who, text: faults.append(text))
    ok = bool(found) and not faults
    return {"name": f"warped_{seed}", "order": order, "seconds": seconds, "ok": ok}


def _order_summary(rows: list[dict[str, Any]], limit_s: float) -> dict[str, Any]:
    """Return how many each order solves; one that finds nothing counts with the whole limit in the mean."""
    found: dict[str, Any] = {"of": len({row["name"] for row in rows}), "limit_s": limit_s}
    for order in BY:
        mine = [row for row in rows if row["order"] == order]
        found[f"{order}_solved"] = sum(row["ok"] for row in mine)
        found[f"{order}_seconds_geomean"] = _mean([row["seconds"] if row["ok"] else limit_s for row in mine])
    return found


def _mean(values: list[float]) -> float | None:
    return round(math.exp(sum(map(math.log, values)) / len(values)), 3) if values else None


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    own = [row for row in rows if "minimalloc_s" in row]
    others = [row for row in rows if "minimalloc_s" not in row]
    return {
        "minimalloc_solved": sum(row["ok"] for row in own),
        "minimalloc_of": len(own),
        "seconds_geomean": _mean([row["seconds"] for row in own]),
        "cpu_seconds_geomean": _mean([row["cpu_seconds"] for row in own]),
        "minimalloc_s_geomean": _mean([row["minimalloc_s"] for row in own]),
        "others_solved": sum(row["ok"] for row in others),
        "others_of": len(others),
        "others_seconds_geomean": _mean([row["seconds"] for row in others]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few instances, little time")
    parser.add_argument("--orders", action="store_true", help="compare orders of CP-SAT on the generated instances")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--first-seed", type=int, default=0, help="first of the twenty generated instances")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per instance")
    args = parser.parse_args()
    rows = _orders(args) if args.orders else _packings(args)
    found = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {name: version(name) for name in ("hexloom", "ortools", "numpy")},
        "rows": rows,
        "summary": _order_summary(rows, args.time_limit) if args.orders else _summary(rows),
    }
    print(json.dumps(found, indent=1) if args.json else f"summary: {found['summary']}")


def _packings(args: argparse.Namespace) -> list[dict[str, Any]]:
    letters, seeds = QUICK if args.quick else (tuple(LETTERS), range(args.first_seed, args.first_seed + 20))
    ends = time.monotonic() + QUICK_LIMIT_S
    rows: list[dict[str, Any]] = []
    for name, seed in [*((letter, None) for letter in letters), *((f"warped_{seed}", seed) for seed in seeds)]:
        limit = min(args.time_limit, max(0.1, ends - time.monotonic())) if args.quick else args.time_limit
        row = _row(name, minimalloc(name) if seed is None else warped_packing(seed), limit)
        if seed is None:
            row["minimalloc_s"] = MINIMALLOC_S[name]
        rows.append(_told(row, args))
    return rows


def _orders(args: argparse.Namespace) -> list[dict[str, Any]]:
    seeds = QUICK[1] if args.quick else range(args.first_seed, args.first_seed + 20)
    return [_told(_order_row(seed, order, args.time_limit), args) for seed in seeds for order in BY]


def _told(row: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    if not args.json:
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    return row


if __name__ == "__main__":
    main()
