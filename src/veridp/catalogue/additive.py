"""Noise added to numbers: Laplace, Gaussian, geometric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from numpy.random import Generator

from veridp.mechanism import mechanism


@mechanism(adjacency="l1", cost=lambda epsilon: epsilon, size=1)
def laplace(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> list[float]:
    """The queries, each with Laplace noise of scale 1/ε.

    Dwork, McSherry, Nissim, Smith, "Calibrating Noise to Sensitivity" (TCC 2006). ε is attained: wherever the answer
    lies beyond both values of the query that moves, the densities differ by e^ε exactly.
    """
    return [query + rng.laplace(scale=1 / epsilon) for query in queries]


# The noisy histogram of Ding et al., "Detecting Violations of Differential Privacy" (CCS 2018), Algorithm 9, is the
# Laplace mechanism on the counts of five bins.
noisy_hist1 = replace(laplace, size=5, domain=(0, 10))


@mechanism(adjacency="l1", cost=lambda epsilon: 1 / epsilon, size=5, domain=(0, 10))
def noisy_hist2(rng: Generator, counts: Sequence[float], *, epsilon: float = 0.1) -> list[float]:
    """The counts of a histogram, each with Laplace noise of scale ε.

    Ding et al., "Detecting Violations of Differential Privacy" (CCS 2018), Algorithm 10.
    Wrong: the scale should be 1/ε. The true cost is 1/ε, attained; for ε > 1 that is less than was claimed.
    """
    return [count + rng.laplace(scale=epsilon) for count in counts]


@mechanism(adjacency="l1", cost=lambda epsilon: epsilon, size=1)
def laplace_parallel(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, copies: int = 20
) -> list[float]:
    """The queries answered `copies` times over, each time with Laplace noise of scale copies/ε.

    Bichsel et al., "DP-Sniper" (S&P 2021): twenty answers at 0.005 each. By sequential composition they cost ε
    together, attained where all the answers lie on the same side.
    """
    return [query + rng.laplace(scale=copies / epsilon) for _ in range(copies) for query in queries]


def gaussian_scale(epsilon: float, delta: float) -> float:
    """The classical standard deviation for L2-sensitivity 1, sqrt(2 ln(1.25/δ))/ε."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def gaussian_delta(epsilon: float, scale: float) -> float:
    """The least δ at which normal noise of this scale is (ε, δ)-private, for L2-sensitivity 1.

    Balle and Wang, "Improving the Gaussian Mechanism" (ICML 2018), Theorem 8:
    δ = Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ).
    """
    from scipy.special import log_ndtr  # takes longer to import than all of veridp

    gain, loss = log_ndtr(0.5 / scale - epsilon * scale), epsilon + log_ndtr(-0.5 / scale - epsilon * scale)
    return float(math.exp(gain) * -math.expm1(loss - gain))


def gaussian_epsilon(delta: float, scale: float) -> float:
    """The least ε at which normal noise of this scale is (ε, δ)-private: `gaussian_delta` solved for ε."""
    from scipy.optimize import brentq

    if delta <= 0:
        return math.inf
    if gaussian_delta(0.0, scale) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(high, scale) > delta:
        high *= 2
    return float(brentq(lambda epsilon: gaussian_delta(epsilon, scale) - delta, 0.0, high, xtol=1e-14, rtol=1e-12))


@mechanism(adjacency="l1", cost=lambda epsilon, delta: gaussian_epsilon(delta, gaussian_scale(epsilon, delta)), size=1)
def gaussian(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, delta: float = 1e-5) -> list[float]:
    """The queries, each with normal noise of standard deviation sqrt(2 ln(1.25/δ))/ε.

    Dwork and Roth, "The Algorithmic Foundations of Differential Privacy" (2014), Theorem A.1: (ε, δ) for ε < 1. The
    true cost is the least ε at this δ (Balle and Wang 2018); it is below ε there, and may exceed it for large ε.
    """
    scale = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return [query + rng.normal(scale=scale) for query in queries]


@mechanism(adjacency="l1", cost=lambda epsilon: epsilon, size=1, domain=range(-10, 11))
def geometric(rng: Generator, counts: Sequence[int], *, epsilon: float = 0.1) -> list[int]:
    """The counts, each with two-sided geometric noise: P[k] proportional to e^(-ε|k|).

    Ghosh, Roughgarden, Sundararajan, "Universally Utility-maximizing Privacy Mechanisms" (STOC 2009). The difference
    of two geometric draws has this distribution. ε is attained, by integer counts.
    """
    success = 1 - math.exp(-epsilon)
    return [count + rng.geometric(success) - rng.geometric(success) for count in counts]


def truncated_geometric_epsilon(epsilon: float) -> float:
    """ln(1 + 2^-k) with k = ⌈ln(2/ε)⌉.

    With b = 2^k, P[output <= z] is (b/(b+1))^(count - z) (b+1)/(2b+1) for z < count: a move of the count by one
    multiplies it by 1 + 1/b, and likewise for P[output > z] with z >= count. Output 0 attains it.
    """
    return math.log1p(2.0 ** -math.ceil(math.log(2 / epsilon)))


@mechanism(
    epsilon=truncated_geometric_epsilon,
    adjacency="l1",
    cost=truncated_geometric_epsilon,
    size=1,
    domain=range(6),
)
def truncated_geometric(rng: Generator, counts: Sequence[int], *, epsilon: float = 0.1, people: int = 5) -> int:
    """A count of 0..people with two-sided geometric noise, clamped to 0..people; `counts` holds the one count.

    Balcer and Vadhan, "Differential Privacy on Finite Computers" (ITCS 2018), Algorithm 4.8 (GeoSample), with
    k = ⌈ln(2/ε)⌉ as in Bichsel et al. (2021); it claims ln(1 + 2^-k), 0.117783 for ε = 0.1. With the logarithm to
    base 2, ln(1 + 2^-k) would be at most ε/2. The paper draws an integer of 1..total; a uniform number in its place
    changes each probability by less than 2^-52.
    """
    count = counts[0]
    base = 2 ** math.ceil(math.log(2 / epsilon))
    total = (2 * base + 1) * (base + 1) ** (people - 1)
    drawn = total * rng.random()
    for output in range(people):
        away = output - count
        if away < 0:
            reached = base**-away * (base + 1) ** (people + away)
        else:
            reached = total - base ** (away + 1) * (base + 1) ** (people - 1 - away)
        if drawn < reached:
            return output
    return people
