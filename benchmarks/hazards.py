"""How long does it take to find the hazards among 100,000 regions, and to see which of them no edge orders?

Shapes: tiles side by side, tiles read back in order, random ranges of 100 tensors, columns between columns, strides
that are not in step. Rows: shape, regions, pairs (that meet), find_s, resolve_s (find and order). ``--quick`` takes
20,000.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from importlib.metadata import version
from typing import Any

from hexloom.formulations.problem import Region
from hexloom.optimizer.hazards import find_hazards, resolve

Ops = list[tuple[Region, ...]]


def _tiles(count: int, kinds: str = "rw") -> Ops:
    names = {"r": "read", "w": "write"}
    return [
        (Region(tensor="x", kind=names[kinds[k % len(kinds)]], offset_bytes=4096 * k, row_bytes=4096),)
        for k in range(count)
    ]


def _ranges(count: int, chance: random.Random) -> Ops:
    return [
        (
            Region(
                tensor=f"t{chance.randrange(100)}",
                kind=chance.choice(["read", "write"]),
                bypass=chance.random() < 0.5,
                offset_bytes=chance.randrange(10**7),
                row_bytes=chance.randrange(1, 4096),
            ),
        )
        for _ in range(count)
    ]


def _columns(count: int) -> Ops:
    """Return blocks of 30 rows, each in 500 columns of 64 bytes."""
    return [
        (
            Region(
                tensor="x",
                kind="write",
                offset_bytes=k // 500 * 960_000 + k % 500 * 64,
                row_bytes=64,
                rows=30,
                stride_bytes=32_000,
            ),
        )
        for k in range(count)
    ]


def _uneven(count: int, chance: random.Random) -> Ops:
    return [
        (
            Region(
                tensor="x",
                kind=chance.choice(["read", "write"]),
                offset_bytes=2000 * k + chance.randrange(100),
                row_bytes=16,
                rows=chance.randrange(1, 40),
                stride_bytes=chance.randrange(100, 400),
            ),
        )
        for k in range(count)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer regions")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    count, chance = 20_000 if args.quick else 100_000, random.Random(1)
    half = count // 2
    free: list[tuple[int, ...]] = [()] * count
    shapes: dict[str, tuple[Ops, list[tuple[int, ...]]]] = {
        "tiles": (_tiles(count), free),
        "read_back": (_tiles(half, "w") + _tiles(half, "r"), [(k - half,) if k >= half else () for k in range(count)]),
        "ranges": (_ranges(count, chance), free),
        "columns": (_columns(count), free),
        "uneven": (_uneven(count, chance), free),
    }
    rows: list[dict[str, Any]] = []
    for shape, (ops, before) in shapes.items():
        started = time.perf_counter()
        found = find_hazards(ops)
        find_s = time.perf_counter() - started
        started = time.perf_counter()
        resolve([str(k) for k in range(count)], before, ops, "report")
        resolve_s = time.perf_counter() - started
        row = {"shape": shape, "regions": count, "pairs": len(found)}
        rows.append({**row, "find_s": round(find_s, 3), "resolve_s": round(resolve_s, 3)})
        if not args.json:
            print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    answer = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {name: version(name) for name in ("hexloom", "numpy")},
        "rows": rows,
        "summary": {"find_s_max": max(row["find_s"] for row in rows)},
    }
    print(json.dumps(answer, indent=1) if args.json else f"summary: {answer['summary']}")


if __name__ == "__main__":
    main()
