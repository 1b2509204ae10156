"""The catalogue as a whole: its names, its words, and the numbers of the literature."""

from __future__ import annotations

import math
import pickle

import cloudpickle
import numpy as np
import pytest

import veridp
from veridp.catalogue import UnknownMechanism, catalogue
from veridp.catalogue.svt import svt1
from veridp.errors import BadInput, BadTarget

NAMES = [
    "laplace",
    "noisy_hist1",
    "noisy_hist2",
    "laplace_parallel",
    "truncated_geometric",
    "noisy_max1",
    "noisy_max2",
    "noisy_max3",
    "noisy_max4",
    "noisy_max_sum",
    "noisy_max_gumbel",
    "svt1",
    "svt2",
    "svt3",
    "svt4",
    "svt5",
    "svt6",
    "svt34_parallel",
    "numerical_svt",
    "gap_svt",
    "bad_gap_svt",
    "adaptive_svt",
    "bad_adaptive_svt",
    "monotone_svt",
    "partial_sum",
    "bad_partial_sum",
    "smart_sum",
    "bad_smart_sum",
    "prefix_sum",
    "one_time_rappor",
    "rappor",
    "exponential_mechanism",
    "randomized_response",
    "gaussian",
    "geometric",
    "at",
    "at1",
    "at2",
    "at3",
    "at4",
    "at5",
    "finder_sum",
]

WRONG = [
    "noisy_hist2",
    "noisy_max3",
    "noisy_max4",
    "noisy_max_sum",
    "svt3",
    "svt4",
    "svt5",
    "svt6",
    "svt34_parallel",
    "bad_gap_svt",
    "bad_adaptive_svt",
    "bad_partial_sum",
    "bad_smart_sum",
    "prefix_sum",
    "at",
    "at3",
    "at4",
    "at5",
]


def test_the_names_are_these() -> None:
    assert sorted(catalogue) == sorted(NAMES)
    assert len(catalogue) == len(NAMES)


def test_a_wrong_name_is_a_bad_target_and_a_key_error_that_suggests_near_names() -> None:
    with pytest.raises(UnknownMechanism) as caught:
        catalogue["svt_1"]
    assert isinstance(caught.value, BadTarget)
    assert isinstance(caught.value, KeyError)
    assert str(caught.value).startswith("the catalogue has no mechanism 'svt_1'; did you mean svt1")
    with pytest.raises(KeyError, match="`veridp catalogue` lists what it has"):
        catalogue["#"]


def test_it_is_a_mapping_that_cannot_be_changed() -> None:
    assert "svt1" in catalogue
    assert "nothing" not in catalogue
    assert catalogue.get("nothing") is None
    with pytest.raises(TypeError):
        catalogue["mine"] = catalogue["svt1"]  # type: ignore[index]


def test_mapping_and_modules_share_the_package_name() -> None:
    assert veridp.catalogue is catalogue
    assert veridp.catalogue["svt1"] is svt1


@pytest.mark.parametrize("name", NAMES)
def test_each_tells_what_it_does_and_where_it_is_from(name: str) -> None:
    mechanism = catalogue[name]
    assert mechanism.summary.endswith(".")
    assert any(year in mechanism.function.__doc__ for year in map(str, range(1965, 2026)))
    assert ("Wrong" in mechanism.function.__doc__) == (name in WRONG)


@pytest.mark.parametrize("name", NAMES)
def test_right_and_wrong_follow_from_claim_and_true_cost(name: str) -> None:
    mechanism = catalogue[name]
    assert mechanism.keeps_claim() is (name not in WRONG)


@pytest.mark.parametrize("name", NAMES)
def test_each_runs_on_every_pair_worth_trying(name: str) -> None:
    mechanism = catalogue[name]
    rng = np.random.default_rng(5)
    pairs = list(mechanism.adjacency.pairs(mechanism.size, mechanism.domain))
    assert pairs
    for pair in pairs[:60]:
        for data in (pair.left, pair.right):
            assert mechanism(rng, data) is not None


@pytest.mark.parametrize("name", NAMES)
def test_each_travels_to_a_worker(name: str) -> None:
    mechanism = catalogue[name]
    data = mechanism.adjacency.example(mechanism.size, mechanism.domain)
    there = pickle.loads(cloudpickle.dumps(mechanism))  # noqa: S301
    here = mechanism(np.random.default_rng(8), data)
    assert str(there(np.random.default_rng(8), data)) == str(here)


