"""Proofs of (ε, δ) that give up what a neighbour cannot produce, beside known answers and the exact engine."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import gumbel_r, laplace, norm

import veridp
from veridp.engines.exact import compare
from veridp.engines.prove import prove
from veridp.engines.prove.coupling.proof import CouplingProof
from veridp.verdict import Standing
from veridp_check.checker import check
from veridp_check.coupling.approximate import delta_within
from veridp_check.noise import NoiseDraw, probability_bounds

DELTA = 1e-3
THRESHOLD = 1 + math.log(1 / (2 * DELTA))  # 7.2146080984


def key_released_above(threshold):
    def released(rng, counts):
        """The noisy count of a key, where there is one and it is large."""
        if counts[0] == 0:
            return None
        noisy = counts[0] + rng.laplace()
        return noisy if noisy >= threshold else None

    return released


def test_a_key_is_released_at_the_threshold_of_its_delta():
    assert pytest.approx(7.2146080984, abs=1e-10) == THRESHOLD
    made = veridp.mechanism(epsilon=1, delta=DELTA, domain=[0, 1, 2, 3], size=1)
    right = veridp.audit(made(key_released_above(THRESHOLD)), seconds=60)
    assert right.standing is Standing.PROVED
    wrong = veridp.audit(made(key_released_above(THRESHOLD - 1)), seconds=60)  # the +1 forgotten
    assert wrong.standing is Standing.REFUTED


def test_only_the_delta_of_the_tail_is_enough():
    mechanism = key_released_above(THRESHOLD)
    proof = prove(mechanism, 1, delta=DELTA * (1 + 1e-9), domain=[0, 1])
    assert proof.epsilon == pytest.approx(0, abs=1e-9)  # between 0 and 1, all is given up
    assert math.isinf(prove(mechanism, 1, delta=DELTA * (1 - 1e-9), domain=[0, 1]).epsilon)


def test_what_is_given_up_lowers_epsilon():
    """On 2 the key has probability p = e^(2 - τ)/2, on 1 p/e; its numbers have a ratio of e: δ(ε) = p (1 - e^(ε-1))."""
    mechanism, likely = key_released_above(THRESHOLD), math.exp(2 - THRESHOLD) / 2
    for share in (0.1, 0.5, 0.63):
        found = prove(mechanism, 1, delta=share * likely, domain=[1, 2]).epsilon
        assert found == pytest.approx(1 + math.log(1 - share), abs=1e-8)
        assert compare(veridp.mechanism(mechanism), [2], [1]).epsilon_at(share * likely) == pytest.approx(
            found, abs=1e-8
        )
    assert prove(mechanism, 1, delta=0.64 * likely, domain=[1, 2]).epsilon == 0.0


def counted(records, key):
    return sum(1 for record in records if record == key)


def stability_histogram(rng, records):
    noisy = {}
    for key in ("a", "b"):
        if counted(records, key) > 0:
            value = counted(records, key) + rng.laplace()
            if value >= THRESHOLD:
                noisy[key] = value
    return noisy


def partition_selection(rng, records):
    return [key for key in sorted(set(records)) if records.count(key) + rng.laplace() >= THRESHOLD]


def noisy_keys_with_normal_noise(rng, records):
    kept = []
    for key in sorted(set(records)):
        value = records.count(key) + rng.normal(scale=2.0)
        if value > 8:
            kept.append((key, value))
    return kept


def test_keys_of_records():
    """The neighbour draws noise for a key more, or for one less; a key of three records costs most, as above."""
    proof = prove(stability_histogram, 2, delta=2 * DELTA, domain=["a", "b"], adjacency="add-remove")
    assert proof.epsilon == pytest.approx(1 + math.log(1 - 2 * DELTA / (math.exp(3 - THRESHOLD) / 2)), abs=1e-8)
    assert isinstance(proof, CouplingProof)
    assert proof.certificate["kind"] == "approximate"
    assert check(proof.certificate).verified


def test_selected_partitions_cost_what_is_left_after_delta():
    proof = prove(partition_selection, 2, delta=DELTA * (1 + 1e-9), domain=["a", "b"], adjacency="add-remove")
    three, two = (math.exp(count - THRESHOLD) / 2 for count in (3, 2))
    assert proof.epsilon == pytest.approx(math.log((three - DELTA) / two), abs=1e-6)


def test_normal_noise_above_a_threshold():
    """Two inputs reach it; other keys, whose noise does not move, cost nothing more."""
    pairs = [(["a"] * n, ["a"] * m) for n, m in ((2, 3), (3, 2))]
    between = max(compare(noisy_keys_with_normal_noise, *pair).epsilon_at(2e-3) for pair in pairs)
    for domain in (["a"], ["a", "b"]):
        proof = prove(noisy_keys_with_normal_noise, 2, delta=2e-3, domain=domain, adjacency="add-remove")
        assert proof.epsilon == pytest.approx(between, abs=1e-8)


@pytest.mark.parametrize(("kind", "density"), [("normal", norm(scale=2)), ("laplace", laplace(scale=2))])
def test_what_a_shift_pays_between_two_numbers(kind, density):
    """Beside numerical integration."""
    noise = NoiseDraw(0, kind, (Fraction(2),))
    for move in (Fraction(3, 2), Fraction(-3, 2)):
        for ends in ((None, None), (1, None), (None, 1), (-1, 3)):
            low, high = (-40.0 if ends[0] is None else ends[0]), (40.0 if ends[1] is None else ends[1])
            for cost in (Fraction(-2), Fraction(-1, 4), Fraction(0), Fraction(1, 4), Fraction(1)):
                x = np.linspace(low, high, 20_001)
                more = np.maximum(density.pdf(x) - math.exp(cost) * density.pdf(x + float(move)), 0.0)
                found = delta_within(noise, move, tuple(None if e is None else Fraction(e) for e in ends), cost)
                assert float(found) == pytest.approx(np.trapezoid(more, x), abs=1e-5)


def keys_of_a_counter(rng, records, threshold=THRESHOLD):
    kept = {}
    for key, count in Counter(records).items():
        noisy = count + rng.laplace(scale=1.0)
        if noisy >= threshold:
            kept[key] = noisy
    return kept


def shares_its_noise(rng, records):
    noise = rng.laplace(scale=1.0)
    return {key: count + noise for key, count in Counter(records).items() if count + noise >= 3}


def proposes_the_mode(rng, records, margin=1):
    """Releases the most common key if the noisy distance to data with another one is large."""
    (first, most), (_, next_most) = [*Counter(records).most_common(2), (None, 0), (None, 0)][:2]
    if most - next_most - margin + rng.laplace() > math.log(1 / (2 * DELTA)):
        return first
    return None


@pytest.mark.parametrize("mechanism", [keys_of_a_counter, proposes_the_mode])
def test_keys_that_are_not_listed_cost_what_two_inputs_show(mechanism):
    kind = {"domain": ["a", "b"], "adjacency": "add-remove"}
    proof = prove(mechanism, 3, delta=DELTA * (1 + 1e-9), **kind)
    pairs = [(["a"] * n, ["a"] * m) for n, m in ((3, 4), (4, 3))]
    between = max(compare(mechanism, *pair).epsilon_at(DELTA * (1 + 1e-9)) for pair in pairs)
    assert proof.epsilon == pytest.approx(between, abs=1e-8)


def proposes_the_median(rng, records):
    """Releases a noisy median if the noisy distance to data with another one is large: both by noise of their own."""
    least, median, most = sorted(records)
    distance = 0 if least < median or median < most else 1
    return median + rng.laplace() if distance + rng.laplace() > math.log(1 / (2 * DELTA)) else None


@pytest.mark.parametrize(
    ("delta", "epsilon"),
    [(DELTA, math.log(math.e - 1)), (2 * DELTA, math.log(math.e - 2))],  # e^ε δ' + δ >= eδ', δ' for a distance of 0
)
def test_a_number_that_is_released_after_a_test_costs_what_two_inputs_show(delta, epsilon):
    """The weight of the number's event and the loss of its shift are priced together."""
    kind = {"domain": [0, 1, 10], "adjacency": "replace"}
    proof = prove(proposes_the_median, 3, delta=delta * (1 + 1e-9), **kind)
    between = compare(proposes_the_median, [0, 0, 0], [0, 0, 1]).epsilon_at(delta * (1 + 1e-9))
    assert proof.epsilon == pytest.approx(between, abs=1e-8)
    assert proof.epsilon == pytest.approx(max(epsilon, 0), abs=1e-6)
    assert check(proof.certificate).verified


