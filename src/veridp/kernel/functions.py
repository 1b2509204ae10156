"""Functions of noisy numbers that are not affine: what each computes, and which comparisons of it are affine after all.

What is computed from a number keeps its privacy, whatever the function is. So a path may hold such a function as a
symbol of its own, `Derived`. One that nowhere falls is compared with a constant by comparing its argument: exp(x) >= c
is x >= ln c, and round(x) >= 3 is x >= 2.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np

from veridp.kernel.distributions import Number
from veridp.kernel.symbols import ArgumentBound, PureFunction

LARGEST_EXPONENT = math.log(np.finfo(float).max)  # past it, math.exp raises


def _plainly(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function gives as floats do: no warning, but infinities and NaN."""
    with np.errstate(all="ignore"):
        return function(*arguments)


def _smooth(
    name: str, function: Callable[[Any], Any], inverse: Callable[[float], float], least: int | None = None
) -> PureFunction:
    """A function that rises everywhere, with its inverse."""
    at_least = partial(_inverse_at_least, inverse)
    return PureFunction(name, partial(_plainly, function), injective=True, at_least=at_least, least=least)


def _inverse_at_least(inverse: Callable[[float], float], level: Fraction, strict: bool) -> ArgumentBound:
    try:
        bound = float(inverse(float(level)))
    except OverflowError:
        bound = math.inf
    return ArgumentBound(Fraction(bound) if math.isfinite(bound) else bound, strict)


def _within(low: float, high: float, inverse: Callable[[float], float], level: float) -> float:
    """The inverse of a function whose values lie between these, the ends excluded."""
    return -math.inf if level <= low else math.inf if level >= high else inverse(level)


def _to_the(exponent: float, value: Any) -> Any:
    return _plainly(np.power, np.float64(value), exponent)


def _odd_root(exponent: int, value: float) -> float:
    return math.copysign(abs(value) ** (1 / exponent), value)


def _of_base(base: float, exponent: Any) -> Any:
    return _plainly(np.power, np.float64(base), exponent)


def _log_to(base: float, value: float) -> float:
    return math.log(value, base)


_above_zero = partial(_within, 0.0, math.inf)

EXP = _smooth("exp(·)", np.exp, partial(_above_zero, math.log), least=0)
EXPM1 = _smooth("expm1(·)", np.expm1, partial(_within, -1.0, math.inf, math.log1p))
LOG = _smooth("log(·)", np.log, math.exp)
LOG1P = _smooth("log1p(·)", np.log1p, math.expm1)
LOG2 = _smooth("log2(·)", np.log2, partial(_of_base, 2.0))
LOG10 = _smooth("log10(·)", np.log10, partial(_of_base, 10.0))
SQRT = _smooth("sqrt(·)", np.sqrt, partial(_above_zero, partial(_to_the, 2)), least=0)
CBRT = _smooth("cbrt(·)", np.cbrt, partial(_to_the, 3))
TANH = _smooth("tanh(·)", np.tanh, partial(_within, -1.0, 1.0, math.atanh))
ARCTAN = _smooth("arctan(·)", np.arctan, partial(_within, -math.pi / 2, math.pi / 2, math.tan))
SINH = _smooth("sinh(·)", np.sinh, math.asinh)
ARCSINH = _smooth("arcsinh(·)", np.arcsinh, math.sinh)

SIN, COS, TAN, ARCSIN, ARCCOS, COSH = (
    PureFunction(f"{name}(·)", partial(_plainly, getattr(np, name)), countable=True)
    for name in ("sin", "cos", "tan", "arcsin", "arccos", "cosh")
)
RECIPROCAL = PureFunction("1/(·)", partial(_plainly, np.reciprocal), injective=True)
PRODUCT = PureFunction("(·) * (·)", partial(_plainly, np.multiply), countable=True)  # in either, if the other is not 0
QUOTIENT = PureFunction("(·) / (·)", partial(_plainly, np.divide), countable=True)
POWER = PureFunction("(·) ** (·)", partial(_plainly, np.power))
ARCTAN2 = PureFunction("arctan2(·, ·)", partial(_plainly, np.arctan2))
LOGADDEXP = PureFunction("logaddexp(·, ·)", partial(_plainly, np.logaddexp))


def _norm(*values: Any) -> Any:
    return _plainly(np.linalg.norm, np.stack(np.broadcast_arrays(*values)), None, 0)


@lru_cache(maxsize=256)
def norm_of(entries: int) -> PureFunction:
    """The Euclidean norm of a vector of so many entries."""
    name = f"norm({', '.join('·' * entries)})"
    return PureFunction(name, _norm, least=0)


def _floor_at_least(level: Fraction, strict: bool) -> ArgumentBound:
    return ArgumentBound(Fraction(math.floor(level) + 1 if strict else math.ceil(level)), False)


def _trunc_at_least(level: Fraction, strict: bool) -> ArgumentBound:
    """Truncation is at least k from k on, and for k <= 0 above k - 1: it moves towards 0."""
    whole = math.floor(level) + 1 if strict else math.ceil(level)
    return ArgumentBound(Fraction(whole), False) if whole > 0 else ArgumentBound(Fraction(whole - 1), True)


def _round_at_least(level: Fraction, strict: bool) -> ArgumentBound:
    """Halves go to the even number: k - 1/2 is rounded to k where k is even."""
    whole = math.floor(level) + 1 if strict else math.ceil(level)
    return ArgumentBound(Fraction(2 * whole - 1, 2), whole % 2 == 1)


