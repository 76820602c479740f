"""Small safe pipelines, and random ones, for tests."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

Data = dict[str, Any]


def pipeline(*threads: Data, iterations: Any = "0..4096", **parts: Any) -> Data:
    """Return the data of a pipeline file."""
    return {
        "schema": "hexloom.pipeline/1",
        "name": "loop",
        "iterations": iterations,
        **{key: [dict(part) for part in value] for key, value in parts.items()},
        "threads": list(threads),
    }


DMA = {"name": "dma", "kind": "dma", "entries": 3}
HMX = {"name": "hmx", "kind": "fifo", "entries": 3}


def loads() -> Data:
    """Two loads ahead, one thread."""
    main = {
        "name": "main",
        "prologue": [
            {"push": "dma", "job": "load[0]", "writes": ["W[0]"], "if": "n > 0"},
            {"push": "dma", "job": "load[1]", "writes": ["W[1]"], "if": "n > 1"},
        ],
        "body": [
            {"wait": "dma"},
            {"run": "use", "reads": ["W[i]"]},
            {"push": "dma", "job": "load[i+2]", "writes": ["W[i+2]"], "if": "i+2 < n"},
        ],
    }
    return pipeline(main, buffers=[{"name": "W", "slots": 2}], queues=[DMA])


def matmul() -> Data:
    """Dequantize beside the matrix unit, store one step late."""
    main = {
        "name": "main",
        "body": [
            {"run": "dequant", "writes": ["W[i]"]},
            {"push": "hmx", "job": "mm", "reads": ["W[i]"], "writes": ["C[i]"]},
            {"wait": "hmx", "if": "i >= 1", "expect": "mm[i-1]"},
            {"run": "store", "reads": ["C[i-1]"], "if": "i >= 1"},
        ],
        "epilogue": [
            {"wait": "hmx", "if": "n > 0"},
            {"run": "store", "reads": ["C[n-1]"], "if": "n > 0"},
        ],
    }
    return pipeline(main, buffers=[{"name": "W", "slots": 2}, {"name": "C", "slots": 2}], queues=[HMX])


def ring() -> Data:
    """A producer and a consumer with free and full counters."""
    producer = {
        "name": "p",
        "body": [{"wait": "free"}, {"run": "make", "writes": ["R[i]"]}, {"signal": "full"}],
    }
    consumer = {
        "name": "c",
        "body": [{"wait": "full"}, {"run": "use", "reads": ["R[i]"]}, {"signal": "free"}],
    }
    events = [{"name": "free", "initial": 2}, {"name": "full"}]
    return pipeline(producer, consumer, buffers=[{"name": "R", "slots": 2}], events=events)


def rounds() -> Data:
    """The same with counters that only grow."""
    producer = {
        "name": "p",
        "body": [
            {"wait": "used", "round": "i-2", "if": "i >= 2"},
            {"run": "make", "writes": ["R[i]"]},
            {"signal": "made"},
        ],
    }
    consumer = {
        "name": "c",
        "body": [{"wait": "made", "round": "i"}, {"run": "use", "reads": ["R[i]"]}, {"signal": "used"}],
    }
    events = [{"name": "made"}, {"name": "used"}]
    return pipeline(producer, consumer, buffers=[{"name": "R", "slots": 2}], events=events)


def barriers() -> Data:
    """Two workers that use each other's part."""
    workers = [
        {
            "name": f"w{k}",
            "body": [
                {"run": "make", "writes": [f"P{k}[i]"]},
                {"barrier": "all"},
                {"run": "use", "reads": ["P0[i]", "P1[i]"]},
            ],
        }
        for k in range(2)
    ]
    return pipeline(*workers, buffers=[{"name": "P0", "slots": 2}, {"name": "P1", "slots": 2}])


def signalled() -> Data:
    """A transfer tells the worker by itself that it has ended; the owner only retires it."""
    main = {
        "name": "main",
        "body": [
            {"wait": "free"},
            {"push": "dma", "job": "load", "writes": ["W[i]"], "signals": ["loaded"]},
            {"wait": "dma"},
        ],
    }
    worker = {"name": "w", "body": [{"wait": "loaded"}, {"run": "use", "reads": ["W[i]"]}, {"signal": "free"}]}
    events = [{"name": "free", "initial": 1}, {"name": "loaded"}]
    return pipeline(main, worker, buffers=[{"name": "W"}], queues=[DMA], events=events)


def in_place() -> Data:
    """Softmax over its own scores, an accumulator, and a pop by name."""
    main = {
        "name": "main",
        "prologue": [{"run": "clear", "writes": ["O[-1]"]}],
        "body": [
            {"push": "hmx", "job": "QK", "reads": ["Q"], "writes": ["S[i]"]},
            {"wait": "hmx", "for": "QK"},
            {"run": "softmax", "reads": ["S[i]"], "writes": ["P[i]"]},
            {"push": "hmx", "job": "PV", "reads": ["P[i]", "O[i-1]"], "writes": ["O[i]"]},
            {"wait": "hmx", "for": "PV"},
        ],
    }
    buffers = [{"name": "Q", "ready": True}, {"name": "S"}, {"name": "P", "shares": "S"}, {"name": "O"}]
    return pipeline(main, buffers=buffers, queues=[HMX])


def lock() -> Data:
    """Two workers that take one lock in either order, and meet once an iteration."""
    workers = [
        {
            "name": f"w{k}",
            "body": [{"wait": "lock"}, {"run": "add", "writes": ["sum"]}, {"signal": "lock"}, {"barrier": "all"}],
        }
        for k in range(2)
    ]
    return pipeline(*workers, buffers=[{"name": "sum"}], events=[{"name": "lock", "initial": 1}])


