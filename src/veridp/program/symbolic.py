"""What stands in for a number, and for an array of numbers, while a mechanism runs.

A `Symbolic` scalar overloads arithmetic and comparison; what these mean is up to its reading (a symbol when paths
are explored, a batch of draws when they are sampled). A `Vector` is a NumPy object array of such scalars, and tells
NumPy's functions to treat them as their reading wants: NumPy calls come in here, scalar operations go out.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Self

import numpy as np

from veridp.program.written import Written

# Exceptions that stand-ins raised in the run under way: a plain number might not have raised them.
RAISED: ContextVar[list[Exception] | None] = ContextVar("RAISED", default=None)


def noting_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a stand-in, which notes what it raises, so that code that handles the exception is found out."""

    @functools.wraps(method)
    def noting(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except Exception as error:
            raised = RAISED.get()
            if raised is not None and error not in raised:
                raised.append(error)
            raise

    return noting


OPERATORS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.power: operator.pow,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.absolute: abs,
    np.fabs: abs,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.invert: operator.invert,
    np.logical_and: operator.and_,
    np.logical_or: operator.or_,
    np.logical_not: operator.invert,
}


class Symbolic:
    """A stand-in for a number or a truth value. Subclasses overload the operators and the hooks below."""

    __slots__ = ()

    @classmethod
    def extreme_index(cls, values: Sequence[Any], largest: bool) -> Any:
        """The index of the first largest (or smallest) of the values."""
        raise NotImplementedError

    @classmethod
    def extreme(cls, values: Sequence[Any], largest: bool) -> Any:
        """The largest (or smallest) of the values."""
        raise NotImplementedError

    @classmethod
    def apply(cls, ufunc: np.ufunc, values: Sequence[Any]) -> Any:
        """The ufunc, one that no operator stands for, on scalars of which at least one is symbolic."""
        raise NotImplementedError

    def select(self, then: Any, other: Any) -> Any:
        """`then` where this truth value holds, else `other`."""
        raise NotImplementedError

    def cast(self, dtype: np.dtype[Any]) -> Any:
        """This value as NumPy's `astype` would have it."""
        raise NotImplementedError

    def as_number(self) -> Any:
        """This value as a sum over an array counts it; differs for truth values alone."""
        return self

    @noting_errors
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return _on_ufunc(ufunc, method, inputs, options)

    @noting_errors
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = FUNCTIONS.get(function)
        if own is not None and (answer := own(*args, **kwargs)) is not NotImplemented:
            return answer
        return function._implementation(*args, **kwargs)  # what NumPy does where nobody objects


