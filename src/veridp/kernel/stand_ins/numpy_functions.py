"""What NumPy's functions do with arrays of stand-ins; each entry of the table `FUNCTIONS`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from veridp.kernel.stand_ins.arrays import (
    DTYPES,
    FUNCTIONS,
    KINDS,
    Symbolic,
    Vector,
    any_symbolic,
    applied,
    as_numpy,
    as_python,
    boxed_array,
    cast,
    decided_entries,
    decided_index,
    first_symbolic,
    kind_of,
    kind_of_all,
    leaves,
    map_entries,
    objects,
    of_one_kind,
    ordinary,
    refuse,
    truth_of,
)


def _on_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    out = options.pop("out", None)
    if method == "at":
        return _applied_at(ufunc, *inputs)
    if method == "__call__" and ufunc.nout == 1 and all(set(each) <= set("O->") for each in ufunc.types):
        answer = _each(ufunc, inputs)
    elif not any_symbolic(inputs):
        answer = getattr(ufunc, method)(*map(ordinary, inputs), **options)
        return answer if out is None else _written(answer, out[0], inputs)
    elif ufunc is np.matmul and method == "__call__" and not options:
        answer = _matrix_product(*inputs)
    elif method == "__call__" and not options and ufunc.nout == 1 and ufunc.signature is None:
        answer = map_entries(partial(applied, ufunc), *inputs)
    elif method == "reduce":
        answer = _reduced(ufunc, *inputs, **options)
    elif method == "accumulate" and ufunc.nin == 2 and not set(options) - {"axis"}:
        answer = _accumulated(ufunc, *inputs, **options)
    elif method == "outer" and not options:
        left, right = (boxed_array(value) for value in inputs)
        answer = map_entries(partial(applied, ufunc), left.reshape(left.shape + (1,) * right.ndim), right)
    else:
        refuse(inputs, f"np.{ufunc.__name__} with these options, or its method {method}, is not modelled")
    return answer if out is None else _written(answer, out[0], inputs)


def _each(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """What a Python function gives on each entry; np.frompyfunc, and np.vectorize, made it a ufunc."""
    boxed = [boxed_array(value) for value in inputs]
    if not any(array.ndim for array in boxed):
        refuse(inputs, f"np.{ufunc.__name__} of single numbers is not modelled")
    answer = ufunc(*(objects([as_python(entry) for entry in array.flat]).reshape(array.shape) for array in boxed))
    return Vector.of(list(answer.flat), answer.shape)


def _applied_at(ufunc: np.ufunc, target: Any, index: Any, *operand: Any) -> None:
    """What `ufunc.at` does: in place, and once for every time that the index names an entry."""
    if not isinstance(target, Vector):
        refuse([*operand, index], "noise cannot be written into an array of plain numbers; make a new array instead")
    places = np.arange(target.size).reshape(target.shape)[decided_index(index)]
    columns = [np.broadcast_to(boxed_array(value), places.shape) for value in operand]
    for at, place in np.ndenumerate(places):
        entry = np.unravel_index(place, target.shape)
        target[entry] = applied(ufunc, target[entry], *(column[at] for column in columns))


def _written(answer: Any, out: Any, inputs: Sequence[Any]) -> Any:
    """The array `out`, after the answer was written into it as NumPy would do."""
    if out.dtype != object:
        refuse([answer, *inputs], "noise cannot be written into an array of plain numbers; make a new array instead")
    source, target = kind_of_all(boxed_array(answer).flat, *inputs), kind_of_all(out.flat, *inputs)
    if KINDS.index(source) > KINDS.index(target):
        raise TypeError(f"Cannot cast ufunc output from {DTYPES[source]} to {DTYPES[target]}")
    if np.shape(answer) != out.shape:
        answer = np.broadcast_to(answer, out.shape)
    np.ndarray.__setitem__(out, ..., boxed_array(map_entries(lambda entry: cast(entry, DTYPES[target]), answer)))
    return out


def _reduced(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **options: Any
) -> Any:
    initial = options.pop("initial", _ABSENT)
    logical = ufunc in (np.logical_and, np.logical_or)
    if ufunc is np.add:
        array, dtype = _cast_all(array, dtype), None
    where = options.pop("where", True)
    if where is not True and ufunc is np.add:
        array, where = np.where(where, array, 0), True
    if where is not True or options or not (dtype is None or (logical and dtype == np.bool_)):
        refuse(array, f"np.{ufunc.__name__}.reduce with these options is not modelled")
    if ufunc not in _REDUCED or (initial is not _ABSENT and kind_of(initial) != kind_of_all(boxed_array(array).flat)):
        refuse(array, f"np.{ufunc.__name__}.reduce, or its initial value, is not modelled")

    def fold(values: list[Any]) -> Any:
        if not values and initial is _ABSENT:
            return ufunc.reduce(np.empty(0))
        if ufunc in (np.maximum, np.minimum):
            return _extreme([*values, *([] if initial is _ABSENT else [initial])], ufunc is np.maximum)
        if ufunc is np.add:
            values = [cast(value, DTYPES["i"]) if kind_of(value) == "b" else value for value in values]
        if logical:
            values = [truth_of(value) for value in values]
        total, *rest = values if initial is _ABSENT else [as_numpy(initial), *values]
        for value in rest:
            total = applied(ufunc, total, value)
        return total

    return _folded(array, axis, keepdims, fold)


_ABSENT = object()
_REDUCED = frozenset([np.add, np.maximum, np.minimum, np.logical_and, np.logical_or])


def _folded(array: Any, axis: Any, keepdims: bool, fold: Callable[[list[Any]], Any]) -> Any:
    """What `fold` makes of the entries along the axes, for each place of the others."""
    boxed = boxed_array(array)
    if axis is None or (boxed.ndim == 0 and axis in (0, -1)):
        axis = range(boxed.ndim)
    axes = normalize_axis_tuple(axis, boxed.ndim)
    kept = [place for place in range(boxed.ndim) if place not in axes]
    outer = tuple(boxed.shape[place] for place in kept)
    lines = boxed.transpose([*kept, *axes]).reshape(math.prod(outer), -1) if boxed.size else [[]] * math.prod(outer)
    answers = [as_numpy(fold(list(line))) for line in lines]
    if keepdims:
        outer = tuple(1 if place in axes else size for place, size in enumerate(boxed.shape))
    return Vector.of(answers, outer) if outer or keepdims else answers[0]


def _extreme(values: Sequence[Any], largest: bool) -> Any:
    scalars = of_one_kind([as_numpy(value) for value in values])
    symbol = first_symbolic(scalars)
    if symbol is None:
        return (np.max if largest else np.min)(np.array(scalars))
    if all(kind_of(value) == "b" for value in scalars):
        total, *rest = scalars
        for value in rest:
            total = applied(np.logical_or if largest else np.logical_and, total, value)
        return total
    return symbol.extreme(scalars, largest)


def _cumulative_sum(array: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    if out is not None:
        refuse(array, "np.cumsum with out= is not modelled")
    array = _cast_all(array, dtype)
    return _accumulated(np.add, boxed_array(array).ravel() if axis is None else array, axis or 0)


def _accumulated(ufunc: np.ufunc, array: Any, axis: Any = 0) -> Any:
    """What the ufunc makes of the first entries along an axis, of one, two and so on."""
    boxed = boxed_array(array)
    (place,) = normalize_axis_tuple(axis, boxed.ndim)
    found = np.empty(boxed.shape, dtype=object)
    lines, totals = np.moveaxis(boxed, place, -1), np.moveaxis(found, place, -1)
    for index in np.ndindex(lines.shape):
        value = cast(lines[index], DTYPES["i"]) if ufunc is np.add and kind_of(lines[index]) == "b" else lines[index]
        before = (*index[:-1], index[-1] - 1)
        totals[index] = applied(ufunc, totals[before], value) if index[-1] else value
    return Vector.of(list(found.ravel()), found.shape)


def _matrix_product(left: Any, right: Any) -> Any:
    left, right = boxed_array(left), boxed_array(right)
    if not 1 <= left.ndim <= 2 or not 1 <= right.ndim <= 2:
        refuse([left, right], "a product of matrices is modelled for one or two dimensions only")
    if kind_of_all([*left.flat, *right.flat]) == "b":
        refuse([left, right], "a product of matrices of truth values is not modelled")
    rows, columns = left.reshape(-1, left.shape[-1], 1), right.reshape(1, right.shape[0], -1)
    products = boxed_array(map_entries(partial(applied, np.multiply), rows, columns))
    answer = np.asarray(_reduced(np.add, products, axis=1), dtype=object)
    shape = left.shape[:-1] + right.shape[1:]
    return Vector.of(list(answer.ravel()), shape) if shape else answer.item()


FUNCTIONS[np.ufunc] = _on_ufunc

# --------------------------------------------------------------------------------------------- NumPy's functions


def _extreme_of(largest: bool) -> Callable[..., Any]:
    ufunc = np.maximum if largest else np.minimum

    def extreme(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
        if out is not None:
            refuse(a, "np.max and np.min with out= are not modelled")
        return _reduced(ufunc, a, axis, None, bool(keepdims), **options)

    return extreme


def _extreme_index_of(largest: bool) -> Callable[..., Any]:
    def first(values: list[Any]) -> Any:
        symbol = first_symbolic(values)
        if symbol is None:
            return (np.argmax if largest else np.argmin)(np.array(values))
        return symbol.extreme_index(values, largest)

    def extreme_index(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        if out is not None or isinstance(axis, tuple):
            refuse(a, "np.argmax and np.argmin with out= are not modelled")
        return _folded(a, axis, bool(keepdims), first)

    return extreme_index


def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2:
        return np.nonzero(decided_entries(condition))
    kind = kind_of_all([*boxed_array(choices[0]).flat, *boxed_array(choices[1]).flat], condition)

    def choose(truth: Any, then: Any, other: Any) -> Any:
        then, other = (value if kind_of(value) == kind else cast(value, DTYPES[kind]) for value in (then, other))
        truth = truth_of(truth)
        return truth.select(then, other) if isinstance(truth, Symbolic) else (then if truth else other)

    return map_entries(choose, condition, *choices)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **options: Any) -> Any:
    low, high = options.pop("min", a_min), options.pop("max", a_max)
    if options or out is not None:
        refuse([a, low, high], "np.clip with these options is not modelled")
    answer = a if low is None else np.maximum(a, low)
    return answer if high is None else np.minimum(answer, high)


def _round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    if out is not None or type(decimals) is not int:
        refuse(a, "np.round with out=, or to decimals that are not an integer, is not modelled")
    if decimals:
        return map_entries(lambda value: round(value, decimals), a)
    return map_entries(lambda value: value if kind_of(value) == "i" else applied(np.rint, value), a)


def _is_close(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """|a - b| <= atol + rtol·|b|, as NumPy defines it; neither side is NaN here."""
    b = np.multiply(b, 1.0)
    return abs(np.subtract(a, b)) <= atol + rtol * abs(b)


def _mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    if out is not None:
        refuse(a, "np.mean with out= is not modelled")
    total = _reduced(np.add, a, axis, dtype, bool(keepdims))
    return np.divide(total, np.size(a) // max(np.size(total), 1))


def _median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    if out is not None:
        refuse(a, "np.median with out= is not modelled")

    def middle(values: list[Any]) -> Any:
        ordered = sorted(values)
        return _mean(Vector.of(ordered[(len(values) - 1) // 2 : len(values) // 2 + 1]))

    return _folded(a, axis, keepdims, middle)


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return _reduced(np.add, map_entries(truth_of, a), axis, None, bool(keepdims))


def _search_sorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Where to insert v, by the bisection that NumPy does."""
    several = np.ndim(v) > 0  # NumPy begins where it found the value before: the same only where the table is sorted
    if sorter is not None or side not in ("left", "right") or (several and not _is_sorted(a)):
        refuse([a, v], "np.searchsorted with sorter, or of several values in a noisy table, is not modelled")
    entries, before = list(boxed_array(a).flat), np.less if side == "left" else np.less_equal

    def place(value: Any) -> Any:
        low, high = 0, len(entries)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if applied(before, entries[middle], value) else (low, middle)
        return np.int64(low)

    return map_entries(place, v)


