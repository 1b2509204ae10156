"""The exact law and the samples of a mechanism agree: random programs on 10^7 draws each, and the catalogue.

A program is a random tree of affine branches over mixed noise; its outputs are labels, truth values, and numbers. What
the exact engine says of each class of outputs, its numbers cut into bins, is tested by chi-square against the counts.

Everything is seeded. Each test raises a false alarm with probability at most 1e-7, were its seed drawn anew; there are
fewer than 50 of them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import veridp
from veridp.engines.exact import law
from veridp.engines.exact.entry_loss import Numbers
from veridp.engines.exact.event import NumberSpan
from veridp.sampling.sample import sample, tally

FALSE_ALARM = 1e-7
FEW = 20  # cells that expect fewer are counted together
DRAWS, ROUND = 10**7, 10**6
CUTS = (-4.0, -2.0, -1.0, -0.25, 0.5, 1.25, 2.5, 5.0)
KINDS = ("laplace", "exponential", "normal", "random", "gumbel", "logistic", "geometric")
PARAMETERS: dict[str, dict[str, float]] = {"geometric": {"p": 0.4}, "laplace": {"scale": 1.5}, "normal": {"scale": 2.0}}


# ---------------------------------------------------------------------------------------------- random programs


@dataclass(frozen=True)
class Expression:
    """Factors of the noise, and a constant: few of them at a time, so that the exact engine can follow."""

    factors: tuple[float, ...]
    constant: float

    def of(self, noise: list[Any], query: float) -> Any:
        total = self.constant + query
        for factor, draw in zip(self.factors, noise, strict=True):
            if factor:
                total = total + factor * draw
        return total


@dataclass(frozen=True)
class Node:
    """A branch, or an output where it has no branches."""

    expression: Expression
    form: str
    branches: tuple[Node, Node] | None = None

    def run(self, noise: list[Any], query: float) -> Any:
        value = self.expression.of(noise, query)
        if self.branches is not None:
            return self.branches[0].run(noise, query) if value >= 0 else self.branches[1].run(noise, query)
        if self.form == "number":
            return ["number", value]
        return [self.form, value > 0.5] if self.form == "truth" else self.form


def expression(rng: np.random.Generator, draws: int, terms: int) -> Expression:
    factors = np.zeros(draws)
    factors[rng.choice(draws, terms, replace=False)] = rng.choice([-1.0, 1.0, 2.0], terms)
    return Expression(tuple(factors.tolist()), float(rng.choice([-1.0, -0.5, 0.0, 0.5])))


def tree(rng: np.random.Generator, draws: int, depth: int) -> Node:
    if depth == 3 or (depth and rng.random() < 0.8):
        branches = tree(rng, draws, depth - 1), tree(rng, draws, depth - 1)
        return Node(expression(rng, draws, int(rng.choice([1, 2]))), "", branches)
    form = str(rng.choice(["a", "b", "number", "truth"]))
    return Node(expression(rng, draws, int(rng.choice([1, 2]))), form)


def program(seed: int) -> tuple[Any, float]:
    """A mechanism, and an input for it."""
    rng = np.random.default_rng(seed)
    kinds = [str(kind) for kind in rng.choice(KINDS, 4)]
    root = tree(rng, 4, 3)

    def mechanism(generator: Any, query: float) -> Any:
        return root.run([getattr(generator, kind)(**PARAMETERS.get(kind, {})) for kind in kinds], query)

    return mechanism, float(rng.choice([-0.5, 0.0, 1.0]))


# --------------------------------------------------------------------------------------------------- both sides


def exact_cells(mechanism: Any, query: float) -> dict[Any, float]:
    """The probability of every class of outputs, and of every bin of its number where it has one."""
    (factor,) = law(mechanism, query).factors
    cells: Counter[Any] = Counter()
    for key, pieces in factor.classes.items():
        form = key.template.leaves if isinstance(key.template.tree, tuple) else (key.template.tree,)
        numbers = Numbers(tuple(pieces))
        ends = [-math.inf, *CUTS, math.inf] if key.free else [-math.inf, math.inf]
        for place, (low, high) in enumerate(itertools.pairwise(ends)):
            spans = [NumberSpan(low, high - 1e-3 if numbers_are_whole(key) else high)] if key.free else []
            constants = tuple(leaf for leaf in form if isinstance(leaf, str | bool))
            cells[constants, place if key.free else None] += math.exp(numbers.log_mass(spans))  # type: ignore[assignment]
    return dict(cells)


def numbers_are_whole(key: Any) -> bool:
    """Then a number on a cut must not fall in two bins; bins hold their lower ends."""
    return None not in [key.lattices[index] for index in key.free]


def sampled_cells(mechanism: Any, query: float, count: int, seed: int) -> Counter[Any]:
    cells: Counter[Any] = Counter()
    for start in range(0, count, ROUND):
        outputs = sample(mechanism, query, min(ROUND, count), seed=1000 * seed + start // ROUND, workers=1)
        matrix, words = outputs.matrix(), outputs.vocabulary
        for template, rows in outputs.forms():
            _count(cells, template, matrix[rows], words)
    return cells


def _count(cells: Counter[Any], template: Any, matrix: Any, words: tuple[str, ...]) -> None:
    label = words[int(matrix[0, 0])]
    if label == "number":
        places, counts = np.unique(np.searchsorted(CUTS, matrix[:, 1], side="right"), return_counts=True)
        for place, times in zip(places.tolist(), counts.tolist(), strict=True):
            cells[(label,), place] += times
    elif label == "truth":
        truths, counts = np.unique(matrix[:, 1] > 0, return_counts=True)
        for truth, times in zip(truths.tolist(), counts.tolist(), strict=True):
            cells[(label, truth), None] += times
    else:
        cells[(label,), None] += len(matrix)


def p_value(expected: dict[Any, float], seen: Counter[Any]) -> float:
    """Chi-square; cells that expect few are one."""
    total = seen.total()
    pairs = [(seen[cell], total * probability) for cell, probability in expected.items()]
    large = [pair for pair in pairs if pair[1] >= FEW]
    small = [pair for pair in pairs if pair[1] < FEW]
    rest = sum(count for count, _ in small), sum(mean for _, mean in small)
    if rest[1] < FEW:
        assert rest[0] <= stats.poisson.isf(FALSE_ALARM, rest[1])
    else:
        large.append(rest)
    if len(large) == 1:
        return 1.0
    observed, mean = np.array(large).T
    return float(stats.chi2.sf(np.sum((observed - mean) ** 2 / mean), len(large) - 1))


# ---------------------------------------------------------------------------------------------------------- tests

SEEDS = [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_on_ten_million_samples(seed: int) -> None:
    mechanism, query = program(seed)
    expected = exact_cells(mechanism, query)
    assert sum(expected.values()) == pytest.approx(1, abs=1e-10)
    seen = sampled_cells(mechanism, query, DRAWS, seed)
    assert set(seen) <= set(expected)
    assert p_value(expected, seen) > FALSE_ALARM


DISCRETE: dict[str, Any] = {
    "noisy_max1": [1.0, 2.0, 0.0, 1.5],
    "noisy_max2": [1.0, 2.0, 0.0, 1.5],
    "noisy_max_gumbel": [1.0, 2.0, 0.0, 1.5],
    "exponential_mechanism": [1.0, 2.0, 0.0, 1.5],
    "svt1": [1.0, 2.0, 0.0, 1.5, -1.0],
    "svt2": [1.0, 2.0, 0.0, 1.5, -1.0],
    "svt4": [1.0, 2.0, 0.0, 1.5, -1.0],
    "svt5": [1.0, 2.0, 0.0, 1.5, -1.0],
    "svt6": [1.0, 2.0, 0.0, 1.5, -1.0],
    "monotone_svt": [1.0, 2.0, 0.0, 1.5, -1.0],
    "truncated_geometric": [2],
    "geometric": [2],
    "randomized_response": True,
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_mechanisms_of_the_catalogue(name: str) -> None:
    """Every output that occurs in 10^6 runs has the probability that is stated, and no others have much."""
    mechanism = veridp.catalogue[name].bind(epsilon=1.0)
    exact = law(mechanism, DISCRETE[name])
    seen = Counter(tally(mechanism, DISCRETE[name], 10**6, seed=21, workers=1).counts)
    expected = {output: exact.probability(output) for output in seen}
    assert sum(expected.values()) <= 1 + 1e-12
    expected["another"] = max(0.0, 1 - sum(expected.values()))
    assert p_value(expected, seen) > FALSE_ALARM


@pytest.mark.parametrize("name", ["one_time_rappor", "rappor"])
def test_bits_of_rappor(name: str) -> None:
    mechanism = veridp.catalogue[name].bind(bits=6)
    exact = law(mechanism, 3)
    seen = Counter(tally(mechanism, 3, 10**6, seed=22, workers=1).counts)
    assert p_value({output: exact.probability(output) for output in seen}, seen) > FALSE_ALARM
    assert len(seen) == 2**6


def test_another_program_is_told_apart() -> None:
    """The comparison has teeth: a query moved by 0.02 is noticed in 10^6 samples."""
    mechanism, query = program(3)
    expected = exact_cells(mechanism, query)
    assert p_value(expected, sampled_cells(mechanism, query, ROUND, 5)) > FALSE_ALARM
    assert p_value(expected, sampled_cells(mechanism, query + 0.02, ROUND, 5)) < FALSE_ALARM
