"""What stands in for a number, and for an array of numbers, while a mechanism runs.

A `Symbolic` scalar overloads arithmetic and comparison; what these mean is up to its reading (a symbol when paths
are explored, a batch of draws when they are sampled). A `Vector` is a NumPy object array of such scalars, and tells
NumPy's functions to treat them as their reading wants: NumPy calls come in here, calls on scalars go out.

NumPy's scalars and Python's numbers differ: `True + True` is True or 2, `~True` is False or -2, integers wrap around
or do not, division by zero gives an infinity or an error. So a stand-in knows which of the two the plain function
would hold. A Vector holds NumPy's alone, and what NumPy's functions return is NumPy's. What is not listed here
is refused.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from veridp.kernel.decimals import Written

KINDS = "bif"  # truth values, integers, floats: what is mixed becomes the last of them
DTYPES = {"b": np.dtype(np.bool_), "i": np.dtype(np.int64), "f": np.dtype(np.float64)}
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
        """What the ufunc gives on scalars of which at least one is symbolic."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """Which of the KINDS the plain function would hold here."""
        raise NotImplementedError

    def as_numpy(self) -> Any:
        """The same value, held as a NumPy scalar."""
        raise NotImplementedError

    def as_python(self) -> Any:
        """The same value, held as a Python number."""
        raise NotImplementedError

    def select(self, then: Any, other: Any) -> Any:
        """`then` where this truth value holds, else `other`."""
        raise NotImplementedError

    def cast(self, dtype: np.dtype[Any]) -> Any:
        """This value as NumPy's `astype` would have it."""
        raise NotImplementedError

    def refuse(self, what: str) -> NoReturn:
        """Stop the run: what was asked for is not modelled."""
        raise NotImplementedError

    @classmethod
    def called(cls, function: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """What a function of NumPy makes of the numbers in its arguments: floats, in a shape that they do not change.

        NotImplemented where this reading has no answer.
        """
        return NotImplemented

    @noting_errors
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return _on_ufunc(ufunc, method, inputs, options)

    @noting_errors
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _on_function(function, args, kwargs)


class Array(np.ndarray[Any, Any]):
    """An array of plain values, texts say, whose index may hold stand-ins: they are decided."""

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array.view(type(self))

    def __getitem__(self, key: Any) -> Any:  # an index past the end ends loops over an array
        return super().__getitem__(key) if type(key) is int else self._part(key)

    @noting_errors
    def _part(self, key: Any) -> Any:
        return super().__getitem__(_index(key))

    @noting_errors
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_index(key), value)