def _is_sorted(table: Any) -> bool:
    return not any_symbolic([table]) and bool(np.all(np.diff(np.asarray(ordinary(table))) >= 0))


def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The numbers of the bins, found as NumPy does."""
    if any_symbolic([bins]):
        refuse([x, bins], "np.digitize with noisy edges is not modelled")
    edges, side = np.asarray(ordinary(bins)), "left" if right else "right"
    np.digitize(0.0, edges)  # raises unless they are in order
    if edges.size and edges[0] > edges[-1]:
        return edges.size - _search_sorted(edges[::-1], x, side)
    return _search_sorted(edges, x, side)


def _histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:  # noqa: A002 - NumPy's name
    """How many numbers are in each bin; the last one has both of its ends."""
    by_data = np.ndim(bins) == 0 and range is None
    if density or weights is not None or by_data or any_symbolic([bins, range]):
        refuse([a, bins, range], "np.histogram is modelled with edges, or with a number of bins and a range, alone")
    edges = np.histogram_bin_edges(np.empty(0), ordinary(bins), ordinary(range))
    from_here = [np.count_nonzero(np.greater_equal(a, edge)) for edge in edges[:-1]]
    from_here.append(np.count_nonzero(np.greater(a, edges[-1])))
    return Vector.of([here - beyond for here, beyond in itertools.pairwise(from_here)]), edges


def _full_like(a: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    if options:
        refuse([a, fill_value], "arrays like one of noise, with options, are not modelled")
    target = np.dtype(DTYPES[kind_of_all(boxed_array(a).flat)] if dtype is None else dtype)
    if not any_symbolic([fill_value]):
        filled = np.full(np.shape(a), fill_value, target)
        return boxed_array(filled).view(Vector) if target in DTYPES.values() else filled  # it may get stand-ins yet
    return map_entries(lambda value, _: cast(value, target), fill_value, np.zeros(np.shape(a)))


def _like(value: int) -> Callable[..., Any]:
    return lambda a, dtype=None, **options: _full_like(a, value, dtype, **options)


def _cast_all(array: Any, dtype: Any) -> Any:
    """The array, as a function that is told a type first casts it."""
    return array if dtype is None else map_entries(lambda value: cast(value, np.dtype(dtype)), array)


def _without_nan(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of the numbers that are not NaN: what stands in for a number never is."""

    def call(a: Any, *options: Any, **named: Any) -> Any:
        boxed = boxed_array(a)
        kept = [value for value in boxed.flat if isinstance(value, Symbolic) or not np.isnan(value)]
        if len(kept) < boxed.size and (boxed.ndim > 1 or options or named):
            refuse(a, f"np.nan{function.__name__} of an array with NaN, with these options, is not modelled")
        return function(a if len(kept) == boxed.size else Vector.of(kept), *options, **named)

    return call