class Vector(np.ndarray[Any, np.dtype[np.object_]]):
    """An object array of numbers and symbolic scalars."""

    @classmethod
    def of(cls, values: Sequence[Any], shape: tuple[int, ...] | None = None) -> Self:
        plain = np.empty(len(values), dtype=object)
        for index, value in enumerate(values):
            plain[index] = value
        return (plain if shape is None else plain.reshape(shape)).view(cls)

    @noting_errors
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return _on_ufunc(ufunc, method, inputs, options)

    @noting_errors
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        own = FUNCTIONS.get(function)
        if own is not None and (answer := own(*args, **kwargs)) is not NotImplemented:
            return answer
        return super().__array_function__(function, types, args, kwargs)

    def __getitem__(self, place: Any) -> Any:
        return super().__getitem__(place) if isinstance(place, int) else self._part(place)

    @noting_errors
    def _part(self, place: Any) -> Any:
        return super().__getitem__(place)

    def argmax(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.argmax(self, axis, **options)

    def argmin(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.argmin(self, axis, **options)

    def max(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.max(self, axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.min(self, axis, **options)

    def clip(self, a_min: Any = None, a_max: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return _clip(self, a_min, a_max)

    def astype(self, dtype: Any, **options: Any) -> Any:  # type: ignore[override]
        target = np.dtype(dtype)
        if target.kind == "O":
            return super().astype(dtype, **options)
        return _map(
            lambda value: value.cast(target) if isinstance(value, Symbolic) else target.type(value).item(), self
        )

    def __reduce__(self) -> Any:
        raise TypeError("a vector of stand-ins lives only while its mechanism runs; it cannot be pickled or copied out")


def _map(function: Callable[..., Any], *arrays: Any) -> Any:
    """The function on each entry of the arrays, broadcast; a Vector, or a scalar where all are scalars."""
    boxed = [_boxed(value) for value in arrays]
    answer = np.frompyfunc(function, len(boxed), 1)(*boxed)
    return answer.view(Vector) if isinstance(answer, np.ndarray) and answer.ndim else _unboxed(answer)


def _boxed(value: Any) -> Any:
    """The value as a plain object array, so that NumPy looks no further into it."""
    if isinstance(value, Symbolic | Written):
        box = np.empty((), dtype=object)
        box[()] = value
        return box
    array = np.asarray(value)
    return array.astype(object) if array.dtype != object else array.view(np.ndarray)


def _unboxed(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray) else value


def _first_symbolic(values: Sequence[Any]) -> Symbolic | None:
    return next((value for value in values if isinstance(value, Symbolic)), None)


def _on_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    out = options.pop("out", None)
    if method == "reduce" and ufunc in (np.maximum, np.minimum) and np.ndim(inputs[0]) == 1:
        answer = _extreme(inputs[0], ufunc is np.maximum)
    elif method == "__call__":
        answer = _map(_scalar_function(ufunc), *inputs)
    else:
        if ufunc is np.add:  # NumPy adds two truth values by "or", but counts them in an array
            inputs = [
                _map(lambda value: value.as_number() if isinstance(value, Symbolic) else value, inputs[0]),
                *inputs[1:],
            ]
        plain = getattr(ufunc, method)(*(_boxed(value) for value in inputs), **options)
        answer = plain.view(Vector) if isinstance(plain, np.ndarray) else plain
    if out is None:
        return answer
    if out[0].dtype != object:
        raise TypeError("noise cannot be written into an array of plain numbers; make a new array instead")
    out[0].view(np.ndarray)[...] = answer
    return out[0]


def _scalar_function(ufunc: np.ufunc) -> Callable[..., Any]:
    if ufunc in (np.maximum, np.fmax):
        return lambda a, b: _extreme([a, b], largest=True)
    if ufunc in (np.minimum, np.fmin):
        return lambda a, b: _extreme([a, b], largest=False)
    if ufunc in OPERATORS:
        return OPERATORS[ufunc]

    def applied(*values: Any) -> Any:
        symbol = _first_symbolic(values)
        return ufunc(*values) if symbol is None else symbol.apply(ufunc, values)

    return applied


# ------------------------------------------------------------------------------- NumPy functions on a Vector


def _extreme(values: Any, largest: bool) -> Any:
    scalars = list(values)
    symbol = _first_symbolic(scalars)
    return (max if largest else min)(scalars) if symbol is None else symbol.extreme(scalars, largest)


def _extreme_of(largest: bool) -> Callable[..., Any]:
    def extreme(a: Any, axis: Any = None, out: Any = None, **options: Any) -> Any:
        if out is not None or options or (axis is not None and np.ndim(a) > 1):
            return NotImplemented
        return _extreme(np.ravel(a), largest)

    return extreme


def _extreme_index_of(largest: bool) -> Callable[..., Any]:
    def extreme_index(a: Any, axis: Any = None, out: Any = None, **options: Any) -> Any:
        scalars = list(np.ravel(a))
        symbol = _first_symbolic(scalars)
        if symbol is None or out is not None or options or (axis is not None and np.ndim(a) > 1):
            plain = np.asarray(a).view(np.ndarray)  # a Vector's own method would come back here
            return (np.argmax if largest else np.argmin)(plain, axis, out, **options)
        return symbol.extreme_index(scalars, largest)

    return extreme_index


def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2:
        return NotImplemented

    def choose(truth: Any, then: Any, other: Any) -> Any:
        return truth.select(then, other) if isinstance(truth, Symbolic) else (then if truth else other)

    return _map(choose, condition, *choices)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **options: Any) -> Any:
    low, high = options.pop("min", a_min), options.pop("max", a_max)
    if options:
        return NotImplemented
    answer = a if low is None else np.maximum(a, low)
    return answer if high is None else np.minimum(answer, high)


def _is_close(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """|a - b| <= atol + rtol·|b|, as NumPy defines it; neither side is NaN here."""
    return _map(lambda first, second: abs(first - second) <= atol + rtol * abs(second), a, b)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.argmax: _extreme_index_of(largest=True),
    np.argmin: _extreme_index_of(largest=False),
    np.max: _extreme_of(largest=True),
    np.min: _extreme_of(largest=False),
    np.where: _where,
    np.clip: _clip,
    np.isclose: _is_close,
}
