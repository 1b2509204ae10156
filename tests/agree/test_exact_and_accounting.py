"""The exact engine and two accountants on random releases: noise of several kinds on answers that move at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp.accounting import Composition, Part
from veridp.accounting.pairs import DominatingPair, Finite, GaussianPair, LaplacePair
from veridp.engines.exact import compare

STEP = 1e-3  # of dp-accounting's lattice
LEAST_DELTA = 1e-9  # below, dp-accounting's truncated tails count
EPSILONS = (0.0, 0.3, 1.0)


@dataclass(frozen=True)
class Answer:
    """An answer that moves by `move` between the inputs, and the noise on it."""

    kind: str
    move: int
    ratio: float  # of its sensitivity of 1 and the scale of the noise

    def noisy(self, rng: Any, data: Any) -> Any:
        value = self.move * data[0]
        if self.kind == "laplace":
            return value + rng.laplace(scale=1 / self.ratio)
        if self.kind == "normal":
            return rng.normal(loc=value, scale=1 / self.ratio)
        chance = -math.expm1(-self.ratio)
        return value + rng.geometric(chance) - rng.geometric(chance)

    @property
    def pair(self) -> DominatingPair:
        """What our accountant composes."""
        if self.kind == "geometric":
            return self._two_sided_geometric()
        return (LaplacePair if self.kind == "laplace" else GaussianPair)(abs(self.move) * self.ratio)

    def _two_sided_geometric(self) -> Finite:
        """P[k] ∝ e^(-ratio |k|), and the same around the move: the loss is ratio (|k - move| - |k|)."""
        reach = math.ceil(745 / self.ratio)
        k = np.arange(-reach, reach + 1)
        masses = np.tanh(self.ratio / 2) * np.exp(-self.ratio * np.abs(k))
        losses = self.ratio * (np.abs(k - abs(self.move)) - np.abs(k))
        kept = {float(loss): float(masses[losses == loss].sum()) for loss in np.unique(losses)}
        return Finite(np.array([*kept]), np.array([*kept.values()]))

    def distribution(self) -> Any:
        """What dp-accounting composes."""
        settings_ = {"sensitivity": abs(self.move), "value_discretization_interval": STEP}
        if self.kind == "laplace":
            return privacy_loss_distribution.from_laplace_mechanism(1 / self.ratio, **settings_)
        if self.kind == "normal":
            return privacy_loss_distribution.from_gaussian_mechanism(1 / self.ratio, **settings_)
        return privacy_loss_distribution.from_discrete_laplace_mechanism(self.ratio, **settings_)


KINDS = st.sampled_from(["laplace", "normal", "geometric"])
ANSWERS = st.builds(Answer, KINDS, st.sampled_from([-2, -1, 1, 2, 3]), st.sampled_from([0.1, 0.25, 0.5, 1.0]))


def released(answers: list[Answer]) -> Any:
    def mechanism(rng: Any, data: Any) -> Any:
        return {f"answer {index}": answer.noisy(rng, data) for index, answer in enumerate(answers)}

    return mechanism


@settings(max_examples=10, deadline=None)
@given(ANSWERS)
def test_single_answers(answer: Answer) -> None:
    """Our pairs are closed forms: they and the exact numbers differ by rounding."""
    comparison = compare(released([answer]), [0], [1])
    assert comparison.epsilon == pytest.approx(answer.pair.supremum, rel=1e-9)
    for epsilon in EPSILONS:
        assert comparison.delta(epsilon) == pytest.approx(answer.pair.delta_above(epsilon), rel=1e-8, abs=1e-13)


@settings(max_examples=6, deadline=None)
@given(st.lists(ANSWERS, min_size=2, max_size=3))
def test_releases_of_several_answers(answers: list[Answer]) -> None:
    """Exact and our accountant enclose the same δ; dp-accounting rounds losses up by half a step each, or less."""
    comparison = compare(released(answers), [0], [1])
    ours = Composition([Part(answer.pair) for answer in answers])
    theirs = privacy_loss_distribution.identity(STEP)
    for answer in answers:
        theirs = theirs.compose(answer.distribution())
    assert comparison.epsilon == pytest.approx(sum(answer.pair.supremum for answer in answers), rel=1e-9)
    for epsilon in EPSILONS:
        bounds = comparison.delta_bounds(epsilon)
        assert bounds.lower <= ours.delta(epsilon) * (1 + 1e-8) + 1e-13
        assert bounds.upper >= (1 - 1e-4) * ours.delta(epsilon) - 1e-13
        if bounds.lower > LEAST_DELTA:
            assert theirs.get_delta_for_epsilon(epsilon) >= bounds.lower * (1 - 1e-8)
            assert theirs.get_delta_for_epsilon(epsilon + len(answers) * STEP) <= bounds.upper
