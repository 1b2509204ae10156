"""Unions of half-planes and intervals of which a picture says whether they are convex, cover everything or overlap."""

from __future__ import annotations

from typing import Any

import pytest

from veridp.engines.prove.convex import are_disjoint, cover_everything, union_if_convex
from veridp.kernel.explore import explore


def parts(*regions: Any, integer: bool = False) -> list[Any]:
    """The conditions of each region of two draws, of the one path that it has."""

    def kept(region: Any) -> Any:
        def mechanism(rng: Any, data: Any) -> Any:
            x, y = (rng.geometric(0.5), rng.geometric(0.5)) if integer else (rng.laplace(), rng.laplace())
            return bool(region(x, y))

        (path,) = (path for path in explore(mechanism, None) if path.output)
        return path.conditions

    return [kept(region) for region in regions]


def test_two_halves_of_a_half_plane_are_it() -> None:
    union = union_if_convex(parts(lambda x, y: x > 0 and y > 1, lambda x, y: x > 0 and y <= 1))
    assert [str(condition) for condition in union or ()] == ["n0 > 0"]


def test_overlapping_triangles() -> None:
    """x > 0 and y > x, and x > 0 and y > 0, make the quadrant; without the second it is none of it."""
    quadrant, wedge = (lambda x, y: x > 0 and y > 0), (lambda x, y: x > 0 and y > x)
    assert {str(c) for c in union_if_convex(parts(quadrant, wedge)) or ()} == {"n0 > 0", "n1 > 0"}


@pytest.mark.parametrize(
    "regions",
    [
        (lambda x, y: x > 1, lambda x, y: x < -1),
        (lambda x, y: x > 0 and y > 0, lambda x, y: x < 0 and y < 0),
        (lambda x, y: x > 0 and y > 0, lambda x, y: x > 0 and y < -1),
    ],
)
def test_what_has_a_gap_is_not_convex(regions: Any) -> None:
    assert union_if_convex(parts(*regions)) is None


def test_boundaries_of_integers_weigh() -> None:
    assert union_if_convex(parts(lambda x, y: x > 3, lambda x, y: x <= 3, integer=True)) is None


def test_what_covers_everything() -> None:
    assert cover_everything(parts(lambda x, y: x > y, lambda x, y: x <= y))
    assert cover_everything(parts(lambda x, y: x > 0, lambda x, y: x < 1 and y > 0, lambda x, y: x < 1 and y <= 0))
    assert not cover_everything(parts(lambda x, y: x > 0, lambda x, y: x < 0 and y > 0))


def test_what_overlaps() -> None:
    assert are_disjoint(parts(lambda x, y: x > y, lambda x, y: x <= y))
    assert not are_disjoint(parts(lambda x, y: x > 0, lambda x, y: y > 0))
