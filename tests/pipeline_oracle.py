"""A plain second opinion on hand-written pipelines: every interleaving, one trip count at a time, nothing left out.

It shares no code with `hexloom.optimizer.pipeline` and none of its ideas: runs and jobs begin and end in steps of their
own, a transfer may start long after its push, and no order of steps is skipped. What it counts is what a reader would:
a step of a thread, and the end of a job that signals; that work begins or ends by itself costs nothing.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

Data = dict[str, Any]
PLACE = re.compile(r"(\w+)(?:\[(.+)\])?")


class TooLarge(Exception):
    """There are more states than a plain search should look at."""


def fewest_steps(data: Data, n: int, most_states: int = 40_000) -> int | None:
    """Return in how few steps something can go wrong with ``n`` trips, or None: nothing can."""
    loop = Loop(data, n)
    first = loop.start()
    steps = {first: 0}
    todo = deque([(0, first)])
    worst: int | None = None
    while todo:
        cost, state = todo.popleft()
        if cost > steps[state]:
            continue
        if worst is not None and cost >= worst:
            break
        moved = False
        for price, after in loop.moves(state):
            moved = True
            if after is None:
                worst = min(cost + price, worst if worst is not None else cost + price)
            elif after not in steps or steps[after] > cost + price:
                steps[after] = cost + price
                (todo.append if price else todo.appendleft)((cost + price, after))
        if not moved and loop.bad_end(state):
            worst = min(cost, worst if worst is not None else cost)
        if len(steps) > most_states:
            raise TooLarge
    return worst


class Loop:
    """One pipeline, unrolled for one trip count. A state is (places, running, memory, queues, counters)."""

    def __init__(self, data: Data, n: int) -> None:
        self.n = n
        self.buffers = {b["name"]: b for b in data.get("buffers", ())}
        self.queues = {q["name"]: q for q in data.get("queues", ())}
        self.events = {e["name"]: e for e in data.get("events", ())}
        self.threads = [self.unrolled(thread) for thread in data["threads"]]
        written = [a for t in data["threads"] for key in ("prologue", "body", "epilogue") for a in t.get(key, ())]
        self.taken = {a["wait"] for a in written if "wait" in a and "round" not in a}
        self.jobs: list[Data] = []
        self.job_ids: dict[int, int] = {}
        for actions in self.threads:
            for action in actions:
                if "push" in action:
                    self.job_ids[id(action)] = len(self.jobs)
                    self.jobs.append(action)
        self.parties = {
            a["barrier"]: [t for t, thread in enumerate(data["threads"]) if uses_barrier(thread, a["barrier"])]
            for actions in self.threads
            for a in actions
            if "barrier" in a
        }

    def unrolled(self, thread: Data) -> list[Data]:
        found = [self.fixed(a, 0, "0") for a in thread.get("prologue", ()) if self.holds(a, 0)]
        for i in range(self.n):
            found += [self.fixed(a, i, "i") for a in thread.get("body", ()) if self.holds(a, i)]
        return found + [self.fixed(a, 0, "n") for a in thread.get("epilogue", ()) if self.holds(a, 0)]

    def holds(self, action: Data, i: int) -> bool:
        return bool(eval(action.get("if", "True") or "True", {"i": i, "n": self.n}))

    def number(self, text: str, i: int) -> int:
        return int(eval(text, {"i": i, "n": self.n}))

    def fixed(self, action: Data, i: int, default: str) -> Data:
        """Return the action with numbers instead of i and n."""
        found = dict(action)
        for key in ("reads", "writes"):
            found[key] = [self.place(text, i, "0") for text in action.get(key, ())]
        for key in ("job", "for", "expect"):
            if key in action:
                found[key] = self.place(action[key], i, default)
        if "round" in action:
            found["round"] = self.number(action["round"], i)
        return found

    def place(self, text: str, i: int, default: str) -> tuple[str, int]:
        match = PLACE.fullmatch(text)
        assert match is not None
        return match[1], self.number(match[2] or default, i)

    def slot(self, value: tuple[str, int]) -> tuple[str, int]:
        buffer = self.buffers[value[0]]
        return buffer.get("shares") or value[0], value[1] % buffer.get("slots", 1)

    def start(self) -> Any:
        counts = tuple(sorted((name, e.get("initial", 0)) for name, e in self.events.items()))
        queues = tuple(sorted((name, ()) for name in self.queues))
        return (0,) * len(self.threads), (False,) * len(self.threads), frozenset(), queues, counts

    def bad_end(self, state: Any) -> bool:
        places, _, _, queues, counts = state
        if any(place < len(actions) for place, actions in zip(places, self.threads, strict=True)):
            return True
        if any(status != "retired" for _, jobs in queues for _, status in jobs):
            return True
        return any(count > self.events[name].get("initial", 0) and name in self.taken for name, count in counts)

    # --- moves: (price, state), or (price, None) for a fault

    def moves(self, state: Any) -> list[tuple[int, Any]]:
        found: list[tuple[int, Any]] = []
        for t in range(len(self.threads)):
            found += self.thread_moves(state, t)
        for queue, jobs in state[3]:
            found += self.queue_moves(state, queue, jobs)
        return found

    def thread_moves(self, state: Any, t: int) -> list[tuple[int, Any]]:
        places, running, memory, queues, counts = state
        if places[t] >= len(self.threads[t]):
            return []
        action = self.threads[t][places[t]]
        on = tuple(place + (u == t) for u, place in enumerate(places))
        if "run" in action:
            if running[t]:
                stopped = tuple(flag and u != t for u, flag in enumerate(running))
                return [(0, (on, stopped, memory, queues, counts))]
            started = tuple(flag or u == t for u, flag in enumerate(running))
            after = self.begin(state, action)
            return [(1, None if after is None else (places, started, after, queues, counts))]
        if "push" in action:
            return self.push(state, action, on)
        if "signal" in action:
            return [(1, (on, running, memory, queues, added(counts, action["signal"], action.get("times", 1))))]
        if "barrier" in action:
            return self.barrier(state, action, t)
        if action["wait"] in self.events:
            return self.event(state, action, on)
        return self.pop(state, action, on)

    def barrier(self, state: Any, action: Data, t: int) -> list[tuple[int, Any]]:
        places = state[0]
        party = self.parties[action["barrier"]]
        there = [
            places[u] < len(self.threads[u]) and self.threads[u][places[u]].get("barrier") == action["barrier"]
            for u in party
        ]
        if t != party[0] or not all(there):
            return []
        return [(1, (tuple(place + (u in party) for u, place in enumerate(places)), *state[1:]))]

    def event(self, state: Any, action: Data, on: Any) -> list[tuple[int, Any]]:
        _, running, memory, queues, counts = state
        name = action["wait"]
        have = dict(counts)[name]
        if "round" in action:
            enough = self.events[name].get("per_round", 1) * (action["round"] + 1)
            return [(1, (on, running, memory, queues, counts))] if have >= enough else []
        times = action.get("times", 1)
        return [(1, (on, running, memory, queues, added(counts, name, -times)))] if have >= times else []

    def push(self, state: Any, action: Data, on: Any) -> list[tuple[int, Any]]:
        _, running, memory, queues, counts = state
        queue = self.queues[action["push"]]
        jobs = dict(queues)[queue["name"]]
        taken = sum(self.jobs[job].get("descriptors", 1) for job, _ in jobs)
        if taken + action.get("descriptors", 1) > queue["entries"]:
            return [] if queue.get("when_full") == "wait" else [(1, None)]
        more = (*jobs, (self.job_ids[id(action)], "queued"))
        return [(1, (on, running, memory, put(queues, queue["name"], more), counts))]

    def pop(self, state: Any, action: Data, on: Any) -> list[tuple[int, Any]]:
        _, running, memory, queues, counts = state
        name = action["wait"]
        jobs = list(dict(queues)[name])
        held = [k for k, (job, status) in enumerate(jobs) if status != "retired"]
        if "for" in action:
            held = [k for k in held if self.jobs[jobs[k][0]]["job"] == action["for"]]
        if not held:
            return [(1, None)]
        job, status = jobs[held[0]]
        if "expect" in action and self.jobs[job]["job"] != action["expect"]:
            return [(1, None)]
        if status != "done":
            return []
        jobs[held[0]] = (job, "retired")
        while jobs and jobs[0][1] == "retired":
            jobs.pop(0)
        return [(1, (on, running, memory, put(queues, name, tuple(jobs)), counts))]

    def queue_moves(self, state: Any, name: str, jobs: Any) -> list[tuple[int, Any]]:
        places, running, memory, queues, counts = state
        found: list[tuple[int, Any]] = []
        for k, (job, status) in enumerate(jobs):
            action = self.jobs[job]
            if status == "running":
                ended = put(queues, name, (*jobs[:k], (job, "done"), *jobs[k + 1 :]))
                more = counts
                for event in action.get("signals", ()):
                    more = added(more, event, 1)
                found.append((1 if action.get("signals") else 0, (places, running, memory, ended, more)))
            if status == "queued":
                first = all(other in ("done", "retired") for _, other in jobs[:k])
                if self.queues[name]["kind"] == "dma" or first:
                    after = self.begin(state, action)
                    begun = put(queues, name, (*jobs[:k], (job, "running"), *jobs[k + 1 :]))
                    found.append((0, None if after is None else (places, running, after, begun, counts)))
        return found

    def begin(self, state: Any, action: Data) -> Any:
        """Return the memory in which ``action`` has begun, or None: it must not."""
        places, running, memory, queues, _ = state
        working = [self.threads[t][places[t]] for t, flag in enumerate(running) if flag]
        working += [self.jobs[job] for _, jobs in queues for job, status in jobs if status == "running"]
        read = {self.slot(value) for other in working for value in other["reads"]}
        written = {self.slot(value) for other in working for value in other["writes"]}
        holds = dict(memory)
        for value in action["reads"]:
            slot = self.slot(value)
            if slot in written or not self.is_there(holds.get(slot), value):
                return None
        for value in action["writes"]:
            if self.slot(value) in read | written:
                return None
            holds[self.slot(value)] = value
        return frozenset(holds.items())

    def is_there(self, held: tuple[str, int] | None, value: tuple[str, int]) -> bool:
        if held is not None:
            return held == value
        owner = self.buffers[value[0]]
        home = owner.get("shares") or value[0]
        ready = [b["name"] for b in self.buffers.values() if (b.get("shares") or b["name"]) == home and b.get("ready")]
        return ready[-1:] == [value[0]]


def uses_barrier(thread: Data, name: str) -> bool:
    actions = [*thread.get("prologue", ()), *thread.get("body", ()), *thread.get("epilogue", ())]
    return any(action.get("barrier") == name for action in actions)


def put(table: Any, name: str, value: Any) -> Any:
    return tuple((key, value if key == name else old) for key, old in table)


def added(counts: Any, name: str, times: int) -> Any:
    return tuple((key, count + times if key == name else count) for key, count in counts)
