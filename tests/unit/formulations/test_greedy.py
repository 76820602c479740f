from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from unit.small import buffer, held, move, on, problem, run

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.greedy import ANY, Policy, list_schedule
from hexloom.formulations.local_search import Limit, LocalSearch
from hexloom.formulations.problem import Engine
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import Timeline, simulate

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Op, Problem


def decided(p: Problem, priority: str = "", careful: bool = False, **keys: object) -> Decision | None:
    """List-schedule with the priorities of ``priority``, most urgent first; the rest in file order."""
    order = [p.op_index[n] for n in priority.split()]
    order += [i for i in range(len(p.ops)) if i not in order]
    urgent = tuple(float(-order.index(i)) for i in range(len(p.ops)))
    modes = tuple(0 if len(op.modes) == 1 else ANY for op in p.ops)
    policy = Policy(urgent, keys.pop("modes", modes), careful=careful, **keys)  # type: ignore[arg-type]
    return list_schedule(p, policy)


def timed(p: Problem, priority: str = "", **keys: object) -> Timeline:
    decision = decided(p, priority, **keys)  # type: ignore[arg-type]
    assert decision is not None
    return simulate(p, make_plan(p, decision))


def starts(found: Timeline) -> dict[str, int]:
    return {name: t.start for name, t in found.times.items()}


def either(name: str, **ticks: int) -> Op:
    modes = tuple(mode for engine, t in ticks.items() for mode in on(engine, name, t).modes)
    return on("hvx", name, 1).model_copy(update={"modes": modes})


def test_the_most_urgent_goes_first() -> None:
    p = problem(*(on("hmx", n, 3) for n in "abc"), entry_ticks=2)
    assert starts(timed(p, "c a b")) == {"c": 2, "a": 5, "b": 8}


def test_units_are_filled_and_fixed_ones_respected() -> None:
    p = problem(on("hvx", "a", 3), run("b", held("hvx", 2, 1, (0,))), on("hvx", "c", 1), run("g", held("hvx", 1, 2)))
    found = timed(p, "a b c g")
    assert starts(found) == {"a": 0, "b": 3, "c": 0, "g": 5}
    first = timed(p, "b a c g")
    assert starts(first) == {"b": 0, "a": 0, "c": 2, "g": 3}


def test_a_gang_that_waits_keeps_its_units_from_longer_ops() -> None:
    """g needs both threads at 4; c of 2 fits before, d of 9 does not."""
    p = problem(on("hvx", "a", 4), run("g", held("hvx", 1, 2)), on("hvx", "d", 9), on("hvx", "c", 2))
    assert starts(timed(p, "a g d c")) == {"a": 0, "g": 4, "d": 5, "c": 0}


def test_an_open_mode_is_chosen_when_it_starts() -> None:
    """The fast one on hmx is taken; the next op takes the thread that is free rather than wait."""
    p = problem(either("a", hvx=5, hmx=3), either("b", hvx=5, hmx=3))
    decision = decided(p)
    assert decision is not None
    assert decision.modes == (1, 0)
    fixed = decided(p, modes=(0, 0))
    assert fixed is not None and fixed.modes == (0, 0)


def test_transfers_spread_over_their_queues() -> None:
    engines = (Engine(name="hvx", units=2), *(Engine(name=n, kind="pipe") for n in ("ddr", "q0", "q1")))
    ops = []
    for i in range(4):
        both = [move(f"l{i}", 6, owner=q, pipes={"ddr": 2, f"q{q}": 6}).modes[0] for q in (0, 1)]
        ops.append(move(f"l{i}", 6, pipes={"ddr": 2, "q0": 6}).model_copy(update={"modes": tuple(both)}))
    p = problem(*ops, engines=engines)
    decision = decided(p)
    assert decision is not None
    assert sorted(decision.modes) == [0, 0, 1, 1]
    assert simulate(p, make_plan(p, decision)).makespan == 14


def test_guards_are_followed() -> None:
    p = problem(on("hvx", "a", 3), on("hmx", "b", 2))
    assert starts(timed(p, guards=((0, 1),))) == {"a": 0, "b": 3}


def test_a_lazy_transfer_goes_when_its_owner_joins_all() -> None:
    """Eager it is issued first and moves alone; lazy, right before the gang, and it still arrives during it."""
    p = problem(
        on("hvx", "a", 3), move("load", 2), run("g", held("hvx", 5, 2)), on("hmx", "m", 1), after="g>m load>m a>g"
    )
    assert starts(timed(p, "load a g"))["load"] == 0
    lazy = timed(p, "a g load", lazy=frozenset({1}))
    assert starts(lazy)["load"] == 3
    assert lazy.makespan == 3 + 5 + 1


def test_a_lazy_transfer_that_someone_needs_now_is_issued() -> None:
    p = problem(move("load", 2), on("hmx", "m", 1), after="load>m")
    assert timed(p, lazy=frozenset({0})).makespan == 3


def test_marks_and_polls() -> None:
    p = problem(move("a", 2, issue=1, poll=1), run("mark"), on("hmx", "m", 1), after="a>mark mark>m")
    found = timed(p)
    assert starts(found) == {"a": 0, "mark": 4, "m": 4}


