"""What explored code sees in place of `float`, `int`, `Fraction`, `math` and `numpy`: the same, but for stand-ins.

A cast must return a genuine float, and an array of floats cannot hold anything else. So while a function is explored,
these names mean versions that let stand-ins pass: in the globals of its module and of the modules of its helpers, in
its closures, and where it imports them itself. They are put back after each run, whatever happens.
"""

from __future__ import annotations

import builtins
import functools
import json
import math
import operator
import statistics
import types
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from veridp.kernel.expressions import (
    Affine,
    bounded_extreme,
    is_integer,
    is_of_record,
    numpy_function,
    settle,
    whole_of,
)
from veridp.kernel.functions import LARGEST_EXPONENT
from veridp.kernel.site import is_users_code
from veridp.kernel.stand_ins import Array, Symbolic, Vector, as_python, first_symbolic
from veridp.mechanism.declared import Adopting

MAX_DEPTH = 3  # of helpers that call helpers of other modules

# ----------------------------------------------------------------------------------------------------------- numbers


def _as_float(value: Any) -> Any:
    """What float() makes of a stand-in."""
    settled = settle(value)
    if not isinstance(settled, Affine):
        return float(settled)
    return settled.cast(np.dtype(np.float64)).as_python()


def _as_int(value: Any) -> Any:
    if (undecided := whole_of(value)) is not None:
        return undecided
    settled = settle(value)
    if not isinstance(settled, Affine) or is_of_record(settled):
        return int(settled)
    return settled.__trunc__()


def _as_fraction(numerator: Any, denominator: Any = 1) -> Any:
    """What Fraction() makes of stand-ins."""
    return settle(numerator) / settle(denominator)


def _number_type(genuine: type, cast: Callable[..., Any]) -> Any:
    """The type, whose calls let stand-ins pass; isinstance, comparison and dtype= take it for the genuine one."""

    class Meta(type):
        def __call__(cls, *arguments: Any, **named: Any) -> Any:
            if any(isinstance(argument, Symbolic) for argument in arguments):
                return cast(*arguments)
            return genuine(*arguments, **named)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, genuine)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, genuine)

        def __eq__(cls, other: object) -> bool:
            return other is genuine or other is cls

        def __hash__(cls) -> int:
            return hash(genuine)

        def __getattribute__(cls, name: str) -> Any:
            own = name == "dtype" or not hasattr(genuine, name)
            return type.__getattribute__(cls, name) if own else getattr(genuine, name)

    return Meta(genuine.__name__, (), {"dtype": np.dtype(genuine), "__doc__": genuine.__doc__})


FLOAT = _number_type(float, _as_float)
INT = _number_type(int, _as_int)
FRACTION = _number_type(Fraction, _as_fraction)


class _Binary:
    """What bin() makes of a stand-in: a text of which the ones may be counted, and nothing else."""

    def __init__(self, number: Affine) -> None:
        self.number = number

    def count(self, text: str, *ends: int) -> Any:
        return self.number.bit_count() if text == "1" and not ends else self.refuse()

    def refuse(self, *_: Any, **__: Any) -> Any:
        return operator.index(self.number)  # which refuses, as bin() does


_OWN = {"__class__", "__getattribute__", "__new__", "__init__", "__setattr__", "count"}
for _name in {"__bool__", "__int__", "__float__", "__radd__", *dir(str)} - _OWN:
    setattr(_Binary, _name, _Binary.refuse)


def _bin(value: Any) -> Any:
    """What bin() makes of a number, also of a stand-in."""
    settled = settle(value) if isinstance(value, Symbolic) else value
    return _Binary(settled) if isinstance(settled, Affine) and is_integer(settled) else bin(settled)


def _extreme(genuine: Callable[..., Any], largest: bool) -> Callable[..., Any]:
    """min() or max(), which lets an adaptive run clip what is made of data and noise without deciding."""

    @functools.wraps(genuine)
    def call(*arguments: Any, **named: Any) -> Any:
        clipped = None
        if len(arguments) == 2 and not named and any(isinstance(value, Affine) for value in arguments):
            clipped = bounded_extreme(arguments, largest)
        return genuine(*arguments, **named) if clipped is None else clipped

    return call


