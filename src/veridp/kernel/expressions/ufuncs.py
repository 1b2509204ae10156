"""What NumPy's functions of scalars make of expressions: operators, truth values, steps, and functions by name."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veridp.kernel import functions
from veridp.kernel.expressions.affine import (
    OPERATIONS,
    Affine,
    brief,
    cast_number,
    derived,
    held_as,
    is_integer,
    kind_of,
    operated,
    settle,
)
from veridp.kernel.expressions.arithmetic import power, step
from veridp.kernel.expressions.decider import refuse
from veridp.kernel.expressions.undecided import joined_truth, not_, truth_of
from veridp.kernel.stand_ins import Symbolic, Vector, first_symbolic
from veridp.kernel.symbols import PureFunction, Unknown

MAX_SORTED = 5  # entries of data, which have as many orders as a proof can go through


def _apply(ufunc: np.ufunc, values: Sequence[Any]) -> Any:
    """What the ufunc gives on scalars of which at least one is an expression."""
    held = [held_as(value, numpy=True) for value in values]
    kinds = {kind_of(value) for value in held}
    if ufunc in (np.isfinite, np.isnan, np.isinf):
        return _is_finite(held[0], ufunc)
    if None in kinds:
        others = {str(np.asarray(value).dtype) for value in held if kind_of(value) is None}
        refuse(f"np.{ufunc.__name__} of noise and {', '.join(sorted(others))} is not modelled; use bool, int or float")
    if ufunc in _LOGICAL:
        return _LOGICAL[ufunc](*(truth_of(value) for value in held))
    if kinds == {"b"}:
        return _on_truth_values(ufunc, held)
    if ufunc in (np.maximum, np.minimum, np.fmax, np.fmin):
        return _larger(held, ufunc in (np.maximum, np.fmax))
    if ufunc in _STEPS:
        settled = settle(held[0])
        if is_integer(settled) and ufunc is not np.rint:
            return settled
        return _STEPS[ufunc](settled).cast(np.dtype(np.float64))
    if ufunc in (np.absolute, np.fabs):
        return abs(held[0]) if ufunc is np.absolute else abs(held[0]).cast(np.dtype(np.float64))
    if ufunc in _UNARY:
        return _UNARY[ufunc](held[0])
    if ufunc is np.copysign:
        size, sign = map(settle, held)
        negative = bool(sign < 0) if isinstance(sign, Affine) else np.signbit(sign)
        return abs(size) * np.float64(-1 if negative else 1)
    if ufunc is np.float_power:
        held = [value.cast(_FLOAT) if isinstance(value, Symbolic) else np.float64(value) for value in held]
    if ufunc in _BINARY:
        return operated(_BINARY[ufunc], *held)
    return numpy_function(ufunc, [settle(value) for value in held])


def _called(function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """What a function of NumPy makes of the numbers in its arguments, entry by entry."""
    if function in (np.percentile, np.quantile) and len(arguments) == 2 and not named:
        entries = [settle(value) for value in np.asarray(arguments[0], dtype=object).flat]
        if len(entries) <= MAX_SORTED and _is_of_data(entries):
            shares = np.asarray(arguments[1], dtype=float) / (100 if function is np.percentile else 1)
            return _quantiles(sorted(entries), shares)
    if function is np.linalg.norm and _is_euclidean(arguments, named):
        entries = [settle(value) for value in np.asarray(arguments[0], dtype=object).flat]
        return derived(functions.norm_of(len(entries)), entries, "f", True)
    holes: list[Affine] = []

    def form(value: Any) -> Any:
        if isinstance(value, Symbolic):
            value = settle(value)
            if isinstance(value, Affine):
                holes.append(value)
                return functions.HOLE
        if isinstance(value, np.ndarray):
            value = value.tolist() if value.ndim == 0 else list(value)
        if isinstance(value, list | tuple):
            return [form(entry) for entry in value]
        return value.item() if isinstance(value, np.generic) else value

    forms, names = [form(value) for value in arguments], {name: form(value) for name, value in named.items()}
    probe = functions.entry_of_call(function, forms, names, slice(None)).compute(*range(1, len(holes) + 1))
    shape = np.shape(functions.entry_of_call(function, forms, names, ...).compute(*range(1, len(holes) + 1)))
    whole = function in (np.prod, np.cumprod) and all(hole.kind != "f" for hole in holes)
    entries = [
        derived(functions.entry_of_call(function, forms, names, place), holes, "i" if whole else "f", True)
        for place in range(np.size(probe))
    ]
    return Vector.of(entries, shape) if shape else entries[0]


def _is_of_data(values: Sequence[Any]) -> bool:
    """Whether the numbers are affine in open data, and have no noise in them."""
    expressions = [value for value in values if isinstance(value, Affine)]
    return all(isinstance(symbol, Unknown) for value in expressions for symbol in value.terms)


def _quantiles(ordered: Sequence[Any], shares: Any) -> Any:
    """The quantiles of sorted numbers, as NumPy draws lines between them: affine where the order is known."""
    found = []
    for share in shares.flat:
        place = min(max(float(share), 0.0), 1.0) * (len(ordered) - 1)
        below = min(int(place), max(len(ordered) - 2, 0))
        low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
        found.append(held_as((low + (high - low) * (place - below)) * 1.0, numpy=True))
    return Vector.of(found, shares.shape) if shares.shape else found[0]


def _is_euclidean(arguments: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether the norm of these arguments is the root of the sum of all squares."""
    of, *options = arguments
    plain = not named and all(option in (None, False) for option in options)
    entries = np.asarray(of, dtype=object)
    return plain and 0 < entries.ndim <= 2 and any(isinstance(settle(value), Affine) for value in entries.flat)


