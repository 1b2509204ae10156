"""Certified enclosures: against closed forms, mpmath at 50 digits, and the numeric engine, which shares none of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

import veridp
from veridp.claim import Claim, Interval
from veridp.engines.exact.certified import Measures, certify, enclose, outputs
from veridp.engines.exact.event import ExactEvent, LinearEntry, NumberSpan
from veridp.engines.exact.exponential import Piecewise
from veridp.engines.exact.masses import log_masses
from veridp.engines.exact.noise import law
from veridp.engines.exact.pieces import DistributionPiece, factors
from veridp.errors import NotExact
from veridp.kernel import noise as d
from veridp.kernel.explore import explore
from veridp.kernel.output import Template
from veridp.numerics.balls import FIRST_BITS, ball

SVT_PAIR = [10] * 9 + [-10], [9] * 9 + [-9]
catalogue = veridp.catalogue


def holds(enclosure: Interval, value: Any) -> bool:
    """Whether the interval holds a value that is known to far more digits than a float has."""
    return bool(mpmath.mpf(enclosure.lower) <= value <= mpmath.mpf(enclosure.upper))


def probability(function: Callable[..., Any], data: Any, output: Any = True) -> Interval:
    """The enclosure of the probability of one output."""
    tree = tuple(output) if isinstance(output, list) else output
    return enclose(explore(function, data, defer=True), ExactEvent(template=Template(tree)))


def width(enclosure: Interval) -> float:
    return (enclosure.upper - enclosure.lower) / enclosure.upper


@pytest.fixture(autouse=True)
def fifty_digits() -> Any:
    with mpmath.workdps(50):
        yield


# ------------------------------------------------------------------------------------ agreement with the numeric engine


def running_maximum(rng: Any, data: Sequence[float]) -> tuple[int, int]:
    """The place of the maximum and how often it changed: comparisons with whatever is largest so far."""
    largest, place, changes = data[0] + rng.laplace(scale=2), 0, 0
    for index, value in enumerate(data[1:], start=1):
        noisy = value + rng.laplace(scale=2)
        if noisy > largest:
            largest, place, changes = noisy, index, changes + 1
    return place, changes


def ascending(kinds: Sequence[str]) -> Callable[..., bool]:
    """A chain of conditions, as deep as it is long."""

    def chain(rng: Any, data: Sequence[float]) -> bool:
        noisy = [value + getattr(rng, kind)() for value, kind in zip(data, kinds, strict=True)]
        return all(bool(low < high) for low, high in itertools.pairwise(noisy))

    return chain


def clipped(rng: Any, data: Sequence[float]) -> Any:
    return np.clip(data[0] + rng.laplace(scale=3), 0, 1)


def mixture(rng: Any, data: Sequence[float]) -> list[bool]:
    level = rng.exponential(scale=2) - rng.choice([0.0, 0.5], p=[0.25, 0.75])
    return [bool(value + rng.random() * 4 > level) for value in data] + [bool(rng.laplace() > level)]


def star(middle: str, rays: Sequence[str]) -> Callable[..., list[bool]]:
    def passed(rng: Any, data: Sequence[float]) -> list[bool]:
        level = getattr(rng, middle)(scale=2.0) if middle != "random" else rng.random() * 2
        return [bool(value + getattr(rng, ray)() > level) for value, ray in zip(data, rays, strict=True)]

    return passed


def integers(rng: Any, data: Sequence[int]) -> list[bool]:
    shared = rng.poisson(2.5)
    return [
        bool(rng.geometric(0.3) - rng.geometric(0.3) >= data[0]),
        bool(rng.binomial(5, 0.3) <= shared),
        bool(rng.geometric(0.25) > shared),
        bool(rng.laplace(scale=2) < shared - 3),
    ]


@pytest.mark.parametrize(
    ("mechanism", "data", "arguments"),
    [
        (catalogue["svt1"], [3, -2, 0.5, 7], {}),
        (catalogue["svt2"], [3, -2, 0.5, 7], {"cutoff": 2}),
        (catalogue["svt4"], [3, -2, 0.5, 7], {"cutoff": 2}),
        (catalogue["svt6"], [3, -2, 0.5, 7, 7], {"epsilon": 2.0}),
        (catalogue["noisy_max1"], [1, 2.5, -3, 4], {"epsilon": 1.0}),
        (catalogue["noisy_max2"], [1, 2.5, -3, 4], {"epsilon": 1.0}),
        (running_maximum, [0, 1.5, -2, 1], {}),
        (ascending(["laplace", "exponential", "random", "laplace"]), [0.3, 0, 0.1, 1], {}),
        (clipped, [0.25], {}),
        (mixture, [0.5, -1.25], {}),
        (star("laplace", ["normal", "gumbel", "random"]), [0.5, 1, -1], {}),
        (star("normal", ["normal", "laplace", "exponential"]), [0.5, 1, -1], {}),
        (star("gumbel", ["gumbel", "logistic"]), [0.5, 1], {}),
        (star("logistic", ["logistic", "normal"]), [0.5, -1], {}),
        (star("random", ["normal", "laplace"]), [0.5, -1], {}),
        (integers, [2], {}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or getattr(value, "name", None),
)
def test_the_numeric_engine_agrees(mechanism: Any, data: Any, arguments: Any) -> None:
    paths = explore(mechanism, data, defer=True, **arguments)
    (whole,) = factors(paths, split=False)
    numeric = dict(zip((key.template for key in whole.classes), log_masses(list(whole.classes.values())), strict=True))
    certain = {output.event.template: output.probability for output in outputs(paths)}
    assert certain.keys() == numeric.keys()
    for template, enclosure in certain.items():
        assert width(enclosure) < 1e-15
        assert math.exp(numeric[template]) == pytest.approx(enclosure.lower, rel=1e-12)
    assert sum(p.lower for p in certain.values()) <= 1 + 1e-15 * len(certain)
    assert sum(p.upper for p in certain.values()) >= 1 - 1e-15 * len(certain)


@pytest.mark.parametrize("data", [[1000.5, -1000.25, 3], [-4000, 5000, -2000], [-2500.5, -2500.5, 2500.5]])
def test_the_numeric_engine_keeps_its_digits_where_outputs_are_all_but_impossible(data: list[float]) -> None:
    paths = explore(catalogue["svt6"], data, defer=True, epsilon=0.5)
    (whole,) = factors(paths, split=False)
    logs = log_masses(list(whole.classes.values()))
    with ctx.workprec(400):
        measures = Measures()
        certain = [measures.probability(pieces) for pieces in whole.classes.values()]
        assert min(map(float, certain)) < 1e-30
        for log, enclosure in zip(logs, certain, strict=True):
            assert log == pytest.approx(float(enclosure.log()), rel=1e-12, abs=1e-12)


def test_events_with_numeric_entries_agree_with_the_numeric_engine() -> None:
    for name, right in (
        ("gap_svt", [2, 1, 2]),
        ("svt3", [2, 1, 2]),
        ("numerical_svt", [0, 3, 2]),
        ("noisy_max3", [2, 3, 4]),
    ):
        comparison = veridp.exact.compare(catalogue[name], [1, 2, 3], right, epsilon=0.5)
        certain = veridp.exact.compare(catalogue[name], [1, 2, 3], right, epsilon=0.5, certified=True)
        for numeric, enclosed in (
            (comparison.witness.left_probability, certain.witness.left_probability),
            (comparison.witness.right_probability, certain.witness.right_probability),
        ):
            assert width(enclosed) < 1e-15
            assert numeric.lower < enclosed.lower <= enclosed.upper < numeric.upper
            assert (numeric.lower + numeric.upper) / 2 == pytest.approx(enclosed.lower, rel=1e-12)
        assert certain.witness.epsilon().upper <= comparison.epsilon * (1 + 1e-9)


# ---------------------------------------------------------------------------------------- closed forms and mpmath


def laplace_below(x: Any, scale: Any) -> Any:
    return mpmath.exp(x / scale) / 2 if x < 0 else 1 - mpmath.exp(-x / scale) / 2


def test_a_sparse_vector_against_quadrature_at_fifty_digits() -> None:
    data, threshold = [mpmath.mpf(3), mpmath.mpf(-2), mpmath.mpf(1) / 2], mpmath.mpf(1) / 2

    def integrand(t: Any) -> Any:
        fail = [laplace_below(threshold + t - query, 40) for query in data]
        return mpmath.exp(-abs(t) / 20) / 40 * fail[0] * fail[1] * (1 - fail[2])

    breaks = sorted({mpmath.mpf(0), *(query - threshold for query in data)})
    value = mpmath.quad(integrand, [-6000, -600, -60, *breaks, 60, 600, 6000])
    enclosure = probability(catalogue["svt1"], [3, -2, 0.5], [False, False, True])
    assert holds(enclosure, value)
    assert width(enclosure) < 1e-15
    (whole,) = factors(explore(catalogue["svt1"], [3, -2, 0.5], defer=True), split=False)
    with ctx.workprec(256):  # and all the fifty digits
        pieces = whole.classes[next(key for key in whole.classes if key.template.tree == (False, False, True))]
        assert abs(Measures().probability(pieces) - arb(mpmath.nstr(value, 50))) < arb("1e-45")


@pytest.mark.parametrize("kind", ["laplace", "exponential", "random"])
@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_equal_noise_ascends_once_in_a_factorial(kind: str, length: int) -> None:
    enclosure = probability(ascending([kind] * length), [0] * length)
    assert holds(enclosure, mpmath.mpf(1) / math.factorial(length))
    assert width(enclosure) < 1e-15


def test_a_chain_with_shifts_against_nested_quadrature() -> None:
    """P[X1 < X2 + a < X3 + b], of Laplace, exponential and uniform noise: integrals by hand over the first two."""
    a, b = mpmath.mpf("0.25"), mpmath.mpf("0.75")

    def third(y: Any) -> Any:  # P[y < U + b]
        return max(mpmath.mpf(0), min(mpmath.mpf(1), 1 + b - y))

    value = mpmath.quad(lambda y: mpmath.exp(a - y) * laplace_below(y, 1) * third(y), [a, b, 1 + b])
    assert holds(probability(ascending(["laplace", "exponential", "random"]), [0, 0.25, 0.75]), value)


def test_the_maximum_of_gumbel_noise_is_a_softmax() -> None:
    def largest(rng: Any, data: Sequence[float]) -> int:
        return int(np.argmax([value + rng.gumbel(scale=1.5) for value in data]))

    data = [0.5, 2, -1]
    weights = [mpmath.exp(mpmath.mpf(value) / 1.5) for value in data]
    for place, weight in enumerate(weights):
        assert holds(probability(largest, data, place), weight / sum(weights))


def test_differences_of_normal_noise_against_the_error_function() -> None:
    def ahead(rng: Any, data: Sequence[float]) -> bool:
        return bool(data[0] + rng.normal(scale=3) > rng.normal(scale=4))

    for shift in (0.0, 1.0, -40.0):
        value = mpmath.erfc(-mpmath.mpf(shift) / (5 * mpmath.sqrt(2))) / 2
        enclosure = probability(ahead, [shift])
        assert holds(enclosure, value)
        assert width(enclosure) < 1e-15


def test_logistic_noise_against_quadrature() -> None:
    def ahead(rng: Any, data: Sequence[float]) -> bool:
        return bool(data[0] + rng.logistic() > rng.logistic(scale=2))

    def integrand(x: Any) -> Any:
        return mpmath.exp(-x) / (1 + mpmath.exp(-x)) ** 2 / (1 + mpmath.exp(-(x + mpmath.mpf("1.25")) / 2))

    value = mpmath.quad(integrand, [-130, -30, -10, -3, 0, 3, 10, 30, 130])
    assert holds(probability(ahead, [1.25]), value)


def test_differences_of_geometric_noise_are_a_discrete_laplace() -> None:
    def difference(rng: Any, data: Sequence[int]) -> Any:
        return data[0] + rng.geometric(0.25) - rng.geometric(0.25)

    paths = explore(difference, [3], defer=True)
    for value in range(-4, 12):
        exact = Fraction(1, 7) * Fraction(3, 4) ** abs(value - 3)  # p/(2-p) · (1-p)^|k|
        enclosure = enclose(
            paths, ExactEvent(within=((LinearEntry(((0, 1.0),), ("output",)), (NumberSpan(value, value),)),))
        )
        assert Fraction(enclosure.lower) <= exact <= Fraction(enclosure.upper)
        assert width(enclosure) < 1e-15


def test_truth_values_of_equality_of_integers() -> None:
    assert 1 / 8 in probability(lambda rng, data: rng.geometric(0.5) == 3, [0])
    assert 7 / 8 in probability(lambda rng, data: rng.geometric(0.5) != 3, [0])
    assert probability(lambda rng, data: rng.laplace() != 0.5, [0]) == Interval.exactly(1.0)
    numeric = dict(veridp.exact.law(lambda rng, data: rng.geometric(0.5) == 3, [0]).classes())
    assert sorted(numeric.values()) == pytest.approx([1 / 8, 7 / 8], rel=1e-13)


def test_poisson_and_binomial_noise_against_sums() -> None:
    def ahead(rng: Any, data: Any) -> bool:
        return bool(rng.poisson(3.5) - rng.binomial(5, 0.25) > 1)

    quarter = mpmath.mpf(1) / 4
    value = mpmath.fsum(
        mpmath.binomial(5, k) * quarter**k * (1 - quarter) ** (5 - k) * mpmath.gammainc(k + 2, 0, 3.5, regularized=True)
        for k in range(6)
    )
    assert holds(probability(ahead, [0]), value)


def test_the_atoms_of_a_clipped_answer() -> None:
    paths = explore(clipped, [0.25], defer=True)
    atoms = {output.event.template.tree: output.probability for output in outputs(paths) if output.event.template}
    assert holds(atoms[0], laplace_below(mpmath.mpf("-0.25"), 3))
    assert holds(atoms[1], 1 - laplace_below(mpmath.mpf("0.75"), 3))
    output = LinearEntry(((0, 1.0),), ("output",))
    inside = enclose(paths, ExactEvent(within=((output, (NumberSpan(-math.inf, 0.5),)),)))
    assert holds(inside, laplace_below(mpmath.mpf("0.25"), 3))  # the atom at 0 lies in the span
    twice = enclose(paths, ExactEvent(within=((output, (NumberSpan(0.125, 0.5), NumberSpan(0.25, 0.75))),)))
    assert holds(twice, laplace_below(mpmath.mpf("0.5"), 3) - laplace_below(mpmath.mpf("-0.125"), 3))


# ---------------------------------------------------------------------------------------------- certified comparisons


def test_the_ten_query_sparse_vector() -> None:
    comparison = veridp.exact.compare(catalogue["svt1"], *SVT_PAIR, certified=True)
    assert comparison.enclosure is not None
    found = comparison.enclosure.epsilon
    assert found.upper - found.lower < 1e-12
    assert round(found.lower, 6) == round(found.upper, 6) == 0.099582
    assert comparison.epsilon == pytest.approx(found.lower, abs=1e-13)
    assert comparison.enclosure.bits == FIRST_BITS
    assert comparison.witness.left_probability.lower < comparison.witness.left_probability.upper


def test_a_broken_sparse_vector_is_refuted_for_certain() -> None:
    witness = veridp.exact.compare(catalogue["svt4"], *SVT_PAIR, certified=True).witness
    assert witness.confidence == 1.0
    assert witness.refutes(Claim(0.1))
    assert witness.refutes(Claim(0.174999))
    assert not witness.refutes(Claim(0.175))  # its true cost


def test_what_is_impossible_on_one_side_is_infinite_for_certain() -> None:
    for name in ("svt5", "noisy_max4"):
        comparison = veridp.exact.compare(catalogue[name], [1, 2, 3], [2, 1, 2], certified=True)
        assert comparison.enclosure is not None
        assert comparison.enclosure.epsilon == Interval.exactly(math.inf)
        assert comparison.witness.right_probability == Interval.exactly(0.0)
        assert comparison.witness.left_probability.lower > 0


@pytest.mark.parametrize(
    ("name", "left", "right", "true"),
    [
        ("laplace", [1, 2, 3], [1, 2, 4], Fraction(1, 10)),
        ("noisy_hist2", [1, 2], [2, 2], Fraction(10)),
        ("prefix_sum", [1.0, 2, 3], [2.0, 1, 4], Fraction(3, 10)),
        ("smart_sum", [1, 2, 3], [2, 2, 3], Fraction(2, 10)),
        ("smart_sum", [1, 2, 3], [1, 3, 3], Fraction(1, 10)),
    ],
)
def test_laplace_entries_have_both_ends(name: str, left: Any, right: Any, true: Fraction) -> None:
    """All scales are 1/ε with ε = 0.1, which floats make 10 exactly (0.1 itself for noisy_hist2)."""
    comparison = veridp.exact.compare(catalogue[name], left, right, certified=True)
    assert comparison.enclosure is not None
    found = comparison.enclosure.epsilon
    if name == "noisy_hist2":
        true = 1 / Fraction(0.1)
    assert Fraction(found.lower) <= true <= Fraction(found.upper)
    assert found.upper - found.lower < 1e-12
    assert not comparison.witness.refutes(Claim(math.nextafter(float(true), math.inf)))


def test_geometric_entries_have_both_ends() -> None:
    comparison = veridp.exact.compare(catalogue["geometric"], [1, 2], [2, 2], epsilon=0.5, certified=True)
    assert comparison.enclosure is not None
    drawn = explore(catalogue["geometric"], [1, 2], epsilon=0.5)[0].noises[0].distribution
    assert isinstance(drawn, d.Geometric)
    success = mpmath.mpf(drawn.p.numerator) / drawn.p.denominator  # the float that stands for 1 - e^-ε
    assert holds(comparison.enclosure.epsilon, -mpmath.log(1 - success))
    assert width(comparison.enclosure.epsilon) < 1e-15


def test_other_entries_have_a_lower_end_alone() -> None:
    for name in ("gap_svt", "gaussian"):
        comparison = veridp.exact.compare(catalogue[name], [1, 2], [1, 3], certified=True)
        assert comparison.enclosure is not None
        assert comparison.enclosure.epsilon.upper == math.inf
        assert 0 < comparison.enclosure.epsilon.lower <= comparison.epsilon


def test_many_independent_answers_are_certified_together() -> None:
    comparison = veridp.exact.compare(catalogue["one_time_rappor"], 0, 1, certified=True)
    assert comparison.enclosure is not None
    kept = 1 - mpmath.mpf(0.95) / 2
    found = comparison.enclosure.epsilon
    assert abs(found.lower - 6 * mpmath.log(kept / (1 - kept))) < 1e-13
    assert found.upper - found.lower < 1e-13


def test_outputs_that_two_classes_share_are_not_told_apart() -> None:
    """A 3 may be the constant or the noise: the loss of the constant's class is none that an output shows."""

    def three_or_noise(rng: Any, data: Sequence[float]) -> Any:
        return 3 if rng.random() < data[0] else rng.geometric(0.5)

    comparison = veridp.exact.compare(three_or_noise, [0.5], [0.25], certified=True)
    assert comparison.enclosure is not None
    true = math.log((0.5 + 0.5 / 8) / (0.25 + 0.75 / 8))
    assert true in comparison.enclosure.epsilon


