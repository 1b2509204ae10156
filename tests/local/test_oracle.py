"""What holds for every oracle: one suite of laws, run on each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import veridp
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
    Counts,
    FrequencyOracle,
    Hadamard,
    KeyValue,
    LaplaceMean,
    MeanOracle,
    Moments,
    Oracle,
    SubsetSelection,
)
from veridp.local.plan import column_names, from_columns, template, to_columns
from veridp.verdict import Standing
from veridp_check.checker import check

Maker = Callable[[float], Oracle]
LOW, HIGH = 17.0, 90.0
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
FREQUENCY: dict[str, Maker] = {
    "grr": lambda epsilon: GRR(6, epsilon),
    "sue": lambda epsilon: SUE(6, epsilon),
    "oue": lambda epsilon: OUE(6, epsilon),
    "oue on 70 values": lambda epsilon: OUE(70, epsilon),  # more than a word of bits
    "olh": lambda epsilon: OLH(6, epsilon),
    "hadamard": lambda epsilon: Hadamard(6, epsilon),
    "subset": lambda epsilon: SubsetSelection(6, epsilon),
    "subset of 3": lambda epsilon: SubsetSelection(6, epsilon, 3),
    "rappor": lambda epsilon: RAPPOR(WORDS, 4 * epsilon, bits=16, cohorts=3),
}
MEAN: dict[str, Maker] = {
    "sr": lambda epsilon: SR(LOW, HIGH, epsilon),
    "pm": lambda epsilon: PM(LOW, HIGH, epsilon),
    "pm on 64 points": lambda epsilon: PM(LOW, HIGH, epsilon, 64),
    "hm": lambda epsilon: HM(LOW, HIGH, epsilon),
    "laplace": lambda epsilon: LaplaceMean(LOW, HIGH, epsilon),
}
BINNED: dict[str, Maker] = {"binned": lambda epsilon: BinnedGRR(LOW, HIGH, 5, epsilon)}
ALL = FREQUENCY | MEAN | BINNED


def people(oracle: Oracle, count: int, seed: int = 7) -> Any:
    rng = np.random.default_rng(seed)
    if isinstance(oracle, FrequencyOracle):
        weights = np.arange(1, oracle.size + 1, dtype=float) ** 2
        return rng.choice(oracle.size, size=count, p=weights / weights.sum())
    return rng.normal(40, 12, size=count).clip(LOW, HIGH)


@pytest.mark.parametrize("epsilon", [0.5, 2.5])
@pytest.mark.parametrize("name", FREQUENCY)
def test_frequencies_are_unbiased_and_as_exact_as_analysis_says(name: str, epsilon: float) -> None:
    """300 collections of one population of 400. Of up to 70 values each has a z-score for its mean, which exceeds 5
    with probability 6e-7, and a variance whose ratio to theory has standard deviation 0.08 or less: 6 of these."""
    oracle = FREQUENCY[name](epsilon)
    assert isinstance(oracle, FrequencyOracle)
    values, rng, runs = people(oracle, 400), np.random.default_rng(1), 300
    truth = oracle.frequencies(values)
    found = np.array([oracle.estimate(oracle.collect(values, rng)).values for _ in range(runs)])
    variance = oracle.variance(len(values), truth)
    assert np.abs((found.mean(axis=0) - truth) / np.sqrt(variance / runs)).max() < 5
    assert np.abs(found.var(axis=0, ddof=1) / variance - 1).max() < 6 * math.sqrt(2 / runs)


@pytest.mark.parametrize("epsilon", [0.5, 2.5])
@pytest.mark.parametrize("name", MEAN | BINNED)
def test_means_are_unbiased_and_as_exact_as_analysis_says(name: str, epsilon: float) -> None:
    """1000 collections of one population of 300: the mean is within 5 standard errors (6e-7), the variance within 6
    standard deviations of a χ² (its ratio to theory has 0.045; heavy Laplace tails add to that, as allowed for)."""
    oracle = (MEAN | BINNED)[name](epsilon)
    assert isinstance(oracle, MeanOracle | BinnedGRR)
    values, rng, runs = people(oracle, 300), np.random.default_rng(2), 1000
    found = np.array([oracle.mean(oracle.collect(values, rng)).value for _ in range(runs)])
    variance = (
        oracle.mean_variance(len(values), values)
        if isinstance(oracle, BinnedGRR)
        else oracle.variance(len(values), values)
    )
    assert abs(found.mean() - values.mean()) < 5 * math.sqrt(variance / runs)
    assert abs(found.var(ddof=1) / variance - 1) < 6 * math.sqrt(2 / runs) * 1.2


@pytest.mark.parametrize("name", ALL)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    """200 collections at 90 %: a binomial of mean 180 or more and deviation 4.2; below 155 has probability 1e-8. For
    means the standard error also counts sampling, so that intervals are wider than this truth needs."""
    oracle = ALL[name](1.0)
    values, rng = people(oracle, 2000), np.random.default_rng(3)
    held = 0
    for _ in range(200):
        counts = oracle.collect(values, rng)
        if isinstance(oracle, FrequencyOracle):
            held += bool(oracle.estimate(counts).interval(0.9).hold(oracle.frequencies(values))[-1])
        elif isinstance(oracle, MeanOracle | BinnedGRR):
            held += bool(oracle.mean(counts).interval(0.9).hold(values.mean())[0])
    assert 155 <= held <= 200


@pytest.mark.parametrize("name", ALL)
def test_partial_sums_add_up(name: str) -> None:
    oracle = ALL[name](1.0)
    reports = oracle.perturb(people(oracle, 1000), np.random.default_rng(4))
    whole = oracle.aggregate(reports)
    parts = [oracle.aggregate(part) for part in (reports[:100], reports[100:100], reports[100:700], reports[700:])]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    assert (total.of, total.users) == (whole.of, 1000)
    np.testing.assert_allclose(total.sums, whole.sums, rtol=1e-12)
    assert Counts.from_json(whole.as_json()) == whole


@pytest.mark.parametrize("name", ALL)
def test_what_is_drawn_depends_on_the_generator_alone(name: str) -> None:
    oracle = ALL[name](1.0)
    values = people(oracle, 500)
    first, again, other = (oracle.perturb(values, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", ALL)
def test_chunks_make_no_difference_to_what_is_estimated(name: str) -> None:
    """The same values in chunks of 300: other draws, the same expectation. 6 standard errors each side: 2e-9."""
    oracle = ALL[name](1.0)
    values = people(oracle, 3000)
    one, many = (oracle.collect(values, np.random.default_rng(8), chunk=chunk) for chunk in (3000, 300))
    assert one.users == many.users == 3000
    difference = oracle.estimate(one).values - oracle.estimate(many).values
    assert np.all(np.abs(difference) < 6 * math.sqrt(2) * oracle.estimate(one).standard_errors + 1e-12)


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_reports_survive_columns(name: str, as_text: bool) -> None:
    oracle = ALL[name](1.0)
    reports = oracle.perturb(people(oracle, 50), np.random.default_rng(9))
    like = template(oracle)
    columns: dict[str, Any] = dict(to_columns(reports))
    assert list(columns) == column_names(like)
    if as_text:
        columns = {
            key: [entry.hex() if isinstance(entry, bytes) else str(entry) for entry in list(column)]
            for key, column in columns.items()
        }
    again, faults = from_columns(like, columns)
    assert faults == {}
    assert again.dtype == reports.dtype
    assert np.array_equal(again, reports)


@pytest.mark.parametrize("name", ALL)
def test_what_it_cannot_take_is_refused(name: str) -> None:
    oracle, rng = ALL[name](1.0), np.random.default_rng(0)
    wrong: list[Any] = [1, 2, 99999]
    with pytest.raises(BadInput, match="user 2"):
        oracle.perturb(wrong if isinstance(oracle, FrequencyOracle) else [20.0, 30.0, -1.0], rng)
    with pytest.raises(BadInput, match="not of"):
        oracle.estimate(Counts("something else", 3, np.zeros(3)))
    with pytest.raises(BadInput, match="no reports to estimate from"):
        oracle.estimate(oracle.aggregate(template(oracle)))
    with pytest.raises(BadInput, match="no values"):
        oracle.collect([], rng)
    with pytest.raises(BadInput, match="cannot be added"):
        _ = oracle.aggregate(template(oracle)) + Counts("something else", 0, np.zeros(3))
    with pytest.raises(BadInput, match="epsilon"):
        ALL[name](0.0)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: GRR("many", 1.0), "size must be an integer from 2 to .*, got 'many'"),  # type: ignore[arg-type]
        (lambda: GRR(3.5, 1.0), "size must be an integer from 2 to .*, got 3.5"),  # type: ignore[arg-type]
        (lambda: GRR(3, "1"), "epsilon must be in .*, got '1'"),  # type: ignore[arg-type]
        (lambda: OUE(3, None), "epsilon must be in .*, got None"),  # type: ignore[arg-type]
        (lambda: SR("low", 1.0, 1.0), "got 'low' and 1.0"),  # type: ignore[arg-type]
        (lambda: SR(0.0, math.inf, 1.0), "low and high must be finite numbers"),
        (lambda: HM(0.0, 1.0, 1.0, levels=2), "levels must be from 4 to"),
        (lambda: LaplaceMean(0.0, 1.0, 1e-12), "1e-8 or more"),
        (lambda: RAPPOR("ab", 1.0), "one string"),  # type: ignore[arg-type]
        (lambda: RAPPOR(("a", "b"), 1.0, cohorts=70_000), "65536 cohorts"),
    ],
)
def test_oracles_that_cannot_be_made_say_why(make: Callable[[], Oracle], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        make()


@pytest.mark.parametrize("name", ALL)
def test_nobody_has_no_reports_and_a_list_is_no_batch_of_them(name: str) -> None:
    oracle = ALL[name](1.0)
    assert oracle.aggregate(oracle.perturb([], np.random.default_rng(0))).users == 0
    with pytest.raises(BadInput):
        oracle.aggregate(["nonsense"])  # type: ignore[arg-type]
    if not isinstance(oracle, FrequencyOracle):
        with pytest.raises(BadInput, match="not numbers"):
            oracle.perturb(["nonsense"], np.random.default_rng(0))


@pytest.mark.parametrize("levels", [15, 16])
def test_pm_takes_points_of_its_grid_alone(levels: int) -> None:
    oracle = PM(LOW, HIGH, 1.0, levels)
    points = np.arange(1 - levels, levels, 2)
    assert oracle.aggregate(points).users == levels
    for wrong in (points + 1, points + 0.5, np.array([levels + 1])):
        with pytest.raises(BadInput, match="points of its grid"):
            oracle.aggregate(wrong[:1])


# ------------------------------------------------------------------------------------------------------- privacy

EPSILONS = (0.01, math.log(3), 10.0)
SMALL: dict[str, Maker] = ALL | {
    "oue on 70 values": lambda epsilon: OUE(4, epsilon),
    "subset": lambda epsilon: SubsetSelection(5, epsilon),
    "subset of 3": lambda epsilon: SubsetSelection(5, epsilon, 3),
    "rappor": lambda epsilon: RAPPOR(("alpha", "beta"), epsilon, bits=32, cohorts=1),
    "olh": lambda epsilon: OLH(4, epsilon, buckets=3),
}


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", SMALL)
def test_the_exact_loss_is_the_claim_and_never_above(name: str, epsilon: float) -> None:
    oracle = SMALL[name](epsilon)
    mechanism = oracle.mechanism()
    assert mechanism.claim is not None
    assert mechanism.claim.epsilon == oracle.epsilon == epsilon
    worst = exact.worst(mechanism, seconds=60)
    assert worst.finished
    assert epsilon - 1e-9 <= worst.epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("name", ["grr", "sue", "oue", "hadamard", "subset of 3", "sr", "binned"])
def test_reports_are_drawn_from_the_law_that_is_certified(name: str, epsilon: float) -> None:
    """The vectorised code against the plain function: 200,000 reports on one value against the exact probability of
    each output. Each count is within 5.5 standard deviations but with probability 4e-8; there are some hundred."""
    oracle = SMALL[name](epsilon)
    value: Any = 1 if isinstance(oracle, FrequencyOracle) else 35.0
    count = 200_000
    reports = oracle.perturb(np.full(count, value), np.random.default_rng(11))
    law = exact.law(oracle.mechanism(), value)
    for output, seen in _outputs(oracle, reports):
        expected = law.probability(output)
        assert abs(seen / count - expected) < 5.5 * math.sqrt(expected * (1 - expected) / count)


def _outputs(oracle: Oracle, reports: Any) -> Any:
    """Outputs of the plain function, each with how many reports stand for it."""
    if isinstance(oracle, SUE | OUE | SubsetSelection):
        support = oracle.support(reports)
        if isinstance(oracle, SubsetSelection):
            sets = itertools.combinations(range(oracle.size), oracle.count)
            for chosen in sets:
                row = np.isin(np.arange(oracle.size), chosen)
                yield list(chosen), int((support == row).all(axis=1).sum())
        else:
            for bits in itertools.product((False, True), repeat=oracle.size):
                yield list(bits), int((support == bits).all(axis=1).sum())
        return
    for output in np.unique(reports).tolist():
        yield output, int((reports == output).sum())


def test_both_rates_of_every_bit_of_rappor_are_drawn() -> None:
    """100,000 reports of one value: every bit within 5.5 standard deviations, 4e-8 each, of 3 · 32 bits."""
    oracle, count = RAPPOR(("alpha", "beta", "gamma"), 4.0, bits=32, cohorts=3), 100_000
    reports = oracle.perturb(np.ones(count, dtype=int), np.random.default_rng(12))
    sums = oracle.aggregate(reports).sums
    set_rate, clear_rate = oracle.rates
    expected = np.where(oracle.filters[:, 1], set_rate, clear_rate)
    users = sums[:, -1:]
    assert np.all(np.abs(sums[:, :-1] / users - expected) < 5.5 * np.sqrt(expected * (1 - expected) / users))


@pytest.mark.parametrize("kind", [PM, HM])
def test_piecewise_reports_follow_the_density_that_is_certified(kind: Any) -> None:
    """100,000 reports of one value in 20 equal cells of the range, against the exact probability of each cell."""
    oracle, count = kind(LOW, HIGH, 1.5), 100_000
    reports = oracle.perturb(np.full(count, 35.0), np.random.default_rng(13))
    pm = PM(LOW, HIGH, 1.5)
    if kind is HM:
        share = (~reports["rounded"]).mean()
        assert abs(share - oracle.piecewise) < 5 * math.sqrt(0.25 / count)
        reports = reports["number"][~reports["rounded"]]
    places = (reports / pm.levels + 1) / 2
    window = pm.window / pm.levels
    start = (35.0 - LOW) / (HIGH - LOW) * (1 - window)
    edges = np.linspace(0, 1, 21)
    inside = np.clip(np.minimum(edges[1:], start + window) - np.maximum(edges[:-1], start), 0, None)
    expected = (1 - pm.lie) * inside / window + pm.lie * (0.05 - inside) / (1 - window)
    seen = np.histogram(places, edges)[0] / len(places)
    assert np.all(np.abs(seen - expected) < 5.5 * np.sqrt(expected / len(places)))
    density = exact.law(pm.mechanism(), 35.0).density(start + window / 2)
    assert density == pytest.approx((1 - pm.lie) / window, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_the_grid_of_pm_keeps_epsilon_too(epsilon: float) -> None:
    for levels in (8, 15, 16):
        worst = exact.worst(PM(LOW, HIGH, epsilon, levels).grid_mechanism(), seconds=60)
        assert worst.finished
        assert epsilon - 1e-9 <= worst.epsilon <= epsilon


def test_the_instantaneous_response_costs_less_and_what_it_says() -> None:
    oracle = RAPPOR(("alpha", "beta"), 4.0, bits=32, cohorts=1, set_rate=0.55, clear_rate=0.45)
    worst = exact.worst(oracle.report_mechanism(), seconds=60)
    assert worst.epsilon <= oracle.report_epsilon < worst.epsilon + 1e-9
    assert oracle.report_epsilon < 0.5
    high, low = oracle.rates
    assert oracle.report_epsilon == pytest.approx(2 * math.log(high * (1 - low) / (low * (1 - high))), abs=1e-9)


def test_huge_budgets_are_kept_as_well() -> None:
    """Beyond ε = 36 no multiple of 2^-53 is small enough to attain ε; the loss stays below."""
    for epsilon in (20.0, 40.0, 100.0):
        assert exact.worst(GRR(3, epsilon).mechanism()).epsilon <= epsilon
    with pytest.raises(BadInput, match="got 501"):
        GRR(3, 501.0)


PROVABLE: dict[str, Callable[[float], Any]] = {
    "grr": lambda epsilon: GRR(5, epsilon).mechanism(),
    "sue": lambda epsilon: SUE(4, epsilon).mechanism(),
    "oue": lambda epsilon: OUE(4, epsilon).mechanism(),
    "olh": lambda epsilon: OLH(4, epsilon, buckets=3).mechanism(seeds=range(3)),
    "hadamard": lambda epsilon: Hadamard(5, epsilon).mechanism(),
    "subset": lambda epsilon: SubsetSelection(4, epsilon, 2).mechanism(),
    "rappor": lambda epsilon: RAPPOR(("a", "b"), epsilon, bits=8, hashes=1, cohorts=1).mechanism(),
    "some values": lambda epsilon: SR(LOW, HIGH, epsilon).mechanism([LOW, 40.0, HIGH]),
    "smp": lambda epsilon: SMP(epsilon, {"a": partial(GRR, 3), "b": partial(PM, 0.0, 1.0)}).mechanism(),
    "spl": lambda epsilon: SPL(epsilon, {"a": partial(GRR, 3), "b": partial(SR, 0.0, 1.0)}).mechanism(),
    "moments": lambda epsilon: Moments(PM, LOW, HIGH, epsilon).mechanism(),
    "keyvalue": lambda epsilon: KeyValue(2, epsilon).mechanism(),
}
ON_A_RANGE: dict[str, Callable[[float], Any]] = {
    "sr": lambda epsilon: SR(LOW, HIGH, epsilon).mechanism(),
    "pm": lambda epsilon: PM(LOW, HIGH, epsilon).mechanism(),
    "pm on a grid": lambda epsilon: PM(LOW, HIGH, epsilon, 8).grid_mechanism(),
    "hm": lambda epsilon: HM(LOW, HIGH, epsilon).mechanism(),
    "hm on a grid": lambda epsilon: HM(LOW, HIGH, epsilon, 8).grid_mechanism(),
    "laplace": lambda epsilon: LaplaceMean(LOW, HIGH, epsilon).mechanism(),
    "binned": lambda epsilon: BinnedGRR(LOW, HIGH, 4, epsilon).mechanism(),
    "nearest": lambda epsilon: BinnedGRR(LOW, HIGH, 4, epsilon, "nearest").mechanism(),
}


@pytest.mark.parametrize("name", PROVABLE | ON_A_RANGE)
def test_it_is_proved_by_a_certificate_that_holds(name: str) -> None:
    """For all pairs of a list of values, or of all numbers of the range."""
    proof = veridp.prove((PROVABLE | ON_A_RANGE)[name](1.0))
    assert 1.0 - 1e-9 <= proof.epsilon <= 1.0
    assert proof.restriction.endswith("numbers from 17 to 90" if name in ON_A_RANGE else "data of its domain")
    checked = check(proof.certificate)
    assert checked.rejection is None


@pytest.mark.parametrize("epsilon", [0.1, 0.6, 0.62, 4.0])
@pytest.mark.parametrize("name", ON_A_RANGE)
def test_it_is_proved_for_budgets_small_and_large(name: str, epsilon: float) -> None:
    """HM mixes from ε = 0.61 on."""
    assert epsilon - 1e-9 <= veridp.prove(ON_A_RANGE[name](epsilon)).epsilon <= epsilon


@pytest.mark.parametrize("name", ["sr", "pm", "hm", "laplace", "binned"])
def test_an_audit_says_that_it_is_proved_and_tight(name: str) -> None:
    verdict = veridp.audit(ON_A_RANGE[name](1.0), seconds=600)
    assert verdict.standing is Standing.PROVED
    assert verdict.epsilon.lower == pytest.approx(1.0, rel=1e-3)
    assert 1.0 - 1e-9 <= verdict.epsilon.upper <= 1.0
