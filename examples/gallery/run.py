"""The gallery of published systems: solves their scenarios and prints what they published beside what comes out here.

A folder holds ``scenario.yaml`` (what was published, where, and what is compared with it), and the workloads, loops,
pipelines and scripts that it runs::

    python examples/gallery/run.py              # all rows, without their slow runs
    python examples/gallery/run.py tacker aker  # some of them
    python examples/gallery/run.py --slow       # with the slow runs
    python examples/gallery/run.py --write      # and the tables of README.md anew (with the slow runs)
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError
from scenario import Claim, Outcome, Run, Scenario, Value, meets, runs_of, value_of

from hexloom import InvalidInputError, Result, Workload, check_pipeline, load_hw, solve
from hexloom.emit.summary import busy_fractions
from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.periodic.loop import Loop
from hexloom.formulations.periodic.modulo import modulo_schedule
from hexloom.optimizer.check_periodic import check_modulo
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.pipeline.model import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

GALLERY = Path(__file__).resolve().parent
SEED = 1


@dataclass(frozen=True)
class Answered:
    """A claim, what came out here, and whether that meets it."""

    claim: Claim
    ours: Value
    holds: bool

    @property
    def as_expected(self) -> bool:
        """Whether it holds where the scenario says so, and only there."""
        return self.holds is not bool(self.claim.differs)


@dataclass(frozen=True)
class Row:
    """One system with the answers to its claims; ``left_out`` are those that need slow runs."""

    folder: str
    scenario: Scenario
    answers: tuple[Answered, ...]
    left_out: int

    @property
    def verdict(self) -> str:
        """``works``, or how many of the claims are not met."""
        missed = sum(not answer.holds for answer in self.answers)
        return f"differs in {missed} of {len(self.answers)}" if missed else "works"


# --- reading --------------------------------------------------------------------------------------------


def folders() -> list[str]:
    """Return the names of all systems, in alphabetical order."""
    return sorted(path.parent.name for path in GALLERY.glob("*/scenario.yaml"))


def load(folder: str) -> Scenario:
    """Read the scenario of a folder.

    Raises
    ------
    InvalidInputError
        One line with what is wrong.
    """
    path = GALLERY / folder / "scenario.yaml"
    try:
        return Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InvalidInputError(f"{path.name} of {folder!r}: {error.strerror}; known: {', '.join(folders())}") from None
    except ValidationError as error:
        raise InvalidInputError(f"{folder}/{path.name}: {explain(error)}") from None


def _data(folder: str, name: str, run: Run) -> Any:
    data = yaml.safe_load((GALLERY / folder / name).read_text(encoding="utf-8"))
    for path, value in run.set.items():
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        place = data
        for part in parents:
            place = place[part]
        if isinstance(place, dict) and last not in place:
            raise InvalidInputError(f"{folder}/{name}: set {path!r}, but there is no such key to change")
        place[last] = value
    if run.tasks:
        data["tasks"] = [task for task in data["tasks"] if task["name"] in run.tasks]
    return data


# --- running --------------------------------------------------------------------------------------------


def outcome(folder: str, run: Run, guard: Guard | None = None) -> Outcome:
    """Do one run with the library; loops are solved in the process of ``guard``.

    Raises
    ------
    InvalidInputError
        Something is wrong in a file; one line.
    """
    if run.workload is not None:
        work = Workload.from_data(_data(folder, run.workload, run), f"{folder}/{run.workload}")
        machine = load_hw(work.hw or "h100-sm").with_values(run.machine)
        result = solve(
            work, machine, contention=run.contention, time_limit_s=run.time_limit_s, seed=SEED, explained=False
        )
        return of_result(result)
    if run.loop is not None:
        return of_loop(Loop.model_validate(_data(folder, run.loop, run)), run.time_limit_s, guard)
    if run.pipeline is not None:
        report = check_pipeline(Pipeline.from_data(_data(folder, run.pipeline, run)))
        return {"status": report.status, "kind": "" if report.broken is None else report.broken.fault.kind}
    return dict(_script(folder, str(run.script), run.call)(**run.with_))


def _script(folder: str, name: str, function: str) -> Callable[..., Outcome]:
    spec = importlib.util.spec_from_file_location(f"gallery_{folder}", GALLERY / folder / name)
    if spec is None or spec.loader is None:
        raise InvalidInputError(f"{folder}/{name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    found: Callable[..., Outcome] = getattr(module, function)
    return found


def of_result(result: Result) -> Outcome:
    """Return what a solved and checked schedule comes to; of a workload that cannot run only its ``status``."""
    schedule = result.schedule
    if schedule is None:
        return {"status": result.status}
    gain, us = schedule.gain, schedule.us
    found: dict[str, Value] = {
        "status": result.status,
        "bottleneck": result.bottleneck or "",
        "makespan_us": float(us(schedule.makespan)),
        "lower_bound_us": float(us(schedule.lower_bound)),
        "gap": float(schedule.gap),
        "others": sum(a.mode != 0 for a in schedule.plan.assignments),  # ops in another mode than their first
    }
    found |= {f"{name}_us": float(us(ticks)) for name, ticks in schedule.baselines.items() if ticks is not None}
    found |= {f"busy_{name}": share for name, share in busy_fractions(schedule).items()}
    if gain is not None:
        names = ("saved_entries", "overlap_within_tasks", "overlap_between_tasks", "contention_cost", "tail")
        found |= {f"{name}_us": float(us(getattr(gain, name))) for name in names}
    if schedule.advice is not None:
        found["advice"] = schedule.advice.answer
    return found


def of_loop(loop: Loop, time_limit_s: float, guard: Guard | None = None) -> Outcome:
    """Return the interval of a loop, every smaller one refuted where ``status`` is OPTIMAL, and its shortest iteration.

    Raises
    ------
    InvalidInputError
        The checker refuses what was found.
    """
    result = modulo_schedule(loop, time_limit_s, seed=SEED, guard=guard)
    if result.schedule is None:
        return {"status": result.status}
    faults = check_modulo(loop, result.schedule)
    if faults:
        raise InvalidInputError(f"loop {loop.name!r}: {faults[0]}")
    ii = result.schedule.ii_ticks
    found = {
        f"busy_{engine.name}": sum(
            use.units * use.ticks for op in loop.ops for use in op.uses if use.engine == engine.name
        )
        / (engine.units * ii)
        for engine in loop.engines
    }
    return found | {
        "status": result.status,
        "ii": ii,
        "length": result.length_ticks,
        "copies": result.stages,
        "bound": float(result.bounds[0].ticks),
        "bottleneck": " and ".join(result.bounds[0].bottleneck),
    }


def answer(folder: str, *, slow: bool = False, guard: Guard | None = None) -> Row:
    """Solve the scenario of a folder and judge its claims; without ``slow`` only those that need no slow run.

    ``guard`` is the process in which loops are solved; without it one is started where it is needed.
    """
    scenario = load(folder)
    wanted = {claim.ours: runs_of(claim.ours) for claim in scenario.claims}
    for name in set().union(*wanted.values()) - set(scenario.runs):
        raise InvalidInputError(f"{folder}: a claim reads run {name!r}, which there is not")
    for name in set(scenario.runs) - set().union(*wanted.values()):
        raise InvalidInputError(f"{folder}: no claim reads run {name!r}; drop it")
    with nullcontext(guard) if guard is not None else Guard(lazy=True) as process:
        outcomes = {name: outcome(folder, run, process) for name, run in scenario.runs.items() if slow or not run.slow}
    answers = []
    for claim in scenario.claims:
        if wanted[claim.ours] <= set(outcomes):
            ours = value_of(claim.ours, outcomes)
            answers.append(Answered(claim, ours, meets(claim, ours)))
    return Row(folder, scenario, tuple(answers), len(scenario.claims) - len(answers))


# --- telling --------------------------------------------------------------------------------------------


def number(value: Value) -> str:
    """Return a value with four digits."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def line_of(row: Row, answered: Answered) -> str:
    """Return a claim as a line of the table of numbers."""
    claim = answered.claim
    unit = f" {claim.unit}" if claim.unit else ""
    published = f"{number(claim.published)}{unit}"
    if claim.within:
        published += f" ({100 * claim.within:g} %)"
    if claim.status != "stated":
        published += f", {claim.status}"
    met = "yes" if answered.holds else f"**no**: {claim.differs}"
    cells = (row.scenario.system, claim.says, published, f"{number(answered.ours)}{unit}", met)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def verdict_line(row: Row) -> str:
    """Return a system as a line of the table of verdicts."""
    scenario = row.scenario
    system = f"[{scenario.system}]({row.folder}/scenario.yaml), {scenario.published_in}"
    why = f"{scenario.why}." + (f" Not published: {scenario.lacks}." if scenario.lacks else "")
    return f"| {' | '.join(_cell(cell) for cell in (system, scenario.model, row.verdict, why))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


