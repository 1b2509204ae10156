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
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

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
        return FUNCTIONS[np.ufunc](ufunc, method, inputs, options)

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
        return super().__getitem__(decided_index(key))

    @noting_errors
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(decided_index(key), value)


class Vector(Array):
    """An object array of NumPy scalars and symbolic ones."""

    @classmethod
    def of(cls, values: Sequence[Any], shape: tuple[int, ...] | None = None) -> Any:
        """The values as an array of one kind; an ordinary array where none is symbolic."""
        shape = (len(values),) if shape is None else shape
        symbol = first_symbolic(values)
        if symbol is None:
            return np.array(values).reshape(shape) if len(values) else np.empty(shape)
        if any(not isinstance(value, Symbolic) and kind_of(value) is None for value in values):
            symbol.refuse("an array holds noise and something that is not a number")
        return objects(of_one_kind([as_numpy(value) for value in values])).reshape(shape).view(cls)

    __array_ufunc__ = Symbolic.__array_ufunc__
    __array_function__ = Symbolic.__array_function__

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
        return np.clip(self, a_min, a_max, **options)

    def round(self, decimals: Any = 0, **options: Any) -> Any:  # type: ignore[override]
        return np.round(self, decimals, **options)

    def dot(self, b: Any, **options: Any) -> Any:  # type: ignore[override]
        return np.dot(self, b, **options)

    def searchsorted(self, v: Any, side: Any = "left", sorter: Any = None) -> Any:
        return np.searchsorted(self, v, side, sorter)

    def nonzero(self) -> Any:
        return np.nonzero(decided_entries(self))

    def fill(self, value: Any) -> None:
        self[...] = value

    def tolist(self) -> Any:
        return _nested([as_python(value) for value in self.ravel()], self.shape)

    def item(self, *place: Any) -> Any:
        return as_python(np.ndarray.item(self, *place))

    def astype(self, dtype: Any, **options: Any) -> Any:  # type: ignore[override]
        target = np.dtype(dtype)
        as_objects = target.kind == "O"  # Python's integers have no limits, and its floats compute as NumPy's do
        if options.pop("copy", True) not in (True, False) or options or (as_objects and kind_of_all(self.flat) != "f"):
            refuse(self, f"astype({target}) with these options is not modelled")
        if as_objects:
            return self.copy()
        return map_entries(lambda value: cast(value, target), self)

    @noting_errors
    def __setitem__(self, key: Any, value: Any) -> None:
        target = DTYPES[kind_of_all(self.ravel())]
        many = not isinstance(value, Symbolic) and np.ndim(value) > 0  # asking a choice for its shape would decide it
        if _is_mask(key, self.shape) and not many:
            key, value = ..., np.where(key, cast(value, target), self)
        key = decided_index(key)
        if many and not isinstance(np.ndarray.__getitem__(self, key), np.ndarray):
            raise ValueError("setting an array element with a sequence.")
        super().__setitem__(key, map_entries(lambda entry: cast(entry, target), value))

    def __reduce__(self) -> Any:
        raise TypeError("a vector of stand-ins lives only while its mechanism runs; it cannot be pickled or copied out")


