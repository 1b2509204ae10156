"""What every distribution answers, one answer against another: draws, probabilities, prices, sums, balls."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridp.engines.exact.noise import law
from veridp.kernel import noise as d
from veridp.kernel.distributions import GENERATOR_METHODS, ScaledNoise
from veridp.kernel.replay.scripted import ScriptedGenerator

SCALE = Fraction(5, 2)
NOISES: list[d.Distribution] = [
    d.Beta(SCALE, Fraction(5, 2), Fraction(3, 4)),
    d.Binomial(40, Fraction(1, 3)),
    d.Cauchy(SCALE),
    d.DiscreteGaussian(Fraction(17, 2)),
    d.Exponential(SCALE),
    d.Gamma(SCALE, Fraction(7, 4)),
    d.Geometric(Fraction(2, 7)),
    d.Gumbel(SCALE),
    d.Integers(50),
    d.Laplace(SCALE),
    d.LaplaceSum(SCALE, 3),
    d.Logistic(SCALE),
    d.Normal(SCALE),
    d.Poisson(Fraction(7, 2)),
    d.Staircase(SCALE, Fraction(2, 5), Fraction(1, 3), Fraction(3, 7)),
    d.StudentT(SCALE, 3),
    d.Triangular(SCALE, Fraction(1, 3)),
    d.TruncatedLaplace(SCALE, -4, Fraction(11, 2)),
    d.Uniform(SCALE),
]
WITHOUT_BALLS = (d.LaplaceSum, d.Gamma, d.StudentT, d.TruncatedLaplace, d.Beta, d.Triangular, d.Staircase)
every = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.kind)
POINTS = np.arange(-30.0, 61.0) / 2  # in which integers are halfway or on a point


def test_every_distribution_is_tested() -> None:
    assert {type(noise).__name__ for noise in NOISES} == set(d.__all__) - {"Distribution"}


@every
def test_draws_are_distributed_as_it_says(noise: d.Distribution) -> None:
    """No more than 4/√n from the distribution function: by the DKW inequality, 2e^-32 of all seeds would fail."""
    rows = [noise.draw(np.random.default_rng(3), 10_000)]
    if isinstance(noise, ScaledNoise) and not isinstance(noise, WITHOUT_BALLS):
        filled = np.empty(10_000)
        noise.fill(np.random.default_rng(4), filled)
        rows.append(filled * float(noise.scale))
    for row in rows:
        seen = np.searchsorted(np.sort(row), POINTS, side="right") / len(row)
        assert np.abs(seen - np.exp(noise.log_below(POINTS))).max() < 4 / math.sqrt(len(row))
        assert noise.support[0] <= row.min()
        assert row.max() <= noise.support[1]


@every
def test_balls_hold_what_floats_say(noise: d.Distribution) -> None:
    if isinstance(noise, WITHOUT_BALLS):
        pytest.skip("it has no law in balls")
    intervals: list[tuple[Any, Any]] = [(None, 1), (-2, 3), (0, 40), (2, None), (Fraction(7, 3), 5)]
    for low, high in intervals:
        ball = law(noise).between(*(None if end is None else Fraction(end) for end in (low, high)))
        ends = np.array([-np.inf if low is None else float(low)]), np.array([np.inf if high is None else float(high)])
        assert math.exp(noise.log_between(*ends)[0]) == pytest.approx(float(ball.mid()), rel=1e-12)


@every
def test_rational_probabilities_are_those_of_floats(noise: d.Distribution) -> None:
    for low, high in [(None, None), (None, 2), (-3, -1), (1, 2), (2, None), (60, None), (2, 1)]:
        exactly = noise.probability_between(*(None if end is None else Fraction(end) for end in (low, high)))
        if exactly is not None:
            ends = np.array([-np.inf if low is None else low]), np.array([np.inf if high is None else high])
            assert float(exactly) == pytest.approx(math.exp(noise.log_between(*ends)[0]), rel=1e-12, abs=1e-15)


@every
def test_a_price_is_never_below_the_loss_of_a_shift(noise: d.Distribution) -> None:
    with np.errstate(invalid="ignore"):
        for move in (-3, -1, 1, 3):
            unit = noise.price.up if move > 0 else noise.price.down
            at = np.arange(-60.0, 61.0)
            loss = noise.log_density(at) - noise.log_density(at + move)
            if unit is None:
                assert noise.price.why_not.startswith(f"{noise.kind} noise ")
                assert np.nanmax(loss) > 2 * abs(move) / noise.width  # there is none that a linear price would cover
            else:
                assert np.nanmax(loss) <= noise.price.of(Fraction(move)) * (1 + 1e-12)


@every
def test_sums_are_distributed_as_draws_that_are_added(noise: d.Distribution) -> None:
    """By the DKW inequality, 4e^-16 of all seeds would fail."""
    factors = [3, 3] if noise.sum_key(3) != noise.sum_key(1) else [3, -1]
    if noise.sum_key(3) is None:
        return
    total, factor = noise.sum_of([(noise, c) for c in factors])
    rng = np.random.default_rng(5)
    added = np.sort(sum(c * noise.draw(rng, 20_000) for c in factors))
    seen = np.searchsorted(added, POINTS, side="right") / len(added)
    assert np.abs(seen - np.exp(total.log_below(POINTS / float(factor)))).max() < 4 / math.sqrt(len(added))


@every
def test_transforms_are_integrals(noise: d.Distribution) -> None:
    t = 0.05
    if not math.isfinite(noise.log_transform(t)):
        assert noise.upper_tail(1.0) is None
        return
    step = 1.0 if noise.integer else 0.01
    points = np.arange(-500.0, 1000.0, step) + (0.0 if noise.integer else step / 2)
    total = np.exp(t * points + noise.log_density(points)).sum() * step
    assert total == pytest.approx(math.exp(noise.log_transform(t)), rel=1e-5)


@pytest.mark.parametrize("method", GENERATOR_METHODS)
def test_recorded_draws_are_those_of_numpy(method: str) -> None:
    shapes: dict[str, tuple[float, ...]] = dict.fromkeys(["gamma", "standard_gamma", "chisquare", "standard_t"], (1.5,))
    shapes |= {"beta": (2.5, 0.75), "triangular": (0.0, 0.25, 1.0)}
    arguments = {"binomial": (40, 0.3), "geometric": (0.3,), **shapes}.get(method, ())
    scripted = ScriptedGenerator(np.random.PCG64(6))
    plain = np.random.Generator(np.random.PCG64(6))
    seen = getattr(scripted, method)(*arguments, size=5)
    assert seen.tolist() == getattr(plain, method)(*arguments, size=5).tolist() == scripted.draws


def test_units_are_above_0_where_every_draw_is_alike() -> None:
    assert [d.Poisson(0).unit, d.Binomial(0, 0).unit, d.Geometric(1).unit] == [1, 1, 2]
