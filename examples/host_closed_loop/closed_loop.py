"""The loop closed on this host, once: look, calibrate, solve, run, compare. Writes all files of it to a folder.

    python examples/host_closed_loop/closed_loop.py OUT

`benchmarks/host_closed_loop.py` does the same under a protocol that noise cannot fool, and gives a verdict.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

from plans import (
    RATIOS,
    Units,
    first_look,
    first_plan,
    our_plan,
    pair_points,
    point_job,
    seeded,
    solo_points,
    with_classes,
    work_of,
    workload,
)
from rich.console import Console
from session import CLASSES, Job, Session, trace_of

from hexloom import compare, load_hw
from hexloom.emit.calibration_table import calibration_table
from hexloom.emit.comparison_table import comparison_table
from hexloom.optimizer.schedule import write_together
from hexloom.optimizer.traces.calibrate import calibrate, machine_yaml
from hexloom.optimizer.traces.first_values import first_values
from hexloom.optimizer.traces.observe import Observations

HERE = Path(__file__).parent
RUNS = 7


def main() -> None:
    """Run the loop once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="which workload")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    guess = with_classes(load_hw(HERE / "machine" / "host.yaml"), dict.fromkeys(CLASSES, 10.0))
    like = first_plan(guess)
    with Session([point_job(name, tasks, guess, like) for name, tasks in first_look().items()]) as session:
        unit_us = {}
        for job, name in zip(session.of, CLASSES, strict=True):
            spans = [row[5] - row[4] for one in session.run(job.name, 5)[1:] for row in one.rows if row[3] == 2]
            unit_us[name] = median(spans) / 16_000
    units, guess = Units(unit_us), with_classes(load_hw(HERE / "machine" / "host.yaml"), unit_us)
    shapes = {**solo_points(units), **pair_points(units, RATIOS, "pair")}
    points = [point_job(name, tasks, guess, like) for name, tasks in shapes.items()]
    with Session(points) as session:
        runs = {job.name: [one for one in session.run(job.name, RUNS + 1)[1:] if one.clean] for job in points}
    seen = [(j.workload, j.schedule, [trace_of(j, runs[j.name])]) for j in points if runs[j.name]]
    if not seen:
        sys.exit("no execution was left alone; run it on an idle machine")
    started, _ = first_values(guess, [Observations(*one) for one in seen])
    found, host = calibrate(started, seen)
    for part in calibration_table(found):
        console.print(part)
    tasks = seeded(args.seed, units)
    work = workload(f"w{args.seed}", tasks)
    schedule = our_plan(work, host, 2.0, args.seed)
    job = Job("run", work, schedule, work_of(tasks))
    with Session([job]) as session:
        trace = trace_of(job, session.run("run", RUNS + 1)[1:])
    compared = compare(schedule, trace, machine=host)
    for part in comparison_table(compared, "this host"):
        console.print(part)
    args.out.mkdir(parents=True, exist_ok=True)
    texts = {
        "host.yaml": machine_yaml(host),
        "workload.json": work.to_json(),
        "schedule.json": schedule.to_json(),
        "comparison.json": compared.to_json(),
    }
    write_together({args.out / name: text for name, text in texts.items()})
    console.print(f"wrote {', '.join(texts)} to {args.out}")


if __name__ == "__main__":
    main()
