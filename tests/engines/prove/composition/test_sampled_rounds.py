"""Proofs of loops that draw a fresh sample in every round, beside the accountant and numerical integration."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from veridp.accounting import Leaf, Repeated, Sequential, Subsampled, account
from veridp.engines.prove import prove
from veridp.engines.prove.composition.sampled_rounds import RoundsProof, prove_by_rounds
from veridp.mechanism import as_mechanism
from veridp_check.checker import check
from veridp_check.losses.sampled import ONE, Lattice, NormalRounds, round_losses, rounds_delta_above

RECORDS = {"adjacency": "add-remove", "domain": (-2, 2), "size": 1, "delta": 1e-5}
RATE = 0.25


def accounted(steps, rate, scale, delta=1e-5):
    return account(Repeated(steps, Subsampled(rate, Leaf.gaussian(scale=scale))), delta, second_opinion=False).epsilon


# ------------------------------------------------------------------------------------------ as people write it


def by_generator(rng, data):
    w = 0.5
    for _ in range(4):
        gradient = sum(np.clip(2 * (w - x), -1, 1) for x in data if rng.random() < RATE)
        w -= 0.1 * (gradient + rng.normal(scale=2.0))
    return w


def by_mask(rng, data, steps=4, scale=2.0, rate=RATE):
    x = np.asarray(data, dtype=float)
    w, seen = 0.0, []
    for t in range(steps):
        batch = x[rng.random(len(x)) < rate]
        gradient = np.clip((w - batch) * batch, -1.0, 1.0).sum()
        w = w - 0.5 / (t + 1) * (gradient + rng.normal(0, scale)) / 10
        seen.append(w)
    return seen


def by_epochs(rng, data):
    w = 0.0
    for _epoch in range(2):
        for _ in range(2):
            total = 0.0
            for x in data:
                if rng.uniform() < RATE:
                    total += max(-1.0, min(1.0, w - x))
            w -= rng.normal(total, 2.0)
    return round(w, 3)


@pytest.mark.parametrize("mechanism", [by_generator, by_mask, by_epochs])
def test_rounds_cost_what_the_accountant_says(mechanism):
    proof = prove(mechanism, **RECORDS)
    assert isinstance(proof, RoundsProof)
    assert check(proof.certificate).verified
    (rounds,) = proof.certificate["rounds"]
    assert rounds["count"] == 4
    assert rounds["sampling"] == {"of": "each", "rate": "1/4"}
    truth = accounted(4, RATE, 2.0)
    assert truth * (1 - 1e-9) <= proof.epsilon <= truth * (1 + 2e-4)
    assert math.isinf(proof.rho)


def two_parameters(rng, data):
    w = [0.0, 0.0]
    for _ in range(3):
        batch = [x for x in data if rng.random() < RATE]
        left = sum(np.clip(w[0] - x, -1, 1) for x in batch)
        right = sum(np.clip(x * w[1] - 3 * x, -1, 1) for x in batch)
        w = [w[0] - 0.1 * (left + rng.normal(scale=2.0)), w[1] - 0.1 * (right + rng.normal(scale=2.0))]
    return w


def test_numbers_of_one_round_share_its_sample():
    proof = prove(two_parameters, **RECORDS)
    assert isinstance(proof, RoundsProof)
    truth = accounted(3, RATE, math.sqrt(2))  # 2 numbers of scale 2
    assert truth * (1 - 1e-9) <= proof.epsilon <= truth * (1 + 2e-4)


def growing_batches(rng, data):
    w = 0.0
    for t in range(2):
        w -= sum(np.clip(w - x, -1, 1) for x in data if rng.random() < (t + 1) / 8) + rng.normal(scale=2.0)
    return w


def test_rounds_need_not_be_alike():
    proof = prove(growing_batches, **RECORDS)
    assert [each["sampling"]["rate"] for each in proof.certificate["rounds"]] == ["1/8", "1/4"]
    parts = [Subsampled(rate, Leaf.gaussian(scale=2.0)) for rate in (0.125, 0.25)]
    truth = account(Sequential(tuple(parts)), 1e-5, second_opinion=False).epsilon
    assert truth * (1 - 1e-9) <= proof.epsilon <= truth * (1 + 2e-4)


def drawn_batch(rng, data):
    w = 0.0
    for _ in range(2):
        chosen = rng.choice(len(data), 1, replace=False)
        w -= sum(np.clip(w - data[i], -1, 1) for i in chosen) + rng.normal(scale=4.0)
    return w


def test_batches_of_fixed_size():
    """A third of the records, which differ by 2: no less than one round of it, and no more than two on all records."""
    proof = prove(drawn_batch, **{**RECORDS, "size": 3, "adjacency": "replace"})
    assert isinstance(proof, RoundsProof)
    assert check(proof.certificate).verified
    assert accounted(1, 1 / 3, 2.0) < proof.epsilon < accounted(2, 1.0, 2.0)
    assert rounds_proof(drawn_batch, size=3) is None  # one record more makes another rate


def rounds_proof(mechanism, **arguments):
    bound = as_mechanism(mechanism, **{**{k: v for k, v in RECORDS.items() if k != "delta"}, **arguments})
    return prove_by_rounds(bound, bound.size, 1e-5)


# ---------------------------------------------------------------------------------------------- what is none of it


def one_sample_for_all(rng, data):
    draws = rng.random(len(data))
    w = 0.0
    for _ in range(2):
        w -= sum(np.clip(w - x, -1, 1) for x, u in zip(data, draws, strict=True) if u < RATE) + rng.normal(scale=2.0)
    return w


def remembers_its_sample(rng, data):
    w, mask = 0.0, [True] * len(data)
    for _ in range(2):
        mask = [kept and rng.random() < RATE for kept in mask]
        w -= sum(np.clip(w - x, -1, 1) for x, kept in zip(data, mask, strict=True) if kept) + rng.normal(scale=2.0)
    return w


def noise_of_the_round_before(rng, data):
    w, noise = 0.0, rng.normal(scale=2.0)
    for _ in range(2):
        w -= sum(np.clip(w - x, -1, 1) for x in data if rng.random() < RATE) + noise
        if False:
            noise = rng.normal(scale=2.0)
    return w


def same_noise_twice(rng, data):
    w = 0.0
    for _ in range(2):
        noise = rng.normal(scale=2.0)
        first = sum(np.clip(w - x, -1, 1) for x in data if rng.random() < RATE) + noise
        second = sum(np.clip(w + x, -1, 1) for x in data if rng.random() < RATE) + noise
        w -= first + second
    return w


def counts_its_batch(rng, data):
    w, seen = 0.0, 0
    for _ in range(2):
        batch = [x for x in data if rng.random() < RATE]
        w -= sum(np.clip(w - x, -1, 1) for x in batch) + rng.normal(scale=2.0)
        seen += len(batch)
    return w, seen


def divides_by_its_batch(rng, data):
    w = 0.0
    for _ in range(2):
        batch = [x for x in data if rng.random() < RATE]
        w -= (sum(np.clip(w - x, -1, 1) for x in batch) + rng.normal(scale=2.0)) / max(len(batch), 1)
    return w


def clips_the_mean(rng, data):
    w = 0.0
    for _ in range(2):
        batch = [x for x in data if rng.random() < RATE]
        w -= np.clip(sum(w - x for x in batch), -1, 1) + rng.normal(scale=2.0)
    return w


def forgets_the_noise_once(rng, data):
    w = 0.0
    for t in range(2):
        total = sum(np.clip(w - x, -1, 1) for x in data if rng.random() < RATE)
        w -= total + rng.normal(scale=2.0) if t else total
    return w


LOG: list[object] = []


def hides_its_sample_in_a_global(rng, data):
    LOG.clear()
    w = 0.0
    for _ in range(2):
        batch = [x for x in data if rng.random() < RATE]
        LOG.append(len(batch))
        if len(LOG) == 2 and LOG[0] != LOG[1]:
            batch = batch * 2
        w -= sum(np.clip(w - x, -1, 1) for x in batch) + rng.normal(scale=2.0)
    LOG.clear()
    return w


def hides_its_sample_in_the_environment(rng, data):
    import os

    w = 0.0
    for _ in range(2):
        batch = [x for x in data if rng.random() < RATE]
        weight = 2 if os.environ.get("BATCH", "0") != str(len(batch)) else 1
        os.environ["BATCH"] = str(len(batch))
        w -= sum(np.clip(w - x, -1, 1) for x in batch) * weight + rng.normal(scale=2.0)
    del os.environ["BATCH"]
    return w


def hides_its_sample_in_a_ufunc(rng, data):
    w, before = 0.0, np.frompyfunc(lambda a: 0, 1, 1)
    for _ in range(2):
        batch = [x for x in data if rng.random() < RATE]
        weight = 2 if before(0) != len(batch) else 1
        count = len(batch)
        before = np.frompyfunc(lambda a, n=count: n, 1, 1)
        w -= sum(np.clip(w - x, -1, 1) for x in batch) * weight + rng.normal(scale=2.0)
    return w


def uses_no_record_twice(rng, data):
    x, w = np.array(data, dtype=float), 0.0
    for _ in range(2):
        mask = rng.random(len(x)) < RATE
        w = w - (np.clip(x[mask] - w, -1, 1).sum() + rng.normal(scale=2.0))
        x[mask] = 0.0
    return w


def doubles_by_what_was_drawn_before(rng, data):
    w, before = 0.0, 0
    for _ in range(4):
        batch = [x for x in data if rng.random() < RATE]
        weight = 2 if before != len(batch) else 1
        before = len(batch)
        w -= sum(np.clip(w - x, -1, 1) for x in batch) * weight + rng.normal(scale=2.0)
    return w


@pytest.mark.parametrize(
    "mechanism",
    [
        one_sample_for_all,
        remembers_its_sample,
        noise_of_the_round_before,
        same_noise_twice,
        counts_its_batch,
        divides_by_its_batch,
        clips_the_mean,
        forgets_the_noise_once,
        hides_its_sample_in_a_global,
        hides_its_sample_in_the_environment,
        hides_its_sample_in_a_ufunc,
        uses_no_record_twice,
        doubles_by_what_was_drawn_before,
    ],
)
def test_what_is_no_round_of_its_own_is_not_taken_for_one(mechanism):
    assert rounds_proof(mechanism) is None


def test_a_wider_clip_or_less_noise_costs_more():
    """A false claim of the rounds with a clip of 1: what is proved is what the code does."""

    def clips_at_two(rng, data):
        w = 0.0
        for _ in range(4):
            w -= sum(np.clip(w - x, -2, 2) for x in data if rng.random() < RATE) + rng.normal(scale=2.0)
        return w

    proof = prove(clips_at_two, **RECORDS)
    assert proof.epsilon >= accounted(4, RATE, 1.0) * (1 - 1e-9) > 2 * accounted(4, RATE, 2.0)
    replaced = prove(by_generator, **{**RECORDS, "adjacency": "replace"})
    assert replaced.epsilon > 1.5 * accounted(4, RATE, 2.0)


# ---------------------------------------------------------------------------------------------------- the checker


def sampled_delta(epsilon, mu, rate):
    inner = 1 + math.expm1(epsilon) / rate
    if inner <= 0:
        return -math.expm1(epsilon)
    at = math.log(inner) / mu
    return rate * (norm.cdf(mu / 2 - at) - inner * norm.cdf(-mu / 2 - at))


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.01), (0.5, 0.25), (1.2, 1.0), (0.05, 0.9)])
def test_one_round_is_no_less_than_its_closed_form(mu, rate):
    lattice = Lattice(Fraction(1, 256), -4000, 4000)
    rounds = (NormalRounds(Fraction(mu) ** 2, Fraction(rate), 1, -1500, 1500),)
    for epsilon in (0.0, 0.1, 0.7, 2.0):
        found = float(rounds_delta_above(Fraction(epsilon), rounds, lattice, False))
        turned = 1 - math.exp(epsilon) * (1 - sampled_delta(-epsilon, mu, rate))
        truth = max(sampled_delta(epsilon, mu, rate), turned)
        assert truth * (1 - 1e-9) - 1e-15 <= found <= truth + 1e-5
    masses = round_losses(rounds[0], lattice.step, "removed")
    assert sum(masses.masses) + masses.infinite == pytest.approx(10**30, rel=1e-12)
    assert ONE == 1 << 192


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("epsilon",), "1/2"),
        (("delta",), "1/1000000"),
        (("rounds", 0, "count"), 9),
        (("rounds", 0, "sampling", "rate"), "1/2"),
        (("rounds", 0, "sampling"), None),
        (("rounds", 0, "sampling", "of"), "fixed"),
        (("rounds", 0, "steps", 0, "high"), "3/2"),
        (("rounds", 0, "last"), "0"),
        (("rounds", 0, "last"), "3"),
        (("lattice", "step"), "-1/64"),
        (("lattice", "last"), "10"),
        (("rho",), "1"),
        (("adjacency",), "l1"),
    ],
)
def test_a_changed_certificate_is_rejected(place, value, certificate):
    document = {**certificate}
    node = document
    for key in place[:-1]:
        node[key] = node[key].copy()
        node = node[key]
    node[place[-1]] = value
    assert not check(document).verified
    assert check(certificate).verified


@pytest.fixture(scope="module")
def certificate():
    return prove(by_mask, **RECORDS).certificate
