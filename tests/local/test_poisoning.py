"""Attacks: measured gains against analytic ones, analytic ones against the closed forms of the literature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from veridp.errors import BadInput
from veridp.local import (
    GRR,
    HM,
    OLH,
    OUE,
    PM,
    RAPPOR,
    SR,
    SUE,
    BinnedGRR,
    FrequencyOracle,
    Hadamard,
    KeyValue,
    LaplaceMean,
    Moments,
    SubsetSelection,
)
from veridp.local.defences import weight_distribution
from veridp.local.poisoning import (
    IPA,
    MGA,
    OPA,
    RIA,
    RPA,
    AdaptiveMGA,
    CheckedProtocol,
    FineGrained,
    FineGrainedInput,
    Freedom,
    KeyValueAttack,
    LargestInput,
    Unchecked,
)
from veridp.local.poisoning.attack import random_rate, random_reports
from veridp.local.study import adult_ages

SIZE, BETA = 100, 0.05
AGES = adult_ages().values


def zipf(count: int) -> Any:
    return np.random.default_rng(0).zipf(1.5, size=count) % SIZE


# --------------------------------------------------------------------------------------------------- frequencies


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("count", range(1, 11))
def test_analytic_gains_are_those_of_the_literature(count: int, epsilon: float) -> None:
    e, targets = math.exp(epsilon), tuple(range(5, 5 + count))
    frequencies = np.bincount(zipf(10_000), minlength=SIZE) / 10_000
    share = frequencies[list(targets)].sum()
    grr, oue, olh = GRR(SIZE, epsilon), OUE(SIZE, epsilon), OLH(SIZE, epsilon)
    published = {
        (RPA, grr): BETA * (count / SIZE - share),
        (RIA, grr): BETA * (1 - share),
        (MGA, grr): BETA * (1 - share) + BETA * (SIZE - count) / (e - 1),
        (RPA, oue): BETA * (count - share),
        (RIA, oue): BETA * (1 - share),
        (MGA, oue): BETA * (2 * count - share) + 2 * BETA * count / (e - 1),
        (RPA, olh): -BETA * share,
        (RIA, olh): BETA * (1 - share),
    }
    for (kind, oracle), gain in published.items():
        assert kind(BETA, oracle, targets).expected_gain(frequencies) == pytest.approx(gain, abs=1e-9)


@pytest.mark.parametrize(
    "oracle", [Hadamard(16, 1.0), RAPPOR(tuple(map(str, range(16))), 4.0)], ids=["hadamard", "rappor"]
)
def test_a_random_item_is_an_attack_on_every_oracle(oracle: FrequencyOracle) -> None:
    """Gain β(1 - f_T): fake users are honest about a target. Six standard errors of the fake reports' noise."""
    values, rng = np.arange(40_000) % 16, np.random.default_rng(3)
    attack = RIA(0.2, oracle, (2, 5))
    theory = attack.expected_gain(np.full(16, 1 / 16))
    assert theory == pytest.approx(0.2 * (1 - 2 / 16))
    attacked = attack.collect(values, rng)
    noise = 0.2 * math.sqrt(2 * float(np.max(oracle.variance(attacked.malicious, np.full(16, 1 / 16)))))
    assert abs(attack.gain(attacked) - theory) < 6 * noise < theory
    with pytest.raises(BadInput, match="mga is not available"):
        MGA(0.2, oracle, (2, 5))  # type: ignore[arg-type]


def test_mga_on_olh_gains_what_it_does_on_oue_where_the_buckets_are_whole() -> None:
    """At ε = ln 3, g = e^ε + 1 = 4 exactly."""
    epsilon, targets, frequencies = math.log(3), (1, 2, 3), np.full(SIZE, 1 / SIZE)
    on_olh, on_oue = (MGA(BETA, kind(SIZE, epsilon), targets) for kind in (OLH, OUE))
    assert on_olh.supported == 3
    assert on_olh.expected_gain(frequencies) == pytest.approx(on_oue.expected_gain(frequencies), rel=1e-9)


