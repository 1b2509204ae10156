"""Pairs: their δ against closed forms, against the exact engine, and against mixtures written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from veridp.accounting.domination import AddedToSample, RemovedFromSample, SampledWithoutReplacement
from veridp.accounting.pairs import DominatingPair, Envelope, Finite, GaussianPair, LaplacePair
from veridp.engines.exact import compare
from veridp.errors import BadInput

EPSILONS = np.linspace(-1.5, 1.5, 13)


def hockey_stick(left: np.ndarray, right: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(left - math.exp(epsilon) * right, 0.0).sum())


@st.composite
def distributions(draw: st.DrawFn, size: int = 4) -> np.ndarray:
    weights = np.array(draw(st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any)), dtype=float)
    return weights / weights.sum()


def test_laplace_against_the_exact_engine() -> None:
    comparison = compare(lambda rng, x: x + rng.laplace(scale=2.0), 0.0, 1.5)
    ours = LaplacePair(0.75).delta(np.array([0.0, 0.1, 0.3, 0.7, 0.75, 0.8]))
    theirs = [comparison.delta(e) for e in (0.0, 0.1, 0.3, 0.7, 0.75, 0.8)]
    assert ours == pytest.approx(theirs, abs=1e-14)


def test_gaussian_against_its_closed_form() -> None:
    ratio = 0.6
    for epsilon in (0.0, 0.5, 2.0):
        expected = norm.cdf(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * norm.cdf(-ratio / 2 - epsilon / ratio)
        assert GaussianPair(ratio).delta(np.array([epsilon]))[0] == pytest.approx(expected, rel=1e-12)


@given(distributions(), distributions())
def test_finite_pairs_against_the_definition(left: np.ndarray, right: np.ndarray) -> None:
    pair = Finite.of(left, right)
    assert pair.delta(EPSILONS) == pytest.approx([hockey_stick(left, right, e) for e in EPSILONS], abs=1e-12)


@given(distributions(), distributions(), st.floats(0.01, 1.0))
def test_samples_against_mixtures_written_out(left: np.ndarray, right: np.ndarray, rate: float) -> None:
    pair = Finite.of(left, right)
    mixed, turned = (1 - rate) * right + rate * left, (1 - rate) * left + rate * right
    for epsilon in EPSILONS:
        at = np.array([epsilon])
        assert RemovedFromSample(pair, rate).delta(at)[0] == pytest.approx(
            hockey_stick(mixed, right, epsilon), abs=1e-9
        )
        assert AddedToSample(pair, rate).delta(at)[0] == pytest.approx(hockey_stick(left, turned, epsilon), abs=1e-9)


@pytest.mark.parametrize("pair", [LaplacePair(0.8), GaussianPair(0.5), Finite.claimed(0.5, 0.01)])
def test_symmetric_pairs_are_their_own_reverse(pair: DominatingPair) -> None:
    """H(-ε) of P against Q is 1 - e^-ε + e^-ε H(ε) of Q against P, and here the two are the same."""
    forward = pair.delta(EPSILONS)
    backward = pair.delta(-EPSILONS)
    assert backward == pytest.approx(1 - np.exp(-EPSILONS) + np.exp(-EPSILONS) * forward, abs=1e-14)


def test_a_sample_without_replacement_amplifies_as_published() -> None:
    """Balle, Barthe and Gaboardi 2018, Theorem 9: δ'(ln(1 + γ(e^ε - 1))) = γ δ(ε)."""
    pair, rate = GaussianPair(1.0), 0.2
    for epsilon in (0.0, 0.5, 1.5):
        amplified = math.log1p(rate * math.expm1(epsilon))
        found = SampledWithoutReplacement(pair, rate).delta(np.array([amplified]))[0]
        assert found == pytest.approx(rate * pair.delta(np.array([epsilon]))[0], rel=1e-10)


def test_an_envelope_is_the_largest_of_its_pairs() -> None:
    laplace, gaussian = LaplacePair(0.5), GaussianPair(0.3)
    envelope = Envelope((laplace, gaussian))
    largest = np.maximum(laplace.delta(EPSILONS), gaussian.delta(EPSILONS))
    assert envelope.delta(EPSILONS) == pytest.approx(largest, abs=1e-15)
    assert envelope.supremum == math.inf


