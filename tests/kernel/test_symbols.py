"""How sums are written, which symbols have no atoms, and what relations hold."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veridp.kernel.explore import explore
from veridp.kernel.expressions import unknown
from veridp.kernel.symbols import Relation, drawn_in, has_no_atoms, number_text, sum_text, value_of


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.5, "0.5"), (Fraction(2, 3), "2/3"), (Fraction(1, 10**5), "1e-05"), (10**400, "1.00000e+400"), (7, "7")],
)
def test_numbers_are_written_as_people_do(number: Any, text: str) -> None:
    assert number_text(Fraction(number) if isinstance(number, float) else number) == text


def test_sums_are_written_with_their_signs() -> None:
    q = unknown("q")
    (symbol,) = q.terms
    assert sum_text([(symbol, Fraction(-1)), (symbol, Fraction(3, 2))], Fraction(-1, 4)) == "-q + 1.5·q - 0.25"
    assert sum_text([], 0) == "0"


ATOMLESS: list[tuple[Any, bool]] = [
    (lambda rng: rng.laplace(), True),
    (lambda rng: rng.geometric(0.5), False),
    (lambda rng: rng.laplace() + rng.geometric(0.5), True),
    (lambda rng: np.exp(rng.laplace()), True),
    (lambda rng: np.floor(rng.laplace()), False),
    (lambda rng: rng.laplace() * rng.laplace(), True),
]


@pytest.mark.parametrize(("made", "expected"), ATOMLESS)
def test_who_takes_no_value_with_a_probability(made: Any, expected: bool) -> None:
    path = explore(lambda rng, data: made(rng), None)[0]
    assert has_no_atoms(path.output.terms) == expected


def test_values_of_functions_are_those_of_their_arguments() -> None:
    (path,) = explore(lambda rng, data: np.exp(rng.laplace() - 2 * rng.laplace()), None)
    ((symbol, factor),) = path.output.terms.items()
    first, second = path.noises
    assert set(drawn_in([symbol])) == {first, second}
    assert factor * value_of(symbol, {first: 1.5, second: 0.25}) == pytest.approx(np.exp(1.0))


def test_relations() -> None:
    holding = {relation: [bool(relation.holds(x)) for x in (-1, 0, 1)] for relation in Relation}
    assert holding == {
        Relation.AT_LEAST: [False, True, True],
        Relation.ABOVE: [False, False, True],
        Relation.EQUAL: [False, True, False],
        Relation.UNEQUAL: [True, False, True],
    }
