"""Linear algebra in rational numbers, exactly: elimination, and what is read off from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flint import fmpq, fmpq_mat, fmpz_mat

Rational = int | Fraction


@dataclass(frozen=True, eq=False)
class Echelon:
    """The reduced row echelon form of a matrix, which is unique; rows of zeros are left out.

    The `pivots` are the first columns that are linearly independent. Each row has a 1 in its pivot and a 0 in those of
    the others, so the entries of any other column tell which combination of the pivots it is.
    """

    rows: list[list[Fraction]]
    pivots: list[int]


def echelon(matrix: Sequence[Sequence[Rational]]) -> Echelon:
    """The reduced echelon form of a matrix, given by its rows.

    >>> echelon([[0, 2, 4], [1, 1, 1]]).pivots
    [0, 1]
    """
    reduced, rank = _matrix(matrix).rref()
    return Echelon([[fraction(value) for value in row] for row in reduced.tolist()[:rank]], _leading(reduced, rank))


def independent_columns(matrix: fmpz_mat) -> list[int]:
    """The first columns that are linearly independent."""
    reduced, _, rank = matrix.rref()
    return _leading(reduced, rank)


def solution(matrix: fmpz_mat, right: Sequence[int]) -> list[fmpq]:
    """The solution of a square system; ZeroDivisionError where it is singular."""
    if matrix.nrows() != matrix.ncols():
        raise ZeroDivisionError("not square")
    return matrix.solve(fmpz_mat(len(right), 1, right)).entries()


def determinant(matrix: Sequence[Sequence[Rational]]) -> Fraction:
    """The determinant of a square matrix, given by its rows."""
    return fraction(_matrix(matrix).det())


def least_squares(
    left: Sequence[Sequence[Rational]], right: Sequence[Sequence[Rational]], weights: Sequence[Rational]
) -> list[list[Fraction]] | None:
    """The solution X of left · X = right each of whose columns has the least Σ x²/weight; None where there is none.

    The matrices are given by their rows, and all weights are above 0.

    >>> least_squares([[1, 1]], [[1]], [1, 3])
    [[Fraction(1, 4)], [Fraction(3, 4)]]
    """
    width = len(weights)
    found = echelon([[*a, *b] for a, b in zip(left, right, strict=True)])
    if any(pivot >= width for pivot in found.pivots):
        return None
    if not found.rows:
        return [[Fraction(0)] * (len(right[0]) if right else 0) for _ in weights]
    rows, sides = _matrix([row[:width] for row in found.rows]), _matrix([row[width:] for row in found.rows])
    weighted = _matrix([[w * x for w, x in zip(weights, row[:width], strict=True)] for row in found.rows]).transpose()
    solved = weighted * (rows * weighted).solve(sides)
    return [[fraction(value) for value in row] for row in solved.tolist()]


def fraction(value: fmpq) -> Fraction:
    """A rational number of flint as Python has it."""
    return Fraction(int(value.p), int(value.q))


def _matrix(rows: Sequence[Sequence[Rational]]) -> fmpq_mat:
    entries = [fmpq(value.numerator, value.denominator) for row in rows for value in row]
    return fmpq_mat(len(rows), len(rows[0]) if rows else 0, entries)


def _leading(reduced: fmpq_mat | fmpz_mat, rank: int) -> list[int]:
    """The column of the first entry of each row that is not 0."""
    width, entries = reduced.ncols(), reduced.entries()
    return [next(k for k in range(width) if entries[row * width + k]) for row in range(rank)]