def test_left_and_right_are_those_of_the_comparison() -> None:
    one, other = SVT_PAIR
    for left, right in ((one, other), (other, one)):
        comparison = veridp.exact.compare(catalogue["svt1"], left, right, certified=True)
        enclosure, witness = comparison.enclosure, comparison.witness
        assert enclosure is not None
        sides = {str(left): enclosure.left_probability, str(right): enclosure.right_probability}
        assert sides[str(witness.left)] == witness.left_probability
        assert sides[str(witness.right)] == witness.right_probability
        assert witness.epsilon().lower > 0.0995


# ------------------------------------------------------------------------------------------- limits, and tampering


def test_circles_and_deep_smooth_trees_are_refused() -> None:
    def circle(rng: Any, data: Any) -> bool:
        x, y, z = (rng.laplace() for _ in range(3))
        return bool(x < y) and bool(y < z) and bool(z < x + 1)

    with pytest.raises(NotExact, match=r"n0, n1, n2 .* only trees are enclosed"):
        probability(circle, [0])
    with pytest.raises(NotExact, match="more than one layer"):
        probability(ascending(["normal"] * 4), [0] * 4)
    with pytest.raises(NotExact, match="one alternative at a time"):
        enclose(explore(clipped, [0], defer=True), ExactEvent(either=(ExactEvent(), ExactEvent())))


