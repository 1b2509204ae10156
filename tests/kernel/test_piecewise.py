"""Functions of one record, piece by piece, against the functions themselves on a grid."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

import pytest

from veridp.kernel.piecewise import Piece, Pieces, chosen, is_never_negative, joined, plus, signs, times

GRID = [Fraction(k, 4) for k in range(-8, 9)]
RECORD = (Piece(-2, 2, "[]", {1: 1}),)
ONE, ZERO = (Piece(-2, 2, "[]", {0: 1}),), (Piece(-2, 2, "[]", {}),)


def value(pieces: Pieces, x: Fraction) -> Fraction:
    (piece,) = [piece for piece in pieces if piece.has(x)]  # just one: pieces divide the interval
    return Fraction(piece.at(x))


@pytest.mark.parametrize(
    ("holds", "function"),
    [
        (lambda slack: slack > 0, lambda x: x if x > 0 else Fraction(1)),
        (lambda slack: slack >= 0, lambda x: x if x >= 0 else Fraction(1)),
        (lambda slack: slack == 0, lambda x: x if x == 0 else Fraction(1)),
    ],
)
def test_a_choice_by_the_sign_of_the_record(holds: Callable[..., bool], function: Callable[..., Fraction]) -> None:
    pieces = chosen(RECORD, holds, RECORD, ONE)
    assert pieces is not None
    assert [value(pieces, x) for x in GRID] == [function(x) for x in GRID]


def test_sums_and_products_of_clamps() -> None:
    clamp = chosen(RECORD, lambda slack: slack > 0, RECORD, ZERO)
    assert clamp is not None
    square = joined(clamp, RECORD, times)
    total = joined(square, ONE, plus)
    assert [value(total, x) for x in GRID] == [max(x, Fraction(0)) * x + 1 for x in GRID]
    assert len(joined(clamp, ZERO, times)) == 1  # pieces that say the same are one


def test_a_line_is_cut_where_it_crosses_zero() -> None:
    parts = list(signs(Piece(0, 4, "[)", {0: -3, 1: 2})))
    assert [(part.low, part.high, part.ends) for part in parts] == [
        (0, Fraction(3, 2), "[)"),
        (Fraction(3, 2), Fraction(3, 2), "[]"),
        (Fraction(3, 2), 4, "()"),
    ]
    assert len(list(signs(Piece(0, 1, "[]", {0: 2, 1: 1})))) == 1


def test_no_choice_by_a_curve() -> None:
    assert chosen((Piece(-2, 2, "[]", {2: 1}),), lambda slack: slack > 0, RECORD, ONE) is None


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({2: 1, 1: -2, 0: 1}, True),  # (x - 1)²
        ({2: 1, 1: -2, 0: Fraction(999, 1000)}, False),  # a little below it, between the ends alone
        ({4: 1, 2: -2, 0: 1}, True),  # (x² - 1)²
        ({3: 1, 0: 8}, True),  # 0 at the lower end
        ({3: 1, 0: 7}, False),
    ],
)
def test_what_is_never_negative_is_decided_exactly(terms: dict[int, Fraction], expected: bool) -> None:
    piece = Piece(-2, 2, "[]", terms)
    assert is_never_negative([piece]) == expected
    low, high = piece.range
    assert all(operator.le(low, piece.at(x)) and piece.at(x) <= high for x in GRID)
