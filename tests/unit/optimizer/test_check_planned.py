"""Plans of the list scheduler on small random problems: what the checker accepts is safe, and nothing is to spare."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.optimizer.check import check_plan, check_times
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import OpRow
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.optimizer.plan import Plan

SEEDS = range(60)


def random_mode(rng: random.Random) -> Mode:
    """Return a transfer, or work on threads and perhaps a resource that is held as long as they are."""
    if rng.random() < 0.4:
        ticks = rng.randint(1, 9)
        owner = rng.choice(("hvx", "hmx"))
        dma = Dma(owner_engine=owner, owner_unit=0, issue_ticks=rng.randint(0, 2), poll_ticks=rng.randint(0, 2))
        return Mode(uses=(Use(engine="ddr", ticks=ticks),), latency_ticks=ticks + rng.choice((0, 3)), dma=dma)
    ticks = rng.randint(1, 9)
    uses = [Use(engine="hvx", ticks=ticks, units=rng.randint(1, 2))]
    if rng.random() < 0.4:
        uses.append(Use(engine="hmx", ticks=rng.randint(1, ticks)))
    if rng.random() < 0.4:
        uses.append(Use(engine="lut", ticks=ticks))
    latency = ticks + rng.choice((0, 0, 4))
    return Mode(uses=tuple(uses), latency_ticks=latency, overhead_ticks=rng.choice((0, 1)))


def random_problem(rng: random.Random) -> Problem:
    n = rng.randint(3, 10)
    ops = tuple(Op(name=f"o{i}", modes=(random_mode(rng),)) for i in range(n))
    edges = [(a, b) for b in range(n) for a in range(b) if rng.random() < 0.2]
    buffers = []
    for b in range(rng.randint(1, n)):
        users = {f"o{min(n - 1, rng.randrange(n) + k)}" for k in range(rng.randint(1, 2))}
        buffers.append(Buffer(name=f"b{b}", size_bytes=rng.randint(0, 20), ops=tuple(sorted(users)), align_bytes=4))
    return Problem(
        engines=(
            Engine(name="hmx"),
            Engine(name="hvx", units=2),
            Engine(name="lut", kind="resource"),
            Engine(name="ddr", kind="pipe"),
        ),
        ops=ops,
        precedences=tuple(Precedence(before=f"o{a}", after=f"o{b}") for a, b in edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=rng.choice((80, 120))),
        entry_ticks=rng.choice((0, 5)),
    )


def planned(seed: int) -> tuple[Problem, Plan]:
    rng = random.Random(seed)
    while True:
        problem = random_problem(rng)
        policy = Policy(tuple(rng.random() for _ in problem.ops), (0,) * len(problem.ops))
        decision = list_schedule(problem, policy)
        if decision is not None:
            return problem, make_plan(problem, decision)


def perturbed(problem: Problem, rng: random.Random) -> Problem:
    """Return the problem with other durations; a thread that is held to the result stays so."""

    def other(mode: Mode) -> Mode:
        whole = {use.engine for use in mode.uses if use.ticks == mode.latency_ticks}
        latency = rng.choice((1, 5, 50))
        uses = tuple(
            use.model_copy(update={"ticks": latency if use.engine in whole else rng.randint(1, latency)})
            for use in mode.uses
        )
        return mode.model_copy(update={"uses": uses, "latency_ticks": latency})

    ops = tuple(op.model_copy(update={"modes": tuple(other(m) for m in op.modes)}) for op in problem.ops)
    return Problem.model_validate({**problem.model_dump(by_alias=True), "ops": ops})


def simulated(problem: Problem, plan: Plan) -> list[OpRow]:
    names = ("start", "transfer_start", "done", "wait_start", "observed")
    rows = []
    for op, times in simulate(problem, plan).times.items():
        mode = problem.ops[problem.op_index[op]].modes[0]
        held = max(use.ticks for use in mode.uses) + mode.overhead_ticks if mode.dma is None else mode.dma.issue_ticks
        rows.append(OpRow(op=op, end=times.start + held, **{name: getattr(times, name) for name in names}))
    return rows


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_of_the_list_scheduler_is_safe_whatever_its_ops_take(seed: int) -> None:
    problem, plan = planned(seed)
    assert check_plan(problem, plan) == []
    assert check_times(problem, plan, simulated(problem, plan)) == []
    rng = random.Random(seed)
    for _ in range(5):
        other = perturbed(problem, rng)
        assert check_plan(other, plan) == []
        assert check_times(other, plan, simulated(other, plan)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_no_wait_can_be_left_out(seed: int) -> None:
    problem, plan = planned(seed)
    for wait in plan.waits:
        less = plan.model_copy(update={"waits": tuple(w for w in plan.waits if w != wait)})
        assert check_plan(problem, less) != []