def test_a_change_of_one_part_in_a_trillion_shows() -> None:
    """The enclosures are sharp enough to tell apart what a float of the answer cannot."""
    before = probability(catalogue["svt1"], [3, -2], [False, True])
    after = probability(catalogue["svt1"], [3 + 1e-12, -2], [False, True])
    assert before.upper < after.lower or after.upper < before.lower


def test_tampering_with_a_piece_shows() -> None:
    paths = explore(catalogue["svt1"], [3, -2, 0.5], defer=True)
    (whole,) = factors(paths, split=False)
    for pieces in whole.classes.values():
        (piece,) = pieces
        forged = [replace_conditions(piece, piece.conditions[:-1])]
        forged += [replace_conditions(piece, (*piece.conditions[:-1], ~piece.conditions[-1]))]
        with ctx.workprec(128):
            measures = Measures()
            honest, *others = (measures.probability([one]) for one in (piece, *forged))
            assert all(not honest.overlaps(other) for other in others)
            assert (honest + others[1]).overlaps(others[0])  # with the condition, and without it, is all


def replace_conditions(piece: DistributionPiece, conditions: Sequence[Any]) -> DistributionPiece:
    return replace(piece, conditions=tuple(conditions))


def test_an_event_of_another_output_has_another_probability() -> None:
    left, other = (explore(catalogue["svt1"], data, defer=True) for data in SVT_PAIR)
    right = certify(left, other, ExactEvent(template=Template((False,) * 9 + (True,))))
    wrong = certify(left, other, ExactEvent(template=Template((False,) * 10)))
    assert right.epsilon == wrong.epsilon  # of all outputs, whatever the event
    assert right.left_probability.upper < wrong.left_probability.lower
    nothing = certify(left, other, ExactEvent(template=Template((True,) * 10)))
    assert nothing.left_probability == nothing.right_probability == Interval.exactly(0.0)


