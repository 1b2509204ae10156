"""Proofs by couplings: ratios of probabilities against closed forms, with noise, and never below the exact loss."""

from __future__ import annotations

import linecache
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from veridp import catalogue, mechanism
from veridp.adjacency import adjacency
from veridp.engines.exact import compare
from veridp.engines.prove import AlignmentProof, CouplingProof, prove
from veridp.errors import BadInput
from veridp.kernel.expressions import Affine, Condition
from veridp.kernel.flow.retries import probability
from veridp.kernel.noise import Binomial, Geometric, Uniform
from veridp.kernel.site import Site
from veridp.kernel.symbols import Noise, Relation
from veridp_check.checker import check

# ---------------------------------------------------------------------------------------------------- on finite domains


@pytest.mark.parametrize("name", ["randomized_response", "one_time_rappor", "rappor", "truncated_geometric"])
def test_local_mechanisms_are_proved_at_their_true_cost(name):
    chosen = catalogue[name]
    proof = prove(chosen)
    assert isinstance(proof, CouplingProof)
    assert proof.epsilon == pytest.approx(chosen.true_epsilon(1), rel=1e-12)
    assert proof.keeps_claim
    assert check(proof.certificate).verified


def test_a_ratio_is_kept_exactly():
    proof = prove(catalogue["truncated_geometric"])
    assert (proof.loss.cost, proof.loss.ratio) == (0, Fraction(9, 8))
    assert str(proof) == "truncated_geometric under l1, size 1: 0.117783-DP is proved for the 6 data of its domain"
    ratio = prove(catalogue["one_time_rappor"]).loss.ratio  # of the probabilities as floats, for they go through arrays
    assert abs(ratio / Fraction(21, 19) ** 8 - 1) < Fraction(1, 10**14)


@pytest.mark.parametrize(("values", "epsilon"), [(2, 1.0), (5, 0.5), (9, 2.0)])
def test_generalised_randomised_response(values, epsilon):
    @mechanism(adjacency="any", domain=range(values), size=1)
    def grr(rng, value, *, epsilon=epsilon):
        weight = math.exp(epsilon)
        weights = [weight if k == value else 1.0 for k in range(values)]
        return int(rng.choice(values, p=np.array(weights) / sum(weights)))

    assert prove(grr).epsilon == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize(("size", "reach"), [(2, 3), (3, 3), (2, 5)])
def test_the_exponential_mechanism_over_a_list_of_scores(size, reach):
    """The worst ratio (1 + (n-1) e^(εW/2)) / (1 + (n-1) e^(ε(W-2)/2)) for scores within W of each other."""
    chosen = replace(catalogue["exponential_mechanism"], domain=range(reach))
    width, epsilon = reach - 1, 0.1
    top, bottom = (1 + (size - 1) * math.exp(epsilon * w / 2) for w in (width, width - 2))
    assert prove(chosen, size).epsilon == pytest.approx(math.log(top / bottom), rel=1e-9)


def test_noise_on_a_list_of_values_is_shifted():
    @mechanism(adjacency="any", domain=[0, 1, 3], size=1)
    def noisy(rng, value):
        return value + rng.laplace(scale=10)

    proof = prove(noisy)
    assert proof.exact_epsilon == Fraction(3, 10)  # the values furthest apart
    assert compare(noisy, 0, 3).epsilon == pytest.approx(0.3, rel=1e-9)


def test_entries_that_a_mask_replaces_are_independent_parts():
    @mechanism(adjacency="replace", domain=["x", "y", "z"], size=2)
    def clipped(rng, data):
        counts = np.array([data.count(name) for name in "xyz"]) + rng.laplace(scale=2, size=3)
        counts[counts < 0] = 0
        return counts

    proof = prove(clipped)
    assert proof.epsilon == 1
    assert proof.extent == "9 data, 36 ordered pairs of neighbours, 3 independent parts"
    assert [(pair.left, pair.right) for pair in proof.pairs][:5] == [(0, 1), (0, 2), (0, 3), (0, 6), (1, 0)]


def test_noise_and_choices_on_a_list_of_values():
    @mechanism(adjacency="any", domain=[0, 1], size=1)
    def both(rng, value):
        kept = value if rng.random() < 0.75 else 1 - value
        return kept, value + rng.laplace(scale=10) > 0.5

    proof = prove(both)
    assert (proof.loss.cost, proof.loss.ratio) == (Fraction(1, 10), 3)
    assert proof.epsilon == pytest.approx(math.log(3) + 0.1, rel=1e-12)
    assert check(proof.certificate).verified


@pytest.mark.parametrize(
    ("relation", "domain", "size", "cost"), [("add-remove", [-1, 0, 1], 2, 0.1), ("replace", [0, 1], 3, 0.1)]
)
def test_records_over_a_list_of_values(relation, domain, size, cost):
    chosen = replace(catalogue["partial_sum"], adjacency=adjacency(relation), domain=domain)
    proof = prove(chosen, size)
    assert proof.epsilon == pytest.approx(cost, rel=1e-12)
    assert check(proof.certificate).verified