@pytest.mark.parametrize("kind", [GRR, OUE, OLH, SUE, SubsetSelection])
@pytest.mark.parametrize("attack_kind", [RPA, RIA, MGA, AdaptiveMGA])
def test_measured_gains_are_the_analytic_ones(kind: Any, attack_kind: Any) -> None:
    """r = 1..10, d = 100, eight collections of 5,000 each: the mean gain within 6 of its standard errors, at least 6 of
    those that the noise of the fake reports alone implies (a bound where eight deviate too little by chance)."""
    oracle, values, rng = kind(SIZE, 1.0), zipf(5_000), np.random.default_rng(1)
    frequencies = oracle.frequencies(values)
    for count in (1, 2, 5, 10):
        attack = attack_kind(BETA, oracle, tuple(range(5, 5 + count)))
        gains = np.array([attack.gain(attack.collect(values, rng)) for _ in range(8)])
        theory = attack.expected_gain(frequencies)
        spread = math.sqrt(count * float(oracle.variance(len(values))) * BETA + 1e-6)
        assert abs(gains.mean() - theory) < 6 * max(float(gains.std(ddof=1)), spread) / math.sqrt(8)
        if attack_kind is MGA:
            assert gains.mean() == pytest.approx(theory, rel=0.1)


@pytest.mark.parametrize("kind", [GRR, OUE, OLH])
@pytest.mark.parametrize("count", range(1, 11))
def test_mga_is_felt_as_analysis_says_for_one_to_ten_targets(kind: Any, count: int) -> None:
    oracle, values = kind(SIZE, 1.0), zipf(20_000)
    attack = MGA(BETA, oracle, tuple(range(5, 5 + count)))
    gain = attack.gain(attack.collect(values, np.random.default_rng(count)))
    # honest noise stays the same before and after but for its weight, β of it: 6 standard deviations of that
    noise = BETA * math.sqrt(count * float(oracle.variance(len(values)))) + 1e-3
    assert abs(gain - attack.expected_gain(oracle.frequencies(values))) < 6 * noise


def test_fake_users_are_counted_as_such() -> None:
    attack = MGA(0.2, GRR(SIZE, 1.0), (3,))
    attacked = attack.collect(zipf(8000), np.random.default_rng(0))
    assert (attacked.malicious, attacked.before.users, attacked.after.users) == (2000, 8000, 10_000)
    twice = attacked + attacked
    assert (twice.malicious, twice.after.users) == (4000, 20_000)


def test_mga_fills_reports_up_to_the_expected_weight() -> None:
    oracle, rng = OUE(SIZE, 1.0), np.random.default_rng(2)
    reports = MGA(BETA, oracle, (1, 2, 3)).reports(500, rng)
    support = oracle.support(reports)
    expected = round(0.5 + 99 / (math.e + 1))
    assert set(support.sum(axis=1).tolist()) == {expected}
    assert support[:, [1, 2, 3]].all()


def test_adaptive_reports_weigh_what_honest_ones_do() -> None:
    """20,000 reports: the frequency of every weight within 5.5 standard deviations of the law."""
    oracle, count = OUE(SIZE, 1.0), 20_000
    reports = AdaptiveMGA(BETA, oracle, (1, 2, 3), boldness=1.0).reports(count, np.random.default_rng(3))
    seen = np.bincount(oracle.support(reports).sum(axis=1), minlength=SIZE + 1) / count
    law = weight_distribution(oracle)
    assert law.sum() == pytest.approx(1)
    assert np.all(np.abs(seen - law) < 5.5 * np.sqrt(law / count) + 1e-4)


@pytest.mark.parametrize("kind", [GRR, OUE, SUE, SubsetSelection, OLH])
def test_honest_weights_follow_their_law(kind: Any) -> None:
    """20,000 honest reports, likewise."""
    oracle, count = kind(20, 1.0), 20_000
    reports = oracle.perturb(np.arange(count) % 20, np.random.default_rng(4))
    seen = np.bincount(oracle.support(reports).sum(axis=1), minlength=21) / count
    law = weight_distribution(oracle)
    assert np.all(np.abs(seen - law) < 5.5 * np.sqrt(law / count) + 1e-4)


@pytest.mark.parametrize("oracle", [OUE(70, 1.0), SUE(64, 1.0), SubsetSelection(70, 0.5)])
def test_random_reports_support_every_value_at_their_rate_and_none_beyond(oracle: Any) -> None:
    """40,000 reports, more than are made at a time: each of 70 rates within 5 standard deviations, 6e-7 each."""
    count, rate = 40_000, random_rate(oracle)
    reports = random_reports(oracle, count, np.random.default_rng(4))
    seen = oracle.aggregate(reports).sums / count  # which refuses bits beyond the values
    assert np.abs(seen - rate).max() < 5 * np.sqrt(rate * (1 - rate) / count)
    assert len(random_reports(oracle, 0, np.random.default_rng(4))) == 0


