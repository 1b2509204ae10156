"""The measure of regions: closed forms, symmetry, and mpmath's quadrature as the independent side."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import integrate, stats

from veridp.engines.exact import elimination
from veridp.engines.exact import measure as measuring
from veridp.engines.exact.measure import NoiseRegion, RowForm
from veridp.engines.exact.noise import numeric
from veridp.errors import NotExact
from veridp.kernel import noise as d

KINDS = [d.Laplace, d.Exponential, d.Uniform, d.Normal, d.Gumbel, d.Logistic]
CLOSE = 1e-12


def form(terms: dict[int, float], constant: ArrayLike) -> RowForm:
    return RowForm(tuple(terms.items()), np.atleast_1d(np.asarray(constant, dtype=float)))


def noises(*distributions: d.Distribution) -> dict[int, d.Distribution]:
    return {index: numeric(distribution) for index, distribution in enumerate(distributions)}


def measure(noise: dict[int, d.Distribution], *forms: RowForm) -> float:
    return math.exp(NoiseRegion(noise, forms).log_measure()[0])


def below(first: int, second: int, gap: float = 0.0) -> RowForm:
    """variable `first` <= variable `second` + gap"""
    return form({first: -1.0, second: 1.0}, gap)


# ------------------------------------------------------------------------------------------------------- symmetry


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_order_of_equal_noise_is_as_likely(kind: Any, count: int) -> None:
    """A chain of conditions: one order of `count`, so 1/count!."""
    noise = noises(*[kind(Fraction(3, 2))] * count)
    for order in ((*range(count),), (*range(1, count), 0)):
        links = [below(a, b) for a, b in itertools.pairwise(order)]
        assert measure(noise, *links) == pytest.approx(1 / math.factorial(count), rel=CLOSE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 5, 9])
def test_each_of_equal_noise_is_as_likely_the_largest(kind: Any, count: int) -> None:
    """A star of conditions, its middle the largest."""
    noise = noises(*[kind(Fraction(3, 2))] * count)
    assert measure(noise, *(below(other, 0) for other in range(1, count))) == pytest.approx(1 / count, rel=CLOSE)


@pytest.mark.parametrize("kind", [d.Laplace, d.Normal, d.Logistic])
def test_a_deep_tree(kind: Any) -> None:
    """n1 > n0 and n2 > n0 with a child each: 6 variables; the orders of a tree number n!/∏(sizes of its subtrees)."""
    noise = noises(*[kind(2)] * 6)
    links = [below(0, 1), below(0, 2), below(1, 3), below(1, 4), below(2, 5)]
    assert measure(noise, *links) == pytest.approx(1 / (6 * 3 * 2), rel=1e-11)


def test_geometric_ties() -> None:
    """P[X = Y] = p/(2-p) and P[X < Y] = (1-p)/(2-p) for two geometric draws; integers lie halfway from the bounds."""
    p = Fraction(1, 5)
    noise = noises(d.Geometric(p), d.Geometric(p))
    assert measure(noise, below(0, 1, -0.5)) == pytest.approx(0.8 / 1.8, rel=CLOSE)
    assert measure(noise, below(0, 1, 0.5), below(1, 0, 0.5)) == pytest.approx(0.2 / 1.8, rel=CLOSE)


# --------------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("gap", [0.0, 1.0, 30.0, 300.0, 650.0])
def test_a_difference_of_laplace_noise_deep_into_its_tail(gap: float) -> None:
    """P[X - Y >= z] = e^-z (2 + z)/4: below 1e-280 at the end."""
    found = NoiseRegion(noises(d.Laplace(1), d.Laplace(1)), (form({0: 1, 1: -1}, -gap),)).log_measure()[0]
    assert found == pytest.approx(-gap + math.log((2 + gap) / 4), rel=1e-13, abs=CLOSE)


def test_laplace_noise_of_different_scales() -> None:
    """P[X >= Y + z] = (b² e^(-z/b) - c² e^(-z/c)) / (2 (b² - c²)) for z >= 0."""
    b, c, z = 3.0, 0.5, 4.0
    expected = (b**2 * math.exp(-z / b) - c**2 * math.exp(-z / c)) / (2 * (b**2 - c**2))
    assert measure(noises(d.Laplace(3), d.Laplace(Fraction(1, 2))), below(1, 0, -z)) == pytest.approx(
        expected, rel=CLOSE
    )


@pytest.mark.parametrize("level", [0.5, 4.0, 40.0])
def test_sums_of_exponential_noise(level: float) -> None:
    """A condition on three (or four) at once fixes one (or two): a gamma tail."""
    three = form(dict.fromkeys(range(3), 1.0), -level)
    assert measure(noises(*[d.Exponential(1)] * 3), three) == pytest.approx(stats.gamma.sf(level, 3), rel=CLOSE)


def test_a_sum_of_four() -> None:
    four = form(dict.fromkeys(range(4), 1.0), -5.0)
    assert measure(noises(*[d.Exponential(1)] * 4), four) == pytest.approx(stats.gamma.sf(5.0, 4), rel=CLOSE)


def test_a_sum_of_uniform_noise() -> None:
    """P[U1 + U2 + U3 <= 3/2] = 1/2, and P[U1 + U2 + U3 <= 1] = 1/6."""
    noise = noises(*[d.Uniform(1)] * 3)
    for level, expected in ((1.5, 1 / 2), (1.0, 1 / 6)):
        assert measure(noise, form(dict.fromkeys(range(3), -1.0), level)) == pytest.approx(expected, rel=CLOSE)


def test_a_weighted_sum_of_normal_noise() -> None:
    """2X - Y + Z/2 >= 3 with variances 1, 4, 9: the tail of a normal of variance 4 + 4 + 9/4."""
    noise = noises(d.Normal(1), d.Normal(2), d.Normal(3))
    found = measure(noise, form({0: 2.0, 1: -1.0, 2: 0.5}, -3.0))
    assert found == pytest.approx(stats.norm.sf(3 / math.sqrt(10.25)), rel=CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_on_the_variable_that_is_fixed(kind: Any) -> None:
    """P[X <= 1 and X + Y + Z >= 0] and P[X <= 1 and X + Y + Z < 0] make P[X <= 1], however smooth Y and Z are."""
    noise = noises(d.Exponential(1), kind(1), kind(2))
    bound = form({0: -1.0}, 1.0)
    parts = [measure(noise, bound, form({0: sign, 1: sign, 2: sign}, 0.0)) for sign in (1.0, -1.0)]
    assert sum(parts) == pytest.approx(-math.expm1(-1), rel=1e-11)


@pytest.mark.parametrize(("count", "span"), [(3, 0.7), (3, 4.0), (4, 1.5)])
def test_a_circle_of_conditions(count: int, span: float) -> None:
    """n0 < n1 < … < n0 + c. The gaps of exponential noise in order are exponential: (1 - e^-c)^(k-1) / k!."""
    links = [below(k, k + 1) for k in range(count - 1)] + [below(count - 1, 0, span)]
    expected = (-math.expm1(-span)) ** (count - 1) / math.factorial(count)
    assert measure(noises(*[d.Exponential(1)] * count), *links) == pytest.approx(expected, rel=CLOSE)


def test_two_circles_that_share_no_variable_to_cut() -> None:
    """Three within c of each other, both ways: (1 - e^-c)²; and four uniform draws in order, each two steps within 1/2.

    In the second, with the last within 3/4 of the first, two have to be fixed before the rest is a tree. The gaps
    (a, b, c) of ordered uniform draws have volume ∫ (1 - a - b - c) over a + b <= 1/2, b + c <= 1/2, a + b + c <= 3/4.
    """
    links = [below(a, b, 0.8) for a, b in itertools.permutations(range(3), 2)]
    found = measure(noises(*[d.Exponential(1)] * 3), *links)
    assert found == pytest.approx(math.expm1(-0.8) ** 2, rel=CLOSE)
    chain = [below(k, k + 1) for k in range(3)]
    spans = [below(2, 0, 0.5), below(3, 1, 0.5), below(3, 0, 0.75)]
    expected = _integral(lambda b: _integral(lambda a: _slab(a, b), 0, 0.5 - b, (0.25,)), 0, 0.5, (0.25,))
    assert measure(noises(*[d.Uniform(1)] * 4), *chain, *spans) == pytest.approx(expected, rel=1e-11)


def _slab(a: Any, b: Any) -> Any:
    """∫ (1 - a - b - c) dc for c from 0 to the least of 1/2 - b and 3/4 - a - b."""
    top = min(mp.mpf(1) / 2 - b, mp.mpf(3) / 4 - a - b)
    return (1 - a - b) * top - top**2 / 2


def _integral(function: Any, low: Any, high: Any, breaks: tuple[float, ...] = ()) -> Any:
    return mp.quad(function, [low, *(b for b in breaks if low < b < high), high])


def test_integer_and_continuous_noise_together() -> None:
    """P[K + X >= t] for geometric K and Laplace X, as a sum over K."""
    with mp.workdps(30):
        terms = (
            mp.mpf(3) / 4 * mp.mpf(1) / 4 ** mp.mpf(k - 1) * _laplace_above(mp.mpf("6.3") - k) for k in range(1, 80)
        )
        expected = float(mp.fsum(terms))
    found = measure(noises(d.Geometric(Fraction(3, 4)), d.Laplace(1)), form({0: 1.0, 1: 1.0}, -6.3))
    assert found == pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_integer_noise_below_continuous_noise(kind: Any) -> None:
    """P[X + K >= 0 and X + U + 1 > 0] and the other three cases: the steps of K are breaks of the integrand over X."""
    noise = noises(d.Geometric(Fraction(2, 5)), kind(1), d.Uniform(1))
    first, second = form({0: 1.0, 1: 1.0}, 0.0), form({1: 1.0, 2: 1.0}, 1.0)
    turned = [form({v: -c for v, c in f.coefficients}, -f.constant) for f in (first, second)]
    parts = [measure(noise, a, b) for a in (first, turned[0]) for b in (second, turned[1])]
    assert sum(parts) == pytest.approx(1, rel=1e-11)
    assert sum(parts[:2]) == pytest.approx(measure(noise, first), rel=1e-11)


def _laplace_above(x: Any) -> Any:
    return mp.exp(-x) / 2 if x > 0 else 1 - mp.exp(x) / 2


# ----------------------------------------------------------------------------------------------------- quadrature

LAWS: dict[type, Any] = {
    d.Laplace: stats.laplace,
    d.Exponential: stats.expon,
    d.Uniform: stats.uniform,
    d.Normal: stats.norm,
    d.Gumbel: stats.gumbel_r,
    d.Logistic: stats.logistic,
}


@pytest.mark.parametrize("middle", KINDS)
def test_a_star_of_mixed_noise(middle: Any) -> None:
    """∫ f(x) ∏ P[ray within its bounds of x], by scipy between the breakpoints."""
    ray_kinds = [(d.Laplace, 1), (d.Normal, 2), (d.Uniform, 4), (d.Gumbel, 1), (d.Exponential, 2), (d.Logistic, 1)]
    noise = noises(middle(3), *(kind(scale) for kind, scale in ray_kinds))
    shifts = [0.5, -1.0, 0.25, -0.75, 1.0, 0.0]
    links = [below(ray, 0, shift) for ray, shift in enumerate(shifts, 1)]
    links += [below(0, 2, 3.0)]  # the normal ray is bounded on both sides

    def integrand(x: float) -> float:
        value = LAWS[middle].pdf(x, scale=3)
        for ray, ((kind, scale), shift) in enumerate(zip(ray_kinds, shifts, strict=True), 1):
            value *= LAWS[kind].cdf(x + shift, scale=scale) - (LAWS[kind].cdf(x - 3, scale=scale) if ray == 2 else 0)
        return float(value)

    ends = [-60.0, -1.0, -0.5, -0.25, 0.0, 3.0, 3.75, 20.0, 150.0]
    parts = [integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-12, limit=200)[0] for a, b in itertools.pairwise(ends)]
    assert measure(noise, *links) == pytest.approx(math.fsum(parts), rel=1e-11)


@pytest.mark.parametrize("kind", [d.Laplace, d.Normal, d.Uniform])
def test_conditions_on_three_and_two(kind: Any) -> None:
    """P[n0 + n1 >= 2 n2 + 1/2 and n0 <= n1 + 1], by nested quadrature over n2 and n1."""
    law = LAWS[kind]

    def integrand(x: float, y: Any) -> Any:
        """P[n0 between 2x + 1/2 - y and y + 1], times the densities of n2 = x and n1 = y."""
        inside = law.cdf(y + 1) - law.cdf(2 * x + 0.5 - y)
        return law.pdf(x) * law.pdf(y) * np.maximum(inside, 0.0)

    low, high = (0.0, 1.0) if kind is d.Uniform else (-32.0, 32.0)

    def over_y(x: float) -> float:
        corners = [x - 0.25, 2 * x + 0.5, 2 * x - 0.5, -1.0, 0.0, 1.0]
        ends = np.unique(np.clip([*np.linspace(low, high, 17), *corners], low, high))
        return _panels(lambda y: integrand(x, y), ends)

    outer = np.unique(np.clip([*np.linspace(low, high, 17), -0.75, -0.25, 0.25, 0.5, 0.75], low, high))
    expected = _panels(np.vectorize(over_y), outer)
    found = measure(noises(*[kind(1)] * 3), form({0: 1.0, 1: 1.0, 2: -2.0}, -0.5), below(0, 1, 1.0))
    assert found == pytest.approx(expected, rel=1e-10)


def _panels(function: Any, ends: Any) -> float:
    """The integral by 40 Gauss-Legendre nodes between each two ends."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half, centre = np.diff(ends)[:, None] / 2, ((ends[:-1] + ends[1:]) / 2)[:, None]
    return float(np.sum(half * weights * function(centre + half * nodes)))