def test_an_output_that_only_one_value_can_give():
    @mechanism(adjacency="any", domain=[0, 1], size=1)
    def telling(rng, value):
        return "one" if value and rng.random() < 0.01 else "unsure"

    proof = prove(telling)
    assert proof.epsilon == math.inf
    assert proof.blame.sentence == "the output 'one' of 1 cannot be carried over to 0"
    assert proof.blame.line == telling.function.__code__.co_firstlineno + 2
    with pytest.raises(BadInput, match="nothing to certify"):
        _ = proof.certificate


def test_who_is_to_blame_for_a_ratio():
    blame = prove(catalogue["rappor"]).blame
    assert blame.file.endswith("local.py")
    assert "rng.random(bits) < np.where(permanent, q, p)" in linecache.getline(blame.file, blame.line)
    assert blame.cost == pytest.approx(catalogue["rappor"].true_epsilon(1) / 8, rel=1e-9)


def test_integer_noise_without_a_price_over_a_list_of_values():
    @mechanism(adjacency="l1", domain=range(4), size=1)
    def clamped(rng, counts):
        return min(max(counts[0] + rng.binomial(6, 0.5) - 3, 0), 3)

    mass = [stats.binom.pmf(k, 6, 0.5) for k in range(7)]
    law = [
        [sum(p for k, p in enumerate(mass) if min(max(n + k - 3, 0), 3) == output) for output in range(4)]
        for n in range(4)
    ]
    ratios = [law[a][o] / law[b][o] for a in range(4) for b in range(4) if abs(a - b) == 1 for o in range(4)]
    assert prove(clamped).epsilon == pytest.approx(math.log(max(ratios)), rel=1e-12)


def test_too_many_values():
    with pytest.raises(BadInput, match="too many data sets to enumerate; prove a smaller size"):
        prove(replace(catalogue["partial_sum"], adjacency=adjacency("replace"), domain=range(20)), 4)


# ------------------------------------------------------------------------------------------------------- on open data


def response(rng, queries):
    """Randomised response to whether the first query is positive; the second one with Laplace noise."""
    bit = queries[0] > 0
    answer = bit if rng.random() < 0.75 else not bit
    return [bool(answer), queries[1] + rng.laplace(scale=10)]


@pytest.mark.parametrize(
    ("relation", "cost"), [("linf", math.log(3) + 0.1), ("monotone", math.log(3) + 0.1), ("l1", math.log(3))]
)
def test_data_alone_decide_which_choice_gives_which_answer(relation, cost):
    proof = prove(mechanism(adjacency=relation)(response), 2)
    assert isinstance(proof, CouplingProof)
    assert proof.epsilon == pytest.approx(cost, rel=1e-12)
    assert proof.restriction == ""
    checked = check(proof.certificate)
    assert checked.verified
    assert checked.steps[0].finding == "2 regions that make up all data"
    left, right = ([0.5, 0.0], [-0.5, 0.0]) if relation == "l1" else ([-0.5, 0.0], [0.5, 1.0])
    assert compare(response, left, right).epsilon == pytest.approx(cost, rel=1e-9)


def test_three_ways_of_data():
    def signed(rng, queries):
        sign = "+" if queries[0] > 0 else "0" if queries[0] == 0 else "-"
        return sign if rng.random() < 0.5 else str(rng.choice(["+", "0", "-"]))

    proof = prove(mechanism(adjacency="linf")(signed), 1)
    assert len(proof.cases) == 3
    assert proof.loss.ratio == 4  # (1/2 + 1/6) / (1/6)
    assert proof.loss.cost == 0
    assert check(proof.certificate).verified


def test_choices_that_data_do_not_touch_are_kept():
    def coin(rng, queries):
        scale = 10 if rng.random() < 0.25 else 20
        return queries[0] + rng.laplace(scale=scale) > 0

    proof = prove(mechanism(adjacency="linf")(coin), 1)
    assert isinstance(proof, AlignmentProof)
    assert proof.exact_epsilon == Fraction(1, 10)


def test_a_choice_that_hides_is_shared_out():
    """Two ways to an answer, of which one moves with the data and the other does not."""

    def hidden(rng, queries):
        weights = [0.5, 0.25, 0.25] if queries[0] > 0 else [0.25, 0.25, 0.5]
        way = rng.choice(3, p=weights)
        return way == 1 or (way == 0 and queries[1] + rng.laplace(scale=10) > 0)

    proof = prove(mechanism(adjacency="linf")(hidden), 2)
    assert math.isfinite(proof.epsilon)
    assert check(proof.certificate).verified
    for left, right in (([-0.5, 3.0], [0.5, 4.0]), ([0.5, 3.0], [-0.5, 2.0]), ([0.5, -30.0], [-0.5, -31.0])):
        assert compare(hidden, left, right).epsilon <= proof.epsilon + 1e-9


