"""The oracles' numbers against the closed forms of the literature, and against sums over all reports."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from veridp import exact
from veridp.errors import BadInput
from veridp.local import (
    GRR,
    HM,
    OLH,
    OUE,
    PM,
    RAPPOR,
    SMP,
    SPL,
    SR,
    SUE,
    BinnedGRR,
    Estimate,
    Hadamard,
    KeyValue,
    Labelled,
    LaplaceMean,
    Moments,
    RapporDevice,
    SubsetSelection,
    choose,
    postprocess,
)
from veridp.local.frequency import walsh_hadamard
from veridp.local.hashing import buckets_under
from veridp.local.kernels import (
    GRAIN,
    add_bits,
    add_discrete_laplace,
    exp_below,
    log_above,
    lying_rate,
    noisy_words,
    packed,
    random_subsets,
    rounded_rate,
    stream,
    unpacked,
)

EPSILONS = (0.1, 0.5, 1.0, math.log(3), 3.0, 6.0)


# ----------------------------------------------------------------------------------------------------- rates


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("favoured", "others"), [(1, 1), (1, 99), (3, 7), (100, 924)])
def test_rates_are_multiples_of_the_grain_on_the_private_side(epsilon: float, favoured: int, others: int) -> None:
    from fractions import Fraction

    lie = lying_rate(epsilon, favoured, others)
    exactly = Fraction(lie) * GRAIN
    assert exactly.denominator == 1
    odds = ((1 - Fraction(lie)) / favoured) / (Fraction(lie) / others)
    less = ((1 - Fraction(lie) + Fraction(1, GRAIN)) / favoured) / ((Fraction(lie) - Fraction(1, GRAIN)) / others)
    assert odds <= exp_below(epsilon) < less
    assert math.log(odds) == pytest.approx(epsilon, abs=1e-10)


def test_rates_that_users_choose_are_rounded_to_the_grain() -> None:
    assert rounded_rate(0.75) == 0.75
    assert rounded_rate(1e-17) == 0.0
    with pytest.raises(BadInput, match="a probability must be in"):
        rounded_rate(1.5)
    assert log_above(exp_below(1.0)) > 1 - 1e-10


# -------------------------------------------------------------------------------- closed forms of frequency oracles


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 5, 100])
def test_the_rates_and_variances_of_the_literature(size: int, epsilon: float) -> None:
    e = math.exp(epsilon)
    grr, sue, oue, olh = GRR(size, epsilon), SUE(size, epsilon), OUE(size, epsilon), OLH(size, epsilon)
    assert (grr.p, grr.q) == pytest.approx((e / (e + size - 1), 1 / (e + size - 1)), rel=1e-9)
    assert math.sqrt(grr.variance(50)) == pytest.approx(math.sqrt((size - 2 + e) / 50) / (e - 1), rel=1e-9)
    root = math.exp(epsilon / 2)
    assert (sue.p, sue.q) == pytest.approx((root / (root + 1), 1 / (root + 1)), rel=1e-9)
    assert float(sue.variance(1)) == pytest.approx(root / (root - 1) ** 2, rel=1e-8)
    assert (oue.p, oue.q) == pytest.approx((0.5, 1 / (e + 1)), rel=1e-9)
    assert float(oue.variance(1)) == pytest.approx(4 * e / (e - 1) ** 2, rel=1e-8)
    g = round(e) + 1
    assert (olh.buckets, olh.p, olh.q) == pytest.approx((g, e / (e + g - 1), 1 / g), rel=1e-9)
    with_best_g = (g - 1 + e) ** 2 / ((e - 1) ** 2 * (g - 1))  # Wang et al. 2017, equation 11
    assert float(olh.variance(1)) == pytest.approx(with_best_g, rel=1e-8)
    assert float(olh.variance(1)) >= 4 * e / (e - 1) ** 2 * (1 - 1e-9)


def test_grr_is_the_better_one_up_to_three_e_and_two_values() -> None:
    for epsilon in (0.5, 1.0, 2.0):
        limit = 3 * math.exp(epsilon) + 2
        below, above = math.floor(limit), math.ceil(limit)
        assert GRR(below, epsilon).variance(1) < OUE(below, epsilon).variance(1)
        assert GRR(above, epsilon).variance(1) > OUE(above, epsilon).variance(1)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_the_covariance_of_grr_by_a_sum_over_all_reports(epsilon: float) -> None:
    oracle, share = GRR(4, epsilon), np.array([0.1, 0.2, 0.3, 0.4])
    covariance = np.zeros((4, 4))
    for value, frequency in enumerate(share):
        rates = np.where(np.arange(4) == value, oracle.p, oracle.q)
        covariance += frequency * (np.diag(rates) - np.outer(rates, rates))
    covariance /= 10 * (oracle.p - oracle.q) ** 2
    np.testing.assert_allclose(oracle.covariance(10, share), covariance, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(np.diag(covariance), oracle.variance(10, share), rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("size", [2, 5, 11])
def test_hadamard_estimates_by_a_sum_over_all_points(size: int, epsilon: float) -> None:
    """Expectation and variance of what one report adds to each estimate, over the exact law of reports."""
    oracle, share = Hadamard(size, epsilon), np.arange(1, size + 1) / (size * (size + 1) / 2)
    unit = np.eye(oracle.points).astype(np.int64)
    adds = np.array(
        [oracle.estimate(type(oracle.aggregate(np.array([0])))(str(oracle), 1, row)).values for row in unit]
    )
    second = np.zeros(size)
    for value in range(size):
        law = exact.law(oracle.mechanism(), value)
        rates = np.array([law.probability(point) for point in range(oracle.points)])
        assert rates.sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(rates @ adds, np.eye(size)[value], atol=1e-9)
        second += share[value] * (rates @ adds**2 - (rates @ adds) ** 2)
    np.testing.assert_allclose(oracle.variance(1, share), second, rtol=1e-9)


def test_the_fast_transform_is_the_matrix() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 8))
    matrix = np.array([[(-1) ** (row & column).bit_count() for column in range(8)] for row in range(8)])
    np.testing.assert_allclose(walsh_hadamard(rows), rows @ matrix)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_subset_rates_by_counting_sets(epsilon: float) -> None:
    oracle = SubsetSelection(6, epsilon, 2)
    law = exact.law(oracle.mechanism(), 0)
    rate = {chosen: law.probability(list(chosen)) for chosen in itertools.combinations(range(6), 2)}
    assert sum(rate.values()) == pytest.approx(1)
    assert sum(p for chosen, p in rate.items() if 0 in chosen) == pytest.approx(oracle.p)
    assert sum(p for chosen, p in rate.items() if 3 in chosen) == pytest.approx(oracle.q)
    e = math.exp(epsilon)
    assert oracle.p == pytest.approx(2 * e / (2 * e + 4), rel=1e-9)
    assert SubsetSelection(10, 5.0).variance(1) == pytest.approx(GRR(10, 5.0).variance(1), rel=1e-12)  # sets of one


# --------------------------------------------------------------------------------------------------------- means


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("value", [-1.0, -0.3, 0.0, 0.8])
def test_noise_variances_by_integration(epsilon: float, value: float) -> None:
    e, root = math.exp(epsilon), math.exp(epsilon / 2)
    sr, pm, hm, laplace = (kind(-1.0, 1.0, epsilon) for kind in (SR, PM, HM, LaplaceMean))
    up = (1 + value * (e - 1) / (e + 1)) / 2
    step = (e + 1) / (e - 1)
    assert up * step - (1 - up) * step == pytest.approx(value)
    assert sr.variance(1, [value]) == pytest.approx(step**2 - value**2, rel=1e-8)
    s, left, right = (root + 1) / (root - 1), (root * value - 1) / (root - 1), (root * value + 1) / (root - 1)
    high = root / 2 * (root - 1) / (root + 1)

    def moment(power: int) -> float:
        total = 0.0
        for start, end, height in ((-s, left, high / e), (left, right, high), (right, s, high / e)):
            total += quad(lambda y, height=height: height * y**power, start, end)[0]
        return float(total)

    assert moment(0) == pytest.approx(1)
    assert moment(1) == pytest.approx(value, abs=1e-7)
    assert pm.variance(1, [value]) == pytest.approx(moment(2) - value**2, rel=1e-6)
    assert pm.reach == pytest.approx(s, rel=1e-5)
    share = 1 - math.exp(-epsilon / 2) if epsilon > 0.61 else 0.0
    expected = share * pm.variance(1, [value]) + (1 - share) * sr.variance(1, [value])
    assert hm.variance(1, [value]) == pytest.approx(expected, rel=1e-9)
    assert laplace.variance(1, [value]) == pytest.approx(8 / epsilon**2, rel=1e-8)


def test_the_hybrid_is_never_worse_than_both_and_starts_at_the_papers_point() -> None:
    from veridp.local.piecewise import MIXING_STARTS

    assert pytest.approx(0.61, abs=0.005) == MIXING_STARTS
    for epsilon in np.linspace(0.1, 8, 60):
        worst = [kind(-1, 1, float(epsilon)).variance(1) for kind in (HM, SR, PM)]
        assert worst[0] <= min(worst[1:]) * (1 + 1e-6)


@pytest.mark.parametrize("levels", [5, 16, 33])
@pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0])
def test_the_grid_of_pm_is_unbiased_exactly(epsilon: float, levels: int) -> None:
    oracle = PM(-1.0, 1.0, epsilon, levels)
    for value in (-1.0, -0.37, 0.0, 0.5, 1.0):
        law = exact.law(oracle.grid_mechanism(), value)
        rates = np.array([law.probability(point) for point in range(levels)])
        stands_for = oracle.numbers((2 * np.arange(levels) + 1 - levels).astype(np.int32))
        assert rates @ stands_for == pytest.approx(value, abs=1e-12)


def test_means_in_the_range_of_the_data() -> None:
    oracle = SR(17.0, 90.0, 1.0)
    assert oracle.outer(0.0) == 53.5
    assert oracle.inner(np.array([17.0, 53.5, 90.0])).tolist() == [-1.0, 0.0, 1.0]
    assert oracle.furthest == pytest.approx(53.5 + 36.5 * (math.e + 1) / (math.e - 1), rel=1e-9)
    assert oracle.variance(10) == pytest.approx(36.5**2 * ((math.e + 1) / (math.e - 1)) ** 2 / 10, rel=1e-9)


def test_two_levels_with_random_rounding_are_sr() -> None:
    """The remark of the source study: GRR on two levels and SR are one and the same."""
    two, sign = BinnedGRR(17.0, 90.0, 2, 1.3), SR(17.0, 90.0, 1.3)
    for value in (17.0, 40.0, 90.0):
        top = exact.law(two.mechanism(), value).probability(1)
        assert top == pytest.approx(exact.law(sign.mechanism(), value).probability(1), rel=1e-9)
    values = np.array([20.0, 40.0, 70.0])
    assert two.mean_variance(3, values) == pytest.approx(sign.variance(3, values), rel=1e-9)


def test_clipping_pulls_the_mean_to_the_middle() -> None:
    """40 collections at ε = 0.1. Clipped and normalised, the mean is near the middle, 53.5, at a standard error of 0.5
    (measured): 5 of them. The unbiased mean has a standard error of 13 (analytic), and stays at 38.58 within 5."""
    from veridp.local.means import mean_of
    from veridp.local.study import adult_ages

    ages, oracle = adult_ages().values, BinnedGRR(17.0, 90.0, 74, 0.1, "nearest")
    rng = np.random.default_rng(0)
    histograms = [oracle.estimate(oracle.collect(ages, rng)) for _ in range(40)]
    raw = [mean_of(histogram, oracle.levels, math.nan).value for histogram in histograms]
    clipped = [
        mean_of(postprocess.apply(histogram, ["clip", "normalise"]), oracle.levels, math.nan)
        for histogram in histograms
    ]
    assert np.mean([mean.value for mean in clipped]) == pytest.approx(53, abs=2.5)
    assert clipped[0].steps == ("clip", "normalise")
    error = math.sqrt(oracle.mean_variance(len(ages), ages) / 40)
    assert abs(np.mean(raw) - 38.58165) < 5 * error


# ------------------------------------------------------------------------------------------------------- kernels


def test_bits_are_packed_and_counted() -> None:
    bits = np.random.default_rng(0).random((500, 70)) < 0.3
    words = packed(bits)
    assert words.shape == (500, 2)
    assert np.array_equal(unpacked(words, 70), bits)
    counts = np.zeros(70, dtype=np.int64)
    add_bits(words, counts)
    assert np.array_equal(counts, bits.sum(axis=0))


@pytest.mark.parametrize("rate", [0.0, 1.0, 0.5, 0.25, 1 / 3, 0.9, 1e-3])
def test_coins_show_heads_at_their_rate_and_independently(rate: float) -> None:
    """Of 64 · 40,000 coins; every bit and all neighbours within 5.5 standard deviations, 4e-8 each."""
    count = 40_000
    true = np.zeros((count, 1), dtype=np.uint64)
    out = np.empty_like(true)
    noisy_words(true, 64, 0, int(rate * GRAIN), stream(np.random.default_rng(1)), out)
    bits = unpacked(out, 64)
    assert np.all(np.abs(bits.mean(axis=0) - rate) <= 5.5 * math.sqrt(rate * (1 - rate) / count))
    both = (bits[:, 1:] & bits[:, :-1]).mean(axis=0)
    assert np.all(np.abs(both - rate**2) <= 5.5 * math.sqrt(rate**2 * (1 - rate**2) / count) + 1e-12)


def test_subsets_are_uniform() -> None:
    """60,000 sets of 2 among 4 others: each of 6 within 5.5 standard deviations."""
    count = 60_000
    out = np.empty((count, 1), dtype=np.uint64)
    values = np.full(count, 2)
    random_subsets(values, 5, 2, np.zeros(count, dtype=bool), stream(np.random.default_rng(2)), out)
    found, seen = np.unique(out, return_counts=True)
    assert found.tolist() == sorted(sum(1 << v for v in pair) for pair in itertools.combinations((0, 1, 3, 4), 2))
    assert np.all(np.abs(seen - count / 6) < 5.5 * math.sqrt(count * 5 / 36))


@pytest.mark.parametrize("scale", [1, 3, 50])
def test_discrete_laplace_noise_has_its_law(scale: int) -> None:
    """100,000 draws; each of the likely numbers within 5.5 standard deviations."""
    count = 100_000
    out = np.zeros(count, dtype=np.int64)
    add_discrete_laplace(scale, stream(np.random.default_rng(3)), out)
    decay = math.exp(-1 / scale)
    for number in range(-3 * scale, 3 * scale + 1):
        rate = (1 - decay) / (1 + decay) * decay ** abs(number)
        assert abs(np.mean(out == number) - rate) < 5.5 * math.sqrt(rate / count)


@pytest.mark.parametrize("buckets", [2, 4, 7, 149])
def test_hash_functions_spread_values_evenly_and_pairwise_independently(buckets: int) -> None:
    """100,000 functions, 20 values: bucket rates, and collisions of all 190 pairs, within 5.5 standard deviations."""
    seeds = np.random.default_rng(4).integers(0, 2**64, size=100_000, dtype=np.uint64)
    table = buckets_under(seeds, 20, buckets)
    rates = np.array([np.bincount(column, minlength=buckets) for column in table.T]) / len(seeds)
    assert rates.shape[1] == buckets
    assert np.all(np.abs(rates - 1 / buckets) < 5.5 * math.sqrt(1 / buckets / len(seeds)))
    for first, second in itertools.combinations(range(20), 2):
        assert abs(np.mean(table[:, first] == table[:, second]) - 1 / buckets) < 5.5 * math.sqrt(
            1 / buckets / len(seeds)
        )


# ------------------------------------------------------------------------------------- estimates and their steps


def estimate(*values: float) -> Estimate:
    return Estimate(np.array(values), np.full(len(values), 0.1), 100, tuple(range(len(values))))


def test_steps_have_names_and_do_what_they_say() -> None:
    raw = estimate(0.7, -0.1, 0.6, -0.4)
    assert postprocess.clip(raw).values.tolist() == [0.7, 0.0, 0.6, 0.0]
    np.testing.assert_allclose(postprocess.apply(raw, ["clip", "normalise"]).values, [7 / 13, 0, 6 / 13, 0])
    np.testing.assert_allclose(postprocess.norm_sub(raw).values, [0.55, 0.0, 0.45, 0.0])
    assert postprocess.apply(raw, ["clip", "normalise"]).steps == ("clip", "normalise")
    with pytest.raises(BadInput, match="unknown"):
        postprocess.apply(raw, ["smooth"])
    with pytest.raises(BadInput, match="no intervals"):
        postprocess.clip(raw).interval()
    with pytest.raises(BadInput, match="cannot be normalised"):
        postprocess.normalise(estimate(-0.5, 0.1))


def test_the_simplex_projection_is_the_nearest_point_and_norm_sub_finds_it_too() -> None:
    from scipy.optimize import minimize

    rng = np.random.default_rng(5)
    for _ in range(5):
        raw = estimate(*rng.normal(0.1, 0.4, size=8))
        found = postprocess.simplex(raw).values
        start = np.full(8, 1 / 8)
        best = minimize(
            lambda x, raw=raw: float(np.square(x - raw.values).sum()),
            start,
            bounds=[(0, 1)] * 8,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(found, best.x, atol=1e-5)
        np.testing.assert_allclose(postprocess.norm_sub(raw).values, found, atol=1e-12)


def test_intervals_are_normal_and_may_hold_together() -> None:
    raw = estimate(0.5, 0.5)
    one, both = raw.interval(0.95), raw.interval(0.95, simultaneous=True)
    assert one.upper[0] - 0.5 == pytest.approx(0.1959964)
    assert both.upper[0] - 0.5 == pytest.approx(0.2241403)  # the normal quantile at 1 - 0.025/2
    assert one.hold([0.6, 0.8]).tolist() == [True, False]
    assert raw.named(["a", "b"]).of("b") == 0.5
    with pytest.raises(BadInput, match="2 values"):
        _ = raw.value
    with pytest.raises(BadInput, match="no estimate of 'z'"):
        raw.named(["a", "b"]).of("z")
    with pytest.raises(BadInput, match="confidence"):
        raw.interval(1.0)


def test_labels_have_codes() -> None:
    colours = Labelled(["red", "green"])
    assert colours.codes(["green", "red", "green"]).tolist() == [1, 0, 1]
    with pytest.raises(BadInput, match="'blue', label 1"):
        colours.codes(["red", "blue"])
    with pytest.raises(BadInput, match="twice"):
        Labelled(["red", "red"])


# ------------------------------------------------------------------------------------------- choosing, composing


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("size", [2, 4, 16, 64, 1000])
def test_the_chosen_oracle_has_the_least_variance(size: int, epsilon: float) -> None:
    chosen = choose(size, epsilon)
    kinds: list[Any] = [GRR, SUE, OUE, OLH, Hadamard, SubsetSelection]
    least = min(float(kind(size, epsilon).variance(1)) for kind in kinds)
    assert float(chosen.variance(1)) <= least * (1 + 1e-6)
    if size == 2:
        assert chosen.name == "grr"
    assert choose(size, epsilon, report_bits=12).report_bits <= 12
    with pytest.raises(BadInput, match="no oracle"):
        choose(1000, epsilon, report_bits=3)


def two_attributes(kind: Any, epsilon: float = 1.0) -> Any:
    return kind(epsilon, {"sex": partial(GRR, 2), "age": partial(SR, 17.0, 90.0)})


def test_the_variance_of_several_means_is_exact() -> None:
    """Three users, two attributes: by enumerating who draws which and every report of SR. And simulated, for many.

    2,000 collections give a variance with a relative standard error of 3.2 %; within 6 of them.
    """
    makers: dict[str, Any] = {"a": partial(SR, -1.0, 1.0), "b": partial(PM, 0.0, 10.0)}
    held = {"a": np.array([-0.5, 0.25, 1.0]), "b": np.array([1.0, 7.0, 9.0])}
    sampled, split = SMP(1.0, makers), SPL(1.0, makers)
    for several, sure in ((sampled, False), (split, True)):
        reach = several.oracles["a"].reach  # type: ignore[attr-defined]
        up = (1 + held["a"] / reach) / 2  # a report is ±reach, and right on average
        total = first = second = 0.0
        for drew in itertools.product((True,) if sure else (False, True), repeat=3):
            if not any(drew):
                continue
            for signs in itertools.product((-1, 1), repeat=3):
                mass = math.prod(u if sign == 1 else 1 - u for u, sign in zip(up, signs, strict=True))
                mean = np.mean([reach * sign for sign, mine in zip(signs, drew, strict=True) if mine])
                total, first, second = total + mass, first + mass * mean, second + mass * mean**2
        first, second = first / total, second / total
        assert first == pytest.approx(held["a"].mean())
        assert several.mean_variances(held)["a"] == pytest.approx(second - first**2, rel=1e-9)
    rng = np.random.default_rng(5)
    many = {"a": rng.uniform(-1, 1, 60), "b": rng.uniform(0, 10, 60)}
    for several in (sampled, split):
        runs = [several.estimate(several.aggregate(several.perturb(many, rng))) for _ in range(2000)]
        for name, variance in several.mean_variances(many).items():
            assert np.var([run[name].values[0] for run in runs]) == pytest.approx(variance, rel=0.19)


@pytest.mark.parametrize("kind", [SMP, SPL])
def test_several_attributes_keep_one_budget(kind: Any) -> None:
    for epsilon in (0.2, 1.0, 3.0):
        worst = exact.worst(two_attributes(kind, epsilon).mechanism())
        assert epsilon - 1e-9 <= worst.epsilon <= epsilon


@pytest.mark.parametrize("kind", [SMP, SPL])
def test_several_attributes_are_estimated_without_bias(kind: Any) -> None:
    """200 collections of 1000: each mean within 5 standard errors, 6e-7."""
    rng, both = np.random.default_rng(6), two_attributes(kind, 2.0)
    sexes, ages = rng.choice(2, size=1000, p=[0.3, 0.7]), rng.uniform(17, 90, size=1000)
    runs = [both.estimate(both.aggregate(both.perturb({"sex": sexes, "age": ages}, rng))) for _ in range(200)]
    for name, truth in (("sex", sexes.mean()), ("age", ages.mean())):
        found = np.array([run[name].values[-1] for run in runs])
        assert abs(found.mean() - truth) < 5 * found.std(ddof=1) / math.sqrt(200)
    assert runs[0]["sex"].users == (1000 if kind is SPL else pytest.approx(500, abs=100))
    with pytest.raises(BadInput, match="no values of age"):
        both.perturb({"sex": sexes}, rng)
    with pytest.raises(BadInput, match="different lengths"):
        both.perturb({"sex": sexes, "age": ages[:5]}, rng)


def test_sampling_one_attribute_beats_splitting_for_many() -> None:
    """With k attributes, variance k/n at ε against 1/n at ε/k: SMP is the better one, and the estimators show it."""
    makers = {str(number): partial(OUE, 10) for number in range(5)}
    sampled, split = SMP(1.0, makers), SPL(1.0, makers)
    assert sampled.oracles["0"].epsilon == 1.0
    assert split.oracles["0"].epsilon == pytest.approx(0.2)
    assert sampled.oracles["0"].variance(200) < split.oracles["0"].variance(1000)  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------------- RAPPOR


def test_a_device_reports_on_what_it_remembers() -> None:
    """All reports of a device on one value come from one permanent response: the bits that are mostly 1 are its set
    bits. A majority of 4000 at rates 0.75 and 0.25 is wrong with probability below 1e-200."""
    oracle = RAPPOR(("a", "b", "c"), 2.0, bits=24, cohorts=2)
    device = RapporDevice(oracle, np.random.default_rng(7))
    reports = np.concatenate([device.report(1) for _ in range(4000)])
    assert len(set(reports["cohort"].tolist())) == 1
    often = unpacked(np.ascontiguousarray(reports["bits"]), 24).mean(axis=0)
    assert np.all(np.minimum(np.abs(often - 0.75), np.abs(often - 0.25)) < 0.05)
    other = unpacked(np.ascontiguousarray(np.concatenate([device.report(2) for _ in range(4000)])["bits"]), 24)
    assert not np.array_equal(other.mean(axis=0) > 0.5, often > 0.5)


def test_what_rappor_cannot_do_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot be distinguished"):
        RAPPOR(tuple(str(n) for n in range(20)), 2.0, bits=8, cohorts=1).variance(10)
    with pytest.raises(BadInput, match="must be below"):
        RAPPOR(("a", "b"), 2.0, set_rate=0.2, clear_rate=0.3)
    with pytest.raises(BadInput, match="candidates"):
        RAPPOR(("a", "a"), 2.0)


# ------------------------------------------------------------------------------- mean and variance; keys and values


@pytest.mark.parametrize("kind", [SR, PM])
def test_mean_and_variance_together(kind: Any) -> None:
    """One collection of 400,000: both within 5 standard errors, 6e-7 each; and ε by the exact engine."""
    values = np.random.default_rng(8).normal(40, 10, size=400_000).clip(17, 90)
    moments = Moments(kind, 17.0, 90.0, 2.0)
    found = moments.estimate(moments.aggregate(moments.perturb(values, np.random.default_rng(9))))
    assert found.names == ("mean", "variance")
    for value, error, truth in zip(found.values, found.standard_errors, (values.mean(), values.var()), strict=True):
        assert abs(value - truth) < 5 * error
        assert error < 0.1 * truth
    assert 2.0 - 1e-9 <= exact.worst(moments.mechanism()).epsilon <= 2.0


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_keys_and_values_cost_what_they_say(epsilon: float) -> None:
    oracle = KeyValue(3, epsilon)
    assert oracle.b == pytest.approx(2 / (math.exp(epsilon) + 3), rel=1e-9)
    assert epsilon - 1e-9 <= exact.worst(oracle.mechanism(), seconds=60).epsilon <= epsilon


def test_keys_and_values_are_estimated() -> None:
    """300,000 users: frequencies within 5 standard errors; means of frequent keys within 0.1, which is 4 of them."""
    rng = np.random.default_rng(10)
    share = np.array([0.1, 0.2, 0.33, 0.37])
    keys, oracle = rng.choice(4, size=300_000, p=share), KeyValue(4, 2.0)
    values = np.where(keys == 2, 0.5, -0.25)
    counts = oracle.aggregate(oracle.perturb(keys, values, rng))
    frequencies, means = oracle.frequencies(counts), oracle.means(counts)
    truth = np.bincount(keys, minlength=4) / len(keys)
    assert np.all(np.abs(frequencies.values - truth) < 5 * frequencies.standard_errors)
    assert means.of(2) == pytest.approx(0.5, abs=0.1)
    assert means.of(3) == pytest.approx(-0.25, abs=0.1)


def test_counts_of_others_and_of_nobody_tell_nothing_of_keys() -> None:
    oracle = KeyValue(3, 1.0)
    nobody = oracle.aggregate(np.zeros((0, 3), dtype=np.int8))
    with pytest.raises(BadInput, match="no reports to estimate from"):
        oracle.frequencies(nobody)
    with pytest.raises(BadInput, match="these are counts of"):
        oracle.means(KeyValue(3, 2.0).aggregate([[1, 0, -1]]))  # type: ignore[arg-type]
