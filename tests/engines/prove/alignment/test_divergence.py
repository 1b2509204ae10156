"""Proofs of (ε, δ), beside closed forms, known answers and the exact engine."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.stats import norm

import veridp
from veridp.accounting import Leaf, Repeated, Sequential, account
from veridp.engines.exact import compare, worst
from veridp.engines.prove import prove
from veridp.engines.prove.target import target_differences
from veridp.errors import BadInput
from veridp.verdict import Standing
from veridp_check.alignment.reader import read_divergence
from veridp_check.checker import check

LEAST_SIGMA = 3.7306316348  # for (1, 1e-5) at sensitivity 1
CLASSICAL = math.sqrt(2 * math.log(1.25e5))


def delta_of_normal(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def noisy(scale):
    def released(rng, data):
        return [value + rng.normal(scale=scale) for value in data]

    return released


@pytest.mark.parametrize(
    ("scale", "size", "adjacency", "epsilon"),
    [
        (LEAST_SIGMA, 1, "l1", 1.0),
        (CLASSICAL, 1, "l1", 0.7509769569),
        (CLASSICAL / 0.1, 1, "l1", 0.0607037816),
        (CLASSICAL / 3, 1, "l1", 2.5332694553),
        (3.730632, 5, "linf", 2.4420841),
        (3.730632, 5, "l1", 0.99999989),
    ],
)
def test_normal_noise_costs_what_is_known(scale, size, adjacency, epsilon):
    proof = prove(noisy(scale), size, delta=1e-5, adjacency=adjacency)
    assert proof.epsilon == pytest.approx(epsilon, abs=6e-8 if size > 1 else 1e-9)
    steps = size if adjacency == "linf" else 1
    assert proof.mu == pytest.approx(math.sqrt(steps) / scale, rel=1e-12)
    assert proof.rho == pytest.approx(steps / (2 * scale**2), rel=1e-12)
    assert proof.delta(proof.epsilon) == pytest.approx(1e-5, rel=1e-9)
    assert proof.delta(0.5) == pytest.approx(delta_of_normal(0.5, math.sqrt(steps) / scale), rel=1e-9)
    certificate = proof.certificate
    assert certificate["kind"] == "divergence"
    assert check(certificate).verified


def sum_of_two_draws(rng, data):
    first = rng.normal(0, 3)
    return data[0] + first + 4 * rng.standard_normal()


def rounded_and_named(rng, data):
    total = sum(data) + rng.normal(scale=4)
    return {"total": round(max(total, 0.0)), "size": "large" if total > 10 else "small"}


def threshold(rng, data):
    return bool(data[0] + rng.normal(scale=4) > 3)


def two_kinds_of_noise(rng, data):
    return data[0] + rng.laplace(scale=2), data[1] + rng.normal(scale=3)


def normal_after_a_branch(rng, data):
    """The second draw is made in one branch only."""
    first = data[0] + rng.normal(scale=5)
    return [first, data[1] + rng.normal(scale=5)] if first > 0 else [first]


def difference_of_sums(rng, data):
    noise = rng.normal(size=2)
    return np.array([data[0] + data[1], data[0] - data[1]]) + 10 * noise


@pytest.mark.parametrize(
    ("mechanism", "size", "adjacency", "mu"),
    [
        (sum_of_two_draws, 1, "linf", 1 / 5),
        (rounded_and_named, 3, "l1", 1 / 4),
        (rounded_and_named, 3, "linf", 3 / 4),
        (threshold, 1, "linf", 1 / 4),
        (normal_after_a_branch, 2, "linf", math.sqrt(2) / 5),
        (difference_of_sums, 2, "l1", math.sqrt(2) / 10),
        (difference_of_sums, 2, "linf", 2 / 10),
    ],
)
def test_one_shift_keeps_whatever_is_computed_from_normal_noise(mechanism, size, adjacency, mu):
    proof = prove(mechanism, size, delta=1e-6, adjacency=adjacency)
    assert proof.mu == pytest.approx(mu, rel=1e-12)
    assert delta_of_normal(proof.epsilon, mu) == pytest.approx(1e-6, rel=1e-6)


def argmax(rng, data):
    return int(np.argmax([value + rng.normal(scale=5) for value in data]))


def test_noisy_max_keeps_its_differences_alone():
    """Only differences of the noisy numbers decide: the mean of the shift is free, and 0 is the cheapest."""
    proof = prove(argmax, 3, delta=1e-5, adjacency="l1")
    assert proof.mu == pytest.approx(math.sqrt(2 / 3) / 5, rel=1e-12)
    assert worst(argmax, 3, adjacency="l1", at=1e-5, max_pairs=20).epsilon <= proof.epsilon


def test_laplace_noise_has_a_smaller_epsilon_where_delta_is_allowed():
    def released(rng, data):
        return data[0] + rng.laplace()

    for delta, epsilon in ((0.2211992169, 0.5), (0.3296799540, 0.2)):
        assert prove(released, 1, delta=delta).epsilon == pytest.approx(epsilon, abs=1e-9)
    assert prove(released, 1).epsilon == 1.0
    assert prove(released, 1).delta(0.5) == pytest.approx((math.e - math.exp(0.5)) / (1 + math.e), rel=1e-12)


def laplace_vector(rng, data):
    return [value + rng.laplace() for value in data]


def tradeoff_of_laplace(alpha: float, price: float = 1.0) -> float:
    """Dong, Roth and Su 2022, Appendix A: of two Laplace distributions that lie `price` scales apart."""
    below = math.exp(-price) / 2
    if alpha <= below:
        return 1 - math.exp(price) * alpha
    return math.exp(-price) / (4 * alpha) if alpha <= 1 / 2 else math.exp(-price) * (1 - alpha)


def laplace_number(rng, data):
    return data[0] + rng.laplace()


def test_the_trade_off_curve_of_laplace_noise_is_its_own():
    """At a pure ε, and at a δ; that of two tells more than that of one."""
    for delta in (0.0, 1e-5):
        curve = prove(laplace_number, 1, delta=delta, adjacency="l1").tradeoff()
        for alpha in np.linspace(0, 1, 41):
            assert tradeoff_of_laplace(alpha) - 3e-7 < curve.beta(alpha) <= tradeoff_of_laplace(alpha) + 1e-12
    both = prove(lambda rng, data: [x + rng.laplace() for x in data], 2, adjacency="linf").tradeoff()
    assert tradeoff_of_laplace(0.3, 2.0) < both.beta(0.3) < tradeoff_of_laplace(0.3)


def test_a_curve_is_proved_with_points_of_the_profile_that_its_certificate_states():
    """Of a curve through the same points a thousandth higher, no line is proved."""
    right = veridp.mechanism(tradeoff=tradeoff_of_laplace, adjacency="l1", size=1)(laplace_number)
    wrong = veridp.mechanism(tradeoff=lambda alpha: tradeoff_of_laplace(alpha, 0.999), adjacency="l1")(laplace_number)
    proof = prove(right)
    assert proof.keeps_claim
    assert not prove(wrong, 1).keeps_claim
    certificate = proof.certificate
    stated = {float(Fraction(epsilon)): float(Fraction(delta)) for epsilon, delta in certificate["profile"]}
    assert all(delta == pytest.approx(-math.expm1((e - 1) / 2), abs=1e-12) for e, delta in stated.items() if e < 1)
    assert check(certificate).verified
    assert target_differences(read_divergence(certificate), right) == []
    assert [each.field for each in target_differences(read_divergence(certificate), wrong)][-1:] == ["claim"]
    place = next(k for k, (_, delta) in enumerate(certificate["profile"]) if Fraction(delta) > Fraction(1, 10))
    epsilon, delta = certificate["profile"][place]
    certificate["profile"][place] = [epsilon, str(Fraction(delta) * Fraction("0.999999"))]
    assert check(certificate).rejection.place == f"/profile/{place}"


def test_laplace_numbers_cost_what_the_accountant_says():
    def noisy_vector(rng, data):
        return [value + rng.laplace(scale=5) for value in data]

    proof = prove(noisy_vector, 5, delta=1e-3, adjacency="linf")
    found = account(Repeated(5, Leaf.laplace(scale=5.0)), 1e-3, second_opinion=False)
    assert proof.epsilon == pytest.approx(found.epsilon, rel=1e-5)
    assert proof.rho == pytest.approx(5 / 50)
    shown = compare(noisy_vector, [0.0] * 5, [1.0] * 5)
    for epsilon in (0.2, 0.6, 0.9):
        bounds = shown.delta_bounds(epsilon)
        assert bounds.lower <= proof.delta(epsilon) <= bounds.upper


def truncated_vector(rng, data):
    out = []
    for value in data:
        noise = rng.laplace()
        while abs(noise) > 3:
            noise = rng.laplace()
        out.append(value + noise)
    return out


@pytest.mark.parametrize("mechanism", [laplace_vector, truncated_vector])
def test_one_entry_that_moves_costs_what_it_does_alone(mechanism):
    """Under l1, neighbours differ in one entry: what lies between two that move is none."""
    several, alone = (prove(mechanism, size, delta=0.1, adjacency="l1") for size in (2, 1))
    assert several.epsilon == alone.epsilon
    assert several.delta(0.5) == alone.delta(0.5)


@pytest.mark.parametrize(
    ("adjacency", "left", "right"), [("add-remove", [0.1], [0.1, 0.8]), ("replace", [0.1, 0.5], [0.1, 0.8])]
)
def test_a_histogram_costs_what_its_bins_do(adjacency, left, right):
    def histogram(rng, data):
        counts = [0, 0, 0]
        for x in data:
            counts[0 if x < 0.3 else 1 if x < 0.6 else 2] += 1
        return [count + rng.laplace() for count in counts]

    proof = prove(histogram, len(left), delta=0.1, adjacency=adjacency, domain=(0, 1))
    bounds = compare(histogram, left, right).delta_bounds(proof.epsilon)
    assert bounds.lower <= 0.1 * (1 + 1e-9)
    assert bounds.upper >= 0.1 * (1 - 1e-6)


REACH = math.log(1 + (math.e - 1) / (2 * 1e-3))  # 6.7570962296, for (1, 1e-3)


def by_a_sign(rng, data):
    u = rng.uniform(math.exp(-REACH), 1)
    return data[0] + (math.log(u) if rng.random() < 0.5 else -math.log(u))


def by_the_inverse_distribution(rng, data):
    beyond = math.exp(-REACH) / 2
    u = rng.uniform(beyond, 1 - beyond)
    return data[0] + (math.log(2 * u) if u < 0.5 else -math.log(2 * (1 - u)))


def by_a_centred_number(rng, data):
    u = (rng.random() - 0.5) * (1 - math.exp(-REACH))
    return data[0] - np.sign(u) * np.log(1 - 2 * abs(u))


@pytest.mark.parametrize("mechanism", [by_a_sign, by_the_inverse_distribution, by_a_centred_number])
def test_truncated_laplace_noise_by_inversion(mechanism):
    assert pytest.approx(6.7570962296, abs=1e-10) == REACH
    proof = prove(mechanism, 1, delta=1e-3 * (1 + 1e-12), adjacency="l1")
    assert proof.epsilon == pytest.approx(1.0, abs=1e-9)
    assert "as truncatedlaplace noise" in proof.recognised[0]
    assert compare(mechanism, [0.0], [1.0]).delta(1.0) == pytest.approx(1e-3, rel=1e-9)
    assert math.isinf(prove(mechanism, 1, delta=1e-3 * (1 - 1e-9), adjacency="l1").epsilon)


def by_an_unfair_sign(rng, data):
    u = rng.uniform(math.exp(-REACH), 1)
    return data[0] + (math.log(u) if rng.random() < 0.6 else -math.log(u))


def cut_off_elsewhere_below(rng, data):
    if rng.random() < 0.5:
        return data[0] + math.log(rng.uniform(0.01, 1))
    return data[0] - math.log(rng.uniform(0.02, 1))


def with_its_uniform_number(rng, data):
    u = rng.uniform(math.exp(-REACH), 1)
    return data[0] + (math.log(u) if rng.random() < 0.5 else -math.log(u)), u


@pytest.mark.parametrize("mechanism", [by_an_unfair_sign, cut_off_elsewhere_below, with_its_uniform_number])
def test_what_only_looks_like_truncated_laplace_noise_is_not_taken_for_it(mechanism):
    assert math.isinf(prove(mechanism, 1, delta=0.01, adjacency="l1").epsilon)


def test_uniform_noise_is_left_with_the_probability_that_is_its_delta():
    def released(rng, data):
        return data[0] + rng.uniform(-5, 5)

    proof = prove(released, 1, delta=0.1)
    assert (proof.epsilon, proof.delta(0.0), proof.rho) == (0.0, 0.1, math.inf)
    assert math.isinf(prove(released, 1, delta=0.0999).epsilon)


@pytest.mark.parametrize("size", [2, 5])
def test_independent_noise_stays_in_its_support_together(size):
    """Boxes of uniform noise that are moved along every side by a tenth of it have 0.9^n of themselves in common."""

    def released(rng, data):
        return [value + rng.uniform(-5, 5) for value in data]

    apart = float(1 - Fraction(9, 10) ** size)
    proof = prove(released, size, delta=apart * (1 + 1e-12), adjacency="linf")
    assert proof.epsilon == 0.0
    assert proof.delta(0.0) == pytest.approx(apart, rel=1e-14)
    assert check(proof.certificate).verified
    assert not check({**proof.certificate, "delta": str(1 - Fraction(9, 10) ** size - Fraction(1, 10**9))}).verified
    assert compare(released, [0.0] * size, [1.0] * size).delta(0.0) == pytest.approx(apart, rel=1e-9)


def test_kinds_of_noise_are_bounded_together():
    proof = prove(two_kinds_of_noise, 2, delta=1e-5)
    composed = Sequential((Leaf.laplace(scale=2.0), Leaf.gaussian(scale=3.0)))
    assert proof.epsilon == pytest.approx(account(composed, 1e-5, second_opinion=False).epsilon, rel=1e-5)
    assert delta_of_normal(proof.epsilon - 0.5, 1 / 3) > 1.9e-5  # what the largest loss of the other would say
    assert proof.rho == pytest.approx(0.5**2 / 2 + 1 / 18, rel=1e-12)
    assert math.isinf(proof.mu)
    assert worst(two_kinds_of_noise, 2, at=1e-5, max_pairs=4).epsilon <= proof.epsilon


def first_above(rng, data):
    limit = rng.laplace(scale=2)
    for place, value in enumerate(data):
        if value + rng.laplace(scale=4) >= limit:
            return place
    return None


def noisy_argmax(rng, scores):
    return int(np.argmax([score + rng.normal(scale=math.sqrt(5)) for score in scores]))


def test_a_claim_in_another_notion_chooses_the_alignment():
    """Shifts of the winner alone cost the least ε, but give no μ; one shift for all events does. An index shows the
    differences of scores alone, so their mean counts for nothing: two that rise and three that fall are 4.8 apart."""
    settings = {"adjacency": "linf", "domain": (0.0, 10.0), "size": 5}
    by_epsilon = prove(veridp.mechanism(epsilon=5.0, delta=1e-6, **settings)(noisy_argmax))
    assert math.isinf(by_epsilon.mu)
    for stated in ({"mu": 0.98}, {"rho": 0.4801}, {"rdp": (4, 1.9205)}):
        proof = prove(veridp.mechanism(**stated, **settings)(noisy_argmax))
        assert proof.keeps_claim
        assert check(proof.certificate).verified
        assert proof.mu == pytest.approx(math.sqrt(4.8 / 5), rel=1e-9)
        assert proof.epsilon > by_epsilon.epsilon
    assert not prove(veridp.mechanism(mu=0.979, **settings)(noisy_argmax)).keeps_claim


def test_of_shifts_that_depend_on_the_event_the_largest_loss_counts():
    """One shift by 1 of the limit in any case, and one by 2 of the answer that exceeds it: ε is 1 in all."""
    proof = prove(first_above, 12, delta=0.01)
    assert len(proof.losses[0]) == 13
    assert worst(first_above, 12, at=0.01, max_pairs=6).epsilon <= proof.epsilon < 0.98
    rng = np.random.default_rng(0)
    limit, answers = rng.laplace(size=200_000), rng.laplace(size=(200_000, 12))
    loss = (abs(limit + 0.5) - abs(limit)) + (abs(answers + 0.5) - abs(answers)).max(axis=1)
    sampled = -np.expm1(np.minimum(proof.epsilon - loss, 0)).mean()
    assert proof.delta(proof.epsilon) == pytest.approx(sampled, rel=0.02)
    added_up = sum(float(group.delta_in_closed_form(arb(proof.epsilon))) for group in proof.losses[0])
    assert added_up > 0.05


def neighbouring_pairs_of_sums(rng, data):
    first, shared, last = rng.laplace(), rng.laplace(), rng.laplace()
    return data[0] + first + shared, data[1] + shared + last


def test_zcdp_of_noise_that_entries_share_is_that_of_the_worst_corner():
    """Entries that rise together move the noise by (1/3, 2/3, 1/3), others by (1, 0, -1): Σ p²/2 is 1/3 and 1; with the
    farthest that each of them moves it would be 11/9."""
    proof = prove(veridp.mechanism(rho=1.0, adjacency="linf", size=2)(neighbouring_pairs_of_sums))
    assert proof.exact_notions["rho"] == 1
    assert proof.keeps_claim
    certificate = proof.certificate
    assert check(certificate).verified
    assert check({**certificate, "rho": "999/1000"}).rejection.place == "/rho"


def first_above_with_normal_noise(rng, data):
    limit = rng.normal(scale=2)
    for place, value in enumerate(data):
        if value + rng.normal(scale=4) >= limit:
            return place
    return None


def test_renyi_divergences_of_shifts_that_depend_on_the_event():
    """One shift by 1 of the limit, and one by 2 of the answer: E[e^((α - 1)L)] of the largest of 20. One shift for all
    events moves all answers: α/2 · 20/16."""
    mu, size, order = 1 / 2, 20, 4.0
    z = np.linspace(-10, 10, 100_001)
    gain = np.exp((order - 1) * (mu**2 / 2 + mu * z))
    largest = float(np.sum(size * norm.pdf(z) * norm.cdf(z) ** (size - 1) * gain) * (z[1] - z[0]))
    expected = order * mu**2 / 2 + math.log(largest) / (order - 1)
    proof = prove(veridp.mechanism(rdp=(order, 2.0), adjacency="linf", size=size)(first_above_with_normal_noise))
    assert proof.rdp(order) <= expected * (1 + 1e-3) < 2.0 < 2.5
    certificate = proof.certificate
    assert check(certificate).verified
    forged = {**certificate, "rdp": [["4", str(Fraction(proof.rdp(order)) * Fraction(999, 1000))]]}
    assert check(forged).rejection.place == "/rdp/0"
    assert compare(first_above_with_normal_noise, [2.0] * 8, [3.0] * 8).renyi(order) <= proof.rdp(order)


def clipped_mean(rng, data):
    return float(np.clip(np.array(data), 0, 1).mean() + rng.normal(scale=0.5))


def count_above_half(rng, data):
    return sum(1 for value in data if value > 0.5) + rng.normal(scale=4)


@pytest.mark.parametrize(
    ("mechanism", "adjacency", "domain", "mu"),
    [
        (clipped_mean, "replace", (0, 1), 1 / 2),
        (count_above_half, "add-remove", (0, 1), 1 / 4),
        (count_above_half, "replace", [0, 1], 1 / 4),
    ],
)
def test_records_of_an_interval_and_of_a_list(mechanism, adjacency, domain, mu):
    proof = prove(mechanism, 4, delta=1e-5, adjacency=adjacency, domain=domain)
    assert proof.mu == pytest.approx(mu, rel=1e-12)


def histogram_of_a_list(rng, data):
    return [sum(1 for x in data if x == category) + rng.normal(scale=4) for category in range(3)]


@pytest.mark.parametrize(("adjacency", "mu"), [("add-remove", 1 / 4), ("replace", math.sqrt(2) / 4)])
def test_a_histogram_of_listed_categories_is_not_proved_path_by_path(adjacency, mu):
    proof = prove(histogram_of_a_list, 7, delta=1e-5, adjacency=adjacency, domain=[0, 1, 2])
    assert proof.mu == pytest.approx(mu, rel=1e-12)


def raw_for_integers(rng, data):
    total = sum(data)
    return total if isinstance(total, int) else total + rng.laplace(scale=4)


def test_values_of_a_list_that_are_no_floats_are_not_taken_for_them():
    for adjacency in ("replace", "linf"):
        for delta in (0.0, 1e-5):
            proof = prove(raw_for_integers, 4, delta=delta, adjacency=adjacency, domain=[0, 1])
            assert math.isinf(proof.epsilon)


def unprotected(rng, data):
    return data[0] + rng.normal(), data[1]


def released_twice_at_the_price_of_one(rng, data):
    return [data[0] + rng.normal(scale=LEAST_SIGMA) for _ in range(2)]


def test_what_is_not_protected_is_not_proved():
    assert math.isinf(prove(unprotected, 2, delta=1e-5).epsilon)
    twice = prove(released_twice_at_the_price_of_one, 1, delta=1e-5)
    assert delta_of_normal(twice.epsilon, math.sqrt(2) / LEAST_SIGMA) == pytest.approx(1e-5, rel=1e-6)


def test_a_delta_must_be_a_probability_below_1():
    for wrong in (-0.1, 1.0, 2, "1e-5"):
        with pytest.raises(BadInput, match="delta must be at least 0 and below 1"):
            prove(threshold, 1, delta=wrong)


def test_an_argument_of_that_name_is_the_mechanisms():
    proof = prove(veridp.catalogue["gaussian"], 1, delta=1e-6, epsilon=0.5)
    scale = math.sqrt(2 * math.log(1.25e6)) / 0.5
    assert proof.at_delta == pytest.approx(1e-6, rel=2e-9)
    assert proof.mu == pytest.approx(1 / scale, rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "epsilon", "standing"),
    [
        (LEAST_SIGMA * (1 + 1e-6), 1, Standing.PROVED),
        (LEAST_SIGMA * (1 - 1e-6), 1, Standing.REFUTED),
        (CLASSICAL / 3, 3, Standing.PROVED),
        (math.sqrt(2 * math.log(1.25)) / 1, 1, Standing.REFUTED),  # the δ forgotten
        (CLASSICAL / 2, 1, Standing.REFUTED),
    ],
)
def test_the_audit_closes_the_interval_of_normal_noise(scale, epsilon, standing):
    made = veridp.mechanism(epsilon=epsilon, delta=1e-5, adjacency="l1", size=2)(noisy(scale))
    verdict = veridp.audit(made, seconds=60)
    assert verdict.standing is standing
    assert verdict.epsilon.lower == pytest.approx(verdict.epsilon.upper, rel=1e-6)
