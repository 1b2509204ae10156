"""Sparse vectors that release more than True or False: values, gaps; and the one for monotone queries.

As for the plain ones, the true costs are suprema over all queries, approached as the queries lie ever further on the
wrong side of the threshold, unless a docstring says that they are attained. N is the argument `cutoff`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from numpy.random import Generator

from veridp.catalogue.alignment import cheapest_shift, sparse_vector_cost
from veridp.mechanism import mechanism


def numerical_svt_cost(size: int, epsilon: float, cutoff: int) -> float:
    """(min(n, 4N) + 2 min(n, N)) ε/(6N): a hit costs ε/(3N) for its value beside what it costs to be one."""
    test, value = 6 * cutoff / epsilon, 3 * cutoff / epsilon
    return max(
        cheapest_shift(3 / epsilon, (size - hits) / test, hits / test) + hits / value
        for hits in range(min(cutoff, size) + 1)
    )


@mechanism(adjacency="linf", cost=numerical_svt_cost, size=10)
def numerical_svt(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 2
) -> list[float | None]:
    """The queries that pass the noisy threshold, with fresh noise, None for the others, up to the cut-off.

    Dwork and Roth (2014), Algorithm 3; Wang et al., "Proving Differential Privacy with Shadow Execution" (PLDI 2019):
    threshold Lap(3/ε), queries Lap(6N/ε), released values Lap(3N/ε). The true cost is ε from 4N queries on.
    """
    noisy_threshold = threshold + rng.laplace(scale=3 / epsilon)
    answers: list[float | None] = []
    found = 0
    for query in queries:
        if query + rng.laplace(scale=6 * cutoff / epsilon) >= noisy_threshold:
            answers.append(query + rng.laplace(scale=3 * cutoff / epsilon))
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(None)
    return answers


@mechanism(
    adjacency="linf",
    cost=lambda size, epsilon, cutoff: sparse_vector_cost(size, 2 / epsilon, 4 * cutoff / epsilon, cutoff),
)
def gap_svt(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 1
) -> list[float | None]:
    """By how much each query passes the noisy threshold, None for those that do not, up to the cut-off.

    Wang et al. (PLDI 2019), GapSVT; Ding et al., "Free Gap Information from the Differentially Private Sparse Vector
    and Noisy Max Mechanisms" (VLDB 2019): threshold Lap(2/ε), queries Lap(4N/ε). The gap comes free: the shift that
    keeps an answer True keeps it too. The true cost is ε from 4N queries on.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers: list[float | None] = []
    found = 0
    for query in queries:
        gap = query + rng.laplace(scale=4 * cutoff / epsilon) - noisy_threshold
        if gap >= 0:
            answers.append(gap)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(None)
    return answers


