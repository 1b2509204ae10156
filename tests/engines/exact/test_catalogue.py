"""The whole catalogue: probabilities that sum to 1, and a loss that never exceeds the true cost."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate

import veridp
from veridp.engines.exact import compare, law
from veridp.engines.exact.loss import Mixture
from veridp.mechanism import Mechanism

EXACT = 1e-12
ROUNDING = 1e-9


def random_pair(mechanism: Mechanism, size: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two neighbours in the domain; entries move by 1, by a part of it, or not at all."""
    domain: Any = mechanism.domain
    name = mechanism.adjacency.name
    if name == "any":
        return tuple(domain[int(k)] for k in rng.choice(len(domain), 2, replace=False))
    integers = isinstance(domain, range)
    low, high = (domain[0], domain[-1]) if integers else domain
    left = rng.integers(low, high, size, endpoint=True) if integers else np.round(rng.uniform(low, high, size), 2)
    if name == "add-remove":
        return left.tolist(), [*left.tolist(), float(rng.uniform(low, high))]
    moves = rng.choice([-1.0, 1.0, -0.5, 0.25, 0.0], size)
    if name == "l1":
        moves = np.where(np.arange(size) == rng.integers(size), rng.choice([-1.0, 1.0]), 0.0)
    if name == "monotone":
        moves = np.abs(moves) * rng.choice([-1.0, 1.0])
    right = np.clip(left + moves, low, high)
    return left.tolist(), (right.astype(int) if integers else right).tolist()


def inputs(name: str) -> list[Any]:
    """An ordinary input, the two sides of the last pattern, and two random inputs."""
    mechanism = veridp.catalogue[name]
    size = 5 if name == "svt34_parallel" else mechanism.size  # its 3136 paths are walked once, below
    last = list(mechanism.adjacency.pairs(size, mechanism.domain))[-1]
    return [
        mechanism.adjacency.example(size, mechanism.domain),
        last.left,
        *random_pair(mechanism, size, _rng(name, 0)),
    ]


def _rng(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, *name.encode()])


# ------------------------------------------------------------------------------------------------------ sums to 1


@pytest.mark.parametrize("name", veridp.catalogue)
def test_probabilities_sum_to_one(name: str) -> None:
    """Of every mechanism: there is none whose law cannot be expressed."""
    for data in inputs(name):
        assert law(veridp.catalogue[name], data).total == pytest.approx(1, abs=EXACT)


@pytest.mark.slow
def test_probabilities_sum_to_one_with_thousands_of_paths() -> None:
    data = [10.0, -10.0, *np.arange(-4.0, 4.0)]
    assert law(veridp.catalogue["svt34_parallel"], data).total == pytest.approx(1, abs=EXACT)


@pytest.mark.parametrize(
    ("name", "data", "output"),
    [
        ("laplace", [1.0], lambda z: [z]),
        ("gaussian", [1.0], lambda z: [z]),
        ("noisy_max3", [1.0, 2.0, 0.0], lambda z: z),
        ("noisy_max4", [1.0, 2.0, 0.0], lambda z: z),
        ("noisy_max_sum", [1.0, 2.0, 0.0, 1.0], lambda z: z),
        ("svt3", [1.0, 2.0, 0.0], lambda z: [None, z]),
        ("gap_svt", [1.0, 2.0, 0.0], lambda z: [None, z]),
        ("bad_adaptive_svt", [1.0, 2.0], lambda z: [None, z]),
    ],
)
def test_densities_integrate_to_the_probability_of_their_class(name: str, data: list[float], output: Any) -> None:
    """SciPy's quadrature of the density, at ε = 1, against the probability that no density was used for."""
    exact = law(veridp.catalogue[name], data, epsilon=1.0)
    form = output(0.5)
    mass = next(probability for event, probability in exact.classes() if event.holds(form))
    ends = [-400.0, -60.0, -20.0, *np.arange(-12.0, 13.0), 14.0, 20.0, 60.0, 400.0]
    parts = [
        integrate.quad(lambda z: exact.density(output(z)), a, b, epsabs=1e-11, limit=100)[0]
        for a, b in itertools.pairwise(ends)
    ]
    assert math.fsum(parts) == pytest.approx(mass, abs=1e-8)


# ------------------------------------------------------------------------------------- never above the true cost


def below_true_cost(mechanism: Mechanism, left: Any, right: Any) -> None:
    comparison = compare(mechanism, left, right)
    truth = mechanism.true_epsilon(len(left) if isinstance(left, list) else 1)
    assert truth is not None
    claim = mechanism.claim
    if claim is not None and claim.delta:
        assert comparison.delta(truth) <= claim.delta * (1 + ROUNDING)
    else:
        assert comparison.epsilon <= truth + ROUNDING


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("name", veridp.catalogue)
def test_random_neighbours_cost_at_most_the_true_epsilon(name: str, seed: int) -> None:
    mechanism, rng = veridp.catalogue[name], _rng(name, seed)
    if seed > 1 and "epsilon" in mechanism.values:
        mechanism = mechanism.bind(epsilon=float(rng.choice([0.5, 1.0, 2.0])))
    left, right = random_pair(mechanism, min(mechanism.size, 3 if seed == 1 else 4), rng)
    if isinstance(left, list) and len(right) > len(left):
        left, right = right, left
    below_true_cost(mechanism, left, right)


@pytest.mark.parametrize("name", veridp.catalogue)
def test_patterns_cost_at_most_the_true_epsilon(name: str) -> None:
    mechanism = veridp.catalogue[name]
    pairs = list(mechanism.adjacency.pairs(min(mechanism.size, 3), mechanism.domain))
    for pair in pairs[:: max(1, len(pairs) // 3)]:
        below_true_cost(mechanism, pair.left, pair.right)


@pytest.mark.parametrize("name", ["svt1", "svt3", "noisy_max1", "numerical_svt", "rappor", "geometric"])
def test_the_loss_turns_round_with_its_inputs(name: str) -> None:
    """ε and δ hold in both directions; the classes are the same, with left and right exchanged."""
    mechanism = veridp.catalogue[name]
    left, right = random_pair(mechanism, min(mechanism.size, 4), _rng(name, 9))
    there, back = compare(mechanism, left, right), compare(mechanism, right, left)
    assert there.epsilon == pytest.approx(back.epsilon, rel=1e-12)
    if isinstance(there.loss, Mixture):
        assert len(there.table) == len(back.table)
        assert there.loss.masses() == pytest.approx(back.loss.masses()[::-1], abs=EXACT)


@pytest.mark.parametrize("name", veridp.catalogue)
def test_an_input_compared_with_itself_loses_nothing(name: str) -> None:
    mechanism = veridp.catalogue[name]
    data = mechanism.adjacency.example(min(mechanism.size, 3), mechanism.domain)
    if not mechanism.adjacency.adjacent(data, data):
        return
    comparison = compare(mechanism, data, data)
    assert comparison.epsilon <= 1e-12
    assert comparison.delta(0.0) <= 1e-12
