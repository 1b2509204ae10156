"""Mistakes of aggregation and local-privacy libraries, each beside its repair.

`veridp audit examples/gallery/aggregations.py:distinct_values`. Small ports in our own words of Google's differential
privacy library, pure-LDP and the floating-point Laplace mechanism.
"""

from __future__ import annotations

import math

import numpy as np

import veridp

# ---------------------------------------------------------------------------------- NaN passes every comparison


def clamp(value, lower, upper):
    if value > upper:
        return upper
    if value < lower:
        return lower
    return value


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=[0.0, 0.5, 1.0, 7.0, math.nan])
def bounded_sum(rng, values):
    """A clamp by comparisons lets NaN through, and NaN plus noise is NaN.

    Source: https://github.com/google/differential-privacy/pull/405
    """
    return sum(clamp(value, 0.0, 1.0) for value in values) + rng.laplace(scale=1.0)


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=[0.0, 0.5, 1.0, 7.0, math.nan])
def bounded_sum_fixed(rng, values):
    """NaN is skipped."""
    return sum(clamp(value, 0.0, 1.0) for value in values if not math.isnan(value)) + rng.laplace(scale=1.0)


# ------------------------------------------------------------------------ contributions are bounded after the union


PEOPLE = [("a",), ("b",), ("c",), ("a", "b"), ("a", "b", "c")]


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=PEOPLE)
def distinct_values(people):
    """How many values occur: each value is credited to one user, and only then a user's values are bounded.

    A user who has the values of many others is credited with them, and loses all but one.
    Source: https://github.com/google/differential-privacy/pull/84
    """
    owner = {}
    for user, values in enumerate(people):
        for value in values:
            owner[value] = user
    credited = {}
    for user in owner.values():
        credited[user] = min(credited.get(user, 0) + 1, 1)
    return sum(credited.values()) + np.random.laplace(scale=1.0)


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=PEOPLE)
def distinct_values_fixed(people):
    """A user's values are bounded first."""
    seen = set()
    for values in people:
        seen.update(values[:1])
    return len(seen) + np.random.laplace(scale=1.0)


# --------------------------------------------------------------------------------- a bit that is kept too often


class UnaryEncoding:
    """Symmetric unary encoding: every bit is kept with probability p, and a zero becomes a one with q = 1 - p."""

    def __init__(self, epsilon, size):
        self.p = math.exp(epsilon / 2) / (math.exp(epsilon / 2) + 1)
        self.q = 1 - self.p
        self.size = size

    def perturb(self, index, replaces):
        bits = np.random.choice([1, 0], size=self.size, p=[self.q, 1 - self.q])
        if replaces:
            bits[index] = 0
        if np.random.random() < self.p:
            bits[index] = 1
        return bits.tolist()


@veridp.mechanism(epsilon=0.5, adjacency="any", domain=range(4), size=1)
def unary_encoding(value):
    """The user's own bit is set with probability p, and where it is not, it may have been set by the others' noise.

    Source: https://github.com/Samuel-Maddock/pure-LDP/issues/11
    """
    return UnaryEncoding(0.5, 4).perturb(value, replaces=False)


@veridp.mechanism(epsilon=0.5, adjacency="any", domain=range(4), size=1)
def unary_encoding_fixed(value):
    """The user's own bit is one with probability p."""
    return UnaryEncoding(0.5, 4).perturb(value, replaces=True)


# ------------------------------------------------------------------------------------------------- low bits of floats


@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 1), size=1)
def float_laplace(rng, data):
    """Laplace noise added in floats: which doubles can come out depends on the number that was hidden.

    Source: https://github.com/IBM/differential-privacy-library/issues/94
    """
    return data[0] + rng.laplace(scale=1.0)


@veridp.mechanism(epsilon=1.0, adjacency="l1", domain=(0, 1), size=1)
def float_laplace_fixed(rng, data):
    """The sum is rounded to a grid of 2^-10, coarser than any float that is involved, with noise for its width."""
    noisy = data[0] + rng.laplace(scale=1.0 + 2.0**-9)
    return round(noisy * 2**10) / 2**10
