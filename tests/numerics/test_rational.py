"""Elimination in rational numbers: the properties that define a reduced echelon form, on random matrices."""

from __future__ import annotations

from fractions import Fraction

import pytest
from flint import fmpz_mat
from hypothesis import given
from hypothesis import strategies as st

from veridp.numerics.rational import determinant, echelon, fraction, independent_columns, solution

Matrix = list[list[Fraction]]
entries = st.sampled_from([Fraction(0), Fraction(1), Fraction(-2), Fraction(1, 3), Fraction(10**30, 7)])


@st.composite
def matrices(draw: st.DrawFn, square: bool = False) -> Matrix:
    """Small matrices, many of them of a rank below their size."""
    height = draw(st.integers(1, 4))
    width = height if square else draw(st.integers(1, 5))
    return draw(st.lists(st.lists(entries, min_size=width, max_size=width), min_size=height, max_size=height))


@given(matrices())
def test_the_form_is_reduced_and_every_row_follows_from_it(matrix: Matrix) -> None:
    found = echelon(matrix)
    assert found.pivots == sorted(set(found.pivots))
    for place, (row, pivot) in enumerate(zip(found.rows, found.pivots, strict=True)):
        assert not any(row[:pivot])
        assert [other[pivot] for other in found.rows] == [int(k == place) for k in range(len(found.rows))]
    for row in matrix:
        made = [sum(row[p] * r[k] for p, r in zip(found.pivots, found.rows, strict=True)) for k in range(len(row))]
        assert made == row


@given(matrices())
def test_as_many_rows_as_columns_are_independent(matrix: Matrix) -> None:
    turned = [list(column) for column in zip(*matrix, strict=True)]
    assert len(echelon(matrix).pivots) == len(echelon(turned).pivots)


def test_no_rows_have_no_pivots() -> None:
    assert echelon([]).pivots == []


@given(matrices(square=True))
def test_a_determinant_is_0_just_where_columns_depend_on_each_other(matrix: Matrix) -> None:
    found = determinant(matrix)
    assert bool(found) == (len(echelon(matrix).pivots) == len(matrix))
    doubled = [[2 * value for value in matrix[0]], *matrix[1:]]
    assert determinant(doubled) == 2 * found


def test_known_values() -> None:
    assert determinant([[Fraction(1, 2), 3], [1, 4]]) == -1
    assert independent_columns(fmpz_mat([[0, 1, 2, 0], [0, 2, 4, 1]])) == [1, 3]
    assert list(map(fraction, solution(fmpz_mat([[2, 1], [0, 3]]), [1, 1]))) == [Fraction(1, 3), Fraction(1, 3)]
    for singular in (fmpz_mat([[1, 2], [2, 4]]), fmpz_mat([[1, 2]])):
        with pytest.raises(ZeroDivisionError):
            solution(singular, [1] * singular.nrows())