_FLOAT = np.dtype(np.float64)
_LOGICAL: dict[np.ufunc, Callable[..., Any]] = {
    np.logical_and: lambda a, b: joined_truth("and", a, b),
    np.logical_or: lambda a, b: joined_truth("or", a, b),
    np.logical_xor: lambda a, b: joined_truth("xor", a, b),
    np.logical_not: not_,
}


_BINARY = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.divide: "truediv",
    np.floor_divide: "floordiv",
    np.remainder: "mod",
    np.power: "pow",
    np.float_power: "pow",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
    np.equal: "eq",
    np.not_equal: "ne",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
}


_UNARY: dict[np.ufunc, Callable[[Any], Any]] = {
    np.square: lambda value: value * value,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.invert: operator.invert,
}


def _on_truth_values(ufunc: np.ufunc, values: Sequence[Any]) -> Any:
    """The ufunc on NumPy's truth values: a sum is "or", a product "and", and a difference an error."""
    if ufunc in (np.add, np.maximum, np.fmax, np.bitwise_or):
        return joined_truth("or", *values)
    if ufunc in (np.multiply, np.minimum, np.fmin, np.bitwise_and):
        return joined_truth("and", *values)
    if ufunc in (np.bitwise_xor, np.not_equal):
        return joined_truth("xor", *values)
    if ufunc is np.equal:
        return joined_truth("xor", not_(values[0]), values[1])
    if ufunc is np.invert:
        return not_(values[0])
    return ufunc(*(settle(value) for value in values))


def _larger(values: Sequence[Any], largest: bool) -> Any:
    """The larger (or smaller) of numbers, as a number of the kind that both have in an array."""
    kind = max((kind_of(value) for value in values), key="bif".index)  # type: ignore[arg-type]
    dtype = np.dtype(np.int64 if kind == "i" else np.float64)
    cast = [settle(v).cast(dtype) if isinstance(settle(v), Symbolic) else cast_number(settle(v), dtype) for v in values]
    symbol = first_symbolic(cast)
    return (max if largest else min)(cast) if symbol is None else symbol.extreme(cast, largest)


_STEPS: dict[np.ufunc, Callable[[Affine], Any]] = {
    np.floor: lambda value: step(functions.FLOOR, value, "f", True),
    np.ceil: lambda value: -step(functions.FLOOR, -value, "f", True),
    np.rint: lambda value: step(functions.ROUND, value, "f", True),
    np.trunc: lambda value: step(functions.TRUNC, value, "f", True),
}


_FROM_ZERO_ON = (np.log, np.log2, np.log10, np.sqrt)  # from -1 on: log1p


_OF_TWO = {np.arctan2: functions.ARCTAN2, np.logaddexp: functions.LOGADDEXP, np.hypot: functions.norm_of(2)}


def numpy_function(ufunc: np.ufunc, values: Sequence[Any]) -> Any:
    """The function of NumPy on scalars that are decided, of which at least one is an expression."""
    if ufunc is np.sign:
        sign = 1 if values[0] > 0 else -1 if values[0] < 0 else 0
        return np.float64(sign) if values[0].kind == "f" else np.int64(sign)
    if ufunc is np.square:
        return power(values[0], 2)
    if ufunc is np.reciprocal and values[0].kind == "f":
        return 1.0 / values[0]
    if ufunc is getattr(sys.modules.get("scipy.special"), "expit", None):
        return 1.0 / (1.0 + numpy_function(np.exp, [-values[0]]))
    if ufunc in _OF_TWO:
        return derived(_OF_TWO[ufunc], values, "f", True)
    if ufunc not in functions.UNARY:
        refuse(f"np.{ufunc.__name__} of {brief(first_symbolic(values))} is not modelled")
    (value,) = values
    if ufunc in _FROM_ZERO_ON or ufunc is np.log1p:
        lowest = -1 if ufunc is np.log1p else 0
        if value < lowest:
            return np.float64(np.nan)
        if ufunc is not np.sqrt and value == lowest:
            return np.float64(-np.inf)
    return derived(functions.UNARY[ufunc], values, "f", True)


def _is_finite(value: Any, ufunc: np.ufunc) -> Any:
    """Whether it is finite (or infinite, or NaN): noise is, and what was computed from it may not be."""
    value = settle(value)
    if not isinstance(value, Affine):
        return ufunc(value)
    if not value.functions:
        return np.bool_(ufunc is np.isfinite)
    found = PureFunction(f"{ufunc.__name__}(·)", ufunc, whole=True)
    return held_as(derived(found, (value,), "i", False) >= 1, numpy=True)


OPERATIONS.update({"ufunc": _apply, "called": _called})
