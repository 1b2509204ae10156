"""Mistakes of synthesizers, each beside its repair: `veridp audit examples/gallery/synthesizers.py:conditionals`.

Small ports in our own words of DataSynthesizer, mbi, dpsynth and reprosyn.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

import veridp

# ------------------------------------------------------------------------ noise for shares, added to counts


def noisy_table(frame, scale):
    counts = pd.crosstab(frame["age"], frame["smokes"]).reindex(index=[0, 1], columns=[0, 1], fill_value=0)
    noisy = counts.to_numpy().ravel() + np.random.laplace(0, scale, size=4)
    noisy = np.where(noisy < 0, 0.0, noisy)
    return [float(value) for value in noisy]


PEOPLE = pd.DataFrame({"age": [0, 0, 1, 1], "smokes": [0, 1, 0, 1]})


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=PEOPLE)
def conditionals(frame):
    """PrivBayes adds noise of scale 2/(nε) to the joint shares; here it is added to the counts.

    Source: https://github.com/DataResponsibly/DataSynthesizer/issues/34
    """
    return noisy_table(frame, scale=2 / len(frame) / 1.0)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=PEOPLE)
def conditionals_fixed(frame):
    """Counts move by 2, so their noise has scale 2/ε."""
    return noisy_table(frame, scale=2 / 1.0)


# -------------------------------------------------------------------------- two errors that move in opposite ways


MARGINALS = ["age", "income", "both"]
CELLS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def marginal(rows, name):
    keys = {"age": [a for a, _ in rows], "income": [b for _, b in rows], "both": [2 * a + b for a, b in rows]}[name]
    counts = np.zeros(4)
    for key in keys:
        counts[key] += 1
    return counts


def choose_marginal(rows, sensitivity, epsilon=1.0):
    """Which marginal to measure: the exponential mechanism on how much better the model is than public data."""
    model, public = np.full(4, 1.0), np.array([0.0, 5.0, 0.0, 0.0])
    scores = []
    for name in MARGINALS:
        truth = marginal(rows, name)
        scores.append(np.abs(truth - model).sum() - np.abs(truth - public).sum())
    scores = np.array(scores)
    weights = np.exp(epsilon * (scores - scores.max()) / (2 * sensitivity))
    return str(np.random.choice(MARGINALS, p=weights / weights.sum()))


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=CELLS)
def marginal_choice(rows):
    """JAM scores a marginal by one error minus another; each moves by 2, their difference by 4, and 2 is used.

    Source: https://github.com/ryan112358/mbi/issues/65
    """
    return choose_marginal(rows, sensitivity=2)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=CELLS)
def marginal_choice_fixed(rows):
    """The sensitivity of the difference."""
    return choose_marginal(rows, sensitivity=4)


# ----------------------------------------------------------------------------------- the range comes from the data


def binned(values, low, high, epsilon, bins=4):
    edges = np.linspace(low, high, bins + 1)
    counts, _ = np.histogram(np.clip(values, low, high), bins=edges)
    noisy = counts + np.random.laplace(scale=2 / epsilon, size=bins)
    return {"edges": edges.tolist(), "counts": noisy.tolist()}


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 100))
def derived_range(values):
    """A numeric column is described by noisy counts between edges that start at its exact minimum and maximum.

    Source: https://github.com/google/dpsynth/issues/34
    """
    low, high = float(np.min(values)), float(np.max(values))
    return binned(values, low, high if high > low else low + 1, epsilon=1.0)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 100))
def derived_range_fixed(values):
    """The range is public."""
    return binned(values, 0.0, 100.0, epsilon=1.0)


# ------------------------------------------------------------------------------- the categories come from the data


CITIES = ["Bern", "Chur", "Genf", "Thun"]


def city_counts(people, categories, epsilon):
    counts = Counter(people)
    return {city: counts[city] + np.random.laplace(scale=1 / epsilon) for city in categories}


@veridp.mechanism(epsilon=1.0, adjacency="add-remove-unordered", domain=CITIES)
def derived_categories(people):
    """A histogram over the categories that occur: a rare one shows that somebody has it.

    Source: https://github.com/alan-turing-institute/reprosyn/issues/38
    """
    return city_counts(people, sorted(set(people)), epsilon=1.0)


@veridp.mechanism(epsilon=1.0, adjacency="add-remove-unordered", domain=CITIES)
def derived_categories_fixed(people):
    """The categories are public."""
    return city_counts(people, CITIES, epsilon=1.0)


# -------------------------------------------------------------------------------------------- the same seed each time


class Generator:
    """Synthetic answers from a noisy share of yes."""

    def __init__(self, epsilon, seed):
        self.epsilon, self.random = epsilon, np.random.default_rng(seed)

    def fit(self, answers):
        return sum(answers) + self.random.laplace(scale=1 / self.epsilon)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=[0, 1])
def seeded_generator(answers):
    """A generator with a fixed default seed: the same noise in every run, which subtracts away.

    Source: https://github.com/alan-turing-institute/tapas/issues/101
    """
    return Generator(epsilon=1.0, seed=42).fit(answers)


@veridp.mechanism(epsilon=1.0, adjacency="replace", domain=[0, 1])
def seeded_generator_fixed(answers):
    """A seed from the system."""
    return Generator(epsilon=1.0, seed=None).fit(answers)
