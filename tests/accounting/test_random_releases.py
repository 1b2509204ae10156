"""Random trees: no method below the tight one, and dp-accounting agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veridp.accounting import Leaf, Parallel, PostProcessed, Repeated, Sequential, Subsampled, account
from veridp.accounting.domination import AddedToSample, RemovedFromSample
from veridp.accounting.lattice import Composition, Part
from veridp.accounting.pairs import Finite
from veridp.accounting.tree import ReleaseNode

SIMPLE = ("basic", "advanced", "zCDP", "RDP")
PLD = "privacy loss distribution"
EPSILON = st.floats(0.01, 1.0)
LEAVES = st.one_of(
    EPSILON.map(Leaf.laplace),
    st.floats(1.0, 20.0).map(lambda scale: Leaf.gaussian(scale=scale)),
    st.tuples(EPSILON, st.sampled_from([0.0, 1e-6, 1e-4])).map(lambda claim: Leaf.claimed(*claim)),
    st.tuples(EPSILON, st.integers(2, 4)).map(lambda given: Leaf.randomised_response(*given)),
)


def nodes(inner: st.SearchStrategy[ReleaseNode]) -> st.SearchStrategy[ReleaseNode]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(Sequential),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Parallel({str(n): p for n, p in enumerate(parts)})),
        st.tuples(st.integers(1, 20), inner).map(lambda given: Repeated(*given)),
        st.tuples(st.floats(0.01, 1.0), inner).map(lambda given: Subsampled(*given)),
        inner.map(PostProcessed),
    )


@settings(max_examples=20, deadline=None)
@given(st.recursive(LEAVES, nodes, max_leaves=4), st.sampled_from([1e-2, 1e-3]))
def test_no_method_is_below_the_tight_one(release: ReleaseNode, delta: float) -> None:
    found = account(release, delta, step=1e-3, second_opinion=False)
    tight = found[PLD].epsilon
    for method in SIMPLE:
        assert found[method].epsilon >= tight * (1 - 1e-3) - 1e-3


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(st.recursive(LEAVES, nodes, max_leaves=3), st.sampled_from([1e-2, 3e-4]))
def test_dp_accounting_agrees_on_random_releases(release: ReleaseNode, delta: float) -> None:
    """On the same lattice, or exactly: a step of it is how much more dp-accounting may say of a single claim.

    No δ that is asked for is the mass of infinite losses: there, the rounding of that mass decides what
    dp-accounting says. `test_at_the_claimed_delta_...` looks at this case.
    """
    step = 1e-3
    found = account(release, delta, step=step, second_opinion=True)
    ours, theirs = found[PLD].epsilon, found[f"{PLD} (dp-accounting)"].epsilon
    assert math.isinf(ours) == math.isinf(theirs)
    assert math.isinf(ours) or theirs - step <= ours <= theirs + 1e-6


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
    st.floats(0.05, 0.95),
    st.integers(1, 4),
)
def test_samples_of_finite_mechanisms_against_all_outputs(p: list[int], q: list[int], rate: float, count: int) -> None:
    """Both directions of a sampled mechanism, run several times, over all its outputs."""
    left, right = np.array(p) / sum(p), np.array(q) / sum(q)
    pair = Finite.of(left, right)
    cases = (
        (RemovedFromSample(pair, rate), (1 - rate) * right + rate * left, right),
        (AddedToSample(pair, rate), left, (1 - rate) * left + rate * right),
    )
    for sampled, first, second in cases:
        mine, theirs = np.ones(1), np.ones(1)
        for _ in range(count):
            mine, theirs = np.multiply.outer(mine, first).ravel(), np.multiply.outer(theirs, second).ravel()
        for epsilon in (0.0, 0.1, 0.5):
            brute = float(np.maximum(mine - math.exp(epsilon) * theirs, 0.0).sum())
            found = Composition([Part(sampled, count)]).delta(epsilon)
            assert brute - 1e-12 <= found <= brute + 1e-6
