"""Checked operators, functions and draws for compiled code: each raises `Unfit` where numba would part from Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numba as _numba
from numba.core import types as _types
from numba.extending import overload as _overload

from veridp.sampling.tape import Unfit

numba: Any = _numba  # their types are not complete
types: Any = _types
overload: Any = _overload
njit: Any = _numba.njit
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
EXACT = 2**53  # integers up to this are floats without rounding
LEAVES = "an integer leaves 64 bits"
ROUNDED = "an integer too large for a float meets one"
REFUSED = "refused: "  # begins the reason in the long messages of numba
NOT_REAL = "a function gives NaN or an infinity, where Python may raise"


# ------------------------------------------------------------------------------------------------- checked operators


def _is_integer(kind: Any) -> bool:
    return isinstance(kind, types.Integer | types.Boolean)


def _is_number(kind: Any) -> bool:
    return isinstance(kind, types.Integer | types.Boolean | types.Float)


def _element(kind: Any) -> Any:
    """The type of an array's entries, of a scalar itself."""
    return types.unliteral(kind.dtype if isinstance(kind, types.Array) else kind)


def _bare(function: Any) -> Any:
    """The function without annotations, which numba would compare."""
    function.__annotations__ = {}
    return function


def _implements(stub: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda implement: overload(stub)(_bare(implement))


def _refused(what: str) -> Any:
    raise numba.core.errors.TypingError(REFUSED + what)


def _binary(fn: Callable[[Any, Any], Any], on_integers: Callable[[Any, Any], Any] | None, arrays: bool) -> Any:
    """A stub for the operator: checked on two integers, refused on two truth values, and plain on all others."""

    def stub(left: Any, right: Any) -> Any:
        raise NotImplementedError

    @_implements(stub)
    def implement(left: Any, right: Any) -> Any:
        kinds = [_element(kind) for kind in (left, right)]
        if all(isinstance(kind, types.Boolean) for kind in kinds) and fn not in _LOGIC:
            _refused(f"{fn.__name__} of two truth values means one thing in Python and another in NumPy")
        if any(isinstance(kind, types.Array) for kind in (left, right)):
            if not arrays and all(_is_integer(kind) for kind in kinds):
                _refused(f"{fn.__name__} of arrays of integers is not checked")
        elif all(_is_integer(kind) for kind in kinds) and on_integers is not None:
            return _bare(on_integers)
        elif fn is operator.pow and all(_is_number(kind) for kind in kinds):
            return _bare(_real_power)
        return lambda left, right: fn(left, right)

    stub.__name__ = f"checked_{fn.__name__}"
    return stub


def _comparison(fn: Callable[[Any, Any], bool]) -> Any:
    """A stub for the comparison: an integer that a float cannot hold is not compared with one."""

    def stub(left: Any, right: Any) -> Any:
        raise NotImplementedError

    @_implements(stub)
    def implement(left: Any, right: Any) -> Any:
        if isinstance(left, types.Integer) and isinstance(right, types.Float):

            def compare(left: Any, right: Any) -> Any:
                if left > EXACT or left < -EXACT:
                    raise Unfit(ROUNDED)
                return fn(left, right)

            return _bare(compare)
        if isinstance(left, types.Float) and isinstance(right, types.Integer):

            def compare_turned(left: Any, right: Any) -> Any:
                if right > EXACT or right < -EXACT:
                    raise Unfit(ROUNDED)
                return fn(left, right)

            return _bare(compare_turned)
        return lambda left, right: fn(left, right)

    stub.__name__ = f"checked_{fn.__name__}"
    return stub


def _unary(fn: Callable[[Any], Any]) -> Any:
    def stub(value: Any) -> Any:
        raise NotImplementedError

    @_implements(stub)
    def implement(value: Any) -> Any:
        if isinstance(_element(value), types.Boolean) and not (
            isinstance(value, types.Array) and fn is operator.invert
        ):
            _refused(f"{fn.__name__} of a truth value means one thing in Python and another in NumPy")
        if isinstance(value, types.Integer):

            def checked(value: Any) -> Any:
                if value == SMALLEST:
                    raise Unfit(LEAVES)
                return fn(value)

            return _bare(checked)
        return lambda value: fn(value)

    stub.__name__ = f"checked_{fn.__name__}"
    return stub


def _add(left: int, right: int) -> int:
    if (left > LARGEST - right) if right >= 0 else (left < SMALLEST - right):
        raise Unfit(LEAVES)
    return left + right


def _sub(left: int, right: int) -> int:
    if (left < SMALLEST + right) if right >= 0 else (left > LARGEST + right):
        raise Unfit(LEAVES)
    return left - right


@njit  # type: ignore[untyped-decorator]
def _product(left: int, right: int) -> int:
    """Asked before multiplying: numba assumes that nothing overflows, and would drop a question asked afterwards."""
    if left == SMALLEST or right == SMALLEST or (right != 0 and abs(left) > LARGEST // abs(right)):
        raise Unfit(LEAVES)
    return left * right


def _mul(left: int, right: int) -> Any:
    if -(2**31) < left < 2**31 and -(2**31) < right < 2**31:
        return left * right
    return _product(left, right)


def _power(left: int, right: int) -> int:
    if right < 0:
        raise Unfit("a negative power of an integer is a float in Python, and an error in NumPy")
    if -1 <= left <= 1:
        return left if right % 2 else left * left if right else 1
    power = 1
    for _ in range(right):
        power = _product(power, left)
    return power


def _real_power(left: Any, right: Any) -> Any:
    power = float(left) ** float(right)
    if not math.isfinite(power):
        raise Unfit(NOT_REAL)
    return power


def _left_shift(left: int, right: int) -> Any:
    if right < 0 or right > 62:
        raise Unfit(LEAVES)
    return _product(left, 1 << right)


def _right_shift(left: int, right: int) -> int:
    if right < 0:
        raise Unfit("a shift by a negative number is an error in Python")
    return left >> min(right, 63)


def _quotient(left: int, right: int) -> int:
    if left == SMALLEST and right == -1:
        raise Unfit(LEAVES)
    return left // right


def _remainder(left: int, right: int) -> int:
    return 0 if right == -1 else left % right


def _ratio(left: int, right: int) -> float:
    if left > EXACT or left < -EXACT or right > EXACT or right < -EXACT:
        raise Unfit(ROUNDED)
    return left / right


_LOGIC = frozenset([operator.and_, operator.or_, operator.xor])
UNCHECKED_OPERATORS = frozenset([operator.not_, operator.is_, operator.is_not, operator.contains, bool])
OPERATORS: dict[Any, Any] = {
    operator.add: _binary(operator.add, _add, arrays=True),
    operator.sub: _binary(operator.sub, _sub, arrays=True),
    operator.mul: _binary(operator.mul, _mul, arrays=True),
    operator.truediv: _binary(operator.truediv, _ratio, arrays=True),
    operator.floordiv: _binary(operator.floordiv, _quotient, arrays=False),
    operator.mod: _binary(operator.mod, _remainder, arrays=False),
    operator.pow: _binary(operator.pow, _power, arrays=False),
    operator.lshift: _binary(operator.lshift, _left_shift, arrays=False),
    operator.rshift: _binary(operator.rshift, _right_shift, arrays=False),
    **{fn: _binary(fn, None, arrays=True) for fn in _LOGIC},
    **{fn: _comparison(fn) for fn in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)},
    **{fn: _unary(fn) for fn in (operator.neg, operator.pos, operator.invert)},
}


# ------------------------------------------------------------------------------------------------- checked functions


def _finite(fn: Callable[[float], float]) -> Any:
    """The function of `math`, which raises in Python where the result is not finite."""

    def checked(x: float) -> float:
        y = fn(x)
        if not math.isfinite(y):
            raise Unfit(NOT_REAL)
        return y

    return _jitted(checked, fn)


def _integral(fn: Callable[[float], int]) -> Any:
    """The function that makes an integer of a float, which is unbounded in Python."""

    def checked(x: float) -> int:
        if not -(2.0**63) <= x < 2.0**63:
            raise Unfit(LEAVES)
        return fn(x)

    return _jitted(checked, fn)


def _jitted(checked: Callable[..., Any], fn: Any) -> Any:
    checked.__name__ = f"checked_{fn.__name__}"
    return njit(checked)


def _extreme(fn: Callable[..., Any]) -> Any:
    """max or min, which treat NaN in an order of their own and keep the type of what they choose."""

    def stub(first: Any, second: Any = None, third: Any = None) -> Any:
        raise NotImplementedError

    @_implements(stub)
    def implement(first: Any, second: Any = None, third: Any = None) -> Any:
        given = [kind for kind in (first, second, third) if kind is not None and not isinstance(kind, types.Omitted)]
        if len(given) == 1:

            def of_sequence(first: Any, second: Any = None, third: Any = None) -> Any:
                for value in first:
                    if value != value:
                        raise Unfit(NOT_REAL)
                return fn(first)

            return _bare(of_sequence)
        truths = [isinstance(kind, types.Boolean) for kind in given]
        if not all(_is_number(kind) for kind in given) or (any(truths) and not all(truths)):
            _refused(f"{fn.__name__} of truth values and numbers is one of either in Python")
        largest = math.inf if len({isinstance(kind, types.Float) for kind in given}) == 1 else EXACT

        def of_two(first: Any, second: Any = None, third: Any = None) -> Any:
            _comparable(first, largest)
            _comparable(second, largest)
            return fn(first, second)

        def of_three(first: Any, second: Any = None, third: Any = None) -> Any:
            _comparable(first, largest)
            _comparable(second, largest)
            _comparable(third, largest)
            return fn(first, second, third)

        return _bare(of_two if len(given) == 2 else of_three)

    stub.__name__ = f"checked_{fn.__name__}"
    return stub


@njit  # type: ignore[untyped-decorator]
def _comparable(value: Any, largest: float) -> None:
    if not -largest <= value <= largest:
        raise Unfit(ROUNDED)


def _total(values: Any, start: Any = 0) -> Any:
    total = start
    for value in values:
        total = _plus(total, value)
    return total


def _laplace(rng: Any, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
    _valid(scale >= 0)
    return rng.laplace(loc, scale, size)


def _normal(rng: Any, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
    _valid(scale >= 0)
    return rng.normal(loc, scale, size)


def _logistic(rng: Any, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
    _valid(scale >= 0)
    return rng.logistic(loc, scale, size)


def _exponential(rng: Any, scale: float = 1.0, size: Any = None) -> Any:
    _valid(scale >= 0)
    return rng.exponential(scale, size)


def _uniform(rng: Any, low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
    _valid(0 <= high - low < math.inf)
    return rng.uniform(low, high, size)


def _geometric(rng: Any, p: float, size: Any = None) -> Any:
    _valid(1e-15 <= p <= 1)  # NumPy cuts the draws of a smaller one off at 2**63 - 1
    return rng.geometric(p, size)


def _poisson(rng: Any, lam: float = 1.0, size: Any = None) -> Any:
    _valid(0 <= lam <= 1e15)
    return rng.poisson(lam, size)


def _binomial(rng: Any, n: int, p: float, size: Any = None) -> Any:
    _valid(n >= 0 and 0 <= p <= 1)
    return rng.binomial(n, p, size)


@njit  # type: ignore[untyped-decorator]
def _valid(parameters: bool) -> None:
    """Refuse invalid parameters: NumPy raises, where numba draws something."""
    if not parameters:
        raise Unfit("a draw has a parameter that NumPy refuses, or one so extreme that its draws are cut off")


_plus = OPERATORS[operator.add]
FUNCTIONS: dict[Any, Any] = {
    **{fn: _integral(fn) for fn in (int, round, math.floor, math.ceil, math.trunc)},
    **{fn: _finite(fn) for fn in (math.exp, math.expm1, math.log, math.log1p, math.sqrt)},
    **{fn: _finite(fn) for fn in (math.sin, math.cos, math.tan, math.atan, math.sinh, math.cosh, math.tanh)},
    **{fn: _extreme(fn) for fn in (max, min)},
    abs: _unary(abs),
    sum: njit(_total),
}
DRAWS = {
    draw.__name__.removeprefix("_"): njit(draw)
    for draw in (_laplace, _normal, _logistic, _exponential, _uniform, _geometric, _poisson, _binomial)
}