SAFE = {make.__name__: make for make in (loads, matmul, ring, rounds, barriers, signalled, in_place, lock)}
FEW = "0..12"
"""So that the answer is decided even where a thread may run away from the others."""

SECTIONS = ("prologue", "body", "epilogue")


def mutants(data: Data) -> list[Data]:
    """Return ``data`` with one thing changed: an action dropped or swapped, a guard gone, one slot or entry less."""
    found: list[Data] = []
    data = {**data, "iterations": FEW}

    def change(path: tuple[Any, ...], value: Any) -> None:
        copied = copy.deepcopy(data)
        at: Any = copied
        for key in path[:-1]:
            at = at[key]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        found.append(copied)

    for t, thread in enumerate(data["threads"]):
        for section in SECTIONS:
            actions = thread.get(section, [])
            for k, action in enumerate(actions):
                if len(actions) > 1 or section != "body":
                    change(("threads", t, section), actions[:k] + actions[k + 1 :])
                if k:
                    change(("threads", t, section), [*actions[: k - 1], action, actions[k - 1], *actions[k + 1 :]])
                if "if" in action:
                    change(("threads", t, section, k, "if"), None)
                for key in ("reads", "writes"):
                    for j, place in enumerate(action.get(key, ())):
                        if "i]" in place:
                            change(("threads", t, section, k, key, j), place.replace("i]", "i+1]"))
    for kind, key, least in (("buffers", "slots", 1), ("queues", "entries", 1), ("events", "initial", 0)):
        for k, part in enumerate(data.get(kind, ())):
            value = part.get(key, least)
            if value > least:
                change((kind, k, key), value - 1)
            if kind == "events":
                change((kind, k, key), value + 1)
    return found


@st.composite
def changed_pipelines(draw: st.DrawFn) -> Data:
    """A safe pipeline with two changes: often still safe, or broken only after some iterations."""
    data = SAFE[draw(st.sampled_from(sorted(SAFE)))]()
    for _ in range(2):
        data = draw(st.sampled_from(mutants(data)))
    return data


PLACES = {
    "prologue": ["A[0]", "A[1]", "B[0]", "B[-1]"],
    "body": ["A[i]", "A[i+1]", "A[i-1]", "B[i]", "B[i-1]", "C[i]"],
    "epilogue": ["A[n-1]", "B[n-1]", "B[n]"],
}
GUARDS = {
    "prologue": ["", "n > 0", "n > 1"],
    "body": ["", "", "i+1 < n", "i >= 1", "i % 2 == 0", "i == n-1", "i != 1"],
    "epilogue": ["", "n > 0", "n == 2"],
}


@st.composite
def random_pipelines(draw: st.DrawFn) -> Data:
    """Two or three threads of a few actions; most are broken, in many ways."""
    buffers = [{"name": "A", "slots": draw(st.integers(1, 2))}, {"name": "B", "slots": draw(st.integers(1, 2))}]
    buffers.append({"name": "C", "slots": buffers[0]["slots"], "shares": "A"})
    if draw(st.booleans()):
        buffers[1]["ready"] = True
    queues = [
        {"name": name, "kind": kind, "entries": draw(st.integers(1, 3)), "when_full": draw(st.sampled_from(FULL))}
        for name, kind in (("dma0", "dma"), ("dma1", "dma"), ("dma2", "dma"), ("hmx", "fifo"))
    ]
    events = [{"name": "e", "initial": draw(st.integers(0, 2))}, {"name": "f"}, {"name": "g", "per_round": 1}]
    threads = [draw(_threads(k)) for k in range(draw(st.integers(1, 3)))]
    return pipeline(*threads, iterations=FEW, buffers=buffers, queues=queues, events=events)


FULL = ("fault", "wait")


@st.composite
def _threads(draw: st.DrawFn, k: int) -> Data:
    body = draw(st.lists(_actions("body", k), min_size=1, max_size=4))
    return {
        "name": f"t{k}",
        "prologue": draw(st.lists(_actions("prologue", k), max_size=2)),
        "body": body,
        "epilogue": draw(st.lists(_actions("epilogue", k), max_size=2)),
    }


@st.composite
def _actions(draw: st.DrawFn, section: str, k: int) -> Data:
    some = st.lists(st.sampled_from(PLACES[section]), max_size=1)
    verb = draw(st.sampled_from(["run", "run", "push", "pop", "pop", "take", "signal", "signal", "reach", "barrier"]))
    action: Data = {"if": draw(st.sampled_from(GUARDS[section]))}
    queue, event = draw(st.sampled_from([f"dma{k}", "hmx"])), draw(st.sampled_from(["e", "f"]))
    if verb in ("run", "push"):
        action |= {"reads": draw(some), "writes": draw(some)}
    if verb == "run":
        return {"run": "work", **action}
    if verb == "push":
        if queue != "hmx":
            action["descriptors"] = draw(st.sampled_from([1, 1, 2]))
        return {"push": queue, "job": "job", "signals": draw(st.sampled_from([[], [], ["f"]])), **action}
    if verb == "pop":
        how = draw(st.sampled_from(["", "", "for", "expect"]))
        return {"wait": queue, **({how: "job"} if how else {}), **action}
    if verb == "take":
        return {"wait": event, **action}
    if verb == "signal":
        return {"signal": draw(st.sampled_from([event, "g"])), **action}
    if verb == "reach":
        return {"wait": "g", "round": {"prologue": "0", "body": "i", "epilogue": "n-1"}[section], **action}
    return {"barrier": "all", **action}
