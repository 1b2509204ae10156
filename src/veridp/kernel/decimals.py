"""Decimal arguments of a mechanism, which are floats to its code and rationals to a proof."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

ROUNDED = Fraction(1, 10**12)  # relative: a float that is further from its rational has lost it to cancellation


class Written(float):
    """A float that remembers the decimal its author wrote: 0.1, and also 1/10.

    To the code it is the float: comparisons, casts and mathematical functions see nothing else. Sums, products and
    quotients with numbers carry the rational along, and `exact` reads it; but not where rounding is most of what is
    left, as of `0.1 + 0.2 - 0.3`: there a proof takes the float too.
    """

    __slots__ = ("rational",)
    rational: Fraction

    @classmethod
    def of(cls, value: float, rational: Fraction | None = None) -> Written:
        written = cls(value)
        written.rational = Fraction(repr(float(value))) if rational is None else rational
        return written

    def __add__(self, other: Any) -> Any:
        return _written(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _written(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _written(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _written(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _written(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _written(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _written(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _written(operator.truediv, other, self)

    def __neg__(self) -> Written:
        return Written.of(-float(self), -self.rational)

    def __abs__(self) -> Written:
        return Written.of(abs(float(self)), abs(self.rational))


def _written(operation: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """The operation on floats, with the rational beside it; other operands do the operation themselves."""
    if type(first) not in _PLAIN_NUMBERS or type(second) not in _PLAIN_NUMBERS:
        return NotImplemented
    value = operation(_float(first), _float(second))
    if not math.isfinite(value):
        return value
    rational = operation(_rational(first), _rational(second))
    return Written.of(value, rational) if abs(rational - Fraction(value)) <= ROUNDED * abs(rational) else value


def _float(value: Any) -> Any:
    return float(value) if type(value) is Written else value


def _rational(value: Any) -> Fraction:
    return value.rational if type(value) is Written else Fraction(value)


_PLAIN_NUMBERS = (int, float, Written)
