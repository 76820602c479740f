"""A schedule file with any field taken out or emptied is refused, or checked: it is never the checker that breaks."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unit.small import buffer, held, move, on, problem, run

from hexloom import Workload, cli, solve
from hexloom.emit.c_tables import CTables
from hexloom.emit.gantt import gantt_svg
from hexloom.emit.timeline import timeline_json
from hexloom.formulations.problem import Channel, Engine
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.schedule import Schedule
from hexloom.schedules import schedule_from

if TYPE_CHECKING:
    from collections.abc import Iterator

H = {"tensor": "h", "bytes": 64, "rows": 2, "stride": 128}
WORK = {
    "name": "t",
    "hw": "hexagon-v81",
    "channels": [{"name": "gather", "rate_gb_s": 12}],
    "interference": [{"victim": "rows", "cause": "streams", "factor": 0.9}],
    "tasks": [
        {
            "name": "mine",
            "ops": [
                {"name": "a", "engine": "hvx", "duration_us": 40, "class": "rows", "channels": {"gather": "9GB/s"}},
                {"name": "b", "engine": "hmx", "duration_us": 70, "class": "streams", "channels": {"gather": "9GB/s"}},
                {"name": "c", "engine": "hvx", "duration_us": 5, "after": ["a"], "reads": [H]},
                {"name": "d", "engine": "hvx", "duration_us": 5, "after": ["c"], "writes": [H]},
            ],
        },
    ],
}
BARE = problem(
    move("load", 4, issue=1),
    on("hvx", "cook", 5),
    on("hmx", "use", 6),
    on("lut", "look", 3),
    after="load>cook cook>use",
    buffers=(buffer("in", 4, "load", "cook"), buffer("mid", 4, "cook", "use"), buffer("fix", 2, resident=True)),
    capacity=10,
    channels=(Channel(name="bus", capacity=10),),
)
PAIRS = problem(
    *[run(a + b, held(a, 3), held(b, 3)) for a, b in ("xy", "yz", "xz")],
    engines=tuple(Engine(name=name, kind="resource") for name in "xyz"),
)
INPUTS = {"workload": lambda: Workload.from_data(WORK, "t"), "problem": lambda: BARE, "prices": lambda: PAIRS}
ODD: tuple[Any, ...] = (None, [], {}, "", 0, -1, 10**400)


@pytest.fixture(scope="module", params=[(name, rule) for name in INPUTS for rule in ("fluid", "rigid")], ids="-".join)
def data(request: pytest.FixtureRequest) -> dict[str, Any]:
    name, rule = request.param
    schedule = solve(INPUTS[name](), contention=rule, seed=1, time_limit_s=1).schedule
    assert schedule is not None
    return dict(json.loads(schedule.to_json()))


def paths(node: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield where something stands: every key, and the first and the last of a list."""
    keys: list[str | int] = list(node) if isinstance(node, dict) else []
    if isinstance(node, list) and node:
        keys = list(dict.fromkeys((0, len(node) - 1)))
    for key in keys:
        yield (*at, key)
        yield from paths(node[key], (*at, key))


def altered(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in paths(data):
        for value in ("absent", *ODD):
            changed = copy.deepcopy(data)
            node: Any = changed
            for key in path[:-1]:
                node = node[key]
            if value != "absent":
                node[path[-1]] = value
            else:
                del node[path[-1]]
            yield f"{'.'.join(map(str, path))} is {value!r}", changed


def looked_at(data: dict[str, Any]) -> None:
    """Check what is in ``data``, and write what the checker accepts."""
    schedule = schedule_from(Path("s.json"), data)
    if not check_schedule(schedule):
        cli._on_trust(schedule)
        gantt_svg(schedule)
        timeline_json(schedule)
        CTables(schedule, "t").source()


def test_no_field_that_is_missing_empty_or_huge_breaks_the_checker(data: dict[str, Any]) -> None:
    broken = []
    for what, changed in altered(data):
        try:
            looked_at(changed)
        except InvalidInputError as refusal:
            broken += [what] if "\n" in str(refusal) else []
        except Exception as error:
            broken.append(f"{what}: {type(error).__name__}: {error}")
    assert broken == []


def test_there_is_a_bound(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"s\.json: not a schedule: bounds: "):
        schedule_from(Path("s.json"), data | {"bounds": []})
    empty = Schedule.model_validate(data).model_copy(update={"bounds": ()})
    assert "bounds" in {v.kind for v in check_schedule(empty)}


def test_the_first_bound_is_the_best(data: dict[str, Any]) -> None:
    """Else the certificate, which is that of the first, would speak of another one than the bound that counts."""
    search = {"name": "search", "ticks": data["makespan"], "engine": None, "detail": ""}
    low = {"name": "critical_path", "ticks": 0, "engine": None, "detail": ""}
    claims = {"lower_bound": data["makespan"], "plan_bound": data["makespan"], "dual": None}
    claims |= {"status": "OPTIMAL", "optimal_in": "free_start", "certificate": "arithmetic", "bounds": [low, search]}
    violations = check_schedule(Schedule.model_validate(data | claims))
    assert [v.kind for v in violations] == ["bounds"]
