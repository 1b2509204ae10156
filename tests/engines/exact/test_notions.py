"""Rényi divergences, ρ and μ against closed forms and independent integrals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtri

import veridp
from veridp.engines.exact import compare
from veridp.errors import BadInput, NotExact

EXACT = 1e-12
ORDERS = (1, 1 + 1e-9, 1.001, 1.5, 2, 3, 10, 100, 1000)

# ------------------------------------------------------------------------------------------------------- normal noise


def noisy_sum(rng: Any, data: Any) -> Any:
    return sum(data) + rng.normal(0, 2.0)


def noisy_vector(rng: Any, data: Any) -> Any:
    return np.asarray(data) + rng.normal(0, 3.0, size=len(data))


def processed(rng: Any, data: Any) -> Any:
    return {"value": 2 * (data[0] + rng.normal(scale=1.5)) + 7}


def two_draws(rng: Any, data: Any) -> Any:
    return data[0] + rng.normal(scale=3) - rng.normal(scale=4)


NORMAL: dict[str, tuple[Any, Any, Any, float]] = {
    "sum": (noisy_sum, [1, 2], [1, 3], 1 / 2),
    "vector": (noisy_vector, [1, 2, 5], [2, 3, 4], math.sqrt(3) / 3),
    "processed": (processed, [1], [2], 1 / 1.5),
    "two draws": (two_draws, [0], [1], 1 / 5),
    "far out": (noisy_sum, [1e12], [1e12 + 1], 1 / 2),
    "narrow": (lambda rng, x: x + rng.normal(scale=0.05), 0, 1, 20.0),
    "wide": (lambda rng, x: x + rng.normal(scale=1000), 0, 1, 1e-3),
}


@pytest.mark.parametrize("name", NORMAL)
def test_normal_noise_is_exact_in_every_notion(name: str) -> None:
    mechanism, left, right, mu = NORMAL[name]
    comparison = compare(mechanism, left, right)
    for order in ORDERS:
        assert comparison.renyi(order) == pytest.approx(order * mu**2 / 2, rel=EXACT)
    assert comparison.rho == pytest.approx(mu**2 / 2, rel=EXACT)
    assert comparison.mu == pytest.approx(mu, rel=EXACT)
    assert comparison.renyi(math.inf) == math.inf


def test_lower_bounds_do_not_exceed_the_truth_by_more_than_rounding() -> None:
    for scale in (0.7, 3.0, 50.0, 1e5):
        comparison = compare(lambda rng, x, scale=scale: x + rng.normal(scale=scale), 0, 1)
        assert comparison.rho <= (1 + 1e-14) / (2 * scale**2)
        assert comparison.mu <= (1 + 1e-14) / scale


# ----------------------------------------------------------------------------------------------------- closed forms


def laplace_divergence(order: float, scale: float) -> float:
    """Mironov 2017, table II."""
    with mp.workdps(60):
        a, b = mp.mpf(order), mp.mpf(scale)
        if a == 1:
            return float(1 / b + mp.exp(-1 / b) - 1)
        up, down = a / (2 * a - 1) * mp.exp((a - 1) / b), (a - 1) / (2 * a - 1) * mp.exp(-a / b)
        return float(mp.log(up + down) / (a - 1))


@pytest.mark.parametrize("scale", [0.01, 0.5, 1.0, 10.0, 1000.0])
def test_laplace(scale: float) -> None:
    comparison = compare(lambda rng, x: x + rng.laplace(0, scale), 0, 1)
    for order in (*ORDERS, 1e5):
        assert comparison.renyi(order) == pytest.approx(laplace_divergence(order, scale), rel=1e-11)
    assert comparison.renyi(math.inf) == pytest.approx(1 / scale, rel=EXACT)
    best = max(laplace_divergence(order, scale) / order for order in np.geomspace(1, 1e4, 400))
    assert comparison.rho == pytest.approx(best, rel=1e-5)
    assert comparison.rho >= best * (1 - 1e-11)
    if scale >= 0.1:  # the best test is the median's, between the two locations
        assert comparison.mu == pytest.approx(-2 * ndtri(math.exp(-0.5 / scale) / 2), rel=1e-9)


def discrete_divergence(left: Sequence[Any], right: Sequence[Any], order: float) -> float:
    with mp.workdps(60):
        pairs, a = [(mp.mpf(p), mp.mpf(q)) for p, q in zip(left, right, strict=True)], mp.mpf(order)
        if a == 1:
            return float(sum(p * mp.log(p / q) for p, q in pairs))
        return float(mp.log(sum(p**a * q ** (1 - a) for p, q in pairs)) / (a - 1))


def response(rng: Any, data: Any) -> bool:
    return not data[0] if rng.random() < 0.25 else bool(data[0])


def chosen(rng: Any, data: Any) -> Any:
    return rng.choice(3, p=[0.5, 0.25, 0.25] if data[0] else [0.125, 0.375, 0.5])


def test_outputs_without_numbers() -> None:
    comparison, other = compare(response, [0], [1]), compare(chosen, [1], [0])
    left, right = [0.5, 0.25, 0.25], [0.125, 0.375, 0.5]
    for order in ORDERS:
        assert comparison.renyi(order) == pytest.approx(
            discrete_divergence([0.75, 0.25], [0.25, 0.75], order), rel=EXACT
        )
        both = [discrete_divergence(left, right, order), discrete_divergence(right, left, order)]
        assert other.renyi(order) == pytest.approx(max(both), rel=EXACT)
    assert comparison.rho == pytest.approx(math.log(3) / 2, rel=EXACT)  # the KL divergence
    assert comparison.mu == pytest.approx(2 * ndtri(0.75), rel=EXACT)
    assert other.mu == pytest.approx(ndtri(0.5) - ndtri(0.125), rel=EXACT)  # the largest of the tests {0} and {0, 1}


def test_independent_answers_add() -> None:
    """Six randomized responses: divergences add, and μ is that of the best test on the number of flips."""

    def answers(rng: Any, data: Any) -> Any:
        return [bool(x) != (rng.random() < 0.25) for x in data]

    comparison = compare(answers, [0] * 6, [1] * 6)
    assert comparison.renyi(3) == pytest.approx(6 * discrete_divergence([0.75, 0.25], [0.25, 0.75], 3), rel=EXACT)
    weights = [math.comb(6, k) * 0.75 ** (6 - k) * 0.25**k for k in range(7)]
    tests = [(sum(weights[:k]), sum(weights[::-1][:k])) for k in range(1, 7)]
    assert comparison.mu == pytest.approx(max(ndtri(p) - ndtri(q) for p, q in tests), rel=1e-9)


def test_two_sided_geometric_noise() -> None:
    def counted(rng: Any, data: Any) -> Any:
        return data[0] + rng.geometric(1 - math.exp(-0.5)) - rng.geometric(1 - math.exp(-0.5))

    with mp.workdps(40):
        ratio = mp.exp(mp.mpf(-0.5))
        left = [ratio ** abs(k) * (1 - ratio) / (1 + ratio) for k in range(-300, 302)]
        right = [ratio ** abs(k - 1) * (1 - ratio) / (1 + ratio) for k in range(-300, 302)]
    comparison = compare(counted, [0], [1])
    for order in (1, 1.5, 2, 10, 50):
        assert comparison.renyi(order) == pytest.approx(discrete_divergence(left, right, order), rel=1e-11)


# ---------------------------------------------------------------------------------------------------- no finite value


def test_one_sided_noise_costs_everything_in_one_direction() -> None:
    comparison = compare(lambda rng, data: data[0] + rng.exponential(2.0), [0], [1])
    assert [comparison.renyi(order) for order in (1, 2, math.inf)] == [math.inf] * 3
    assert comparison.rho == comparison.mu == math.inf
    assert comparison.loss.reversed.divergence(2.0).value == pytest.approx(0.5, rel=EXACT)


def test_uniform_noise_costs_everything() -> None:
    comparison = compare(lambda rng, data: data[0] + rng.uniform(-3, 3), [0], [1])
    assert comparison.renyi(1) == comparison.rho == comparison.mu == math.inf


def test_orders_from_which_a_tail_diverges() -> None:
    """N(0, 4) against N(0, 1): finite below order 4/3; Laplace of scale 2 against 1: below order 2."""
    normal = compare(lambda rng, x: rng.normal(scale=1 + x), 0, 1)
    for order in (1.1, 1.3, 1.33):
        variance = (1 - order) * 4 + order
        assert normal.renyi(order) == pytest.approx(-math.log(2) - math.log(variance) / (2 * (order - 1)), rel=1e-11)
    assert normal.renyi(4 / 3) == normal.renyi(2) == normal.rho == normal.mu == math.inf
    laplace = compare(lambda rng, x: rng.laplace(scale=1 + x), 0, 1)
    for order in (1.5, 1.9, 1.999):
        moment = 0.5**order / (order / 2 - (order - 1))
        assert laplace.renyi(order) == pytest.approx(math.log(moment) / (order - 1), rel=1e-11)
    assert laplace.renyi(2) == laplace.renyi(3) == math.inf


def test_orders_from_which_a_pole_diverges() -> None:
    """Densities x e^-x against x² e^-x / 2: 2^(α - 1) Γ(3 - α) is finite below order 3."""
    comparison = compare(lambda rng, x: rng.gamma(3.0) if x else rng.gamma(2.0), 0, 1)
    for order in (1.5, 2.0, 2.5, 2.9):
        truth = math.log(2 ** (order - 1) * math.gamma(3 - order)) / (order - 1)
        assert comparison.loss.divergence(order).value == pytest.approx(truth, rel=1e-9)
    assert comparison.renyi(3) == comparison.renyi(3.5) == math.inf


# ------------------------------------------------------------------------------------------------------- integrals

Curve = Callable[[Any], Any]
POINTS = [-mp.inf, -40, -20, -10, -4, 0, 0.5, 1, 5, 10, 20, 40, mp.inf]


def integrated(left: Curve, right: Curve, order: float, atoms: Sequence[tuple[Any, Any]] = ()) -> float:
    """The larger of the two directions, by quadrature of the definition."""
    found, a = [], mp.mpf(order)
    for p, q, pairs in ((left, right, atoms), (right, left, [pair[::-1] for pair in atoms])):
        moment = mp.quad(lambda x, p=p, q=q: p(x) ** a * q(x) ** (1 - a), POINTS)
        found.append(mp.log(moment + sum(u**a * v ** (1 - a) for u, v in pairs)) / (a - 1))
    return float(max(found))


def test_a_mixture_of_noise() -> None:
    def mixture(rng: Any, data: Any) -> Any:
        if rng.random() < 0.25:
            return data[0] + rng.laplace(scale=2)
        return data[0] + rng.normal(scale=1.0)

    def density(at: float) -> Curve:
        return lambda x: mp.exp(-abs(x - at) / 2) / 16 + 3 * mp.npdf(x, at, 1) / 4

    comparison = compare(mixture, [0], [1])
    for order in (1.5, 5):
        assert comparison.renyi(order) == pytest.approx(integrated(density(0), density(1), order), rel=1e-9)


def test_a_branch_with_a_number_or_a_word() -> None:
    def branch(rng: Any, data: Any) -> Any:
        if data[0] + rng.laplace(scale=1.0) > 1.0:
            return "high"
        return data[0] + rng.normal(scale=2.0)

    words = mp.exp(-1) / 2, mp.mpf(1) / 2
    left, right = ((lambda x, at=at: (1 - words[at]) * mp.npdf(x, at, 2)) for at in (0, 1))
    comparison = compare(branch, [0], [1])
    for order in (1.5, 5):
        assert comparison.renyi(order) == pytest.approx(integrated(left, right, order, [words]), rel=1e-9)
    assert comparison.mu == pytest.approx(0.91697026254, rel=1e-9)  # by sorting 2.4 million cells of a fine grid


def test_independent_entries_with_other_noise() -> None:
    comparison = compare(lambda rng, x: [x[0] + rng.laplace(scale=2), x[1] + rng.laplace(scale=3)], [0, 0], [1, 1])
    for order in (1, 2, 100):
        truth = laplace_divergence(order, 2) + laplace_divergence(order, 3)
        assert comparison.renyi(order) == pytest.approx(truth, rel=1e-11)
    assert 0.59885929 * (1 - 1e-4) < comparison.mu <= 0.598859287  # by integration over one entry, 84 levels


# ------------------------------------------------------------------------------------------------------ consistency


@pytest.mark.parametrize("name", ["svt1", "noisy_max3", "geometric", "laplace"])
def test_the_notions_of_a_mechanism_agree(name: str) -> None:
    """Divergences grow with the order up to ε; ρ is at most ε²/2; and δ is at most that of μ."""
    sides = ([1, 2, 0], [0, 1, 1]) if name in ("svt1", "noisy_max3") else ([0], [1])
    comparison = compare(veridp.catalogue[name].bind(epsilon=1.0), *sides)
    values = [comparison.renyi(order) for order in (1, 1.5, 2, 4, 16, 256, math.inf)]
    assert values == sorted(values)
    assert values[0] > 0
    assert values[0] * (1 - 1e-12) <= comparison.rho <= comparison.epsilon**2 / 2
    assert comparison.mu >= math.sqrt(2 * comparison.rho) * (1 - 1e-12)
    reference = compare(lambda rng, x: x + rng.normal(scale=1 / comparison.mu), 0, 1)
    for epsilon in np.linspace(0, comparison.epsilon, 23):
        assert comparison.delta(epsilon) <= reference.delta(epsilon) + 1e-10


def test_equal_inputs_cost_nothing() -> None:
    comparison = compare(noisy_sum, [1, 2], [2, 1])
    assert comparison.renyi(1) == comparison.renyi(50) == comparison.rho == comparison.mu == 0


def test_entries_that_share_noise_are_refused() -> None:
    def shared(rng: Any, x: Any) -> Any:
        common = rng.laplace()
        return [x + common + rng.laplace(), x + common + rng.laplace()]

    comparison = compare(shared, 0, 1)
    with pytest.raises(NotExact, match="entangled"):
        comparison.renyi(2)


def test_orders_below_one_are_refused() -> None:
    comparison = compare(response, [0], [1])
    for order in (0.5, math.nan):
        with pytest.raises(BadInput, match="alpha must be a number >= 1"):
            comparison.renyi(order)


def test_all_notions_as_plain_data_and_in_a_line() -> None:
    costs = compare(noisy_sum, [0], [1]).notions((2, 4))
    assert costs.to_dict() == {
        "rho": pytest.approx(0.125),
        "mu": pytest.approx(0.5),
        "renyi": [{"alpha": 2, "epsilon": pytest.approx(0.25)}, {"alpha": 4, "epsilon": pytest.approx(0.5)}],
        "finished": True,
    }
    assert str(costs) == "zCDP: ρ = 0.125; GDP: μ = 0.5; Rényi: D_2 = 0.25, D_4 = 0.5"


def test_the_worst_pair_by_notion() -> None:
    """Entries of noise 1 and 2 that move by up to 1: all of them do, whatever the notion."""

    def mechanism(rng: Any, data: Any) -> Any:
        return [data[0] + rng.normal(scale=1), data[1] + rng.normal(scale=2)]

    for notion, truth in (("rho", 0.625), ("mu", math.sqrt(1.25)), (8, 5.0)):
        found = veridp.exact.worst(mechanism, size=2, notion=notion, max_pairs=8)
        assert found.cost == pytest.approx(truth, rel=EXACT)
    with pytest.raises(BadInput, match="notion must be one of epsilon, rho, mu, or a Rényi order >= 1, got 'delta'"):
        veridp.exact.worst(mechanism, size=2, notion="delta")