def _like_function(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args, **options: function(self, *args, **options)


for _function in (np.var, np.std, np.prod, np.cumprod, np.trace):
    setattr(Vector, _function.__name__, _like_function(_function))


def _refused_method(name: str) -> Callable[..., Any]:
    return lambda self, *args, **options: refuse(self, f"the method {name} of an array of noise is not modelled")


for _name in (
    "argpartition", "byteswap", "choose", "compress", "dump", "dumps", "getfield", "partition",
    "put", "setfield", "tobytes", "tofile",
):  # fmt: skip
    setattr(Vector, _name, _refused_method(_name))


# ----------------------------------------------------------------------------------------------------- scalars


def kind_of(value: Any) -> str | None:
    """The kind of a scalar; None for what is no number, or none of 64 bits."""
    if isinstance(value, Symbolic):
        return value.kind
    if isinstance(value, bool | np.bool_):
        return "b"
    if isinstance(value, int | np.int64):
        return "i"
    return "f" if isinstance(value, float) else None


def kind_of_all(values: Any, *others: Any) -> str:
    """The kind of an array with these entries, in an operation with the others."""
    kinds = {kind_of(value) for value in values}
    if None in kinds:
        refuse([*values, *others], "an array holds noise and something that is not a 64-bit number")
    return KINDS[max((KINDS.index(kind) for kind in kinds if kind is not None), default=2)]


def of_one_kind(values: list[Any]) -> list[Any]:
    """The numbers as the entries of one array; as they are where they are of one kind already."""
    kinds = {kind_of(value) for value in values}
    if len(kinds) <= 1 or None in kinds:
        return values
    target = DTYPES[kind_of_all(values)]
    return [value if kind_of(value) == target.kind else cast(value, target) for value in values]


def as_numpy(value: Any) -> Any:
    """The scalar as NumPy holds it."""
    if isinstance(value, Symbolic):
        return value.as_numpy()
    kind = None if isinstance(value, np.generic | Written) else kind_of(value)
    return value if kind is None else DTYPES[kind].type(value)


def as_python(value: Any) -> Any:
    """The scalar as Python holds it."""
    if isinstance(value, Symbolic):
        return value.as_python()
    return value.item() if isinstance(value, np.generic) else value


def cast(value: Any, dtype: np.dtype[Any]) -> Any:
    if type(value) is Written and dtype == np.float64:
        return value
    return value.cast(dtype) if isinstance(value, Symbolic) else np.asarray(value).astype(dtype)[()]


def first_symbolic(values: Any) -> Symbolic | None:
    """The first stand-in among the values."""
    return next((value for value in values if isinstance(value, Symbolic)), None)


def truth_of(value: Any) -> Any:
    """Whether the number is not zero, as NumPy's truth value."""
    if kind_of(value) == "b":
        return as_numpy(value)
    return applied(np.not_equal, value, 0)


def applied(ufunc: np.ufunc, *values: Any) -> Any:
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


def boxed_array(value: Any) -> Any:
    """The value as a plain object array, so that NumPy looks no further into it; its entries are of one kind."""
    if isinstance(value, list | tuple):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        return objects([value]).reshape(())
    entries = [value.flat[place] for place in range(value.size)] if value.dtype != object else list(value.flat)
    return objects(of_one_kind(entries) if value.dtype == object else entries).reshape(value.shape)


def map_entries(function: Callable[..., Any], *arrays: Any) -> Any:
    """The function on each entry of the arrays, broadcast; a scalar where all are scalars."""
    boxed = [boxed_array(value) for value in arrays]
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
    return isinstance(key, Vector) and key.shape == shape and kind_of_all(key.flat) == "b"


def decided_index(key: Any) -> Any:
    """The key of an array, with undecided truth values and integers decided."""
    if isinstance(key, tuple):
        return tuple([decided_index(part) for part in key])
    if isinstance(key, list):
        key = np.asarray(key)
    if isinstance(key, np.ndarray) and key.dtype == object:
        if kind_of_all(key.flat) == "b":
            return decided_entries(key)
        return np.array([operator.index(entry) for entry in key], dtype=np.intp)  # also where nothing is left
    return key


def decided_entries(array: Any) -> Any:
    """Whether each entry is not zero: a plain array."""
    boxed = boxed_array(array)
    return np.array([bool(truth_of(entry)) for entry in boxed.flat], dtype=np.bool_).reshape(boxed.shape)


def refuse(values: Any, what: str) -> NoReturn:
    for value in values if isinstance(values, list | tuple) else [values]:
        entries = [value] if isinstance(value, Symbolic) else np.asarray(value).ravel().tolist()
        symbol = first_symbolic(entries)
        if symbol is not None:
            symbol.refuse(what)
    raise TypeError(what)


def leaves(values: Any) -> Iterator[Any]:
    """What stands in the values, their arrays and lists."""
    for value in values:
        if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
            yield from leaves(value.flat if isinstance(value, np.ndarray) else value)
        else:
            yield value


def any_symbolic(values: Any) -> bool:
    return first_symbolic(leaves(values)) is not None


def ordinary(value: Any) -> Any:
    """An array that could hold stand-ins, and holds none, as one of plain numbers; all else as it is."""
    if isinstance(value, list | tuple) and any(isinstance(entry, Vector) for entry in value):
        return [ordinary(entry) for entry in value]
    if not isinstance(value, Vector):
        return value
    entries = list(value.flat)
    return np.array(entries, dtype=DTYPES[kind_of_all(entries)] if entries else None).reshape(value.shape)


# --------------------------------------------------------------------------------------------- NumPy's functions

# What NumPy's functions do with stand-ins, and under `np.ufunc` all of its ufuncs: `numpy_functions` fills it.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


# Functions that write into their first argument.
IN_PLACE = frozenset({np.copyto, np.putmask, np.put, np.place, np.fill_diagonal, np.put_along_axis})


def _on_function(function: Any, args: Any, kwargs: Any) -> Any:
    if not any_symbolic([*args, *kwargs.values()]):  # arrays that could hold stand-ins, and hold none
        if function in IN_PLACE and args and isinstance(args[0], Vector):
            written = ordinary(args[0])
            function(written, *map(ordinary, args[1:]), **{name: ordinary(value) for name, value in kwargs.items()})
            args[0][...] = written
            return None
        return function(*map(ordinary, args), **{name: ordinary(value) for name, value in kwargs.items()})
    own = FUNCTIONS.get(function)
    if own is None:
        refuse([*args, *kwargs.values()], f"np.{function.__name__} of noise is not modelled")
    return own(*args, **kwargs)
