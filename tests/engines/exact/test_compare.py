"""Two inputs compared: the numbers of the literature, closed forms, and what one side alone can give."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

import veridp
from veridp.adjacency import adjacency
from veridp.catalogue.local import bloom_filter
from veridp.engines.exact import compare
from veridp.engines.exact.distribution import law, replayed_paths
from veridp.engines.exact.space import loss_between
from veridp.errors import BadInput, NotExact
from veridp.kernel.expressions import unknowns

EXACT = 1e-12
PUBLISHED = 1e-6


def catalogue(name: str, **arguments: Any) -> veridp.Mechanism:
    return veridp.catalogue[name].bind(**arguments)


# --------------------------------------------------------------------------------------- values of the catalogue

ONES, TWOS = [1.0] * 10, [2.0] * 10


@pytest.mark.parametrize(
    ("name", "left", "right", "epsilon"),
    [
        ("laplace", [3.0], [4.0], 0.1),
        ("laplace", [3.0], [3.25], 0.025),
        ("noisy_hist1", [1, 2, 3, 4, 5], [1, 2, 4, 4, 5], 0.1),
        ("noisy_hist2", [1, 2, 3, 4, 5], [1, 2, 3, 4, 4], 10.0),
        ("laplace_parallel", [1.0], [2.0], 0.1),
        ("truncated_geometric", [2], [3], math.log(1 + 2**-3)),
        ("noisy_max2", [1.0, 1.0], [0.0, 2.0], 0.1),
        ("noisy_max2", [1.0] * 5, [0.0, 2.0, 2.0, 2.0, 2.0], 0.1),
        ("noisy_max3", [1.0] * 5, [2.0] * 5, 0.25),
        ("svt3", ONES, TWOS, 0.5),
        ("at3", [1.0] * 4, [2.0] * 4, 0.2),
        ("bad_gap_svt", [1.0] * 5, [2.0] * 5, 0.125),
        ("bad_adaptive_svt", [1.0] * 5, [2.0] * 5, 0.1625),
        ("prefix_sum", ONES, TWOS, 1.0),
        ("prefix_sum", ONES, [0.0, 2.0] * 5, 1.0),
        ("partial_sum", [1.0, 2.0], [1.0, 3.0], 0.1),
        ("bad_partial_sum", [1.0, 2.0], [1.0, 3.0], 0.2),
        ("smart_sum", [1.0] * 5, [2.0, 1.0, 1.0, 1.0, 1.0], 0.2),
        ("finder_sum", [0.5, -1.0], [0.5, -1.0, 1.0], 0.1),
        ("randomized_response", False, True, 0.1),
        ("geometric", [3], [4], 0.1),
    ],
)
def test_where_the_true_cost_is_attained(name: str, left: Any, right: Any, epsilon: float) -> None:
    assert compare(catalogue(name), left, right).epsilon == pytest.approx(epsilon, rel=1e-9)


def test_prefix_sums_of_one_moved_query_cost_what_is_claimed() -> None:
    prefix_sum = dataclasses.replace(veridp.catalogue["prefix_sum"], adjacency=adjacency("l1"))
    assert compare(prefix_sum, ONES, [*ONES[:6], 2.0, *ONES[7:]]).epsilon == pytest.approx(0.1, rel=1e-9)
    with pytest.raises(BadInput, match="not neighbours under l1"):
        compare(prefix_sum, ONES, TWOS)


@pytest.mark.parametrize(
    ("name", "arguments", "left", "right", "epsilon"),
    [
        ("truncated_geometric", {}, [0], [1], 0.117783),
        ("svt1", {}, [10.0] * 9 + [-10.0], [9.0] * 9 + [-9.0], 0.099582),
        ("svt6", {"threshold": 1.0}, [9.0] * 5 + [-9.0] * 5, [10.0] * 5 + [-10.0] * 5, 0.467663),
        ("one_time_rappor", {}, 0, 1, 0.600501),
        ("rappor", {}, 0, 1, 0.300063),
        ("one_time_rappor", {}, -8, -6, 0.800668),
        ("rappor", {}, -8, -6, 0.400083),
    ],
)
def test_published_and_computed_figures(
    name: str, arguments: dict[str, Any], left: Any, right: Any, epsilon: float
) -> None:
    assert compare(catalogue(name, **arguments), left, right).epsilon == pytest.approx(epsilon, abs=PUBLISHED)


def test_rappor_counts_the_bits_that_differ() -> None:
    """At (0, 1) six bits of twenty differ, eight at (-8, -6): each tells ln((1 - f/2)/(f/2))."""
    for pair, bits in (((0, 1), 6), ((-8, -6), 8)):
        filters = [bloom_filter(value, 4, 20) for value in pair]
        assert np.sum(filters[0] != filters[1]) == bits
        assert compare(catalogue("one_time_rappor"), *pair).epsilon == pytest.approx(
            bits * math.log((1 - 0.475) / 0.475), rel=EXACT
        )


@pytest.mark.parametrize(
    ("name", "hits"), [("gap_svt", 1), ("numerical_svt", 2), ("svt1", 1), ("svt2", 1), ("svt4", 1)]
)
def test_costs_that_are_approached_with_the_distance(name: str, hits: int) -> None:
    """Misses far above the threshold, hits far below, both a step back: ε comes ever closer to the true cost."""
    mechanism = catalogue(name)
    size = mechanism.size
    truth = mechanism.true_epsilon(size)
    assert truth is not None
    found = []
    for far in (10.0, 100.0, 1000.0):
        left = [far] * (size - hits) + [-far] * hits
        right = [far - 1] * (size - hits) + [1 - far] * hits
        found.append(compare(mechanism, left, right).epsilon)
    assert found[0] < found[1] <= found[2] + 1e-12
    assert found[2] == pytest.approx(truth, abs=1e-6)
    assert max(found) <= truth + 1e-9


def test_noisy_max_of_two_against_pencil_and_paper() -> None:
    """Of two Laplace draws at distance d the lower wins with e^(-d/b) (2 + d/b)/4; (0, d) moves to (1, d - 1)."""
    b, far = 20.0, 10.0

    def lower_wins(distance: float) -> float:
        return math.exp(-distance / b) * (2 + distance / b) / 4

    comparison = compare(catalogue("noisy_max1"), [0.0, far], [1.0, far - 1])
    assert comparison.epsilon == pytest.approx(math.log(lower_wins(far - 2) / lower_wins(far)), rel=EXACT)
    (row,) = [row for row in comparison.table if row.event.holds(0)]
    assert (row.left, row.right) == pytest.approx((lower_wins(far), lower_wins(far - 2)), rel=EXACT)


@pytest.mark.parametrize("name", ["exponential_mechanism", "noisy_max_gumbel"])
def test_the_exponential_mechanism_and_its_twin(name: str) -> None:
    """P[i] is proportional to e^(ε score/2), whether chosen by weights or by Gumbel noise."""
    left, right = [0.0, 3.0, 1.0], [1.0, 2.5, 0.0]
    weights = [np.exp(0.1 * np.array(scores) / 2) for scores in (left, right)]
    p, q = (w / w.sum() for w in weights)
    comparison = compare(catalogue(name), left, right)
    assert comparison.epsilon == pytest.approx(np.max(np.abs(np.log(p / q))), rel=1e-11)
    for index in range(3):
        (row,) = [row for row in comparison.table if row.event.holds(index)]
        assert (row.left, row.right) == pytest.approx((p[index], q[index]), rel=EXACT)


# ------------------------------------------------------------------------------------------ what one side cannot give


@pytest.mark.parametrize(
    ("name", "epsilon", "left", "right"),
    [
        ("svt5", 0.1, ONES, [2.0] + [0.0] * 9),
        ("at5", 0.1, [1.0] * 4, [2.0, 0.0, 0.0, 0.0]),
        ("noisy_max4", 0.1, [1.0] * 5, [2.0] * 5),
        ("noisy_max4", 1.0, [1.0, 1.0], [2.0, 0.0]),
        ("bad_smart_sum", 0.1, [1.0] * 5, [2.0, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_infinite_with_a_witness(name: str, epsilon: float, left: Any, right: Any) -> None:
    """The event has positive probability on one side, exactly 0 on the other; and samples say so too."""
    mechanism = catalogue(name, epsilon=epsilon)
    comparison = compare(mechanism, left, right)
    witness = comparison.witness
    assert comparison.epsilon == math.inf
    assert witness.left_probability.lower > 0
    assert witness.right_probability.upper == 0.0
    assert witness.epsilon().lower == math.inf
    assert {str(witness.left), str(witness.right)} == {str(left), str(right)}
    rng = np.random.default_rng(3)
    happened = [witness.event.holds(mechanism(rng, witness.left)) for _ in range(2000)]  # type: ignore[attr-defined]
    assert not any(witness.event.holds(mechanism(rng, witness.right)) for _ in range(2000))  # type: ignore[attr-defined]
    # four standard deviations of 2000 draws, at most: a false alarm in 16,000 seeds
    assert np.mean(happened) == pytest.approx(witness.left_probability.lower, abs=2 / math.sqrt(2000))


def test_the_witness_of_a_shifted_support() -> None:
    """All five of [1]*5 below 2, where none of [2]*5 can be: (1 - e^(-ε/2))^5."""
    witness = compare(catalogue("noisy_max4"), [1.0] * 5, [2.0] * 5).witness
    assert witness.left_probability.lower == pytest.approx((-math.expm1(-0.05)) ** 5, rel=1e-9)


def test_densities_that_vanish_at_different_speeds() -> None:
    """Just above 1 the maximum of two has density ~ 2(z-1), that of one and two lower ones is positive: no bound."""
    comparison = compare(catalogue("noisy_max4"), [1.0, 1.0, 0.0], [0.0, 0.0, 1.0])
    assert comparison.epsilon == math.inf
    assert comparison.delta(30.0) < 1e-9  # the loss grows, but on next to nothing
    assert comparison.witness.epsilon().lower > 4
    assert str(comparison.witness.event).startswith("output in [1, 1.0")
    assert compare(catalogue("noisy_max4"), [1.0, 1.0], [1.0, 0.5]).epsilon == math.inf
    # as many at the top on either side: the densities vanish together
    assert compare(catalogue("noisy_max4"), [1.0, 1.0, 0.0], [1.0, 1.0, 0.5]).epsilon < 1.0


def test_normal_noise_has_no_finite_epsilon() -> None:
    comparison = compare(catalogue("gaussian"), [1.0], [2.0])
    assert comparison.epsilon == math.inf
    assert comparison.witness.left_probability.lower > comparison.witness.right_probability.upper > 0


def test_halves_exchanged_tell_nothing() -> None:
    """The sum of the two maxima is the same either way: ε is rounding, and the witness still has probabilities."""
    comparison = compare(catalogue("noisy_max_sum"), [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    assert comparison.epsilon < 1e-12
    assert comparison.witness.left_probability.upper <= 1.0


def test_a_deterministic_mechanism() -> None:
    comparison = compare(lambda rng, data: data > 2, 1.0, 3.0)
    assert comparison.epsilon == math.inf
    assert comparison.delta(5.0) == 1.0
    assert compare(lambda rng, data: data > 2, 3.0, 4.0).epsilon == 0.0


# ---------------------------------------------------------------------------------------- pencil and paper, by hand


def test_a_clipped_laplace_has_atoms_at_its_ends() -> None:
    """x + Lap(b) clipped to [0, 1]: half the mass sits on the end where x is, e^(-1/b)/2 on the other."""
    b = 2.0

    def clipped(rng: Any, x: float) -> Any:
        return np.clip(x + rng.laplace(scale=b), 0.0, 1.0)

    comparison = compare(clipped, 0.0, 1.0)
    rows = {str(row.event): (row.left, row.right) for row in comparison.table}
    assert rows["output is 0"] == pytest.approx((0.5, math.exp(-1 / b) / 2), rel=EXACT)
    assert rows["output is 1"] == pytest.approx((math.exp(-1 / b) / 2, 0.5), rel=EXACT)
    assert comparison.loss.masses() == pytest.approx((1, 1), abs=EXACT)
    assert comparison.epsilon == pytest.approx(1 / b, rel=EXACT)
    for epsilon in (0.0, 0.1, 0.3, 0.5):  # clipping keeps the event {x <= s} that attains δ
        assert comparison.delta(epsilon) == pytest.approx(1 - math.exp((epsilon - 1 / b) / 2), abs=EXACT)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.7, 1.0])
def test_laplace_noise(epsilon: float) -> None:
    """δ(ε) = 1 - e^((ε - Δ/b)/2) for a move by Δ."""
    comparison = compare(catalogue("laplace", epsilon=1.0), [3.0], [4.0])
    assert comparison.delta(epsilon) == pytest.approx(1 - math.exp((epsilon - 1) / 2), abs=EXACT)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0, 48.4])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.0, 3.0])
def test_gaussian_noise(scale: float, epsilon: float) -> None:
    """δ(ε) = Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ) (Balle and Wang 2018), at 30 digits."""

    def gaussian(rng: Any, x: float) -> Any:
        return x + rng.normal(scale=scale)

    with mp.workdps(30):
        s, e = mp.mpf(scale), mp.mpf(epsilon)
        expected = mp.ncdf(1 / (2 * s) - e * s) - mp.exp(e) * mp.ncdf(-1 / (2 * s) - e * s)
    assert compare(gaussian, 0.0, 1.0).delta(epsilon) == pytest.approx(float(expected), abs=1e-13, rel=1e-10)


def test_geometric_noise() -> None:
    """P[k] = (1-a)/(1+a) a^|k|, a = e^-ε: δ(ε') = Σ max(0, P[k] - e^ε' P[k-1]), by summing."""
    a = math.exp(-0.5)
    counts = np.arange(-200, 200)
    p = (1 - a) / (1 + a) * a ** np.abs(counts)
    q = (1 - a) / (1 + a) * a ** np.abs(counts - 1)
    comparison = compare(catalogue("geometric", epsilon=0.5), [0], [1])
    assert comparison.epsilon == pytest.approx(0.5, rel=1e-11)
    for epsilon in (0.0, 0.2, 0.45):
        expected = np.sum(np.maximum(0, p - math.exp(epsilon) * q))
        assert comparison.delta(epsilon) == pytest.approx(expected, abs=1e-11)


def test_randomized_response() -> None:
    """δ(ε') = (e^ε - e^ε')/(1 + e^ε)."""
    comparison = compare(catalogue("randomized_response", epsilon=1.0), False, True)
    for epsilon in (0.0, 0.4, 1.0, 2.0):
        expected = max(0.0, (math.e - math.exp(epsilon)) / (1 + math.e))
        assert comparison.delta(epsilon) == pytest.approx(expected, abs=EXACT)


def test_uniform_noise_shifts_its_support() -> None:
    """U[x, x+4]: ε = ∞, and δ(ε) = 1/4 for every ε, the mass that the other side cannot reach."""
    comparison = compare(lambda rng, x: x + rng.uniform(0, 4), 0.0, 1.0)
    assert comparison.epsilon == math.inf
    assert comparison.delta(0.0) == pytest.approx(0.25, abs=EXACT)
    assert comparison.delta(9.0) == pytest.approx(0.25, abs=EXACT)


def test_binomial_and_poisson_counts() -> None:
    """x + Poisson(4) against x + 1: no bound to the left of the support, and δ(0) the largest mass, at 4."""
    comparison = compare(lambda rng, x: x + rng.poisson(4), 0, 1)
    assert comparison.epsilon == math.inf
    assert comparison.delta(0.0) == pytest.approx(math.exp(-4) * 4**4 / 24, abs=1e-11)
    comparison = compare(lambda rng, x: x + rng.binomial(40, 0.5), 0, 1)
    assert comparison.delta(0.0) == pytest.approx(math.comb(40, 20) / 2**40, abs=1e-11)


@pytest.mark.parametrize("scale", [0.05, 0.5])
def test_continuous_and_integer_noise_in_one_number(scale: float) -> None:
    """x + Lap(b) + K moves by 1/2: ε is 1/(2b), and δ is that of a density with a peak at every integer."""
    comparison = compare(lambda rng, x: x + rng.laplace(scale=scale) + rng.geometric(0.4), 0.0, 0.5)
    assert comparison.epsilon == pytest.approx(0.5 / scale, rel=1e-9)
    step = scale / 128  # the midpoint rule between kinks: relative errors of 1/(24·128²)
    z, k = np.arange(-12.0, 40.0, step) + step / 2, np.arange(1, 60)
    p, q = (np.exp(-np.abs(z[:, None] - x - k) / scale) @ (0.2 / scale * 0.6 ** (k - 1)) for x in (0.0, 0.5))
    expected = [np.sum(np.maximum(0, a - math.exp(0.3) * b)) * step for a, b in ((p, q), (q, p))]
    assert comparison.delta(0.3) == pytest.approx(max(expected), abs=2e-5)


def test_mixtures_and_varying_lengths() -> None:
    """Half the time nothing, a third one noisy answer, a sixth two: losses 0, ε1, 2 ε1, and δ adds by weight."""

    def sometimes(rng: Any, x: float) -> Any:
        length = rng.choice([0, 1, 1, 0, 2, 0])
        return [x + rng.laplace(scale=2.0) for _ in range(length)]

    comparison = compare(sometimes, 0.0, 1.0)
    assert comparison.epsilon == pytest.approx(1.0, rel=1e-9)
    by_length = {len(row.event.template.leaves): row for row in comparison.table}  # type: ignore[union-attr]
    assert [by_length[k].left for k in range(3)] == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=EXACT)
    assert [by_length[k].loss for k in range(3)] == pytest.approx([0, 0.5, 1.0], abs=1e-9)
    # beyond 1/2 only the two answers still count: their loss 1 has mass 1/4 below 0 and their losses add
    assert comparison.delta(1.0) <= 1e-3
    assert comparison.witness.epsilon().lower == pytest.approx(1.0, abs=1e-2)


def test_a_numeric_answer_or_a_refusal() -> None:
    """x + Exp(1) where it is at least 1, else "low": the refusal has 1 - e^-1 against 1 - e^-(1/2)."""

    def reported(rng: Any, x: float) -> Any:
        noisy = x + rng.exponential(scale=1.0)
        return noisy if noisy >= 1 else "low"

    comparison = compare(reported, 0.0, 0.5)
    rows = {str(row.event): row for row in comparison.table}
    assert rows["output is 'low'"].left == pytest.approx(-math.expm1(-1), rel=EXACT)
    assert rows["output is 'low'"].right == pytest.approx(-math.expm1(-0.5), rel=EXACT)
    assert comparison.epsilon == pytest.approx(max(0.5, math.log(math.expm1(-1) / math.expm1(-0.5))), rel=1e-9)
    assert comparison.delta(0.0) == pytest.approx(math.exp(-0.5) - math.exp(-1), abs=EXACT)


def test_several_numbers_that_share_noise() -> None:
    """(x + n0, x + n0 + n1) tells x once, by n0; (n0 + x, n1 + n0) once too: entries are taken apart first."""

    def nested(rng: Any, x: float) -> Any:
        first = x + rng.laplace(scale=2.0)
        return [first, first + rng.laplace(scale=1.0)]

    def correlated(rng: Any, x: float) -> Any:
        first = rng.laplace(scale=2.0)
        return {"a": first + x, "b": first + rng.laplace(scale=1.0)}

    assert compare(nested, 0.0, 1.0).epsilon == pytest.approx(0.5, rel=1e-9)
    # shifting n0 by 1 costs 1/2, and n1 must give it back: 1 more
    assert compare(correlated, 0.0, 1.0).epsilon == pytest.approx(1.5, rel=1e-9)


def test_an_entry_that_repeats_another() -> None:
    """A relation between entries is part of the class: (z, 2z + x) gives x away."""

    def leaking(rng: Any, x: float) -> Any:
        z = rng.laplace()
        return [z, 2 * z + x]

    comparison = compare(leaking, 0.0, 1.0)
    assert comparison.epsilon == math.inf
    assert compare(lambda rng, x: (z := x + rng.laplace(), 2 * z), 0.0, 1.0).epsilon == pytest.approx(1.0, rel=1e-9)


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (
            [1.0, 2.0],
            [1.0],
            r"\[1.0, 2.0\] and \[1.0\] are not neighbours under linf \(lengths 2 and 1\); compare two that",
        ),
        (
            [1.0, 2.0],
            [1.0, 3.5],
            r"are not neighbours under linf; compare two that are, or give the mechanism another adj",
        ),
        ("ab", "cd", r"'ab' and 'cd' are not neighbours under linf; compare two that are"),
        (3, 4, r"3 and 4 are not neighbours under linf; compare two that are"),
        (None, None, r"None and None are not neighbours under linf"),
    ],
)
def test_pairs_that_are_no_neighbours(left: Any, right: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        compare(catalogue("svt1"), left, right)


def test_a_budget_below_zero() -> None:
    comparison = compare(catalogue("laplace"), [0.0], [1.0])
    for epsilon in (-0.1, math.nan):
        with pytest.raises(BadInput, match=rf"epsilon must be a number >= 0, got {epsilon}"):
            comparison.delta(epsilon)


def test_data_left_open() -> None:
    with pytest.raises(NotExact, match=r"data\[0\] is left open; the exact engine needs concrete data and arguments"):
        compare(lambda rng, data: data[0] + rng.laplace() > 0, unknowns("data", 1), unknowns("data", 1))


def test_what_is_no_mechanism_and_what_is_not_affine() -> None:
    with pytest.raises(BadInput, match="42 is not a mechanism"):
        compare(42, 0.0, 1.0)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="svt1 takes no argument 'sensitivity'"):
        compare(veridp.catalogue["svt1"], ONES, TWOS, sensitivity=1)
    with pytest.raises(NotExact, match="a function of several numbers"):
        compare(lambda rng, x: rng.laplace() * rng.laplace(), 0.0, 1.0)


def test_plain_functions_have_no_adjacency_to_keep() -> None:
    comparison = compare(lambda rng, x: x + rng.laplace(), 0.0, 7.0)
    assert comparison.epsilon == pytest.approx(7.0, rel=1e-9)
    assert str(comparison) == "<lambda>: ε = 7 between 0.0 and 7.0"


def test_pieces_that_meet_at_a_break_count_once() -> None:
    """A uniform window and its outside, at widths where a point inside a panel, rounded, once fell on the break."""

    def windowed(rng: Any, start: float, *, window: float, outside: float) -> Any:
        if rng.random() < outside:
            place = rng.uniform(0, 1 - window)
            return place if place < start else place + window
        return start + rng.uniform(0, window)

    window, outside = 511184 / 2**20, 0.4875
    ratio = ((1 - outside) / window) / (outside / (1 - window))
    for left, right in ((0.0, 1 - window), (0.0, (1 - window) / 2)):
        found = compare(windowed, left, right, window=window, outside=outside).epsilon
        assert found == pytest.approx(math.log(ratio), abs=1e-12)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("scale", [1.0, 2.0, 0.1, 1 / 3, 3.7])
@pytest.mark.parametrize("place", [0.0, 1e6])
def test_sums_of_laplace_noise_cost_what_one_costs_to_the_last_digit(count: int, scale: float, place: float) -> None:
    """The loss tends to distance/scale far out, and never exceeds it."""
    comparison = compare(lambda rng, x: x + sum(rng.laplace(scale=scale) for _ in range(count)), place, place + 1)
    assert comparison.epsilon == float(1 / Fraction(scale))


# ------------------------------------------------------------------------------------------- outputs that are alike


def bars(rng, counts):
    """Every count against one noisy bar."""
    bar, said = rng.laplace(scale=2.0), []
    for count in counts:
        if count + rng.laplace() >= bar:
            said.append("high")
        else:
            said.append("low")
    return said


def named(rng, counts):
    """Two bars, so that the entries fall into two independent parts; keys of a dict are leaves too."""
    bars = [rng.laplace(scale=2.0), rng.laplace(scale=3.0)]
    return {f"count {k}": count + rng.laplace() > bars[k % 2] for k, count in enumerate(counts)}


@pytest.mark.parametrize(
    ("function", "left", "right"),
    [
        (bars, [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]),
        (bars, [0, 1, 0, 1, 2], [1, 1, 1, 1, 2]),
        (named, [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]),
    ],
)
def test_outputs_in_another_order_are_taken_together(function: Any, left: list[float], right: list[float]) -> None:
    """Against each output by itself: the same losses, and events that hold what they are said to."""
    few = veridp.exact.compare(function, left, right)
    single = loss_between(*(replayed_paths(veridp.mechanism(function), data) for data in (left, right)))
    assert few.epsilon == pytest.approx(max(single.supremum, single.backward), rel=1e-12)
    for epsilon in (0.0, 0.1, 0.4):
        expected = max(one.delta(epsilon).upper for one in (single, single.reversed))
        assert few.delta(epsilon) == pytest.approx(expected, rel=1e-9)
    outputs = list({str(one): one for one in veridp.sample(function, left, 3000, seed=1)}.values())
    held = [[row.event.holds(one) for row in few.table] for one in outputs]
    assert {sum(each) for each in held} == {1}  # they are disjoint, and hold all outputs
    laws = [law(function, data) for data in (left, right)]
    for place, row in enumerate(few.table):
        inside = [one for one, each in zip(outputs, held, strict=True) if each[place]]
        for mine, probability in zip((row.left, row.right), laws, strict=True):
            assert mine == pytest.approx(sum(map(probability.probability, inside)), rel=1e-9)


def test_two_to_the_forty_outputs_are_not_listed() -> None:
    left, right = [0.0] * 40, [1.0] + [0.0] * 39
    comparison = veridp.exact.compare(bars, left, right)
    assert len(comparison.table) == 80
    assert "with output[1], output[2], …, output[39] in any order" in str(comparison.table[3].event)
    assert sum(row.left for row in comparison.table) == pytest.approx(1)
    assert sum(row.right for row in comparison.table) == pytest.approx(1)

    def log_probability(data: list[float], highs: int) -> float:
        """Of `highs` entries that are high, the first not among them, by integration over the bar."""
        bar = np.linspace(-60, 60, 24_001)
        logs = -np.abs(bar) / 2 - np.log(4) + stats.laplace.logsf(bar) * highs
        logs += stats.laplace.logcdf(bar - data[0]) + stats.laplace.logcdf(bar) * (39 - highs)
        return float(special.logsumexp(logs) + np.log(bar[1] - bar[0]))

    losses = [log_probability(left, highs) - log_probability(right, highs) for highs in range(40)]
    assert comparison.loss.supremum == pytest.approx(max(losses), abs=1e-6)
