"""Every interleaving of emitted tables: a plain search over states, which shares nothing with what made the tables.

A slice begins once the waits of its task are over, and ends some time later; a transfer is started, is done some time
later, in any order, and is then observed by its owner; a late task ends when its kernel has returned and its result
exists. At every begin it is looked at what the problem and the plan ask: that who must come before is over, that a unit
which is no thread has one user, and that no buffer at the same addresses is alive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit import records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.emit.rows import Entry, Tables
    from hexloom.optimizer.schedule import Schedule


class State(NamedTuple):
    """Entries passed and entry running per queue, transfers in flight (bits of tasks), late slices per task."""

    passed: tuple[int, ...]
    running: int
    in_flight: int
    late: tuple[int, ...]


@dataclass
class Explorer:
    """What is found: violations by kind, states seen, and whether the search came to its end."""

    schedule: Schedule
    tables: Tables
    most_states: int = 200_000
    problems: list[str] = field(default_factory=list)
    states: int = 0
    complete: bool = False

    def __post_init__(self) -> None:
        tables, problem = self.tables, self.schedule.problem
        both = list(zip(tables.entries, tables.waits, strict=True))
        mine = [both[q.first_entry : q.first_entry + q.entry_count] for q in tables.queues]
        mine = [[pair for pair in pairs if pair[0].action != records.AFTER] for pairs in mine]
        self.queues = [[entry for entry, _ in pairs] for pairs in mine]
        self.waits = [[waits for _, waits in pairs] for pairs in mine]
        self.triggers = [[self._trigger(entry) for entry in entries] for entries in self.queues]
        self.task_of = {task.op: t for t, task in enumerate(tables.tasks)}
        self.required = self._required()
        modes = {a.op: a for a in self.schedule.plan.assignments}
        resources = {engine.name for engine in problem.engines if engine.kind == "resource"}
        self.units = [
            {
                (engine, u)
                for engine, ids in modes[problem.ops[t.op].name].units.items()
                if engine in resources
                for u in ids
            }
            for t in tables.tasks
        ]
        self.users = [
            [self.task_of[problem.op_index[name]] for name in set(b.ops) if problem.op_index[name] in self.task_of]
            for b in problem.buffers
        ]
        self.clashes = self._clashes()

    def _trigger(self, entry: Entry) -> int:
        """Return the event that an entry triggers when it is over, or NONE."""
        task = self.tables.tasks[entry.task]
        if entry.action == records.START or task.trigger_event == records.NONE:
            return records.NONE
        return task.trigger_event + entry.slice * (task.flags & records.TASK_APART > 0)

    def _required(self) -> list[set[int]]:
        """For each task those that must be over; markers stand for what they wait for."""
        problem = self.schedule.problem
        before = [set(p) for p in problem.predecessors]
        for wait in self.schedule.plan.waits:
            before[problem.op_index[wait.after]].add(problem.op_index[wait.before])
        known: dict[int, set[int]] = {}

        def tasks_of(op: int) -> set[int]:
            """Return the task of an op, or those behind a marker."""
            if op in self.task_of:
                return {self.task_of[op]}
            if op not in known:
                known[op] = {t for earlier in before[op] for t in tasks_of(earlier)}
            return known[op]

        return [{t for op in before[task.op] for t in tasks_of(op)} for task in self.tables.tasks]

    def _clashes(self) -> list[tuple[int, int]]:
        """Pairs of buffers that have bytes in common."""
        problem, at = self.schedule.problem, self.schedule.plan.addresses
        return [
            (a, b)
            for (a, x), (b, y) in combinations(enumerate(problem.buffers), 2)
            if x.pool == y.pool
            and at[x.name] < at[y.name] + y.occupied_bytes
            and at[y.name] < at[x.name] + x.occupied_bytes
            and x.occupied_bytes
            and y.occupied_bytes
        ]

    # --- what is so in a state --------------------------------------------------------------------------

    def begun_and_ended(self, state: State) -> tuple[list[int], list[int], list[int]]:
        """Count, per task, the slices that have begun, that have ended, and that no longer touch memory."""
        begun = [0] * len(self.tables.tasks)
        ended = [0] * len(self.tables.tasks)
        quiet = [0] * len(self.tables.tasks)
        for q, entries in enumerate(self.queues):
            for k in range(state.passed[q] + (state.running >> q & 1)):
                entry = entries[k]
                is_over = k < state.passed[q]
                begun[entry.task] += entry.action != records.WAIT
                if entry.action == records.START:
                    quiet[entry.task] += not state.in_flight >> entry.task & 1
                else:
                    ended[entry.task] += is_over
                    quiet[entry.task] += is_over and entry.action == records.RUN
        for t, late in enumerate(state.late):
            ended[t] -= late
            quiet[t] -= late
        return begun, ended, quiet

    def next_states(self, state: State) -> Iterator[State]:
        """Go one step on in every way; what is wrong with a begin is noted."""
        begun, ended, quiet = self.begun_and_ended(state)
        counters = [0] * len(self.tables.events)
        for q, triggers in enumerate(self.triggers):
            for event in triggers[: state.passed[q]]:
                if event != records.NONE:
                    counters[event] += 1
        for t, count in enumerate(state.late):
            if count and self.tables.tasks[t].trigger_event != records.NONE:
                counters[self.tables.tasks[t].trigger_event] -= count
        for t in range(len(self.tables.tasks)):
            if state.in_flight >> t & 1:
                yield state._replace(in_flight=state.in_flight & ~(1 << t))
            if state.late[t]:
                yield state._replace(late=tuple(n - (k == t) for k, n in enumerate(state.late)))
        for q, entries in enumerate(self.queues):
            if state.passed[q] == len(entries):
                continue
            entry = entries[state.passed[q]]
            task = self.tables.tasks[entry.task]
            passed = tuple(n + (k == q) for k, n in enumerate(state.passed))
            if state.running >> q & 1:
                late = state.late
                if task.flags & records.TASK_ASYNC:
                    late = tuple(n + (k == entry.task) for k, n in enumerate(late))
                yield state._replace(passed=passed, running=state.running & ~(1 << q), late=late)
            elif entry.action == records.WAIT:
                if begun[entry.task] and not state.in_flight >> entry.task & 1:
                    yield state._replace(passed=passed)
            elif all(counters[w.event] >= w.threshold for w in self.waits[q][state.passed[q]]):
                self.look(entry.task, begun, ended, quiet)
                if entry.action == records.START:
                    yield state._replace(passed=passed, in_flight=state.in_flight | 1 << entry.task)
                else:
                    yield state._replace(running=state.running | 1 << q)

    def is_over(self, task: int, ended: list[int]) -> bool:
        return ended[task] == self.tables.tasks[task].slice_count

    def look(self, task: int, begun: list[int], ended: list[int], quiet: list[int]) -> None:
        """Note what is wrong when a slice of ``task`` begins."""
        for earlier in self.required[task]:
            if not self.is_over(earlier, ended):
                self.problems.append(f"early: {task} before {earlier}")
        for other in range(len(self.tables.tasks)):
            if (
                other != task
                and self.units[task] & self.units[other]
                and begun[other]
                and not self.is_over(other, ended)
            ):
                self.problems.append(f"unit: {task} beside {other}")
        for a, b in self.clashes:
            for mine, other in ((a, b), (b, a)):
                if task in self.users[mine]:
                    self._look_at_buffer(task, mine, other, begun, quiet)

    def _look_at_buffer(self, task: int, mine: int, other: int, begun: list[int], quiet: list[int]) -> None:
        buffers = self.schedule.problem.buffers
        x, y = buffers[other], buffers[mine]
        users = [u for u in self.users[other] if u != task or y.overwrites != x.name]
        if x.overwrites == y.name and task in self.users[other]:
            return  # it is the one that overwrites, which is looked at from the other side
        over = all(quiet[u] == self.tables.tasks[u].slice_count for u in users) and not x.to_end
        if x.always or (x.from_start and not over) or (any(begun[u] for u in users) and not over):
            self.problems.append(f"overwrite: {task} in {y.name} while {x.name} is alive")

    # --- the search -------------------------------------------------------------------------------------

    def explore(self, *, until_first: bool = False) -> Explorer:
        """Visit every state that can be reached."""
        start = State((0,) * len(self.queues), 0, 0, (0,) * len(self.tables.tasks))
        seen, waiting = {start}, [start]
        end = tuple(map(len, self.queues))
        while waiting and len(seen) <= self.most_states and not (until_first and self.problems):
            state = waiting.pop()
            after = list(self.next_states(state))
            if not after and state.passed != end:
                self.problems.append(f"deadlock: {state.passed}")
            fresh = set(after) - seen
            seen |= fresh
            waiting += fresh
        self.states = len(seen)
        self.complete = not waiting
        self.problems = sorted(set(self.problems))
        return self