_BUILTINS: dict[Any, Any] = {float: FLOAT, int: INT, bin: _bin, min: _extreme(min, False), max: _extreme(max, True)}


# -------------------------------------------------------------------------------------------------------------- math


def _symbolic(values: Any) -> bool:
    return first_symbolic(values) is not None


def _checked(ufunc: np.ufunc, lowest: int, value: Any) -> Any:
    """A function of the math module that raises below, and at, the number where it begins."""
    if not (value >= lowest if ufunc is np.sqrt else value > lowest):
        raise ValueError("math domain error")
    return numpy_function(ufunc, [value]).as_python()


def _growing(ufunc: np.ufunc, value: Any) -> Any:
    """A function of the math module that raises where it leaves the floats."""
    if value > LARGEST_EXPONENT or (ufunc in (np.sinh, np.cosh) and value < -LARGEST_EXPONENT):
        raise OverflowError("math range error")
    return numpy_function(ufunc, [value]).as_python()


def _logarithm(value: Any, *base: Any) -> Any:
    log = _checked(np.log, 0, value) if isinstance(value, Symbolic) else math.log(value)
    return log / MATH.log(*base) if base else log


def _total(values: Any) -> Any:
    values = list(values)
    return sum(values) * 1.0 if _symbolic(values) else math.fsum(values)


def _product(values: Any, *, start: Any = 1) -> Any:
    return functools.reduce(operator.mul, values, start)


def _of(ufunc: np.ufunc) -> Callable[..., Any]:
    return lambda *values: numpy_function(ufunc, list(values)).as_python()


_MATH: dict[str, Callable[..., Any]] = {
    "exp": partial(_growing, np.exp), "expm1": partial(_growing, np.expm1), "sinh": partial(_growing, np.sinh),
    "cosh": partial(_growing, np.cosh), "tanh": _of(np.tanh), "atan": _of(np.arctan),
    "asinh": _of(np.arcsinh), "cbrt": _of(np.cbrt), "sin": _of(np.sin), "cos": _of(np.cos), "tan": _of(np.tan),
    "atan2": _of(np.arctan2), "hypot": _of(np.hypot),
    "log": _logarithm, "log2": partial(_checked, np.log2, 0), "log10": partial(_checked, np.log10, 0),
    "log1p": partial(_checked, np.log1p, -1), "sqrt": partial(_checked, np.sqrt, 0),
    "fabs": lambda value: abs(value) * 1.0, "pow": lambda base, exponent: (base * 1.0) ** (exponent * 1.0),
    "isclose": lambda a, b, *, rel_tol=1e-9, abs_tol=0.0: abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol),
    "isnan": lambda value: bool(np.isnan(value)), "isinf": lambda value: bool(np.isinf(value)),
    "isfinite": lambda value: bool(np.isfinite(value)),
    "copysign": lambda size, sign: abs(size) * 1.0 if sign >= 0 else abs(size) * -1.0,
    "fmod": lambda value, by: value - by * (value / by).__trunc__(),
}  # fmt: skip
_OVER_ALL: dict[str, Callable[..., Any]] = {"fsum": _total, "prod": _product}


