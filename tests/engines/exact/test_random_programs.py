"""Random programs: trees of affine branches, whose exact law must be what running the program itself says.

With two draws, the probability of each output is found a second way: for many values of the first draw the program is
run on either side of every place where it may change its mind along the second, and weighed by distribution functions.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from veridp.engines.exact import compare, law

LAWS: dict[str, Any] = {
    "laplace": stats.laplace,
    "exponential": stats.expon,
    "normal": stats.norm,
    "random": stats.uniform,
    "gumbel": stats.gumbel_r,
    "logistic": stats.logistic,
}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
halves = st.integers(-4, 4).map(lambda k: k / 2)
kinds = st.sampled_from(sorted(LAWS))


@dataclass(frozen=True)
class Leaf:
    """An output: a label, beside a number affine in the noise where it has weights."""

    label: str
    weights: tuple[float, ...] | None = None

    def run(self, noise: Any, query: float) -> Any:
        return self.label if self.weights is None else (self.label, combine(self.weights, noise, query))


@dataclass(frozen=True)
class Branch:
    """One way or the other, as an affine combination of noise, query and 1 is at least 0 or not."""

    weights: tuple[float, ...]
    then: Any
    other: Any

    def run(self, noise: Any, query: float) -> Any:
        return (self.then if combine(self.weights, noise, query) >= 0 else self.other).run(noise, query)


def combine(weights: tuple[float, ...], noise: Any, query: float) -> Any:
    *factors, on_query, constant = weights
    return sum((f * n for f, n in zip(factors, noise, strict=True)), start=on_query * query + constant)


def conditions(program: Leaf | Branch) -> list[tuple[float, ...]]:
    if isinstance(program, Leaf):
        return []
    return [program.weights, *conditions(program.then), *conditions(program.other)]


def programs(draws: int, numeric: bool) -> st.SearchStrategy[Any]:
    weights = st.tuples(*[halves] * (draws + 2))
    label = st.builds(Leaf, st.sampled_from("abc"))
    leaf = label | st.builds(Leaf, st.sampled_from("abc"), weights) if numeric else label
    return st.recursive(leaf, lambda inner: st.builds(Branch, weights, inner, inner), max_leaves=6)


def mechanism(program: Any, noise_kinds: tuple[str, ...]) -> Any:
    def run(rng: Any, query: float) -> Any:
        return program.run([getattr(rng, kind)() for kind in noise_kinds], query)

    return run


# ------------------------------------------------------------------------------- the second way, for two draws


def by_running(program: Any, noise_kinds: tuple[str, str], query: float) -> dict[str, float]:
    """The probability of each label."""
    lines = [(a, b, on_query * query + constant) for a, b, on_query, constant in conditions(program)]
    first, second = (LAWS[kind] for kind in noise_kinds)
    corners = [*_kinks(noise_kinds[0]), *_ends(noise_kinds[0])]
    corners += [-c / a for a, b, c in lines if a and not b]
    corners += [-(b * kink + c) / a for a, b, c in lines for kink in _kinks(noise_kinds[1]) if a]
    for (a, b, c), (e, f, g) in itertools.combinations(lines, 2):
        if a * f - b * e:
            corners.append((b * g - c * f) / (a * f - b * e))
    low, high = _ends(noise_kinds[0])
    inside = [x for x in corners if low <= x <= high]
    ends = sorted({*inside, *np.arange(math.ceil(low), math.floor(high) + 1, 2.0)})
    total: Counter[str] = Counter()
    for start, stop in itertools.pairwise(ends):
        points, half = (start + stop) / 2 + (stop - start) / 2 * NODES, (stop - start) / 2
        for x, weight in zip(points, half * WEIGHTS * first.pdf(points), strict=True):
            for label, share in _given_first(program, lines, second, x, query):
                total[label] += weight * share
    return dict(total)


def _given_first(program: Any, lines: Any, law: Any, x: float, query: float) -> Any:
    """Labels and their probabilities over the second draw, the first being x."""
    turns = sorted({-(a * x + c) / b for a, b, c in lines if b})
    if not turns:
        return [(program.run((x, 0.5), query), 1.0)]
    middles = [turns[0] - 1, *((p + q) / 2 for p, q in itertools.pairwise(turns)), turns[-1] + 1]
    shares = np.diff([0.0, *law.cdf(turns), 1.0])
    return [(program.run((x, y), query), share) for y, share in zip(middles, shares, strict=True)]


def _kinks(kind: str) -> tuple[float, ...]:
    return {"laplace": (0.0,), "exponential": (0.0,), "random": (0.0, 1.0)}.get(kind, ())


def _ends(kind: str) -> tuple[float, float]:
    """Beyond these there is less than 1e-13."""
    tails = {"laplace": (-32, 32), "exponential": (0, 32), "random": (0, 1), "normal": (-8, 8), "gumbel": (-4, 32)}
    return tails.get(kind, (-32, 32))


quick = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(programs(2, numeric=False), st.tuples(kinds, kinds), halves)
def test_two_draws_against_running_the_program(program: Any, noise_kinds: tuple[str, str], query: float) -> None:
    exact = law(mechanism(program, noise_kinds), query)
    expected = by_running(program, noise_kinds, query)
    for label in "abc":
        assert exact.probability(label) == pytest.approx(expected.get(label, 0.0), abs=1e-10)


@settings(quick, max_examples=14)
@given(programs(3, numeric=True), st.tuples(kinds, kinds, kinds), halves)
def test_three_draws_have_probabilities_that_sum_to_one(
    program: Any, noise_kinds: tuple[str, ...], query: float
) -> None:
    assert law(mechanism(program, noise_kinds), query).total == pytest.approx(1, abs=1e-10)


@settings(quick, max_examples=8)
@given(programs(2, numeric=True), st.tuples(kinds, kinds), halves, st.sampled_from([-1.0, 0.5, 1.0]))
def test_losses_keep_their_laws(program: Any, noise_kinds: tuple[str, ...], query: float, move: float) -> None:
    """Masses are 1, the two directions agree, post-processing cannot add: labels alone lose at most as much."""
    run = mechanism(program, noise_kinds)

    def label_only(rng: Any, data: float) -> Any:
        output = run(rng, data)
        return output[0] if isinstance(output, tuple) else output

    comparison = compare(run, query, query + move)
    assert comparison.loss.masses() == pytest.approx((1, 1), abs=1e-10)
    assert comparison.epsilon == pytest.approx(compare(run, query + move, query).epsilon, rel=1e-9, abs=1e-9)
    labels = compare(label_only, query, query + move)
    assert labels.epsilon <= comparison.epsilon + 1e-9
    assert labels.delta(0.0) <= comparison.delta(0.0) + 1e-9
    deltas = [comparison.delta(epsilon) for epsilon in (0.0, 0.3, 1.0, 3.0)]
    assert all(later <= earlier + 1e-10 for earlier, later in itertools.pairwise(deltas))
    if comparison.epsilon < 3:
        assert deltas[-1] <= 1e-9


def test_the_second_way_sees_a_wrong_program() -> None:
    """The comparison has teeth: another kind of noise, or a moved threshold, is noticed."""
    program = Branch((1.0, -1.0, 0.0, 0.5), Leaf("a"), Branch((0.5, 1.0, 1.0, 0.0), Leaf("b"), Leaf("c")))
    expected = by_running(program, ("laplace", "normal"), 1.0)
    assert law(mechanism(program, ("laplace", "normal")), 1.0).probability("b") == pytest.approx(
        expected["b"], abs=1e-12
    )
    assert law(mechanism(program, ("logistic", "normal")), 1.0).probability("b") != pytest.approx(
        expected["b"], abs=1e-3
    )
    assert law(mechanism(program, ("laplace", "normal")), 1.01).probability("b") != pytest.approx(
        expected["b"], abs=1e-4
    )
