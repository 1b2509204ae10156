"""Which query is largest: noisy maxima and the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from veridp.mechanism import mechanism


def selection_cost(size: int, epsilon: float) -> float:
    """ε, but nothing where there is nothing to choose from."""
    return epsilon if size > 1 else 0.0


@mechanism(adjacency="linf", cost=selection_cost)
def noisy_max1(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> np.intp:
    """The index of the largest query after Laplace noise of scale 2/ε.

    Dwork and Roth (2014), section 3.3; Ding et al., "Detecting Violations of Differential Privacy" (CCS 2018),
    Algorithm 5. The true cost ε is approached as the winner lies ever further below the others.
    """
    return np.argmax(np.asarray(queries) + rng.laplace(scale=2 / epsilon, size=len(queries)))


@mechanism(adjacency="linf", cost=selection_cost)
def noisy_max2(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> np.intp:
    """The index of the largest query after exponential noise of scale 2/ε.

    Dwork and Roth (2014), section 3.3; Ding et al. (CCS 2018), Algorithm 6. ε is attained, by two queries of which the
    smaller wins.
    """
    return np.argmax(np.asarray(queries) + rng.exponential(scale=2 / epsilon, size=len(queries)))


@mechanism(adjacency="linf", cost=lambda size, epsilon: size * epsilon / 2)
def noisy_max3(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> float:
    """The value of the largest query after Laplace noise of scale 2/ε.

    Ding et al. (CCS 2018), Algorithm 7.
    Wrong: it releases the value, not the index. An answer below all the queries needs every noise to be low, so that
    the true cost is nε/2, attained there by n equal queries.
    """
    return np.max(np.asarray(queries) + rng.laplace(scale=2 / epsilon, size=len(queries)))


@mechanism(adjacency="linf", cost=lambda: math.inf)
def noisy_max4(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> float:
    """The value of the largest query after exponential noise of scale 2/ε.

    Ding et al. (CCS 2018), Algorithm 8.
    Wrong: it releases the value, which is never below the largest query; a neighbour may go there.
    """
    return np.max(np.asarray(queries) + rng.exponential(scale=2 / epsilon, size=len(queries)))


@mechanism(adjacency="linf", cost=selection_cost)
def noisy_max_gumbel(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> np.intp:
    """The index of the largest query after Gumbel noise of scale 2/ε.

    The exponential mechanism by another way: P[i] is proportional to e^(ε q_i / 2) (Durfee and Rogers, "Practical
    Differentially Private Top-k Selection", NeurIPS 2019). ε is approached as for the exponential mechanism.
    """
    return np.argmax(np.asarray(queries) + rng.gumbel(scale=2 / epsilon, size=len(queries)))


@mechanism(adjacency="linf", cost=lambda size, epsilon: 2 * (size // 2) * epsilon, size=4)
def noisy_max_sum(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> float:
    """The sum of the largest entries of the two halves of the queries, after Laplace noise of scale 1/ε.

    Two of Ding et al.'s noisy maxima (CCS 2018, Algorithm 7) in one answer: a benchmark for estimators of ε.
    Wrong: it releases a value that needs every noise of a half to be low. The true cost is 2⌊n/2⌋ε (nε for even n),
    approached as the answer falls. No more: with the noise of the longer half kept, its maximum moves by at most 1,
    and the noise of the shorter half must move by at most 2 each to leave the sum as it was.
    """
    noisy = np.asarray(queries) + rng.laplace(scale=1 / epsilon, size=len(queries))
    half = len(queries) // 2
    return np.max(noisy[:half]) + np.max(noisy[half:])


@mechanism(adjacency="linf", cost=selection_cost)
def exponential_mechanism(rng: Generator, scores: Sequence[float], *, epsilon: float = 0.1) -> int:
    """An index, each with a probability proportional to e^(ε score / 2).

    McSherry and Talwar, "Mechanism Design via Differential Privacy" (FOCS 2007). With n scores within W of each
    other the worst ratio is (1 + (n-1) e^(εW/2)) / (1 + (n-1) e^(ε(W-2)/2)): the lowest score rises while the others,
    all at the top, fall. The true cost ε is its limit as W grows.
    """
    values = np.asarray(scores)
    weights = np.exp(epsilon * (values - np.max(values)) / 2)
    return rng.choice(len(scores), p=weights / np.sum(weights))
