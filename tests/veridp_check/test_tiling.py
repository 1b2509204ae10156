"""Regions that tile space: shown for those that do, never said of those that do not."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest

from veridp_check import tiling
from veridp_check.linear import LinearExpression, Point, number, variable
from veridp_check.tiling import tile

NAMES = ("x", "y", "z")


def largest_of(count: int) -> list[list[LinearExpression]]:
    """For each of some numbers, the points where it is the largest."""
    values = [variable(f"n{k}") for k in range(count)]
    return [[mine - other for other in values if other is not mine] for mine in values]


def holding(regions: list[list[LinearExpression]], point: Point) -> int | None:
    """How many regions the point is in; None where it is on a boundary."""
    values = [[value.at(point) for value in region] for region in regions]
    if any(value == 0 for value in itertools.chain.from_iterable(values)):
        return None
    return sum(all(value > 0 for value in region) for region in values)


def random_value(rng: random.Random) -> LinearExpression:
    terms = {name: Fraction(rng.randint(-2, 2)) for name in NAMES}
    return LinearExpression(
        {name: c for name, c in terms.items() if c} or {"x": Fraction(1)}, Fraction(rng.randint(-4, 4), 2)
    )


def halved(rng: random.Random, depth: int) -> list[list[LinearExpression]]:
    """The leaves of a tree of random halvings: neighbours of a facet are often several regions."""
    if depth == 0 or rng.random() < 0.1:
        return [[]]
    cut = random_value(rng)
    front, back = halved(rng, depth - 1), halved(rng, depth - 1)
    return [[cut, *region] for region in front] + [[cut * Fraction(-1), *region] for region in back]


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_the_regions_where_each_number_is_the_largest_tile(count: int) -> None:
    regions = largest_of(count)
    assert tile([], regions)
    assert not tile([], regions[1:])
    assert not tile([], [*regions, regions[0]])
    shifted = [[value + number(Fraction(1, 100)) for value in regions[0]], *regions[1:]]
    assert not tile([], shifted)
    assert tile([variable("n1") - variable("n0")], regions[1:])


@pytest.mark.parametrize("seed", range(25))
def test_what_is_said_to_tile_does(seed: int) -> None:
    rng = random.Random(seed)
    regions = halved(rng, 4)
    assert tile([], regions)
    for _ in range(4):
        tampered = [list(region) for region in regions]
        region = rng.choice(tampered)
        if region:
            place = rng.randrange(len(region))
            how = rng.randrange(3)
            if how == 0:
                region.pop(place)
            elif how == 1:
                region[place] = region[place] + number(Fraction(rng.choice([-1, 1]), 4))
            else:
                tampered.remove(region)
        if tile([], tampered):
            for _ in range(300):
                point = {name: Fraction(rng.randint(-400, 400), 97) for name in NAMES}
                assert holding(tampered, point) in (None, 1)


def test_a_part_of_space_without_a_point_is_tiled_by_anything() -> None:
    x = variable("x")
    assert tile([x, x * Fraction(-1)], [])
    assert not tile([x], [])


def test_what_takes_too_long_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "MAX_FACETS", 3)
    assert not tile([], largest_of(5))
