"""What arithmetic makes of expressions: sums stay affine, and so do products with constants.

Everything else is a function of its arguments: quotients, powers, rounding, bits. Nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from veridp.kernel import functions
from veridp.kernel.distributions import Number, exact
from veridp.kernel.expressions.affine import (
    OPERATIONS,
    Affine,
    as_kind,
    brief,
    derived,
    expression,
    held_as,
    is_integer,
    is_numpy,
    is_whole,
    kind_of,
    settle,
)
from veridp.kernel.expressions.decider import RUN, refuse
from veridp.kernel.expressions.records import folded, linear, product_of_record, record_of, step_of_record
from veridp.kernel.expressions.undecided import Condition, Select
from veridp.kernel.noise import Integers
from veridp.kernel.piecewise import MAX_POWER
from veridp.kernel.stand_ins import Symbolic
from veridp.kernel.symbols import Derived, Noise, PureFunction, Symbol

MAX_BUCKETS = 16  # that a draw of a long range falls into, on paths of their own
EXACT_INTEGERS = 2**53  # up to which all integers are floats

Parts = tuple[Number, Mapping[Symbol, Number], str, bool]


def parts_of(value: Any) -> Parts | None:
    """Constant, terms, kind and holding of an operand; None where the operand has to do the operation itself."""
    if isinstance(value, Affine):
        return value.constant, value.terms, value.kind, value.held
    if isinstance(value, Condition):
        number = folded(value)
        if isinstance(number, Affine):
            return parts_of(number)
        value = settle(value) if number is None else number
    kind = None if isinstance(value, Select) else kind_of(value)
    if kind is None:
        if not isinstance(value, Symbolic) and isinstance(value, np.generic):
            refuse(f"numbers of type {value.dtype} are not modelled beside noise; use bool, int or float")
        return None
    if kind == "f" and not np.isfinite(float(value)):
        refuse(f"{value} with noise is not a finite number")
    return exact(value), {}, kind, isinstance(value, np.generic)


def joint_kind(first: Affine, kind: str, numpy: bool) -> tuple[str, bool]:
    """The kind of a sum or product, and whether it is a NumPy scalar."""
    return "i" if first.kind == "i" and kind != "f" else "f", first.held or numpy


def terms_sum(first: Mapping[Symbol, Number], second: Mapping[Symbol, Number]) -> Mapping[Symbol, Number]:
    """The terms of a sum, without those that cancel."""
    if not second:
        return first
    total = dict(first)
    for symbol, coefficient in second.items():
        total[symbol] = total.get(symbol, 0) + coefficient
    return {symbol: coefficient for symbol, coefficient in total.items() if coefficient}


def _plus(first: Affine, second: Any) -> Any:
    parts = parts_of(second)
    if parts is None:
        return NotImplemented
    constant, terms, kind, numpy = parts
    return _summed(
        expression(first.constant + constant, terms_sum(first.terms, terms), *joint_kind(first, kind, numpy))
    )


def _minus(first: Affine, second: Any) -> Any:
    parts = parts_of(second)
    if parts is None:
        return NotImplemented
    constant, terms, kind, numpy = parts
    total = terms_sum(first.terms, {s: -c for s, c in terms.items()})
    return _summed(expression(first.constant - constant, total, *joint_kind(first, kind, numpy)))


def _summed(total: Any) -> Any:
    run = RUN.get()
    return run.summed(total) if run is not None and run.adaptive and isinstance(total, Affine) else total


def _times(first: Affine, second: Any) -> Any:
    parts = parts_of(second)
    if parts is None:
        return NotImplemented
    factor, terms, kind, numpy = parts
    if terms:
        record = record_of(first, second)
        product = None if record is None else product_of_record(record, record.ends, linear(first), linear(second))
        if product is not None:
            return expression(product[0], dict(product[1]), *joint_kind(first, kind, numpy))
        return derived(functions.PRODUCT, (first, second), *joint_kind(first, kind, numpy))
    return scaled(first, factor, *joint_kind(first, kind, numpy))


def scaled(first: Affine, factor: Number, kind: str, numpy: bool) -> Any:
    """The expression, multiplied by a constant."""
    return expression(
        first.constant * factor, {s: c * factor for s, c in first.terms.items()} if factor else {}, kind, numpy
    )


def _over(first: Affine, second: Any) -> Any:
    parts = parts_of(second)
    if parts is None:
        return NotImplemented
    divisor, terms, kind, numpy = parts
    if terms:
        return _quotient(first, second, (first.constant, first.terms, first.kind, first.held))
    if not divisor:
        if first.held or numpy:
            refuse(f"dividing {brief(first)} by zero gives an infinity in NumPy")
        raise ZeroDivisionError("division by zero" if first.kind == kind == "i" else "float division by zero")
    return scaled(first, Fraction(1) / divisor, "f", first.held or numpy)


def _divisor_of(divisor: Affine, dividend: Any) -> Any:
    parts = parts_of(dividend)
    return NotImplemented if parts is None else _quotient(dividend, divisor, parts)


def _quotient(first: Any, second: Affine, parts: Parts) -> Any:
    """The first by the second, which is no constant; the parts are the first's."""
    constant, terms, kind, numpy = parts
    numpy = numpy or second.held
    if not numpy and not is_positive(second) and second == 0:  # NumPy's quotient is infinite then
        raise ZeroDivisionError("division by zero" if kind == second.kind == "i" else "float division by zero")
    if terms:
        first = settle(first)
        ratio = _ratio(first, second) if isinstance(first, Affine) and second.continuous else None
        if ratio is not None:
            return expression(ratio, {}, "f", numpy)
        return derived(functions.QUOTIENT, (first, second), "f", numpy)
    inverse = derived(functions.RECIPROCAL, (second,), "f", numpy)
    return scaled(inverse, constant, "f", numpy)


