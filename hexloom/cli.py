"""The command line. Results go to standard output or files, talk goes to standard error.

Exit codes: 0 done and checked; 1 proven infeasible; 2 bad input; 3 limit reached with no answer; 4 a check failed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hexloom import __version__
from hexloom.later import LaterGroup
from hexloom.optimizer.errors import CheckFailedError, InvalidInputError, TooManyOpsError
from hexloom.talk import (
    BAD_INPUT,
    CHECK_FAILED,
    DONE,
    INFEASIBLE,
    NO_PLAN,
    check_folder,
    say,
    seconds,
    tell,
    tell_check,
)

# What takes long to load (solvers, models of files) is imported by the command that needs it: `--help` takes no second.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.pack import PackResult
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.solve import Result
    from hexloom.optimizer.workload import Workload

app = typer.Typer(
    cls=LaterGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=__doc__,
)
INTERRUPTED = 130
"""What typer returns for Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        code = app(args=None if argv is None else list(argv), standalone_mode=False, prog_name="hexloom")
        sys.stdout.flush()
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return BAD_INPUT
        return say(error.format_message(), BAD_INPUT)
    except InvalidInputError as error:
        return say(str(error), BAD_INPUT)
    except CheckFailedError as error:
        return say(f"a result of our own failed its check, please report it: {error}", CHECK_FAILED)
    except OSError as error:
        return say(f"{error.filename or 'output'}: {error.strerror or error}", BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return say("interrupted before a plan was ready", NO_PLAN)
    except ValueError as error:
        from hexloom.hwmodels import MachineFileError

        if not isinstance(error, MachineFileError):
            raise
        return say(str(error), BAD_INPUT)
    if code == INTERRUPTED:
        return say("interrupted before a plan was ready", NO_PLAN)
    return code if isinstance(code, int) else DONE


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hexloom {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Find provably good static co-schedules for neural processing units."""


@app.command("solve")
def solve_command(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Workload (YAML, JSON) or problem (JSON); - is stdin.")
    ],
    hw: Annotated[str | None, typer.Option(help="Machine name or file; default: what the workload names.")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for the files; - writes schedule.json to stdout.")
    ] = None,
    time_limit: Annotated[str, typer.Option(help="How long to search: 10s, 500ms, 2m.")] = "10s",
    seed: Annotated[int | None, typer.Option(help="Deterministic search: same seed, same bytes.")] = None,
    contention: Annotated[
        str, typer.Option(help="Rule for shared channels: fluid, rigid, none, proportional or priority.")
    ] = "fluid",
    formulation: Annotated[
        str, typer.Option(help="auto, flat (every op on its own) or periodic (loops of thousands of tiles).")
    ] = "auto",
    ask_what_if: Annotated[
        bool, typer.Option("--what-if", help="Solve again with more and less of everything, a fifth of the limit each.")
    ] = False,
    prove_twice: Annotated[
        bool, typer.Option("--prove-twice", help="Prove once more what a search proves, with other settings.")
    ] = False,
    robust: Annotated[
        str | None, typer.Option(help="How durations scatter: 10%, or a file of hexloom.durations/1.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Find a schedule, prove how far it can be from the best, check it, and write it."""
    from rich.console import Console

    from hexloom.emit.figures import short
    from hexloom.emit.robustness_table import robustness_numbers, robustness_table, robustness_texts
    from hexloom.emit.summary import result_numbers, summary
    from hexloom.emit.what_if_table import what_if_table
    from hexloom.formulations.problem import Problem
    from hexloom.inputs import load_work
    from hexloom.optimizer.robust.durations import Durations
    from hexloom.optimizer.solve import solve
    from hexloom.optimizer.what_if import what_if
    from hexloom.optimizer.workload import Workload
    from hexloom.periodic_command import solve_loops, why_loops

    work = load_work(source)
    limit = seconds(time_limit)
    to_stdout = str(out) == "-"
    if hw is not None and isinstance(work, Problem):
        raise InvalidInputError(f"--hw {hw!r}: {source} is a problem in ticks, which needs no machine; drop it")
    if out is not None and not to_stdout:
        check_folder(out)
    durations = None if robust is None else Durations.of(robust)
    flat_only = ask_what_if or prove_twice or durations is not None
    if flat_only and formulation == "periodic":
        raise InvalidInputError("--what-if, --prove-twice and --robust are for --formulation flat; drop one of them")
    why, not_loops = (
        (None, None) if flat_only and formulation == "auto" else why_loops(work, hw, formulation, contention)
    )
    if why is not None and isinstance(work, Workload):
        answer = solve_loops(work, hw, out, limit, contention, seed, why, as_json=as_json)
        if isinstance(answer, int):
            return answer
        if formulation == "periodic":
            raise InvalidInputError(f"--formulation periodic: {answer}; use --formulation flat")
        not_loops = answer
        tell(f"not as loops: {answer}")
    started = time.monotonic()

    def progress(makespan: Fraction, bound: Fraction) -> None:
        gap = float(1 - bound / makespan) if makespan else 0.0
        line = f"{time.monotonic() - started:6.1f} s  best {short(makespan)}  bound {short(bound)}  gap {gap:.2%}"
        tell(line)

    try:
        result = solve(
            work,
            hw,
            time_limit_s=limit,
            contention=contention,
            seed=seed,
            on_progress=None if quiet else progress,
            prove_twice=prove_twice,
            robust=durations,
        )
    except TooManyOpsError as error:
        raise InvalidInputError(f"{error}" + (f"; not as loops: {not_loops}" if not_loops else "")) from None
    schedule = result.schedule
    files: dict[str, str] = {}
    if schedule is not None and out is not None and not to_stdout:
        try:
            files = _write_files(schedule, out, robustness_texts(result.robustness))
        except KeyboardInterrupt:
            return say(f"interrupted while writing to {out}; what is there may be of different runs", NO_PLAN)
    if schedule is None and out is not None and not to_stdout:
        files = _tell_no_plan(work, hw, result, out)
    if to_stdout and schedule is not None:
        sys.stdout.write(schedule.to_json())
    points = None
    if ask_what_if:
        points = what_if(work, hw, time_limit_s=limit / 5, contention=contention, seed=seed, base=result)
        if schedule is not None and files and out is not None:
            from hexloom.emit.files import write_texts
            from hexloom.emit.report import report_html
            from hexloom.report_command import REPORT

            more_files = {"what_if.json": points.to_json(), REPORT: report_html(schedule, points=points)}
            files |= write_texts(out, more_files)
    if as_json and not to_stdout:
        more = {} if points is None else {"what_if": points.model_dump(mode="json")}
        more |= robustness_numbers(result.robustness)
        print(json.dumps(result_numbers(result, files) | more, indent=1))
    else:
        console = Console(stderr=to_stdout or schedule is None, highlight=False, soft_wrap=True)
        console.print(summary(result, files))
        if points is not None:
            console.print(what_if_table(points))
        if result.robustness is not None:
            console.print(robustness_table(result.robustness))
    return _code_of(result)


def _tell_no_plan(work: Workload | Problem, hw: str | None, result: Result, out: Path) -> dict[str, str]:
    """Write why there is no plan, where that is proven; return the paths by file name."""
    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.solve import machine_of
    from hexloom.report_command import write_infeasible

    files = {}
    if result.infeasibility is not None:
        machine = None if isinstance(work, Problem) else machine_of(work, hw).name
        files = write_infeasible(work.name, machine, result.infeasibility, out)
    if (out / "schedule.json").exists():
        tell(f"{out}: no plan was written; what lies there is the plan of an earlier run")
    return files


def _code_of(result: Result) -> int:
    return {"INFEASIBLE": INFEASIBLE, "LIMIT": NO_PLAN}.get(result.status, DONE)


def _write_files(schedule: Schedule, folder: Path, more: dict[str, str]) -> dict[str, str]:
    from hexloom.emit.files import table_texts, write_texts
    from hexloom.emit.gantt import gantt_svg
    from hexloom.emit.report import report_html
    from hexloom.emit.timeline import timeline_json
    from hexloom.report_command import REPORT

    texts = {
        "schedule.json": schedule.to_json(),
        "timeline.json": timeline_json(schedule),
        "gantt.svg": gantt_svg(schedule),
        REPORT: report_html(schedule),
    }
    return write_texts(folder, texts | more | table_texts(schedule))


@app.command("check")
def check_command(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A schedule.json, or a pipeline (YAML, JSON); - is stdin.")
    ],
    time_limit: Annotated[str, typer.Option(help="How long to look at a pipeline: 10s, 500ms, 2m.")] = "60s",
    as_json: Annotated[bool, typer.Option("--json", help="Print the violations as JSON.")] = False,
) -> int:
    """Check a schedule for every violation, or a hand-written pipeline for every order of its steps."""
    from hexloom.optimizer.check import check_schedule
    from hexloom.optimizer.reading import read_data
    from hexloom.schedules import is_periodic, schedule_from

    limit = seconds(time_limit)
    data = read_data(source)
    if isinstance(data, dict) and str(data.get("schema", "")).startswith("hexloom.pipeline/"):
        return _check_pipeline(source, data, limit, as_json)
    if is_periodic(data):
        from hexloom.periodic_command import check_loops

        return check_loops(source, data, as_json=as_json)
    schedule = schedule_from(source, data)
    counts = {"ops": schedule.rows, "waits": schedule.plan.waits, "buffers": schedule.problem.buffers}
    done = f"{schedule.name}: checked, no violation ({', '.join(f'{len(of)} {what}' for what, of in counts.items())})"
    return tell_check(source, check_schedule(schedule), done, _on_trust(schedule), as_json=as_json)


def _check_pipeline(source: Path, data: Any, limit_s: float, as_json: bool) -> int:
    from hexloom.optimizer.pipeline.decide import check_pipeline
    from hexloom.optimizer.pipeline.model import Pipeline
    from hexloom.optimizer.pipeline.report import headline, numbers, report, undecided

    pipeline = Pipeline.from_data(data, str(source))
    answer = check_pipeline(pipeline, limit_s, str(source))
    if as_json:
        print(json.dumps(numbers(pipeline, answer), indent=1))
    elif answer.status != "undecided":
        print(report(pipeline, answer))
    if answer.status == "undecided":
        return say(f"{source}: {undecided(pipeline, answer)}", NO_PLAN)
    return say(f"{source}: {headline(answer)}", CHECK_FAILED) if answer.status == "broken" else DONE


def _on_trust(schedule: Schedule) -> list[str]:
    """Return the claims of the file that only a search can prove; the checker holds no solver."""
    from hexloom.emit.figures import short

    unit = schedule.unit
    claims = []
    if schedule.certificate == "search":
        bound = short(schedule.us(schedule.lower_bound))
        claims.append(f"the lower bound of {bound} {unit} rests on a search; solve again to prove it")
    if schedule.plan_bound > schedule.lower_bound:
        bound = short(schedule.us(schedule.plan_bound))
        claims.append(f"the bound of {bound} {unit} for event-driven plans rests on a search; solve again to prove it")
    baselines = {name: ticks for name, ticks in schedule.baselines.items() if ticks is not None}
    if baselines:
        times = " and ".join(f"{name} {short(schedule.us(ticks))} {unit}" for name, ticks in baselines.items())
        parts = "" if schedule.gain is None else ", the parts of the gain and the reasons of the advice"
        claims.append(f"baselines {times}{parts} rest on the loops of today; solve the workload again to see them")
    return claims


@app.command("pack")
def pack_command(
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="CSV: id,lower,upper,size[,alignment][,offset]; - is stdin."),
    ],
    capacity: Annotated[
        str | None, typer.Option(help="Bytes available, such as 1048576 or 1MiB; default: the least that is found.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The same CSV with column offset; - is stdout.")
    ] = None,
    time_limit: Annotated[str, typer.Option(help="How long to search: 10s, 500ms, 2m.")] = "10s",
    seed: Annotated[int | None, typer.Option(help="Deterministic search: same seed, same bytes.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> int:
    """Give buffers of fixed lifetimes addresses, check them, and write them; or prove that they cannot fit."""
    from hexloom.emit.pack_summary import pack_numbers, pack_summary
    from hexloom.hwmodels import parse_bytes
    from hexloom.optimizer.pack import pack
    from hexloom.optimizer.packing_csv import read_table
    from hexloom.optimizer.reading import read_text
    from hexloom.optimizer.schedule import write_whole

    limit = seconds(time_limit)
    try:
        available = None if capacity is None else parse_bytes(capacity)
    except ValueError as error:
        raise InvalidInputError(f"--capacity: {error}") from None
    to_stdout = str(out) == "-"
    if out is not None and not to_stdout:
        check_folder(out.parent)
    table = read_table(read_text(source), str(source))
    result = pack(table.buffers, table.lifetimes, available, time_limit_s=limit, seed=seed)
    if result.offsets is not None and out is not None:
        text = table.with_offsets(result.offsets)
        if to_stdout:
            sys.stdout.write(text)
        else:
            write_whole(out, text)
    if as_json and not to_stdout:
        print(json.dumps(pack_numbers(result, table.buffers), indent=1))
    else:
        talk = sys.stderr if to_stdout or result.offsets is None else sys.stdout
        print(pack_summary(result, len(table.buffers)), file=talk)
    return _pack_code(result)


def _pack_code(result: PackResult) -> int:
    return {"INFEASIBLE": INFEASIBLE, "LIMIT": NO_PLAN}.get(result.status, DONE)


@app.command("emit")
def emit_command(
    source: Annotated[Path, typer.Argument(metavar="SCHEDULE", help="A schedule.json; - is stdin.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the files.")],
    stem: Annotated[str | None, typer.Option(help="What files and C names begin with; default: the name.")] = None,
    kit: Annotated[
        bool,
        typer.Option("--kit", help="Add the runtime, its ports, kernels to fill in, CMake and a README."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON which files were written.")] = False,
    descriptors: Annotated[
        bool, typer.Option("--descriptors", help="Say in the tables what transfers move, where ops name tensors.")
    ] = False,
) -> int:
    """Write the C tables of a schedule: same bytes for the same schedule."""
    from hexloom.emit.files import check_stem, table_stem, write_emission
    from hexloom.emit.kit import write_kit
    from hexloom.schedules import load_any_schedule, violations_of

    check_stem(stem)
    schedule = load_any_schedule(source)
    violations = violations_of(schedule)
    if violations:
        more = f" and {len(violations) - 1} more violations" if len(violations) > 1 else ""
        return say(f"{source}: nothing written: {violations[0].message}{more}", CHECK_FAILED)
    name = stem or table_stem(schedule.name)
    if kit:
        files = write_kit(schedule, out, name, source.name, descriptors=descriptors)
    else:
        files = write_emission(schedule, out, name, source.name, descriptors=descriptors)
    print(json.dumps({"files": files}, indent=1) if as_json else "\n".join(files.values()))
    return DONE
