"""The sparse vector technique, in the six versions that Lyu, Su and Li compared, and the uses others made of them.

M. Lyu, D. Su, N. Li, "Understanding the Sparse Vector Technique for Differential Privacy" (VLDB 2017).
True costs are suprema over all queries: they are approached as queries that pass lie ever further below the threshold
and queries that do not ever further above it, unless a docstring says that they are attained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from numpy.random import Generator

from veridp.catalogue.alignment import sparse_vector_cost
from veridp.mechanism import mechanism


@mechanism(
    adjacency="linf",
    cost=lambda size, epsilon, cutoff: sparse_vector_cost(size, 2 / epsilon, 4 * cutoff / epsilon, cutoff),
    size=10,
)
def svt1(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 0.5, cutoff: int = 1
) -> list[bool]:
    """Whether each query passes the noisy threshold, up to the cut-off.

    Lyu et al. (2017), Algorithm 1: threshold Lap(2/ε), queries Lap(4c/ε). The true cost is ε from 4c queries on.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers = []
    found = 0
    for query in queries:
        if query + rng.laplace(scale=4 * cutoff / epsilon) >= noisy_threshold:
            answers.append(True)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(False)
    return answers


@mechanism(
    adjacency="linf",
    # Each hit ends a round with a threshold of its own; a round of m queries costs min(m, 4) ε/(4c).
    cost=lambda size, epsilon, cutoff: min(size, 4 * cutoff) * epsilon / (4 * cutoff),
    size=10,
)
def svt2(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 1
) -> list[bool]:
    """Whether each query passes the noisy threshold, which is drawn anew after each hit, up to the cut-off.

    Lyu et al. (2017), Algorithm 2 (Dwork and Roth 2014, Algorithm 2): threshold Lap(2c/ε), queries Lap(4c/ε). The true
    cost is ε from 4c queries on.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 * cutoff / epsilon)
    answers = []
    found = 0
    for query in queries:
        if query + rng.laplace(scale=4 * cutoff / epsilon) >= noisy_threshold:
            answers.append(True)
            noisy_threshold = threshold + rng.laplace(scale=2 * cutoff / epsilon)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(False)
    return answers


@mechanism(adjacency="linf", cost=lambda size, epsilon, cutoff: size * epsilon / (2 * cutoff), size=10)
def svt3(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 1
) -> list[float | None]:
    """The noisy values of the queries that pass the noisy threshold, None for the others, up to the cut-off.

    Lyu et al. (2017), Algorithm 3 (Roth's lecture notes; iSVT4 of Ding et al. 2018): threshold Lap(2/ε), queries
    Lap(2c/ε).
    Wrong: the released value tells that the threshold lies below it, so that no shift of the threshold can pay for
    the queries that do not pass. The true cost is nε/(2c), attained by queries that are all above a released value.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers: list[float | None] = []
    found = 0
    for query in queries:
        noisy_query = query + rng.laplace(scale=2 * cutoff / epsilon)
        if noisy_query >= noisy_threshold:
            answers.append(noisy_query)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(None)
    return answers


@mechanism(
    adjacency="linf",
    cost=lambda size, epsilon, cutoff: sparse_vector_cost(size, 4 / epsilon, 4 / (3 * epsilon), cutoff),
    size=10,
)
def svt4(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 1
) -> list[bool]:
    """Whether each query passes the noisy threshold, up to the cut-off, with noise that takes no account of it.

    Lyu et al. (2017), Algorithm 4 (Lee and Clifton 2014; iSVT3 of Ding et al. 2018): threshold Lap(4/ε), queries
    Lap(4/(3ε)).
    Wrong: the scale of the queries does not grow with the cut-off c. The true cost is (1+6c)ε/4 from 2c+1 queries on.
    """
    noisy_threshold = threshold + rng.laplace(scale=4 / epsilon)
    answers = []
    found = 0
    for query in queries:
        if query + rng.laplace(scale=4 / (3 * epsilon)) >= noisy_threshold:
            answers.append(True)
            found += 1
            if found == cutoff:
                break
        else:
            answers.append(False)
    return answers


@mechanism(adjacency="linf", cost=lambda size, epsilon: math.inf if size > 1 else epsilon / 2, size=10)
def svt5(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0) -> list[bool]:
    """Whether each query passes the noisy threshold, with no noise on the queries and no cut-off.

    Lyu et al. (2017), Algorithm 5 (Stoddard, Chen, Machanavajjhala 2014; iSVT1 of Ding et al. 2018): threshold
    Lap(2/ε).
    Wrong: of two queries the smaller can never pass alone, but on a neighbour it may be the larger.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers = []
    for query in queries:
        if query >= noisy_threshold:
            answers.append(True)
        else:
            answers.append(False)
    return answers


@mechanism(
    adjacency="linf",
    cost=lambda size, epsilon: sparse_vector_cost(size, 2 / epsilon, 2 / epsilon, cutoff=size),
    size=10,
)
def svt6(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0) -> list[bool]:
    """Whether each query passes the noisy threshold, with no cut-off.

    Lyu et al. (2017), Algorithm 6 (Chen et al. 2015; iSVT2 of Ding et al. 2018): threshold and queries Lap(2/ε).
    Wrong: each further answer costs. The true cost is nε/2.
    """
    noisy_threshold = threshold + rng.laplace(scale=2 / epsilon)
    answers = []
    for query in queries:
        if query + rng.laplace(scale=2 / epsilon) >= noisy_threshold:
            answers.append(True)
        else:
            answers.append(False)
    return answers


@mechanism(
    epsilon=lambda epsilon: 2 * epsilon,
    adjacency="linf",
    # One neighbour is the worst for both: the queries that pass, in both runs the same, fall, and all others rise.
    cost=lambda size, epsilon, cutoff: (
        size * epsilon / (2 * cutoff) + sparse_vector_cost(size, 4 / epsilon, 4 / (3 * epsilon), cutoff)
    ),
    size=10,
)
def svt34_parallel(
    rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, threshold: float = 1.0, cutoff: int = 2
) -> tuple[list[float | None], list[bool]]:
    """The answers of svt3 and of svt4 to the same queries.

    Bichsel et al., "DP-Sniper" (S&P 2021), with c = 2 and T = 1.
    Wrong: both are; each claims ε, so together they claim 2ε. The true cost is the sum of the two, since there are
    neighbours and runs that are the worst for both.
    """
    return (
        svt3(rng, queries, epsilon=epsilon, threshold=threshold, cutoff=cutoff),
        svt4(rng, queries, epsilon=epsilon, threshold=threshold, cutoff=cutoff),
    )


# DP-Finder (Bichsel et al., CCS 2018) has Lyu's versions under names of its own, for four queries, c = 1 and T = 0.
# Its AT has no cut-off and Lap(2/ε) on threshold and queries, which is Lyu's Algorithm 6.
at = replace(svt6.bind(threshold=0.0), size=4)
at1 = replace(svt1.bind(threshold=0.0, cutoff=1), size=4)
at2 = replace(svt2.bind(threshold=0.0, cutoff=1), size=4)
at3 = replace(svt3.bind(threshold=0.0, cutoff=1), size=4)
at4 = replace(svt4.bind(threshold=0.0, cutoff=1), size=4)
at5 = replace(svt5.bind(threshold=0.0), size=4)