# The table of published true costs: ε = 0.1 unless an argument says otherwise.
PUBLISHED = [
    ("laplace", 1, {}, 0.1),
    ("noisy_hist1", 5, {}, 0.1),
    ("noisy_hist2", 5, {}, 10.0),
    ("laplace_parallel", 1, {}, 0.1),
    ("truncated_geometric", 1, {}, 0.117783),
    ("noisy_max1", 5, {}, 0.1),
    ("noisy_max2", 5, {}, 0.1),
    ("noisy_max3", 5, {}, 0.25),
    ("noisy_max4", 5, {}, math.inf),
    ("noisy_max_gumbel", 5, {}, 0.1),
    ("noisy_max_sum", 10, {}, 1.0),
    ("svt1", 10, {}, 0.1),
    ("svt2", 10, {}, 0.1),
    ("svt3", 10, {}, 0.5),
    ("svt3", 10, {"cutoff": 2}, 0.25),
    ("svt4", 10, {}, 0.175),
    ("svt4", 10, {"epsilon": 0.2}, 0.35),
    ("svt4", 10, {"epsilon": 0.7}, 1.225),
    ("svt4", 10, {"epsilon": 1.5}, 2.625),
    ("svt4", 10, {"cutoff": 2}, 0.325),
    ("svt5", 10, {}, math.inf),
    ("svt6", 10, {}, 0.5),
    ("svt34_parallel", 10, {}, 0.575),
    ("numerical_svt", 10, {}, 0.1),
    ("numerical_svt", 10, {"cutoff": 1}, 0.1),
    ("gap_svt", 5, {}, 0.1),
    ("bad_gap_svt", 5, {}, 0.125),
    ("bad_gap_svt", 10, {"cutoff": 2}, 0.125),
    ("adaptive_svt", 5, {}, 0.1),
    ("monotone_svt", 5, {}, 0.1),
    ("partial_sum", 5, {}, 0.1),
    ("bad_partial_sum", 5, {}, 0.2),
    ("smart_sum", 5, {}, 0.2),
    ("bad_smart_sum", 5, {}, math.inf),
    ("prefix_sum", 10, {}, 1.0),
    ("one_time_rappor", 1, {}, 0.8007),
    ("rappor", 1, {}, 0.4001),
    ("exponential_mechanism", 5, {}, 0.1),
    ("randomized_response", 1, {}, 0.1),
    ("geometric", 1, {}, 0.1),
    ("at", 4, {}, 0.2),
    ("at1", 4, {}, 0.1),
    ("at2", 4, {}, 0.1),
    ("at3", 4, {}, 0.2),
    ("at4", 4, {}, 0.175),
    ("at5", 4, {}, math.inf),
    ("finder_sum", 4, {}, 0.1),
]


@pytest.mark.parametrize(("name", "size", "arguments", "published"), PUBLISHED)
def test_true_costs_are_the_published_ones(name: str, size: int, arguments: dict, published: float) -> None:
    assert catalogue[name].true_epsilon(size, **arguments) == pytest.approx(published, rel=1e-4)


def test_every_cost_is_published_but_those_derived_and_checked_elsewhere() -> None:
    assert set(NAMES) - {name for name, *_ in PUBLISHED} == {"gaussian", "bad_adaptive_svt"}


def test_claims_follow_the_arguments() -> None:
    assert catalogue["svt1"].claim.epsilon == 0.1
    assert catalogue["svt1"].bind(epsilon=0.5).claim.epsilon == 0.5
    assert catalogue["smart_sum"].bind(epsilon=0.5).claim.epsilon == 1.0
    assert catalogue["bad_smart_sum"].claim.epsilon == 0.2
    assert catalogue["svt34_parallel"].claim.epsilon == 0.2
    assert catalogue["gaussian"].claim.delta == 1e-5
    assert catalogue["rappor"].claim.epsilon == pytest.approx(0.4001, abs=1e-4)


def test_a_mechanism_may_be_right_for_some_sizes_and_budgets_only() -> None:
    assert catalogue["bad_gap_svt"].keeps_claim(4)
    assert not catalogue["bad_gap_svt"].keeps_claim(5)
    assert catalogue["noisy_hist2"].keeps_claim(epsilon=1.5)
    assert catalogue["noisy_max3"].keeps_claim(2)
    assert catalogue["svt3"].keeps_claim(4, cutoff=2)


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(BadInput, match=r"svt6 takes no argument 'cutoff'; its arguments are: epsilon, threshold"):
        catalogue["at"].bind(cutoff=1)