# ------------------------------------------------------------------------------------ piecewise exponential polynomials

points = st.fractions(min_value=-5, max_value=5, max_denominator=64)
slopes = points.filter(bool)


def bump(low: Fraction, high: Fraction) -> Piecewise:
    """Laplace noise times a uniform tail: two kinks, three kinds of terms."""
    level = law(d.Uniform(Fraction(7, 2))).density.above()  # type: ignore[attr-defined]
    return (law(d.Laplace(Fraction(3, 2))).density * level).within(low, high)  # type: ignore[attr-defined]


@settings(deadline=None)
@given(low=points, high=points, slope=slopes, shift=points, at=points)
def test_laws_of_piecewise_exponential_polynomials(
    low: Fraction, high: Fraction, slope: Fraction, shift: Fraction, at: Fraction
) -> None:
    with ctx.workprec(128):
        function = bump(low, high)
        total = function.integral()
        assert (function.below().at(at) + function.above().at(at)).overlaps(total)
        assert function.below().at(Fraction(50)).overlaps(total)
        parts = function.within(None, at).integral() + function.within(at, None).integral()
        assert parts.overlaps(total)
        moved = function.composed(slope, shift)
        assert moved.below().at(at).overlaps((moved.within(None, at)).integral())
        assert (moved.integral() * ball(abs(slope))).overlaps(total)
        if slope * at + shift not in function.breaks:
            assert moved.at(at).overlaps(function.at(slope * at + shift))
        assert (function * moved).at(at).overlaps(function.at(at) * moved.at(at))
        assert (function - moved).at(at).overlaps(function.at(at) - moved.at(at))
        assert total.rad() < arb("1e-30")


def test_a_product_of_polynomials_and_exponentials_against_mpmath() -> None:
    with ctx.workprec(200):
        found = bump(Fraction(-1), Fraction(3)).composed(Fraction(2), Fraction(1, 3)).below().at(Fraction(5, 4))
    value = mpmath.quad(
        lambda t: mpmath.exp(-abs(2 * t + mpmath.mpf(1) / 3) / 1.5) / 3 * min(1, 1 - (2 * t + mpmath.mpf(1) / 3) / 3.5),
        [-mpmath.mpf(2) / 3, -mpmath.mpf(1) / 6, mpmath.mpf(5) / 4],
    )
    with ctx.workprec(200):
        assert abs(found - arb(mpmath.nstr(value, 50))) < arb("1e-45")


def test_what_does_not_decay_has_no_integral() -> None:
    with pytest.raises(ValueError, match="diverges"):
        Piecewise((), ({(0, Fraction(1)): arb(1)},)).integral()
