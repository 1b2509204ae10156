"""Mistakes of SmartNoise (smartnoise-core and smartnoise-sdk, once WhiteNoise), each beside its repair.

`veridp audit examples/gallery/smartnoise.py:average` judges one of them. These are small ports in our own words: the
arithmetic that was wrong is kept, the query language around it is left out.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

import veridp


def phi(x):
    """The normal distribution function; `NormalDist().cdf` loses the digits of its lower tail, which ε = 10 needs."""
    return math.erfc(-x / math.sqrt(2)) / 2


# ------------------------------------------------------------------------------- a column without bounds gets no noise


class Column:
    """A column of a table as the metadata describe it."""

    def __init__(self, lower=None, upper=None):
        self.lower, self.upper = lower, upper

    def sensitivity(self):
        """By how much one row moves the sum; None if the metadata do not say."""
        if self.lower is None or self.upper is None:
            return None
        return max(abs(self.lower), abs(self.upper))


def private_sum(rng, values, column, epsilon):
    sensitivity = column.sensitivity()
    if sensitivity is None:
        return float(np.sum(values))
    clamped = np.clip(values, column.lower, column.upper)
    return float(np.sum(clamped)) + rng.laplace(scale=sensitivity / epsilon)


@veridp.mechanism(adjacency="add-remove", domain=(0, 60))
def sum_without_bounds(rng, durations, *, epsilon=1.0):
    """A sum over a column whose bounds are unknown: its sensitivity is None, and no noise is added.

    Source: https://github.com/opendp/smartnoise-sdk/issues/317
    """
    return private_sum(rng, durations, Column(), epsilon)


@veridp.mechanism(adjacency="add-remove", domain=(0, 60))
def sum_without_bounds_fixed(rng, durations, *, epsilon=1.0):
    """The query names its bounds; without them it would be refused."""
    return private_sum(rng, durations, Column(0, 60), epsilon)


# --------------------------------------------------------------------------- an average is two queries, and one is paid


@veridp.mechanism(adjacency="add-remove", domain=(0, 100))
def average(rng, ages, *, epsilon=1.0):
    """AVG becomes SUM / COUNT, and each of the two spends the whole ε.

    Source: https://github.com/opendp/smartnoise-sdk/issues/202
    """
    ages = np.clip(ages, 0, 100)
    total = ages.sum() + rng.laplace(scale=100 / epsilon)
    count = len(ages) + rng.laplace(scale=1 / epsilon)
    return total, count, total / count if count else 0.0


@veridp.mechanism(adjacency="add-remove", domain=(0, 100))
def average_fixed(rng, ages, *, epsilon=1.0):
    """Each of the two spends half of ε."""
    ages = np.clip(ages, 0, 100)
    total = ages.sum() + rng.laplace(scale=2 * 100 / epsilon)
    count = len(ages) + rng.laplace(scale=2 / epsilon)
    return total, count, total / count if count else 0.0


# ---------------------------------------------------------------------------- a hidden count decides what may be shown


@veridp.mechanism(adjacency="add-remove", domain=(0, 10))
def sum_above_threshold(rng, values, *, epsilon=1.0, tau=4):
    """A sum that is shown only if a noisy count of the users passes a threshold; the count is not paid for.

    Source: https://github.com/opendp/smartnoise-sdk/issues/200
    """
    users = len(values) + rng.laplace(scale=1 / epsilon)
    if users < tau:
        return None
    return sum(min(max(value, 0), 10) for value in values) + rng.laplace(scale=10 / epsilon)


@veridp.mechanism(adjacency="add-remove", domain=(0, 10))
def sum_above_threshold_fixed(rng, values, *, epsilon=1.0, tau=4):
    """Half of ε for the count, half for the sum."""
    users = len(values) + rng.laplace(scale=2 / epsilon)
    if users < tau:
        return None
    return sum(min(max(value, 0), 10) for value in values) + rng.laplace(scale=20 / epsilon)


# ------------------------------------------------------------------------------ the bounds of a square are squares


def moments(rng, values, lower, upper, epsilon, square_sensitivity):
    share = epsilon / 3
    clamped = [min(max(value, lower), upper) for value in values]
    reach = max(abs(lower), abs(upper))
    count = len(values) + rng.laplace(scale=1 / share)
    total = sum(clamped) + rng.laplace(scale=reach / share)
    squares = sum(value * value for value in clamped) + rng.laplace(scale=square_sensitivity / share)
    return count, total, squares


@veridp.mechanism(adjacency="add-remove", domain=(0, 50))
def variance(rng, values, *, epsilon=1.0):
    """VARIANCE sums squares, but scales their noise by the bound of the column, not by its square.

    Source: https://github.com/opendp/smartnoise-sdk/issues/203
    """
    return moments(rng, values, 0, 50, epsilon, square_sensitivity=50)


@veridp.mechanism(adjacency="add-remove", domain=(0, 50))
def variance_fixed(rng, values, *, epsilon=1.0):
    """The noise of the squares is scaled by 50²."""
    return moments(rng, values, 0, 50, epsilon, square_sensitivity=50**2)


# ------------------------------------------------------------------------------ clamping before the expression


@veridp.mechanism(adjacency="add-remove", domain=(0, 100))
def expression_after_clamping(rng, ages, *, epsilon=1.0):
    """SUM over an expression: the column is clamped where it is read, the expression that follows is not.

    Source: https://github.com/opendp/smartnoise-sdk/issues/201
    """
    clamped = np.clip(ages, 0, 100)
    selected = np.where(clamped > 60, 1000.0 * clamped, clamped)  # SUM(CASE WHEN age > 60 THEN 1000 * age ELSE age)
    return float(selected.sum()) + rng.laplace(scale=100 / epsilon)


@veridp.mechanism(adjacency="add-remove", domain=(0, 100))
def expression_after_clamping_fixed(rng, ages, *, epsilon=1.0):
    """What is summed is clamped last."""
    selected = np.where(np.asarray(ages) > 60, 1000.0 * np.asarray(ages), ages)
    return float(np.clip(selected, 0, 100).sum()) + rng.laplace(scale=100 / epsilon)


# --------------------------------------------------------------------- a threshold for Laplace noise, noise is Gaussian


def gaussian_scale(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def keys_above(rng, keys, scale, tau):
    counts = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    noisy = {key: counts[key] + rng.normal(scale=scale) for key in sorted(counts)}
    return {key: value for key, value in noisy.items() if value > tau}


@veridp.mechanism(epsilon=1.0, delta=1e-5, adjacency="add-remove-unordered", domain=["flu", "measles", "rabies"])
def group_by(rng, diagnoses):
    """Groups with a noisy count above τ are shown; τ is that for Laplace noise, but the noise is Gaussian.

    Source: https://github.com/opendp/smartnoise-sdk/issues/204
    """
    tau = 1 - math.log(2 * 1e-5) / 1.0
    return keys_above(rng, diagnoses, gaussian_scale(1.0, 1e-5), tau)


@veridp.mechanism(epsilon=1.0, delta=1e-5, adjacency="add-remove-unordered", domain=["flu", "measles", "rabies"])
def group_by_fixed(rng, diagnoses):
    """τ is the quantile of the noise that is used; the noise and the threshold spend half of δ each."""
    scale = gaussian_scale(1.0, 0.5e-5)
    return keys_above(rng, diagnoses, scale, 1 + scale * NormalDist().inv_cdf(1 - 0.5e-5))


# ---------------------------------------------------------------------------------- a formula outside of its range


@veridp.mechanism(epsilon=10.0, delta=1e-5, adjacency="l1", size=1)
def gaussian_for_large_epsilon(rng, counts, *, epsilon=10.0, delta=1e-5):
    """σ = √(2 ln(1.25/δ))/ε, which is proved for ε < 1 only, at ε = 10.

    Source: https://github.com/opendp/smartnoise-sdk/issues/462
    """
    return [count + rng.normal(scale=gaussian_scale(epsilon, delta)) for count in counts]


def delta_of_gaussian(scale, epsilon):
    """δ(ε) of Gaussian noise for a sensitivity of 1: Balle and Wang (2018), Theorem 8."""
    return phi(0.5 / scale - epsilon * scale) - math.exp(epsilon) * phi(-0.5 / scale - epsilon * scale)


def analytic_scale(epsilon, delta):
    low, high = 1e-3, 1e6
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if delta_of_gaussian(middle, epsilon) > delta else (low, middle)
    return high


@veridp.mechanism(epsilon=10.0, delta=1e-5, adjacency="l1", size=1)
def gaussian_for_large_epsilon_fixed(rng, counts, *, epsilon=10.0, delta=1e-5):
    """σ by the analytic formula, which holds for every ε."""
    return [count + rng.normal(scale=analytic_scale(epsilon, delta)) for count in counts]


# ------------------------------------------------------------------------------------ a sign in the analytic Gaussian


def analytic_scale_by_alpha(epsilon, delta, right_sign):
    """σ = α/√(2ε) by Algorithm 1 of Balle and Wang (2018), for a sensitivity of 1."""
    threshold = phi(0) - math.exp(epsilon) * phi(-math.sqrt(2 * epsilon))
    small = delta < threshold

    def excess(v):
        sign = -1 if small else 1
        return phi(sign * math.sqrt(epsilon * v)) - math.exp(epsilon) * phi(-math.sqrt(epsilon * (v + 2)))

    low, high = 0.0, 1.0
    while (excess(high) > delta) if small else (excess(high) <= delta):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if (excess(middle) > delta) == small:
            low = middle
        else:
            high = middle
    sign = 1 if small and right_sign else -1
    return (math.sqrt(1 + high / 2) + sign * math.sqrt(high / 2)) / math.sqrt(2 * epsilon)


@veridp.mechanism(epsilon=0.5, delta=1e-4, adjacency="l1", size=1)
def analytic_gaussian(rng, counts, *, epsilon=0.5, delta=1e-4):
    """The analytic Gaussian mechanism with a wrong sign: α = √(1 + u/2) - √(u/2) where δ is small, too.

    Source: https://github.com/opendp/smartnoise-core/issues/316
    """
    return counts[0] + rng.normal(scale=analytic_scale_by_alpha(epsilon, delta, right_sign=False))


@veridp.mechanism(epsilon=0.5, delta=1e-4, adjacency="l1", size=1)
def analytic_gaussian_fixed(rng, counts, *, epsilon=0.5, delta=1e-4):
    """The sum of the two roots where δ is small."""
    return counts[0] + rng.normal(scale=analytic_scale_by_alpha(epsilon, delta, right_sign=True))


# ------------------------------------------------------------------------------ a mean over a number of rows not known


@veridp.mechanism(adjacency="add-remove", domain=(0, 10))
def mean(rng, values, *, epsilon=1.0):
    """A mean with noise for a sensitivity of (b - a)/n, n the size of this data set, where rows come and go.

    Source: https://github.com/opendp/smartnoise-core/issues/355
    """
    n = len(values)
    if n == 0:
        return rng.laplace(scale=10 / epsilon)
    return np.mean(np.clip(values, 0, 10)) + rng.laplace(scale=10 / n / epsilon)


@veridp.mechanism(adjacency="add-remove", domain=(0, 10))
def mean_fixed(rng, values, *, epsilon=1.0):
    """A noisy sum over a noisy count."""
    total = np.clip(values, 0, 10).sum() + rng.laplace(scale=20 / epsilon)
    return total / max(1.0, len(values) + rng.laplace(scale=2 / epsilon))


# ----------------------------------------------------------------------------- the data that were clipped are not used


def covariance(xs, ys):
    center_x, center_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - center_x) * (y - center_y) for x, y in zip(xs, ys, strict=True)) / (len(xs) - 1)


GRID = [(x, y) for x in (-5.0, 0.0, 1.0, 8.0) for y in (-5.0, 0.0, 1.0, 8.0)]


@veridp.mechanism(adjacency="replace", domain=GRID)
def released_covariance(rng, rows, *, epsilon=1.0):
    """A covariance whose columns are clipped to [0, 1]; the release then takes the columns from before.

    Source: https://github.com/opendp/smartnoise-sdk/issues/622
    """
    clipped = [(min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0)) for x, y in rows]
    sensitivity = 2.0 / len(clipped)
    xs, ys = [x for x, _ in rows], [y for _, y in rows]
    return covariance(xs, ys) + rng.laplace(scale=sensitivity / epsilon)


@veridp.mechanism(adjacency="replace", domain=GRID)
def released_covariance_fixed(rng, rows, *, epsilon=1.0):
    """The clipped columns are the ones that are used."""
    clipped = [(min(max(x, 0.0), 1.0), min(max(y, 0.0), 1.0)) for x, y in rows]
    sensitivity = 2.0 / len(clipped)
    xs, ys = [x for x, _ in clipped], [y for _, y in clipped]
    return covariance(xs, ys) + rng.laplace(scale=sensitivity / epsilon)


# --------------------------------------------------------------------------------------- MWEM divides by the dimensions


class MWEM:
    """One multiplicative-weights synthesizer over a 2 x 2 histogram: choose the worst cell, measure it, repeat."""

    def __init__(self, epsilon, iterations, per_dimension):
        self.epsilon, self.iterations, self.per_dimension = epsilon, iterations, per_dimension

    def fit(self, rows):
        histogram = np.zeros((2, 2))
        for a, b in rows:
            histogram[a, b] += 1
        share = self.epsilon / (2 * self.iterations)
        synthetic = np.full((2, 2), 1.0)
        measured = []
        for _ in range(self.iterations):
            errors = np.abs(histogram - synthetic).ravel()
            weights = np.exp(share * (errors - errors.max()) / 2)
            cell = int(np.random.choice(4, p=weights / weights.sum()))
            scale = 1 / share / (histogram.ndim if self.per_dimension else 1)
            value = histogram.ravel()[cell] + np.random.laplace(0, scale)
            synthetic.flat[cell] = max(value, 0.0)
            measured.append((cell, value))
        return measured


BINARY = [(0, 0), (0, 1), (1, 0), (1, 1)]


@veridp.mechanism(epsilon=2.0, adjacency="add-remove-unordered", domain=BINARY)
def mwem(rows):
    """MWEM divides the scale of its measurements by the number of dimensions of the histogram.

    Source: https://github.com/opendp/smartnoise-sdk/issues/472
    """
    return MWEM(epsilon=2.0, iterations=1, per_dimension=True).fit(rows)


@veridp.mechanism(epsilon=2.0, adjacency="add-remove-unordered", domain=BINARY)
def mwem_fixed(rows):
    """A cell counts people, whatever the number of dimensions."""
    return MWEM(epsilon=2.0, iterations=1, per_dimension=False).fit(rows)