class Vector(Array):
    """An object array of NumPy scalars and symbolic ones."""

    @classmethod
    def of(cls, values: Sequence[Any], shape: tuple[int, ...] | None = None) -> Any:
        """The values as an array of one kind; an ordinary array where none is symbolic."""
        shape = (len(values),) if shape is None else shape
        symbol = first_symbolic(values)
        if symbol is None:
            return np.array(values).reshape(shape) if len(values) else np.empty(shape)
        if any(not isinstance(value, Symbolic) and _kind(value) is None for value in values):
            symbol.refuse("an array holds noise and something that is not a number")
        return objects(_of_one_kind([as_numpy(value) for value in values])).reshape(shape).view(cls)

    @noting_errors
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return _on_ufunc(ufunc, method, inputs, options)

    @noting_errors
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _on_function(function, args, kwargs)

    def argmax(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.argmax(self, axis, **options)

    def argmin(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.argmin(self, axis, **options)

    def max(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.max(self, axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.min(self, axis, **options)

    def mean(self, axis: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return np.mean(self, axis, **options)

    def clip(self, a_min: Any = None, a_max: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return _clip(self, a_min, a_max, **options)

    def round(self, decimals: Any = 0, **options: Any) -> Any:  # type: ignore[override]
        return _round(self, decimals, **options)

    def dot(self, b: Any, **options: Any) -> Any:  # type: ignore[override]
        return np.dot(self, b, **options)

    def searchsorted(self, v: Any, side: Any = "left", sorter: Any = None) -> Any:
        return np.searchsorted(self, v, side, sorter)

    def nonzero(self) -> Any:
        return np.nonzero(_decided(self))

    def fill(self, value: Any) -> None:
        self[...] = value

    def tolist(self) -> Any:
        return _nested([as_python(value) for value in self.ravel()], self.shape)

    def item(self, *place: Any) -> Any:
        return as_python(np.ndarray.item(self, *place))

    def astype(self, dtype: Any, **options: Any) -> Any:  # type: ignore[override]
        target = np.dtype(dtype)
        as_objects = target.kind == "O"  # Python's integers have no limits, and its floats compute as NumPy's do
        if options.pop("copy", True) not in (True, False) or options or (as_objects and _kind_of_all(self.flat) != "f"):
            _refuse(self, f"astype({target}) with these options is not modelled")
        if as_objects:
            return self.copy()
        return _map(lambda value: _cast(value, target), self)

    @noting_errors
    def __setitem__(self, key: Any, value: Any) -> None:
        target = DTYPES[_kind_of_all(self.ravel())]
        if _is_mask(key, self.shape) and not np.ndim(value):
            key, value = ..., _where(key, _cast(value, target), self)
        key = _index(key)
        if np.ndim(value) and not isinstance(np.ndarray.__getitem__(self, key), np.ndarray):
            raise ValueError("setting an array element with a sequence.")
        super().__setitem__(key, _map(lambda entry: _cast(entry, target), value))

    def __reduce__(self) -> Any:
        raise TypeError("a vector of stand-ins lives only while its mechanism runs; it cannot be pickled or copied out")


def _refused_method(name: str) -> Callable[..., Any]:
    return lambda self, *args, **options: _refuse(self, f"the method {name} of an array of noise is not modelled")


for _name in (
    "argpartition", "byteswap", "choose", "compress", "cumprod", "dump", "dumps", "getfield", "partition", "prod",
    "put", "setfield", "std", "tobytes", "tofile", "trace", "var",
):  # fmt: skip
    setattr(Vector, _name, _refused_method(_name))


# ----------------------------------------------------------------------------------------------------- scalars


def _kind(value: Any) -> str | None:
    """The kind of a scalar; None for what is no number, or none of 64 bits."""
    if isinstance(value, Symbolic):
        return value.kind
    if isinstance(value, bool | np.bool_):
        return "b"
    if isinstance(value, int | np.int64):
        return "i"
    return "f" if isinstance(value, float) else None


def _kind_of_all(values: Any, *others: Any) -> str:
    """The kind of an array with these entries, in an operation with the others."""
    kinds = {_kind(value) for value in values}
    if None in kinds:
        _refuse([*values, *others], "an array holds noise and something that is not a 64-bit number")
    return KINDS[max((KINDS.index(kind) for kind in kinds if kind is not None), default=2)]


def _of_one_kind(values: list[Any]) -> list[Any]:
    """The numbers as the entries of one array; as they are where they are of one kind already."""
    kinds = {_kind(value) for value in values}
    if len(kinds) <= 1 or None in kinds:
        return values
    target = DTYPES[_kind_of_all(values)]
    return [value if _kind(value) == target.kind else _cast(value, target) for value in values]


def as_numpy(value: Any) -> Any:
    """The scalar as NumPy holds it."""
    if isinstance(value, Symbolic):
        return value.as_numpy()
    kind = None if isinstance(value, np.generic | Written) else _kind(value)
    return value if kind is None else DTYPES[kind].type(value)


def as_python(value: Any) -> Any:
    """The scalar as Python holds it."""
    if isinstance(value, Symbolic):
        return value.as_python()
    return value.item() if isinstance(value, np.generic) else value


def _cast(value: Any, dtype: np.dtype[Any]) -> Any:
    if type(value) is Written and dtype == np.float64:
        return value
    return value.cast(dtype) if isinstance(value, Symbolic) else np.asarray(value).astype(dtype)[()]


def first_symbolic(values: Any) -> Symbolic | None:
    """The first stand-in among the values."""
    return next((value for value in values if isinstance(value, Symbolic)), None)


def _truth(value: Any) -> Any:
    """Whether the number is not zero, as NumPy's truth value."""
    if _kind(value) == "b":
        return as_numpy(value)
    return _applied(np.not_equal, value, 0)


def _applied(ufunc: np.ufunc, *values: Any) -> Any:
    """The ufunc on scalars."""
    symbol = first_symbolic(values)
    return ufunc(*values) if symbol is None else symbol.apply(ufunc, values)


# ------------------------------------------------------------------------------------------------------ arrays


def objects(values: Sequence[Any]) -> Any:
    """An object array of the values as they are; NumPy would ask them for their own arrays if it were given a list."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _boxed(value: Any) -> Any:
    """The value as a plain object array, so that NumPy looks no further into it; its entries are of one kind."""
    if isinstance(value, list | tuple):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return objects([value]).reshape(())
    entries = [value.flat[place] for place in range(value.size)] if value.dtype != object else list(value.flat)
    return objects(_of_one_kind(entries) if value.dtype == object else entries).reshape(value.shape)


def _map(function: Callable[..., Any], *arrays: Any) -> Any:
    """The function on each entry of the arrays, broadcast; a scalar where all are scalars."""
    boxed = [_boxed(value) for value in arrays]
    answer = np.frompyfunc(function, len(boxed), 1)(*boxed)
    if isinstance(answer, np.ndarray):
        return Vector.of(list(answer.flat), answer.shape) if answer.ndim else as_numpy(answer.item())
    return as_numpy(answer)


def _nested(values: list[Any], shape: tuple[int, ...]) -> Any:
    """The values as nested lists of this shape."""
    if not shape:
        return values[0]
    step = len(values) // shape[0] if shape[0] else 0
    return [_nested(values[place * step : (place + 1) * step], shape[1:]) for place in range(shape[0])]


def _is_mask(key: Any, shape: tuple[int, ...]) -> bool:
    """Whether the key tells for each entry of an array whether it is meant, which need not be decided then."""
    return isinstance(key, Vector) and key.shape == shape and _kind_of_all(key.flat) == "b"


def _index(key: Any) -> Any:
    """The key of an array, with undecided truth values and integers decided."""
    if isinstance(key, tuple):
        return tuple([_index(part) for part in key])
    if isinstance(key, list):
        key = np.asarray(key)
    if isinstance(key, np.ndarray) and key.dtype == object:
        return _decided(key) if _kind_of_all(key.flat) == "b" else np.array([operator.index(entry) for entry in key])
    return key


def _decided(array: Any) -> Any:
    """Whether each entry is not zero: a plain array."""
    boxed = _boxed(array)
    return np.array([bool(_truth(entry)) for entry in boxed.flat], dtype=np.bool_).reshape(boxed.shape)


def _refuse(values: Any, what: str) -> NoReturn:
    for value in values if isinstance(values, list | tuple) else [values]:
        entries = [value] if isinstance(value, Symbolic) else np.asarray(value).ravel().tolist()
        symbol = first_symbolic(entries)
        if symbol is not None:
            symbol.refuse(what)
    raise TypeError(what)


def _leaves(values: Any) -> Iterator[Any]:
    """What stands in the values, their arrays and lists."""
    for value in values:
        if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
            yield from _leaves(value.flat if isinstance(value, np.ndarray) else value)
        else:
            yield value


def _any_symbolic(values: Any) -> bool:
    return first_symbolic(_leaves(values)) is not None


def _ordinary(value: Any) -> Any:
    """An array that could hold stand-ins, and holds none, as one of plain numbers; all else as it is."""
    if isinstance(value, list | tuple) and any(isinstance(entry, Vector) for entry in value):
        return [_ordinary(entry) for entry in value]
    if not isinstance(value, Vector):
        return value
    entries = list(value.flat)
    return np.array(entries, dtype=DTYPES[_kind_of_all(entries)] if entries else None).reshape(value.shape)


# ------------------------------------------------------------------------------------------------------ ufuncs


def _on_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
    out = options.pop("out", None)
    if method == "at":
        return _applied_at(ufunc, *inputs)
    if not _any_symbolic(inputs):
        answer = getattr(ufunc, method)(*map(_ordinary, inputs), **options)
        return answer if out is None else _written(answer, out[0], inputs)
    if ufunc is np.matmul and method == "__call__" and not options:
        answer = _matrix_product(*inputs)
    elif method == "__call__" and not options and ufunc.nout == 1 and ufunc.signature is None:
        answer = _map(partial(_applied, ufunc), *inputs)
    elif method == "reduce":
        answer = _reduced(ufunc, *inputs, **options)
    elif method == "accumulate" and ufunc.nin == 2 and not set(options) - {"axis"}:
        answer = _accumulated(ufunc, *inputs, **options)
    elif method == "outer" and not options:
        left, right = (_boxed(value) for value in inputs)
        answer = _map(partial(_applied, ufunc), left.reshape(left.shape + (1,) * right.ndim), right)
    else:
        _refuse(inputs, f"np.{ufunc.__name__} with these options, or its method {method}, is not modelled")
    return answer if out is None else _written(answer, out[0], inputs)


def _applied_at(ufunc: np.ufunc, target: Any, index: Any, *operand: Any) -> None:
    """What `ufunc.at` does: in place, and once for every time that the index names an entry."""
    if not isinstance(target, Vector):
        _refuse([*operand, index], "noise cannot be written into an array of plain numbers; make a new array instead")
    places = np.arange(target.size).reshape(target.shape)[_index(index)]
    columns = [np.broadcast_to(_boxed(value), places.shape) for value in operand]
    for at, place in np.ndenumerate(places):
        entry = np.unravel_index(place, target.shape)
        target[entry] = _applied(ufunc, target[entry], *(column[at] for column in columns))


def _written(answer: Any, out: Any, inputs: Sequence[Any]) -> Any:
    """The array `out`, after the answer was written into it as NumPy would do."""
    if out.dtype != object:
        _refuse([answer, *inputs], "noise cannot be written into an array of plain numbers; make a new array instead")
    source, target = _kind_of_all(_boxed(answer).flat, *inputs), _kind_of_all(out.flat, *inputs)
    if KINDS.index(source) > KINDS.index(target):
        raise TypeError(f"Cannot cast ufunc output from {DTYPES[source]} to {DTYPES[target]}")
    if np.shape(answer) != out.shape:
        answer = np.broadcast_to(answer, out.shape)
    np.ndarray.__setitem__(out, ..., _boxed(_map(lambda entry: _cast(entry, DTYPES[target]), answer)))
    return out


def _reduced(
    ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **options: Any
) -> Any:
    initial = options.pop("initial", _ABSENT)
    logical = ufunc in (np.logical_and, np.logical_or)
    if options.pop("where", True) is not True or options or not (dtype is None or (logical and dtype == np.bool_)):
        _refuse(array, f"np.{ufunc.__name__}.reduce with these options is not modelled")
    if ufunc not in _REDUCED or (initial is not _ABSENT and _kind(initial) != _kind_of_all(_boxed(array).flat)):
        _refuse(array, f"np.{ufunc.__name__}.reduce, or its initial value, is not modelled")

    def fold(values: list[Any]) -> Any:
        if not values and initial is _ABSENT:
            return ufunc.reduce(np.empty(0))
        if ufunc in (np.maximum, np.minimum):
            return _extreme([*values, *([] if initial is _ABSENT else [initial])], ufunc is np.maximum)
        if ufunc is np.add:
            values = [_cast(value, DTYPES["i"]) if _kind(value) == "b" else value for value in values]
        if logical:
            values = [_truth(value) for value in values]
        total, *rest = values if initial is _ABSENT else [as_numpy(initial), *values]
        for value in rest:
            total = _applied(ufunc, total, value)
        return total

    return _folded(array, axis, keepdims, fold)


_ABSENT = object()
_REDUCED = frozenset([np.add, np.maximum, np.minimum, np.logical_and, np.logical_or])


def _folded(array: Any, axis: Any, keepdims: bool, fold: Callable[[list[Any]], Any]) -> Any:
    """What `fold` makes of the entries along the axes, for each place of the others."""
    boxed = _boxed(array)
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
    scalars = _of_one_kind([as_numpy(value) for value in values])
    symbol = first_symbolic(scalars)
    if symbol is None:
        return (np.max if largest else np.min)(np.array(scalars))
    if all(_kind(value) == "b" for value in scalars):
        total, *rest = scalars
        for value in rest:
            total = _applied(np.logical_or if largest else np.logical_and, total, value)
        return total
    return symbol.extreme(scalars, largest)


def _cumulative_sum(array: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    if dtype is not None or out is not None:
        _refuse(array, "np.cumsum with these options is not modelled")
    return _accumulated(np.add, _boxed(array).ravel() if axis is None else array, axis or 0)


def _accumulated(ufunc: np.ufunc, array: Any, axis: Any = 0) -> Any:
    """What the ufunc makes of the first entries along an axis, of one, two and so on."""
    boxed = _boxed(array)
    (place,) = normalize_axis_tuple(axis, boxed.ndim)
    found = np.empty(boxed.shape, dtype=object)
    lines, totals = np.moveaxis(boxed, place, -1), np.moveaxis(found, place, -1)
    for index in np.ndindex(lines.shape):
        value = _cast(lines[index], DTYPES["i"]) if ufunc is np.add and _kind(lines[index]) == "b" else lines[index]
        before = (*index[:-1], index[-1] - 1)
        totals[index] = _applied(ufunc, totals[before], value) if index[-1] else value
    return Vector.of(list(found.ravel()), found.shape)


def _matrix_product(left: Any, right: Any) -> Any:
    left, right = _boxed(left), _boxed(right)
    if not 1 <= left.ndim <= 2 or not 1 <= right.ndim <= 2:
        _refuse([left, right], "a product of matrices is modelled for one or two dimensions only")
    if _kind_of_all([*left.flat, *right.flat]) == "b":
        _refuse([left, right], "a product of matrices of truth values is not modelled")
    rows, columns = left.reshape(-1, left.shape[-1], 1), right.reshape(1, right.shape[0], -1)
    products = _boxed(_map(partial(_applied, np.multiply), rows, columns))
    answer = np.asarray(_reduced(np.add, products, axis=1), dtype=object)
    shape = left.shape[:-1] + right.shape[1:]
    return Vector.of(list(answer.ravel()), shape) if shape else answer.item()


# --------------------------------------------------------------------------------------------- NumPy's functions


def _on_function(function: Any, args: Any, kwargs: Any) -> Any:
    if not _any_symbolic([*args, *kwargs.values()]):  # arrays that could hold stand-ins, and hold none
        return function(*map(_ordinary, args), **{name: _ordinary(value) for name, value in kwargs.items()})
    own = FUNCTIONS.get(function)
    if own is not None:
        return own(*args, **kwargs)
    if function in COMPUTED:
        symbol = first_symbolic(_leaves([*args, *kwargs.values()]))
        answer = NotImplemented if symbol is None else symbol.called(function, args, kwargs)
        if answer is not NotImplemented:
            return answer
    if function not in ALLOWED:
        _refuse([*args, *kwargs.values()], f"np.{function.__name__} of noise is not modelled")
    answer = function._implementation(*args, **kwargs)  # what NumPy does where nobody objects
    return [_joined(part) for part in answer] if isinstance(answer, list) else _joined(answer)


def _joined(answer: Any) -> Any:
    """What NumPy made of several arrays, with entries of one kind."""
    if not isinstance(answer, np.ndarray) or answer.dtype != object:
        return answer
    one_kind = len({_kind(entry) for entry in answer.flat}) <= 1
    return answer if one_kind and isinstance(answer, Vector) else Vector.of(list(answer.flat), answer.shape)


def _extreme_of(largest: bool) -> Callable[..., Any]:
    ufunc = np.maximum if largest else np.minimum

    def extreme(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
        if out is not None:
            _refuse(a, "np.max and np.min with out= are not modelled")
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
            _refuse(a, "np.argmax and np.argmin with out= are not modelled")
        return _folded(a, axis, bool(keepdims), first)

    return extreme_index


def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2:
        return np.nonzero(_decided(condition))
    kind = _kind_of_all([*_boxed(choices[0]).flat, *_boxed(choices[1]).flat], condition)

    def choose(truth: Any, then: Any, other: Any) -> Any:
        then, other = (value if _kind(value) == kind else _cast(value, DTYPES[kind]) for value in (then, other))
        truth = _truth(truth)
        return truth.select(then, other) if isinstance(truth, Symbolic) else (then if truth else other)

    return _map(choose, condition, *choices)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **options: Any) -> Any:
    low, high = options.pop("min", a_min), options.pop("max", a_max)
    if options or out is not None:
        _refuse([a, low, high], "np.clip with these options is not modelled")
    answer = a if low is None else np.maximum(a, low)
    return answer if high is None else np.minimum(answer, high)


def _round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    if out is not None or type(decimals) is not int:
        _refuse(a, "np.round with out=, or to decimals that are not an integer, is not modelled")
    if decimals:
        return _map(lambda value: round(value, decimals), a)
    return _map(lambda value: value if _kind(value) == "i" else _applied(np.rint, value), a)


def _is_close(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """|a - b| <= atol + rtol·|b|, as NumPy defines it; neither side is NaN here."""
    b = np.multiply(b, 1.0)
    return abs(np.subtract(a, b)) <= atol + rtol * abs(b)


def _mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    if out is not None:
        _refuse(a, "np.mean with out= is not modelled")
    total = _reduced(np.add, a, axis, dtype, bool(keepdims))
    return np.divide(total, np.size(a) // max(np.size(total), 1))


def _median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    if out is not None:
        _refuse(a, "np.median with out= is not modelled")

    def middle(values: list[Any]) -> Any:
        ordered = sorted(values)
        return _mean(Vector.of(ordered[(len(values) - 1) // 2 : len(values) // 2 + 1]))

    return _folded(a, axis, keepdims, middle)


def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return _reduced(np.add, _map(_truth, a), axis, None, bool(keepdims))


def _search_sorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Where to insert v, by the bisection that NumPy does."""
    several = np.ndim(v) > 0  # NumPy begins where it found the value before: the same only where the table is sorted
    if sorter is not None or side not in ("left", "right") or (several and not _is_sorted(a)):
        _refuse([a, v], "np.searchsorted with sorter, or of several values in a noisy table, is not modelled")
    entries, before = list(_boxed(a).flat), np.less if side == "left" else np.less_equal

    def place(value: Any) -> Any:
        low, high = 0, len(entries)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if _applied(before, entries[middle], value) else (low, middle)
        return np.int64(low)

    return _map(place, v)


def _is_sorted(table: Any) -> bool:
    return not _any_symbolic([table]) and bool(np.all(np.diff(np.asarray(_ordinary(table))) >= 0))


def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The numbers of the bins, found as NumPy does."""
    if _any_symbolic([bins]):
        _refuse([x, bins], "np.digitize with noisy edges is not modelled")
    edges, side = np.asarray(_ordinary(bins)), "left" if right else "right"
    np.digitize(0.0, edges)  # raises unless they are in order
    if edges.size and edges[0] > edges[-1]:
        return edges.size - _search_sorted(edges[::-1], x, side)
    return _search_sorted(edges, x, side)


def _histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:  # noqa: A002 - NumPy's name
    """How many numbers are in each bin; the last one has both of its ends."""
    by_data = np.ndim(bins) == 0 and range is None
    if density or weights is not None or by_data or _any_symbolic([bins, range]):
        _refuse([a, bins, range], "np.histogram is modelled with edges, or with a number of bins and a range, alone")
    edges = np.histogram_bin_edges(np.empty(0), _ordinary(bins), _ordinary(range))
    from_here = [np.count_nonzero(np.greater_equal(a, edge)) for edge in edges[:-1]]
    from_here.append(np.count_nonzero(np.greater(a, edges[-1])))
    return Vector.of([here - beyond for here, beyond in itertools.pairwise(from_here)]), edges


def _like(value: int | None) -> Callable[..., Any]:
    def like(a: Any, fill_value: Any = value, **options: Any) -> Any:
        if options:
            _refuse(a, "arrays like one of noise, with options, are not modelled")
        return np.full(np.shape(a), fill_value, DTYPES[_kind_of_all(_boxed(a).flat)])

    return like


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.argmax: _extreme_index_of(largest=True),
    np.argmin: _extreme_index_of(largest=False),
    np.max: _extreme_of(largest=True),
    np.min: _extreme_of(largest=False),
    np.where: _where,
    np.nonzero: lambda a: np.nonzero(_decided(a)),
    np.flatnonzero: lambda a: np.flatnonzero(_decided(a)),
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
    np.ones_like: _like(1),
    np.full_like: _like(None),
}


def _least_squares(a: Any, b: Any, rcond: Any = None) -> Any:
    """The solution, which is linear in b; its residuals, the rank and the singular values."""
    if _any_symbolic([a]):
        _refuse([a, b], "least squares with noise in the matrix are not modelled")
    matrix = np.asarray(_ordinary(a))
    _, _, rank, singular = np.linalg.lstsq(matrix, np.zeros(len(matrix)), rcond=rcond)
    solution = np.matmul(np.linalg.pinv(matrix), b)
    rest = np.subtract(b, np.matmul(matrix, solution))
    full = rank == matrix.shape[1] < len(matrix)
    return solution, np.sum(rest * rest, axis=0, keepdims=True) if full else np.empty(0), rank, singular


def _solved(a: Any, b: Any) -> Any:
    if _any_symbolic([a]):
        _refuse([a, b], "linear equations with noise in the matrix are not modelled")
    return np.matmul(np.linalg.inv(np.asarray(_ordinary(a))), b)


def _average(a: Any, axis: Any = None, weights: Any = None, **options: Any) -> Any:
    if options or (weights is not None and axis is not None):
        _refuse([a, weights], "np.average with these options is not modelled")
    return np.mean(a, axis=axis) if weights is None else np.divide(np.sum(np.multiply(a, weights)), np.sum(weights))


def _linear(function: Callable[..., Any], *places: int) -> Callable[..., Any]:
    """The function of NumPy, where one of these arguments alone holds stand-ins; it is affine in each of them.

    So its values at 0 and at the unit vectors are all there is to know of it.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        held = [place for place, value in enumerate(args) if _any_symbolic([value])]
        boxed = _boxed(args[held[0]]) if held else np.empty(0)
        kind = _kind_of_all(boxed.flat) if boxed.size else "b"
        if len(held) != 1 or held[0] not in places or _any_symbolic(kwargs.values()) or kind == "b":
            _refuse([*args, *kwargs.values()], f"np.{function.__name__} of noise in these arguments is not modelled")
        plain = {name: _ordinary(value) for name, value in kwargs.items()}

        def at(numbers: Any) -> Any:
            answer = function(*(numbers if k in held else _ordinary(arg) for k, arg in enumerate(args)), **plain)
            if not isinstance(answer, np.ndarray | np.number):
                _refuse(args, f"np.{function.__name__} with these options is not modelled")
            return answer

        origin = answer = at(np.zeros(boxed.shape, DTYPES[kind]))
        for place in np.ndindex(boxed.shape):
            unit = np.zeros(boxed.shape, DTYPES[kind])
            unit[place] = 1
            answer = np.add(answer, np.multiply(np.subtract(at(unit), origin), boxed[place]))
        return answer

    return call


_BILINEAR = (np.convolve, np.correlate, np.inner, np.vdot, np.tensordot, np.kron)
FUNCTIONS |= {function: _linear(function, 0, 1) for function in _BILINEAR}
FUNCTIONS |= {function: _linear(function, 0) for function in (np.trace, np.gradient, np.diag, np.triu, np.tril)}
FUNCTIONS[np.polyfit] = _linear(np.polyfit, 1)
FUNCTIONS |= {np.linalg.lstsq: _least_squares, np.linalg.solve: _solved, np.average: _average}
COMPUTED: frozenset[Any] = frozenset(  # of numbers alone, with answers of a shape that depends on shapes alone
    (np.var, np.std, np.percentile, np.quantile, np.prod, np.cumprod, np.linalg.norm, np.linalg.det, np.interp, np.cov)
)
ALLOWED: frozenset[Any] = frozenset(  # those that move entries, or are made of the ones above
    (
        np.sum, np.any, np.all, np.diff, np.sort, np.argsort, np.outer,
        np.concatenate, np.stack, np.hstack, np.vstack, np.column_stack, np.append, np.split, np.array_split,
        np.reshape, np.ravel, np.transpose, np.squeeze, np.expand_dims, np.moveaxis, np.swapaxes, np.flip,
        np.flipud, np.fliplr, np.roll, np.repeat, np.tile, np.take, np.delete, np.broadcast_to, np.broadcast_arrays,
        np.atleast_1d, np.atleast_2d, np.copy, np.shape, np.ndim, np.size, np.result_type,
    )
)  # fmt: skip
