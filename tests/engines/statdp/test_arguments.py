"""The argument search: noise to its least, branches to where they differ, and what is left alone."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

import veridp
from veridp import catalogue, mechanism
from veridp.adjacency import patterns
from veridp.engines.statdp.arguments import noise_free, search_arguments
from veridp.errors import BadInput, NotExplorable
from veridp.mechanism import as_mechanism


def sparse_vector(rng, queries, *, epsilon, threshold, cutoff: int):
    """SVT as Lyu et al. write it: the budget is split first, then divided by the cut-off."""
    first = epsilon / 2
    second = (epsilon - first) / cutoff
    level = threshold + rng.laplace(scale=1 / first)
    answers = []
    for query in queries:
        answers.append(bool(query + rng.laplace(scale=2 / second) >= level))
        if sum(answers) >= cutoff:
            break
    return answers


@pytest.mark.parametrize(
    "pair", patterns(5)[::2] + patterns(10)[::2], ids=lambda pair: f"{pair.pattern} {len(pair.left)}"
)
def test_sparse_vector_gets_a_threshold_between_the_queries_and_a_cut_off_of_one(pair):
    found = search_arguments(as_mechanism(sparse_vector, epsilon=0.7), pair.left, pair.right)
    levels = sorted({*pair.left, *pair.right})
    assert found.arguments["cutoff"] == 1
    assert found.arguments["threshold"] in [(low + high) / 2 for low, high in pairwise(levels)]
    silent = [noise_free(found.mechanism, data) for data in (pair.left, pair.right)]
    assert silent[0] != silent[1]


@pytest.mark.parametrize("name", ["svt1", "svt2", "svt3", "svt4", "svt5", "svt6", "gap_svt", "numerical_svt"])
def test_defaults_give_way(name):
    crossing = patterns(5)[-2]
    found = search_arguments(catalogue[name].claiming(0.7), crossing.left, crossing.right)
    assert found.arguments["threshold"] == 0.5
    assert found.mechanism.values.get("cutoff", 1) == 1


def test_what_the_caller_sets_stays():
    bound = catalogue["numerical_svt"].bind(threshold=0.25, cutoff=2)
    found = search_arguments(bound, [1.0] * 5, [2.0] * 5)
    assert found.arguments == {}
    assert found.mechanism is bound


def test_an_argument_left_open_is_searched_for():
    bound = catalogue["svt1"].bind(threshold=veridp.unknown("threshold"), cutoff=2)
    found = search_arguments(bound, [0.0, 0.0], [1.0, 1.0])
    assert found.arguments == {"threshold": 0.5}
    assert found.mechanism.values["cutoff"] == 2


def test_noise_that_is_told_outright_is_part_of_the_claim():
    def laplace(rng, data, *, scale: int = 3):
        return data[0] + rng.laplace(scale=scale)

    assert search_arguments(as_mechanism(laplace), [0.0], [1.0]).arguments == {}


def test_noise_that_falls_as_an_argument_grows_has_no_least():
    def laplace(rng, data, *, epsilon=1.0, precision: int = 3):
        return data[0] + rng.laplace(scale=1 / (epsilon * precision))

    assert search_arguments(as_mechanism(laplace), [0.0], [1.0]).arguments == {}


def test_what_a_claim_is_made_of_stays():
    @mechanism(epsilon=lambda copies, epsilon: copies * epsilon)
    def repeated(rng, data, *, epsilon=0.5, copies: int = 3):
        return [data[0] + rng.laplace(scale=copies / epsilon) for _ in range(copies)]

    assert search_arguments(repeated, [0.0], [1.0]).arguments == {}


def test_two_thresholds_in_the_middle_of_two_gaps():
    def band(rng, data, *, epsilon=1.0, low: float, high: float):
        x = data[0] + rng.laplace(scale=1 / epsilon)
        if x < low:
            return "below"
        return "within" if x < high else "above"

    found = search_arguments(as_mechanism(band), [0.0], [1.0])
    outputs = [noise_free(found.mechanism, data) for data in ([0.0], [1.0])]
    assert outputs[0] != outputs[1]
    assert 0 < found.arguments["low"] < 1 or 0 < found.arguments["high"] < 1


def test_a_whole_threshold_is_whole():
    def above(rng, data, *, epsilon=1.0, level: int):
        return bool(data[0] + rng.laplace(scale=1 / epsilon) >= level)

    found = search_arguments(as_mechanism(above), [3.0], [4.0])
    assert found.arguments == {"level": 4}
    assert isinstance(found.arguments["level"], int)


def test_without_a_branch_any_value_will_do():
    def shifted(rng, data, *, epsilon=1.0, offset):
        return data[0] + offset + rng.laplace(scale=1 / epsilon)

    found = search_arguments(as_mechanism(shifted), [0.0], [1.0])
    assert found.arguments == {"offset": 1}
    assert found.notes == ("offset = 1 (no branch depends on it)",)


def test_an_argument_that_cannot_be_found_is_asked_for():
    def powered(rng, data, *, epsilon=1.0, power):
        return 1 if data[0] ** power + rng.laplace(scale=1 / epsilon) > 2 else 0

    def scaled(rng, data, *, scale):
        return data[0] + rng.laplace(scale=scale)

    def named(rng, data, *, mode: str):
        return mode

    with pytest.raises(BadInput, match=r"needs a value for power, and none could be found: .* give power=…"):
        search_arguments(as_mechanism(powered), [1.0], [2.0])
    with pytest.raises(BadInput, match="needs a value for scale, which sets its noise; give scale=…"):
        search_arguments(as_mechanism(scaled), [1.0], [2.0])
    with pytest.raises(BadInput, match="needs a value for mode, which is not a number"):
        search_arguments(as_mechanism(named), [1.0], [2.0])


def test_a_default_stays_where_branches_cannot_be_explored():
    def powered(rng, data, *, epsilon=1.0, power=2.0):
        return 1 if data[0] ** power + rng.laplace(scale=1 / epsilon) > 2 else 0

    found = search_arguments(as_mechanism(powered), [1.0], [2.0])
    assert found.arguments == {}
    assert found.notes[0].startswith("other arguments as they are: ")


# ------------------------------------------------------------------------------------------------- without noise


@pytest.mark.parametrize(
    ("name", "data", "output"),
    [
        ("noisy_max1", [1.0, 3.0, 2.0], 1),
        ("noisy_max2", [1.0, 3.0, 2.0], 1),
        ("noisy_max3", [1.0, 3.0, 2.0], 3.0),
        ("noisy_max_gumbel", [1.0, 3.0, 2.0], 1),
        ("exponential_mechanism", [1.0, 3.0, 2.0], 1),
        ("laplace", [4.0], [4.0]),
        ("gaussian", [4.0], [4.0]),
        ("geometric", [4], [4]),
        ("svt1", [0.0, 1.0, 1.0], [False, True]),
        ("svt3", [0.0, 1.5, 1.0], [None, 1.5]),
        ("svt6", [0.0, 1.0, 2.0], [False, True, True]),
        ("smart_sum", [1.0, 1.0, 1.0], [1.0, 2.0, 3.0]),
        ("randomized_response", True, True),
    ],
)
def test_the_noise_free_output_is_the_true_answer(name, data, output):
    assert noise_free(catalogue[name], data) == output


def test_integer_noise_and_choices_at_their_likeliest():
    def drawing(rng, data):
        choices = [rng.choice(["a", "b"], p=[0.3, 0.7]), int(rng.integers(3)), bool(rng.random() < 0.6)]
        return [
            *choices,
            int(rng.poisson(2.5)),
            int(rng.binomial(100, 0.3)),
            float(rng.uniform(2, 4)),
            *rng.normal(size=2),
        ]

    assert noise_free(as_mechanism(drawing), None) == ["b", 0, True, 2, 30, 3.0, 0.0, 0.0]


def test_randomness_of_its_own_is_noticed():
    import random

    adopted, hidden = random.Random(1), (random.Random(1),)
    assert noise_free(as_mechanism(lambda rng, data: adopted.random()), None) == 0.5
    with pytest.raises(NotExplorable, match="draws noise from elsewhere than rng"):
        noise_free(as_mechanism(lambda rng, data: hidden[0].random()), None)


def test_drawing_until_a_value_pleases_is_given_up():
    def rejecting(rng, data):
        while rng.random() > 0.1:
            pass
        return data

    with pytest.raises(NotExplorable, match="it draws more than 100000 times, perhaps until a value pleases"):
        noise_free(as_mechanism(rejecting), 0)


def test_a_middle_is_exact():
    found = search_arguments(catalogue["svt6"], [0.0, 0.0], [1.0, 0.5])
    assert math.isclose(found.arguments["threshold"], 0.25)
