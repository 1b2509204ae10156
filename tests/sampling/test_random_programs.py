"""Random programs: a tree of affine branches, whose paths must be what real runs do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from veridp.kernel.explore import explore
from veridp.kernel.expressions import Affine
from veridp.kernel.path import leaves

DRAWS = 4
numbers = st.integers(-4, 4).map(lambda k: k / 2)
kinds = st.sampled_from(["laplace", "exponential", "normal", "random", "gumbel", "logistic"])


@dataclass(frozen=True)
class Leaf:
    weights: tuple[float, ...] | None
    label: str

    def run(self, noise, query):
        return self.label if self.weights is None else (self.label, combine(self.weights, noise, query))


@dataclass(frozen=True)
class Branch:
    weights: tuple[float, ...]
    strict: bool
    then: object
    other: object

    def run(self, noise, query):
        value = combine(self.weights, noise, query)
        holds = value > 0 if self.strict else value >= 0
        return (self.then if holds else self.other).run(noise, query)


def combine(weights, noise, query):
    *factors, on_query, constant = weights
    return sum((f * n for f, n in zip(factors, noise, strict=True)), start=on_query * query + constant)


weights = st.tuples(*[numbers] * (DRAWS + 2))
leaf = st.builds(Leaf, st.none() | weights, st.sampled_from("abc"))
programs = st.recursive(leaf, lambda inner: st.builds(Branch, weights, st.booleans(), inner, inner), max_leaves=12)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(programs, st.tuples(*[kinds] * DRAWS), numbers)
def test_every_real_run_follows_exactly_one_path(program, noise_kinds, query):
    def mechanism(rng, data):
        return program.run([getattr(rng, kind)() for kind in noise_kinds], data)

    paths = explore(mechanism, query)
    rng = np.random.default_rng(0)
    for _ in range(40):
        draws = [getattr(rng, kind)() for kind in noise_kinds]
        following = [path for path in paths if path.holds(dict(zip(path.noises, draws, strict=True))).all()]
        assert len(following) == 1
        values = dict(zip(following[0].noises, draws, strict=True))
        told = [leaf.evaluate(values) if isinstance(leaf, Affine) else leaf for leaf in leaves(following[0].output)]
        done = leaves(program.run(draws, query))
        assert [x for x in told if isinstance(x, str)] == [x for x in done if isinstance(x, str)]
        assert np.allclose([x for x in told if not isinstance(x, str)], [x for x in done if not isinstance(x, str)])