def test_a_threshold_without_the_one_and_noise_that_keys_share_are_not_proved():
    kind = {"domain": ["a", "b"], "adjacency": "add-remove", "delta": DELTA * (1 + 1e-9)}
    assert prove(keys_of_a_counter, 1, threshold=THRESHOLD - 1e-6, **kind).epsilon == math.inf
    assert prove(proposes_the_mode, 1, margin=0, **kind).epsilon == math.inf
    assert prove(shares_its_noise, 1, **kind).epsilon == math.inf
    assert compare(keys_of_a_counter, ["a"], [], threshold=THRESHOLD - 1e-6).epsilon_at(DELTA) == math.inf


def test_at_another_epsilon_what_is_given_up_is_not_forgotten():
    """At ε = 1 the proof of (0.68, 0.002) is one of δ = 0.002, and not of 0: two inputs show 0.001 there."""
    proof = prove(keys_of_a_counter, 2, delta=2 * DELTA, domain=["a", "b"], adjacency="add-remove")
    between = compare(keys_of_a_counter, ["a"], [])
    for epsilon in (0.1, proof.epsilon, 1.0, 5.0):
        assert between.delta(epsilon) <= proof.delta(epsilon)
    assert proof.delta(1.0) == 2 * DELTA
    assert proof.tradeoff().beta(0.0) == pytest.approx(1 - 2 * DELTA, abs=1e-12)


