"""Composition by convolution: against all outputs written out, closed forms, and dp-accounting."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom

from veridp.accounting import Leaf, Repeated, Sequential, Subsampled, account
from veridp.accounting.domination import AddedToSample, RemovedFromSample
from veridp.accounting.lattice import Composition, Part
from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair
from veridp.conversions import gaussian_delta
from veridp.errors import BadInput

DELTA = 1e-5


@st.composite
def finite_pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    size = draw(st.integers(2, 3))
    rows = [np.array(draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)), dtype=float) for _ in range(2)]
    return rows[0] / rows[0].sum(), rows[1] / rows[1].sum()


@settings(max_examples=25, deadline=None)
@given(finite_pairs(), finite_pairs(), st.integers(1, 3), st.integers(0, 3), st.floats(0.0, 1.5))
def test_finite_mechanisms_against_brute_force(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], k: int, m: int, epsilon: float
) -> None:
    """Every output of k runs of one mechanism and m of another, one by one."""
    brute = 0.0
    for places in itertools.product(*[range(len(first[0]))] * k, *[range(len(second[0]))] * m):
        laws = [first] * k + [second] * m
        p = math.prod(law[0][place] for law, place in zip(laws, places, strict=True))
        q = math.prod(law[1][place] for law, place in zip(laws, places, strict=True))
        brute += max(0.0, p - math.exp(epsilon) * q)
    composition = Composition([Part(Finite.of(*first), k), Part(Finite.of(*second), m)])
    assert composition.exact
    assert composition.delta(epsilon) == pytest.approx(brute, abs=1e-11)


@pytest.mark.parametrize("step", [None, 1e-3])
def test_at_the_claimed_delta_a_composition_costs_the_sum_of_the_claims(step: float | None) -> None:
    """The mass of infinite losses is 1 - (1 - δ)^k: there, ε is the sum of the largest finite losses."""
    claimed = Part(Finite.claimed(0.25, 1e-4), 3)
    leak = -math.expm1(3 * math.log1p(-1e-4))
    for parts, epsilon in (
        ([claimed], 0.75),
        ([claimed, Part(LaplacePair(0.1), 2)], 0.95),
        ([claimed, Part(GaussianPair(0.1))], math.inf),
    ):
        composition = Composition(parts, step)
        assert composition.epsilon(leak) == pytest.approx(epsilon, rel=1e-12)
        assert composition.epsilon(leak * (1 - 1e-9)) == math.inf
        assert composition.epsilon(leak * (1 + 1e-3)) <= epsilon
    assert account(Leaf.claimed(0.25, 1e-4), 1e-4, step=step)["privacy loss distribution"].epsilon == 0.25


@pytest.mark.parametrize("k", [1, 7, 100, 10_000])
def test_randomised_response_against_the_binomial_distribution(k: int) -> None:
    """k answers give j lies with a binomial probability, and a loss of (k - 2j) ε."""
    each = 0.02
    lies = np.arange(k + 1)
    losses, masses = (k - 2 * lies) * each, binom.pmf(lies, k, 1 / (1 + math.exp(each)))
    composition = Composition([Part(Finite.claimed(each), k)])
    assert composition.exact
    for epsilon in (0.0, each * math.sqrt(k), 2 * each * math.sqrt(k)):
        expected = float(np.sum(masses * -np.expm1(np.minimum(epsilon - losses, 0.0))))
        assert composition.delta(epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-30, 1e-100])
@pytest.mark.parametrize("k", [1, 50, 10_000])
def test_normal_noise_composes_to_normal_noise(k: int, delta: float) -> None:
    """k answers with normal noise are one with noise √k times less: a closed form for any δ, however small."""
    ratio = 0.5 / math.sqrt(k)
    composition = Composition([Part(GaussianPair(ratio), k)])
    epsilon = composition.epsilon(delta)
    assert composition.exact
    assert gaussian_delta(epsilon, 0.5) <= delta * (1 + 1e-9)
    assert gaussian_delta(epsilon * (1 - 1e-9), 0.5) >= delta
    on_a_lattice = Composition([Part(GaussianPair(ratio), k)], ratio / 100).epsilon(delta)
    assert epsilon <= on_a_lattice <= epsilon * (1 + 1e-4)


def test_delta_far_out_in_the_tail_against_fifty_digits() -> None:
    """A thousand randomised responses at an ε near the largest loss, summed with fifty digits."""
    mp.dps = 50
    k, each, epsilon = 1000, 0.1, 60.0
    high = 1 / (1 + mp.exp(-mpf(each)))
    expected = mpf(0)
    for lies in range(k + 1):
        loss = (k - 2 * lies) * mpf(each)
        if loss > epsilon:
            expected += mp.binomial(k, lies) * high ** (k - lies) * (1 - high) ** lies * (1 - mp.exp(epsilon - loss))
    assert Composition([Part(Finite.claimed(each), k)]).delta(epsilon) == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("pair", [Finite.claimed(0.9), LaplacePair(0.9), RemovedFromSample(LaplacePair(0.9), 0.3)])
def test_the_largest_loss_stays_on_the_lattice(pair: DominatingPair) -> None:
    """Whatever the step, and however it rounds: a loss that is finite is never counted as infinite."""
    for parts in range(1, 200):
        composition = Composition([Part(pair, 3)], pair.span.high / parts)
        assert composition.infinite == 0.0
        assert composition.epsilon(0.0) == pytest.approx(3 * pair.span.high)


def test_a_finer_lattice_gives_no_more() -> None:
    parts = [Part(LaplacePair(0.3), 20), Part(RemovedFromSample(GaussianPair(1.0), 0.1), 5)]
    coarse, middle, fine = (Composition(parts, step).epsilon(DELTA) for step in (1e-2, 1e-3, 1e-4))
    assert fine <= middle + 1e-12 <= coarse + 2e-12
    assert coarse - middle > middle - fine  # and ever less is won


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(1, 60)), min_size=1, max_size=3),
    st.sampled_from([1e-3, 1e-6]),
)
def test_simple_bounds_are_never_below_the_tight_one(parts: list[tuple[float, int]], delta: float) -> None:
    for make in (Leaf.claimed, Leaf.laplace):
        release = Sequential([Repeated(count, make(epsilon)) for epsilon, count in parts])
        found = account(release, delta, second_opinion=False)
        tight = found["privacy loss distribution"].epsilon
        for method in ("basic", "advanced", "zCDP", "RDP"):
            assert found[method].epsilon >= tight - 1e-9 * (1 + tight)
        assert found["basic"].epsilon == pytest.approx(sum(e * k for e, k in parts))


def test_basic_composition_is_never_below_the_exact_loss() -> None:
    release = Sequential([Leaf.claimed(0.3), Repeated(4, Leaf.claimed(0.2))])
    exact = Composition([Part(Finite.claimed(0.3)), Part(Finite.claimed(0.2), 4)])
    assert account(release, 0.0)["basic"].epsilon == pytest.approx(1.1)
    assert exact.epsilon(0.0) == pytest.approx(1.1)
    assert exact.epsilon(1e-3) < 1.1


# --------------------------------------------------------------------------------------------- dp-accounting

STEP = 1e-4
NOISE = 3 / (math.exp(0.02) + 2)


def _power_of_two_of_its_loss() -> float:
    """A step on which the losses of randomised response lie to the last bit: dp-accounting rounds others up by one."""
    return (math.log(1 - NOISE * 2 / 3) - math.log(NOISE / 3)) / 256


def theirs(kind: str, k: int) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    made = {
        "laplace": lambda: pld.from_laplace_mechanism(50.0, value_discretization_interval=STEP),
        "gaussian": lambda: pld.from_gaussian_mechanism(80.0, value_discretization_interval=STEP),
        "randomised response": lambda: pld.from_randomized_response(
            NOISE, 3, value_discretization_interval=_power_of_two_of_its_loss()
        ),
        "subsampled gaussian": lambda: pld.from_gaussian_mechanism(
            1.0, sampling_prob=0.01, value_discretization_interval=STEP
        ),
        "subsampled laplace": lambda: pld.from_laplace_mechanism(
            2.0, sampling_prob=0.02, value_discretization_interval=STEP
        ),
    }[kind]()
    return float(made.self_compose(k).get_epsilon_for_delta(DELTA))


OURS = {
    "laplace": Leaf.laplace(scale=50.0),
    "gaussian": Leaf.gaussian(scale=80.0),
    "randomised response": Leaf.randomised_response(0.02, 3),
    "subsampled gaussian": Subsampled(0.01, Leaf.gaussian(scale=1.0)),
    "subsampled laplace": Subsampled(0.02, Leaf.laplace(scale=2.0)),
}


@pytest.mark.parametrize("k", [1, 100, 10_000])
@pytest.mark.parametrize("kind", OURS)
def test_equal_to_dp_accounting_on_the_same_lattice(kind: str, k: int) -> None:
    found = account(Repeated(k, OURS[kind]), DELTA, step=STEP, second_opinion=k == 100)
    expected = theirs(kind, k)
    assert found["privacy loss distribution"].epsilon == pytest.approx(expected, rel=1e-6)
    if k == 100:
        assert found["privacy loss distribution (dp-accounting)"].epsilon == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "subsampled gaussian"])
def test_rdp_close_to_that_of_dp_accounting(kind: str) -> None:
    """The two look at different orders, ours at more of them."""
    found = account(Repeated(500, OURS[kind]), DELTA, second_opinion=True)
    assert found["RDP"].epsilon == pytest.approx(found["RDP (dp-accounting)"].epsilon, rel=1e-3)


def test_mixed_releases_equal_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    mixed = pld.from_laplace_mechanism(20.0, value_discretization_interval=STEP).self_compose(30)
    mixed = mixed.compose(pld.from_gaussian_mechanism(30.0, value_discretization_interval=STEP).self_compose(200))
    release = Sequential([Repeated(30, Leaf.laplace(scale=20.0)), Repeated(200, Leaf.gaussian(scale=30.0))])
    found = account(release, DELTA, step=STEP)["privacy loss distribution"].epsilon
    assert found == pytest.approx(mixed.get_epsilon_for_delta(DELTA), rel=1e-6)


@pytest.mark.parametrize(
    ("leaf", "rate", "k", "limit"),
    [
        (Leaf.gaussian(scale=1.1), 0.001, 10_000, 0.40233689),
        (Leaf.gaussian(scale=1.0), 0.01, 10_000, 6.1877124),
        (Leaf.gaussian(scale=0.6), 0.04, 300, 15.2504626),
    ],
)
def test_a_lattice_of_our_own_comes_close_to_where_dp_accounting_tends(
    leaf: Leaf, rate: float, k: int, limit: float
) -> None:
    """The limits are dp-accounting's answers on two lattices, extrapolated to step 0: its error goes with step²."""
    found = account(Repeated(k, Subsampled(rate, leaf)), DELTA, second_opinion=False)["privacy loss distribution"]
    assert found.epsilon == pytest.approx(limit, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("ratio", "rate", "k"), [(1 / 300, 1.0, 10_000), (1 / 1.7, 0.003, 1000)])
