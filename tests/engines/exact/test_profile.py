"""Privacy profiles and trade-off curves: what every one of them must satisfy, and some in closed form."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import brentq

import veridp
from veridp.engines.exact import Comparison, compare
from veridp.errors import NotExact

EXACT = 1e-11


def clipped(rng: Any, x: float) -> Any:
    return np.clip(x + rng.laplace(scale=2.0), 0.0, 1.0)


def mixed(rng: Any, x: float) -> Any:
    if rng.random() < 0.25 + x / 4:
        return "none"
    noisy = x + rng.logistic()
    return noisy if noisy > 0 else False


def several(rng: Any, queries: Any) -> Any:
    return [query + rng.laplace(scale=2.0) > 0.5 for query in queries]


CASES: dict[str, tuple[Any, Any, Any]] = {
    "laplace": (veridp.catalogue["laplace"].bind(epsilon=1.0), [0.0], [1.0]),
    "clipped": (clipped, 0.0, 1.0),
    "mixed": (mixed, 0.0, 1.0),
    "several": (several, [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]),
    "svt1": (veridp.catalogue["svt1"].bind(epsilon=1.0), [1.0, 2.0, 0.0], [0.0, 1.0, 1.0]),
    "svt3": (veridp.catalogue["svt3"].bind(epsilon=1.0), [1.0, 2.0], [2.0, 1.0]),
    "noisy_max3": (veridp.catalogue["noisy_max3"].bind(epsilon=1.0), [1.0, 2.0, 0.0], [0.0, 2.5, 0.5]),
    "geometric": (veridp.catalogue["geometric"].bind(epsilon=1.0), [0], [1]),
    "rappor": (veridp.catalogue["rappor"], 0, 1),
    "gaussian": (veridp.catalogue["gaussian"].bind(epsilon=1.0), [0.0], [1.0]),
}


@functools.cache
def curve(name: str) -> tuple[Any, Any]:
    return compare(*CASES[name]).tradeoff(81)


@pytest.fixture(scope="module")
def compared() -> dict[str, Comparison]:
    return {name: compare(*case) for name, case in CASES.items()}


def finite(comparison: Comparison) -> float:
    return comparison.epsilon if math.isfinite(comparison.epsilon) else 3.0


@pytest.mark.parametrize("name", CASES)
def test_profiles_fall_and_are_convex_in_the_exponential_of_epsilon(compared: dict[str, Comparison], name: str) -> None:
    """δ = max over events of P - e^ε Q: a maximum of functions linear in e^ε that fall."""
    epsilons, deltas = compared[name].profile(np.log(np.linspace(1, math.exp(1.2 * finite(compared[name])), 13)))
    assert len(epsilons) == len(deltas) == 13
    assert np.all(np.diff(deltas) <= EXACT)
    assert np.all(np.diff(deltas, 2) >= -EXACT)
    assert np.all((deltas >= 0) & (deltas <= 1))


@pytest.mark.parametrize("name", CASES)
def test_profiles_end_where_epsilon_is(compared: dict[str, Comparison], name: str) -> None:
    comparison = compared[name]
    if math.isinf(comparison.epsilon):
        assert comparison.delta(1.0) > 0
        return
    assert comparison.delta(comparison.epsilon * (1 + 1e-9)) <= EXACT
    assert comparison.delta(comparison.epsilon * 0.9) > 1e-8


@pytest.mark.parametrize("name", ["several", "svt1", "rappor"])
def test_at_zero_it_is_the_total_variation(compared: dict[str, Comparison], name: str) -> None:
    """Half the sum of |p - q| over all outputs, multiplied out by hand where bits are independent."""
    comparison = compared[name]
    if name == "svt1":
        pairs = [(row.left, row.right) for row in comparison.table]
    else:
        bits = [[(row.left, row.right) for row in compare_rows(part)] for part in comparison.loss.parts]  # type: ignore[attr-defined]
        pairs = [(1.0, 1.0)]
        for outcomes in (bit for bit in bits if any(abs(p - q) > 1e-15 for p, q in bit)):
            pairs = [(p * a, q * b) for p, q in pairs for a, b in outcomes]
    assert sum(p for p, _ in pairs) == pytest.approx(1, abs=EXACT)
    assert comparison.delta(0.0) == pytest.approx(sum(abs(p - q) for p, q in pairs) / 2, abs=EXACT)


def compare_rows(part: Any) -> list[Any]:
    return Comparison(veridp.catalogue["laplace"], None, None, part).table


def test_total_variation_of_numbers(compared: dict[str, Comparison]) -> None:
    """Laplace and logistic noise moved by 1. On the mixture's numbers 0.75 f(z) and 0.5 f(z - 1) cross once."""
    assert compared["laplace"].delta(0.0) == pytest.approx(1 - math.exp(-0.5), abs=EXACT)

    def difference(z: float) -> float:
        density = special.expit(z) * special.expit(-z), special.expit(z - 1) * special.expit(1 - z)
        return float(0.75 * density[0] - 0.5 * density[1])

    at = brentq(difference, 0.0, 10.0, xtol=1e-15)
    right_of_it = 0.5 * special.expit(1 - at) - 0.75 * special.expit(-at)
    assert compared["mixed"].delta(0.0) == pytest.approx(0.5 - 0.25 + right_of_it, abs=EXACT)


