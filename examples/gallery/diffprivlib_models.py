"""Mistakes of IBM's diffprivlib, each beside its repair: `veridp audit examples/gallery/diffprivlib_models.py:gram`.

Small ports in our own words of `diffprivlib.models` and `diffprivlib.tools`.
"""

from __future__ import annotations

import numpy as np

import veridp


def clip(values, bounds):
    return np.clip(values, bounds[0], bounds[1])


# ------------------------------------------------------------------- a sensitivity from the lower bound and itself


class Gram:
    """Noisy sums of squares and products for a linear regression by the functional mechanism."""

    def __init__(self, epsilon, bounds, sides, random_state=None):
        self.epsilon, self.bounds, self.sides = epsilon, bounds, sides
        self.random = random_state or np.random.RandomState()

    def fit(self, xs):
        lower, upper = self.bounds
        ends = [lower, lower] if self.sides == 1 else [lower, upper]
        sensitivity = np.max(np.abs(ends)) ** 2
        squares = float((clip(np.asarray(xs), self.bounds) ** 2).sum())
        return abs(squares + self.random.laplace(scale=sensitivity / self.epsilon))


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=(-2, 10))
def gram(xs):
    """The sum of squares in linear regression: its sensitivity is computed from the lower bound twice.

    Source: https://github.com/IBM/differential-privacy-library/issues/105
    """
    return Gram(1.0, (-2, 10), sides=1).fit(xs)


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=(-2, 10))
def gram_fixed(xs):
    """The larger end of the interval, squared."""
    return Gram(1.0, (-2, 10), sides=2).fit(xs)


# ----------------------------------------------------------------------- two means are centred on the budget of one


CORNERS = [(x, y) for x in (-1.0, 0.0, 1.0) for y in (0.0, 5.0)]


def centred_regression(rows, epsilon, offsets):
    """Offsets of x and y, then the noisy moments of what is left; rows are replaced, their number is known."""
    n = len(rows)
    x, y = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    share = epsilon / 2 / offsets
    x_offset = x.mean() + np.random.laplace(scale=2 / n / share)
    y_offset = y.mean() + np.random.laplace(scale=5 / n / share)
    slope_share = epsilon / 2
    product = float((x * y).sum()) + np.random.laplace(scale=10 / slope_share)
    return x_offset, y_offset, product


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=CORNERS)
def centring(rows):
    """Centring x and y takes two private means, each with the whole share of ε that was set aside for both.

    Source: https://github.com/IBM/differential-privacy-library/issues/104
    """
    return centred_regression(rows, 1.0, offsets=1)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=CORNERS)
def centring_fixed(rows):
    """The two means share it."""
    return centred_regression(rows, 1.0, offsets=2)


# ------------------------------------------------------------------------------------------- bounds from the data


def private_mean(array, epsilon, bounds=None):
    if bounds is None:
        bounds = (np.min(array), np.max(array))
    array = clip(np.asarray(array, dtype=float), bounds)
    width = bounds[1] - bounds[0]
    return array.mean() + np.random.laplace(loc=0.0, scale=width / len(array) / epsilon)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 100))
def mean_without_bounds(array):
    """A mean whose bounds, and so its noise, are read from the data.

    Source: https://github.com/IBM/differential-privacy-library/issues/20
    """
    return private_mean(array, epsilon=1.0)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 100))
def mean_without_bounds_fixed(array):
    """The bounds are given."""
    return private_mean(array, epsilon=1.0, bounds=(0, 100))
