"""Weights that depend on open data: their normal form, the many ways to write them, and what replay says of them."""

from __future__ import annotations

import bisect
import itertools
import math
import random

import numpy as np
import pytest

import veridp
from veridp.errors import ExplorationDisagrees, NotAffine
from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.replay.agreement import Listing
from veridp.kernel.symbols import Unknown
from veridp.kernel.weights import Weight
from veridp.mechanism import as_mechanism

POINTS = [[0.0, 0.0, 0.0], [1.0, -2.0, 0.5], [-3.0, 4.0, 3.5]]


def softmax(scores):
    weights = [math.exp(score / 2) for score in scores]
    return [weight / sum(weights) for weight in weights]


def relative_to_the_best(rng, data):
    scores = np.asarray(data, dtype=float)
    weights = np.exp((scores - scores.max()) / 2)
    return int(rng.choice(len(scores), p=weights / weights.sum()))


def as_it_is(rng, data):
    weights = np.exp(np.array(data) / 2)
    return int(rng.choice(3, p=weights / np.sum(weights)))


def by_logarithms(rng, data):
    scores = np.asarray(data) / 2
    return int(rng.choice(3, p=np.exp(scores - np.log(np.sum(np.exp(scores))))))


def by_products(rng, data):
    weights = [math.exp(x) ** 2 / (math.exp(x) * math.exp(x / 2)) for x in data]
    return rng.choice([0, 1, 2], p=[w * (1 / sum(weights)) for w in weights])


def one_of_many_trials(rng, data):
    weights = np.exp(np.array(data) / 2)
    return int(np.argmax(rng.multinomial(1, weights / weights.sum())))


def by_unnormalised_weights(rng, data):
    return random.choices([0, 1, 2], weights=[math.exp(x / 2) for x in data])[0]


@pytest.mark.parametrize(
    "mechanism",
    [relative_to_the_best, as_it_is, by_logarithms, by_products, one_of_many_trials, by_unnormalised_weights],
)
def test_a_softmax_has_the_same_weights_however_it_is_written(mechanism):
    paths = explore(mechanism, unknowns("data", 3))
    for output in range(3):
        weights = [path.weight for path in paths if path.output == output]
        assert all(weight == weights[0] for weight in weights)
        for data in POINTS:
            place = {Unknown(f"data[{i}]"): x for i, x in enumerate(data)}
            assert weights[0].evaluate(place) == pytest.approx(softmax(data)[output], rel=1e-12)


def first_of_cumulative_sums(rng, data):
    total, u, reached = sum(np.exp(x / 2) for x in data), rng.random(), 0.0
    for index, x in enumerate(data):
        reached += np.exp(x / 2) / total
        if u < reached:
            return index
    raise AssertionError("never reached, as the last sum is 1")


def by_bisection(rng, data):
    sums = list(itertools.accumulate(np.exp(x / 2) for x in data))
    return bisect.bisect_right(sums, rng.random() * sums[-1])


def by_numpys_search(rng, data):
    weights = np.exp(np.asarray(data) / 2)
    return int(np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(), side="right"))


@pytest.mark.parametrize("mechanism", [first_of_cumulative_sums, by_bisection, by_numpys_search])
def test_uniform_noise_among_cumulative_sums_has_one_path_for_each_and_none_past_the_last(mechanism):
    paths = explore(mechanism, unknowns("data", 3))
    assert sorted(path.output for path in paths) == [0, 1, 2]
    (noise,) = paths[0].noises
    for data in POINTS:
        p = softmax(data)
        place = {Unknown(f"data[{i}]"): x for i, x in enumerate(data)}
        for output, u in enumerate(np.cumsum(p) - np.array(p) / 2):  # the middle of each part of [0, 1]
            held = [path.output for path in paths if path.holds({**place, noise: float(u)})]
            assert held == [output]


def test_comparisons_of_exponentials_are_decided_or_affine():
    def asked(rng, data):
        x, y = (np.exp(value) for value in data)
        positive = bool(x + y > 0) and bool(x + y != 0) and bool(x / (x + y) <= 1)
        return positive, bool(x > y), bool(2 * x >= y)

    paths = explore(asked, unknowns("data", 2))
    assert [str(path) for path in paths] == [
        "[True, True, True] where data[0] > data[1]",
        "[True, False, True] where data[1] >= data[0] and data[0] + 0.693147 >= data[1]",
        "[True, False, False] where data[1] >= data[0] and data[1] > data[0] + 0.693147",
    ]


