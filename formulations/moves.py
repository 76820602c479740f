"""What local search changes of a policy: priorities, modes, caps, depths, and gates that hold a task back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hexloom.formulations.starts import CAPS, DEPTHS, task_gates

if TYPE_CHECKING:
    import random

    from hexloom.formulations.policy import Policy
    from hexloom.formulations.problem import Problem


class Moves:
    """Neighbours of policies, drawn at random; ``capped`` says whether caps act."""

    def __init__(self, problem: Problem, source: random.Random, *, capped: bool) -> None:
        self._problem = problem
        self._random = source
        self._capped = capped
        self._sources, self._gates = task_gates(problem)

    def gate_policies(self, policy: Policy) -> list[Policy]:
        """Hold one task back until a step of a longer one is done, and the other way round."""
        tails = dict.fromkeys(self._sources, 0.0)
        for op, priority in zip(self._problem.ops, policy.priority, strict=True):
            tails[op.task] = max(tails.get(op.task, 0.0), priority)
        shortest_first = sorted(self._sources, key=lambda task: tails[task])
        return [
            replace(policy, guards=tuple((gate, source) for source in self._sources[task]))
            for task in shortest_first
            for other, gates in self._gates.items()
            if other != task
            for gate in gates
        ]

    def neighbour(self, policy: Policy) -> Policy:
        """Return a policy that differs from this one in one thing, or a few priorities."""
        rng = self._random
        n = len(self._problem.ops)
        move = rng.random()
        choices = [i for i in range(n) if len(self._problem.fitting_modes[i]) > 1]
        if choices and move < 0.3:
            i = rng.choice(choices)
            modes = list(policy.modes)
            modes[i] = rng.choice(self._problem.fitting_modes[i])
            return replace(policy, modes=tuple(modes))
        if len(self._sources) > 1 and move < 0.5:
            factor = {task: math.exp(rng.gauss(0, 0.7)) for task in self._sources}
            return replace(
                policy,
                priority=tuple(
                    p * factor.get(op.task, 1.0) for p, op in zip(policy.priority, self._problem.ops, strict=True)
                ),
            )
        if self._capped and move < 0.51:
            return replace(policy, cap=rng.choice(CAPS))
        if policy.depth is not None and move < 0.52:
            return replace(policy, depth=rng.choice((*DEPTHS, None)))
        if policy.guards and move < 0.55:
            return replace(policy, guards=())
        if len(self._sources) > 1 and move < 0.65:
            gates = self.gate_policies(policy)
            if gates:
                return rng.choice(gates)
        priority = list(policy.priority)
        for _ in range(1 + rng.randrange(3)):
            i = rng.randrange(n)
            priority[i] = priority[rng.randrange(n)] + rng.choice((-1.0, 1.0))
        return replace(policy, priority=tuple(priority))


def transfer_stages(problem: Problem) -> list[frozenset[int]]:
    """Return the transfers of each stage, the longest first: when those are issued matters most."""
    stages: dict[tuple[str, str], list[int]] = {}
    for i, op in enumerate(problem.ops):
        if all(mode.dma is not None for mode in op.modes):
            stages.setdefault((op.task, op.stage), []).append(i)
    longest = {key: max(problem.ops[i].modes[0].latency_ticks for i in ops) for key, ops in stages.items()}
    return [frozenset(stages[key]) for key in sorted(stages, key=lambda key: -longest[key])]