def _written(x: Any) -> Any:
    """The level at which a number is rounded to a whole one and written: -0, below 0, is level -1."""
    return np.rint(x) - (np.asarray(x) < 0)


def _written_at_least(level: Fraction, strict: bool) -> ArgumentBound:
    whole = math.floor(level) + 1 if strict else math.ceil(level)
    if whole == 0:
        return ArgumentBound(Fraction(0), False)
    return _round_at_least(Fraction(whole if whole > 0 else whole + 1), False)


FLOOR = PureFunction("floor(·)", np.floor, whole=True, at_least=_floor_at_least)
TRUNC = PureFunction("trunc(·)", np.trunc, whole=True, at_least=_trunc_at_least)
ROUND = PureFunction("round(·)", np.rint, whole=True, at_least=_round_at_least)
WRITTEN = PureFunction("written(·)", _written, whole=True, at_least=_written_at_least)


def _bits(function: Callable[..., Any], *values: Any) -> Any:
    return function(*(np.rint(value).astype(np.int64) for value in map(np.asarray, values)))


BIT_AND, BIT_OR, BIT_XOR = (
    PureFunction(f"(·) {sign} (·)", partial(_bits, function), whole=True)
    for sign, function in (("&", np.bitwise_and), ("|", np.bitwise_or), ("^", np.bitwise_xor))
)


@lru_cache(maxsize=256)
def residue(modulus: int) -> PureFunction:
    """The remainder of an integer."""
    remainder = partial(_bits, lambda value: np.remainder(value, modulus))
    return PureFunction(f"(·) mod {modulus}", remainder, whole=True, least=0, largest=modulus - 1)


BIT_COUNT = PureFunction("bit_count(·)", partial(_bits, np.bitwise_count), whole=True)


@lru_cache(maxsize=256)
def odd_power(exponent: int) -> PureFunction:
    """x to an odd power: it rises everywhere."""
    return _smooth(f"(·)**{exponent}", partial(_to_the, exponent), partial(_odd_root, exponent))


@lru_cache(maxsize=256)
def power_of_positive(exponent: int | float) -> PureFunction:
    """x to a power above 0, for x >= 0."""
    root = partial(_above_zero, partial(_to_the, 1 / exponent))
    return _smooth(f"(·)**{exponent!r} from 0 on", partial(_to_the, exponent), root, least=0)


@lru_cache(maxsize=256)
def even_power(exponent: int) -> PureFunction:
    """x to an even power: it does not see the sign of x."""
    root = power_of_positive(exponent)
    return PureFunction(f"(·)**{exponent}", partial(_to_the, exponent), countable=True, least=0, from_zero=root)


@lru_cache(maxsize=256)
def exponential(base: float) -> PureFunction:
    """base to the power x, for a base above 1."""
    log = partial(_above_zero, partial(_log_to, base))
    return _smooth(f"{base!r}**(·)", partial(_of_base, base), log, least=0)


def at_least(level: Number, largest: Number | None) -> PureFunction:
    """max(x, level), of numbers x that are no larger than the largest, where there is such a bound."""
    most = None if largest is None else max(largest, level)
    name = f"max(·, {float(level)!r})"
    return PureFunction(name, partial(np.maximum, float(level)), least=level, largest=most)


def at_most(level: Number, least: Number | None) -> PureFunction:
    """min(x, level), of numbers x that are no smaller than the least, where there is such a bound."""
    lowest = None if least is None else min(least, level)
    name = f"min(·, {float(level)!r})"
    return PureFunction(name, partial(np.minimum, float(level)), least=lowest, largest=level)


def entry_of_call(function: Callable[..., Any], form: Any, names: Any, place: Any) -> PureFunction:
    """An entry of what a function of NumPy returns; HOLE marks the arguments that are not constant."""
    name = f"{function.__name__}({_text(form, names)})[{place}]"
    return PureFunction(name, partial(_called, function, form, names, place))


HOLE = "·"


def _text(form: Any, names: Any) -> str:
    named = [f"{name}={_form_text(part)}" for name, part in names.items()]
    return ", ".join([*map(_form_text, form), *named])


def _form_text(form: Any) -> str:
    if isinstance(form, list):
        return f"[{', '.join(map(_form_text, form))}]"
    return form if form is HOLE else repr(form)


def _called(function: Callable[..., Any], form: Any, names: Any, place: Any, *values: Any) -> Any:
    given = iter(values)
    arguments = [_filled(part, given) for part in form]
    answer = _plainly(partial(function, *arguments, **{name: _filled(part, given) for name, part in names.items()}))
    return answer if place is ... else np.ravel(answer)[place]


def _filled(form: Any, values: Any) -> Any:
    if isinstance(form, list):
        return [_filled(part, values) for part in form]
    return next(values) if form is HOLE else form


UNARY = {
    np.exp: EXP, np.expm1: EXPM1, np.log: LOG, np.log1p: LOG1P, np.log2: LOG2, np.log10: LOG10, np.sqrt: SQRT,
    np.cbrt: CBRT, np.tanh: TANH, np.arctan: ARCTAN, np.sinh: SINH, np.arcsinh: ARCSINH, np.sin: SIN, np.cos: COS,
    np.tan: TAN, np.arcsin: ARCSIN, np.arccos: ARCCOS, np.cosh: COSH, np.exp2: exponential(2.0),
}  # fmt: skip