def _switching(genuine: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """The genuine function on plain numbers, and our own on stand-ins."""

    @functools.wraps(genuine)
    def call(*arguments: Any, **named: Any) -> Any:
        if not _symbolic(arguments):
            return genuine(*arguments, **named)
        return own(*(settle(argument) for argument in arguments), **named)

    return call


class _Module(types.ModuleType):
    """A module in place of another, for what it does not define itself."""

    def __init__(self, genuine: types.ModuleType, own: dict[str, Any]) -> None:
        super().__init__(genuine.__name__, genuine.__doc__)
        self.__dict__["_genuine"] = genuine
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_genuine"], name)


MATH = _Module(
    math, {name: _switching(getattr(math, name), own) for name, own in _MATH.items() if hasattr(math, name)} | _OVER_ALL
)


def _mean(data: Any) -> Any:
    values = list(data)
    return sum(values) / len(values) if _symbolic(values) else statistics.mean(values)


def _fmean(data: Any, weights: Any = None) -> Any:
    values = list(data)
    return _mean(values) * 1.0 if weights is None and _symbolic(values) else statistics.fmean(values, weights)


def _of_list(function: Callable[..., Any], own: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function of the statistics module, which NumPy has too."""

    @functools.wraps(function)
    def call(data: Any, *options: Any) -> Any:
        values = list(data)
        if not _symbolic(values):
            return function(values, *options)
        if options:
            raise TypeError(f"statistics.{function.__name__} of noise is not modelled with a mean of its own")
        return as_python(own(Vector.of(values)))

    return call


_DEVIATIONS: dict[str, Callable[[Any], Any]] = {
    "median": np.median, "pvariance": np.var, "pstdev": np.std,
    "variance": partial(np.var, ddof=1), "stdev": partial(np.std, ddof=1),
}  # fmt: skip
STATISTICS = _Module(
    statistics,
    {"mean": _mean, "fmean": _fmean}
    | {name: _of_list(getattr(statistics, name), own) for name, own in _DEVIATIONS.items()},
)


def _dumps(value: Any, **options: Any) -> Any:
    """What json.dumps writes, where that is only returned."""
    numbers: dict[str, str] = {}

    def marked(part: Any) -> Any:
        if isinstance(part, list | tuple):
            return [marked(entry) for entry in part]
        if isinstance(part, dict):
            return {key: marked(entry) for key, entry in part.items()}
        number = settle(part) if isinstance(part, Symbolic) else part
        if not isinstance(number, Affine) or (number.kind == "i" and number.numpy):  # which json refuses
            return number
        numbers[f'"{_JSON_MARK}{len(numbers)}"'] = format(number, "")
        return f"{_JSON_MARK}{len(numbers) - 1}"

    text = json.dumps(marked(value), **options)
    for mark, number in numbers.items():
        text = text.replace(mark, number)
    return text


_JSON_MARK = "the number of veridp's mark "
JSON = _Module(json, {"dumps": _dumps})

# ------------------------------------------------------------------------------------------------------------- numpy


def _holding(array: Any) -> Any:
    """The array in a form whose entries, or else whose index, may become stand-ins."""
    if type(array) is not np.ndarray or array.dtype not in (np.bool_, np.int64, np.float64):
        return _indexed(array)
    held = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        held[place] = array[place]
    return held.view(Vector)


def _indexed(answer: Any) -> Any:
    """The array, or the arrays in a tuple, in a form whose index may hold stand-ins; all else as it is."""
    if type(answer) is tuple:
        return tuple(map(_indexed, answer))
    return answer.view(Array) if type(answer) is np.ndarray else answer


def _making(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a new array of plain numbers, or of stand-ins."""

    @functools.wraps(make)
    def call(*arguments: Any, **named: Any) -> Any:
        return _holding(make(*arguments, **named))

    return call


def _array(genuine: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(genuine)
    def call(values: Any, dtype: Any = None, **named: Any) -> Any:
        vector = as_vector(values, stacked=True)
        if isinstance(vector, Vector):
            copied = vector if genuine is not np.array or vector is not values else vector.copy()
            return copied if dtype is None else copied.astype(dtype)
        return _holding(genuine(values, dtype, **named))

    return call


def as_vector(values: Any, stacked: bool = False) -> Any:
    """Numbers in lists, with stand-ins among them, as an array; all else as it is.

    Arrays in a list stay apart, unless they are to be stacked.
    """
    if isinstance(values, Vector) or not isinstance(values, list | tuple | np.ndarray):
        return values
    if isinstance(values, np.ndarray):
        held = values.dtype == object and _symbolic(values.flat)
        return Vector.of(list(values.flat), values.shape) if held else values
    if not stacked and any(isinstance(value, np.ndarray) for value in values):
        return [as_vector(value) for value in values]
    shapes = {_shape(value) for value in values}
    if len(shapes) != 1 or None in shapes:
        return values
    flat = list(_flat(values))
    return Vector.of(flat, (len(values), *shapes.pop())) if _symbolic(flat) else values  # type: ignore[misc]


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of nested lists and arrays; None where they are ragged."""
    if isinstance(value, np.ndarray):
        return tuple(value.shape)
    if not isinstance(value, list | tuple):
        return ()
    shapes = {_shape(entry) for entry in value}
    if len(shapes) > 1 or None in shapes:
        return None
    return (len(value), *(shapes.pop() or ())) if shapes else (0,)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield from value.flat
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _flat(entry)
    else:
        yield value


def _given_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of NumPy, which is told of stand-ins in lists."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        named = {name: as_vector(value) for name, value in named.items()}
        return _indexed(function(*map(as_vector, arguments), **named))

    return call


def _full(shape: Any, fill_value: Any, dtype: Any = None, **named: Any) -> Any:
    if not _symbolic([fill_value]):
        return _holding(np.full(shape, fill_value, dtype, **named))
    kind = np.dtype(np.int64 if settle(fill_value).kind == "i" else np.float64) if dtype is None else dtype
    return np.full_like(_holding(np.zeros(shape)), fill_value, kind, **named)


def _from_iterator(iterable: Any, dtype: Any, count: int = -1) -> Any:
    values = list(iterable)
    return _array(np.asarray)(values if count < 0 else values[:count], dtype)


_KEPT = frozenset({"random", "ndarray", "generic", "integer", "floating", "number", "errstate", "dtype"})


class _NumPy(_Module):
    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name in _KEPT or name.startswith("_") or isinstance(found, type) or not callable(found):
            return found
        wrapped = found if isinstance(found, np.ufunc) else _given_arrays(found)
        self.__dict__[name] = wrapped
        return wrapped


class _LinearAlgebra(_Module):
    def __getattr__(self, name: str) -> Any:
        found = getattr(np.linalg, name)
        return _given_arrays(found) if callable(found) and not isinstance(found, type) else found


class _Ufunc:
    """A ufunc that is told of stand-ins in lists; it passes for the ufunc otherwise."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._ufunc(*map(as_vector, arguments), **named)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ufunc, name)
        return _given_arrays(found) if name in ("reduce", "accumulate", "outer", "at") else found


_NUMPY_TYPES = {
    np.float64: _number_type(np.float64, lambda value: settle(value).cast(np.dtype(np.float64))),
    np.int64: _number_type(np.int64, lambda value: settle(value).cast(np.dtype(np.int64))),
}
NUMPY = _NumPy(
    np,
    {name: _making(getattr(np, name)) for name in ("zeros", "empty", "ones", "arange", "linspace", "eye")}
    | {name: _making(getattr(np, name)) for name in ("zeros_like", "ones_like", "empty_like", "full_like", "identity")}
    | {name: _array(getattr(np, name)) for name in ("array", "asarray", "asanyarray", "ascontiguousarray", "copy")}
    | {name: _Ufunc(value) for name, value in vars(np).items() if isinstance(value, np.ufunc)}
    | {
        "full": _full,
        "fromiter": _from_iterator,
        "linalg": _LinearAlgebra(np.linalg, {}),
    }
    | {name: own for genuine, own in _NUMPY_TYPES.items() for name, value in vars(np).items() if value is genuine},
)

MODULES: dict[str, types.ModuleType] = {"json": JSON, "math": MATH, "numpy": NUMPY, "statistics": STATISTICS}
_GENUINE = {"json": json, "math": math, "numpy": np, "statistics": statistics}


# ---------------------------------------------------------------------------------------------------------- swapping


def _replacement(value: Any) -> Any:
    """What stands in place of a global; None where it stays."""
    if isinstance(value, types.ModuleType):
        own = MODULES.get(value.__name__)
        return own if own is not None and value is _GENUINE.get(value.__name__) else None
    if type(value) is np.ndarray:
        return _indexed(value)
    name, module = getattr(value, "__name__", None), getattr(value, "__module__", None)
    if not isinstance(name, str) or not callable(value):
        return None
    if module == "builtins" and any(value is each for each in _BUILTINS):
        return _BUILTINS[value]
    if value is Fraction:
        return FRACTION
    if module in ("json", "math", "statistics") or (isinstance(module, str) and module.partition(".")[0] == "numpy"):
        source = MODULES[module.partition(".")[0]]
        if value is getattr(_GENUINE[source.__name__], name, None):
            own = getattr(source, name)
            return None if own is value else own
    return None


def _functions_of(function: Any) -> Iterator[types.FunctionType]:
    """The Python functions behind a callable: of a partial, a method, an object that can be called."""
    while isinstance(function, partial | Adopting):
        function = function.func if isinstance(function, partial) else function.function
    function = getattr(function, "__wrapped__", function)
    if isinstance(function, types.MethodType):
        function = function.__func__
    if isinstance(function, types.FunctionType):
        yield function
    elif callable(function) and isinstance(called := vars(type(function)).get("__call__"), types.FunctionType):
        yield called


def _reached(function: Any) -> tuple[list[dict[str, Any]], list[types.CellType]]:
    """The globals and the closures that code of the user's reaches from here."""
    spaces: dict[int, dict[str, Any]] = {}
    cells: dict[int, types.CellType] = {}
    pending: list[tuple[types.FunctionType, int]] = [(found, 0) for found in _functions_of(function)]
    seen: set[int] = set()
    while pending:
        current, depth = pending.pop()
        if id(current) in seen or not is_users_code(current.__code__.co_filename):
            continue
        seen.add(id(current))
        for cell in current.__closure__ or ():
            cells[id(cell)] = cell
            pending += [(found, depth) for found in _functions_of(_content(cell))]
        space = current.__globals__
        if id(space) in spaces:
            continue
        spaces[id(space)] = space
        if depth < MAX_DEPTH:
            for value in list(space.values()):
                pending += [(found, depth + 1) for found in _functions_of(value)]
                if isinstance(value, type):
                    methods = [method for method in vars(value).values() if isinstance(method, types.FunctionType)]
                    pending += [(method, depth + 1) for method in methods[:1]]
    return list(spaces.values()), list(cells.values())


def seeing_stand_ins(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which sees these modules and types while it runs, and so does the code that it calls."""
    if isinstance(function, Adopting):
        function.sources  # noqa: B018  # they are looked for once, among the genuine modules
    spaces, cells = _reached(function)
    names = [
        (space, name, own)
        for space in spaces
        for name, value in {**{each.__name__: each for each in _BUILTINS}, **space}.items()
        if (own := _replacement(value)) is not None
    ]
    contents = [(cell, own) for cell in cells if (own := _replacement(_content(cell))) is not None]
    if not spaces:
        return function

    def run(*arguments: Any, **named: Any) -> Any:
        kept = [(space, name, own, space.get(name, _ABSENT)) for space, name, own in names]
        held = [(cell, own, cell.cell_contents) for cell, own in contents]
        importing = builtins.__import__
        try:
            for space, name, own in names:
                space[name] = own
            for cell, own in contents:
                cell.cell_contents = own
            builtins.__import__ = partial(_imported, importing, spaces)
            return function(*arguments, **named)
        finally:
            builtins.__import__ = importing
            for space, name, own, value in kept:
                if space.get(name) is not own:  # the function has put something there itself: let it be seen
                    continue
                if value is _ABSENT:
                    del space[name]
                else:
                    space[name] = value
            for cell, own, value in held:
                if _content(cell) is own:
                    cell.cell_contents = value

    return run


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def _imported(importing: Callable[..., Any], spaces: Sequence[Any], name: str, *others: Any, **named: Any) -> Any:
    """What an import gives: our own module where code of the user's asks for it."""
    found = importing(name, *others, **named)
    asking = named.get("globals", others[0] if others else None)
    return MODULES.get(name, found) if any(asking is space for space in spaces) else found


_ABSENT: Any = object()
