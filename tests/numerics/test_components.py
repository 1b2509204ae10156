"""Connected components, against the closure of the relation that they are defined by."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from veridp.numerics.components import components


@given(st.lists(st.frozensets(st.integers(0, 12), max_size=4), max_size=14))
def test_sets_are_together_just_if_a_chain_links_them(sets: list[frozenset[int]]) -> None:
    count = range(len(sets))
    linked = [[a == b or not sets[a].isdisjoint(sets[b]) for b in count] for a in count]
    for via in count:
        linked = [[linked[a][b] or (linked[a][via] and linked[via][b]) for b in count] for a in count]
    expected = [[b for b in count if linked[a][b]] for a in count if not any(linked[a][:a])]
    assert components(sets) == expected


def test_a_long_chain_is_one_group() -> None:
    pairs = [(k, k + 1) for k in range(3000)]
    assert components(pairs[::2] + pairs[1::2]) == [list(range(3000))]