@given(st.floats(0.0, 3.0), st.floats(0.0, 0.5))
def test_a_claim_is_kept_and_no_more(epsilon: float, delta: float) -> None:
    pair = Finite.claimed(epsilon, delta)
    assert pair.delta(np.array([epsilon]))[0] == pytest.approx(delta, abs=1e-12)
    expected = delta + (1 - delta) * math.tanh(epsilon / 2)
    assert pair.delta(np.array([0.0]))[0] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=30)
@given(distributions(), distributions(), st.integers(1, 4))
def test_powers_against_all_outputs_written_out(left: np.ndarray, right: np.ndarray, count: int) -> None:
    p, q = np.ones(1), np.ones(1)
    for _ in range(count):
        p, q = np.multiply.outer(p, left).ravel(), np.multiply.outer(q, right).ravel()
    power = Finite.of(left, right).power(count)
    assert power is not None
    assert power.delta(EPSILONS) == pytest.approx([hockey_stick(p, q, e) for e in EPSILONS], abs=1e-9)


@pytest.mark.parametrize("pair", [LaplacePair(0.5), GaussianPair(0.5), Finite.claimed(0.5, 1e-6)])
@pytest.mark.parametrize("delta", [1e-5, 1e-2, 0.4])
def test_epsilon_inverts_delta(pair: DominatingPair, delta: float) -> None:
    epsilon = pair.epsilon(delta)
    found = pair.delta(np.array([epsilon]))[0]
    assert found == pytest.approx(delta, rel=1e-6) or (epsilon == 0 and found <= delta)


CLAIMED = Finite.claimed(0.25, 1e-4)
AT_THE_LEAK: dict[str, tuple[DominatingPair, float, float]] = {
    "a claim": (CLAIMED, 1e-4, 0.25),
    "a sample loses a record": (RemovedFromSample(CLAIMED, 0.5), 0.5e-4, math.log(0.5 + 0.5 * math.exp(0.25))),
    "a sample gains a record": (AddedToSample(CLAIMED, 0.5), 0.0, math.log(2)),
    "a sample of everything": (AddedToSample(CLAIMED, 1.0), 1e-4, 0.25),
    "the larger of two": (Envelope((CLAIMED, Finite.claimed(0.1, 2e-4))), 2e-4, CLAIMED.epsilon(2e-4)),
    "normal noise": (GaussianPair(0.5), 0.0, math.inf),
}


@pytest.mark.parametrize("name", AT_THE_LEAK)
def test_at_the_mass_of_infinite_losses_the_finite_ones_decide(name: str) -> None:
    """(0.25, 1e-4)-DP has ε = 0.25 at δ = 1e-4; at any smaller δ there is no ε."""
    pair, leak, epsilon = AT_THE_LEAK[name]
    assert pair.infinite == pytest.approx(leak, rel=1e-15)
    assert pair.epsilon(leak) == pytest.approx(epsilon, rel=1e-12)
    assert not leak or pair.epsilon(leak * (1 - 1e-9)) == math.inf


def test_what_is_no_distribution_is_refused() -> None:
    with pytest.raises(BadInput, match="sum to 1"):
        Finite.of([0.5, 0.6], [0.5, 0.5])
    with pytest.raises(BadInput, match="epsilon must be finite"):
        LaplacePair(-1.0)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 2.0), st.floats(0.01, 1.0), st.floats(-1.0, 3.0))
def test_delta_at_one_epsilon_is_that_of_the_tails(ratio: float, rate: float, epsilon: float) -> None:
    """The closed forms against probabilities of losses above ε, whose difference is right to about 1e-15."""
    inner: list[DominatingPair] = [LaplacePair(ratio), GaussianPair(ratio), Finite.claimed(ratio, 0.01)]
    sampled = (RemovedFromSample, AddedToSample, SampledWithoutReplacement)
    pairs = [*inner, *(kind(pair, rate) for kind in sampled for pair in inner), Envelope(tuple(inner))]
    for pair in pairs:
        assert pair.delta_above(epsilon) == pytest.approx(float(pair.delta(np.array([epsilon]))[0]), abs=1e-13)