def test_a_binomial_of_few_trials_has_weights_of_its_chance():
    def twice(rng, data):
        return rng.binomial(2, 1 / (1 + np.exp(-data[0])))

    x = 0.7
    p = 1 / (1 + math.exp(-x))
    weights = [path.weight.evaluate({Unknown("data[0]"): x}) for path in explore(twice, unknowns("data", 1))]
    assert weights == pytest.approx([(1 - p) ** 2, 2 * p * (1 - p), p**2], rel=1e-12)


@pytest.mark.parametrize(
    ("p", "message"),
    [
        (lambda rng, data: [x := np.exp(data[0]), 1 - x], "p < 0, p > 1"),
        (lambda rng, data: [np.exp(-(data[0] ** 2)), 0.5], "a probability depends on noise or on an open value"),
        (lambda rng, data: [x := np.exp(rng.laplace()), 1 - x], "a probability depends on noise or on an open value"),
        (lambda rng, data: [1 / (1 + np.exp(data[0])), 0.5], "do not sum to 1 for all of them"),
    ],
)
def test_what_is_no_probability_for_all_data_is_refused_or_raises(p, message):
    def chosen(rng, data):
        return int(rng.choice(2, p=p(rng, data)))

    try:
        outputs = [str(path.output) for path in explore(chosen, unknowns("data", 1))]
    except NotAffine as refused:
        outputs = [str(refused)]
    assert any(message in output for output in outputs)


def test_a_plain_run_with_other_probabilities_is_told():
    def steeper_on_floats(rng, data):
        scale = 0.5 + 0.5 * (type(data[0]) is float)
        weights = np.exp(scale * np.array(data))
        return int(rng.choice(2, p=weights / weights.sum()))

    data, mechanism = unknowns("data", 2), as_mechanism(steeper_on_floats)
    with pytest.raises(ExplorationDisagrees, match="chooses with other probabilities"):
        Listing.of(mechanism, data, explore(mechanism, data)).replay()


def test_a_rare_choice_whose_probability_floats_lose_is_told():
    def lossy(rng, data):
        p = 1 - 1 / (1 + np.exp(4 * data[0]))
        return int(rng.choice(2, p=[1 - p, p]))

    data, mechanism = unknowns("data", 1), as_mechanism(lossy)
    listing = Listing.of(mechanism, data, explore(mechanism, data))
    listing.replay(at=[[-1.0]])
    with pytest.raises(ExplorationDisagrees, match="chooses with other probabilities"):
        listing.replay(at=[[-10.0]])


def test_equal_weights_have_equal_forms_and_a_constant_is_a_number():
    def sums(rng, data):
        x, y = (np.exp(value) for value in data)
        return int(rng.choice(3, p=[x / (x + y) / 2, y / (2 * (y + x)), 0.5]))

    first, second, rest = explore(sums, unknowns("data", 2))
    assert isinstance(first.weight, Weight)
    assert first.weight + second.weight == rest.weight == 0.5
    assert first.weight / first.weight == 1
    assert 1 - first.weight * 2 == second.weight * 2


BASES = {
    "2 ** (s / 2)": lambda s: [2 ** (x / 2) for x in s],
    "np.exp2": lambda s: np.exp2(np.array(s) / 2 - s[0] / 2),
    "0.5 ** -(s / 2)": lambda s: np.power(0.5, -np.array(s) / 2),
}


@pytest.mark.parametrize("base", BASES)
def test_weights_of_another_base_are_exponentials_of_its_logarithm(base):
    def chosen(rng, data):
        weights = BASES[base](data)
        return int(rng.choice(2, p=[each / sum(weights) for each in weights]))

    claimed = veridp.mechanism(adjacency="linf", size=2)(chosen)
    assert veridp.prove(claimed).epsilon == pytest.approx(math.log(2), rel=1e-15)
    first = next(path for path in explore(chosen, unknowns("data", 2)) if path.output == 0)
    assert isinstance(first.weight, Weight)
    for left, right in ((1.0, 3.0), (-2.0, 2.5)):
        values = dict(zip(sorted(first.weight.unknowns()), (left, right), strict=True))
        assert first.weight.evaluate(values) == pytest.approx(1 / (1 + 2 ** ((right - left) / 2)), rel=1e-14)
