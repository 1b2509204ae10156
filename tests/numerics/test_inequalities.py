"""Linear inequalities: what is possible, and what is covered, is what z3 says."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

import pytest
import z3

from veridp.numerics import inequalities
from veridp.numerics.inequalities import LinearInequality, Sign, are_possible, cover, inner_point

SIGNS: tuple[Sign, ...] = (">", ">", ">=", ">=", "==", "!=")


def inequality(rng: random.Random, names: Sequence[str], signs: Sequence[Sign] = SIGNS) -> LinearInequality:
    chosen = rng.sample(names, rng.randint(1, min(3, len(names))))
    terms = {name: Fraction(rng.choice([-3, -2, -1, 1, 1, 2]), rng.choice([1, 1, 2, 20])) for name in chosen}
    return LinearInequality(terms, Fraction(rng.randint(-6, 6), rng.choice([1, 2, 4])), rng.choice(signs))


def in_z3(inequality: LinearInequality, whole: Collection[str] = ()) -> Any:
    terms = [
        z3.Q(value.numerator, value.denominator) * (z3.Int(name) if name in whole else z3.Real(name))
        for name, value in inequality.terms.items()
    ]
    total = z3.Sum([*terms, z3.Q(inequality.constant.numerator, inequality.constant.denominator)])
    return {">": total > 0, ">=": total >= 0, "==": total == 0, "!=": total != 0}[inequality.sign]


def holds(inequality: LinearInequality, point: dict[Any, Fraction]) -> bool:
    total = inequality.constant + sum(value * point[name] for name, value in inequality.terms.items())
    return {">": total > 0, ">=": total >= 0, "==": total == 0, "!=": total != 0}[inequality.sign]


@pytest.mark.parametrize("seed", range(120))
def test_a_point_is_found_where_z3_finds_one(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"x{k}" for k in range(rng.randint(1, 6))]
    whole = {name for name in names if rng.random() < rng.choice([0, 0, 0.5, 1])}
    asked = [inequality(rng, names) for _ in range(rng.randint(1, 12))]
    solver = z3.Solver()
    solver.add(*(in_z3(each, whole) for each in asked))
    point = inner_point(asked, whole)
    assert (point is not None) == (solver.check() == z3.sat) == are_possible(asked, whole)
    if point is not None:
        assert all(holds(each, point) for each in asked)
        assert all(point[name].denominator == 1 for name in whole & point.keys())


@pytest.mark.parametrize("seed", range(40))
def test_parts_cover_a_region_where_z3_says_so(seed: int) -> None:
    """Half of the parts are made to cover it: the cells of some hyperplanes, of which half the time one is left out."""
    rng = random.Random(seed)
    names = [f"x{k}" for k in range(rng.randint(1, 3))]
    planes = [inequality(rng, names, (">", ">=")) for _ in range(rng.randint(1, 3))]
    parts: list[list[LinearInequality]] = [[]]
    for plane in planes:
        parts = [[*part, side] for part in parts for side in (plane, plane.negated())]
    rng.shuffle(parts)
    parts = parts[seed % 2 :]
    region = [inequality(rng, names) for _ in range(rng.randint(0, 2))]
    solver = z3.Solver()
    solver.add(*map(in_z3, region), *(z3.Or([in_z3(each.negated()) for each in part]) for part in parts))
    assert cover(parts, region) == (solver.check() == z3.unsat)


def test_strict_inequalities_are_met_by_the_largest_margin() -> None:
    between = [LinearInequality({"x": 1}, 0, ">"), LinearInequality({"x": -1}, Fraction(1, 3), ">")]
    assert inner_point(between) == {"x": Fraction(1, 6)}
    assert inner_point([between[0], LinearInequality({"x": -1}, 0, ">=")]) is None


def test_many_rows_are_decided_from_a_hint() -> None:
    """A ring x0 < x1 < … < x0 + gap has a solution just where the gap is positive."""
    for gap in (Fraction(1, 1000), Fraction(0)):
        ring = [LinearInequality({f"x{k + 1}": 1, f"x{k}": -1}, 0, ">") for k in range(40)]
        assert are_possible([*ring, LinearInequality({"x0": 1, "x40": -1}, gap, ">")]) == (gap > 0)


def test_what_is_not_decided_counts_as_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real x, whole y and z between parallel planes without whole points, which branching never exhausts."""
    monkeypatch.setattr(inequalities, "MAX_BRANCHES", 20)
    asked = [
        LinearInequality({"y": 2, "z": -2, "x": 1}, -1, "=="),
        LinearInequality({"x": 1}, Fraction(1, 10), ">"),
        LinearInequality({"x": -1}, Fraction(1, 10), ">"),
    ]
    assert are_possible(asked, {"y", "z"})
