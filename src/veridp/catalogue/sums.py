"""Sums and running sums: of Chan, Shi and Song (ICALP 2010), in the forms of CheckDP (Wang et al., CCS 2020), and
of DP-Finder (Bichsel et al., CCS 2018).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from numpy.random import Generator

from veridp.mechanism import mechanism


@mechanism(adjacency="l1", cost=lambda epsilon: epsilon)
def partial_sum(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> float:
    """The sum of the queries with Laplace noise of scale 1/ε.

    Wang et al., "CheckDP" (CCS 2020), PartialSum. ε is attained.
    """
    total = 0.0
    for query in queries:
        total += query
    return total + rng.laplace(scale=1 / epsilon)


# DP-Finder's Sum (Bichsel et al., CCS 2018) is the same sum, of records in [-1, 1], of which one may be appended.
finder_sum = partial_sum.stating(adjacency="add-remove", domain=(-1, 1), size=4)


@mechanism(adjacency="l1", cost=lambda epsilon: 2 * epsilon)
def bad_partial_sum(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> float:
    """The sum of the queries with Laplace noise of scale 1/(2ε).

    Wang et al., "CheckDP" (CCS 2020), BadPartialSum.
    Wrong: the scale should be 1/ε. The true cost is 2ε, attained.
    """
    total = 0.0
    for query in queries:
        total += query
    return total + rng.laplace(scale=1 / (2 * epsilon))


@mechanism(
    epsilon=lambda epsilon: 2 * epsilon,
    adjacency="l1",
    # A query before the end of its block is in two noisy answers, if the block ends; any other is in one.
    cost=lambda size, epsilon, block: 2 * epsilon if 2 <= block <= size else epsilon,
)
def smart_sum(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, block: int = 2) -> list[float]:
    """The running sums of the queries, restarted at the end of each block, Laplace noise of scale 1/ε at each step.

    Chan, Shi, Song, "Private and Continual Release of Statistics" (ICALP 2010), the two-level counter; in the form of
    Wang et al., "CheckDP" (CCS 2020), SmartSum, which claims 2ε. That is attained.
    """
    answers = []
    running, in_block = 0.0, 0.0
    for step, query in enumerate(queries, 1):
        if step % block == 0:
            running = in_block + query + rng.laplace(scale=1 / epsilon)
            in_block = 0.0
        else:
            running = running + query + rng.laplace(scale=1 / epsilon)
            in_block = in_block + query
        answers.append(running)
    return answers


@mechanism(
    epsilon=lambda epsilon: 2 * epsilon,
    adjacency="l1",
    cost=lambda size, epsilon, block: math.inf if block <= size else epsilon,
)
def bad_smart_sum(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1, block: int = 2) -> list[float]:
    """The running sums of the queries, restarted at the end of each block, noise at each step but the block ends.

    Wang et al., "CheckDP" (CCS 2020), BadSmartSum, which claims 2ε.
    Wrong: the sum of a block is released as it is, at its end.
    """
    answers = []
    running, in_block = 0.0, 0.0
    for step, query in enumerate(queries, 1):
        if step % block == 0:
            running = in_block + query
            in_block = 0.0
        else:
            running = running + query + rng.laplace(scale=1 / epsilon)
            in_block = in_block + query
        answers.append(running)
    return answers


@mechanism(adjacency="linf", cost=lambda size, epsilon: size * epsilon, size=10)
def prefix_sum(rng: Generator, queries: Sequence[float], *, epsilon: float = 0.1) -> list[float]:
    """The prefix sums of the queries, after Laplace noise of scale 1/ε on each.

    Wang et al., "Proving Differential Privacy with Shadow Execution" (PLDI 2019), PrefixSum.
    Wrong where every query may move: differences of the answers are the noisy queries, so that the true cost is nε,
    attained. Where one query moves it is ε, as claimed.
    """
    answers = []
    total = 0.0
    for query in queries:
        total = total + query + rng.laplace(scale=1 / epsilon)
        answers.append(total)
    return answers
