"""Weights that depend on open data: quotients of sums of exponentials, in a normal form.

Σ factor · e^(affine in open values), divided by such sums with positive factors. These are closed under sums, products
and quotients by what is positive, and a softmax, however it is written, has one normal form: equal weights are seen to
be equal. Nothing is rounded, but for the logarithm of the base where that is not e.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from operator import mul
from typing import Any

from veridp.kernel import functions
from veridp.kernel.distributions import Number, exact
from veridp.kernel.symbols import Derived, Symbol, Unknown, drawn_in, is_constant, sum_text

MAX_TERMS = 5_000  # of a sum of exponentials
EXPONENTIAL = re.compile(r"(.+)\*\*\(·\)")
WHOLE_POWER = re.compile(r"\(·\)\*\*(\d+)")

Exponent = frozenset[tuple[Unknown | None, Fraction]]  # what the open values are multiplied by; None: by the number 1
NOTHING: Exponent = frozenset()


class TooLarge(ArithmeticError):
    """A sum of exponentials has more terms than are kept."""


class ExponentialSum:
    """Σ factor · e^exponent; no factor is 0."""

    def __init__(self, terms: Mapping[Exponent, Fraction]) -> None:
        if len(terms) > MAX_TERMS:
            raise TooLarge(f"more than {MAX_TERMS} terms")
        self.terms = {exponent: factor for exponent, factor in terms.items() if factor}

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __add__(self, other: ExponentialSum) -> ExponentialSum:
        total = dict(self.terms)
        for exponent, factor in other.terms.items():
            total[exponent] = total.get(exponent, Fraction(0)) + factor
        return ExponentialSum(total)

    def __mul__(self, other: ExponentialSum) -> ExponentialSum:
        total: dict[Exponent, Fraction] = {}
        for mine, factor in self.terms.items():
            for theirs, times in other.terms.items():
                exponent = _plus(mine, theirs)
                total[exponent] = total.get(exponent, Fraction(0)) + factor * times
        return ExponentialSum(total)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExponentialSum) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    @property
    def sign(self) -> int | None:
        """Of its value for all data, where the factors have one sign; None where they do not."""
        signs = {1 if factor > 0 else -1 for factor in self.terms.values()}
        return signs.pop() if len(signs) == 1 else None if signs else 0

    @cached_property
    def normal(self) -> tuple[ExponentialSum, ExponentialSum]:
        """Its first term, in an order that no common factor e^… changes, and the sum divided by that."""
        symbols = sorted({symbol for exponent in self.terms for symbol, _ in exponent if symbol is not None})

        def place(term: tuple[Exponent, Fraction]) -> list[Fraction]:
            coefficients = dict(term[0])
            return [coefficients.get(symbol, Fraction(0)) for symbol in (*symbols, None)]

        exponent, factor = min(self.terms.items(), key=place)
        lead = ExponentialSum({exponent: factor})
        return lead, self if lead == ONE else self * _inverse(lead)

    def scaled_value(self, values: Mapping[Any, Any]) -> tuple[float, float]:
        """m and s where its value is m·e^s."""
        exponents = [
            float(math.fsum(float(c) * (1.0 if s is None else values[s]) for s, c in exponent))
            for exponent in self.terms
        ]
        most = max(exponents, default=0.0)
        parts = [float(f) * math.exp(e - most) for f, e in zip(self.terms.values(), exponents, strict=True)]
        return math.fsum(parts), most

    def text(self) -> str:
        return " + ".join(_term_text(*term) for term in self.terms.items()) or "0"


ONE = ExponentialSum({NOTHING: Fraction(1)})


class Weight:
    """A sum of exponentials, divided by sums with positive factors that begin with 1."""

    __slots__ = ("divisors", "numerator")

    def __init__(self, numerator: ExponentialSum, divisors: Iterable[ExponentialSum] = ()) -> None:
        left: list[ExponentialSum] = []
        for divisor in divisors:
            lead, normal = divisor.normal
            numerator = numerator if lead == ONE else numerator * _inverse(lead)
            if normal == ONE or not numerator.terms:
                continue
            mine, rest = numerator.normal
            if rest == normal:
                numerator = mine
            else:
                left.append(normal)
        self.numerator, self.divisors = numerator, tuple(left)

    @classmethod
    def of(cls, value: Weight | Number) -> Weight:
        return value if isinstance(value, Weight) else cls(ExponentialSum({NOTHING: Fraction(value)}))

    @property
    def number(self) -> Number | None:
        """Its value where that is the same for all data."""
        if self.divisors or set(self.numerator.terms) - {NOTHING}:
            return None
        return exact(self.numerator.terms.get(NOTHING, Fraction(0)))

    @property
    def sign(self) -> int | None:
        """Of its value for all data; None where that is not known."""
        return self.numerator.sign

    def __add__(self, other: Weight | Number) -> Any:
        other = Weight.of(other)
        mine, theirs = Counter(self.divisors), Counter(other.divisors)
        common = mine | theirs
        first = _product(self.numerator, (common - mine).elements())
        second = _product(other.numerator, (common - theirs).elements())
        return plain(Weight(first + second, common.elements()))

    __radd__ = __add__

    def __mul__(self, other: Weight | Number) -> Any:
        if isinstance(other, Weight):  # what cancels is left out before it is multiplied
            first, second = Weight(self.numerator, other.divisors), Weight(other.numerator, self.divisors)
            return plain(Weight(first.numerator * second.numerator, (*first.divisors, *second.divisors)))
        return plain(Weight(self.numerator * ExponentialSum({NOTHING: Fraction(other)}), self.divisors))

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Weight | Number) -> Any:
        return self + -other

    def __rsub__(self, other: Number) -> Any:
        return -self + other

    def __truediv__(self, other: Weight | Number) -> Any:
        return self * reciprocal(other)

    def __rtruediv__(self, other: Number) -> Any:
        return other * reciprocal(self)

    def __pow__(self, power: int) -> Any:
        return reduce(mul, [self] * power, 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Weight):
            return False  # a number is none
        same = self.numerator == other.numerator and Counter(self.divisors) == Counter(other.divisors)
        return same or self - other == 0

    def __hash__(self) -> int:
        return 0 if self.divisors else hash(self.numerator)

    def evaluate(self, values: Mapping[Any, Any]) -> float:
        """Its value where the open values are these."""
        total, size = self.numerator.scaled_value(values)
        for divisor in self.divisors:
            part, more = divisor.scaled_value(values)
            total, size = total / part, size - more
        try:
            return total * math.exp(size)
        except OverflowError:
            return math.copysign(math.inf, total)

    def unknowns(self) -> set[Unknown]:
        sums = (self.numerator, *self.divisors)
        return {s for each in sums for exponent in each.terms for s, _ in exponent if s is not None}

    def text(self) -> str:
        parts = [each.text() for each in (self.numerator, *self.divisors)]
        return " / ".join(f"({part})" if " + " in part else part for part in parts)


def plain(weight: Weight | Number) -> Any:
    """The weight; a plain number where it is one."""
    number = weight.number if isinstance(weight, Weight) else weight
    return weight if number is None else number


def reciprocal(value: Weight | Number) -> Any:
    """1 by the value, which has one sign for all data: ZeroDivisionError where that is not known."""
    value = Weight.of(value)
    if not value.sign:
        raise ZeroDivisionError("the sign of a divisor is not known")
    return plain(Weight(_product(ONE, value.divisors), [value.numerator]))


def _inverse(term: ExponentialSum) -> ExponentialSum:
    ((exponent, factor),) = term.terms.items()
    return ExponentialSum({frozenset((s, -c) for s, c in exponent): 1 / factor})


def _product(first: ExponentialSum, others: Iterable[ExponentialSum]) -> ExponentialSum:
    return reduce(mul, others, first)


def _plus(first: Exponent, second: Exponent) -> Exponent:
    if not first or not second:
        return first or second
    total = dict(first)
    for symbol, coefficient in second:
        total[symbol] = total.get(symbol, Fraction(0)) + coefficient
    return frozenset((symbol, coefficient) for symbol, coefficient in total.items() if coefficient)


def _term_text(exponent: Exponent, factor: Fraction) -> str:
    terms = sorted((s, c) for s, c in exponent if s is not None)
    constant = sum((c for s, c in exponent if s is None), start=Fraction(0))
    if not exponent:
        return str(factor)
    return f"{'' if factor == 1 else f'{factor}·'}exp({sum_text(terms, constant)})"


# ------------------------------------------------------------------------------------------------ from expressions


def weight_of(value: Any) -> Any:
    """The number or expression in this form; None where it has none, as what depends on noise has not.

    Records of an interval have none either: what a proof knows of them is sums, and these weights are not.
    """
    if is_constant(value):
        return value
    if any(not isinstance(symbol, Unknown) or symbol.ends is not None for symbol in drawn_in(value.terms)):
        return None
    return _of_terms(value.constant, frozenset(value.terms.items()))


@lru_cache(maxsize=4096)
def _of_terms(constant: Number, terms: frozenset[tuple[Symbol, Number]]) -> Any:
    try:
        total: Any = constant
        for symbol, coefficient in terms:
            part = _of_function(symbol) if isinstance(symbol, Derived) else None
            if part is None:
                return None
            total = total + part * coefficient
    except (TooLarge, ZeroDivisionError):
        return None
    return total


@lru_cache(maxsize=4096)
def _of_function(symbol: Derived) -> Any:
    function, arguments = symbol.function, symbol.arguments
    if function in (functions.EXP, functions.EXPM1):
        power = _exponential(arguments[0])
        return power if function is functions.EXP or power is None else power - 1
    to_the = EXPONENTIAL.fullmatch(function.name)
    if to_the is not None:
        return _exponential(arguments[0], Fraction(math.log(float(to_the[1]))))
    parts: list[Any] = [weight_of(argument) for argument in arguments]
    if None in parts:
        return None
    if function == functions.PRODUCT:
        return parts[0] * parts[1]
    if function == functions.QUOTIENT:
        return parts[0] * reciprocal(parts[1])
    if function == functions.RECIPROCAL:
        return reciprocal(parts[0])
    whole = WHOLE_POWER.fullmatch(function.name)
    return None if whole is None else parts[0] ** int(whole[1])


def _exponential(argument: Any, log_base: Fraction = Fraction(1)) -> Any:
    """The base to the argument, which is affine in open values and, for base e, in logarithms with factors 1 and -1."""
    if is_constant(argument):
        return None
    exponent: dict[Unknown | None, Fraction] = {None: Fraction(argument.constant) * log_base}
    factor: Any = 1
    for symbol, coefficient in argument.terms.items():
        if isinstance(symbol, Unknown):
            exponent[symbol] = Fraction(coefficient) * log_base
        elif isinstance(symbol, Derived) and symbol.function == functions.LOG and coefficient * log_base in (-1, 1):
            part = weight_of(symbol.arguments[0])
            if part is None:
                return None
            factor = factor * (part if coefficient > 0 else reciprocal(part))
        else:
            return None
    power = frozenset((symbol, coefficient) for symbol, coefficient in exponent.items() if coefficient)
    return factor * Weight(ExponentialSum({power: Fraction(1)}))
