"""A plan with a barrier after every step: the same modes, units and addresses, and nothing at the same time.

A step is one stage of one tile of a task: its slices, which different workers run side by side, are one step.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import networkx as nx

from hexloom.formulations.flows import moments_of, share_flows
from hexloom.optimizer.planner import address_orders

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem


def steps_of(problem: Problem, decision: Decision) -> list[tuple[int, ...]]:
    """Return the ops of every step, the steps in the order of ``decision`` as far as what must be ordered allows.

    Where two steps wait for parts of each other, their ops are steps of their own.
    """
    place = {action: k for k, action in enumerate(decision.actions) if action >= 0}
    orders = {(p, i) for i, before in enumerate(problem.predecessors) for p in before}
    orders |= {*decision.guards, *decision.flows, *address_orders(problem, decision)}
    keys = [(op.task, op.stage or op.name, op.tile) for op in problem.ops]
    group: dict[tuple[str, str, int], list[int]] = {}
    for i in sorted(place, key=lambda i: place[i]):
        group.setdefault(keys[i], []).append(i)
    members = list(group.values())
    while True:
        step_of = {i: k for k, ops in enumerate(members) for i in ops}
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(len(members)))
        graph.add_edges_from((step_of[a], step_of[b]) for a, b in orders if step_of[a] != step_of[b])
        inside = {step_of[a] for a, b in orders if step_of[a] == step_of[b]}
        tangled = {k for of in nx.strongly_connected_components(graph) if len(of) > 1 for k in of} | inside
        if not tangled:
            first = [place[ops[0]] for ops in members]
            return [tuple(members[k]) for k in nx.lexicographical_topological_sort(graph, key=first.__getitem__)]
        members = [part for k, ops in enumerate(members) for part in ([[i] for i in ops] if k in tangled else [ops])]


def with_barriers(problem: Problem, decision: Decision, steps: list[tuple[int, ...]] | None = None) -> Decision:
    """Return ``decision`` with a barrier after every step."""
    steps = steps_of(problem, decision) if steps is None else steps
    modes = [op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)]
    actions = tuple(action for ops in steps for action in (*ops, *(~i for i in ops if modes[i].dma is not None)))
    guards = tuple((a, b) for before, after in pairwise(steps) for a in before for b in after)
    flows = share_flows(problem, decision.modes, decision.units, moments_of(problem, decision.modes, actions))
    return replace(decision, actions=actions, guards=guards, flows=flows)