@pytest.mark.parametrize("name", CASES)
def test_tradeoff_curves_rise_and_bend_down(name: str) -> None:
    right, left = curve(name)
    assert (right[0], left[0]) == (0.0, 0.0)
    assert (right[-1], left[-1]) == (1.0, 1.0)
    assert np.all(np.diff(right) >= 0)
    assert np.all(np.diff(left) >= -EXACT)
    assert np.all(left >= right - EXACT)
    wide = np.concatenate([[True], np.diff(right) > 1e-9])  # slopes of shorter steps are rounding
    slopes = np.diff(left[wide]) / np.diff(right[wide])
    assert np.all(np.diff(slopes) <= 1e-6 * (1 + slopes[1:]))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_tradeoff_curves_and_profiles_tell_the_same(compared: dict[str, Comparison], name: str, share: float) -> None:
    """From left to right, δ(ε) = max over events of P - e^ε Q: no point is above it, and one comes close."""
    comparison = compared[name]
    epsilon = share * min(comparison.loss.supremum, 3.0)
    right, left = curve(name)
    over = np.max(left - math.exp(epsilon) * right)
    delta = comparison.loss.delta(epsilon)
    assert over <= delta.upper + EXACT
    assert over >= delta.lower - 1e-3  # it lies between two of the 81 levels


def test_the_tradeoff_of_gaussian_noise() -> None:
    """Φ(Φ⁻¹(α) + 1/σ) (Dong, Roth, Su 2022)."""
    scale = 1.5
    right, left = compare(lambda rng, x: x + rng.normal(scale=scale), 0.0, 1.0).tradeoff(201)
    inner = (right > 1e-12) & (right < 1 - 1e-12)
    assert inner.sum() > 40
    assert left[inner] == pytest.approx(special.ndtr(special.ndtri(right[inner]) + 1 / scale), abs=1e-9)


def test_the_tradeoff_of_randomized_response() -> None:
    """Three points: nothing, the true answer, everything."""
    right, left = compare(veridp.catalogue["randomized_response"].bind(epsilon=1.0), False, True).tradeoff()
    told = 1 / (1 + math.exp(-1))
    points = sorted(set(zip(right.round(12).tolist(), left.round(12).tolist(), strict=True)))
    assert points == [(0.0, 0.0), (round(1 - told, 12), round(told, 12)), (1.0, 1.0)]


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 1.7])
def test_two_numbers_that_both_move_are_enclosed(epsilon: float) -> None:
    """Two normal draws that move by 1 each are one that moves by √2: the bounds hold its δ."""
    comparison = compare(lambda rng, x: [x + rng.normal(scale=2.0), x - rng.normal(scale=2.0)], 0.0, 1.0)
    mu = math.sqrt(2) / 2.0
    expected = special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu)
    bounds = comparison.delta_bounds(epsilon)
    assert bounds.lower - 1e-12 <= expected <= bounds.upper + 1e-12
    assert bounds.upper - bounds.lower < 5e-3


def test_events_above_a_level_of_several_moving_numbers_have_no_short_name() -> None:
    """δ is enclosed; the event is not told, and the message says what may be asked instead."""
    comparison = compare(lambda rng, x: [x + rng.laplace(), x + rng.laplace()], 0.0, 1.0)
    with pytest.raises(NotExact, match="not a product of intervals; ask for δ"):
        comparison.event_above(0.5)
    with pytest.raises(
        NotExact, match=r"several independent numeric entries that all move.*ask for δ, which is enclosed"
    ):
        comparison.loss.above(0.5)


def test_profiles_run_from_zero_to_epsilon_unless_told_otherwise(compared: dict[str, Comparison]) -> None:
    comparison = compared["laplace"]
    epsilons, deltas = comparison.profile()
    assert (epsilons[0], epsilons[-1]) == (0.0, comparison.epsilon)
    assert deltas == pytest.approx(1 - np.exp((epsilons - 1) / 2), abs=EXACT)


@pytest.mark.parametrize("noise", ["normal", "laplace"])
def test_certified_points_lie_on_the_tradeoff_curve(noise: str) -> None:
    found = compare(lambda rng, x: x + getattr(rng, noise)(), 0.0, 1.0).certified_tradeoff(7)
    law = {"normal": stats.norm, "laplace": stats.laplace}[noise]
    assert len(found) == 7
    for test in found:
        cut = law.ppf(test.left.lower)  # outputs below a number are the best tests
        assert test.right.lower == pytest.approx(law.cdf(cut - 1), rel=1e-6, abs=1e-12)
        assert test.left.upper - test.left.lower < 1e-12


def test_what_time_does_not_suffice_for_is_left_out_and_said() -> None:
    comparison = compare(lambda rng, x: x + rng.normal(), 0.0, 1.0)
    cut = comparison.notions(seconds=1e-9)
    assert (cut.finished, cut.mu) == (False, None)
    assert str(cut).endswith("; cut short")
    whole = comparison.notions()
    assert (whole.finished, whole.mu) == (True, pytest.approx(1.0, abs=1e-9))


def test_the_witness_of_a_search_at_a_delta_shows_the_epsilon_there() -> None:
    found = veridp.exact.worst(lambda rng, data: data[0] + rng.laplace(), 1, at=0.1, max_pairs=4)
    assert found.epsilon == pytest.approx(1 + 2 * math.log(0.9), abs=1e-9)  # δ(ε) = 1 - e^((ε-1)/2)
    assert found.witness.epsilon(0.1).lower == pytest.approx(found.epsilon, abs=1e-6)
    assert found.comparison.witness.epsilon(0.1).lower < found.epsilon - 0.01  # that of the pure loss
