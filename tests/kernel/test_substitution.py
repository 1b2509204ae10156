"""Expressions of a path with others in the place of symbols."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknowns
from veridp.kernel.substitution import expressions_in, formula_of, functions_in, leaf_key, substituted, within


def test_values_in_the_place_of_open_data() -> None:
    (path,) = explore(lambda rng, q: [q[0] + 2 * q[1] + rng.laplace(), np.exp(q[1])], unknowns("q", 2))
    first, second = (symbol for x in unknowns("q", 2) for symbol in x.terms)
    total, function = (substituted(leaf, {first: Fraction(1, 2), second: 3}) for leaf in path.output)
    assert (total.constant, list(total.terms)) == (Fraction(13, 2), list(path.noises))
    ((symbol, _),) = function.terms.items()
    assert symbol.evaluate({}) == pytest.approx(np.exp(3.0))
    assert leaf_key(substituted(path.output[0], {})) == leaf_key(path.output[0])


def test_expressions_in_the_place_of_noise_cancel() -> None:
    (path,) = explore(lambda rng, q: q[0] + rng.laplace(), unknowns("q", 1))
    (noise,) = path.noises
    (data,) = unknowns("q", 1)
    assert substituted(path.output, {noise: -data}).terms == {}


def test_functions_within_others_come_first() -> None:
    (path,) = explore(lambda rng, q: np.exp(np.tanh(rng.laplace()) + 1), None)
    names = [function.name for function in functions_in(path.output)]
    assert [name.count("(") for name in names] == [1, 2]
    assert names[0] in names[1]
    assert len(list(within(path.output))) == 3
    assert expressions_in(path.output, path.conditions) == [path.output] or len(path.conditions) == 0
    assert "laplace" in formula_of(next(iter(path.output.terms)))