def test_attacks_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadInput, match="beta"):
        RPA(1.0, GRR(5, 1.0), (1,))
    with pytest.raises(BadInput, match="targets"):
        RPA(0.1, GRR(5, 1.0), (7,))
    with pytest.raises(BadInput, match="repeat"):
        RPA(0.1, GRR(5, 1.0), (1, 1))
    with pytest.raises(BadInput, match="boldness"):
        AdaptiveMGA(0.1, GRR(5, 1.0), (1,), boldness=2.0)
    with pytest.raises(BadInput, match="prior"):
        AdaptiveMGA(0.1, GRR(5, 1.0), (1,), prior=(1.0, 2.0)).reports(10, np.random.default_rng(0))
    with pytest.raises(BadInput, match="no largest report"):
        OPA(0.1, LaplaceMean(0.0, 1.0, 1.0)).collect([0.5] * 20, np.random.default_rng(0))
    with pytest.raises(BadInput, match="lower it"):
        IPA(0.99, SR(0.0, 1.0, 1.0), 2.0).collect([0.5], np.random.default_rng(3))


# --------------------------------------------------------------------------------------------------------- means


def test_opa_on_the_ages_gives_the_published_mean() -> None:
    """β = 0.2 and ε = 10: 48.9 ± 0.3, and 0.8 · 38.58 + 0.2 · 90 = 48.87 in the limit."""
    for oracle in (BinnedGRR(17, 90, 74, 10.0, "nearest"), SR(17, 90, 10.0), PM(17, 90, 10.0), HM(17, 90, 10.0)):
        attack = OPA(0.2, oracle)
        found = oracle.mean(attack.collect(AGES, np.random.default_rng(5)).after).value
        assert found == pytest.approx(48.9, abs=0.3)
        assert attack.expected_mean(AGES) == pytest.approx(48.9, abs=0.1)
    limit = OPA(0.2, BinnedGRR(17, 90, 74, 30.0, "nearest")).expected_mean(AGES)
    assert limit == pytest.approx(0.8 * AGES.mean() + 0.2 * 90, abs=1e-6)


def test_ipa_on_the_ages_gives_the_published_gains() -> None:
    oracle = SR(17, 90, 10.0)
    assert IPA(0.2, oracle, 50).expected_gain(AGES) == pytest.approx(1.030, abs=1e-3)
    assert IPA(0.2, oracle, 40).expected_gain(AGES) == pytest.approx(1.258, abs=1e-3)
    series = [IPA(0.1, oracle, theta).expected_gain(AGES) for theta in (40, 50, 60, 70, 80)]
    assert series == pytest.approx([0.592, 0.471, 0.249, 0.079, 0.019], abs=1e-3)
    binned = BinnedGRR(17, 90, 74, 10.0, "nearest")
    gains = [
        IPA(0.2, binned, 50).gain(IPA(0.2, binned, 50).collect(AGES, np.random.default_rng(seed))) for seed in range(20)
    ]
    assert np.mean(gains) == pytest.approx(1.03, abs=0.1)


