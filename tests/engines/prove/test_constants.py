"""Proofs with constants that are no short binary fractions: the ε proved is exact, and the checker agrees."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp import audit, mechanism
from veridp.engines.prove import prove, prove_for_every_size
from veridp.mechanism import Mechanism
from veridp.numerics import simplex
from veridp.verdict import Standing
from veridp_check.checker import check


def proved(asked: Mechanism) -> Fraction:
    """The exact ε; the checker has accepted its certificate."""
    proof = prove(asked)
    checked = check(proof.certificate)
    assert checked.verified, checked.rejection
    assert checked.certificate.epsilon == proof.exact_epsilon
    return proof.exact_epsilon


def scaled_laplace(factor: float) -> Mechanism:
    @mechanism(epsilon=1.0, adjacency="l1", size=1)
    def scaled(rng, data):
        return factor * data[0] + rng.laplace(scale=factor)

    return scaled


@mechanism(epsilon=1.0, adjacency="l1", size=3)
def third_of_sum(rng, data):
    return sum(data) / 3 + rng.laplace(scale=1 / 3)


@mechanism(epsilon=1.0, adjacency="any", domain=[0, 0.1, 1], size=1)
def listed(rng, data):
    return data + rng.laplace(scale=1)


@mechanism(epsilon=1.0, adjacency="replace", domain=[0, 0.1, 1], size=2)
def rounded(rng, data):
    return 0.3 * sum(data) + rng.laplace(scale=0.3)


@mechanism(epsilon=1.0, adjacency="replace", domain=[0, 0.1, 0.7], size=2)
def largest_listed(rng, data):
    return bool(max(data) + rng.laplace(scale=0.7) > 0.33)


@mechanism(epsilon=1.0, adjacency="l1", size=2)
def mixture(rng, data):
    if rng.random() < 0.3:
        return 0.7 * sum(data) + rng.laplace(scale=0.7)
    return 0.3 * sum(data) + rng.laplace(scale=1.1)


@mechanism(epsilon=1.0, adjacency="linf", size=4)
def above(rng, data, *, epsilon=1.0):
    threshold = 0.3 + rng.laplace(scale=2 / epsilon)
    out = []
    for query in data:
        if query + rng.laplace(scale=4 / epsilon) >= threshold:
            out.append(True)
            break
        out.append(False)
    return out


@mechanism(epsilon=1.0, adjacency="linf", size=4)
def odd_above(rng, data):
    threshold = 0.3 + rng.laplace(scale=1.7)
    for query in data:
        if 0.1 * query + rng.laplace(scale=0.37) >= threshold:
            return "above"
    return "below"


@pytest.mark.parametrize("factor", [0.1, 0.2, 1 / 3, 3.7, 100.1, 0.001, 1e-300])
def test_noise_on_the_scale_of_the_data_costs_1(factor):
    assert proved(scaled_laplace(factor)) == 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(1e-9, 1e9))
def test_noise_on_the_scale_of_the_data_costs_1_whatever_that_is(factor):
    assert proved(scaled_laplace(factor)) == 1


def test_a_third_is_exact_and_the_float_of_it_is_not():
    epsilon = proved(third_of_sum)
    assert epsilon == Fraction(1, 3) / Fraction(1 / 3)
    assert 1 < epsilon < 1 + Fraction(1, 10**16)
    assert prove(third_of_sum).keeps_claim  # the rounding of a program's own constants is forgiven


def test_listed_values_are_added_as_floats_are():
    """So two sums may be farther apart than their records, by a last digit; the proof says by how much."""
    sums = {data: Fraction(0.3 * sum(data)) for data in itertools.product((0, 0.1, 1), repeat=2)}
    neighbours = [(a, b) for a, b in itertools.permutations(sums, 2) if (a[0] != b[0]) + (a[1] != b[1]) == 1]
    wanted = max(abs(sums[a] - sums[b]) for a, b in neighbours) / Fraction(0.3)
    assert proved(rounded) == wanted
    assert wanted > 1
    assert prove(rounded).keeps_claim


@pytest.mark.parametrize("asked", [listed, largest_listed, mixture], ids=lambda m: m.name)
def test_sensitivity_over_scale_is_exactly_1(asked):
    assert proved(asked) == 1


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1 / 7])
def test_arguments_are_the_decimals_that_they_are_written_as(epsilon):
    bound = above.bind(epsilon=epsilon)
    assert proved(bound) == Fraction(repr(epsilon))
    induction = prove_for_every_size(bound)
    assert induction.exact_epsilon == Fraction(repr(epsilon))
    assert check(induction.certificate).verified


def test_every_size_is_proved_with_odd_constants():
    """The threshold moves by 0.1 and the query that is above it by twice that."""
    wanted = Fraction(0.1) / Fraction(1.7) + 2 * Fraction(0.1) / Fraction(0.37)
    induction = prove_for_every_size(odd_above)
    assert induction.exact_epsilon == wanted == proved(odd_above)
    assert check(induction.certificate).verified


@pytest.mark.parametrize("asked", [scaled_laplace(0.1), third_of_sum, rounded], ids=lambda m: m.name)
def test_the_audit_calls_them_proved(asked):
    assert audit(asked, seconds=600).standing is Standing.PROVED


def test_a_program_that_is_not_solved_exactly_ends_as_no_proof(monkeypatch):
    monkeypatch.setattr(simplex, "MAX_PIVOTS", 0)
    verdict = audit(scaled_laplace(0.1), seconds=600)
    assert verdict.standing is not Standing.PROVED
    assert any("no proof: a linear program with" in evidence.finding for evidence in verdict.evidence)


# ------------------------------------------------------------------------- random mechanisms, against another solver


def exact(value: Fraction) -> z3.ArithRef:
    return z3.Q(value.numerator, value.denominator)


def constant(rng: random.Random) -> float:
    return rng.choice([rng.uniform(0.1, 3), rng.randint(1, 9) / 10, rng.randint(1, 3)])


class RandomThreshold:
    """Noisy multiples of the data, a weighted sum of which is compared; if it is large, the first is released."""

    def __init__(self, rng: random.Random, size: int, adjacency: str) -> None:
        self.factors = [constant(rng) for _ in range(size)]
        self.divisors = [rng.choice([1, 3, 7, 10]) for _ in range(size)]
        self.scales = [constant(rng) for _ in range(size)]
        self.weights = [rng.choice([-1, 1]) * constant(rng) for _ in range(size)]
        self.threshold = constant(rng)
        self.releases = rng.random() < 0.5
        self.mechanism = mechanism(epsilon=1.0, adjacency=adjacency, size=size)(self.run)

    def run(self, rng, data):
        parts = [f * x / d for f, x, d in zip(self.factors, data, self.divisors, strict=True)]
        noisy = [x + rng.laplace(scale=s) for x, s in zip(parts, self.scales, strict=True)]
        if sum(w * x for w, x in zip(self.weights, noisy, strict=True)) > self.threshold:
            return noisy[0] if self.releases else True
        return False

    def least(self, difference: tuple[int, ...], large: bool) -> Fraction:
        """The cost of the cheapest shift that keeps an outcome, by z3."""
        optimize = z3.Optimize()
        shifts = [z3.Real(f"shift {k}") for k in range(len(difference))]
        sizes = [z3.Real(f"size {k}") for k in range(len(difference))]
        factors = [Fraction(f) / d for f, d in zip(self.factors, self.divisors, strict=True)]
        moves = [exact(f * by) + shift for f, by, shift in zip(factors, difference, shifts, strict=True)]
        change = z3.Sum([exact(Fraction(w)) * move for w, move in zip(self.weights, moves, strict=True)])
        optimize.add(*(size >= shift for size, shift in zip(sizes, shifts, strict=True)))
        optimize.add(*(size >= -shift for size, shift in zip(sizes, shifts, strict=True)))
        optimize.add(change >= 0 if large else change <= 0)
        if large and self.releases:
            optimize.add(moves[0] == 0)
        prices = [exact(1 / Fraction(scale)) for scale in self.scales]
        goal = optimize.minimize(z3.Sum([price * size for price, size in zip(prices, sizes, strict=True)]))
        assert optimize.check() == z3.sat
        return Fraction(str(optimize.lower(goal)))


def differences(size: int, adjacency: str) -> list[tuple[int, ...]]:
    if adjacency == "linf":
        return list(itertools.product((-1, 1), repeat=size))
    return [tuple(sign * (i == k) for i in range(size)) for k in range(size) for sign in (-1, 1)]


@pytest.mark.parametrize("seed", range(10))
def test_the_least_cost_of_random_mechanisms_is_that_of_another_solver(seed):
    rng = random.Random(seed)
    size, adjacency = rng.randint(1, 4), rng.choice(["l1", "linf"])
    asked = RandomThreshold(rng, size, adjacency)
    wanted = max(asked.least(d, large) for d in differences(size, adjacency) for large in (False, True))
    assert proved(asked.mechanism) == wanted
