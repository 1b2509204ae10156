"""Proofs of noisy steps and of samples of the records, beside closed forms, the accountant and the exact engine."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

import veridp
from veridp.accounting import Leaf, Repeated, Subsampled, account
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.engines.prove.composition.proof import CompositionProof
from veridp.errors import NotExplorable
from veridp_check.checker import check

RATE = 0.2
RECORDS = {"adjacency": "add-remove", "domain": (0, 1), "size": 2}


def proved(mechanism, delta=0.0, **arguments):
    proof = prove(mechanism, delta=delta, **{**RECORDS, **arguments})
    assert isinstance(proof, CompositionProof)
    if math.isfinite(proof.epsilon):
        assert check(proof.certificate).verified
    return proof


# ------------------------------------------------------------------------------------------------------------ samples


def kept_by_a_list(rng, data):
    kept = [x for x in data if rng.random() < RATE]
    return sum(min(max(x, 0.0), 1.0) for x in kept) + rng.laplace(scale=1.0)


@pytest.mark.parametrize("epsilon", [0.3, 0.2])
def test_a_sample_of_listed_numbers_is_proved_for_all_between_them(epsilon):
    """By couplings of all samples of five records and of six, it took minutes and found none."""
    claimed = veridp.mechanism(epsilon=epsilon, **{**RECORDS, "domain": [0, 1], "size": 5})(kept_by_a_list)
    proof = prove(claimed)
    assert isinstance(proof, CompositionProof)
    assert proof.epsilon == pytest.approx(math.log1p(RATE * math.expm1(1)), rel=1e-12)
    assert compare(kept_by_a_list, [0] * 5, [0] * 5 + [1]).epsilon == pytest.approx(proof.epsilon, rel=1e-9)


def kept_by_a_mask(rng, data):
    data = np.asarray(data)
    mask = rng.random(len(data)) < RATE
    return np.clip(data[mask], 0, 1).sum() + rng.laplace(scale=1.0)


def kept_by_a_product(rng, data):
    return np.sum(np.asarray(data) * (rng.random(len(data)) < RATE)) + rng.laplace(0, 1)


def kept_in_a_loop(rng, data):
    total = 0.0
    for x in data:
        if not rng.uniform() >= RATE:
            total += x
    return rng.laplace(total, 1.0)


@pytest.mark.parametrize("mechanism", [kept_by_a_list, kept_by_a_mask, kept_by_a_product, kept_in_a_loop])
def test_laplace_noise_on_a_sample_of_records(mechanism):
    proof = proved(mechanism)
    assert proof.epsilon == pytest.approx(math.log(1 + RATE * (math.e - 1)), abs=1e-12)
    assert proof.epsilon == pytest.approx(0.2953945291, abs=1e-10)
    rate = Fraction(RATE)  # that of the float
    assert proof.certificate["sampling"] == {"of": "each", "rate": str(rate)}
    shown = compare(mechanism, [0.0, 1.0], [0.0])
    for epsilon in (0.05, 0.15, 0.25):
        assert proof.delta(epsilon) == pytest.approx(shown.delta(epsilon), rel=1e-9)


def sampled_gaussian(rng, data, rate=RATE, scale=2.0):
    kept = [x for x in data if rng.random() < rate]
    return sum(kept) + rng.normal(scale=scale)


@pytest.mark.parametrize(("rate", "scale", "delta"), [(0.2, 2.0, 1e-5), (0.01, 1.0, 1e-6), (0.5, 0.8, 1e-3)])
def test_the_sampled_gaussian_is_that_of_the_accountant(rate, scale, delta):
    proof = proved(sampled_gaussian, delta, rate=rate, scale=scale)
    found = account(Subsampled(rate, Leaf.gaussian(scale=scale)), delta, second_opinion=False)
    assert proof.epsilon == pytest.approx(found["privacy loss distribution"].epsilon, rel=1e-9)
    inner = math.log1p(math.expm1(proof.epsilon) / rate)
    mu = 1 / scale
    truth = norm.cdf(mu / 2 - inner / mu) - math.exp(inner) * norm.cdf(-mu / 2 - inner / mu)
    assert rate * truth == pytest.approx(delta, rel=1e-9)


def drawn_indices(rng, data, count=2):
    return sum(data[i] for i in rng.choice(len(data), count, replace=False)) + rng.laplace(scale=1.0)


def drawn_values(rng, data, count=2):
    return rng.choice(data, size=count, replace=False).sum() + rng.laplace(scale=1.0)


def first_of_a_shuffle(rng, data, count=2):
    records = list(data)
    rng.shuffle(records)
    return sum(records[:count]) + rng.laplace(scale=1.0)


@pytest.mark.parametrize("mechanism", [drawn_indices, drawn_values, first_of_a_shuffle])
def test_a_sample_of_fixed_size(mechanism):
    proof = proved(mechanism, size=4, adjacency="replace")
    assert proof.epsilon == pytest.approx(math.log(1 + (math.e - 1) / 2), abs=1e-12)
    shown = compare(mechanism, [1.0, 0.0, 0.0, 0.0], [0.0] * 4)
    for epsilon in (0.1, 0.4):
        assert proof.delta(epsilon) == pytest.approx(shown.delta(epsilon), rel=1e-9)
    with pytest.raises(NotExplorable):
        prove(mechanism, 4, adjacency="add-remove", domain=(0, 1))


def test_no_sample_is_below_what_two_inputs_show():
    rng = np.random.default_rng(8)
    for adjacency, domain in (("add-remove", (-1, 2)), ("replace", (-1, 2)), ("replace", (1, 2))):
        proof = proved(kept_in_a_loop, 1e-3, adjacency=adjacency, domain=domain)
        for _ in range(2):
            left = rng.choice([*map(float, domain), rng.uniform(*domain)], 2).tolist()
            right = [left[0], float(rng.choice(domain))] if adjacency == "replace" else [*left, float(domain[1])]
            for pair in ((left, right), (right, left)):
                shown = compare(kept_in_a_loop, *pair)
                assert all(shown.delta(epsilon) <= proof.delta(epsilon) * (1 + 1e-9) for epsilon in (0.1, 0.5))


def kept_by_their_place(rng, data):
    return sum(x for i, x in enumerate(data) if rng.random() < RATE / (i + 1)) + rng.laplace()


def counted_too(rng, data):
    kept = [x for x in data if rng.random() < RATE]
    return sum(kept) + rng.laplace(), len(kept)


def averaged(rng, data):
    kept = [x for x in data if rng.random() < RATE]
    return sum(kept) / max(len(kept), 1) + rng.laplace()


def all_or_none(rng, data):
    return (sum(data) if rng.random() < RATE else 0.0) + rng.laplace()


def one_draw_for_two(rng, data):
    u = rng.random()
    return sum(x for i, x in enumerate(data) if (u < RATE) == (i % 2 == 0)) + rng.laplace()


def shown_draw(rng, data):
    draws = [rng.random() for _ in data]
    return sum(x for x, u in zip(data, draws, strict=True) if u < RATE) + rng.laplace(), draws[0]


@pytest.mark.parametrize(
    "mechanism", [kept_by_their_place, counted_too, averaged, all_or_none, one_draw_for_two, shown_draw]
)
def test_what_is_no_hidden_sample_is_not_taken_for_one(mechanism):
    try:
        proof = prove(mechanism, delta=1e-6, **RECORDS)
    except NotExplorable:
        return
    assert not isinstance(proof, CompositionProof)
    assert proof.epsilon >= 1 - 1e-5


# -------------------------------------------------------------------------------------------------------------- steps


def descent(rng, data, steps=3, scale=4.0, rate=0.1):
    w = 0.0
    for _ in range(steps):
        gradient = sum(np.clip(2 * (w - x) * x, -1, 1) for x in data)
        w = w - rate * (gradient + rng.normal(scale=scale))
    return w


def descent_of_arrays(rng, data, steps=3, scale=4.0):
    x = np.asarray(data, dtype=float)
    w = 0.0
    for _ in range(steps):
        gradients = np.clip((w - x) * 3, -1, 1)
        w -= 0.1 * (gradients.sum() + rng.normal(0, scale)) / 10
    return float(w)


def descent_with_builtins(rng, data, steps=3, scale=4.0):
    w, seen = 0.5, []
    for _ in range(steps):
        total = 0.0
        for x in data:
            total += max(-1, min(1, 5 * w - 9 * x))  # whole numbers, where it is clipped
        w = round(w - 0.1 * rng.normal(total, scale), 6)
        seen.append(w)
    return seen


def logistic_regression(rng, data, steps=3, scale=4.0):
    w = 0.0
    for _ in range(steps):
        w -= sum(np.clip((1 / (1 + np.exp(-5 * w * x)) - 1) * 9 * (x - 0.5), -1, 1) for x in data) + rng.normal(
            scale=scale
        )
    return w


@pytest.mark.parametrize("mechanism", [descent, descent_of_arrays, descent_with_builtins, logistic_regression])
def test_steps_of_normal_noise_add_up(mechanism):
    proof = proved(mechanism, 1e-5)
    assert proof.mu == pytest.approx(math.sqrt(3) / 4, rel=1e-2)  # the first step, at a known w, may cost less
    assert proof.mu <= math.sqrt(3) / 4 * (1 + 1e-12)
    assert proof.rho == pytest.approx(proof.mu**2 / 2, rel=1e-9)
    replaced = proved(mechanism, 1e-5, adjacency="replace")
    assert proof.mu < replaced.mu <= 2 * math.sqrt(3) / 4 * (1 + 1e-12)


def test_hundreds_of_steps_cost_what_the_accountant_says():
    proof = proved(descent, 1e-5, size=1, steps=300, scale=60.0)
    found = account(Repeated(300, Leaf.gaussian(scale=60.0)), 1e-5, second_opinion=False)
    assert proof.epsilon == pytest.approx(found.epsilon, rel=1e-6)
    assert proof.rho == pytest.approx(300 / (2 * 60**2), rel=1e-12)
    (steps,) = proof.certificate["steps"]
    assert steps["count"] == 300


def test_steps_of_laplace_noise_add_up():
    def laplace_descent(rng, data):
        w = 0.0
        for _ in range(3):
            w -= sum(np.clip((w - x) * x, -1, 1) for x in data) + rng.laplace(scale=4.0)
        return w

    proof = proved(laplace_descent, 1e-2)
    found = account(Repeated(3, Leaf.laplace(scale=4.0)), 1e-2, second_opinion=False)
    assert proof.epsilon == pytest.approx(found.epsilon, rel=1e-5)
    assert proof.epsilon < 0.74
    assert proved(laplace_descent).epsilon == 0.75
    assert proved(laplace_descent).rho == pytest.approx(3 / 32)


def test_a_sample_for_all_steps():
    def on_a_sample(rng, data):
        return descent(rng, [x for x in data if rng.random() < 0.25])

    proof = proved(on_a_sample, 1e-5)
    whole = proved(descent, 4e-5)
    assert math.expm1(proof.epsilon) == pytest.approx(0.25 * math.expm1(whole.epsilon), rel=1e-6)
    assert math.isinf(proof.rho)


def released_twice(rng, data):
    noise = rng.normal(scale=4.0)
    w = sum(data) + noise
    return w, sum(np.clip(w * x, -1, 1) for x in data) + noise


def shows_its_noise(rng, data):
    noise = rng.normal(scale=4.0)
    w = sum(data) + noise
    return sum(np.clip(w * x, -1, 1) for x in data) + rng.normal(scale=4.0), w, noise


def clips_the_batch(rng, data):
    w = 0.0
    for _ in range(2):
        w -= np.clip(sum((w - x) * x for x in data), -1, 1) + rng.normal(scale=4.0)
    return w


def clips_nothing(rng, data):
    w = 0.0
    for _ in range(2):
        w -= sum((w - x) * x for x in data) + rng.normal(scale=4.0)
    return w


def divides_by_the_size(rng, data):
    return descent(rng, data, steps=2) / len(data)


def may_give_no_number(rng, data):
    w = 1.0
    for _ in range(2):
        w -= sum(np.clip(np.log(w + x + 1), -1, 1) for x in data) + rng.normal(scale=4.0)
    return w


def mixes_records(rng, data):
    w = sum(data) + rng.normal(scale=4.0)
    return w, np.clip(w * data[0] * data[-1], -1, 1) + rng.normal(scale=4.0)


def shows_a_record(rng, data):
    w = sum(np.clip(x, 0, 1) for x in data) + rng.normal(scale=4.0)
    return sum(np.clip(w * x, -1, 1) for x in data) + rng.normal(scale=4.0), w * data[0]


@pytest.mark.parametrize(
    "mechanism",
    [
        released_twice,
        shows_its_noise,
        clips_the_batch,
        clips_nothing,
        divides_by_the_size,
        may_give_no_number,
        mixes_records,
        shows_a_record,
    ],
)
def test_what_is_not_protected_step_by_step_is_not_proved(mechanism):
    try:
        proof = prove(mechanism, delta=1e-5, **RECORDS)
    except NotExplorable:
        return
    assert math.isinf(proof.epsilon)


@pytest.mark.parametrize(("epsilon", "kept"), [(1.7, True), (1.69, False)])
def test_claims_are_held_against_the_steps(epsilon, kept):
    made = veridp.mechanism(epsilon=epsilon, delta=1e-5, **RECORDS)(descent)
    assert prove(made).keeps_claim is kept
    assert prove(veridp.mechanism(rho=0.09375, **RECORDS)(descent)).keeps_claim


def test_pure_privacy_is_refused_with_a_reason():
    proof = proved(descent)
    assert math.isinf(proof.epsilon)
    assert "normal noise has no pure-ε price" in str(proof.blame)
