"""Vectors that one record adds and that are clipped by their Euclidean norm, however that is written.

An entry of such a vector is u·s: u is a polynomial in the record and in released numbers, and s one of
1/max(1, N/C), min(1, C/N), 1/(N + c) and the like, for a norm N: at most C/N. So if the squares of the u of several
entries add up to κ N², those of the entries add up to κ C² at most. That they do is an identity of polynomials.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veridp.kernel import functions as f
from veridp.kernel.expressions import Affine, range_of
from veridp.kernel.symbols import Derived, Symbol, Unknown, is_constant

MAX_MONOMIALS = 5_000
LARGEST_POWER = 4  # of a polynomial that is written as one
POWER = re.compile(r"\(·\)\*\*([1-9][0-9]*)")
ROOT = "(·)**0.5 from 0 on"

Polynomial = Mapping[frozenset[tuple[Symbol, int]], Fraction]  # coefficients, none of them 0, by the powers of symbols


@dataclass(frozen=True)
class ClippedEntry:
    """A number that is at most that share of `of`, in absolute value, that 1 is of the norm."""

    norm: Symbol
    of: Affine


def clipped_entry(value: Affine) -> ClippedEntry | None:
    """The value as something times a factor that is at most a constant over a norm; None where it is not read so."""
    if value.constant or len(value.terms) != 1:
        return None
    ((symbol, c),) = value.terms.items()
    if not isinstance(symbol, Derived) or len(symbol.expressions) != 2:
        return None
    first, second = symbol.arguments
    tried = [(first, _over(second))] if symbol.function == f.QUOTIENT else []
    tried += [(first, _factor(second)), (second, _factor(first))] if symbol.function == f.PRODUCT else []
    for numerator, share in tried:
        if share is not None:
            norm, most = share
            return ClippedEntry(norm, numerator * Fraction(c) * most)
    return None


def squared_norm(entries: Iterable[ClippedEntry]) -> Fraction | None:
    """The most that the squares of entries with one norm add up to; None where that is not known."""
    found = list(entries)
    if (known := _share_of_arguments(found)) is not None:
        return known
    whole, total = _square_of(found[0].norm), _sum_of_squares(each.of for each in found)
    if not whole or not total:
        return None
    ratios = {c / whole[monomial] for monomial, c in total.items() if monomial in whole}
    return ratios.pop() if total.keys() == whole.keys() and len(ratios) == 1 else None


def _share_of_arguments(entries: list[ClippedEntry]) -> Fraction | None:
    """The same at sight, where each entry is a multiple of what the norm is of, in even shares; else None."""
    norm = entries[0].norm
    if not isinstance(norm, Derived) or norm.function != f.norm_of(len(norm.arguments)):
        return None
    shares = [Fraction(0)] * len(norm.arguments)
    for entry in entries:
        ratios = ((k, _ratio(entry.of, argument)) for k, argument in enumerate(norm.arguments))
        place, ratio = next(((k, ratio) for k, ratio in ratios if ratio is not None), (0, None))
        if ratio is None:
            return None
        shares[place] += ratio**2
    return shares[0] if len(set(shares)) == 1 else None


def _ratio(value: Affine, other: Any) -> Fraction | None:
    """One expression over another, where that is a number."""
    if not isinstance(other, Affine) or not other.terms or value.terms.keys() != other.terms.keys():
        return None
    ratios = {Fraction(c) / Fraction(other.terms[symbol]) for symbol, c in value.terms.items()}
    ratio = ratios.pop()
    return ratio if not ratios and value.constant == ratio * other.constant else None


# --------------------------------------------------------------------------------------------------- factors and norms
# Each gives a norm N, and the most that N times the factor is.


def _over(divisor: Any) -> tuple[Symbol, Fraction] | None:
    """Of 1/divisor, which must be above 0."""
    low = range_of(divisor)[0] if isinstance(divisor, Affine) else None
    return _reciprocal(divisor) if low is not None and low > 0 else None


def _factor(value: Any) -> tuple[Symbol, Fraction] | None:
    """Of min(k, c/divisor), also where the divisor is 0 as NumPy has it; or of c/divisor."""
    single = _single(value)
    if single is None:
        return None
    symbol, c = single
    if symbol.function == f.RECIPROCAL:
        share = _over(symbol.arguments[0])
    elif is_upper_limit(symbol) and (inner := _single(symbol.arguments[0])) and inner[0].function == f.RECIPROCAL:
        share = _reciprocal(inner[0].arguments[0])
        c *= inner[1]
    else:
        return None
    return None if share is None else (share[0], share[1] * c)


def _single(value: Any) -> tuple[Derived, Fraction] | None:
    """The value as a function times a number above 0."""
    if not isinstance(value, Affine) or value.constant or len(value.terms) != 1:
        return None
    ((symbol, c),) = value.terms.items()
    return (symbol, Fraction(c)) if isinstance(symbol, Derived) and c > 0 else None


def is_upper_limit(symbol: Derived) -> bool:
    """Whether it is min(·, k), for a constant k >= 0."""
    return symbol.function.name.startswith("min(·, ") and (symbol.function.largest or 0) >= 0


def _reciprocal(divisor: Any) -> tuple[Symbol, Fraction] | None:
    slope = _slope(divisor)
    return None if slope is None else (slope[0], 1 / slope[1])


def _slope(value: Any) -> tuple[Symbol, Fraction] | None:
    """A norm, and a number a with value >= a·norm."""
    if not isinstance(value, Affine) or value.constant < 0 or len(value.terms) != 1:
        return None
    ((symbol, c),) = value.terms.items()
    if c <= 0:
        return None
    if isinstance(symbol, Derived) and symbol.function.name.startswith("max(·, "):
        inner = _slope(symbol.arguments[0])
        return None if inner is None else (inner[0], inner[1] * Fraction(c))
    return (symbol, Fraction(c)) if _is_norm(symbol) else None


def _is_norm(symbol: Symbol) -> bool:
    """Whether it is the root of a sum of squares, or a size: at least 0."""
    if isinstance(symbol, Derived):
        known = symbol.function in (f.SQRT, f.norm_of(len(symbol.arguments)))
        return known or symbol.function.name == ROOT
    return isinstance(symbol, Unknown) and all(piece.range[0] >= 0 for piece in symbol.function)


def _square_of(norm: Symbol) -> Polynomial | None:
    """The square of a norm; None where it is not one polynomial."""
    if isinstance(norm, Derived):
        entries = norm.function == f.norm_of(len(norm.arguments))
        return _sum_of_squares(norm.arguments) if entries else _polynomial(norm.arguments[0])
    if not isinstance(norm, Unknown):
        return None
    squares = [_product(own, own) for own in (_of_record(norm.record, p.terms) for p in norm.function)]
    return squares[0] if all(each == squares[0] for each in squares) else None


# ---------------------------------------------------------------------------------------------------------- polynomials


def _polynomial(value: Any) -> Polynomial | None:
    """The value as a polynomial in symbols that are none themselves; None where it is too long."""
    if is_constant(value):
        return {frozenset(): Fraction(value)} if value else {}
    total: list[Polynomial | None] = [{frozenset(): Fraction(value.constant)} if value.constant else {}]
    for symbol, c in value.terms.items():
        own = _expanded(symbol)
        total.append(own and {monomial: a * Fraction(c) for monomial, a in own.items()})
    return _sum(total)


def _sum_of_squares(values: Iterable[Any]) -> Polynomial | None:
    parts = [_polynomial(value) for value in values]
    return _sum([None if part is None else _multiplied([part, part]) for part in parts])


def _expanded(symbol: Symbol) -> Polynomial | None:
    if isinstance(symbol, Unknown) and len(symbol.function) == 1:
        return _of_record(symbol.record, symbol.function[0].terms)
    if isinstance(symbol, Derived):
        power = POWER.fullmatch(symbol.function.name)
        if symbol.function == f.PRODUCT:
            return _multiplied([_polynomial(argument) for argument in symbol.arguments])
        if power is not None and int(power[1]) <= LARGEST_POWER:
            return _multiplied([_polynomial(symbol.arguments[0])] * int(power[1]))
    return {frozenset([(symbol, 1)]): Fraction(1)}


def _of_record(record: Unknown, terms: Mapping[int, Any]) -> Polynomial:
    return {frozenset([(record, power)] if power else []): Fraction(c) for power, c in terms.items()}


def _multiplied(factors: list[Polynomial | None]) -> Polynomial | None:
    total: Polynomial = {frozenset(): Fraction(1)}
    for factor in factors:
        if factor is None or len(total) * len(factor) > MAX_MONOMIALS:
            return None
        total = _product(total, factor)
    return total


def _product(one: Polynomial, other: Polynomial) -> Polynomial:
    total: dict[frozenset[tuple[Symbol, int]], Fraction] = {}
    for first, a in one.items():
        for second, b in other.items():
            powers = Counter(dict(first))
            powers.update(dict(second))
            monomial = frozenset(powers.items())
            total[monomial] = total.get(monomial, Fraction(0)) + a * b
    return {monomial: c for monomial, c in total.items() if c}


def _sum(parts: list[Polynomial | None]) -> Polynomial | None:
    total: dict[frozenset[tuple[Symbol, int]], Fraction] = {}
    for part in parts:
        if part is None or len(total) > MAX_MONOMIALS:
            return None
        for monomial, c in part.items():
            total[monomial] = total.get(monomial, Fraction(0)) + c
    return {monomial: c for monomial, c in total.items() if c}