def test_laplace_noise_on_a_lattice_of_our_own(ratio: float, rate: float, k: int) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    def on(step: float) -> float:
        each = pld.from_laplace_mechanism(1 / ratio, value_discretization_interval=step, sampling_prob=rate)
        return float(each.self_compose(k).get_epsilon_for_delta(DELTA))

    limit = (4 * on(5e-6) - on(1e-5)) / 3
    found = account(Repeated(k, Subsampled(rate, Leaf.laplace(ratio))), DELTA, second_opinion=False)
    assert found["privacy loss distribution"].epsilon == pytest.approx(limit, rel=1e-6)


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12])
@pytest.mark.parametrize("k", [1, 30, 10_000])
@pytest.mark.parametrize("rate", [1e-5, 0.02, 0.7])
def test_sampled_noise_of_any_size_has_an_epsilon_below_the_other_bounds(rate: float, k: int, delta: float) -> None:
    for leaf in (Leaf.gaussian(scale=0.5), Leaf.laplace(0.3)):
        found = account(Repeated(k, Subsampled(rate, leaf)), delta, second_opinion=False)
        tight = found["privacy loss distribution"].epsilon
        assert all(bound.epsilon >= tight - 1e-9 * (1 + tight) for bound in found.bounds)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1e-1, 1e-3, 1e-5, 1e-9]),
    st.floats(0.02, 2.0),
    st.floats(0.003, 1.0),
    st.sampled_from([1e-2, 1e-3, 2e-4]),
)
def test_one_mechanism_alone_is_never_understated(delta: float, ratio: float, rate: float, step: float) -> None:
    """On any lattice, ε is at least what the pair's own curve says."""
    for inner in (LaplacePair(ratio), GaussianPair(ratio)):
        for pair in (inner, RemovedFromSample(inner, rate), AddedToSample(inner, rate)):
            assert Composition([Part(pair)], step).epsilon(delta) >= pair.epsilon(delta) * (1 - 1e-7) - 1e-12


def test_steps_that_make_no_lattice_are_refused() -> None:
    with pytest.raises(BadInput, match="step must be finite"):
        Composition([Part(LaplacePair(1.0))], step=0.0)
    with pytest.raises(BadInput, match="larger step"):
        Composition([Part(LaplacePair(1.0))], step=1e-12).epsilon(DELTA)
