"""Which expressions are polynomials of degree 2 in a draw, and which."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridp.kernel.explore import explore
from veridp.kernel.handmade.quadratic import Quadratic, quadratic

FORMS: list[tuple[Any, Quadratic | None]] = [
    (lambda y: 3 - 2 * y, Quadratic(Fraction(3), Fraction(-2), Fraction(0))),
    (lambda y: y**2 + y, Quadratic(Fraction(0), Fraction(1), Fraction(1))),
    (lambda y: (2 * y - 1) ** 2 / 4, Quadratic(Fraction(1, 4), Fraction(-1), Fraction(1))),
    (lambda y: (y + 1) * (3 * y - 2) + 5, Quadratic(Fraction(3), Fraction(1), Fraction(3))),
    (lambda y: y**3, None),
    (lambda y: y * np.exp(y), None),
]


@pytest.mark.parametrize(("form", "expected"), FORMS)
def test_polynomials_of_one_draw(form: Any, expected: Quadratic | None) -> None:
    path = explore(lambda rng, data: form(rng.geometric(0.5)), None)[0]
    (y,) = path.noises
    found = quadratic(path.output, y)
    assert found == expected
    if found is not None:
        assert [found.at(k) for k in (-1, 0, 4)] == [Fraction(form(Fraction(k))) for k in (-1, 0, 4)]


def test_a_product_of_two_draws_is_none() -> None:
    (path,) = explore(lambda rng, data: rng.geometric(0.5) * rng.geometric(0.5), None)
    assert quadratic(path.output, path.noises[0]) is None