VERDICTS = ("| system | in our model | verdict | why |", "|---|---|---|---|")
NUMBERS = ("| system | what | published | here | met |", "|---|---|---|---|---|")
MARK = "<!-- from here on written by run.py --write -->"


def tables(rows: list[Row]) -> str:
    """Return both tables as Markdown."""
    lines = [*VERDICTS, *map(verdict_line, rows), "", *NUMBERS]
    return "\n".join([*lines, *(line_of(row, answered) for row in rows for answered in row.answers), ""])


def main() -> None:
    """Print the rows, or write them into the README."""
    parser = argparse.ArgumentParser(description="what published systems report, beside what comes out here")
    parser.add_argument("names", nargs="*", help="folders; all when none is named")
    parser.add_argument("--slow", action="store_true", help="the slow runs too")
    parser.add_argument("--write", action="store_true", help="write the tables of README.md anew")
    args = parser.parse_args()
    if args.write and args.names:
        parser.error("--write writes the tables of all folders; name none")
    try:
        rows = [answer(folder, slow=args.slow or args.write) for folder in args.names or folders()]
    except InvalidInputError as error:
        parser.error(str(error))
    print(tables(rows))
    wrong = [(row, answered) for row in rows for answered in row.answers if not answered.as_expected]
    for row, answered in wrong:
        print(f"NOT AS EXPECTED: {row.folder}: {answered.claim.says}: {number(answered.ours)}")
    if args.write:
        readme = GALLERY / "README.md"
        above = readme.read_text(encoding="utf-8").partition(MARK)[0]
        readme.write_text(f"{above}{MARK}\n\n{tables(rows)}", encoding="utf-8")
    if wrong:
        sys.exit(4)


if __name__ == "__main__":
    main()
