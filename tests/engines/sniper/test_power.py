"""Sample sizes, thresholds and what they promise, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from veridp.confidence import log_ratio_lower
from veridp.engines.sniper.attack import (
    Goal,
    HighestScores,
    best_thresholds,
    paper_threshold,
    profile_levels,
    sample_size,
)
from veridp.errors import BadInput


def test_guideline_1_gives_the_published_sample_size() -> None:
    assert sample_size(0.005, 0.05, 0.01) == pytest.approx(1.07e7, rel=0.002)
    # for ω >= 1/2 the maximum is 4: N = 8 (1-c)/c (erf⁻¹(1-2α))², with erf⁻¹(0.9) = 1.16308715
    assert sample_size(0.9, 0.05, 0.1) == math.ceil(8 * 9 * 1.1630871536766743**2)


def test_a_sample_size_out_of_range_is_refused() -> None:
    with pytest.raises(BadInput, match=r"omega must be in"):
        sample_size(0)


def test_the_papers_example_of_a_tie() -> None:
    """cN = 1.5 with scores 0.9, 0.7 (four times) and lower ones: t = 0.7, of which an eighth is taken."""
    highest = HighestScores(3)
    highest.add(np.array([0.9, 0.7, 0.7, 0.1, 0.2]))
    highest.add(np.array([0.7, 0.7, 0.3, 0.3, 0.3]))
    assert highest.total == 10
    assert paper_threshold(highest, 0.15) == (0.7, 0.125)


@pytest.mark.parametrize("c", [0.01, 0.037, 0.2, 1.0])
@pytest.mark.parametrize("distinct", [3, 50, 10_000])
def test_the_mass_on_the_right_is_exactly_c(c: float, distinct: int) -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(0, distinct, size=997).astype(float)
    highest = HighestScores(math.ceil(c * 997) + 1)
    for part in np.array_split(scores, 7):
        highest.add(part)
    level, tie = paper_threshold(highest, c)
    assert 0 < tie <= 1
    assert np.mean(scores > level) + tie * np.mean(scores == level) == pytest.approx(c, rel=1e-12)


def test_only_the_highest_scores_are_kept() -> None:
    highest = HighestScores(100)
    rng = np.random.default_rng(2)
    for _ in range(50):
        highest.add(rng.normal(size=1000))
    assert len(highest.values) == 100


def laplace_scores(shift: float, scale: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Sorted: the quantiles of both distributions, so that nothing is left to chance."""
    levels = (np.arange(count) + 0.5) / count
    quantiles = -scale * np.sign(levels - 0.5) * np.log(1 - 2 * np.abs(levels - 0.5))
    return quantiles + shift, quantiles


def test_for_laplace_the_best_event_is_frequent_and_saves_samples() -> None:
    """Any event x >= a beyond both means has ratio e^ε; the more frequent it is, the tighter its bound."""
    left, right = laplace_scores(1.0, 10.0, 100_000)
    chosen = best_thresholds(left, right, Goal(10**7, 0.05))[0]
    assert 0.3 < chosen.right < 0.5
    many = 75 * 10**7  # (1 - p)/p is 99 for p = 0.01, and 1.2 for p = 0.45
    at_c = log_ratio_lower(0.01 * math.exp(0.1) * many, many, 0.01 * many, many, 0.05)
    ours = log_ratio_lower(chosen.left * 10**7, 10**7, chosen.right * 10**7, 10**7, 0.05)
    assert ours >= at_c - 1e-4


def test_a_strong_rare_event_is_not_hidden_by_a_floor() -> None:
    """Lap(0.1) moved by 1: e^10 beyond the larger mean, where the right side has half of e^-10."""
    left, right = laplace_scores(1.0, 0.1, 4_000_000)
    chosen = best_thresholds(left, right, Goal(10**7, 0.05))[0]
    assert chosen.right < 1e-4
    bound = log_ratio_lower(chosen.left * 10**7, 10**7, chosen.right * 10**7, 10**7, 0.05)
    assert 9.5 < bound < 10


def test_the_threshold_maximises_what_the_goal_promises() -> None:
    rng = np.random.default_rng(3)
    left, right = np.sort(rng.integers(0, 6, 5000) + rng.integers(0, 2, 5000)), np.sort(rng.integers(0, 6, 5000))
    goal = Goal(10_000, 0.05)
    chosen = best_thresholds(left.astype(float), right.astype(float), goal)[0]
    promises = [
        float(goal.promised(np.sum(left >= t, keepdims=True), 5000, np.sum(right >= t, keepdims=True), 5000)[0])
        for t in range(8)
    ]
    assert chosen.promise == max(promises)
    assert chosen.level == float(np.argmax(promises))


def test_thresholds_after_the_best_are_of_other_frequencies() -> None:
    left, right = laplace_scores(1.0, 10.0, 100_000)
    several = best_thresholds(left, right, Goal(10**7, 0.05), 8)
    promises = [one.promise for one in several]
    assert len(several) == 8
    assert promises == sorted(promises, reverse=True)
    octaves = np.floor(2 * np.log2(100_000 * np.array([one.left + one.right for one in several])))
    assert len(set(octaves.tolist())) == 8


def test_profile_levels_are_where_the_likelihood_ratio_is_e_to_the_epsilon() -> None:
    """For normal scores with means 1 and 0 the ratio at x is e^(x - 1/2), so δ(ε) is attained by x >= ε + 1/2."""
    from scipy.special import ndtri

    levels = (np.arange(200_000) + 0.5) / 200_000
    right = ndtri(levels)
    chosen = profile_levels(right + 1.0, right, np.array([0.0, 0.5, 1.0]))
    assert chosen == pytest.approx([0.5, 1.0, 1.5], abs=0.05)