def _selected(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """np.select: the first choice whose condition holds."""
    answer = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        answer = np.where(condition, choice, answer)
    return answer


FUNCTIONS |= {
    np.argmax: _extreme_index_of(largest=True),
    np.argmin: _extreme_index_of(largest=False),
    np.max: _extreme_of(largest=True),
    np.min: _extreme_of(largest=False),
    np.where: _where,
    np.nonzero: lambda a: np.nonzero(decided_entries(a)),
    np.flatnonzero: lambda a: np.flatnonzero(decided_entries(a)),
    np.count_nonzero: _count_nonzero,
    np.clip: _clip,
    np.round: _round,
    np.isclose: _is_close,
    np.mean: _mean,
    np.median: _median,
    np.cumsum: _cumulative_sum,
    np.searchsorted: _search_sorted,
    np.digitize: _digitize,
    np.histogram: _histogram,
    np.dot: lambda a, b: _matrix_product(a, b) if np.ndim(a) and np.ndim(b) else np.multiply(a, b),
    np.zeros_like: _like(0),
    np.empty_like: _like(0),
    np.ones_like: _like(1),
    np.full_like: _full_like,
    np.around: _round,
    np.fix: lambda x, out=None: np.trunc(x),
    np.real: lambda val: val,
    np.ptp: lambda a, axis=None, **options: np.max(a, axis, **options) - np.min(a, axis, **options),
    np.ediff1d: lambda ary: np.diff(np.ravel(ary)),
    np.select: _selected,
    np.allclose: lambda a, b, *options, **named: bool(np.all(np.isclose(a, b, *options, **named))),
    np.array_equal: lambda a1, a2: np.shape(a1) == np.shape(a2) and bool(np.all(np.equal(a1, a2))),
    np.nan_to_num: lambda x, *options, **named: map_entries(
        lambda value: value if isinstance(value, Symbolic) else np.nan_to_num(value, *options, **named), x
    ),
}
for _name in ("sum", "mean", "max", "min", "median", "var", "std", "percentile", "quantile"):
    FUNCTIONS[getattr(np, f"nan{_name}")] = _without_nan(getattr(np, _name))


def _computed(function: Any) -> Callable[..., Any]:
    """The function, by what the reading of the stand-ins makes of it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        symbol = first_symbolic(leaves(values))
        answer = NotImplemented if symbol is None else symbol.called(function, args, kwargs)
        if answer is NotImplemented:
            refuse(values, f"np.{function.__name__} of noise is not modelled")
        return answer

    return call


_COMPUTED = (  # of numbers alone, with answers of a shape that depends on shapes alone
    np.var,
    np.std,
    np.percentile,
    np.quantile,
    np.prod,
    np.cumprod,
    np.linalg.det,
    np.interp,
    np.cov,
    np.corrcoef,
    np.linalg.inv,
    np.linalg.eigvalsh,
)
FUNCTIONS |= {function: _computed(function) for function in _COMPUTED}
_any_norm = _computed(np.linalg.norm)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """The norm; the Euclidean one of rows or columns is that of each of them."""
    boxed = boxed_array(x)
    if ord not in (None, 2) or boxed.ndim > 2 or not isinstance(axis, int) or boxed.ndim == 1:
        return _any_norm(x, ord, axis, keepdims)
    rows = [Vector.of(list(row)) for row in np.moveaxis(boxed, axis, -1)]
    entries = [_any_norm(row) if any_symbolic([row]) else np.linalg.norm(ordinary(row)) for row in rows]
    shape = (len(rows), 1) if axis in (1, -1) else (1, len(rows))
    return Vector.of(entries, shape if keepdims else (len(rows),))


FUNCTIONS[np.linalg.norm] = _norm