# --------------------------------------------------------------------------------------------- densities, and rows


def test_the_density_of_a_sum() -> None:
    """A further density at a form of the variables: sums of two Laplace, and of two normal, draws."""
    at = np.array([-20.0, -3.0, 0.0, 0.5, 7.0, 200.0])
    tie = RowForm(((0, -1.0),), at)
    laplace = numeric(d.Laplace(1))
    found = NoiseRegion({0: laplace}, (), ((laplace, tie),), len(at)).log_measure()
    assert found == pytest.approx(np.log1p(np.abs(at)) - np.abs(at) - math.log(4), abs=CLOSE, rel=1e-13)
    wide, narrow = numeric(d.Normal(2)), numeric(d.Normal(1))
    found = NoiseRegion({0: wide}, (), ((narrow, RowForm(((0, -1.0),), at[:5])),), 5).log_measure()
    assert found == pytest.approx(stats.norm.logpdf(at[:5], scale=math.sqrt(5)), abs=CLOSE, rel=1e-13)


def test_the_density_of_a_maximum() -> None:
    """Three exponential draws: 3 e^-z (1 - e^-z)², the largest fixed at z and the others below it."""
    z = np.array([0.01, 1.0, 5.0, 50.0])
    noise = {1: numeric(d.Exponential(1)), 2: numeric(d.Exponential(1))}
    forms = tuple(RowForm(((v, -1.0),), z) for v in noise)
    tie = (numeric(d.Exponential(1)), RowForm((), z))
    found = math.log(3) + NoiseRegion(noise, forms, (tie,), 4).log_measure()
    assert found == pytest.approx(math.log(3) - z + 2 * np.log(-np.expm1(-z)), rel=1e-12)


