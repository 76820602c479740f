"""The same work if only ops of one task slowed each other: every task has each channel for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.problem import Mode, Problem


def apart(problem: Problem, tasks: Iterable[Sequence[int]]) -> Problem:
    """Return ``problem`` with channels and classes of interference for each of ``tasks`` (positions of ops) alone."""
    ops, channels, interference = list(problem.ops), list(problem.channels), list(problem.interference)
    for k, task in enumerate(tasks):

        def own(name: str, k: int = k) -> str:
            return f"{name} of task {k}" if name else ""

        channels += [channel.model_copy(update={"name": own(channel.name)}) for channel in problem.channels]
        interference += [
            one.model_copy(update={"victim": own(one.victim), "cause": own(one.cause)}) for one in problem.interference
        ]
        # Ops share their modes, and much is looked up by the identity of a mode: each is changed once.
        changed: dict[int, Mode] = {}
        for i in task:
            for mode in ops[i].modes:
                if id(mode) not in changed:
                    pulls = tuple(pull.model_copy(update={"channel": own(pull.channel)}) for pull in mode.pulls)
                    changed[id(mode)] = mode.model_copy(update={"pulls": pulls, "op_class": own(mode.op_class)})
            ops[i] = ops[i].model_copy(update={"modes": tuple(changed[id(mode)] for mode in ops[i].modes)})
    return problem.model_copy(
        update={"ops": tuple(ops), "channels": tuple(channels), "interference": tuple(interference)}
    )