def test_scratchpad_bytes_hold_ops_back() -> None:
    """Two of three buffers fit: the third op waits although its engine is free."""
    ops = [run(f"p{i}", latency=4) for i in range(3)]
    p = problem(*ops, buffers=tuple(buffer(f"x{i}", 4, f"p{i}") for i in range(3)), capacity=8)
    assert sorted(starts(timed(p)).values()) == [0, 0, 4]


@pytest.mark.parametrize("careful", [False, True])
def test_loads_that_run_ahead_do_not_starve_their_consumers(careful: bool) -> None:
    """Each tile: 4 to load into, 4 more for the result; of 12, three loads must not take all."""
    ops, edges, buffers = [], [], []
    for i in range(6):
        ops += [move(f"l{i}", 1, task="t", tile=i), on("hmx", f"m{i}", 5, task="t", tile=i)]
        edges.append(f"l{i}>m{i}")
        buffers += [buffer(f"x{i}", 4, f"l{i}", f"m{i}"), buffer(f"y{i}", 4, f"m{i}")]
    p = problem(*ops, after=" ".join(edges), buffers=tuple(buffers), capacity=12)
    decision = decided(p, careful=careful)
    if careful:
        assert decision is not None
        assert simulate(p, make_plan(p, decision)).makespan == 1 + 6 * 5


def test_a_dead_end_is_none() -> None:
    p = problem(
        *(on("hvx", n, 1) for n in "abc"),
        after="a>b b>c",
        buffers=(buffer("x", 4, "a", "c", address=0), buffer("y", 4, "b", address=0)),
        capacity=8,
    )
    assert decided(p) is None


@pytest.mark.parametrize("seed", range(30))
def test_priorities_and_guards_never_break_a_plan(seed: int) -> None:
    """Whatever is asked for, the plan keeps the precedence and ends; its makespan is at least the best bound."""
    rng = random.Random(seed)
    n = 9
    ops = [
        move(f"o{i}", rng.randint(1, 5), owner=rng.randrange(2), issue=rng.randint(0, 1), poll=rng.randint(0, 1))
        if rng.random() < 0.3
        else run(f"o{i}", held(rng.choice(("hvx", "hmx", "lut")), rng.randint(1, 6)))
        for i in range(n)
    ]
    edges = [(a, b) for b in range(n) for a in range(b) if rng.random() < 0.15]
    p = problem(
        *ops,
        after=" ".join(f"o{a}>o{b}" for a, b in edges),
        buffers=tuple(buffer(f"x{a}{b}", rng.randint(1, 6), f"o{a}", f"o{b}") for a, b in edges),
        capacity=40,
    )
    guards = tuple((a, b) for b in range(n) for a in range(b) if rng.random() < 0.05)
    decision = list_schedule(p, Policy(tuple(rng.random() for _ in ops), (0,) * n, guards))
    assert decision is not None
    found = simulate(p, make_plan(p, decision))
    for a, b in (*edges, *guards):
        assert found.times[f"o{a}"].observed <= found.times[f"o{b}"].start
    assert found.makespan >= lower_bounds(p).best.ticks


# --- local search ---------------------------------------------------------------------------------------


def search(p: Problem, limit: Limit, seed: int = 0) -> LocalSearch:
    return LocalSearch(p, lower_bounds(p), evaluate, limit, seed)


def test_a_limit_counts_work_or_time() -> None:
    counted = Limit(1, deterministic=True)
    counted.spend(10_000)
    assert not counted.reached
    counted.spend(10_000)
    assert counted.reached
    assert Limit(0).reached
    assert not Limit(60).reached
    stopped = Limit(60)
    stopped.interrupted = True
    assert stopped.reached


@pytest.mark.parametrize("seed", range(5))
def test_search_finds_what_no_plain_priority_does(seed: int) -> None:
    """Johnson's flow shop: (hvx[0], hmx) of (3,6) (5,2) (1,2) (6,6) (7,5); the best order takes 24."""
    times = [(3, 6), (5, 2), (1, 2), (6, 6), (7, 5)]
    ops = []
    for i, (a, b) in enumerate(times):
        ops += [run(f"a{i}", held("lut", a)), on("hmx", f"b{i}", b)]
    p = problem(*ops, after=" ".join(f"a{i}>b{i}" for i in range(5)))
    found = search(p, Limit(0.3, deterministic=True), seed).run()
    assert found.decision is not None
    assert found.ticks == 24


def test_a_search_without_a_decision_says_whether_there_is_none() -> None:
    impossible = problem(
        *(on("hvx", n, 1) for n in "abc"),
        after="a>b b>c",
        buffers=(buffer("x", 8, "a", "c"), buffer("y", 8, "b")),
        capacity=12,
    )
    found = search(impossible, Limit(0.1, deterministic=True)).run()
    assert (found.decision, found.proven_infeasible) == (None, True)


def test_an_incumbent_is_only_replaced_by_something_better() -> None:
    p = problem(on("hmx", "a", 2), on("hmx", "b", 3))
    mine = decided(p)
    assert mine is not None
    found = search(p, Limit(1, deterministic=True)).run((mine,))
    assert found.decision is mine
    assert found.ticks == 5