def _random_tree(seed: int, ties: bool) -> NoiseRegion:
    """Three rows of a random tree of six variables; its leaves differ between rows, or its bounds alone."""
    rng = np.random.default_rng(seed)
    kinds = [d.Laplace(1), d.Normal(2), d.Exponential(2), d.Uniform(3), d.Logistic(1), d.Gumbel(1)]
    noise = noises(*(kinds[k] for k in rng.permutation(6)))
    forms = []
    for child in range(1, 6):
        slope = float(rng.choice([-1, 1, 2]))
        forms.append(form({child: float(rng.choice([-1, 1])), int(rng.integers(child)): slope}, rng.normal(2, 1, 3)))
    densities = ((numeric(d.Laplace(2)), form({0: 1.0}, rng.normal(0, 2, 3))),) if ties else ()
    return NoiseRegion(noise, tuple(forms), densities, 3)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_many_rows_are_as_one_by_one(seed: int, ties: bool) -> None:
    region = _random_tree(seed, ties)
    one_by_one = [region.some(slice(row, row + 1)).log_measure()[0] for row in range(3)]
    assert region.log_measure() == pytest.approx(one_by_one, abs=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_one_grid_for_all_rows_is_as_a_grid_for_each(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that differ in the bounds of the middle alone share a grid; without sharing they get the same measures."""
    tree = _random_tree(seed, ties=False)
    same = tuple(RowForm(f.coefficients, np.repeat(f.constant[:1], 5)) for f in tree.inequalities)
    levels = np.array([-4.0, -1.0, 0.0, 0.75, 3.0])
    region = NoiseRegion(tree.noise, (*same, RowForm(((0, 1.0),), levels)), (), 5)
    shared = region.log_measure()
    monkeypatch.setattr(elimination.Tree, "_varies", lambda *_: True)
    assert region.log_measure() == pytest.approx(shared, abs=1e-11)


@pytest.mark.parametrize("ties", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_further_densities_at_many_points_are_those_at_each(kind: Any, ties: int) -> None:
    """Many points share their sums where densities are exponential between kinks; one alone has a grid of its own."""
    noise = noises(d.Laplace(2), d.Normal(1), d.Exponential(3))
    links = (below(1, 0, 0.5), form({2: -1.0, 0: -2.0}, 3.0), form({0: 1.0}, 4.0))
    rng = np.random.default_rng(ties)
    given = [(numeric(kind(2)), rng.normal(scale=5, size=40), factor) for factor in (1.0, -0.5)[:ties]]
    densities = tuple((tie, RowForm(((0, factor),), constants)) for tie, constants, factor in given)
    rows = tuple(RowForm(link.coefficients, np.repeat(link.constant, 40)) for link in links)
    region = NoiseRegion(noise, rows, densities, 40)
    one_by_one = np.array([region.some(slice(row, row + 1)).log_measure()[0] for row in range(40)])
    counts = one_by_one > -math.inf if numeric(kind(2)).stretches else one_by_one > -50  # e^-e^x is steep far out
    assert region.log_measure()[counts] == pytest.approx(one_by_one[counts], abs=1e-12)
    assert np.isneginf(region.log_measure()).tolist() == np.isneginf(one_by_one).tolist()
    assert counts.sum() >= 5


def test_the_difference_of_geometric_noise() -> None:
    """P[X - Y = k] = p/(2-p) (1-p)^|k| for two geometric draws, at many k at once and at each alone; 0 between."""
    p = 0.1
    noise = numeric(d.Geometric(Fraction(1, 10)))
    steps = np.array([*range(-300, 301, 7), 0.5])
    region = NoiseRegion({0: noise}, (), ((noise, RowForm(((0, 1.0),), steps)),), len(steps))
    expected = np.log(p / (2 - p)) + np.abs(steps) * np.log1p(-p)
    expected[-1] = -np.inf
    assert region.log_measure() == pytest.approx(expected, rel=1e-13)
    assert region.some(slice(3, 4)).log_measure()[0] == pytest.approx(expected[3], rel=1e-13)


def test_two_further_geometric_densities() -> None:
    """Three draws, of which two are tied to the third at given distances, against the sum in 30 digits."""
    p, q = mp.mpf(1) / 5, mp.mpf(1) / 3
    first, second = np.array([0.0, 3.0, -4.0]), np.array([1.0, 8.0, 12.0])
    noise, other = numeric(d.Geometric(Fraction(1, 5))), numeric(d.Geometric(Fraction(1, 3)))
    ties = ((noise, RowForm(((0, 1.0),), first)), (other, RowForm(((0, -1.0),), second)))
    found = NoiseRegion({0: noise}, (), ties, 3).log_measure()

    def mass(chance: Any, k: int) -> Any:
        return chance * (1 - chance) ** (k - 1) if k >= 1 else mp.mpf(0)

    with mp.workdps(30):
        for row, (a, b) in enumerate(zip(first, second, strict=True)):
            total = mp.fsum(mass(p, k) * mass(p, k + int(a)) * mass(q, int(b) - k) for k in range(1, 40))
            assert found[row] == (pytest.approx(float(mp.log(total)), abs=1e-13) if total else -math.inf)


def test_what_nothing_bounds_is_left_out_and_parts_multiply() -> None:
    noise = noises(d.Laplace(1), d.Normal(1), d.Gumbel(1), d.Uniform(2))
    half, quarter = form({0: 1.0}, 0.0), form({3: -1.0}, 0.5)
    assert measure(noise, half, quarter) == pytest.approx(1 / 8, rel=1e-15)
    assert measure(noise) == 1.0


def test_nothing_satisfies_a_contradiction() -> None:
    noise = noises(d.Laplace(1), d.Exponential(1))
    assert measure(noise, form({0: 1.0}, -1.0), form({0: -1.0}, 0.5)) == 0.0
    assert measure(noise, below(0, 1, -1.0), below(1, 0, 0.5)) == 0.0
    assert measure(noise, form({1: -1.0}, -0.1)) == 0.0
    assert measure(noise, form({}, -1e-9)) == 0.0
    assert measure(noise, form({}, 0.0)) == 1.0


# ------------------------------------------------------------------------------------------------------ its limits


def test_more_than_two_to_fix_is_refused() -> None:
    """Every two of five are linked: with two fixed, the other three still go in a circle."""
    assert measuring.MOST_CUTS == 2
    links = [below(a, b, 1.0) for a, b in itertools.combinations(range(5), 2)]
    expected = (
        r"^n2, n3, n4 are entangled by conditions that link more than two at a time or form cycles "
        r"\(fixing 2 does not make a tree\); use an engine that samples$"
    )
    with pytest.raises(NotExact, match=expected):
        measure(noises(*[d.Exponential(1)] * 5), *links)


def test_a_sum_of_five_is_refused() -> None:
    with pytest.raises(NotExact, match=r"^n2, n3, n4 are entangled by .* use an engine that samples$"):
        measure(noises(*[d.Laplace(1)] * 5), form(dict.fromkeys(range(5), 1.0), -1.0))
