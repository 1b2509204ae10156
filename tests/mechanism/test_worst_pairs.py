"""The pairs that a library's own map calls worst: engines try them first, and they show the cost that is stated."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from diffprivlib import mechanisms as ibm
from diffprivlib import tools

import veridp
from veridp.adjacency import Pair
from veridp.engines.finder.candidates import pair_source
from veridp.engines.pipeline.data import Table, neighbours
from veridp.engines.sniper.pairs import PairStream
from veridp.engines.statdp.candidates import usual_pairs
from veridp.mechanism import as_mechanism

dp.enable_features("contrib")
NUMBERS = dp.vector_domain(dp.atom_domain(bounds=(-3, 10)))
NOISY_SUM = dp.t.make_sum(NUMBERS, dp.symmetric_distance()) >> dp.m.then_laplace(10.0)


def test_every_engine_that_tries_pairs_begins_with_the_worst() -> None:
    """By the map one record more costs 1: that of the value 10 moves the sum by 10, and the noise is of scale 10."""
    mechanism = veridp.adapters.opendp(NOISY_SUM, size=3)
    worst = mechanism.worst_pairs(3, mechanism.domain)[0]
    assert abs(sum(worst.left) - sum(worst.right)) == 10  # type: ignore[call-overload]
    plain = next(mechanism.adjacency.pairs(3, mechanism.domain))
    assert abs(sum(plain.left) - sum(plain.right)) == 3  # type: ignore[call-overload]
    table = Table.of(None, mechanism.domain, False, 3)
    first = [
        next(PairStream(mechanism, 3).patterns()),
        usual_pairs(mechanism, 3)[0],
        next(neighbours(table, mechanism)),
    ]
    assert {(repr(pair.left), repr(pair.right)) for pair in first} == {(repr(worst.left), repr(worst.right))}


def test_pairs_that_are_named_worst_are_compared_before_those_of_the_adjacency() -> None:
    def noisy_sum(rng: Any, data: Any) -> Any:
        return sum(data) + rng.laplace(scale=10)

    declared = veridp.mechanism(epsilon=1.0, adjacency="replace", domain=(0, 10), size=2)(noisy_sum)
    named = replace(declared, worst=lambda mechanism: [Pair([0, 3], [7, 3], "named")])
    assert veridp.exact.worst(declared, max_pairs=1).epsilon == pytest.approx(1.0)
    assert veridp.exact.worst(named, max_pairs=1).epsilon == pytest.approx(0.7)
    assert pair_source(named, 2, (0, 10)).pairs[0].pattern == "named"  # type: ignore[attr-defined]


def test_noise_within_bounds_is_worst_at_their_ends() -> None:
    machine = ibm.LaplaceBoundedDomain(epsilon=1, sensitivity=2, lower=0, upper=5)
    pairs = as_mechanism(machine).worst_pairs(1, (0, 5))
    assert {frozenset((pair.left[0], pair.right[0])) for pair in pairs} >= {frozenset((0, 2)), frozenset((3, 5))}  # type: ignore[index]


def test_the_map_is_asked() -> None:
    """Records in another order cost nothing under the symmetric distance, and are not among the worst."""
    mechanism = veridp.adapters.opendp(NOISY_SUM, size=3)
    assert any("moved" in pair.pattern for pair in mechanism.adjacency.pairs(3, mechanism.domain))
    assert all(
        len(pair.left) != len(pair.right)  # type: ignore[arg-type]
        for pair in mechanism.worst_pairs(3, mechanism.domain)
    )
    replaced = veridp.adapters.opendp(NOISY_SUM, size=3, adjacency="replace-unordered")
    for pair in replaced.worst_pairs(3, replaced.domain):
        assert sorted(pair.left) != sorted(pair.right)  # type: ignore[call-overload]
    scores = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    chosen = dp.m.make_noisy_max(scores, dp.linf_distance(T=float), dp.max_divergence(), 2.0)
    first = as_mechanism(chosen).worst_pairs(3, (-10, 10))[0]
    moves = [right - left for left, right in zip(first.left, first.right, strict=True)]  # type: ignore[call-overload]
    assert (min(moves), max(moves)) == (-1, 1)  # one score rises and the others fall: its odds change by e^ε


def test_worst_pairs_follow_the_settings_that_are_stated() -> None:
    mean = veridp.adapters.diffprivlib(tools.mean, bounds=(0, 10), size=4)
    (first, *_) = mean.stating(domain=(2, 7), size=2).worst_pairs(2, (2, 7))
    assert abs(math.fsum(first.left) - math.fsum(first.right)) == 5  # type: ignore[arg-type]
    own = veridp.adjacency.OwnAdjacency(
        "labels", lambda left, right: True, lambda size: [("a", "b")], lambda size: np.eye(size)
    )
    assert [pair.left for pair in mean.stating(adjacency=own).worst_pairs(2, (0, 10))] == ["a"]
    given = mean.stating(adjacency=veridp.adjacency.GivenPairs([([1.0, 2.0], [1.0, 3.0])]))
    assert [pair.left for pair in given.pairs(2, (0, 10))] == [[1.0, 2.0], [1.0, 3.0]]