def _ratio(first: Affine, second: Affine) -> Number | None:
    """By what the second is multiplied to be the first; None where it is not a multiple."""
    if first.terms.keys() != second.terms.keys():
        return None
    ratios = {Fraction(c) / Fraction(second.terms[symbol]) for symbol, c in first.terms.items()}
    ratio = ratios.pop()
    return exact(ratio) if not ratios and first.constant == ratio * second.constant else None


def is_positive(value: Affine) -> bool:
    """Whether it is a sum of positive functions, such as exponentials."""
    if value.constant < 0:
        return False
    for symbol, coefficient in value.terms.items():
        rising = symbol.function.at_least if isinstance(symbol, Derived) else None
        if coefficient < 0 or rising is None or rising(Fraction(0), True).bound != -np.inf:
            return False
    return True


def _absolute(value: Affine) -> Any:
    size = None if record_of(value) is None else folded(Select.of(value >= 0, value, -value))
    return (value if value >= 0 else -value) if size is None else size


def _raised_to(base: Affine, exponent: Any) -> Any:
    if type(exponent) is int and exponent == 1:
        return base
    number = type(exponent) in (int, float) or isinstance(exponent, np.number)
    if number and exponent in range(2, MAX_POWER + 1) and record_of(base) is not None:
        return base * base ** (int(exponent) - 1)
    return NotImplemented if parts_of(exponent) is None else power(base, settle(exponent))


def _exponent_of(exponent: Affine, base: Any) -> Any:
    return NotImplemented if parts_of(base) is None else power(settle(base), exponent)


def power(base: Any, exponent: Any) -> Any:
    """base ** exponent, one of which is an expression at least."""
    kinds = {kind_of(base), kind_of(exponent)}
    numpy = is_numpy(base) or is_numpy(exponent)
    if isinstance(base, Affine) and not isinstance(exponent, Affine):
        if exponent in (0, 1):
            kind = "i" if kinds == {"i"} else "f"
            return expression(base.constant, base.terms, kind, numpy) if exponent else held_as(as_kind(1, kind), numpy)
        if kinds == {"i"} and exponent < 0:
            refuse(f"a negative power of an integer, {brief(base)}, is not modelled")
        if int(exponent) == exponent and exponent > 0:
            kind, whole = "i" if kinds == {"i"} else "f", int(exponent)
            if whole % 2:
                return derived(functions.odd_power(whole), (base,), kind, numpy)
            return derived(functions.even_power(whole), (base,), kind, numpy)
        if int(exponent) == exponent:
            return 1 / power(base, -exponent)
        if not base >= 0:
            if numpy:
                return np.float64(np.nan)
            refuse(f"a fractional power of a negative number, {brief(base)}, is a complex number")
        if exponent > 0:
            return derived(functions.power_of_positive(float(exponent)), (base,), "f", numpy)
    if not isinstance(base, Affine) and 0 < base < 1:
        return power(1 / base, -exponent)
    if not isinstance(base, Affine) and base > 1:
        if not numpy and exponent > functions.LARGEST_EXPONENT / math.log(base):
            raise OverflowError(34, "Numerical result out of range")
        return derived(functions.exponential(float(base)), (exponent,), "f", numpy)
    if kinds == {"i"} or (not numpy and not base > 0):
        refuse(f"the power {brief(base)} ** {brief(exponent)} is not modelled")
    return derived(functions.POWER, (base, exponent), "f", numpy)


def step(function: PureFunction, value: Affine, kind: str, numpy: bool) -> Any:
    """A step function, which leaves integers as they are."""
    found = value if is_integer(value) else step_of_record(function, value)
    if isinstance(found, Affine):
        return Affine(found.constant, found.terms, kind, numpy)
    if found is not None:
        return held_as(float(found) if kind == "f" else int(found), numpy)
    return derived(function, (value,), kind, numpy)


def rounded(value: Affine, digits: int) -> Any:
    """A float rounded to so many decimals: halves, which have no probability, aside."""
    if is_integer(value) and digits >= 0:
        return value
    scale = Fraction(10) ** digits
    whole = step(functions.ROUND, scaled(value, scale, "f", value.held), "f", value.held)
    return scaled(whole, 1 / scale, "f", value.held)


