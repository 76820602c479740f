"""How fast is the smallest interval of a real loop found and proven?

Instances: the loops of HatScheT (Oppermann et al., modulo schedulers for high-level synthesis) beside the repository,
of at most ``--most-ops`` ops. Rows: name, ops, ii (ticks), bound (the best arithmetic bound), bound_by, proven (no
smaller interval does), by (list: no solver was needed), seconds (wall, until ii was proven), length (ticks of the
shortest iteration found with it), length_proven, length_seconds, ok (the checker agrees). The summary has loops,
proven, and the most seconds. ``--quick`` ends in under 50 s.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from hatschet import INSTANCES, loops

from hexloom.formulations.periodic.modulo import modulo_schedule
from hexloom.optimizer.check_periodic import check_modulo

if TYPE_CHECKING:
    from hexloom.formulations.periodic.loop import Loop

QUICK_LENGTH_S = 3.0
"""For the shortest iteration of each loop of ``--quick``."""


def _row(loop: Loop, limit_s: float, length_s: float) -> dict[str, Any]:
    started = time.monotonic()
    proof = modulo_schedule(loop, limit_s, shortest=False)
    proven_s = time.monotonic() - started
    started = time.monotonic()
    result = modulo_schedule(loop, length_s) if proof.status == "OPTIMAL" else proof
    return {
        "name": loop.name,
        "ops": len(loop.ops),
        "ii": proof.ii_ticks,
        "bound": str(proof.bounds[0].ticks),
        "bound_by": proof.bounds[0].name,
        "proven": proof.status == "OPTIMAL",
        "by": proof.attempts[-1].by,
        "seconds": round(proven_s, 3),
        "length": result.length_ticks,
        "length_proven": result.length_proven,
        "length_seconds": round(time.monotonic() - started, 3),
        "ok": result.schedule is not None and check_modulo(loop, result.schedule) == [],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little time for the shortest iterations")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds per loop and question")
    parser.add_argument("--most-ops", type=int, default=60, help="leave out larger loops")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for loop in loops(args.most_ops):
        row = _row(loop, args.time_limit, min(QUICK_LENGTH_S, args.time_limit) if args.quick else args.time_limit)
        rows.append(row)
        if not args.json:
            print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    if not rows:
        print(f"no loops in {INSTANCES.name}/ beside the repository", file=sys.stderr)
    found = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {name: version(name) for name in ("hexloom", "ortools")},
        "rows": rows,
        "summary": {
            "loops": len(rows),
            "proven": sum(row["proven"] and row["ok"] for row in rows),
            "seconds_most": max((row["seconds"] for row in rows), default=None),
        },
    }
    print(json.dumps(found, indent=1) if args.json else f"summary: {found['summary']}")


if __name__ == "__main__":
    main()
