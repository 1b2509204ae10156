"""Round numbers, where they are neighbours of the domain as before."""

from __future__ import annotations

import pytest

from veridp.adjacency import OwnAdjacency, Pair, adjacency
from veridp.tidy import tidied

LONG = 0.1 + 0.2  # 0.30000000000000004


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([7.99e-12, LONG], [1.0, LONG], ([0.0, 0.3], [1.0, 0.3])),
        ([-7.99e-12], [LONG], ([0.0], [0.3])),
        ([1 / 3], [1.0], ([1 / 3], [1.0])),  # no rounding of its own
        ([0.0], [1e-10], ([0.0], [1e-10])),  # they would be the same
        ([2, "a", None], [2, "a", True], ([2, "a", None], [2, "a", True])),
        (LONG, 2.0, (0.3, 2.0)),
    ],
)
def test_numbers_are_rounded_where_that_changes_nothing_else(left: object, right: object, expected: object) -> None:
    found = tidied(Pair(left, right, "made"), adjacency("any"), (-10, 10))
    assert (found.left, found.right, found.pattern) == (*expected, "made")  # type: ignore[misc]
    assert "-0.0" not in repr(found)


@pytest.mark.parametrize(
    ("domain", "left", "right"),
    [
        ((1e-11, 5.0), [1e-11], [2.0]),  # 0 is not in the domain
        ([LONG, 1.0], [LONG], [1.0]),
    ],
)
def test_a_pair_that_would_leave_the_domain_stays(domain: object, left: object, right: object) -> None:
    pair = Pair(left, right, "made")
    assert tidied(pair, adjacency("any"), domain) == pair  # type: ignore[arg-type]


def test_a_pair_that_would_be_no_neighbours_stays() -> None:
    exact = OwnAdjacency("exactly", lambda left, right: right[0] - left[0] == 1.5e-10 + 1, lambda size: [])
    pair = Pair([0.0], [1.5e-10 + 1], "made")
    assert tidied(pair, exact, (-10, 10)) == pair