def _round(value: Affine, digits: int | None = None) -> Any:
    if digits is None or value.kind == "i":
        return step(functions.ROUND, value, "i" if digits is None else value.kind, value.held and digits is not None)
    if type(digits) is not int:
        refuse(f"round({brief(value)}, {digits!r}) is not modelled; give the digits as an integer")
    return rounded(value, digits)


def _floor_of(value: Any, kind: str, numpy: bool) -> Any:
    if isinstance(value, Affine):
        return step(functions.FLOOR, value, kind, numpy)
    return held_as(as_kind(int(np.floor(value)), kind), numpy)


def _floored_quotient(first: Affine, second: Any) -> Any:
    parts = parts_of(second)
    return NotImplemented if parts is None else _floor_of(first / second, *joint_kind(first, parts[2], parts[3]))


def _floored_divisor_of(divisor: Affine, dividend: Any) -> Any:
    parts = parts_of(dividend)
    return NotImplemented if parts is None else _floor_of(dividend / divisor, *joint_kind(divisor, parts[2], parts[3]))


def _remainder(first: Affine, second: Any) -> Any:
    residue = _residue(first, second)
    if residue is not None:
        return held_as(residue, first.held or isinstance(second, np.generic))
    floored = first // second
    return NotImplemented if floored is NotImplemented else first - second * floored


def _residue(value: Affine, modulus: Any) -> int | None:
    """The remainder by a small number of what is computed from one draw of a long range, by the draw's own remainder.

    So a hash that is salted with it falls into few buckets, each on paths of its own.
    """
    if value.kind != "i" or kind_of(modulus) != "i" or not 2 <= modulus <= MAX_BUCKETS:
        return None
    numbers = [value.constant, *value.terms.values()]
    if not all(map(is_whole, value.terms)) or any(Fraction(number).denominator != 1 for number in numbers):
        return None
    left = [(symbol, int(factor)) for symbol, factor in value.terms.items() if factor % modulus]
    if len(left) != 1 or not _is_long_range(left[0][0]):
        return int(value.constant) % int(modulus) if not left else None
    ((symbol, factor),) = left
    steps = int(modulus) // math.gcd(factor, int(modulus))
    own = derived(functions.residue(steps), (Affine(0, {symbol: 1}, "i"),), "i", False)
    found = next((step for step in range(steps - 1) if not own > step), steps - 1)
    return (factor * found + int(value.constant)) % int(modulus)


def _is_long_range(symbol: Symbol) -> bool:
    """Whether it is an integer from a range that is not listed, all of which are floats."""
    drawn = symbol.distribution if isinstance(symbol, Noise) else None
    return isinstance(drawn, Integers) and drawn.count <= EXACT_INTEGERS


def _modulus_of(modulus: Affine, value: Any) -> Any:
    floored = value // modulus
    return NotImplemented if floored is NotImplemented else value - floored * modulus


def _on_bits(function: PureFunction, first: Affine, second: Any) -> Any:
    """A function of the bits of two integers."""
    parts = parts_of(second)
    if parts is None or first.kind != "i" or parts[2] != "i":
        refuse(f"the bits of {brief(first)} are not affine")
    if function is functions.BIT_AND and not parts[1] and not (int(parts[0]) + 1) & int(parts[0]):  # the lowest bits
        residue = _residue(first, int(parts[0]) + 1)
        if residue is not None:
            return held_as(residue, first.held or parts[3])
    value = derived(function, (first, second), "i", first.held or parts[3])
    is_bit = function is functions.BIT_AND and not parts[1] and int(parts[0]).bit_count() == 1 and parts[0] > 0
    return Select.of(value > 0, held_as(int(parts[0]), value.held), held_as(0, value.held)) if is_bit else value


def _bits_up(value: Affine, by: Any) -> Any:
    return value * 2**by if value.kind == "i" and type(by) is int else _no_bits(value, by)


def _bits_down(value: Affine, by: Any) -> Any:
    return value // 2**by if value.kind == "i" and type(by) is int else _no_bits(value, by)


def _no_bits(value: Affine, _: Any) -> Any:
    refuse(f"the bits of {brief(value)} are not affine")


OPERATIONS.update(
    {
        "add": _plus,
        "sub": _minus,
        "rsub": lambda second, first: _plus(-second, first),
        "mul": _times,
        "truediv": _over,
        "rtruediv": _divisor_of,
        "floordiv": _floored_quotient,
        "rfloordiv": _floored_divisor_of,
        "mod": _remainder,
        "rmod": _modulus_of,
        "pow": _raised_to,
        "rpow": _exponent_of,
        "abs": _absolute,
        "round": _round,
        "step": step,
        "and": lambda first, second: _on_bits(functions.BIT_AND, first, second),
        "or": lambda first, second: _on_bits(functions.BIT_OR, first, second),
        "xor": lambda first, second: _on_bits(functions.BIT_XOR, first, second),
        "lshift": _bits_up,
        "rshift": _bits_down,
        "matmul": _no_bits,
    }
)