def test_a_leak_of_data_stays_one():
    def leaking(rng, queries):
        return queries[0] > 3, rng.random() < 0.5

    proof = prove(mechanism(adjacency="linf")(leaking), 1)
    assert proof.epsilon == math.inf


def test_so_many_regions_that_they_are_not_gone_through():
    def signs(rng, queries):
        return [bool(query > 0) for query in queries], rng.random() < 0.5

    assert prove(mechanism(adjacency="linf")(signs), 7).epsilon == math.inf  # and no error


# ------------------------------------------------------------------------------------------------------ probabilities


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.sampled_from([Uniform(), Geometric(Fraction(1, 3)), Binomial(40, Fraction(1, 4))]),
    st.lists(
        st.tuples(
            st.sampled_from([Fraction(1), Fraction(-1), Fraction(3, 2), Fraction(-2)]),
            st.fractions(-6, 6, max_denominator=4),
            st.sampled_from([Relation.AT_LEAST, Relation.ABOVE, Relation.EQUAL]),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_the_probability_of_conditions_on_one_noise(distribution, asked):
    noise = Noise(0, distribution, Site("here", 1))
    conditions = [Condition(Affine(constant, {noise: slope}), relation) for slope, constant, relation in asked]
    found = probability(noise, conditions)
    if distribution.integer:
        law = stats.geom(1 / 3) if isinstance(distribution, Geometric) else stats.binom(40, 0.25)
        values = range(200)
        masses = law.pmf(values)
        expected = sum(masses[k] for k in values if all(_true(c, noise, Fraction(k)) for c in conditions))
        assert float(found) == pytest.approx(expected, abs=1e-9)  # 60 and more have 3e-11
    else:
        grid = [Fraction(2 * k + 1, 2000) for k in range(1000)]  # never on a boundary
        share = sum(all(_true(c, noise, x) for c in conditions) for x in grid) / 1000
        assert float(found) == pytest.approx(share, abs=2e-3)


def _true(condition, noise, value):
    slack = condition.slack.constant + condition.slack.terms[noise] * value
    return {Relation.AT_LEAST: slack >= 0, Relation.ABOVE: slack > 0, Relation.EQUAL: slack == 0}[condition.relation]


# ----------------------------------------------------------------------------------------------------------- soundness

tenths = st.integers(1, 9).map(lambda k: k / 10)
halves = st.integers(-3, 3).map(lambda k: k / 2)


@pytest.mark.slow
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=3, max_size=3), tenths, tenths)
def test_finite_choices_are_proved_at_their_exact_loss(table, first, second):
    """Whatever the tables of weights are: choices, a comparison with a constant, and integers."""

    @mechanism(adjacency="any", domain=range(3), size=1)
    def program(rng, value):
        weights = np.array(table[value], dtype=float)
        drawn = int(rng.choice(3, p=weights / weights.sum()))
        if rng.random() < (first if value else second):
            return drawn, int(rng.integers(2))
        return drawn, 2

    proof = prove(program)
    exact = max(compare(program, a, b).epsilon for a in range(3) for b in range(3) if a != b)
    assert proof.epsilon == pytest.approx(exact, rel=1e-9, abs=1e-12)
    assert check(proof.certificate).verified


@pytest.mark.slow
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(halves, halves, halves), min_size=1, max_size=2),
    tenths,
    tenths,
    halves,
    st.lists(halves, min_size=2, max_size=2),
)
def test_programs_that_mix_choices_and_noise_are_never_proved_below_their_exact_loss(branches, p, q, cut, left):
    def program(rng, queries):
        noise = rng.laplace(scale=2)
        answers = [rng.random() < (p if queries[0] > cut else q)]
        if rng.integers(3) == 0:
            answers.append("skip")
        else:
            for a, c, constant in branches:
                answers.append(a * noise + c * queries[1] + constant > 0)
        return answers

    chosen = mechanism(adjacency="linf")(program)
    proof = prove(chosen, 2)
    for move in ((1.0, 1.0), (-1.0, 1.0), (0.5, -1.0)):
        found = compare(chosen, left, [x + d for x, d in zip(left, move, strict=True)]).epsilon
        assert found <= proof.epsilon + 1e-9
    if math.isfinite(proof.epsilon):
        assert check(proof.certificate).verified


def test_sixteen_bits_that_are_flipped_in_an_if_are_independent_parts() -> None:
    """Two values differ in two bits, each of which tells the truth with odds of 3."""

    def report(rng, value):
        bits = []
        for k in range(16):
            if rng.random() < 0.25:
                bits.append(int(k != value))
            else:
                bits.append(int(k == value))
        return bits

    claimed = mechanism(adjacency="any", domain=[0, 5, 15])(report)
    assert prove(claimed).epsilon == pytest.approx(2 * math.log(3), rel=1e-12)
