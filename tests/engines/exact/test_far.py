"""The same numbers wherever the data lie: everything is relative to the noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtr

from veridp.engines.exact import compare
from veridp.errors import NotExact, VeridpError

FAR = [0.0, 0.1, 1e6, -1e12, 1e14, -1e15]


def laplace(rng: Any, data: Any) -> Any:
    return data[0] + rng.laplace()


def mixture(rng: Any, data: Any) -> Any:
    return data[0] + rng.laplace(scale=rng.choice([1, 2]))


@pytest.mark.parametrize("at", FAR)
def test_laplace_keeps_its_delta(at: float) -> None:
    comparison = compare(laplace, [at], [at + 1])
    move = (at + 1) - at
    for epsilon in (0.2, 0.5, 0.9):
        assert comparison.delta(epsilon) == pytest.approx(-math.expm1((epsilon - move) / 2), rel=1e-10)
    assert comparison.epsilon == pytest.approx(move, rel=1e-12)


@pytest.mark.parametrize("at", [0.0, 1e6, 1e14, -1e15])
def test_a_mixture_keeps_its_epsilon(at: float) -> None:
    def density(x: float) -> float:
        return math.exp(-abs(x)) / 4 + math.exp(-abs(x) / 2) / 8

    points = np.linspace(-30, 30, 600_001)
    largest = max(abs(math.log(density(x) / density(x - 1))) for x in points[::100])
    near = max(math.log(density(x) / density(x - 1)) for x in np.linspace(-1e-3, 1e-3, 2001))
    comparison = compare(mixture, [at], [at + 1])
    assert comparison.epsilon == pytest.approx(max(largest, near), abs=1e-6)

    def excess(x: float) -> float:
        return max(0.0, density(x) - math.exp(0.3) * density(x - 1))

    delta, _ = integrate.quad(excess, -60, 60, points=[0, 0.25, 0.5, 1], limit=500)
    assert comparison.delta(0.3) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("at", FAR)
def test_uniform_noise_keeps_its_delta(at: float) -> None:
    """(0, Δ / 2a) for noise on [-a, a]."""
    comparison = compare(lambda rng, data: data[0] + rng.uniform(-5, 5), [at], [at + 1])
    assert comparison.epsilon == math.inf
    assert comparison.delta(0.0) == pytest.approx(((at + 1) - at) / 10, rel=1e-9)


@pytest.mark.parametrize("at", [0.0, 1e14])
def test_the_probabilities_of_a_witness_are_those_of_the_event_as_it_is_rounded(at: float) -> None:
    """Near 1e14 floats lie 1/64 apart, and so do the ends of events."""
    witness = compare(laplace, [at], [at + 1]).witness_above(0.5)
    assert witness is not None
    ((_, (span,)),) = witness.event.within  # type: ignore[attr-defined]
    end = span.high - at
    left, right = witness.left_probability, witness.right_probability
    assert (left.lower + left.upper) / 2 == pytest.approx(1 - math.exp(-end) / 2, rel=1e-12)
    assert (right.lower + right.upper) / 2 == pytest.approx(math.exp(end - 1) / 2, rel=1e-12)


@pytest.mark.parametrize("apart", [1e3, 1e7, 1e9, 1e12, 1e14])
def test_a_mixture_of_two_places_keeps_its_numbers_however_far_apart_they_are(apart: float) -> None:
    def both_move(rng: Any, data: Any) -> Any:
        return rng.laplace() + (data[0] if rng.random() < 0.5 else apart + data[0])

    def one_moves(rng: Any, data: Any) -> Any:
        return rng.normal(scale=2) + (data[0] if rng.random() < 0.5 else apart)

    def weights_change(rng: Any, data: Any) -> Any:
        return rng.laplace() - (0 if rng.random() < (0.5 if data[0] else 0.25) else apart)

    laplace_noise, normal_noise, weights = (compare(f, [0], [1]) for f in (both_move, one_moves, weights_change))
    assert laplace_noise.epsilon == pytest.approx(1.0, rel=1e-12)
    assert normal_noise.epsilon == math.inf
    assert weights.epsilon == pytest.approx(math.log(2), rel=1e-12)
    for epsilon in (0.0, 0.3):
        assert laplace_noise.delta(epsilon) == pytest.approx(-math.expm1((epsilon - 1) / 2), rel=1e-12)
        normal_delta = ndtr(0.25 - 2 * epsilon) - math.exp(epsilon) * ndtr(-0.25 - 2 * epsilon)
        assert normal_noise.delta(epsilon) == pytest.approx(normal_delta / 2, rel=1e-11)
        assert weights.delta(epsilon) == pytest.approx(max(0.5 - math.exp(epsilon) / 4, 0.75 - math.exp(epsilon) / 2))


@example([(3, 1.0, 0), (1, 3.0, 2), (5, 3.0, 0)], 1e12)  # several components make up the tail
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from([0.25, 1.0, 3.0]), st.integers(-2, 2)), min_size=2, max_size=4
    ),
    st.sampled_from([2e3, 1e7, 3e9, 1e12]),
)
def test_laplace_mixtures_of_places_far_apart(components: list[tuple[int, float, int]], apart: float) -> None:
    """The ratio of mixtures with equal weights is at most the largest of their components', and reaches it.

    No two components overlap, so δ is the mean of theirs.
    """

    def mechanism(rng: Any, data: Any) -> Any:
        chosen = rng.choice(len(components), p=[weight / total for weight, _, _ in components])
        _, scale, move = components[chosen]
        return apart * chosen**2 + move * data[0] + rng.laplace(scale=scale)

    total = sum(weight for weight, _, _ in components)
    comparison = compare(mechanism, [0], [1])
    assert comparison.epsilon == pytest.approx(max(abs(move) / scale for _, scale, move in components), rel=1e-9)
    for epsilon in (0.0, 0.4):
        deltas = [w * -math.expm1(min(0.0, (epsilon - abs(move) / scale) / 2)) for w, scale, move in components]
        assert comparison.delta(epsilon) == pytest.approx(sum(deltas) / total, rel=1e-9, abs=1e-12)
    assert comparison.loss.masses() == pytest.approx((1.0, 1.0), rel=1e-12)


@pytest.mark.parametrize("apart", [10**3, 10**9, 10**12])
def test_integers_of_two_places_far_apart(apart: int) -> None:
    """Poisson noise that moves by 1: δ(ε) as a sum over its values."""

    def mechanism(rng: Any, data: Any) -> Any:
        return data[0] + rng.choice([0, apart]) + rng.poisson(3)

    counts = np.arange(-1, 80)
    here, moved = stats.poisson.pmf(counts, 3), stats.poisson.pmf(counts - 1, 3)
    comparison = compare(mechanism, [0], [1])
    assert comparison.epsilon == math.inf
    for epsilon in (0.0, 0.5):
        excess = (np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ((here, moved), (moved, here)))
        assert comparison.delta(epsilon) == pytest.approx(max(excess), rel=1e-9)


def one_place_and_wide_noise(rng: Any, data: Any) -> Any:
    return data[0] + (rng.laplace() if rng.random() < 0.5 else 1e9 + rng.laplace(scale=1e6))


def a_place_for_each_integer(rng: Any, data: Any) -> Any:
    return data[0] + 1e9 * rng.geometric(0.5) + rng.laplace()


def sums_of_integers(rng: Any, data: Any) -> Any:
    return data[0] + rng.choice([0, 10**9]) + rng.geometric(0.5) - rng.geometric(0.4)


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        (one_place_and_wide_noise, "too far apart"),
        (a_place_for_each_integer, "too far apart"),
        (sums_of_integers, "integers"),
    ],
)
def test_what_windows_do_not_reach_is_refused(mechanism: Any, reason: str) -> None:
    with pytest.raises(NotExact, match=f"{reason}.*use an engine that samples"):
        compare(mechanism, [0], [1]).epsilon  # noqa: B018


def test_a_clip_far_away_changes_nothing() -> None:
    clipped = compare(lambda rng, data: np.clip(data[0] + rng.laplace(), -1e14, 1e14), [0], [1])
    assert clipped.epsilon == pytest.approx(1.0, abs=1e-9)


KINDS = ("laplace", "normal", "exponential", "gumbel", "logistic")


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([0.5, 1.0, 3.0])), min_size=1, max_size=2),
    st.sampled_from([1.0, -1.0, 2.0]),
    st.sampled_from([1e6, -1e9, 2.0**40, 1e15]),
)
def test_random_sums_do_not_depend_on_where_the_data_lie(
    draws: list[tuple[str, float]], factor: float, at: float
) -> None:
    def mechanism(rng: Any, data: Any) -> Any:
        return data[0] + factor * sum(getattr(rng, kind)(scale=scale) for kind, scale in draws)

    here, there = compare(mechanism, [0.0], [1.0]), compare(mechanism, [at], [at + 1.0])
    assert there.epsilon == pytest.approx(here.epsilon, rel=1e-9)
    for epsilon in (0.0, 0.4):
        assert there.delta(epsilon) == pytest.approx(here.delta(epsilon), rel=1e-9, abs=1e-14)


EXTREMES = [1e-320, 1e-200, 1e-12, 1.0, 1e12, 1e200, 1.7e308]


@pytest.mark.parametrize("kind", ["laplace", "normal", "exponential", "gumbel", "logistic"])
@pytest.mark.parametrize("scale", EXTREMES)
def test_extreme_numbers_give_a_number_or_a_clear_refusal(kind: str, scale: float) -> None:
    """No OverflowError, no NaN, no warning."""
    for at, move in ((0.0, 1.0), (1e300, 1e290), (-1.7e308, 1e300), (10**400, 1)):
        for mechanism in (
            lambda rng, data: data[0] + getattr(rng, kind)(scale=scale),
            lambda rng, data: data[0] + getattr(rng, kind)(scale=scale) > 0.5,
        ):
            try:
                comparison = compare(mechanism, [at], [at + move])
                values = [comparison.epsilon, *(comparison.delta(e) for e in (0.0, 1.0, 800.0, 1e6))]
                str(comparison.witness)
            except VeridpError:
                continue
            assert not any(math.isnan(value) for value in values)
            assert all(0 <= value <= 1 + 1e-9 for value in values[1:])
