"""The reports of the case files that are about hand-written orders of pushes, waits and slots, as pipelines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import run_cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared

Data = dict[str, Any]
Check = tuple[int, Data]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Data], Check]:
    """Give the exit code of `hexloom check` and what it prints as JSON."""

    def _check(data: Data) -> Check:
        path = tmp_path / "pipeline.json"
        path.write_text(json.dumps({"schema": "hexloom.pipeline/1", "name": "case", "iterations": 1, **data}))
        code, out, _ = run_cli(capsys, "check", path, "--json")
        return code, json.loads(out)

    return _check


def placed(name: str) -> str:
    """Return QK0 as QK[0]."""
    return re.sub(r"(\d+)$", r"[\1]", name)


def attention(hmx_order: Iterable[str], tasks: list[Data], d_slots: int) -> Data:
    """Return one thread that pushes to the matrix unit in this order and does softmax when it must."""
    after = {task["id"]: task.get("after", []) for task in tasks}
    actions: list[Data] = []
    done: set[str] = set()

    def softmax(name: str) -> None:
        k = name[2:]
        for job in sorted(set(after[name]) - done):
            actions.append({"wait": "hmx", "for": placed(job)})
            done.add(job)
        actions.append({"run": f"SM[{k}]", "reads": [f"S[{k}]"], "writes": [f"P[{k}]", f"D[{k}]"]})
        done.add(name)

    for job in hmx_order:
        for name in after[job]:
            if name.startswith("SM") and name not in done:
                softmax(name)
        k = job.lstrip("QKO")
        touches = {"writes": [f"S[{k}]"]} if job.startswith("QK") else {"reads": [f"P[{k}]", f"D[{k}]"]}
        actions.append({"push": "hmx", "job": placed(job), **touches})
    actions += [{"wait": "hmx", "for": placed(job)} for job in hmx_order if job not in done]
    slots = {"S": 2, "P": 2, "D": d_slots}
    return {
        "buffers": [{"name": name, "slots": number} for name, number in slots.items()],
        "queues": [{"name": "hmx", "kind": "fifo", "entries": 16}],
        "threads": [{"name": "main", "prologue": actions}],
    }


def test_ord_01_the_push_order_of_the_bad_table(case: Case, check: Callable[[Data], Check]) -> None:
    """The table knows only the waits of two slots of D; with one, SM1 overwrites it before O0 has read it."""
    data = case("ORD-01")
    order, slots = data["bad_table"]["hmx_order"], data["bad_table"]["D_slots"]
    code, found = check(attention(order, data["two_D_slots"]["tasks"], slots))
    (violation,) = found["violations"]
    assert (code, violation["kind"], violation["parties"]) == (4, "overwrite", ["O[0]", "SM[1]"])
    assert violation["message"].startswith("SM[1] writes D[1] to slot 0 of D while O[0] (pushed to hmx at step ")
    assert violation["message"].endswith("may still be reading D[0] there")
    assert violation["mend"] == "let SM[1] wait for O[0], or give D another slot"
    assert check(attention(order, data["one_D_slot"]["tasks"], 1))[0] == 0  # the edge O0 -> SM1
    assert check(attention(order, data["two_D_slots"]["tasks"], 2))[0] == 0  # the second slot


@pytest.mark.parametrize(("slots", "code"), [(2, 0), (1, 4)])
def test_ord_04_wait_before_reuse(case: Case, check: Callable[[Data], Check], slots: int, code: int) -> None:
    """Two loads ahead and stores waited for only when their slot is used again, for any number of tiles."""
    tasks = {task["id"]: task["after"] for task in case("ORD-04")["reuse"]["tasks"]}
    assert (tasks["L2"], tasks["C2"]) == (["C0"], ["L2", "S0"])
    main = {
        "name": "main",
        "prologue": [{"push": "dma", "job": f"L[{k}]", "writes": [f"in[{k}]"], "if": f"n > {k}"} for k in range(2)],
        "body": [
            {"wait": "dma", "for": "L[i]"},
            {"wait": "dma", "for": "S[i-2]", "if": "i >= 2"},
            {"run": "C", "reads": ["in[i]"], "writes": ["out[i]"]},
            {"push": "dma", "job": "S[i]", "reads": ["out[i]"]},
            {"push": "dma", "job": "L[i+2]", "writes": ["in[i+2]"], "if": "i+2 < n"},
        ],
        "epilogue": [{"wait": "dma", "for": "S[n-2]", "if": "n > 1"}, {"wait": "dma", "for": "S[n-1]", "if": "n > 0"}],
    }
    buffers = [{"name": name, "slots": slots} for name in ("in", "out")]
    queues = [{"name": "dma", "kind": "dma", "entries": 255}]
    data = {"iterations": "0..100000", "buffers": buffers, "queues": queues, "threads": [main]}
    assert check(data)[0] == code


@pytest.mark.parametrize("depth", [1, 2])
def test_ord_06_a_fifo_gives_back_a_slot_only_when_it_was_read(
    case: Case, check: Callable[[Data], Check], depth: int
) -> None:
    """The reverse edge is V(i-depth) -> P(i): so many pushes ahead are safe, one more is not."""
    tasks = {task["id"]: task["after"] for task in case("ORD-06")[f"depth{depth}"]["tasks"]}
    assert f"V{2 - depth}" in tasks["P2"]

    def fifo(ahead: int) -> Data:
        cube = {"name": "hmx", "body": [{"wait": "free"}, {"run": "P", "writes": ["F[i]"]}, {"signal": "full"}]}
        vector = {"name": "hvx", "body": [{"wait": "full"}, {"run": "V", "reads": ["F[i]"]}, {"signal": "free"}]}
        events = [{"name": "free", "initial": ahead}, {"name": "full"}]
        buffers = [{"name": "F", "slots": depth}]
        return {"iterations": "0..1000000", "buffers": buffers, "events": events, "threads": [cube, vector]}

    assert check(fifo(depth))[0] == 0
    code, found = check(fifo(depth + 1))
    assert (code, found["violations"][0]["kind"]) == (4, "overwrite")
    assert found["violations"][0]["trip_count"] == depth + 1


def cube_and_vector(case: Data, slots: int, hmx_order: list[str]) -> Data:
    """Return the engines of ORD-07 as threads; a slot is free at first, claimed by QK and given back by PV."""
    ring = case["ring"]

    def actions(engine: str, order: list[str]) -> list[Data]:
        found: list[Data] = []
        for name in order:
            found += [{"wait": f"{a}-{b}"} for a, b in case["deps"] if b == name]
            if name.startswith(ring["claimed_by"]):
                found.append({"wait": "free"})
            found.append({"run": placed(name)})
            found += [{"signal": f"{a}-{b}"} for a, b in case["deps"] if a == name]
            if name.startswith(ring["released_by"]):
                found.append({"signal": "free"})
        return found

    events = [{"name": "free", "initial": slots}, *({"name": f"{a}-{b}"} for a, b in case["deps"])]
    orders = {**case["engine_order"], "hmx": hmx_order}
    threads = [{"name": engine, "prologue": actions(engine, order)} for engine, order in orders.items()]
    return {"events": events, "threads": threads}


def test_ord_07_a_preload_beyond_the_slots_is_a_cycle(case: Case, check: Callable[[Data], Check]) -> None:
    data = case("ORD-07")
    order = data["engine_order"]["hmx"]
    code, found = check(cube_and_vector(data, data["ring"]["slots"], order))
    (violation,) = found["violations"]
    assert (code, violation["kind"]) == (4, "deadlock")
    cycle = violation["cycle"]
    at = cycle.index("PV[0]")
    assert cycle[at:] + cycle[:at] == ["PV[0]", "QK[2]", "QK[3]"]
    assert violation["waits"][0].startswith("hmx (prologue) waits before QK[2] for event free (0 of 1): itself would")
    assert check(cube_and_vector(data, 4, order))[0] == 0
    good = ["QK0", "QK1", "PV0", "QK2", "PV1", "QK3", "PV2", "PV3"]
    assert check(cube_and_vector(data, 2, good))[0] == 0


def test_ord_09_pushes_beyond_the_ring_are_lost(case: Case, check: Callable[[Data], Check]) -> None:
    """A ring of 4 holds 3; five loads need two waits before the fourth and the fifth."""
    data = case("ORD-09")
    names = [buffer["id"] for buffer in data["bufs"]]
    usable = data["machine"]["dma_ring"] - 1

    def loads(waits_before: tuple[int, ...]) -> Data:
        actions: list[Data] = []
        for k, name in enumerate(names):
            actions += [{"wait": "dma"}] if k in waits_before else []
            actions.append({"push": "dma", "job": f"L[{k}]", "writes": [name]})
        actions += [{"wait": "dma"}] * (len(names) - len(waits_before))
        return {
            "buffers": [{"name": name} for name in names],
            "queues": [{"name": "dma", "kind": "dma", "entries": usable}],
            "threads": [{"name": "main", "prologue": [*actions, {"run": "V", "reads": names}]}],
        }

    code, found = check(loads(()))
    (violation,) = found["violations"]
    assert (code, violation["kind"], violation["parties"], len(violation["steps"])) == (
        4,
        "queue_full",
        ["L[3]", "dma"],
        4,
    )
    assert check(loads((3,)))[1]["violations"][0]["parties"] == ["L[4]", "dma"]
    assert check(loads((3, 4)))[0] == 0


@pytest.mark.parametrize(("rows", "code"), [(32, 0), (300, 4)])
def test_ord_10_descriptors_count_against_the_ring(
    case: Case, check: Callable[[Data], Check], rows: int, code: int
) -> None:
    """One descriptor per row where the stride does not fit its field, and one wait for the transfer."""
    data = case("ORD-10")
    (task,) = data["tasks"]
    assert task["src_stride"] > data["machine"]["dma_field_max"] and task["rows"] == 32
    push = {"push": "dma", "job": task["id"], "descriptors": rows, "writes": task["bufs"]}
    usable = data["machine"]["dma_ring"] - 1
    found = check(
        {
            "buffers": [{"name": name} for name in task["bufs"]],
            "queues": [{"name": "dma", "kind": "dma", "entries": usable}],
            "threads": [{"name": "main", "prologue": [push, {"wait": "dma"}]}],
        }
    )
    assert found[0] == code
    assert [v["kind"] for v in found[1]["violations"]] == ["queue_full"] * (code == 4)


def test_ord_16_a_wait_that_never_ends(case: Case, check: Callable[[Data], Check]) -> None:
    (task,) = case("ORD-16")["table"]["hvx"]
    thread = {"name": "hvx", "prologue": [*({"wait": name} for name in task["waits"]), {"run": task["task"]}]}
    code, found = check({"events": [{"name": name} for name in task["waits"]], "threads": [thread]})
    (violation,) = found["violations"]
    assert (code, violation["kind"]) == (4, "deadlock")
    assert violation["waits"] == ["hvx (prologue) waits before C0 for event L0 (0 of 1); nobody will"]
