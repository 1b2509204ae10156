"""Mistakes of OpenDP, each beside its repair: `veridp audit examples/gallery/opendp_core.py:randomized_response`.

OpenDP is written in Rust; these are small ports in our own words that keep the arithmetic that was wrong.
"""

from __future__ import annotations

import math
import random

import numpy as np

import veridp

# --------------------------------------------------------------------------------------- a lie that may be the truth


def bernoulli(probability):
    return random.random() < probability


@veridp.mechanism(epsilon=math.log(3), adjacency="any", domain=[False, True], size=1)
def randomized_response(truth):
    """Keeps the truth with probability 3/4, and otherwise draws a "lie" that may be true and is biased, too.

    Source: https://github.com/opendp/opendp/issues/480
    """
    lie = bernoulli(0.75)
    return truth if bernoulli(0.75) else lie


@veridp.mechanism(epsilon=math.log(3), adjacency="any", domain=[False, True], size=1)
def randomized_response_fixed(truth):
    """The lie is the other answer."""
    return truth if bernoulli(0.75) else not truth


# --------------------------------------------------------------- a shuffle that only some of the neighbours go through


def descents(values):
    return sum(values[k] > values[k + 1] for k in range(len(values) - 1))


def resized(values, size, constant):
    """The list, cut or filled to this size."""
    values = list(values)
    if len(values) > size:
        return values[:size]
    values += [constant] * (size - len(values))
    random.shuffle(values)
    return values


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=range(20))
def order_after_resizing(values):
    """How often a resized list falls, with noise for two edits; resizing shuffles a list of the right size, too.

    A list that is one longer is cut without a shuffle, so two neighbours end far apart.
    Source: https://github.com/opendp/opendp/issues/2927
    """
    return descents(resized(values, 10, 0)) + np.random.laplace(scale=2)


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=range(20))
def order_after_resizing_fixed(values):
    """No list is shuffled: a record more or less costs one edit, and filling or cutting one more."""
    values = list(values)[:10]
    values += [0] * (10 - len(values))
    return descents(values) + np.random.laplace(scale=2)


# ----------------------------------------------------------------------------------------- pairs of an odd table


POINTS = [(0.0, 0.0), (0.0, 9.0), (1.0, 0.0), (1.0, 9.0), (2.0, 2.0)]


def predictions(rows, even_first, cut=4.0):
    """Where the line through each pair of rows passes at the cut; one of an odd number of rows is left out."""
    if even_first:
        rows = rows[: len(rows) // 2 * 2]
    order = np.random.permutation(len(rows))
    for first, second in zip(order[::2], order[1::2], strict=False):
        (x0, y0), (x1, y1) = rows[first], rows[second]
        slope = (y1 - y0) / (x1 - x0) if x1 != x0 else 0.0
        yield y0 + slope * (cut - x0)


def noisy_sides(rows, scale, even_first):
    sides = [0, 0]
    for prediction in predictions(rows, even_first):
        sides[int(prediction > 4.5)] += 1
    return [count + np.random.laplace(scale=scale) for count in sides]


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=POINTS)
def pairwise_predictions(rows):
    """Predictions from pairs of rows, counted with noise for one prediction; a row more may replace one instead.

    Source: https://github.com/opendp/opendp/issues/2950
    """
    return noisy_sides(rows, scale=1.0, even_first=True)


@veridp.mechanism(epsilon=1.0, adjacency="add-remove", domain=POINTS)
def pairwise_predictions_fixed(rows):
    """Noise for one prediction that goes and one that comes; who is left out is random."""
    return noisy_sides(rows, scale=2.0, even_first=False)


# ---------------------------------------------------------------------------------- the ρ of another selection


@veridp.mechanism(rho=2**2 / 8, adjacency="linf")
def noisy_max(rng, scores):
    """Permute-and-flip for ε = 2 that claims ρ = ε²/8, which holds for the exponential mechanism.

    Source: https://github.com/opendp/opendp/issues/2911
    """
    best = max(scores)
    for candidate in rng.permutation(len(scores)):
        if rng.random() < math.exp(scores[candidate] - best):
            return int(candidate)
    raise RuntimeError("the best score is kept with certainty")


