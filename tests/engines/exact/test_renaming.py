"""Outputs read as the numbers that they were computed from: texts, quotients by released numbers, mixed functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import veridp
from veridp.engines.exact import compare
from veridp.errors import NotExact


def shares_of_witness(mechanism: Any, comparison: Any, count: int = 4_000) -> list[float]:
    """How often samples of the two inputs lie in the event of the witness; its probabilities, within 5 σ."""
    witness = comparison.witness
    sides = zip((witness.left, witness.right), (witness.left_probability, witness.right_probability), strict=True)
    return [
        (float(witness.event(veridp.sample(mechanism, data, count, seed=3)).mean()) - p.upper)
        / math.sqrt(max(p.upper * (1 - p.upper), 1 / count) / count)
        for data, p in sides
    ]


def test_a_text_with_one_number_costs_what_the_rounded_number_does() -> None:
    """A level [k - 1/2, k + 1/2] has the ratio e everywhere left of both centres; "-0" is (-1/2, 0), told from "0"."""
    for write in (
        lambda rng, x: f"about {x + rng.laplace():.0f} users",
        lambda rng, x: "{:,.1f} EUR".format(x + rng.laplace()),  # noqa: UP032
        lambda rng, x: str(x + rng.laplace()),
        lambda rng, x: [f"{x + rng.laplace():.1%}", "%"],
    ):
        comparison = compare(write, 0.0, 1.0)
        assert comparison.epsilon == pytest.approx(1.0, abs=1e-9)
        assert max(map(abs, shares_of_witness(write, comparison))) < 5

    def whole(rng: Any, x: float) -> str:
        return f"{x + rng.laplace():.0f}"

    # δ(ε) of the rounded number with its sign: the levels, as a list
    edges = np.array([-math.inf, *np.arange(-40, 1) - 0.5, 0.0, *np.arange(1, 42) - 0.5, math.inf])
    below = [np.where(edges < c, np.exp(edges - c) / 2, 1 - np.exp(np.minimum(c - edges, 0.0)) / 2) for c in (0.0, 1.0)]
    left, right = (np.diff(each) for each in below)
    for epsilon in (0.25, 0.75):
        delta = max(np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ((left, right), (right, left)))
        assert compare(whole, 0.0, 1.0).delta(epsilon) == pytest.approx(delta, abs=1e-9)


def test_of_several_numbers_in_a_text_the_first_is_read() -> None:
    def line(rng: Any, data: list[float]) -> str:
        income, spending = (x + rng.laplace(0, 2.0) for x in data)
        return f"income {income:,.2f}, spending {spending:.0f}"

    def joined(rng: Any, data: list[float]) -> str:
        return f"{data[0] + rng.laplace():.1f}-{data[1] + rng.laplace():.1f}"

    comparison = compare(line, [0.0, 0.0], [1.0, 0.0])
    assert comparison.epsilon == pytest.approx(0.5, abs=1e-9)
    assert comparison.is_lower_bound
    assert max(map(abs, shares_of_witness(line, comparison))) < 5
    assert compare(line, [0.0, 0.0], [0.0, 1.0]).epsilon == 0  # its truth is 1/2: it is not read
    with pytest.raises(NotExact, match="nothing in it tells where the first ends"):
        compare(joined, [0.0, 0.0], [1.0, 0.0])


def test_a_quotient_by_a_released_number_tells_the_other() -> None:
    """(c, t / c) is (c, t) renamed, also where c is cut off at 1: two numbers that move by 1, at scale 2 each."""

    def mean_or_nothing(rng: Any, data: Any) -> Any:
        count = data[0] + rng.laplace(scale=2.0)
        total = data[1] + rng.laplace(scale=2.0)
        return (count, total / count) if count >= 1 else None

    def mean_by_at_least_one(rng: Any, data: Any) -> Any:
        count = data[0] + rng.laplace(scale=2.0)
        return {"n": count, "mean": 1 + 3 * (data[1] + rng.laplace(scale=2.0)) / max(count, 1.0)}

    def rate(rng: Any, data: Any) -> Any:
        count = data[0] + rng.laplace(scale=2.0)
        return 2 * count + 1, count / (data[1] + rng.laplace(scale=2.0))

    for mechanism in (mean_or_nothing, mean_by_at_least_one, rate):
        comparison = compare(mechanism, [1.0, 2.0], [2.0, 3.0])
        assert comparison.epsilon == pytest.approx(1.0, abs=1e-9)
        assert max(map(abs, shares_of_witness(mechanism, comparison))) < 5
        assert compare(mechanism, [1.0, 2.0], [2.0, 2.0]).epsilon == pytest.approx(0.5, abs=1e-9)


def test_outputs_that_different_functions_may_give_are_not_told_apart() -> None:
    """Each gives some outputs in two ways, of which a reading of its numbers would make two outputs, or a wrong one."""

    def two_functions(rng: Any, x: float) -> float:
        noisy = x + rng.laplace()
        return math.exp(noisy) if noisy > 0 else noisy + 5

    def cut_off_on_the_grid(rng: Any, x: float) -> float:
        return max(round(x + rng.laplace(), 1), 0.5)

    def constant_text(rng: Any, x: float) -> str:
        noisy = x + rng.laplace()
        return "12" if noisy < 0 else f"{noisy:.0f}"

    def hidden_divisor(rng: Any, x: float) -> Any:
        count = x + rng.laplace()
        return (x + rng.laplace()) / count

    def divisor_told_late(rng: Any, x: float) -> Any:
        count, other = x + rng.laplace(), x + rng.laplace()
        return other, (x + rng.laplace()) / (count if rng.random() < 0.5 else other)

    for mechanism in (two_functions, cut_off_on_the_grid, constant_text, hidden_divisor, divisor_told_late):
        with pytest.raises(NotExact):
            compare(mechanism, 0.0, 1.0)


def test_outputs_of_unknown_loss_count_as_one_beside_constants() -> None:
    """Shares of counts cut off at 0: (1, 0, 0) and equal shares are told from all that are quotients of two numbers.

    The third count is cut off with probability e^-c / 2, and the others do not depend on it: the loss is 1.
    """

    def shares(rng: Any, data: Any) -> Any:
        noisy = [max(count + rng.laplace(), 0.0) for count in data]
        total = sum(noisy)
        return [value / total if total > 0 else 1 / 3 for value in noisy]

    def shares_at_once(rng: Any, data: Any) -> Any:
        noisy = np.maximum(np.asarray(data) + rng.laplace(size=3), 0)
        return noisy / noisy.sum() if noisy.sum() > 0 else np.full(3, 1 / 3)

    for mechanism in (shares, shares_at_once):
        comparison = compare(mechanism, [0.0, 0.0, 0.0], [0.0, 0.0, 1.0])
        assert comparison.is_lower_bound
        assert "ε >= 1 between" in str(comparison)
        assert comparison.epsilon == pytest.approx(1.0, abs=1e-9)
        assert max(map(abs, shares_of_witness(mechanism, comparison))) < 5
        outputs = veridp.sample(mechanism, comparison.left, 4_000, seed=5)
        for row in comparison.table:  # also the one of all other outputs
            assert float(row.event(outputs).mean()) == pytest.approx(row.left, abs=0.04)

    def number_or_share(rng: Any, data: Any) -> float:
        one, other = (count + rng.laplace() for count in data)
        return one / (one + other) if one > 0 else one

    for mechanism in (number_or_share, lambda rng, data: (data[0] + rng.laplace()) / (data[1] + rng.laplace())):
        with pytest.raises(NotExact):
            compare(mechanism, [0.0, 1.0], [1.0, 1.0])
    assert compare(lambda rng, x: 3 / (x + rng.laplace()), 0.0, 1.0).epsilon == pytest.approx(1.0, abs=1e-9)


def test_a_rounded_number_that_is_cut_off_within_a_step() -> None:
    """What is rounded and compared with 0.2 and 3.7 falls into the pieces between these and the halves."""

    def band(rng: Any, x: float) -> Any:
        noisy = x + rng.laplace()
        return round(noisy) if 0.2 < noisy <= 3.7 else "no"

    ends = np.array([0.2, 0.5, 1.5, 2.5, 3.5, 3.7])
    below = [np.where(ends < c, np.exp(ends - c) / 2, 1 - np.exp(np.minimum(c - ends, 0.0)) / 2) for c in (0.0, 1.0)]
    left, right = ([*np.diff(each), 1 - each[-1] + each[0]] for each in below)
    comparison = compare(band, 0.0, 1.0)
    assert comparison.epsilon == pytest.approx(max(np.abs(np.log(np.divide(left, right)))), abs=1e-9)
    delta = max(
        np.maximum(np.subtract(p, math.exp(0.5) * np.array(q)), 0).sum() for p, q in ((left, right), (right, left))
    )
    assert comparison.delta(0.5) == pytest.approx(delta, abs=1e-9)

    def large_groups(rng: Any, data: Any) -> Any:
        noisy = {name: count + rng.laplace(scale=3.0) for name, count in zip("abc", data, strict=True)}
        return {name: round(count, 1) for name, count in noisy.items() if count > 5}

    comparison = compare(large_groups, [5.0, 5.0, 5.0], [6.0, 6.0, 6.0])
    assert comparison.epsilon == pytest.approx(1.0, abs=1e-9)
    assert max(map(abs, shares_of_witness(large_groups, comparison))) < 5

    def written_twice(rng: Any, x: float) -> Any:
        noisy = x + rng.laplace()
        return [f"{noisy:.0f}", f"{noisy:.1f}"]

    with pytest.raises(NotExact):
        compare(written_twice, 0.0, 1.0)


@pytest.mark.parametrize("factor", [0.01, -0.25])
def test_the_event_of_a_function_of_a_multiple_is_told_in_outputs(factor: float) -> None:
    def growth(rng: Any, data: Any) -> float:
        return math.exp(factor * (data[0] + rng.laplace(0, 0.5)))

    comparison = compare(growth, [0.0], [1.0])
    assert comparison.epsilon == pytest.approx(2.0)
    assert comparison.witness.epsilon(0.0).lower == pytest.approx(2.0, rel=1e-6)
    assert all(abs(gap) < 5 for gap in shares_of_witness(growth, comparison))
