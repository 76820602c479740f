"""Terms by which overlaps lengthen ops: exact where pairs and triples tell all, never too much where they do not."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from unit.shared_channels import pulling, sharing

from hexloom.formulations.flat.overlap_terms import GRID, OverlapTerms, Terms, Worker
from hexloom.formulations.problem import Channel, Engine, Mode, Op, Problem, Pull, Rule, Use

INNER = (Channel(name="l2", capacity=10), Channel(name="total", capacity=10))
BOTH = (Channel(name="read", capacity=100), Channel(name="write", capacity=60))


def by_name(p: Problem, terms: OverlapTerms, of: str) -> dict[str, Fraction]:
    """Return the terms of an op by the names of its partners, which are all of different kinds."""
    names = {terms.kind_of[Worker(i, 0)]: op.name for i, op in enumerate(p.ops)}
    kind = terms.kind_of[Worker(p.op_index[of], 0)]
    found = terms.terms(kind)
    return {" ".join(sorted(names[k] for k in group)): Fraction(c, GRID) for group, c in found.of.items()}


def test_a_pair_on_one_channel_loses_what_the_channel_lacks() -> None:
    p = sharing(pulling("a", 10, ddr=80), pulling("b", 10, ddr=80))
    terms = OverlapTerms(p, "fluid")
    assert by_name(p, terms, "a") == {"b": Fraction(3, 8)}


def test_an_op_that_cannot_go_at_full_speed_alone_is_measured_by_its_own() -> None:
    """Alone at 100/130; beside one of 130 at half of that."""
    p = sharing(pulling("a", 10, ddr=130), pulling("b", 10, ddr=130))
    terms = OverlapTerms(p, "fluid")
    assert set(terms.alone) == {Fraction(10, 13)}
    assert by_name(p, terms, "a") == {"b": Fraction(1, 2)}


def test_two_partners_do_not_add_up() -> None:
    """Three of 80: beside one 3/8 is lost, beside both 7/12 and not 6/8, which is what pairs alone would say."""
    p = sharing(*(pulling(name, 12, ddr=80) for name in "abc"))
    terms = OverlapTerms(p, "fluid")
    (a,) = {terms.kind_of[Worker(0, 0)]}
    assert by_name(p, terms, "a")["b c"] == Fraction(7, 12) - Fraction(6, 8)
    b, c = (terms.kind_of[Worker(i, 0)] for i in (1, 2))
    assert not terms.admits(a, Terms({(b,): 135, (c,): 135}))


def test_a_third_op_on_an_inner_channel_makes_the_first_faster() -> None:
    """A2 (a): beside B at 1/2, beside B and C at 3/4. The term of B alone is what remains beside both."""
    ops = (pulling("a", 12, total=10), pulling("b", 12, l2=10, total=10), pulling("c", 12, l2=30))
    p = sharing(*ops, channels=INNER)
    terms = OverlapTerms(p, "fluid")
    a, b = (terms.kind_of[Worker(i, 0)] for i in (0, 1))
    assert not terms.admits(a, Terms({(b,): GRID // 2}))
    assert by_name(p, terms, "a") == {"b": Fraction(1, 2), "b c": Fraction(-1, 4)}


def test_a_copy_that_is_stopped_on_its_way_out_leaves_the_way_in() -> None:
    """A2 (b): beside the copy at 5/6, beside the copy and a store at 1."""
    ops = (pulling("a", 10, read=60), pulling("k", 20, read=60, write=60), pulling("s", 5, write=60))
    p = sharing(*ops, channels=BOTH)
    terms = OverlapTerms(p, "fluid")
    a, k = (terms.kind_of[Worker(i, 0)] for i in (0, 1))
    assert not terms.admits(a, Terms({(k,): GRID // 6}))
    assert by_name(p, terms, "a") == {"k": Fraction(1, 6), "k s": Fraction(-1, 6)}


def test_an_op_that_slows_a_rival_frees_the_channel() -> None:
    """A2 (c): M scales the speed of V to 3/10, so D has 7/10 of what V leaves instead of 1/2."""
    ops = (pulling("v", 10, op_class="v", ddr=100), pulling("d", 10, ddr=100), pulling("m", 10, op_class="m"))
    p = sharing(*ops, factors="v<m=3/10")
    terms = OverlapTerms(p, "fluid")
    d, v = (terms.kind_of[Worker(p.op_index[name], 0)] for name in "dv")
    m = terms.kind_of[Worker(2, 0)]
    together = tuple(sorted((v, m)))
    assert terms.slowed(d, (v,)) == Fraction(1, 2)
    assert terms.slowed(d, together) == 1 - Fraction(10, 13)
    assert not terms.admits(d, Terms({(v,): GRID // 2}))
    assert terms.terms(d).claimed(together) <= GRID * terms.slowed(d, together)


@pytest.mark.parametrize("rule", ["fluid", "proportional", "priority"])
def test_no_set_contradicts_any_terms(rule: Rule) -> None:
    ops = [pulling(f"a{i}", 5, engine="two", ddr=r) for i, r in enumerate((30, 60, 90))]
    ops += [pulling("b", 7, ddr=50, op_class="b"), pulling("c", 7, ddr=130, op_class="c"), pulling("d", 3, ddr=75)]
    p = sharing(*ops, after="a0>b", factors="b<c=1/2 c<b=4/5")
    p = p.model_copy(
        update={
            "engines": tuple(e.model_copy(update={"units": 2}) for e in p.engines if e.name == "two")
            + tuple(e for e in p.engines if e.name != "two")
        }
    )
    terms = OverlapTerms(p, rule)
    assert terms.complete
    assert max(len(chosen) for chosen in terms.together) == 5
    for kind in range(len(terms.kinds)):
        assert terms.admits(kind, terms.terms(kind))


def test_under_priority_only_who_comes_later_is_slowed() -> None:
    p = sharing(pulling("a", 10, ddr=80), pulling("b", 10, ddr=80))
    terms = OverlapTerms(p, "priority")
    assert by_name(p, terms, "a") == {}
    assert by_name(p, terms, "b") == {"a": Fraction(3, 4)}


def test_ops_of_one_engine_or_in_one_chain_are_never_together() -> None:
    p = sharing(*(pulling(n, 4, engine="dma", ddr=80) for n in "ab"), pulling("c", 4, ddr=70), after="a>c b>c")
    terms = OverlapTerms(p, "fluid")
    assert terms.together == [(0,), (1,)]
    assert terms.terms(0).of == {}


def test_a_thread_released_early_is_not_held() -> None:
    """The result of a comes 3 after its thread is free: b of the same thread can work beside it."""
    late = Mode(uses=(Use(engine="e", ticks=2),), latency_ticks=5, pulls=(Pull(channel="ddr", rate=80),))
    p = Problem(
        engines=(Engine(name="e"),),
        channels=(Channel(name="ddr", capacity=100),),
        ops=(Op(name="a", modes=(late,)), pulling("b", 4, engine="e", ddr=80)),
    )
    terms = OverlapTerms(p, "fluid")
    assert any(len(chosen) == 2 for chosen in terms.together)


def test_tiles_that_are_alike_are_one_kind() -> None:
    p = sharing(*(pulling(f"a{i}", 4, engine="dma", ddr=60) for i in range(50)), pulling("b", 9, ddr=60))
    terms = OverlapTerms(p, "fluid")
    assert sorted(len(mine) for mine in terms.workers) == [1, 50]


def test_too_many_sets_give_no_terms() -> None:
    p = sharing(*(pulling(f"o{i}", 4, ddr=i + 1) for i in range(14)))
    terms = OverlapTerms(p, "fluid")
    assert not terms.complete
    assert all(terms.terms(k).of == {} for k in range(14))


def test_what_terms_claim_counts_every_group_of_the_partners() -> None:
    terms = Terms({(0,): 10, (0, 0): -3, (0, 1): 2, (1,): 1})
    for twice in range(4):
        pairs = sum(1 for _ in combinations(range(twice), 2))
        assert terms.claimed((0,) * twice + (1,)) == 10 * twice - 3 * pairs + 2 * twice + 1
