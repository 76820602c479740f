"""The heaviest set of users of a share that nothing orders: against all sets."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from hexloom.optimizer.check_shares import _heaviest

edges = st.sets(st.sampled_from(list(combinations(range(7), 2))), max_size=12)


@given(edges, st.lists(st.integers(1, 5), min_size=2, max_size=7), st.integers(0, 12))
def test_what_may_run_at_once_is_the_heaviest_antichain(
    pairs: set[tuple[int, int]], held: list[int], units: int
) -> None:
    n = len(held)
    after = [0] * 7
    for i in reversed(range(7)):
        for a, b in pairs:
            if a == i:
                after[i] |= after[b] | 1 << b
    order = SimpleNamespace(bit={f"t{i}": 1 << i for i in range(7)}, after=lambda op: after[int(op[1:])])
    antichains = [
        some
        for k in range(1, n + 1)
        for some in combinations(range(n), k)
        if not any(after[a] >> b & 1 for a, b in combinations(some, 2))
    ]
    most = max(sum(held[i] for i in some) for some in antichains)
    found = _heaviest(order, {f"t{i}": amount for i, amount in enumerate(held)}, units)  # type: ignore[arg-type]
    if most <= units:
        assert found == ()
    else:
        mine = tuple(int(op[1:]) for op in found)
        assert mine in antichains
        assert sum(held[i] for i in mine) == most