def leaks_the_count(rng, counts):
    return (counts[0], rng.laplace()) if rng.random() < 0.01 else rng.laplace()


def test_a_leak_is_paid_with_its_probability():
    assert prove(leaks_the_count, 1, delta=0.01 * (1 + 1e-9), domain=[0, 1]).epsilon == pytest.approx(0, abs=1e-9)
    assert math.isinf(prove(leaks_the_count, 1, delta=0.0099, domain=[0, 1]).epsilon)


# ------------------------------------------------------------------------------------------------------------ forgeries


def certificate_of_a_key():
    proof = prove(key_released_above(THRESHOLD), 1, delta=1.1 * DELTA, domain=[0, 1, 2])
    return proof.certificate


def pays_less(document):
    for coupling in document["couplings"]:
        coupling["delta"] = "1/100000"


def costs_less(document):
    for coupling in document["couplings"]:
        coupling["cost"] = "1/4"


def carries_nothing(document):
    for coupling in document["couplings"]:
        coupling["transports"] = []


def shares_half(document):
    for coupling in document["couplings"]:
        for transport in coupling["transports"]:
            transport["share"] = "1/2"


def shifts_by_none(document):
    for coupling in document["couplings"]:
        for transport in coupling["transports"]:
            transport["shifts"]["table"][0]["moves"] = ["0"]


def has_a_ratio(document):
    document["couplings"][0]["ratio"] = "1"