@veridp.mechanism(rho=2**2 / 8, adjacency="linf")
def noisy_max_fixed(rng, scores):
    """The exponential mechanism, as the largest score with Gumbel noise."""
    return int(np.argmax(np.asarray(scores) + rng.gumbel(scale=1.0, size=len(scores))))


# ------------------------------------------------------------------------------------ a threshold that is included


def tail(scale, least):
    """The probability that discrete Laplace noise is at least this (least >= 1)."""
    keep = math.exp(-1 / scale)
    return keep**least / (1 + keep)


def discrete_laplace(rng, scale):
    """Two-sided geometric noise."""
    keep = math.exp(-1 / scale)
    return int(rng.geometric(1 - keep)) - int(rng.geometric(1 - keep))


def frequent(rng, words, threshold):
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    released = {}
    for word, count in counts.items():
        noisy = count + discrete_laplace(rng, 1.0)
        if noisy >= threshold:
            released[word] = noisy
    return released


@veridp.mechanism(epsilon=1.0, delta=tail(1.0, 4), adjacency="add-remove-unordered", domain=["a", "b", "c"])
def counts_above_threshold(rng, words):
    """Words whose noisy count is at least 4; δ is the probability that one word alone comes to more than 4.

    Source: https://github.com/opendp/opendp/issues/2922
    """
    return frequent(rng, words, threshold=4)


@veridp.mechanism(epsilon=1.0, delta=tail(1.0, 3), adjacency="add-remove-unordered", domain=["a", "b", "c"])
def counts_above_threshold_fixed(rng, words):
    """δ counts the threshold itself."""
    return frequent(rng, words, threshold=4)


# ---------------------------------------------------------------- a rejection that divides where it should multiply


AXES = [tuple(float(place == axis) for place in range(6)) for axis in (0, 1)]
UNIT_EPSILON = 6.0


def envelope_width(eigenvalues):
    """b with Σ 1/(b + 2λ) = 1: the angular Gaussian with matrix I + 2A/b is the tightest envelope."""
    low, high = 1.0, float(len(eigenvalues))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(1 / (middle + 2 * value) for value in eigenvalues) > 1 else (low, middle)
    return high


def first_eigenvector(rng, rows, power):
    """A direction u near the first eigenvector, of density exp(-uᵀAu), by rejection from an angular Gaussian.

    Kent, Ganeiber and Mardia, "A new unified approach for the simulation of a wide class of directional distributions"
    (2018), where a direction is kept with probability exp(-uᵀAu) (uᵀΩu)^(d/2) / M: the density over the envelope's.
    """
    d = len(AXES[0])
    moments = np.array(rows).T @ np.array(rows)
    eigenvalues = np.linalg.eigvalsh(moments)
    shape = UNIT_EPSILON / 4 * (eigenvalues.max() * np.eye(d) - moments)
    width = envelope_width((UNIT_EPSILON / 4 * (eigenvalues.max() - eigenvalues)).tolist())
    omega = np.eye(d) + 2 * shape / width
    most = math.exp(-(d - width) / 2) * (d / width) ** (d / 2)
    root = np.linalg.cholesky(np.linalg.inv(omega))
    while True:
        drawn = rng.standard_normal((100, d)) @ root.T  # a hundred tries at a time
        u = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        across, ratio = (u * (u @ shape)).sum(axis=1), (u * (u @ omega)).sum(axis=1)
        kept = rng.random(100) < np.exp(-across) / most * ratio**power
        if kept.any():
            return u[kept][0].tolist()


@veridp.mechanism(epsilon=UNIT_EPSILON / 2, adjacency="add-remove", domain=AXES)
def eigenvector(rng, rows):
    """Directions near the first eigenvector, by rejection: kept by density times envelope, not density over envelope.

    The report is of the same line without any comparison. It now has one, in OpenDP 0.16.0, but is still a quotient, as
    in diffprivlib 0.6.6, so directions have density exp(-uᵀAu) (uᵀΩu)^-d.
    Source: https://github.com/opendp/opendp/issues/2416
    """
    return first_eigenvector(rng, rows, power=-len(AXES[0]) / 2)


@veridp.mechanism(epsilon=UNIT_EPSILON / 2, adjacency="add-remove", domain=AXES)
def eigenvector_fixed(rng, rows):
    """The density over that of the envelope."""
    return first_eigenvector(rng, rows, power=len(AXES[0]) / 2)