@mechanism(adjacency="linf", cost=lambda size, epsilon, cutoff: size * epsilon / (4 * cutoff))
def bad_gap_svt(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 1
) -> list[float | None]:
    """The noisy values of the queries that pass the noisy threshold, None for the others, up to the cut-off.

    Wang et al., "CheckDP" (CCS 2020), BadGapSVT: threshold Lap(2/ε), queries Lap(4N/ε).
    Wrong beyond 4N queries: it releases the noisy query in place of its gap, as svt3 does. The true cost is nε/(4N),
    attained by queries that are all above a released value.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers: list[float | None] = []
    found = 0
    for query in queries:
        noisy_query = query + rng.laplace(scale=4 * cutoff / epsilon)
        if noisy_query >= noisy_threshold:
            answers.append(noisy_query)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(None)
    return answers


def adaptive_svt_cost(size: int, epsilon: float, cutoff: int) -> float:
    """The cost of the worst run: hits by the second test that fall, and misses, of both tests, that rise.

    A hit by the first test costs half as much, and takes half as much of the budget, as one by the second. Nothing is
    gained by it: among runs of one length, each hit by the second test costs more.
    """
    first, second = 8 * cutoff / epsilon, 4 * cutoff / epsilon
    return max(
        cheapest_shift(2 / epsilon, (size - hits) * (1 / first + 1 / second), hits / second)
        for hits in range(min(cutoff, size) + 1)
    )


@mechanism(adjacency="linf", cost=adaptive_svt_cost)
def adaptive_svt(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 1
) -> list[float | None]:
    """By how much each query passes the noisy threshold, None for those that do not, while the budget lasts.

    Ding et al., "Free Gap Information" (VLDB 2019), Algorithm 2: threshold Lap(2/ε). A query is first tested with
    Lap(8N/ε) against the threshold and a margin of one standard deviation of that noise; passing costs ε/(4N). Else
    it is tested with Lap(4N/ε) against the threshold; passing costs ε/(2N). The true cost is ε from 3N queries on.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    margin = math.sqrt(2) * 8 * cutoff / epsilon
    answers: list[float | None] = []
    spent = 2 * cutoff  # of the budget ε, in units of ε/(4N)
    for query in queries:
        gap = query + rng.laplace(scale=8 * cutoff / epsilon) - noisy_threshold
        if gap >= margin:
            answers.append(gap)
            spent += 1
        else:
            gap = query + rng.laplace(scale=4 * cutoff / epsilon) - noisy_threshold
            if gap >= 0:
                answers.append(gap)
                spent += 2
            else:
                answers.append(None)
        if spent > 4 * cutoff - 2:
            break
    return answers


@mechanism(
    adjacency="linf",
    # A hit by the first test pins the threshold from above and costs ε/(8N); each of the others, if it rises, 3ε/(8N).
    cost=lambda size, epsilon, cutoff: max(
        (3 * size - 2) * epsilon / (8 * cutoff), adaptive_svt_cost(size, epsilon, cutoff)
    ),
)
def bad_adaptive_svt(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 1
) -> list[float | None]:
    """By how much each query passes the noisy threshold, or its noisy value, None for the others, while budget lasts.

    Wang et al., "CheckDP" (CCS 2020), BadAdaptiveSVT: as adaptive_svt.
    Wrong: a query that passes the first test releases its noisy value in place of its gap, which tells that the
    threshold lies below, so that no shift of the threshold can pay for the misses. Once (3n-2)/(8N) exceeds 1, the
    true cost is (3n-2)ε/(8N), attained by queries that are all above a released value below 0 (no gap is).
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    margin = math.sqrt(2) * 8 * cutoff / epsilon
    answers: list[float | None] = []
    spent = 2 * cutoff  # of the budget ε, in units of ε/(4N)
    for query in queries:
        noisy_query = query + rng.laplace(scale=8 * cutoff / epsilon)
        if noisy_query - noisy_threshold >= margin:
            answers.append(noisy_query)
            spent += 1
        else:
            gap = query + rng.laplace(scale=4 * cutoff / epsilon) - noisy_threshold
            if gap >= 0:
                answers.append(gap)
                spent += 2
            else:
                answers.append(None)
        if spent > 4 * cutoff - 2:
            break
    return answers


@mechanism(
    adjacency="monotone",
    cost=lambda size, epsilon, cutoff: max(
        sparse_vector_cost(size, 2 / epsilon, 2 * cutoff / epsilon, cutoff, rise=rise, fall=1 - rise)
        for rise in (0.0, 1.0)
    ),
)
def monotone_svt(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 1
) -> list[bool]:
    """Whether each query passes the noisy threshold, up to the cut-off, where all queries move the same way.

    Lyu et al. (2017), section 4.3: threshold Lap(2/ε), queries Lap(2N/ε). The true cost is ε from 3N queries on; it
    would be more if queries could move in both directions.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers = []
    found = 0
    for query in queries:
        if query + rng.laplace(scale=2 * cutoff / epsilon) >= noisy_threshold:
            answers.append(True)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(False)
    return answers