def below_zero(document):
    document["couplings"][0]["delta"] = "-1"


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (lambda document: document.update(delta="1/1000000"), "/pairs"),
        (lambda document: document.update(epsilon="1/4"), "/pairs"),
        (lambda document: document["pairs"].pop(), "/pairs"),
        (lambda document: document.update(kind="coupling"), "/delta"),
        (pays_less, "/couplings"),
        (costs_less, "/couplings"),
        (carries_nothing, "/couplings"),
        (shares_half, "/couplings"),
        (shifts_by_none, "/couplings"),
        (has_a_ratio, "/couplings/0/ratio"),
        (below_zero, "/couplings"),
    ],
)
def test_forgeries_are_rejected(edit, place):
    document = certificate_of_a_key()
    assert check(document).verified
    edit(document)
    rejection = check(document).rejection
    assert rejection is not None
    assert rejection.place.startswith(place)


def test_pairs_that_differ_in_one_part_or_in_two_may_share_a_coupling_of_parts():
    """The part that two pairs have in common pays all of δ in one of them, and half of it in the other."""

    def both(rng, values):
        return [value + rng.normal(scale=2.0) > 1 for value in values]

    proof = prove(both, 1, delta=1e-6, adjacency="any", domain=[(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)])
    assert check(proof.certificate).verified
    alone = prove(
        lambda rng, value: value + rng.normal(scale=2.0) > 1, 1, delta=5e-7, adjacency="any", domain=[0.0, 1.0]
    )
    assert proof.epsilon == pytest.approx(2 * alone.epsilon)


def test_normal_noise_of_entries_that_differ_is_priced_together():
    """Counts of listed values, by a function that numbers have to be given to: μ = √2/σ, of two counts that move."""
    sigma, delta = 5.3, 1e-5
    mu = math.sqrt(2) / sigma

    @veridp.mechanism(epsilon=1, delta=delta, adjacency="replace", domain=[0, 1, 2], size=2)
    def histogram(rng, data):
        return np.bincount(data, minlength=3) + rng.normal(scale=sigma, size=3)

    epsilon = prove(histogram).epsilon
    assert epsilon < 1
    profile = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert profile == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("noise", ["gumbel", "logistic", "standard_cauchy"])
def test_a_noisy_test_of_any_noise_has_a_proof_that_its_checker_accepts(noise: str) -> None:
    def passes(rng, data):
        return data[0] + getattr(rng, noise)() > 0.5

    mechanism = veridp.mechanism(adjacency="linf", domain=[0, 1], size=1)(passes)
    proof = prove(mechanism, delta=0.05)
    assert check(proof.certificate).verified
    exact = compare(mechanism, [0], [1]).epsilon_at(0.05)
    assert exact <= proof.epsilon
    assert noise != "gumbel" or proof.epsilon == pytest.approx(exact, rel=1e-9)


def test_the_checker_encloses_how_likely_gumbel_noise_is_between_two_numbers() -> None:
    noise = NoiseDraw(0, "gumbel", (Fraction(2),))
    spans: list[tuple[float | None, float | None]] = [(-7, 3), (-9, -1), (0.3, 40), (-30, -12), (None, 0), (2, None)]
    for low, high in spans:
        ends = [None if end is None else Fraction(end) for end in (low, high)]
        least, most = probability_bounds(noise, *ends)
        below, up_to = (
            (0.0 if low is None else gumbel_r.cdf(float(low), scale=2)),
            gumbel_r.cdf(float(high or 0), scale=2),
        )
        true = (1.0 if high is None else up_to) - below
        assert float(least) <= true * (1 + 1e-12)
        assert true * (1 - 1e-12) <= float(most) <= true + 1e-12


def test_an_event_may_become_one_that_is_very_much_likelier() -> None:
    def passes(rng, data):
        return data[0] ** 2 + rng.gumbel() > -0.5

    mechanism = veridp.mechanism(adjacency="linf", domain=[0, 1, 2], size=1)(passes)
    proof = prove(veridp.mechanism(adjacency="any", domain=[0, 2])(lambda rng, data: passes(rng, [data])), delta=0.05)
    assert proof.epsilon == pytest.approx(compare(passes, [0], [2]).epsilon_at(0.05), rel=1e-9)
    assert check(proof.certificate).verified
    assert prove(mechanism, delta=0.05).epsilon >= compare(mechanism, [0], [1]).epsilon_at(0.05)