@pytest.mark.parametrize("oracle", [BinnedGRR(17, 90, 20, 1.0), SR(17, 90, 1.0), PM(17, 90, 1.0), HM(17, 90, 1.0)])
@pytest.mark.parametrize("make", [OPA, LargestInput, lambda beta, oracle: IPA(beta, oracle, 50)])
def test_measured_means_under_attack_are_the_analytic_ones(oracle: Any, make: Any) -> None:
    """30 attacks: the mean gain within 6 standard errors of the 30, 2e-8 with a t of 29 degrees somewhat more."""
    attack, rng = make(0.1, oracle), np.random.default_rng(6)
    values = AGES[:: len(AGES) // 3000]
    gains = np.array([attack.gain(attack.collect(values, rng)) for _ in range(30)])
    assert abs(gains.mean() - attack.expected_gain(values)) < 6 * gains.std(ddof=1) / math.sqrt(30)


def test_expected_means_count_repeated_values_by_weights() -> None:
    ages, counts = np.unique(AGES, return_counts=True)
    for attack in (OPA(0.2, SR(17, 90, 1.0)), IPA(0.2, PM(17, 90, 1.0), 50), LargestInput(0.3, SR(17, 90, 1.0))):
        assert attack.expected_gain(ages, counts.astype(float)) == pytest.approx(attack.expected_gain(AGES), rel=1e-9)


# ---------------------------------------------------------------------------------------------------- fine-grained


@pytest.mark.parametrize("kind", [SR, PM])
def test_mean_and_variance_are_brought_to_their_targets(kind: Any) -> None:
    """One collection of 400,000: both within 6 standard errors of the targets, 2e-9."""
    values = np.random.default_rng(7).normal(40, 10, size=400_000).clip(17, 90)
    known = (float(values.mean()), float(values.var()))
    moments = Moments(kind, 17.0, 90.0, 1.0)
    attack = FineGrained(0.1, moments, 45.0, 150.0, known)
    assert attack.reachable
    assert attack.expected == pytest.approx((45.0, 150.0))
    found = moments.estimate(attack.collect(values, np.random.default_rng(8)).after)
    assert np.all(np.abs(found.values - [45.0, 150.0]) < 6 * found.standard_errors)


@pytest.mark.parametrize("kind", [SR, PM])
def test_what_cannot_be_reached_is_said_and_gone_for(kind: Any) -> None:
    values = np.random.default_rng(9).normal(40, 10, size=200_000).clip(17, 90)
    known = (float(values.mean()), float(values.var()))
    moments = Moments(kind, 17.0, 90.0, 1.0)
    by_output = FineGrained(0.05, moments, 80.0, 20.0, known)
    by_input = FineGrainedInput(0.05, moments, 80.0, 20.0, known)
    assert not by_output.reachable
    assert not by_input.reachable
    # the most that honest perturbation allows is β of the way to the upper end; reports of any kind go further
    assert by_input.expected[0] == pytest.approx(0.95 * known[0] + 0.05 * 90)
    assert by_output.expected[0] > by_input.expected[0]
    for attack in (by_output, by_input):
        found = moments.estimate(attack.collect(values, np.random.default_rng(10)).after)
        assert np.all(np.abs(found.values - attack.expected) < 6 * found.standard_errors)
    with pytest.raises(BadInput, match="beta = 0"):
        FineGrained(0.0, moments, 50.0, 100.0, known)
    with pytest.raises(BadInput, match="negative"):
        FineGrained(0.1, moments, 50.0, -1.0, known)


# ------------------------------------------------------------------------------------------------------ key-value


@pytest.mark.parametrize("honest", [False, True])
def test_keys_are_promoted_and_their_means_raised(honest: bool) -> None:
    """300,000 honest users, targets of frequency 0.1 and 0.2: the gain within 0.02 (4 standard errors of what fake
    reports and honest ones add), the means within 0.1."""
    rng, share = np.random.default_rng(11), np.array([0.1, 0.2, 0.3, 0.4])
    keys, oracle = rng.choice(4, size=300_000, p=share), KeyValue(4, 2.0)
    before = oracle.aggregate(oracle.perturb(keys, np.full(len(keys), -0.25), rng))
    attack = KeyValueAttack(oracle, (0, 1), 0.05, honest)
    after = before + oracle.aggregate(attack.reports(round(len(keys) * 0.05 / 0.95), rng))
    gain = (oracle.frequencies(after).values - oracle.frequencies(before).values)[:2].sum()
    assert gain == pytest.approx(attack.expected_frequency_gain(share), abs=0.02)
    expected = attack.expected_means(share, np.full(4, -0.25))
    assert oracle.means(after).values[:2] == pytest.approx(expected, abs=0.1)
    assert np.all(expected > 0) if not honest else np.all(expected > -0.25)
    assert attack.allowed_by(Unchecked())


# ------------------------------------------------------------------------------------------------ what is allowed


@dataclass(frozen=True)
class HonestPerturbation:
    """A protocol that forces honest perturbation of whatever value is claimed."""

    name: str = "honest perturbation"

    def permits(self, freedom: Freedom) -> bool:
        return freedom in (Freedom.INPUT, Freedom.ABSENCE)


def test_a_protocol_decides_which_attacks_are_left() -> None:
    protocol = HonestPerturbation()
    assert isinstance(protocol, CheckedProtocol)
    grr, olh, sr = GRR(SIZE, 1.0), OLH(SIZE, 1.0), SR(17, 90, 1.0)
    moments = Moments(SR, 17.0, 90.0, 1.0)
    aimed = (0.1, moments, 45.0, 150.0, (40.0, 100.0))
    left: list[Any] = [RIA(0.1, grr, (1,)), IPA(0.1, sr, 50), LargestInput(0.1, sr), FineGrainedInput(*aimed)]
    prevented: list[Any] = [
        RPA(0.1, grr, (1,)),
        MGA(0.1, grr, (1,)),
        AdaptiveMGA(0.1, grr, (1,)),
        OPA(0.1, sr),
        FineGrained(*aimed),
    ]
    assert all(attack.allowed_by(protocol) for attack in left)
    assert not any(attack.allowed_by(protocol) for attack in prevented)
    assert all(attack.allowed_by(Unchecked()) for attack in (*left, *prevented))
    assert MGA(0.1, olh, (1,)).freedoms == {Freedom.REPORT, Freedom.SEED}
